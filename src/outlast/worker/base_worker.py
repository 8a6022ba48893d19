"""A task as a worker's code sees it."""

import json
import os
import socket
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from outlast import clock
from outlast.breaker_sync import sync_breakers
from outlast.classify import classify
from outlast.errors import ConfigError, LeaseLostError, PayloadError, SchemaError
from outlast.failure import Category
from outlast.ports.rows import Claim, Claimed, Kind, Reason, SettleAndClaim, Settlement, WorkerRow
from outlast.ports.store import Store
from outlast.queue.admission import ClaimPause
from outlast.queue.execution import expiry_settlement
from outlast.queue.failure_groups import GROUP_ALERT_EVERY as WATCH_EVERY
from outlast.queue.failure_groups import GroupAlerts
from outlast.queue.heartbeat import LeaseHeartbeat, PeriodicDuty
from outlast.queue.logs import log
from outlast.queue.payload import encode_result
from outlast.queue.replay import REPLAY_EVERY, Replayer
from outlast.queue.settlement import failure_note
from outlast.record.log_text import traceback_of
from outlast.run.call_state import CURRENT_TASK
from outlast.worker import error_handler
from outlast.worker.error_handler import CURRENT_CLAIM, CurrentClaim, ErrorHandler, HandledError
from outlast.worker.queue_access import store_of
from outlast.worker.settings import BaseWorkerSettings, read_settings


@dataclass(frozen=True)
class WorkerTask:
    """A task in a worker's hands.

    Attributes:
        id: The same for every attempt.
        task_type: Name of the task.
        parameters: Its arguments.
        retry_count: Failed attempts before this one.
        attempt: Number of this attempt, from 1: what `ErrorHandler.handle_error` asks for.
        resource: What it depends on.
        expires_in: Seconds after which it was not worth starting, as of the claim; None for never.
    """

    id: int
    task_type: str
    parameters: dict[str, Any]
    retry_count: int
    attempt: int
    resource: str | None
    expires_in: float | None
    claimed: Claimed = field(repr=False, compare=False)

    @classmethod
    def of(cls, claimed: Claimed) -> "WorkerTask":
        """Return a claim as a task.

        Raises:
            PayloadError: If its parameters are no JSON object.
        """
        try:
            parameters = json.loads(claimed.parameters)
        except (ValueError, RecursionError) as error:
            message = f"the parameters of task {claimed.id} are no JSON: {error}"
            raise PayloadError(message) from error
        if not isinstance(parameters, dict):
            message = f"the parameters of task {claimed.id} are a JSON {type(parameters).__name__}; give an object"
            raise PayloadError(message)
        return cls(
            id=claimed.id,
            task_type=claimed.task_type,
            parameters=parameters,
            retry_count=claimed.retry_count,
            attempt=claimed.retry_count + 1,
            resource=claimed.resource,
            expires_in=claimed.expires_in,
            claimed=claimed,
        )


# What a worker hands its results and its counts to: objects of the program's own.


def result_writer(results_db: Any) -> Callable[[WorkerTask, Any], object] | None:
    """Return what is called with a task and its result: its `save` or `report`, or the thing itself.

    A connection is none of these; what is done with it is written in the worker's own `report_result`.
    """
    return _find_callable(results_db, ("save", "report"))


def metric_counter(metrics: Any) -> Callable[[str], None]:
    """Return what counts by name: `increment`, `incr` or the thing itself. Whatever it raises is only logged."""
    count = _find_callable(metrics, ("increment", "incr"))

    def safely(name: str) -> None:
        if count is None:
            return
        try:
            count(name)
        except Exception as error:  # noqa: BLE001  # counting is not worth a task
            error_handler.log_broken_hook("metrics", error)

    return safely


def _find_callable(thing: Any, names: tuple[str, ...]) -> Callable[..., object] | None:
    for name in names:
        method = getattr(thing, name, None)
        if callable(method):
            found: Callable[..., object] = method
            return found
    if callable(thing) and not hasattr(thing, "cursor"):  # a sqlite3.Connection is callable, to no use for us
        return thing  # type: ignore[no-any-return]  # a thing of the program's own
    return None


# A worker's place in the store: registered, alive by heartbeats from a thread of its own, gone at the end.

_ROLLUP_EVERY = 5.0  # seconds


