"""procrastinate: one worker that runs many coroutines at once and deletes what is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import procrastinate
import psycopg

from benchmarks.queue_contender import Contender
from benchmarks.queue_worker import DRAIN

if TYPE_CHECKING:
    from benchmarks.queue_worker import Duty

CONCURRENCY = 10


class Procrastinate(Contender):
    """Enqueues by its synchronous connector."""

    module = "procrastinate"
    drained = 400
    singles = 800
    bulk = 10_000
    per_call = 10_000

    def prepare(self) -> None:
        """Create its schema."""
        self.connection = psycopg.connect(self.place, autocommit=True)
        self.app, self.task = build(procrastinate.SyncPsycopgConnector(conninfo=self.place, min_size=1, max_size=1))
        self.app.open()
        self.app.schema_manager.apply_schema()

    def clear(self) -> None:
        """Empty its tables."""
        self.connection.execute("TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_workers CASCADE")

    def enqueue_one(self, number: int) -> None:
        """Defer one."""
        self.task.defer(x=number)

    def enqueue_bulk(self, count: int) -> None:
        """Defer lists."""
        for numbers in self.batches(count):
            self.task.batch_defer(*({"x": number} for number in numbers))

    def fill(self, count: int) -> None:
        """Enqueue, and let the planner know."""
        super().fill(count)
        self.connection.execute("ANALYZE procrastinate_jobs")

    def left(self) -> int:
        """Count the rows: those that are done are deleted."""
        return self.connection.execute("SELECT count(*) FROM procrastinate_jobs").fetchone()[0]

    def close(self) -> None:
        """Hang up."""
        self.app.close()
        self.connection.close()


def build(connector: Any, duty: Duty | None = None) -> tuple[procrastinate.App, Any]:
    """Return the application and its task."""
    app = procrastinate.App(connector=connector)

    @app.task(name="noop")
    async def noop(x: int) -> None:
        duty.start(x)
        if duty.hold:
            await asyncio.sleep(duty.hold)

    return app, noop


def work(place: str, duty: Duty) -> None:
    """Run its worker."""
    asyncio.run(_work(place, duty))


async def _work(place: str, duty: Duty) -> None:
    app, _ = build(procrastinate.PsycopgConnector(conninfo=place, min_size=4, max_size=4), duty)
    async with app.open_async():
        duty.ready()
        drains = duty.kind == DRAIN
        await app.run_worker_async(
            wait=not drains, listen_notify=not drains, concurrency=CONCURRENCY, delete_jobs="always"
        )
        duty.drained()
