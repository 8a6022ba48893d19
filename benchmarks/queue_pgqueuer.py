"""pgqueuer with what makes it fastest: asyncpg, uvloop, and batches of 500."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.queue_contender import Contender
from benchmarks.queue_worker import DRAIN

if TYPE_CHECKING:
    from pgqueuer.models import Job

    from benchmarks.queue_worker import Duty

BATCH = 500
NAME = "noop"


class PGQueuer(Contender):
    """Its queries are coroutines, awaited one after the other on a loop of their own."""

    module = "pgqueuer"
    drained = 15_000
    singles = 1_500
    bulk = 30_000
    per_call = 10_000

    def prepare(self) -> None:
        """Create its schema."""
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.connection = self.runner.run(asyncpg.connect(self.place))
        self.queries = Queries(AsyncpgDriver(self.connection))
        self.runner.run(self.queries.install())

    def clear(self) -> None:
        """Empty its tables; its log grows with every task."""
        self.runner.run(self.connection.execute("TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics"))

    def enqueue_one(self, number: int) -> None:
        """Await one enqueue."""
        self.runner.run(self._enqueue(number))

    def enqueue_bulk(self, count: int) -> None:
        """Enqueue lists."""
        self.runner.run(self._enqueue_lists(count))

    def one_by_one(self) -> float:
        """Stay on the loop: entering it for every task would be our cost, not pgqueuer's."""
        self.clear()

        async def loop() -> float:
            start = asyncio.get_running_loop().time()
            for number in range(self.singles):
                await self._enqueue(number)
            return asyncio.get_running_loop().time() - start

        return self.runner.run(loop()) / self.singles

    def fill(self, count: int) -> None:
        """Enqueue, and let the planner know."""
        super().fill(count)
        self.runner.run(self.connection.execute("ANALYZE pgqueuer"))

    def left(self) -> int:
        """Count the rows: those that are done are deleted."""
        return self.runner.run(self.connection.fetchval("SELECT count(*) FROM pgqueuer"))

    def close(self) -> None:
        """Hang up."""
        self.runner.run(self.connection.close())
        self.runner.close()

    async def _enqueue(self, number: int) -> None:
        await self.queries.enqueue(NAME, json.dumps({"x": number}).encode())

    async def _enqueue_lists(self, count: int) -> None:
        for numbers in self.batches(count):
            payloads = [json.dumps({"x": number}).encode() for number in numbers]
            await self.queries.enqueue([NAME] * len(numbers), payloads, [0] * len(numbers))


def work(place: str, duty: Duty) -> None:
    """Run its manager on uvloop, as its own command line does."""
    uvloop.run(_work(place, duty))


async def _work(place: str, duty: Duty) -> None:
    application = PgQueuer(AsyncpgDriver(await asyncpg.connect(place)))

    @application.entrypoint(NAME)
    async def noop(job: Job) -> None:
        duty.start(json.loads(job.payload)["x"])
        if duty.hold:
            await asyncio.sleep(duty.hold)

    duty.ready()
    if duty.kind == DRAIN:
        # Its drain looks again only after `dequeue_timeout`; a worker that has run all ends at once instead.
        duty.when_all_called = application.shutdown.set
        _note_last_write(application.qm.queries, duty)
        await application.qm.run(
            batch_size=BATCH, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(milliseconds=10)
        )
        duty.drained(duty.last)
    else:
        await application.qm.run(batch_size=BATCH)


def _note_last_write(queries: Queries, duty: Duty) -> None:
    """Note when completions were last written, so that how it winds down is not measured."""
    write = queries.log_jobs

    async def log_jobs(job_status: list[Any]) -> None:
        await write(job_status)
        duty.last = time.monotonic()

    queries.log_jobs = log_jobs
