"""What a task costs the database: bytes of log, rows and disk, statements, connections. `docs/explanation/scale.md` reckons with it."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from tests.servers.postgres import PostgresServer

import outlast
from benchmarks.measure import Result
from benchmarks.queue_contender import WorkerProcess
from benchmarks.queue_outlast import OutlastPostgres, OutlastSQLite
from benchmarks.queue_worker import DRAIN, SERVE

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS = 20_000
SINGLES = 500
BATCHES = (1, 10, 100, 500)
TURNS = 100
DRAINS = 3
IDLE = 10.0
"""Seconds for which a worker without work is watched."""


def run() -> list[Result]:
    """Return the figures, one line each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        server = PostgresServer(folder / "postgres", durable=True, max_connections=80, settings={"autovacuum": "off"})
        stack.callback(server.stop)
        server.start()
        postgres = stack.enter_context(closing(OutlastPostgres(server.url)))
        postgres.prepare()
        sqlite = stack.enter_context(closing(OutlastSQLite(str(folder / "outlast.db"))))
        sqlite.prepare()
        watch = stack.enter_context(closing(psycopg.connect(server.url, autocommit=True)))
        return [
            *_log(postgres, watch),
            *_computing(postgres, server),
            *_turns(postgres, watch),
            *_idle(postgres, watch),
            *_file(sqlite),
        ]


def _figure(what: str, value: float, against: str, unit: str, seconds: float = 0.0) -> Result:
    return Result(what, value, against, None, seconds, unit=unit)


def _log(postgres: OutlastPostgres, watch: psycopg.Connection[Any]) -> list[Result]:
    """Bytes of write-ahead log per task and dead rows per task; behind a checkpoint, which is the worst case, and not."""
    results = []

    def measured(what: str, tasks: int, action: Callable[[], object]) -> None:
        watch.execute("CHECKPOINT")
        before = _position(watch)
        start = time.perf_counter()
        action()
        seconds = (time.perf_counter() - start) / tasks
        results.append(_figure(what, (_position(watch) - before) / tasks, "log per task", "bytes", seconds))

    postgres.clear()
    measured("PostgreSQL: enqueue in bulk", TASKS, lambda: postgres.enqueue_bulk(TASKS))
    measured("PostgreSQL: enqueue one by one", SINGLES, lambda: [postgres.enqueue_one(n) for n in range(SINGLES)])
    postgres.clear()
    postgres.fill(TASKS)
    watch.execute("VACUUM ANALYZE task_queue")
    dead = _dead(watch)
    measured("PostgreSQL: claim, run and settle", TASKS, lambda: _drained(postgres))
    results.append(
        _figure("PostgreSQL: dead rows that a success leaves", (_dead(watch) - dead) / TASKS, "rows per task", "rows")
    )
    watch.execute("VACUUM task_queue")
    size = watch.execute("SELECT pg_total_relation_size('task_queue')").fetchone()[0]
    results.append(_figure("PostgreSQL: a task that is kept, with its indexes", size / TASKS, "disk per task", "bytes"))
    return results


def _drained(postgres: OutlastPostgres) -> float:
    """Drain what is there, in a process of its own; return what that has computed for, in seconds."""
    worker = WorkerProcess(postgres, DRAIN, TASKS)
    try:
        worker.begin()
        return float(json.loads(worker.expect("drained"))["cpu"])
    finally:
        worker.end()


def _computing(postgres: OutlastPostgres, server: PostgresServer) -> list[Result]:
    """Processor time per task, of the worker and of its sessions at the database; others that compute do not change it."""
    own, theirs = [], []
    for _ in range(DRAINS):
        postgres.clear()
        postgres.fill(TASKS)
        before = _children(server.pid)
        own.append(_drained(postgres) / TASKS)
        theirs.append((_children(server.pid) - before) / TASKS)
    return [
        _figure("PostgreSQL: a worker computes", statistics.median(own) * 1e6, "time per task", "µs"),
        _figure("PostgreSQL: its sessions compute", statistics.median(theirs) * 1e6, "time per task", "µs"),
    ]


