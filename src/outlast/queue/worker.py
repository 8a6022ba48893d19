"""The worker: claims tasks from the store and runs them until it is stopped."""

import asyncio
import json
import os
import re
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from outlast import clock
from outlast.breaker_sync import sync_breakers
from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.errors import ConfigError, LeaseLostError, SchemaError
from outlast.ports.rows import Kind, Note, Reason, SettleAndClaim, Settlement, WorkerRow
from outlast.ports.store import Store
from outlast.queue.claim_loop import ClaimLoop
from outlast.queue.definition import TaskDefinition
from outlast.queue.failure_groups import GROUP_ALERT_EVERY as WATCH_EVERY
from outlast.queue.failure_groups import GroupAlerts
from outlast.queue.heartbeat import LeaseHeartbeat, PeriodicDuty
from outlast.queue.logs import log
from outlast.queue.periodic_tasks import PeriodicSchedule
from outlast.queue.replay import REPLAY_EVERY, Replayer
from outlast.queue.runners import OutcomeQueue, Runners
from outlast.queue.settings import WorkerSettings
from outlast.run.signals import stop_on_signals
from outlast.run.store_wait import wait_for_store

if TYPE_CHECKING:
    from outlast.decide.limits import ResourceLimit


# Settlements that could not be written before a worker ended are kept in a file and applied at the next start.


