"""The worker: claims tasks from the store and runs them until it is stopped."""

import asyncio
import os
import re
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from outlast import async_backends, clock
from outlast.breaker_sync import sync_breakers
from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.decide.limits import ResourceLimits
from outlast.errors import ConfigError, LeaseLostError, SchemaError
from outlast.ports.store import Store
from outlast.queue.claim_loop import ClaimLoop, WorkerState
from outlast.queue.definition import Definition
from outlast.queue.heartbeat import LeaseHeartbeat, PeriodicDuty, register_worker
from outlast.queue.logs import log
from outlast.queue.masking import check_shown_name
from outlast.queue.periodic_tasks import PeriodicSchedule
from outlast.queue.runners import OutcomeQueue, Runners
from outlast.queue.settings import WorkerSettings
from outlast.queue.spool import Spool
from outlast.run.logs import flush_line_limits
from outlast.run.signals import stop_on_signals
from outlast.run.store_wait import wait_for_store

if TYPE_CHECKING:
    from outlast.ports.rows import Kind


_REGISTER_PAUSES = (0.1, 5.0)  # seconds after the first failure to register again, and at most


class BackgroundDelivery(Protocol):
    """Delivers alerts to people, in its own thread."""

    def start(self) -> None:
        """Start the thread."""

    def stop(self) -> None:
        """Stop the thread."""


