"""Outlast, by its public face alone: an app, a task, a worker."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import outlast
from benchmarks.queue_contender import Contender
from benchmarks.queue_worker import DRAIN, INSIDE, say

if TYPE_CHECKING:
    from benchmarks.queue_worker import Duty

TABLES = (
    "task_queue", "task_attempts", "task_results", "dead_letter_queue", "workers",
    "task_flow", "failure_groups", "failure_flow", "replays", "payload_edits",
)  # fmt: skip
WORKER = "benchmark"
COUNT_LEFT = "SELECT count(*) FROM task_queue WHERE status <> 'DONE'"
PAD_SQLITE = """
INSERT INTO task_queue (task_type, status, resource, next_run_after)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {each})
SELECT 'noop', '{status}', {resource}, (unixepoch() + {seconds}) * 1000 FROM numbers
"""
PAD_POSTGRES = """
INSERT INTO task_queue (task_type, status, resource, next_run_after, booked)
SELECT 'noop', '{status}', {resource}, now() + interval '{seconds} seconds', true FROM generate_series(1, {each})
"""
BOOK_POSTGRES = "INSERT INTO task_flow (event, n) VALUES ('enqueued', 3 * {each}), ('done', {each})"
"""Tells the books of all the padding at once; a row that says nothing of itself would be told of by a trigger."""
PADDING = (
    {"status": "QUEUED", "resource": "NULL", "seconds": 86_400},
    {"status": "QUEUED", "resource": "'cooling'", "seconds": 3_600},
    {"status": "DONE", "resource": "NULL", "seconds": 0},
)

_duty: list[Duty] = []
"""The worker's duty, once it has one; tasks are functions of a module, as they are for users."""


def noop(x: int) -> None:
    """The task, for threads."""
    _duty[0].start(x)
    if _duty[0].hold:
        time.sleep(_duty[0].hold)


async def noop_async(x: int) -> None:
    """The task, for the loop."""
    _duty[0].start(x)
    if _duty[0].hold:
        await asyncio.sleep(_duty[0].hold)


def available() -> bool:
    """Tell whether this Outlast has a queue."""
    return hasattr(outlast, "App")


class Outlast(Contender):
    """What both databases share.

    Args:
        place: A URL.
        task: Which of the two tasks is enqueued.
    """

    module = "outlast"
    singles = 3_000

    def __init__(self, place: str, task: Any = noop) -> None:
        super().__init__(place)
        self.function = task
        self.registered = False

    def prepare(self) -> None:
        """Create the schema; a file does by itself."""
        self.app, tasks = build(self.place)
        self.task = tasks[self.function]
        self.app.create_schema()

    def enqueue_one(self, number: int) -> None:
        """Enqueue a task."""
        self.task.enqueue(x=number)

    def enqueue_bulk(self, count: int) -> None:
        """Enqueue lists."""
        for numbers in self.batches(count):
            self.task.enqueue_many([{"x": number} for number in numbers])

    def clear(self) -> None:
        """Empty the tables, behind Outlast's back."""
        self.execute(*(f"DELETE FROM {table}" for table in TABLES))

    def left(self) -> int:
        """Count the rows that are not done."""
        return self.execute(COUNT_LEFT)

    def claim(self, limit: int) -> float:
        """Claim in one turn of a worker, complete in another; the store's port, as no public call only claims."""
        from outlast.ports.rows import Claim, SettleAndClaim

        store = self.app.store
        if not self.registered:
            store.register(_worker(), lease=3600.0)
            self.registered = True
        start = time.perf_counter()
        claimed = store.settle_and_claim(SettleAndClaim(WORKER, [], [], [], Claim(("default",), limit, limit))).claimed
        seconds = time.perf_counter() - start
        store.settle_and_claim(SettleAndClaim(WORKER, [(task.id, task.epoch) for task in claimed], [], []))
        return seconds

    def execute(self, *statements: str) -> Any:
        """Run statements on a connection of our own; return the first value of the last one, if any."""
        raise NotImplementedError

    def close(self) -> None:
        """Give up connections."""
        self.app.close()


class OutlastSQLite(Outlast):
    """A file."""

    drained = 40_000
    bulk = 100_000
    per_call = 1_000

    def __init__(self, file: str, task: Any = noop) -> None:
        super().__init__(f"sqlite:///{file}", task)  # the file's own slash is the fourth
        self.file = file

    def pad(self, each: int) -> None:
        """Add rows; a cooldown is a later time."""
        self.execute(*(PAD_SQLITE.format(each=each, **kind) for kind in PADDING))

    def execute(self, *statements: str) -> Any:
        """Run statements on a connection of our own."""
        connection = sqlite3.connect(self.file, isolation_level=None, timeout=30)
        try:
            for statement in statements:
                row = connection.execute(statement).fetchone()
        finally:
            connection.close()
        return row[0] if row else None


class OutlastPostgres(Outlast):
    """A server."""

    drained = 30_000
    singles = 1_500
    bulk = 100_000
    per_call = 10_000

    def prepare(self) -> None:
        """Connect for what is not measured."""
        import psycopg

        super().prepare()
        self.connection = psycopg.connect(self.place, autocommit=True)

    def fill(self, count: int) -> None:
        """Enqueue, and let the planner know."""
        super().fill(count)
        self.connection.execute("ANALYZE task_queue")

    def clear(self) -> None:
        """Empty the tables, behind Outlast's back."""
        self.execute(f"TRUNCATE {', '.join(TABLES)}")

    def pad(self, each: int) -> None:
        """Add rows; a cooldown is a later time."""
        self.execute(*(PAD_POSTGRES.format(each=each, **kind) for kind in PADDING), BOOK_POSTGRES.format(each=each))
        self.execute("VACUUM ANALYZE task_queue")

    def execute(self, *statements: str) -> Any:
        """Run statements on a connection of our own."""
        for statement in statements:
            cursor = self.connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def close(self) -> None:
        """Hang up."""
        self.connection.close()
        super().close()


def build(place: str) -> tuple[Any, dict[Any, Any]]:
    """Return the app and its tasks, by their functions."""
    app = outlast.App(place)
    return app, {function: app.task(function) for function in (noop, noop_async)}


def work(place: str, duty: Duty) -> None:
    """Run a worker with Outlast's defaults."""
    _duty.append(duty)
    app, tasks = build(place)
    worker = app.worker()
    duty.ready()
    if duty.kind == DRAIN:
        worker.drain()
        duty.drained()
        return
    if duty.kind == INSIDE:
        threading.Thread(target=_enqueue_inside, args=(tasks[noop], duty), daemon=True).start()
    worker.run()


def _enqueue_inside(task: Any, duty: Duty) -> None:
    """Enqueue at random moments beside the worker, note how long each takes to start, and end the process."""
    waits = []
    time.sleep(0.5)
    for number in range(duty.count):
        time.sleep(random.uniform(0.02, 0.15))
        asked = time.monotonic()
        task.enqueue(x=number)
        waits.append(duty.seen.get() - asked)
    say(f"waits {json.dumps(waits)}")
    os.kill(os.getpid(), signal.SIGTERM)


def _worker() -> Any:
    from outlast.ports.rows import WorkerRow

    now = datetime.now(UTC)
    return WorkerRow(WORKER, WORKER, "localhost", os.getpid(), ("default",), 100, "running", 0, True, now, now)  # noqa: FBT003
