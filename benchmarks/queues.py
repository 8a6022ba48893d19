"""The durable queue beside its peers and beside plain SQL: draining, enqueueing, waking up, surviving kill -9.

SQLite works on real files with synchronous=FULL, PostgreSQL is a real server with its default durability. Workers are
processes of their own. Times are per task; rates are compared round by round. What takes minutes is in
`queues_growth.py`.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.postgres import PostgresServer

from benchmarks import queue_outlast
from benchmarks.measure import Result, interleaved, rate
from benchmarks.queue_contender import WorkerProcess
from benchmarks.queue_huey import Huey
from benchmarks.queue_outlast import OutlastPostgres, OutlastSQLite, noop_async
from benchmarks.queue_pgqueuer import PGQueuer
from benchmarks.queue_procrastinate import Procrastinate
from benchmarks.queue_raw_postgres import RawPostgres
from benchmarks.queue_raw_sqlite import RawSQLite
from benchmarks.queue_worker import HOLD, INSIDE, SERVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.queue_contender import Contender

    Times = dict[str, list[float]]

ROUNDS = 5
ENQUEUE_ROUNDS = 7
WAITS = 60

RAW, HUEY, PGQUEUER, PROCRASTINATE = "plain SQL", "huey", "pgqueuer", "procrastinate"
SYNC, ASYNC, TWO = "Outlast, sync tasks", "Outlast, async tasks", "Outlast, 2 workers"
OURS = "Outlast"


@dataclass(frozen=True)
class Bound:
    """A promise: one contender's rate is at least so many times another's."""

    what: str
    against: str
    at_least: float


DRAIN_SQLITE = (Bound(SYNC, HUEY, 10), Bound(SYNC, RAW, 0.25), Bound(ASYNC, HUEY, 10), Bound(ASYNC, RAW, 0.25))
DRAIN_POSTGRES = (Bound(SYNC, PGQUEUER, 2), Bound(ASYNC, PGQUEUER, 2), Bound(TWO, PGQUEUER, 3))
SINGLES = (Bound(OURS, RAW, 0.7),)
BULK_SQLITE = (Bound(OURS, RAW, 0.4),)
BULK_POSTGRES = (Bound(OURS, PGQUEUER, 3),)
WAIT_MS = {"SQLite, one process": 5.0, "SQLite, two processes": 60.0, "PostgreSQL": 5.0}
RESTART_S = {"SQLite": 3.0, "PostgreSQL": 30.0}


def run() -> list[Result]:
    """Return the results; without a queue in Outlast, those of the others."""
    with prepared() as (sqlite, postgres):
        return [
            *_draining("SQLite", sqlite, DRAIN_SQLITE),
            *_draining("PostgreSQL", postgres, DRAIN_POSTGRES),
            *_enqueueing("SQLite", sqlite, BULK_SQLITE),
            *_enqueueing("PostgreSQL", postgres, BULK_POSTGRES),
            *_waking(sqlite, postgres),
            *_restarting(sqlite, postgres),
        ]


@contextmanager
def prepared() -> Iterator[tuple[dict[str, Contender], dict[str, Contender]]]:
    """Yield the contenders on each database, ready to work."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        server = PostgresServer(folder / "postgres", durable=True, max_connections=50)
        stack.callback(server.stop)
        server.start()
        sqlite: dict[str, Contender] = {RAW: RawSQLite(str(folder / "raw.db")), HUEY: Huey(str(folder / "huey.db"))}
        postgres: dict[str, Contender] = {
            RAW: RawPostgres(server.url),
            PGQUEUER: PGQueuer(server.url),
            PROCRASTINATE: Procrastinate(server.url),
        }
        if queue_outlast.available():
            sqlite[SYNC] = OutlastSQLite(str(folder / "sync.db"))
            sqlite[ASYNC] = OutlastSQLite(str(folder / "async.db"), noop_async)
            postgres[SYNC] = OutlastPostgres(server.url)
            postgres[ASYNC] = OutlastPostgres(server.url, noop_async)
        else:
            print("  Outlast has no queue yet: the others alone")
        for contender in (*sqlite.values(), *postgres.values()):
            contender.prepare()
            stack.enter_context(closing(contender))
        yield sqlite, postgres


def _draining(database: str, contenders: dict[str, Contender], bounds: tuple[Bound, ...]) -> list[Result]:
    """No-op tasks from the first start to the last end, by one worker process, and by two."""
    runs: dict[str, Callable[[], float]] = {name: contender.drain for name, contender in contenders.items()}
    if PGQUEUER in contenders:
        runs[f"{PGQUEUER}, 2 workers"] = lambda: contenders[PGQUEUER].drain(2)
        if SYNC in contenders:
            runs[TWO] = lambda: contenders[SYNC].drain(2)
    return _compared(f"{database}, drain", interleaved(runs, ROUNDS), bounds)