class Worker:
    """Runs tasks: coroutine functions on an event loop, other functions in threads.

    Args:
        store: The store with the tasks.
        definitions: The task definitions, by name.
        queues: The queues to claim from.
        concurrency: Number of tasks that run at the same time.
        settings: Leases and limits.
        schedule: The periodic tasks.
        name: The name of the worker; by default host and process id.

    Attributes:
        outcomes: The number of recorded outcomes, by kind.
        last_beat: Time of the last tick of its claim loop, on the monotonic clock.
        delivery: Delivers alerts while the worker runs; without channels, to its log.
        limits: The limits of resources across all workers, by name.
    """

    def __init__(
        self,
        store: Store,
        definitions: Mapping[str, Definition],
        queues: Sequence[str],
        concurrency: int,
        settings: WorkerSettings,
        schedule: PeriodicSchedule,
        name: str | None = None,
    ) -> None:
        if concurrency < 1 or not queues:
            raise ConfigError(
                f"a worker needs a queue and a concurrency of 1 or more; got {list(queues)} and {concurrency!r}"
            )
        self.store, self.definitions = store, definitions
        self.queues = tuple(check_shown_name("queue", each) for each in queues)
        self.concurrency, self.settings, self.schedule = concurrency, settings, schedule
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.id = ""
        self.outcomes: Counter[Kind] = Counter()
        self.last_beat = clock.monotonic()
        self.delivery: BackgroundDelivery | None = None
        self.limits = ResourceLimits()
        self._stop = threading.Event()
        self._claim_loop: ClaimLoop | None = None

    @property
    def stopping(self) -> bool:
        """Whether the worker is stopping."""
        return self._stop.is_set()

    def run(self) -> None:
        """Run tasks until `stop`, SIGTERM or SIGINT. A second signal ends the process at once."""
        async_backends.check_no_event_loop("worker.run_async()")
        asyncio.run(self.run_async())

    def drain(self) -> int:
        """Run tasks until no task is due, or until `stop` or a signal. Returns the number of recorded outcomes.

        For tests and scripts. It does not wait for tasks that a rate limit has delayed.
        """
        async_backends.check_no_event_loop("worker.drain_async()")
        return asyncio.run(self.drain_async())

    async def run_async(self) -> None:
        """Run tasks on the current event loop until `stop` or a signal."""
        await self._run_in_thread(drain=False)

    async def drain_async(self) -> int:
        """Run tasks on the current event loop until no task is due. Returns the number of recorded outcomes."""
        return await self._run_in_thread(drain=True)

    def stop(self) -> None:
        """Finish running tasks, release those that have not started, and end. May be called from any thread."""
        self._stop.set()
        if self._claim_loop is not None:
            self._claim_loop.outcome_queue.wake.set()

    def _stop_on_signal(self) -> None:
        log.warning("stopping: running tasks have %.0f s to finish; a second signal ends at once", self.settings.grace)
        self.stop()

    async def _run_in_thread(self, *, drain: bool) -> int:
        """Run the claim loop in a thread, and wait for it."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()

        def run() -> None:
            end: Callable[[], object]
            try:
                end = partial(ended.set_result, self._register_and_run(loop, drain=drain))
            except BaseException as error:  # noqa: BLE001  # raised to the caller of `run`
                end = partial(ended.set_exception, error)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(lambda: None if ended.done() else end())

        with stop_on_signals(
            loop,
            self._stop_on_signal,
            lambda: log.warning("second signal: ending at once; running tasks will run again"),
        ):
            threading.Thread(target=run, name="outlast-claim-loop", daemon=True).start()
            try:
                return await asyncio.shield(ended)
            except BaseException:
                self.stop()
                with suppress(BaseException):
                    await ended
                raise

    def _register_and_run(self, loop: asyncio.AbstractEventLoop, *, drain: bool) -> int:
        """Register, recover what other workers left, claim and run tasks, unregister."""
        before = self.outcomes.total()
        if not self._try_until_available(self._check_and_register, drain=drain):
            return 0
        outcome_queue, spool = OutcomeQueue(), Spool(self.settings.spool)
        mixed = len({each.is_async for each in self.definitions.values()}) > 1
        isolation = None if self.store.in_process else self.settings  # a child process could not reach the same store
        runners = Runners(self.concurrency, outcome_queue, loop, mixed=mixed, isolation=isolation)
        state = WorkerState(self.id, self._stop, self.outcomes)
        heartbeat = self._make_heartbeat(state, outcome_queue)
        claim_loop = ClaimLoop(
            self.store, state, self.definitions, self.queues, runners, lambda: heartbeat.holds, self.limits
        )
        self._claim_loop = claim_loop

        def on_notification() -> None:
            state.tasks_due = True
            outcome_queue.wake.set()

        stop_listening = self.store.listen(on_notification)
        thread = threading.Thread(target=heartbeat.run, name="outlast-heartbeat", daemon=True)
        try:
            if not self._try_until_available(lambda: self._recover(spool, state, heartbeat, drain=drain), drain=drain):
                return 0
            thread.start()
            if self.delivery is not None and not drain:
                self.delivery.start()
            with sync_breakers(self.store, lambda: state.worker_id, leased=True):
                self._claim_until_stopped(claim_loop, heartbeat, drain=drain)
                self._finish_running(claim_loop, heartbeat)
        finally:
            stop_listening()
            heartbeat.stop()
            with suppress(Exception):  # of a log handler
                flush_line_limits()
            if self.delivery is not None and not drain:
                self.delivery.stop()
            runners.close()
            if thread.ident is not None:
                thread.join(self.settings.heartbeat)
            claim_loop.collect_outcomes()
            if not spool.keep(claim_loop.state.done, claim_loop.state.settlements):
                with suppress(Exception):
                    self.store.leave(state.worker_id)  # not with a spool: its outcomes need the claims
            self._claim_loop = None
        return self.outcomes.total() - before

    def _try_until_available(self, work: Callable[[], object], *, drain: bool) -> bool:
        """Do a step of the start. `run` retries it while the store is not available, `drain` raises the error."""
        if drain:
            work()
            return True

        def log_error(error: Exception, pause: float) -> None:
            self.last_beat = clock.monotonic()
            log.error(
                "cannot start because the store is not available, retrying in %.1f s: %s",
                pause,
                classify(error).message,
            )

        return wait_for_store(work, self._stop, log_error)

    def _check_and_register(self) -> None:
        self.store.check_schema()
        self.store.check_dead_letters()
        self._register()

    def _recover(self, spool: Spool, state: WorkerState, heartbeat: LeaseHeartbeat, *, drain: bool) -> None:
        """Apply spooled outcomes and rescue lost tasks before the first claim."""
        try:
            spool.replay(self.store, self.id)
        except LeaseLostError:  # the store was not available for longer than the lease
            self._register_again(state, heartbeat)
            spool.replay(self.store, self.id)
        self._unpark()
        heartbeat.rescue(self.settings.crash_limit)
        self.schedule.begin(self.store)
        if drain:
            self.schedule.tick(self.store)

    def _claim_until_stopped(self, claim_loop: ClaimLoop, heartbeat: LeaseHeartbeat, *, drain: bool) -> None:
        while not self._stop.is_set():
            self._tick(claim_loop, heartbeat)
            if drain and claim_loop.idle:
                if self.store.next_due(self.queues) != 0:
                    return
                claim_loop.worker.suspects_due = self.store.suspects_due(self.queues)
                claim_loop.worker.tasks_due = True

    def _finish_running(self, claim_loop: ClaimLoop, heartbeat: LeaseHeartbeat) -> None:
        """Release what has not started, give running tasks their time, then stop those that can be stopped."""
        claim_loop.worker.stopping = True
        claim_loop.release_unstarted()
        self._tick_while_held(claim_loop, heartbeat, self.settings.grace)
        if claim_loop.state.held:
            claim_loop.runners.abandon()
            self._tick_while_held(claim_loop, heartbeat, 1.0)
        running = len(claim_loop.state.held) - claim_loop.unsettled
        if running > 0:
            log.warning("%d tasks still run in threads, which cannot be stopped; they will run again", running)

    def _tick_while_held(self, claim_loop: ClaimLoop, heartbeat: LeaseHeartbeat, seconds: float) -> None:
        end = time.monotonic() + seconds
        while claim_loop.state.held and time.monotonic() < end:
            self._tick(claim_loop, heartbeat)

    def _tick(self, claim_loop: ClaimLoop, heartbeat: LeaseHeartbeat) -> None:
        self.last_beat = clock.monotonic()
        try:
            if claim_loop.worker.lease_lost:
                raise LeaseLostError(claim_loop.worker.worker_id)
            claim_loop.tick(min(self.store.poll, 0.5))
        except LeaseLostError as error:
            log.error("%s; it registers again and drops its current tasks", error)
            claim_loop.forget_tasks()
            self._register_again(claim_loop.worker, heartbeat)

    def _register_again(self, state: WorkerState, heartbeat: LeaseHeartbeat) -> None:
        """Register with a new id, however long it takes, unless the tables have another version."""
        pause = DoublingPause(*_REGISTER_PAUSES)
        while True:
            self.last_beat = clock.monotonic()
            try:
                self.store.leave(state.worker_id)  # removes its old row and lock
                self._register()
            except SchemaError:  # a migration has removed the lease; waiting would not help
                raise
            except Exception as error:  # noqa: BLE001  # it may be temporary
                seconds = pause.grow()
                log.error("cannot register, retrying in %.1f s: %s", seconds, classify(error).message)
                if self._stop.wait(seconds):
                    return
            else:
                state.worker_id, state.lease_lost = self.id, False
                heartbeat.renewed()
                return

    def _make_heartbeat(self, state: WorkerState, outcome_queue: OutcomeQueue) -> LeaseHeartbeat:
        settings = self.settings

        def on_lost(worker_id: str) -> None:
            if worker_id == state.worker_id:  # else the claim loop has noticed it and registered again
                state.lease_lost = True
                outcome_queue.wake.set()

        def check_suspects() -> None:
            state.suspects_due = self.store.suspects_due(self.queues)
            state.tasks_due = state.tasks_due or state.suspects_due

        heartbeat = LeaseHeartbeat(
            self.store,
            lambda: state.worker_id,
            lease=settings.lease,
            every=settings.heartbeat,
            state=lambda: "stopping" if state.stopping else state.pause.reason or "running",
            on_lost=on_lost,
        )
        heartbeat.add_fleet_duties(
            crash_limit=settings.crash_limit, alert_age=settings.alert_age, check_suspects=check_suspects
        )
        heartbeat.add_pruning(settings)
        heartbeat.duties.append(PeriodicDuty(settings.heartbeat, self._unpark))
        heartbeat.duties.append(PeriodicDuty(settings.heartbeat, partial(flush_line_limits, 1.0)))
        if self.schedule:
            tick = partial(self.schedule.tick, self.store)
            heartbeat.duties.append(PeriodicDuty(min(1.0, settings.heartbeat), tick))
        return heartbeat

    def _unpark(self) -> None:
        self.store.unpark(list(self.definitions))

    def _register(self) -> None:
        """Register with a new id: after a restart or a lost lease, the store sees another worker."""
        self.id = f"{re.sub(r'[^A-Za-z0-9._-]', '-', self.name)[:80]}-{uuid.uuid4().hex[:12]}"  # also a file name
        register_worker(self.store, self.id, self.name, self.queues, self.concurrency, self.settings.lease)