class WorkerLease:
    """What keeps a worker's tasks its own while it lives, and gives them to others when it dies.

    Args:
        store: Where tasks are.
        name: The worker's, for people.
        settings: Its lease and queues.

    Attributes:
        id: Of this run, or of the latest lease: one that was lost is followed by another.
        suspects: Whether a task waits that was running when a worker died.
    """

    def __init__(self, store: Store, name: str, settings: BaseWorkerSettings) -> None:
        """Begin without a lease."""
        self.id = ""
        self.suspects = False
        self._last_beat_id = ""
        self._store, self._name, self._settings = store, name, settings
        self._lock = threading.Lock()
        self._heart: LeaseHeartbeat | None = None
        self._thread: threading.Thread | None = None
        self._unfit: SchemaError | None = None
        self._breaker_sync = ExitStack()

    @property
    def begun(self) -> bool:
        """Whether the worker is registered."""
        return self._heart is not None

    @property
    def holds(self) -> bool:
        """Whether the lease surely holds; without it nothing may be claimed."""
        return self._heart is not None and self._heart.holds

    def check(self) -> None:
        """See that the tables still fit, as far as it was noticed.

        Raises:
            SchemaError: If the lease was lost by a migration.
        """
        if self._unfit is not None:
            raise self._unfit

    def begin(self) -> None:
        """Register, and let the heart beat.

        Raises:
            SchemaError: If the tables are missing or do not fit.
        """
        self.check()
        if self._heart is not None:
            return
        self._store.check_schema()
        self.renew(self.id)
        settings = self._settings
        heart = LeaseHeartbeat(
            self._store,
            self._beating,
            lease=settings.lease,
            every=settings.heartbeat,
            state=lambda: "running",
            on_lost=self._lost,
        )
        often = min(settings.heartbeat, getattr(self._store, "rescue_every", settings.heartbeat))
        replayer = Replayer(self._store, lambda: self.id)
        watch = GroupAlerts(
            self._store, None
        )  # an age of its own could contradict the App's, and both would tell in turns
        heart.duties = [
            PeriodicDuty(often, lambda: heart.rescue(settings.crash_limit)),
            PeriodicDuty(often, self._look),
            PeriodicDuty(_ROLLUP_EVERY, self._store.roll_up),
            PeriodicDuty(REPLAY_EVERY, replayer.advance_replays),
            PeriodicDuty(WATCH_EVERY, watch.check_groups),
        ]
        self._heart = heart
        self._thread = threading.Thread(target=heart.run, name="outlast-heart", daemon=True)
        self._thread.start()
        self._breaker_sync.enter_context(sync_breakers(self._store, lambda: self.id, leased=True))

    def renew(self, lost: str) -> str:
        """Register anew, unless somebody else has seen to it already, and return the id.

        Args:
            lost: The id that is not known any more.
        """
        with self._lock:
            if self.id == lost:
                self.id = f"{self._name}:{uuid.uuid4().hex[:12]}".replace("/", "_")
                now = datetime.now(UTC)
                row = WorkerRow(
                    self.id, self._name, socket.gethostname(), os.getpid(), self._settings.queues, 1, "running", 0,
                    alive=True, started_at=now, heartbeat_at=now,
                )  # fmt: skip
                try:
                    self._store.register(row, self._settings.lease)
                except SchemaError as error:
                    self._unfit = error
                    raise
                if self._heart is not None:
                    self._heart.renewed()
            return self.id

    def end(self) -> None:
        """Let the heart rest and leave; what is still held is given back at no cost to the tasks."""
        heart, self._heart = self._heart, None
        if heart is None:
            return
        self._breaker_sync.close()
        heart.stop()
        if self._thread is not None:
            self._thread.join(self._settings.heartbeat)
        with suppress(Exception):  # the lease runs out by itself
            self._store.leave(self.id)

    def _beating(self) -> str:
        self._last_beat_id = self.id
        return self._last_beat_id

    def _lost(self, _: str) -> None:
        if self._heart is None:  # a last beat after it has left
            return
        log.error("worker %s was taken for dead; it begins anew, and what it was doing is dropped", self._last_beat_id)
        self.renew(self._last_beat_id)

    def _look(self) -> None:
        if self._store.suspects_due(self._settings.queues):
            self.suspects = True


# A worker to derive from: claims tasks one at a time, and survives whatever they do.


class _UnwrittenFailure(NamedTuple):
    """A failed attempt that is not in the store yet."""

    task: WorkerTask
    error: BaseException


