"""Runs claimed tasks: coroutine functions on the event loop, other functions in threads, suspects in a child."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread

from outlast.ports.rows import Claimed
from outlast.queue.child_process import ChildPool
from outlast.queue.definition import Definition
from outlast.queue.execution import defer_after_bug, execute, execute_async, execute_in_child
from outlast.queue.settings import WorkerSettings
from outlast.queue.settlement import Outcome, release_settlement, settle_no_process
from outlast.queue.suspects import NoChildError, SuspectIsolation


class OutcomeQueue:
    """Outcomes on their way from the runners to the claim loop.

    It is fast enough for tasks that do nothing: appending to a deque needs no lock, and the claim loop is woken once
    per batch.

    Attributes:
        outcomes: The outcomes that the claim loop has not taken yet.
        wake: Set when the claim loop has something to do.
        idle: Set when a runner has nothing left to run, so that waiting for more outcomes is of no use.
    """

    def __init__(self) -> None:
        self.outcomes: deque[Outcome] = deque()
        self.wake = Event()
        self.idle = Event()

    def put(self, outcome: Outcome, *, more: bool) -> None:
        """Add an outcome.

        Args:
            outcome: The outcome of one task.
            more: Whether other tasks wait for this runner.
        """
        self.outcomes.append(outcome)
        if not more:
            self.idle.set()
            self.wake.set()
        elif len(self.outcomes) == 1:
            self.wake.set()

    def take(self) -> list[Outcome]:
        """Remove and return all outcomes."""
        self.idle.clear()
        self.wake.clear()
        taken = []
        while self.outcomes:
            taken.append(self.outcomes.popleft())
        return taken


class Runners:
    """Runs the tasks of a worker in threads, on an event loop or in child processes.

    Args:
        concurrency: Number of tasks that run at the same time.
        outcome_queue: Receives the outcomes.
        loop: Runs coroutine functions.
        mixed: Whether there are tasks of both kinds, which then share the slots.
        isolation: The limits of suspects in child processes; None to run suspects in this process.
    """

    def __init__(
        self,
        concurrency: int,
        outcome_queue: OutcomeQueue,
        loop: asyncio.AbstractEventLoop,
        *,
        mixed: bool,
        isolation: WorkerSettings | None = None,
    ) -> None:
        self._slots: SimpleQueue[None] | None = None
        if mixed:
            self._slots = SimpleQueue()
            for _ in range(concurrency):
                self._slots.put(None)
        self.concurrency = concurrency
        self.leaving = False
        self.outcome_queue = outcome_queue
        self._loop = loop
        self._children = ChildPool(concurrency)
        self._isolation = None if isolation is None else SuspectIsolation(self._children, isolation)
        self._inbox: SimpleQueue[tuple[Definition, Claimed] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._waiting: deque[tuple[Definition, Claimed]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._unbegun: dict[int, Claimed] = {}
        self._at_slot: dict[int, Claimed] = {}

    def start(self, tasks: Iterable[tuple[Definition, Claimed]], *, isolate: bool = True) -> None:
        """Start tasks as slots become free. Suspects run isolated if `isolate` is true and isolation is possible."""
        for_loop = False
        for pair in tasks:
            if isolate and pair[1].suspect and self._isolation is not None:  # it runs alone and needs no slot
                arguments = (self._isolation, *pair)
                Thread(target=self._run_isolated, args=arguments, name="outlast-suspect", daemon=True).start()
            elif pair[0].is_async:
                self._waiting.append(pair)
                for_loop = True
            else:
                if len(self._threads) < self.concurrency:
                    name = f"outlast-{len(self._threads) + 1}"
                    self._threads.append(Thread(target=self._run_inbox, name=name, daemon=True))
                    self._threads[-1].start()
                self._inbox.put(pair)
        if for_loop:
            self._loop.call_soon_threadsafe(self._start_coroutines)

    def take_back(self) -> list[Claimed]:
        """Remove and return the tasks that have not started."""
        taken = []
        with suppress(Empty):
            while True:
                pair = self._inbox.get_nowait()
                if pair is not None:
                    taken.append(pair[1])
        for key in list(self._at_slot):  # their threads wait for a slot
            claimed = self._at_slot.pop(key, None)
            if claimed is not None:
                taken.append(claimed)
        with suppress(IndexError):  # the event loop was faster
            while self._waiting:
                taken.append(self._waiting.popleft()[1])
        return taken

    def abandon(self) -> None:
        """Cancel coroutines and kill child processes. Threads cannot be stopped."""
        self.leaving = True
        self._loop.call_soon_threadsafe(self._cancel_coroutines)
        self._children.close()

    def close(self) -> None:
        """Let the threads end when their tasks are done."""
        for _ in self._threads:
            self._inbox.put(None)
        self._children.close()

    def _is_leaving(self) -> bool:
        return self.leaving

    def _run_inbox(self) -> None:
        """Run tasks in this thread, one after the other."""
        while (pair := self._inbox.get()) is not None:
            if self._slots is not None:
                self._at_slot[id(pair)] = pair[1]
                self._slots.get()
                if self._at_slot.pop(id(pair), None) is None:  # taken back
                    self._free_slot()
                    continue
            outcome = execute(*pair, self._children, self._is_leaving)
            self._free_slot()
            self.outcome_queue.put(outcome, more=not self._inbox.empty())

    def _free_slot(self) -> None:
        if self._slots is not None:
            self._slots.put(None)
            if self._waiting:
                self._loop.call_soon_threadsafe(self._start_coroutines)

    def _run_isolated(self, isolation: SuspectIsolation, definition: Definition, claimed: Claimed) -> None:
        """Run a suspect in a child process, or like any other task if it cannot run there."""
        try:
            target = isolation.child_target(definition)
            if target is not None:
                limits = isolation.limits(definition)
                outcome = execute_in_child(definition, claimed, target, self._children, self._is_leaving, limits)
            elif self.leaving:
                outcome = Outcome.of(release_settlement(claimed))
            else:
                self.start([(definition, claimed)], isolate=False)
                return
        except NoChildError as error:
            if self.leaving:
                outcome = Outcome.of(release_settlement(claimed))
            else:
                outcome = settle_no_process(definition, claimed, str(error))
        except BaseException as error:  # noqa: BLE001  # a bug of ours must not lose the task
            outcome = defer_after_bug(claimed, error)
        self.outcome_queue.put(outcome, more=False)

    def _start_coroutines(self) -> None:
        """Start coroutines while there are slots. Runs on the event loop."""
        waiting, running, slots = self._waiting, self._running, self._slots
        while waiting and len(running) < self.concurrency:
            try:
                if slots is not None:
                    slots.get_nowait()
                pair = waiting.popleft()
            except Empty:  # threads have all slots; the next one that is freed calls this again
                return
            except IndexError:  # taken back
                if slots is not None:
                    slots.put(None)
                return
            self._unbegun[id(pair[1])] = pair[1]
            running.add(asyncio.Task(self._run_coroutine(*pair), loop=self._loop))

    async def _run_coroutine(self, definition: Definition, claimed: Claimed) -> None:
        """Run a task in its own asyncio task, then start the next one."""
        del self._unbegun[id(claimed)]
        outcome = await execute_async(definition, claimed, self._is_leaving)
        self._running.discard(asyncio.current_task())
        if self._slots is not None:
            self._slots.put(None)
        self.outcome_queue.put(outcome, more=bool(self._waiting))
        if self._waiting:
            self._start_coroutines()

    def _cancel_coroutines(self) -> None:
        for task in self._running:
            task.cancel()
        unbegun = list(self._unbegun.values())  # cancelled before their first step, they cannot release themselves
        self._unbegun.clear()
        for claimed in unbegun:
            self.outcome_queue.put(Outcome.of(release_settlement(claimed)), more=False)
