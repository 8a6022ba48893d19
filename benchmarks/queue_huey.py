"""huey on SQLite: its consumer with one worker thread, no scheduler work, and the same durability as everybody."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from huey import SqliteHuey

from benchmarks.queue_contender import Contender
from benchmarks.queue_worker import DRAIN

if TYPE_CHECKING:
    from benchmarks.queue_worker import Duty

POLL = 0.1
"""Seconds between looks at an empty queue: huey's default; more often only costs more while it is busy elsewhere."""


class Huey(Contender):
    """huey has no bulk enqueue; a task is gone from the table before it runs."""

    module = "huey"
    drained = 4_000
    singles = 3_000

    def prepare(self) -> None:
        """Create the file."""
        self.huey, self.task = build(self.place)

    def clear(self) -> None:
        """Empty all tables."""
        self.huey.storage.flush_all()

    def enqueue_one(self, number: int) -> None:
        """Call the task."""
        self.task(x=number)

    def left(self) -> int:
        """Count what is queued."""
        return self.huey.storage.queue_size()

    def close(self) -> None:
        """Close the file."""
        self.huey.storage.close()


def build(place: str, duty: Duty | None = None) -> tuple[SqliteHuey, Any]:
    """Return the queue and its task. Nothing is stored for a task that returns None."""
    queue = SqliteHuey("benchmark", filename=place, fsync=True)

    @queue.task(name="noop")
    def noop(x: int) -> None:
        duty.start(x)
        if duty.hold:
            time.sleep(duty.hold)

    return queue, noop


def work(place: str, duty: Duty) -> None:
    """Run the consumer; it has no way to end when drained, so the last call ends it."""
    queue, _ = build(place, duty)
    over = threading.Event()
    duty.when_all_called = over.set
    consumer = queue.create_consumer(workers=1, periodic=False, initial_delay=POLL, max_delay=POLL)
    duty.ready()
    consumer.start()
    over.wait()
    if duty.kind == DRAIN:
        consumer.stop(graceful=True)
        duty.drained(duty.last)
