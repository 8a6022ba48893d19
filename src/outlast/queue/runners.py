"""Runs claimed tasks: coroutine functions on the event loop, other functions in threads, suspects in a child."""

import asyncio
from collections import deque
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from outlast.ports.rows import Claimed, Kind, Settlement
from outlast.queue.child_process import ChildPool
from outlast.queue.definition import TaskDefinition
from outlast.queue.execution import (
    execute,
    execute_async,
    execute_async_with_events,
    execute_in_child,
    execute_in_child_with_events,
    execute_with_events,
    release_settlement,
)
from outlast.queue.logs import log
from outlast.queue.settings import WorkerSettings
from outlast.queue.settlement import Outcome, settle_no_process
from outlast.queue.suspects import NoChildError, SuspectIsolation
from outlast.record.bus import has_subscribers
from outlast.record.log_text import traceback_of

# The queue of outcomes is fast enough for tasks that do nothing: appending to a deque needs no lock, and the claim
# loop is woken once per batch.


class OutcomeQueue:
    """Outcomes on their way back.

    Attributes:
        outcomes: What runners have finished and the pump has not taken yet.
        wake: Set when the pump has something to do.
        idle: Set when a runner has nothing left to run: no use in waiting for more outcomes.
    """

    __slots__ = ("idle", "outcomes", "wake")

    def __init__(self) -> None:
        """Begin empty."""
        self.outcomes: deque[list[Outcome]] = deque()
        self.wake = Event()
        self.idle = Event()

    def put(self, outcomes: list[Outcome], *, more: bool) -> None:
        """Hand in what became of one task.

        Args:
            outcomes: To be written.
            more: Whether other tasks wait for this runner.
        """
        self.outcomes.append(outcomes)
        if not more:
            if not self.idle.is_set():
                self.idle.set()
            if not self.wake.is_set():
                self.wake.set()
        elif len(self.outcomes) == 1:
            self.wake.set()

    def take(self) -> list[list[Outcome]]:
        """Take all that is there."""
        self.idle.clear()
        self.wake.clear()
        taken = []
        while self.outcomes:
            taken.append(self.outcomes.popleft())
        return taken


Definition = TaskDefinition[Any, Any]
_BUG_WAIT = 60.0  # seconds