class Spool:
    """A folder of such files. They hold ids, epochs and failures, never a payload, and only their owner may read them.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        """Look at nothing yet."""
        self._folder = folder

    def keep(self, done: list[tuple[int, int]], settlements: list[Settlement]) -> bool:
        """Write down what the store could not take; tell whether anything was."""
        lines = [_spool_line(Settlement(number, epoch, Kind.DONE)) for number, epoch in done]
        lines += [_spool_line(each) for each in settlements if each.kind is not Kind.RELEASE]
        if not lines:
            return False
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._folder / f"{uuid.uuid4().hex}.jsonl"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.error("could not store %d outcomes anywhere; their tasks will run again: %s", len(lines), error)
            return False
        log.warning("could not store %d outcomes; they are kept in %s until the next start", len(lines), path)
        return True

    def replay(self, store: Store, worker_id: str) -> int:
        """Apply what is there, where the task has not been given to somebody else; return how many were."""
        applied = 0
        for path in sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else ():
            try:
                settlements = _read_spool(path)
            except FileNotFoundError:  # another worker, started at the same time, was quicker
                continue
            try:
                refused = store.settle_and_claim(SettleAndClaim(worker_id, [], settlements, [])).refused
            except LeaseLostError:
                raise
            except Exception as error:  # noqa: BLE001  # a file must not keep workers from starting
                failure = classify(error)
                log.error("could not apply %s (%s): %s", path, failure.category, failure.message)
                if not failure.retryable:
                    path.rename(path.with_suffix(".refused"))
                continue
            path.unlink(missing_ok=True)
            applied += len(settlements) - len(refused)
            log.warning("applied %d outcomes from %s, %d were too late", len(settlements), path, len(refused))
        return applied


def _spool_line(settlement: Settlement) -> str:
    note = settlement.note
    return json.dumps(
        {
            "task_id": settlement.task_id,
            "epoch": settlement.epoch,
            "kind": settlement.kind,
            "delay": settlement.delay,
            "reason": settlement.reason,
            "result": settlement.result,
            "keep": settlement.keep,
            "suspect": settlement.suspect,
            "note": None if note is None else note._asdict(),
        }
    )


def _read_spool(path: Path) -> list[Settlement]:
    """Read a file; a line that was cut off is left out."""
    settlements = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            data: dict[str, Any] = json.loads(line)
            settlements.append(
                Settlement(
                    int(data["task_id"]),
                    int(data["epoch"]),
                    Kind(data["kind"]),
                    float(data["delay"]),
                    Note(**data["note"]) if data["note"] else None,
                    Reason(data["reason"]) if data["reason"] else None,
                    data.get("result"),
                    float(data.get("keep", 0.0)),
                    bool(data.get("suspect")),
                )
            )
        except (ValueError, TypeError, KeyError) as error:
            log.error("a line of %s is not valid: %s", path, error)
    return settlements


_PRUNE_EVERY = 60.0  # seconds
_ROLL_UP_EVERY = 5.0  # seconds
_FOREVER = 1e9  # seconds; longer than anybody keeps anything
_REGISTER_PAUSES = (0.1, 5.0)  # seconds after the first failure to register again, and at most


class BackgroundDelivery(Protocol):
    """Brings alerts to people, in a thread of its own."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


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
        last_beat: Time of the last round of its loop, on the monotonic clock.
        delivery: Delivers alerts while the worker runs, if there are channels.
        limits: The limits of resources across all workers, by name.
    """

    def __init__(
        self,
        store: Store,
        definitions: Mapping[str, TaskDefinition[Any, Any]],
        queues: Sequence[str],
        concurrency: int,
        settings: WorkerSettings,
        schedule: PeriodicSchedule,
        name: str | None = None,
    ) -> None:
        """Begin stopped."""
        if concurrency < 1 or not queues:
            message = f"a worker needs a queue and a concurrency of 1 or more; got {list(queues)} and {concurrency!r}"
            raise ConfigError(message)
        self.store, self.definitions, self.queues = store, definitions, tuple(queues)
        self.concurrency, self.settings, self.schedule = concurrency, settings, schedule
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.id = ""
        self.outcomes: Counter[Kind] = Counter()
        self.last_beat = clock.monotonic()
        self.delivery: BackgroundDelivery | None = None
        self.limits: Mapping[str, ResourceLimit] = {}
        self._stop = threading.Event()
        self._pump: ClaimLoop | None = None

    @property
    def stopping(self) -> bool:
        """Whether the worker is stopping."""
        return self._stop.is_set()

    def run(self) -> None:
        """Run tasks until `stop`, SIGTERM or SIGINT. A second signal ends the process at once."""
        asyncio.run(self.run_async())

    def drain(self) -> int:
        """Run tasks until no task is due, or until `stop` or a signal. Returns the number of recorded outcomes.

        For tests and scripts. It does not wait for tasks that a rate limit has delayed.
        """
        return asyncio.run(self.drain_async())

    async def run_async(self) -> None:
        """Run tasks on the current event loop until `stop` or a signal."""
        await self._work(drain=False)

    async def drain_async(self) -> int:
        """Run tasks on the current event loop until no task is due. Returns the number of recorded outcomes."""
        return await self._work(drain=True)

    def stop(self) -> None:
        """Finish running tasks, release those that have not started, and end. May be called from any thread."""
        self._stop.set()
        if self._pump is not None:
            self._pump.tray.wake.set()

    def _signalled(self) -> None:
        log.warning("stopping: running tasks have %.0f s to finish; a second signal ends at once", self.settings.grace)
        self.stop()

    async def _work(self, *, drain: bool) -> int:
        loop = asyncio.get_running_loop()
        with stop_on_signals(
            loop, self._signalled, lambda: log.warning("second signal: ending at once; running tasks will run again")
        ):
            return await self._thread(loop, drain=drain)

    async def _thread(self, loop: asyncio.AbstractEventLoop, *, drain: bool) -> int:
        """Have the work done in a thread, and wait for it."""
        ended: asyncio.Future[int] = loop.create_future()

        def body() -> None:
            try:
                written = self._live(loop, drain=drain)
            except BaseException as error:  # noqa: BLE001  # raised where the worker was started
                _set_future(loop, ended, error)
            else:
                _set_future(loop, ended, written)

        threading.Thread(target=body, name="outlast-claim-loop", daemon=True).start()
        try:
            return await asyncio.shield(ended)
        except BaseException:
            self.stop()
            with suppress(BaseException):
                await ended
            raise

    def _live(self, loop: asyncio.AbstractEventLoop, *, drain: bool) -> int:
        """Register, pump until the end, leave. In a thread of its own."""
        before = self.outcomes.total()
        if not self._persist(self._enter, drain=drain):
            return 0
        tray = OutcomeQueue()
        kinds = {each.is_async for each in self.definitions.values()}
        apart = None if self.store.in_process else self.settings  # a task there would find another store than ours
        runners = Runners(self.concurrency, tray, loop, mixed=len(kinds) > 1, apart=apart)
        spool = Spool(self.settings.spool)
        pump = ClaimLoop(self.store, self.id, self.definitions, self.queues, runners, tray, self.limits)
        heart = self._heart(pump)
        self._pump, pump.may_claim, pump.outcomes = pump, lambda: heart.holds, self.outcomes
        pump.stop_requested = self._stop.is_set

        def wake() -> None:
            pump.signalled = True
            tray.wake.set()

        deafen = self.store.listen(wake)
        thread = threading.Thread(target=heart.run, name="outlast-heartbeat", daemon=True)
        try:
            if not self._persist(lambda: self._recover(spool, heart, drain=drain), drain=drain):
                return 0
            thread.start()
            if self.delivery is not None and not drain:
                self.delivery.start()
            with sync_breakers(self.store, lambda: pump.worker_id, leased=True):
                self._claim_until_end(pump, heart, drain=drain)
                self._wind_down(pump, heart, runners)
        finally:
            deafen()
            heart.stop()
            if self.delivery is not None and not drain:
                self.delivery.stop()
            runners.close()
            if thread.ident is not None:
                thread.join(self.settings.heartbeat)
            if not spool.keep(*pump.unwritten()):  # what is kept needs its claim; the lease runs out by itself
                with suppress(Exception):
                    self.store.leave(pump.worker_id)
            self._pump = None
        return self.outcomes.total() - before

    def _persist(self, work: Callable[[], object], *, drain: bool) -> bool:
        """Do what a start takes; a worker that goes on waits for a store that cannot be reached, a script is told."""
        if drain:
            work()
            return True

        def tell(error: Exception, pause: float) -> None:
            self.last_beat = clock.monotonic()
            log.error(
                "cannot start because the store is not available, retrying in %.1f s: %s",
                pause,
                classify(error).message,
            )

        return wait_for_store(work, self._stop, tell)

    def _enter(self) -> None:
        """See that all is there that it needs, and register."""
        self.store.check_schema()
        self.store.check_dead_letters()
        self._register()

    def _recover(self, spool: Spool, heart: LeaseHeartbeat, *, drain: bool) -> None:
        """See to what others left behind, and to what it left itself, before the first claim."""
        spool.replay(self.store, self.id)
        self.store.unpark(list(self.definitions))
        heart.rescue(self.settings.crash_limit)
        self.schedule.begin(self.store)
        if drain:
            self.schedule.tick(self.store)

    def _claim_until_end(self, pump: ClaimLoop, heart: LeaseHeartbeat, *, drain: bool) -> None:
        while not self._stop.is_set():
            self._step(pump, heart)
            if drain and pump.idle:
                if self.store.next_due(self.queues) != 0:
                    return
                pump.suspects = self.store.suspects_due(self.queues)
                pump.signalled = True

    def _wind_down(self, pump: ClaimLoop, heart: LeaseHeartbeat, runners: Runners) -> None:
        """Give back what has not begun; give the rest its time, then what can be stopped is stopped."""
        pump.stopping = True
        pump.give_back()
        end = time.monotonic() + self.settings.grace
        while pump.held and time.monotonic() < end:
            self._step(pump, heart)
        if pump.held:
            runners.abandon()
            end = time.monotonic() + 1.0
            while pump.held and time.monotonic() < end:
                self._step(pump, heart)
        if pump.held:
            log.warning("%d tasks still run in threads, which cannot be stopped; they will run again", len(pump.held))

    def _step(self, pump: ClaimLoop, heart: LeaseHeartbeat) -> None:
        self.last_beat = clock.monotonic()
        try:
            if pump.lease_lost:
                raise LeaseLostError(pump.worker_id)
            pump.step(min(self.store.poll, 0.5))
        except LeaseLostError as error:
            log.error("%s; it registers again and drops its current tasks", error)
            pump.lost()
            self._begin_anew(pump, heart)

    def _begin_anew(self, pump: ClaimLoop, heart: LeaseHeartbeat) -> None:
        """Register under another name, however long it takes; not on tables of another version."""
        pause = DoublingPause(*_REGISTER_PAUSES)
        while True:
            self.last_beat = clock.monotonic()
            try:
                self.store.leave(pump.worker_id)  # what is left of the old name: its row, its lock
                name = self._register()
            except SchemaError:  # a migration took the lease away; waiting changes nothing
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, it may pass
                seconds = pause.grow()
                log.error("cannot register, retrying in %.1f s: %s", seconds, classify(error).message)
                if self._stop.wait(seconds):
                    return
            else:
                pump.worker_id, pump.lease_lost = name, False
                heart.renewed()
                return

    def _heart(self, pump: ClaimLoop) -> LeaseHeartbeat:
        settings = self.settings

        def lost(worker_id: str) -> None:
            if worker_id == pump.worker_id:  # else the pump has heard of it already, and has another name by now
                pump.lease_lost = True
                pump.tray.wake.set()

        def state() -> str:
            return "stopping" if pump.stopping else pump.pause.reason or "running"

        def suspects() -> None:
            pump.suspects = self.store.suspects_due(self.queues)
            pump.signalled = pump.signalled or pump.suspects

        def prune() -> None:
            count = self.store.prune(done_before=_FOREVER if settings.keep_done is None else settings.keep_done)
            if count:
                log.info("pruned %d finished tasks and expired results", count)
            if settings.keep_dead is not None:
                count = self.store.prune_dead_letters(older_than=settings.keep_dead)
                if count:
                    log.warning("discarded %d dead letters older than %.0f s", count, settings.keep_dead)

        heart = LeaseHeartbeat(
            self.store,
            lambda: pump.worker_id,
            lease=settings.lease,
            every=settings.heartbeat,
            state=state,
            on_lost=lost,
        )
        often = min(settings.heartbeat, self.store.rescue_every)
        replayer, watch = Replayer(self.store, lambda: pump.worker_id), GroupAlerts(self.store, settings.alert_age)
        heart.duties = [
            PeriodicDuty(often, partial(heart.rescue, settings.crash_limit)),
            PeriodicDuty(often, suspects),
            PeriodicDuty(_PRUNE_EVERY, prune),
            PeriodicDuty(settings.heartbeat, self._unpark),
            PeriodicDuty(_ROLL_UP_EVERY, self.store.roll_up),
            PeriodicDuty(REPLAY_EVERY, replayer.advance_replays),
            PeriodicDuty(WATCH_EVERY, watch.check_groups),
        ]
        if self.schedule:
            heart.duties.append(PeriodicDuty(min(1.0, settings.heartbeat), partial(self.schedule.tick, self.store)))
        return heart

    def _unpark(self) -> None:
        self.store.unpark(list(self.definitions))

    def _register(self) -> str:
        """Make this run known under an id of its own: a restart is another worker."""
        self.id = f"{re.sub(r'[^A-Za-z0-9._-]', '-', self.name)[:80]}-{uuid.uuid4().hex[:12]}"  # also a file's name
        now = datetime.now(UTC)
        row = WorkerRow(
            self.id, self.name, socket.gethostname(), os.getpid(), self.queues, self.concurrency, "running", 0,
            alive=True, started_at=now, heartbeat_at=now,
        )  # fmt: skip
        self.store.register(row, self.settings.lease)
        return self.id


def _set_future(loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[int]", value: int | BaseException) -> None:
    def tell() -> None:
        if ended.done():
            return
        if isinstance(value, BaseException):
            ended.set_exception(value)
        else:
            ended.set_result(value)

    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(tell)