class BaseWorker(ABC):
    """Runs tasks one at a time, each by `process_task`, which a derived class writes.

    A task is held by a lease, renewed while the worker lives: should it die, another one gets the task. What a task
    raises goes to the error handler and never ends the loop; neither does a database that fails. What could not be
    written is kept and written later, and nothing more is claimed until then.

    Args:
        worker_id: Name of the worker, for people.
        queue_db: An App, a store, or a connection of sqlite3 (to a file) or psycopg.
        config: A mapping or an object with settings such as ``queues``, ``lease``, ``poll_interval``, ``max_retries``;
            `outlast.worker.settings` lists them.
        results_db: Gets task and result, through its `save` or `report` or by being called. What it raises is the
            task's failure: a result is not lost in silence.
        metrics: Counts by name, through `increment` or by being called: ``tasks_done``, ``tasks_retried``,
            ``tasks_deferred``, ``tasks_failed``. What it raises is only logged.

    Attributes:
        error_handler: Decides on failed attempts.
        poll_interval: Seconds between two looks while there is nothing to do.
    """

    def __init__(
        self, worker_id: str, queue_db: Any, config: Any = None, results_db: Any = None, metrics: Any = None
    ) -> None:
        """Check the settings; nothing is registered before the first claim."""
        self.worker_id, self.queue_db, self.config = str(worker_id), queue_db, config
        self.results_db, self.metrics = results_db, metrics
        self.settings = read_settings(config)
        self.poll_interval = self.settings.poll_interval
        self.store, self._owned = store_of(queue_db)
        self.error_handler = ErrorHandler(self.store, self.settings.strategy)
        self._lease = WorkerLease(self.store, self.worker_id, self.settings)
        self._save, self._count = result_writer(results_db), metric_counter(metrics)
        self._stopped = threading.Event()
        self._pause = ClaimPause()
        self._held: dict[int, WorkerTask] = {}
        self._unwritten: list[_UnwrittenFailure | Settlement] = []
        self._unsure = False
        self._trouble = ""

    @property
    def running(self) -> bool:
        """Whether `run` goes on; may be set to False from anywhere."""
        return not self._stopped.is_set()

    @running.setter
    def running(self, value: bool) -> None:
        if value:
            self._stopped.clear()
        else:
            self._stopped.set()

    @abstractmethod
    def process_task(self, task: WorkerTask) -> Any:
        """Do a task, and return its result or raise."""

    def run(self) -> None:
        """Work until `stop`.

        Raises:
            SchemaError: If the tables are missing or do not fit.
        """
        try:
            while self.running:
                if not self._step():
                    self._stopped.wait(self.poll_interval)
        finally:
            self.close()

    def stop(self) -> None:
        """Finish the task at hand and end; may be called from any thread, and from a handler of signals."""
        self.running = False

    def close(self) -> None:
        """Leave: what is still held is given back, at no cost to the tasks. For who claims without `run`."""
        if self._lease.begun:
            self._write_again()
        self._lease.end()
        self._held.clear()
        self._unwritten.clear()
        if self._owned:
            self.store.close()

    def claim_task(self) -> WorkerTask | None:
        """Take the next task that is due; None where there is none.

        One whose parameters cannot be read, or that is not worth starting any more, becomes a dead letter instead.
        """
        self._lease.begin()
        while self._lease.holds and not self._unwritten:
            claimed = self._claim()
            if claimed is None:
                return None
            if claimed.expires_in is not None and claimed.expires_in <= 0:
                self._settle(expiry_settlement(claimed))
                continue
            try:
                task = WorkerTask.of(claimed)
            except PayloadError as error:
                self._undecodable(claimed, error)
                continue
            self._held[task.id] = task
            return task
        return None

    def report_result(self, task: WorkerTask, result: Any) -> None:
        """Hand a result over and settle the task as done; the result is kept with it if it is JSON.

        Args:
            task: What was done.
            result: What `process_task` returned.
        """
        if self._save is not None:
            self._save(task, result)
        self._done(task, result)

    def _step(self) -> bool:
        """Do one task; tell whether there was one."""
        try:
            self._lease.check()
            if not self._write() or not self._pause.limit(clock.monotonic(), 1):
                return False
            task = self.claim_task()
        except (ConfigError, SchemaError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever a database says, the worker goes on
            self._troubled(error)
            return False
        if self._trouble:
            log.warning("%s: the queue answers again", self.worker_id)
            self._trouble = ""
        if task is not None:
            self._work(task)
        return task is not None

    def _work(self, task: WorkerTask) -> None:
        token = CURRENT_TASK.set(task.claimed)
        try:
            result = self.process_task(task)
            self.report_result(task, result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
            self._failed(_UnwrittenFailure(task, error))
        else:
            if task.id in self._held:  # a `report_result` of the user's own has not settled it
                self._done(task, None)
            self._pause.succeeded(clock.monotonic())
            self._count("tasks_done")
        finally:
            CURRENT_TASK.reset(token)

    def _claim(self) -> Claimed | None:
        if self._unsure:  # a turn that was not answered may have claimed all the same
            waiting = [each.task_id if isinstance(each, Settlement) else each.task.id for each in self._unwritten]
            self.store.reconcile(self._lease.id, [*self._held, *waiting])
            self._unsure = False
        suspect, self._lease.suspects = self._lease.suspects, False
        queues = self.settings.queues
        for alone in (True, False) if suspect else (False, True):
            if alone and not suspect and not self.store.suspects_due(queues):
                continue
            claimed = self._turn(SettleAndClaim(self._lease.id, [], [], [], Claim(queues, 1, 1, suspect=alone)))
            if claimed is not None:
                return claimed
        return None

    def _turn(self, turn: SettleAndClaim) -> Claimed | None:
        try:
            turned = self.store.settle_and_claim(turn)
        except LeaseLostError as error:
            self._held.clear()
            self._lease.renew(error.worker_id)
            return None
        except Exception:
            self._unsure = True
            raise
        if turned.refused:
            log.warning("%s: what became of task %d was refused: another worker has it", self.worker_id,
                             turned.refused[0])  # fmt: skip
        return turned.claimed[0] if turned.claimed else None

    def _done(self, task: WorkerTask, result: Any) -> None:
        text, keep = None, self.settings.keep_result
        if result is not None and keep:
            try:
                text = encode_result(result)
            except PayloadError as error:
                log.info("task %d is done; its result is not kept: %s", task.id, error)
        self._settle(Settlement(task.id, task.claimed.epoch, Kind.DONE, result=text, keep=keep))

    def _undecodable(self, claimed: Claimed, error: PayloadError) -> None:
        failure = classify(error)
        error_handler.log_failed_attempt(claimed.id, claimed.retry_count + 1, failure, traceback_of(error),
                    category=failure.category.value, most=None, again=False)  # fmt: skip
        note = failure_note(failure, traceback_of(error))
        self._settle(Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason.UNDECODABLE))

    def _settle(self, settlement: Settlement) -> None:
        """Write what became of a task, now or later."""
        self._held.pop(settlement.task_id, None)
        try:
            self._turn(SettleAndClaim(self._lease.id, [], [settlement], []))
        except Exception as error:  # noqa: BLE001  # its work is done; doing it again would not help
            self._unwritten.append(settlement)
            self._troubled(error)

    def _failed(self, failed: _UnwrittenFailure) -> None:
        """Have a failed attempt decided on and written, now or later."""
        task, error = failed
        handled = self._handled(task, error)
        trouble = handled.get("trouble")
        if trouble is not None:
            self._unwritten.append(failed)
            self._troubled(trouble)
            return
        self._held.pop(task.id, None)
        if handled.get("category") == Category.SYSTEM:
            failure = classify(error)
            seconds = self._pause.failed(clock.monotonic(), failure.message)
            log.error("%s claims nothing for %.0f s, this machine is not well: %s", self.worker_id, seconds,
                           failure.message)  # fmt: skip
        if handled.get("deferred") and task.resource is not None:
            self._cool(task.resource, handled["delay"], error)
        if handled.get("changed", True):
            kind = "failed" if not handled["retry"] else "deferred" if handled.get("deferred") else "retried"
            self._count(f"tasks_{kind}")

    def _cool(self, resource: str, seconds: float, error: BaseException) -> None:
        """Have everybody leave a resource alone that has named a time."""
        try:
            self.store.start_cooldown(resource, seconds, str(classify(error))[:200])
        except Exception as trouble:  # noqa: BLE001  # the task itself is put off all the same
            log.warning("the cooldown of %s could not be shared: %s", resource, classify(trouble).message)

    def _handled(self, task: WorkerTask, error: BaseException) -> HandledError:
        token = CURRENT_CLAIM.set(CurrentClaim((self.store, self.queue_db), task.id, task.claimed.epoch))
        try:
            return self.error_handler.handle_error(task.id, error, task.attempt)
        except Exception as mistake:  # noqa: BLE001  # a handler of the user's; the task matters more
            error_handler.log_broken_hook("error_handler", mistake)
            return ErrorHandler(self.store, self.settings.strategy).handle_error(task.id, error, task.attempt)
        finally:
            CURRENT_CLAIM.reset(token)

    def _write(self) -> bool:
        """Write what could not be written before; tell whether all of it is."""
        if not self._unwritten:
            return True
        if not self._pause.limit(clock.monotonic(), 1):
            return False
        self._write_again()
        return not self._unwritten

    def _write_again(self) -> None:
        waiting, self._unwritten = self._unwritten, []
        for each in waiting:
            if isinstance(each, Settlement):
                self._settle(each)
            else:
                self._failed(each)

    def _troubled(self, error: Exception) -> None:
        """Say once what is wrong with the queue, and leave it alone for a while if something waits to be written."""
        failure = classify(error)
        if self._unwritten:
            self._pause.failed(clock.monotonic(), failure.message)
        level = log.debug if failure.message == self._trouble else log.error
        self._trouble = failure.message
        level("%s: the queue failed (%s), tried again later: %s", self.worker_id, failure.category, failure.message)
