"""Runs all tasks of a queue in no time: it runs the due tasks, then advances the clock to the next due task."""

import asyncio
import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from outlast import async_backends
from outlast.clock import TEST_LEASE
from outlast.errors import LeaseLostError
from outlast.failure import first_line
from outlast.ports.rows import DeadLetter, DeadLetterFilter, Kind, Status, TaskFilter
from outlast.record.bus import subscribe
from outlast.record.events import Event, TaskEnded, TaskRescued
from outlast.testing.clock import FakeClock, current_fake_clock, fake_clock
from outlast.units import format_seconds

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.store import Store
    from outlast.queue.worker import Worker


_POLL = 0.01  # seconds between two polls, shorter than usual
_PAGE = 10_000
_IDLE = 100  # rounds without an attempt until it fails
_IDLE_SLEEP = 0.01  # seconds, times the number of idle rounds


class Drained(NamedTuple):
    """The results of `drain`.

    Attributes:
        done: Attempts that succeeded.
        retried: Attempts that failed and were retried.
        deferred: Attempts that were deferred, without being used up.
        dead: Tasks that became dead letters.
        rescued: Tasks that had started in a worker that died, and were taken over.
        crashed: Those of them that killed their process again, with ``processes=True``.
        parked: Tasks that wait for a program that knows their name.
        seconds: Seconds by which the clock was advanced.
        why: A line for each new dead letter.
    """

    done: int = 0
    retried: int = 0
    deferred: int = 0
    dead: int = 0
    rescued: int = 0
    crashed: int = 0
    parked: int = 0
    seconds: float = 0.0
    why: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the fields that are not 0 as text."""
        parts = [f"{name}={getattr(self, name)}" for name in self._fields[:7] if getattr(self, name)]
        parts += [f"{format_seconds(self.seconds)} passed"] if self.seconds else []
        return f"Drained({', '.join([*parts, *self.why]) or 'nothing'})"


def drain(app: "App", *, limit: int = 1000, concurrency: int = 10, processes: bool = False) -> Drained:
    """Run all tasks in the queues of an app, no matter when they are due, without waiting.

    Retries after hours take no time: when no task is due, the clock advances to the next due task. It is the
    `FakeClock` in use, or else a temporary one. PostgreSQL has its own clock: there, tasks are made due instead. Tasks
    of killed workers are taken over at once.

    Args:
        app: The app.
        limit: Maximum number of attempts: a task that enqueues itself again never ends.
        concurrency: Number of tasks that run at the same time.
        processes: Whether sync tasks with a timeout run in their own processes, as in production. By default they run
            in this process without their timeout, and so do the tasks of dead workers, so that faults and patches
            reach all of them.

    Raises:
        AssertionError: If the limit is reached.
        ConfigError: If an event loop is already running; then await `drain_async`.
    """
    async_backends.check_no_event_loop("drain_async(app)")
    return asyncio.run(drain_async(app, limit=limit, concurrency=concurrency, processes=processes))


async def drain_async(app: "App", *, limit: int = 1000, concurrency: int = 10, processes: bool = False) -> Drained:
    """Do the same as `drain`, on the running event loop."""
    store, counter = app.store, _AttemptCounter(limit)
    with ExitStack() as stack:
        clock = current_fake_clock() or stack.enter_context(fake_clock())
        stack.callback(subscribe(counter.on_event, TaskEnded, TaskRescued))
        stack.enter_context(override_attribute(store, "poll", min(store.poll, _POLL)))
        if not processes:  # also tasks with a timeout, and those of dead workers, run in this process
            stack.enter_context(override_attribute(store, "in_process", value=True))
            for each in app.tasks_by_name.values():
                stack.enter_context(override_attribute(each, "target", None))
        started, newest = (
            clock.now(),
            max((each.id for each in store.dead_letters(DeadLetterFilter(limit=1))), default=0),
        )
        while True:
            _expire_dead_workers(store)
            worker = counter.worker = app.worker(concurrency=concurrency)
            worker.settings = worker.settings._replace(lease=TEST_LEASE)
            await worker.drain_async()
            counter.add(worker.outcomes)
            counter.check()
            wait = store.next_due(worker.queues)
            if wait is None:
                return counter.drained(clock.now() - started, _dead_letters_since(store, newest))
            if wait and not _advance_clock(store, worker.queues, clock, wait):
                await asyncio.sleep(min(wait, _IDLE_SLEEP * counter.idle))  # a limit may use the clock of the store


class _AttemptCounter:
    """Counts attempts, and stops the worker when there are too many."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.worker: Worker | None = None
        self.outcomes: Counter[Kind] = Counter()
        self.attempts: Counter[str] = Counter()
        self.rescued = self.idle = 0
        self._lock = threading.Lock()

    def on_event(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, TaskRescued):
                self.rescued += event.outcome != "unspent"
            elif isinstance(event, TaskEnded):
                self.attempts[event.task] += 1
            if self.attempts.total() > self.limit and self.worker is not None:
                self.worker.stop()

    def add(self, outcomes: Counter[Kind]) -> None:
        """Add the results of one round; it was idle if all its tasks were released."""
        self.outcomes += outcomes
        self.idle = 0 if outcomes.total() > outcomes[Kind.RELEASE] else self.idle + 1

    def check(self) -> None:
        if self.idle > _IDLE:
            raise AssertionError(
                "some tasks never become due; a rate limit that uses the clock of PostgreSQL may be too slow for a test"
            )
        if self.worker is None or not self.worker.stopping:
            return
        if self.attempts.total() <= self.limit:  # stopped from outside
            raise KeyboardInterrupt
        counts = ", ".join(f"{name} {times} times" for name, times in self.attempts.most_common(5))
        raise AssertionError(
            f"there are still tasks after {self.limit} attempts ({counts}). A task that enqueues itself again never "
            "ends; if so many attempts are right, give drain a higher limit"
        )

    def drained(self, seconds: float, dead_letters: list[DeadLetter]) -> Drained:
        counts = self.outcomes
        why = tuple(f"{each.task_type}: {each.reason}, {first_line(each.error_message)}" for each in dead_letters)
        return Drained(
            counts[Kind.DONE], counts[Kind.RETRY], counts[Kind.DEFER], len(dead_letters), self.rescued,
            counts[Kind.CRASH], counts[Kind.PARK], seconds, why,
        )  # fmt: skip


