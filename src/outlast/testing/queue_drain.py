"""Work through a queue in no time: what is due is done, then the clock moves on to what is due next."""

import asyncio
import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from outlast.errors import ConfigError, LeaseLostError
from outlast.ports.rows import DeadLetter, DeadLetterFilter, Kind, Status, TaskFilter
from outlast.record.bus import subscribe
from outlast.record.events import Event, TaskEnded, TaskRescued
from outlast.record.log_text import first_line, format_seconds
from outlast.testing.clock import FakeClock, current_fake_clock, fake_clock

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.store import Store
    from outlast.queue.worker import Worker


_LEASE = 1e8  # seconds; the clock moves by hours while a task runs, and its worker is not dead for that
_POLL = 0.01  # seconds between two looks, so that nobody waits for the usual ones
_PAGE = 10_000
_IDLE = 100  # rounds without an attempt until it is given up
_IDLE_SLEEP = 0.01  # seconds, longer from round to round


class Drained(NamedTuple):
    """What became of the tasks.

    Attributes:
        done: How many attempts succeeded.
        retried: How many failed and were tried again.
        deferred: How many were put off without spending an attempt.
        dead: How many tasks became dead letters.
        rescued: How many had begun in a worker that died, and were taken over.
        crashed: How many of those took their own process down again, with ``processes=True``.
        parked: How many wait for a program that knows their name.
        seconds: How far the clock was moved on.
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
        """Show what is not 0."""
        told = [f"{name}={getattr(self, name)}" for name in self._fields[:7] if getattr(self, name)]
        told += [f"{format_seconds(self.seconds)} went by"] if self.seconds else []
        return f"Drained({', '.join([*told, *self.why]) or 'nothing'})"


def drain(app: "App", *, limit: int = 1000, concurrency: int = 10, processes: bool = False) -> Drained:
    """Work through all that an app's queues hold, however late it is due, and wait for nothing.

    Retries of hours take no time: whenever nothing is due, the clock moves on to what is due next. That is the
    `FakeClock` in use, else one for as long as this runs. On PostgreSQL, which has a clock of its own, tasks are made
    due instead. What workers left that were killed is taken over at once.

    Args:
        app: Whose tasks.
        limit: Attempts after which it is given up: a task that enqueues itself anew never ends.
        concurrency: How many tasks run at once.
        processes: Whether sync tasks with a timeout run in processes of their own, as in production. By default they
            run in this one and without their timeout, and so does what a dead worker left: faults and patches then
            reach them all.

    Raises:
        AssertionError: If the limit is reached.
        ConfigError: If an event loop runs here already; then await `drain_async`.
    """
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        message = "an event loop runs here already; use: await drain_async(app)"
        raise ConfigError(message)
    return asyncio.run(drain_async(app, limit=limit, concurrency=concurrency, processes=processes))


async def drain_async(app: "App", *, limit: int = 1000, concurrency: int = 10, processes: bool = False) -> Drained:
    """Do what `drain` does on the running event loop."""
    store, tally = app.store, _AttemptCounter(limit)
    with ExitStack() as stack:
        clock = current_fake_clock() or stack.enter_context(fake_clock())
        stack.callback(subscribe(tally.hear, TaskEnded, TaskRescued))
        stack.enter_context(_override(store, "poll", min(store.poll, _POLL)))
        if not processes:
            stack.enter_context(_in_this_process(app))
        began, letters = clock.now(), _newest_dead_letter(store)
        while True:
            _expire_dead_workers(store)
            worker = tally.worker = app.worker(concurrency=concurrency)
            worker.settings = worker.settings._replace(lease=_LEASE)
            await worker.drain_async()
            tally.add(worker.outcomes)
            tally.check()
            wait = store.next_due(worker.queues)
            if wait is None:
                return tally.drained(clock.now() - began, _dead_letters_since(store, letters))
            if wait and not _advance_clock(store, worker.queues, clock, wait):
                await asyncio.sleep(min(wait, _IDLE_SLEEP * tally.idle))  # a limit may go by the store's clock


class _AttemptCounter:
    """Counts attempts, and has the worker stop when there are too many."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.worker: Worker | None = None
        self.outcomes: Counter[Kind] = Counter()
        self.attempts: Counter[str] = Counter()
        self.rescued = self.idle = 0
        self._counting = threading.Lock()

    def hear(self, event: Event) -> None:
        with self._counting:
            if isinstance(event, TaskRescued):
                self.rescued += event.outcome != "unspent"
            elif isinstance(event, TaskEnded):
                self.attempts[event.task] += 1
            if self.attempts.total() > self.limit and self.worker is not None:
                self.worker.stop()

    def add(self, outcomes: Counter[Kind]) -> None:
        """Take in what became of one round; one in which all were sent back was for nothing."""
        self.outcomes += outcomes
        self.idle = 0 if outcomes.total() > outcomes[Kind.RELEASE] else self.idle + 1

    def check(self) -> None:
        if self.idle > _IDLE:
            message = (
                "tasks wait, and nothing that was tried makes them due; a limit by PostgreSQL's clock may be too slow"
            )
            raise AssertionError(message)
        if self.worker is None or not self.worker.stopping:
            return
        if self.attempts.total() <= self.limit:  # stopped from outside
            raise KeyboardInterrupt
        told = ", ".join(f"{name} {times} times" for name, times in self.attempts.most_common(5))
        message = (
            f"tasks were still coming after {self.limit} attempts ({told}). A task that enqueues itself anew never "
            "ends; where so many are right, give drain a higher limit"
        )
        raise AssertionError(message)

    def drained(self, seconds: float, letters: list[DeadLetter]) -> Drained:
        counts = self.outcomes
        why = tuple(f"{each.task_type}: {each.reason}, {first_line(each.error_message)}" for each in letters)
        return Drained(
            counts[Kind.DONE], counts[Kind.RETRY], counts[Kind.DEFER], len(letters), self.rescued, counts[Kind.CRASH],
            counts[Kind.PARK], seconds, why,
        )  # fmt: skip