def _children(pid: int | None) -> float:
    """Return for how long the children of a process have computed that are gone, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _turns(postgres: OutlastPostgres, watch: psycopg.Connection[Any]) -> list[Result]:
    """What a turn that settles a batch and claims the next takes: time, and processor time of the database."""
    from outlast.ports.rows import Claim, SettleAndClaim, WorkerRow

    store, results, now = postgres.app.store, [], datetime.now(UTC)
    row = WorkerRow("costs", "costs", "localhost", 1, ("default",), 500, "running", 0, True, now, now)  # noqa: FBT003  # a row
    postgres.clear()
    store.register(row, lease=3600.0)
    postgres.fill(sum(BATCHES) * (TURNS + 3))
    held: list[tuple[int, int]] = []
    for batch in BATCHES:
        times, computed = [], 0.0
        for number in range(TURNS + 2):
            if number == 2:  # by then the statements are prepared, and as many are settled as claimed
                computed = _computed(watch)
            start = time.perf_counter()
            claimed = store.settle_and_claim(
                SettleAndClaim("costs", held, [], [], Claim(("default",), batch, batch))
            ).claimed
            times.append(time.perf_counter() - start)
            held = [(task.id, task.epoch) for task in claimed]
        computed = (_computed(watch) - computed) / TURNS
        what = f"PostgreSQL: settle {batch} and claim {batch}, the database computes"
        results.append(_figure(what, computed * 1e6, "time per turn", "µs", statistics.median(times[2:])))
    return results


def _computed(watch: psycopg.Connection[Any]) -> float:
    """Return for how long the sessions of the others have computed, in seconds."""
    pids = watch.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0]) for (pid,) in pids) / 1e9


def _idle(postgres: OutlastPostgres, watch: psycopg.Connection[Any]) -> list[Result]:
    """Connections and transactions of a worker that has nothing to do."""
    postgres.clear()
    at_rest, others = _transactions(watch), _connections(watch)
    time.sleep(IDLE / 2)
    at_rest = (_transactions(watch) - at_rest) * 2
    with WorkerProcess(postgres, SERVE) as worker:
        worker.begin()
        time.sleep(2)
        before = _transactions(watch)
        time.sleep(IDLE)
        after = _transactions(watch)
        mine = _connections(watch) - others
    return [
        _figure("PostgreSQL: connections of a worker at rest", mine, "each worker", "connections"),
        _figure(
            "PostgreSQL: transactions of a worker at rest", (after - before - at_rest) / IDLE, "per second", "each"
        ),
    ]


def _file(sqlite: OutlastSQLite) -> list[Result]:
    """Disk of a finished task in a file."""
    sqlite.clear()
    sqlite.execute("VACUUM")
    sqlite.enqueue_bulk(TASKS)
    app = outlast.App(f"sqlite:///{sqlite.file}")
    app.close()
    with closing(sqlite3.connect(sqlite.file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages, size = (connection.execute(f"PRAGMA {each}").fetchone()[0] for each in ("page_count", "page_size"))
    return [_figure("SQLite: a task that is kept, with its indexes", pages * size / TASKS, "disk per task", "bytes")]


def _position(watch: psycopg.Connection[Any]) -> int:
    return int(watch.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()[0])


def _dead(watch: psycopg.Connection[Any]) -> int:
    time.sleep(1.2)  # the figures of other sessions come late
    watch.execute("SELECT pg_stat_clear_snapshot()")
    return int(watch.execute("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'task_queue'").fetchone()[0])


def _transactions(watch: psycopg.Connection[Any]) -> int:
    watch.execute("SELECT pg_stat_clear_snapshot()")
    return int(
        watch.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").fetchone()[0]
    )


def _connections(watch: psycopg.Connection[Any]) -> int:
    return int(watch.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").fetchone()[0])