def _advance_clock(store: "Store", queues: tuple[str, ...], clock: FakeClock, wait: float) -> bool:
    """Advance to the next due task; return whether the store uses our clock. If not, make the task due."""
    before = store.now()
    clock.advance(wait)
    if (store.now() - before).total_seconds() < wait - 0.001:
        _make_due(store, wait)
        return False
    clock.advance(store.next_due(queues) or 0.0)  # a store rounds up to milliseconds
    return True


def _make_due(store: "Store", left: float) -> None:
    """Make the next tasks due now, and end their cooldowns."""
    waiting = store.find(TaskFilter(Status.QUEUED, limit=_PAGE))
    if not waiting:
        return  # another worker has just taken them
    next_at = min(each.next_run_after for each in waiting)
    store.run_now([each.id for each in waiting if (each.next_run_after - next_at).total_seconds() < min(left, 0.001)])
    resources = {each.resource for each in waiting}
    for cooldown in store.cooldowns():
        if cooldown.resource in resources:
            store.end_cooldown(cooldown.resource)


def _expire_dead_workers(store: "Store") -> None:
    """End the leases of workers on this machine whose processes do not exist any more."""
    if sys.platform == "win32":  # os.kill would end the process
        return
    host = socket.gethostname()
    for worker in store.workers():
        if worker.host == host and not _process_exists(worker.pid):
            with suppress(LeaseLostError):
                store.heartbeat(worker.id, -1.0, worker.state)


def _process_exists(pid: int) -> bool:
    with suppress(PermissionError):  # a process of another user
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


@contextmanager
def override_attribute(holder: object, name: str, value: object) -> Iterator[None]:
    """Set an attribute, and restore it at the end of the block."""
    previous = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, previous)


def _dead_letters_since(store: "Store", number: int) -> list[DeadLetter]:
    return [each for each in reversed(store.dead_letters(DeadLetterFilter(limit=None))) if each.id > number]
