"""A pipeline of nodes with retries and a fallback: ``python -m examples.railway_pipeline``.

Three price lists go through the same steps: fetch, check, save. One server answers 503 twice, one is down, one has no
such list. Retries handle the first. For the second, ``on_error`` takes the list of yesterday from SQLite. The third is
raised at once, because no retry can help. The servers are those of ``python -m outlast.testing.server``.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import tempfile
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import outlast
from outlast.testing.server import serve

# One policy for all nodes that talk to a server. Real programs wait longer: base_delay=1.0.
API = outlast.RetryPolicy(max_attempts=3, backoff="exponential", base_delay=0.05, retry_on=outlast.RETRYABLE)


@outlast.node(retry_policy=API)
def fetch(url: str) -> list[int]:
    """Return the prices of a shop."""
    with urllib.request.urlopen(url, timeout=10) as response:
        prices: list[int] = json.load(response)
    return prices


@outlast.node
def check(prices: list[int]) -> list[int]:
    """Return the prices in order, or fail if there are none."""
    if not prices:
        message = "the list is empty"
        raise outlast.errors.ContentError(message)
    return sorted(prices)


@outlast.node(retries=3, retry_on=(sqlite3.OperationalError,))  # the short form; "database is locked" goes away
def save(prices: list[int], shop: str, database: sqlite3.Connection) -> str:
    """Replace the stored prices of a shop."""
    with database:
        database.execute("REPLACE INTO prices (shop, list) VALUES (?, ?)", (shop, json.dumps(prices)))
    return f"saved {prices}"


def collect(shop: str, url: str, database: sqlite3.Connection) -> None:
    """Run the pipeline for one shop and print how each step went."""

    def use_stored_prices(error: Exception, step: str) -> list[int]:
        """Replace a fetch that failed after all its attempts; every other error stays an error."""
        if step != "fetch" or not outlast.classify(error).retryable:
            raise error
        (stored,) = database.execute("SELECT list FROM prices WHERE shop = ?", (shop,)).fetchone()
        prices: list[int] = json.loads(stored)
        return prices

    trace = outlast.Trace()
    values = {"url": url, "shop": shop, "database": database}
    try:
        result = outlast.typed_pipeline(fetch, check, save, params=values, on_error=use_stored_prices, trace=trace)
    except urllib.error.HTTPError as error:
        result = f"failed: {error} ({outlast.classify(error).category})"
        error.close()
    print(f"{shop}: {result}")
    for step in trace.steps:
        print(f"    {step.name}: {step.outcome}, attempts: {step.attempts}")


def main() -> None:
    """Collect three shops against a server on this machine."""
    logging.basicConfig(level=logging.CRITICAL)  # WARNING shows each retry
    with (
        tempfile.TemporaryDirectory() as folder,
        serve() as base,
        closing(sqlite3.connect(Path(folder) / "prices.db")) as database,
    ):
        database.execute("CREATE TABLE prices (shop TEXT PRIMARY KEY, list TEXT NOT NULL)")
        database.execute("INSERT INTO prices VALUES ('down', '[4, 5]')")  # from yesterday
        database.commit()
        for shop, path in (("flaky", "items"), ("down", "down"), ("gone", "gone")):
            collect(shop, f"{base}/{path}", database)
        print("stored:", database.execute("SELECT shop, list FROM prices ORDER BY shop").fetchall())


if __name__ == "__main__":
    main()