class Runners:
    """Runs the tasks of a worker in threads, on an event loop or in child processes.

    Args:
        concurrency: How many tasks run at once.
        tray: Where outcomes go.
        loop: Where coroutine functions run.
        mixed: Whether there are tasks of both kinds, which then share the slots.
        apart: How much suspects may take in a process apart; None to run them in this one.
    """

    def __init__(
        self,
        concurrency: int,
        tray: OutcomeQueue,
        loop: asyncio.AbstractEventLoop,
        *,
        mixed: bool,
        apart: WorkerSettings | None = None,
    ) -> None:
        """Begin with no threads; they are started when they are needed."""
        self._slots: SimpleQueue[None] | None = None
        if mixed:
            self._slots = SimpleQueue()
            for _ in range(concurrency):
                self._slots.put(None)
        self.concurrency = concurrency
        self.leaving = False
        self._tray = tray
        self._loop = loop
        self._children = ChildPool(concurrency)
        self._apart = None if apart is None else SuspectIsolation(self._children, apart)
        self._inbox: SimpleQueue[tuple[Definition, Claimed] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._waiting: deque[tuple[Definition, Claimed]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._unbegun: dict[int, Claimed] = {}
        self._at_slot: dict[int, Claimed] = {}

    def start(self, tasks: Iterable[tuple[Definition, Claimed]], *, here: bool = False) -> None:
        """Take tasks in; they begin as hands are free. Suspects run apart, unless they are to run here."""
        for_loop = False
        for pair in tasks:
            if pair[1].suspect and self._apart is not None and not here:  # it is alone, and needs no slot
                Thread(target=self._run_apart, args=(self._apart, *pair), name="outlast-suspect", daemon=True).start()
            elif pair[0].is_async:
                self._waiting.append(pair)
                for_loop = True
            else:
                if len(self._threads) < self.concurrency:
                    self._add_thread()
                self._inbox.put(pair)
        if for_loop:
            self._loop.call_soon_threadsafe(self._begin)

    def take_back(self) -> list[Claimed]:
        """Return what has not begun; it is not going to."""
        taken = []
        while True:
            try:
                pair = self._inbox.get_nowait()
            except Empty:
                break
            if pair is not None:
                taken.append(pair[1])
        for key in list(self._at_slot):  # their threads wait for a slot
            claimed = self._at_slot.pop(key, None)
            if claimed is not None:
                taken.append(claimed)
        while self._waiting:
            try:
                taken.append(self._waiting.popleft()[1])
            except IndexError:  # the event loop was quicker
                break
        return taken

    def abandon(self) -> None:
        """Cancel what can be stopped: coroutines and child processes. Threads cannot."""
        self.leaving = True
        self._loop.call_soon_threadsafe(self._cancel)
        self._children.close()

    def close(self) -> None:
        """Let the threads end when they are done."""
        for _ in self._threads:
            self._inbox.put(None)
        self._children.close()

    def _cancel(self) -> None:
        for task in self._running:
            task.cancel()
        unbegun = list(self._unbegun.values())  # cancelled before their first step, they cannot say so themselves
        self._unbegun.clear()
        for claimed in unbegun:
            self._tray.put([release_settlement(claimed)], more=False)

    def _add_thread(self) -> None:
        thread = Thread(target=self._work, name=f"outlast-{len(self._threads) + 1}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        """Run tasks in this thread, one after the other."""
        inbox, tray, children, slots = self._inbox, self._tray, self._children, self._slots
        while True:
            pair = inbox.get()
            if pair is None:
                return
            if slots is not None:
                self._at_slot[id(pair)] = pair[1]
                slots.get()
                if self._at_slot.pop(id(pair), None) is None:  # taken back
                    slots.put(None)
                    if self._waiting:
                        self._loop.call_soon_threadsafe(self._begin)
                    continue
            try:
                run = execute_with_events if has_subscribers() else execute
                outcomes = run(*pair, children, self._is_leaving)
            except BaseException as error:  # noqa: BLE001  # a mistake of ours must not end the thread
                outcomes = [_defer_after_bug(pair[1], error)]
            if slots is not None:
                slots.put(None)
                if self._waiting:
                    self._loop.call_soon_threadsafe(self._begin)
            tray.put(outcomes, more=not inbox.empty())

    def _run_apart(self, apart: SuspectIsolation, definition: Definition, claimed: Claimed) -> None:
        """Run a suspect in a child; one that cannot run there runs here as any other."""
        try:
            place = apart.child_target(definition)
            if place is not None:
                run = execute_in_child_with_events if has_subscribers() else execute_in_child
                bounds = apart.bounds(definition)
                outcomes = run(definition, claimed, place, self._children, self._is_leaving, bounds)
            elif self.leaving:
                outcomes = [release_settlement(claimed)]
            else:
                self.start([(definition, claimed)], here=True)
                return
        except NoChildError as error:
            outcomes = (
                [release_settlement(claimed)] if self.leaving else settle_no_process(definition, claimed, str(error))
            )
        except BaseException as error:  # noqa: BLE001  # a mistake of ours must not lose the task
            outcomes = [_defer_after_bug(claimed, error)]
        self._tray.put(outcomes, more=False)

    def _is_leaving(self) -> bool:
        return self.leaving

    def _begin(self) -> None:
        """Begin coroutines while there are hands."""
        waiting, running, slots = self._waiting, self._running, self._slots
        while waiting and len(running) < self.concurrency:
            try:
                if slots is not None:
                    slots.get_nowait()
                pair = waiting.popleft()
            except Empty:  # threads have them all; the next one that is free begins here again
                return
            except IndexError:  # taken back
                if slots is not None:
                    slots.put(None)
                return
            self._unbegun[id(pair[1])] = pair[1]
            running.add(asyncio.Task(self._run(*pair), loop=self._loop))

    async def _run(self, definition: Definition, claimed: Claimed) -> None:
        """Run a task in an asyncio task of its own, and have the next one begin."""
        del self._unbegun[id(claimed)]
        try:
            run = execute_async_with_events if has_subscribers() else execute_async
            outcomes = await run(definition, claimed, self._is_leaving)
        except Exception as error:  # noqa: BLE001  # a mistake of ours must not lose the task
            outcomes = [_defer_after_bug(claimed, error)]
        self._running.discard(asyncio.current_task())
        if self._slots is not None:
            self._slots.put(None)
        self._tray.put(outcomes, more=bool(self._waiting))
        if self._waiting:
            self._begin()


def _defer_after_bug(claimed: Claimed, error: BaseException) -> Settlement:
    """Put a task off that we could not even settle: a bug of ours, or an interpreter out of memory."""
    log.error("could not settle %s %d\n%s", claimed.task_type, claimed.id, traceback_of(error))
    return Settlement(claimed.id, claimed.epoch, Kind.DEFER, _BUG_WAIT, suspect=claimed.suspect)
