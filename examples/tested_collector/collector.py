"""A small collector of daily reports: it fetches one, puts it on a shelf, and adds it to an index.

Its tests, in the folder beside it, prove that it survives what goes wrong: run ``pytest`` here.

    python collector.py 2026-01-01 2026-01-02    collect these days
"""

import os
import sys
import urllib.request
from pathlib import Path

import outlast

app = outlast.App(os.environ.get("COLLECTOR_STORE", "sqlite:///collector.db"))


def setting(name: str) -> str:
    """Return COLLECTOR_SOURCE, where the reports are, or COLLECTOR_SHELF, where they go."""
    return os.environ[f"COLLECTOR_{name}"]


@outlast.retry(max_attempts=3)
def fetch(day: str) -> str:
    """Return the report of a day."""
    with urllib.request.urlopen(f"{setting('SOURCE')}/{day}.txt", timeout=10) as response:
        return response.read().decode()


def shelve(day: str, text: str) -> None:
    """Put a report on the shelf, whole or not at all."""
    shelf = Path(setting("SHELF"))
    draft = shelf / f".{day}"
    draft.write_text(text, "utf-8")
    draft.replace(shelf / f"{day}.txt")


def index(day: str) -> None:
    """Add a day to the index, once."""
    file = Path(setting("SHELF"), "index")
    known = file.read_text("utf-8").split() if file.exists() else []
    if day not in known:
        file.write_text("\n".join(sorted([*known, day])), "utf-8")


@app.task
def collect(day: str) -> None:
    """Fetch, shelve, index."""
    shelve(day, fetch(day))
    outlast.point("after-shelving")
    index(day)


def work() -> None:
    """Collect what is waiting, one after the other."""
    app.worker(concurrency=1).drain()


if __name__ == "__main__":
    app.create_schema()
    collect.enqueue_many({"day": day} for day in sys.argv[1:])
    work()
