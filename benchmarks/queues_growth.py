"""What a queue costs when it has grown: claiming beside millions of rows that are not ready, and a worker's memory.

Filling the tables takes minutes, so this section runs only by name or with --growth.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.postgres import PostgresServer

from benchmarks import queue_outlast
from benchmarks.measure import Result, interleaved, ratio
from benchmarks.queue_outlast import OutlastPostgres, OutlastSQLite
from benchmarks.queue_pgqueuer import PGQueuer
from benchmarks.queue_raw_postgres import RawPostgres
from benchmarks.queue_raw_sqlite import RawSQLite
from benchmarks.queue_worker import RSS_MARKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.queue_contender import Contender

EACH = 1_000_000
"""Rows that are scheduled, and as many that cool down, and that are finished."""

FEW = 333
"""The same for the small table, which makes a thousand rows."""

CLAIMS, LIMIT = 20, 100
ROUNDS = 11
SLOWER = 1.5
MIB = 1024**2


def run() -> list[Result]:
    """Return the results."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        server = PostgresServer(folder / "postgres", durable=True, max_connections=50)
        stack.callback(server.stop)
        server.start()
        server.execute("CREATE DATABASE grown")
        urls = server.url, server.url.removesuffix(server.database) + "grown"
        ours = queue_outlast.available()
        pairs: list[tuple[str, float | None, list[Contender]]] = []
        if ours:
            pairs.append(("SQLite: Outlast", SLOWER, [OutlastSQLite(str(folder / f"{n}.db")) for n in range(2)]))
            pairs.append(("PostgreSQL: Outlast", SLOWER, [OutlastPostgres(url) for url in urls]))
        pairs.append(("SQLite: plain SQL", None, [RawSQLite(str(folder / f"raw{n}.db")) for n in range(2)]))
        pairs.append(("PostgreSQL: plain SQL", None, [RawPostgres(url) for url in urls]))
        results = [_growth(*pair) for pair in pairs]
        crowd: dict[str, Contender] = {"pgqueuer": PGQueuer(server.url)}
        if ours:
            crowd = {
                "Outlast, SQLite": OutlastSQLite(str(folder / "memory.db")),
                "Outlast, PostgreSQL": OutlastPostgres(server.url),
                **crowd,
            }
        return [*results, *(_memory(name, contender) for name, contender in crowd.items())]


def _growth(name: str, bound: float | None, pair: list[Contender]) -> Result:
    """Claim from a small table and from a grown one in turn."""
    small, grown = pair
    with closing(small), closing(grown):
        for contender, each in ((small, FEW), (grown, EACH)):
            contender.prepare()
            contender.pad(each)
        times = interleaved({"1,000 rows": _claiming(small), "3,000,000 rows": _claiming(grown)}, ROUNDS)
    result = ratio(times, "3,000,000 rows", "1,000 rows", bound)
    return Result(f"claim from 3,000,000 rows, {name}", result.ratio, "1,000 rows", bound, result.seconds)


def _claiming(contender: Contender) -> Callable[[], float]:
    """Return what makes a table's tasks ready, claims them in batches, and returns the seconds per claim."""

    def claims() -> float:
        contender.fill(CLAIMS * LIMIT)
        return sum(contender.claim(LIMIT) for _ in range(CLAIMS)) / CLAIMS

    return claims


def _memory(name: str, contender: Contender) -> Result:
    """How much a worker's memory grows between two numbers of tasks."""
    with closing(contender):
        contender.prepare()
        seconds, reports = contender.drain_reports(RSS_MARKS[-1])
    before, after = reports[0]["rss"]
    what = f"memory of a worker, task {RSS_MARKS[0]:,} to {RSS_MARKS[1]:,}: {name}"
    return Result(what, (after - before) / MIB, "grows by", None, seconds, unit="MiB")