def _enqueueing(database: str, contenders: dict[str, Contender], bulk: tuple[Bound, ...]) -> list[Result]:
    """One task per call, and as many per call as suits the database."""
    chosen = {OURS if name == SYNC else name: contender for name, contender in contenders.items() if name != ASYNC}
    singles = interleaved({name: contender.one_by_one for name, contender in chosen.items()}, ENQUEUE_ROUNDS)
    many = {name: contender.in_bulk for name, contender in chosen.items() if contender.bulk}
    return [
        *_compared(f"{database}, enqueue", singles, SINGLES),
        *_compared(f"{database}, enqueue in bulk", interleaved(many, ENQUEUE_ROUNDS), bulk),
    ]


def _waking(sqlite: dict[str, Contender], postgres: dict[str, Contender]) -> list[Result]:
    """From the call that enqueues to the start of the task, with a worker that has nothing else to do."""
    workers = {
        f"{database}: {OURS if name == SYNC else name}": contender
        for database, contenders in (("SQLite, two processes", sqlite), ("PostgreSQL", postgres))
        for name, contender in contenders.items()
        if name not in {RAW, ASYNC}
    }
    waits = _waits(workers)
    if SYNC in sqlite:
        sqlite[SYNC].clear()
        with WorkerProcess(sqlite[SYNC], INSIDE, WAITS) as worker:
            worker.begin()
            waits[f"SQLite, one process: {OURS}"] = json.loads(worker.expect("waits"))
    results = []
    for name, seconds in waits.items():
        database, _, who = name.partition(": ")
        p50 = statistics.median(seconds)
        bound = WAIT_MS[database] if who == OURS else None
        results.append(Result(f"enqueue to start, {name}", p50 * 1e3, "p50, idle", bound, p50, unit="ms"))
    return results


def _waits(contenders: dict[str, Contender]) -> dict[str, list[float]]:
    """Wake idle workers in turn, at random moments; return the waits by name."""
    waits: dict[str, list[float]] = {name: [] for name in contenders}
    with ExitStack() as stack:
        workers = {}
        for name, contender in contenders.items():
            contender.clear()
            workers[name] = stack.enter_context(WorkerProcess(contender, SERVE))
            workers[name].begin()
        for number in range(-2, WAITS):  # the first two are not counted
            for name, contender in contenders.items():
                time.sleep(random.uniform(0.02, 0.12))
                asked = time.monotonic()
                contender.enqueue_one(number)
                shown, started = workers[name].expect("start").split()
                if int(shown) != number:
                    raise RuntimeError(f"{name}: task {shown} started, {number} was enqueued")
                if number >= 0:
                    waits[name].append(float(started) - asked)
    return waits


def _restarting(sqlite: dict[str, Contender], postgres: dict[str, Contender]) -> list[Result]:
    """From kill -9 of a worker in mid-task until another one, which is alive, starts the task again."""
    contenders = {"PostgreSQL: pgqueuer": postgres[PGQUEUER]}
    if SYNC in sqlite:
        contenders |= {f"SQLite: {OURS}": sqlite[SYNC], f"PostgreSQL: {OURS}": postgres[SYNC]}
    results = []
    with ExitStack() as stack:
        first, second, killed = {}, {}, {}
        for name, contender in contenders.items():
            contender.clear()
            first[name] = stack.enter_context(WorkerProcess(contender, HOLD))
            first[name].begin()
            contender.enqueue_one(1)
            first[name].expect("start")
            second[name] = stack.enter_context(WorkerProcess(contender, HOLD))
            second[name].begin()
        time.sleep(2)  # let the second ones look round
        for name in contenders:
            killed[name] = time.monotonic()
            first[name].kill()
        for name in contenders:
            seconds = float(second[name].expect("start").split()[1]) - killed[name]
            database, _, who = name.partition(": ")
            bound = RESTART_S[database] if who == OURS else None
            results.append(Result(f"kill -9 to restart, {name}", seconds, "once", bound, seconds, unit="s"))
    return results


def _compared(what: str, times: Times, bounds: tuple[Bound, ...]) -> list[Result]:
    """Return the promises that can be judged, then everybody's rate against plain SQL."""
    judged = [
        rate(times, f"{what}: {bound.what}", (bound.what, bound.against), bound.at_least)
        for bound in bounds
        if bound.what in times
    ]
    promised = {(bound.what, bound.against) for bound in bounds}
    shown = [rate(times, f"{what}: {name}", (name, RAW), None) for name in times if (name, RAW) not in promised]
    return [*judged, *shown]