def _advance_clock(store: "Store", queues: tuple[str, ...], clock: FakeClock, wait: float) -> bool:
    """Move on to the next due task; tell whether the store goes by our clock. Else the task is brought to us."""
    before = store.now()
    clock.advance(wait)
    if (store.now() - before).total_seconds() < wait - 0.001:
        _make_due(store, wait)
        return False
    clock.advance(store.next_due(queues) or 0.0)  # a store counts milliseconds, rounded up
    return True


def _make_due(store: "Store", left: float) -> None:
    """Make the next tasks due now, and end the cooldowns that hold them back."""
    waiting = store.find(TaskFilter(Status.QUEUED, limit=_PAGE))
    if not waiting:
        return  # taken by somebody else a moment ago
    next_at = min(each.next_run_after for each in waiting)
    store.run_now([each.id for each in waiting if (each.next_run_after - next_at).total_seconds() < min(left, 0.001)])
    held = {each.resource for each in waiting}
    for cooldown in store.cooldowns():
        if cooldown.resource in held:
            store.end_cooldown(cooldown.resource)


def _expire_dead_workers(store: "Store") -> None:
    """End the leases of workers whose processes are gone from this machine; others are none of our business."""
    if sys.platform == "win32":  # asking whether a process is there would end it
        return
    here = socket.gethostname()
    for worker in store.workers():
        if worker.host == here and not _process_exists(worker.pid):
            with suppress(LeaseLostError):
                store.heartbeat(worker.id, -1.0, worker.state)


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def _in_this_process(app: "App") -> Iterator[None]:
    """Have no task run in a process of its own: neither those with a timeout nor what a dead worker left."""
    with ExitStack() as stack:
        stack.enter_context(_override(app.store, "in_process", value=True))
        for each in app.tasks_by_name.values():
            stack.enter_context(_override(each, "target", None))
        yield


@contextmanager
def _override(holder: object, name: str, value: object) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


def _newest_dead_letter(store: "Store") -> int:
    newest = store.dead_letters(DeadLetterFilter(limit=1))
    return newest[0].id if newest else 0


def _dead_letters_since(store: "Store", number: int) -> list[DeadLetter]:
    return [each for each in reversed(store.dead_letters(DeadLetterFilter(limit=None))) if each.id > number]
