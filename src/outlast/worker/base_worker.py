"""A base class for workers that claim and run tasks one at a time."""

import json
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from outlast import clock
from outlast.breaker_sync import sync_breakers
from outlast.classify import classify
from outlast.classify.safe_access import HeldInterrupts, contain
from outlast.errors import ConfigError, LeaseLostError, PayloadError, SchemaError
from outlast.failure import Category
from outlast.ports.rows import Claim, Claimed, Kind, Reason, SettleAndClaim, Settlement
from outlast.ports.store import Store
from outlast.queue.admission import ClaimPause, start_cooldown
from outlast.queue.heartbeat import LeaseHeartbeat, register_worker
from outlast.queue.logs import log
from outlast.queue.payload import encode_result
from outlast.queue.settlement import StartCooldown, expiry_settlement, failure_note
from outlast.record.log_text import traceback_of
from outlast.run.call_state import CURRENT_TASK
from outlast.worker import error_handler
from outlast.worker.error_handler import CURRENT_CLAIM, CurrentClaim, ErrorHandler, HandledError
from outlast.worker.queue_access import store_of
from outlast.worker.settings import BaseWorkerSettings, read_settings

_LAST_SECONDS, _LAST_PAUSE = 5.0, 0.2  # how long, and how often, a worker that closes tries to record its outcomes


@dataclass(frozen=True)
class WorkerTask:
    """A task that a worker has claimed.

    Attributes:
        id: The id, which is the same for every attempt.
        task_type: Name of the task.
        parameters: The arguments of the task.
        retry_count: Number of failed attempts before this one.
        attempt: Number of this attempt, from 1, as `ErrorHandler.handle_error` expects it.
        resource: The resource that the task depends on.
        expires_in: Seconds from the claim until the task expires; None for never.
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
        """Return the task of a claim.

        Raises:
            PayloadError: If its parameters are not a JSON object.
        """
        try:
            parameters = json.loads(claimed.parameters)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the parameters of task {claimed.id} are not valid JSON: {error}") from error
        if not isinstance(parameters, dict):
            raise PayloadError(
                f"the parameters of task {claimed.id} must be a JSON object, not a {type(parameters).__name__}"
            )
        return cls(
            claimed.id, claimed.task_type, parameters, claimed.retry_count, claimed.retry_count + 1,
            claimed.resource, claimed.expires_in, claimed,
        )  # fmt: skip


def _find_callable(value: Any, names: tuple[str, ...]) -> Callable[..., object] | None:
    """Return the first of these methods that an object has, or the object itself if it can be called."""
    own = None if hasattr(value, "cursor") else value  # a sqlite3.Connection is callable too
    candidates = [*(getattr(value, name, None) for name in names), own]
    return next((each for each in candidates if callable(each)), None)


class WorkerLease:
    """Registers a worker and renews its lease from a background thread. If it dies, others take its tasks.

    Args:
        store: The store with the tasks.
        name: The name of the worker.
        settings: Its lease and queues.

    Attributes:
        id: The id of the current lease. After a lost lease, the worker registers with a new id.
        suspects: Whether a task waits that was running when a worker died.
    """

    def __init__(self, store: Store, name: str, settings: BaseWorkerSettings) -> None:
        self.id = ""
        self.suspects = False
        self._store, self._name, self._settings = store, name, settings
        self._lock = threading.Lock()
        self._heartbeat: LeaseHeartbeat | None = None
        self._thread: threading.Thread | None = None
        self._schema_error: SchemaError | None = None
        self._breaker_sync = ExitStack()

    @property
    def is_registered(self) -> bool:
        """Whether the worker is registered."""
        return self._heartbeat is not None

    @property
    def holds(self) -> bool:
        """Whether the lease is certainly valid. Without it, nothing may be claimed."""
        return self._heartbeat is not None and self._heartbeat.holds

    def check(self) -> None:
        """Raise the schema error of the last registration, if there was one.

        Raises:
            SchemaError: If the lease was lost because of a migration.
        """
        if self._schema_error is not None:
            raise self._schema_error

    def start(self) -> None:
        """Register the worker and start its heartbeats.

        Raises:
            SchemaError: If the tables do not exist or have another version.
        """
        self.check()
        if self._heartbeat is not None:
            return
        self._store.check_schema()
        self._store.check_dead_letters()
        self.renew(self.id)
        settings = self._settings
        heartbeat = LeaseHeartbeat(
            self._store,
            lambda: self.id,
            lease=settings.lease,
            every=settings.heartbeat,
            state=lambda: "running",
            on_lost=self._register_again,
        )
        # Without an alert age, because it could differ from the App's, and both would send alerts.
        heartbeat.add_fleet_duties(
            crash_limit=settings.crash_limit, alert_age=None, check_suspects=self._check_suspects
        )
        self._heartbeat = heartbeat
        self._thread = threading.Thread(target=heartbeat.run, name="outlast-heartbeat", daemon=True)
        self._thread.start()
        self._breaker_sync.enter_context(sync_breakers(self._store, lambda: self.id, leased=True))

    def renew(self, lost_id: str) -> str:
        """Register with a new id, unless another thread has already done so, and return the current id.

        Args:
            lost_id: The id of the lost lease.
        """
        with self._lock:
            if self.id == lost_id:
                self.id = f"{self._name}:{uuid.uuid4().hex[:12]}".replace("/", "_")
                try:
                    register_worker(self._store, self.id, self._name, self._settings.queues, 1, self._settings.lease)
                except SchemaError as error:
                    self._schema_error = error
                    raise
                if self._heartbeat is not None:
                    self._heartbeat.renewed()
            return self.id

    def stop(self) -> None:
        """Stop the heartbeats and unregister. Tasks that are still held are released without using an attempt."""
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is None:
            return
        self._breaker_sync.close()
        heartbeat.stop()
        if self._thread is not None:
            self._thread.join(self._settings.heartbeat)
        with suppress(Exception):  # the lease expires anyway
            self._store.leave(self.id)

    def _register_again(self, lost_id: str) -> None:
        if self._heartbeat is None:  # a last heartbeat after the stop
            return
        log.error("worker %s lost its lease; it registers again and drops its current task", lost_id)
        self.renew(lost_id)

    def _check_suspects(self) -> None:
        if self._store.suspects_due(self._settings.queues):
            self.suspects = True


class _UnwrittenFailure(NamedTuple):
    """A failed attempt that is not recorded yet."""

    task: WorkerTask
    error: BaseException


@dataclass
class _UnsettledTasks:
    """The tasks of a worker whose outcomes are not recorded.

    Attributes:
        held: Claimed tasks, by id.
        unwritten: Outcomes that could not be recorded yet.
        needs_reconcile: Whether a failed call may have claimed a task.
        store_error: The last error of the queue; empty while it works.
    """

    held: dict[int, WorkerTask] = field(default_factory=dict)
    unwritten: "list[_UnwrittenFailure | Settlement]" = field(default_factory=list)
    needs_reconcile: bool = False
    store_error: str = ""


class BaseWorker(ABC):
    """Runs tasks one at a time. A subclass implements `process_task`.

    The worker holds a task by a lease, which it renews while it lives. If it dies, another worker gets the task. Errors
    of a task go to the error handler and never end the loop; neither do errors of the database. Results that cannot be
    recorded are kept and recorded later, and nothing is claimed until then.

    Args:
        worker_id: Name of the worker.
        queue_db: An App, a store, or a connection of sqlite3 (to a file) or psycopg.
        config: A mapping or an object with settings such as ``queues``, ``lease``, ``poll_interval``, ``max_retries``;
            `outlast.worker.settings` lists them.
        results_db: Receives each task and its result, through its method `save` or `report`, or as a function. If it
            raises, the task fails, so that no result is lost unnoticed.
        metrics: Counts by name, through its method `increment` or as a function: ``tasks_done``, ``tasks_retried``,
            ``tasks_deferred``, ``tasks_failed``. Its errors are only logged.

    Attributes:
        error_handler: Decides about failed attempts.
        poll_interval: Seconds between two claims while no task is due.
    """

    def __init__(
        self, worker_id: str, queue_db: Any, config: Any = None, results_db: Any = None, metrics: Any = None
    ) -> None:
        self.worker_id, self.queue_db, self.config = str(worker_id), queue_db, config
        self.results_db, self.metrics = results_db, metrics
        self.settings = read_settings(config)
        self.poll_interval = self.settings.poll_interval
        self.store, self._owns_store = store_of(queue_db)
        self.error_handler = ErrorHandler(self.store, self.settings.strategy)
        self._lease = WorkerLease(self.store, self.worker_id, self.settings)
        self._stopped = threading.Event()
        self._pause = ClaimPause()
        self._unsettled = _UnsettledTasks()

    @property
    def running(self) -> bool:
        """Whether `run` continues. May be set to False from any thread."""
        return not self._stopped.is_set()

    @running.setter
    def running(self, value: bool) -> None:
        if value:
            self._stopped.clear()
        else:
            self._stopped.set()

    @abstractmethod
    def process_task(self, task: WorkerTask) -> Any:
        """Run a task. Returns its result or raises."""

    def run(self) -> None:
        """Run tasks until `stop` is called.

        Raises:
            SchemaError: If the tables do not exist or have another version.
        """
        try:
            while self.running:
                if not self._tick():
                    self._stopped.wait(self.poll_interval)
        finally:
            self.close()

    def stop(self) -> None:
        """Stop after the current task. May be called from any thread and from a signal handler."""
        self._stopped.set()

    def close(self) -> None:
        """Unregister the worker; needed only without `run`. Held tasks are released without using an attempt."""
        if self._lease.is_registered:
            self._write_unwritten()
            end = clock.monotonic() + _LAST_SECONDS
            while self._unsettled.unwritten and clock.monotonic() < end:
                clock.sleep(_LAST_PAUSE)
                self._write_unwritten()
        self._lease.stop()
        self._unsettled = _UnsettledTasks()
        if self._owns_store:
            self.store.close()

    def claim_task(self) -> WorkerTask | None:
        """Claim and return the next task that is due; None if there is none.

        A task that has expired, or whose parameters are not valid, becomes a dead letter and is skipped.
        """
        self._lease.start()
        while self._lease.holds and not self._unsettled.unwritten:
            claimed = self._claim()
            if claimed is None:
                return None
            if claimed.expires_in is not None and claimed.expires_in <= 0:
                self._settle(expiry_settlement(claimed.id, claimed.epoch))
                continue
            try:
                task = WorkerTask.of(claimed)
            except PayloadError as error:
                failure, traceback = classify(error), traceback_of(error)
                error_handler.log_failed_attempt(claimed.id, claimed.retry_count + 1, failure, traceback,
                    category=failure.category.value, max_attempts=None, will_retry=False)  # fmt: skip
                note = failure_note(failure, traceback)
                self._settle(Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason.UNDECODABLE))
                continue
            self._unsettled.held[task.id] = task
            return task
        return None

    def report_result(self, task: WorkerTask, result: Any) -> None:
        """Pass a result to `results_db` and settle the task as done. The store keeps the result if it is valid JSON.

        Args:
            task: The task.
            result: The return value of `process_task`.
        """
        save = _find_callable(self.results_db, ("save", "report"))  # a connection has neither: override this method
        if save is not None:
            save(task, result)
        self._settle_done(task, result)

    def _tick(self) -> bool:
        """Run the next task. Returns whether there was one."""
        try:
            self._lease.check()
            if self._pause.limit(clock.monotonic(), 1):
                self._write_unwritten()
            if self._unsettled.unwritten or not self._pause.limit(clock.monotonic(), 1):
                return False
            task = self.claim_task()
        except (ConfigError, SchemaError):
            raise
        except Exception as error:  # noqa: BLE001  # an error of the database must not end the worker
            self._log_store_error(error)
            return False
        if self._unsettled.store_error:
            log.warning("%s: the queue is available again", self.worker_id)
            self._unsettled.store_error = ""
        if task is not None:
            self._run_task(task)
        return task is not None

    def _run_task(self, task: WorkerTask) -> None:
        token = CURRENT_TASK.set(task.claimed)
        try:
            result = self.process_task(task)
            self.report_result(task, result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # including SystemExit: a task must not end its worker
            with HeldInterrupts():
                self._settle_failure(_UnwrittenFailure(task, error))
        else:
            if task.id in self._unsettled.held:  # an overridden `report_result` has not settled it
                self._settle_done(task, None)
            self._pause.succeeded(clock.monotonic())
            self._count("tasks_done")
        finally:
            CURRENT_TASK.reset(token)

    def _count(self, name: str) -> None:
        count = _find_callable(self.metrics, ("increment", "incr"))
        try:
            if count is not None:
                count(name)
        except Exception as error:  # noqa: BLE001  # an error in the metrics must not fail the task
            error_handler.log_broken_hook("metrics", error)

    def _claim(self) -> Claimed | None:
        tasks = self._unsettled
        if tasks.needs_reconcile:
            waiting = [each.task_id if isinstance(each, Settlement) else each.task.id for each in tasks.unwritten]
            self.store.reconcile(self._lease.id, [*tasks.held, *waiting])
            tasks.needs_reconcile = False
        has_suspects, self._lease.suspects = self._lease.suspects, False
        queues = self.settings.queues
        for suspect in (True, False) if has_suspects else (False, True):
            if suspect and not has_suspects and not self.store.suspects_due(queues):
                continue
            claim = Claim(queues, 1, 1, suspect=suspect)
            claimed = self._settle_and_claim(SettleAndClaim(self._lease.id, [], [], [], claim))
            if claimed is not None:
                return claimed
        return None

    def _settle_and_claim(self, request: SettleAndClaim) -> Claimed | None:
        try:
            result = self.store.settle_and_claim(request)
        except LeaseLostError as error:
            self._unsettled.held.clear()
            self._lease.renew(error.worker_id)
            return None
        except Exception:
            self._unsettled.needs_reconcile = True
            raise
        if result.refused:
            log.warning("%s: the result of task %d was refused: another worker has it", self.worker_id,
                        result.refused[0])  # fmt: skip
        return result.claimed[0] if result.claimed else None

    def _settle_done(self, task: WorkerTask, result: Any) -> None:
        text, keep = None, self.settings.keep_result
        if result is not None and keep:
            try:
                text = encode_result(result)
            except PayloadError as error:
                log.info("task %d is done, but its result is not stored: %s", task.id, error)
        self._settle(Settlement(task.id, task.claimed.epoch, Kind.DONE, result=text, keep=keep))

    def _settle(self, settlement: Settlement) -> None:
        """Settle a task, now or later."""
        self._unsettled.held.pop(settlement.task_id, None)
        try:
            self._settle_and_claim(SettleAndClaim(self._lease.id, [], [settlement], []))
        except Exception as error:  # noqa: BLE001  # the task has run; the result is recorded later
            self._unsettled.unwritten.append(settlement)
            self._log_store_error(error)

    def _settle_failure(self, failed: _UnwrittenFailure) -> None:
        """Decide about a failed attempt and record it, now or later."""
        task, error = failed
        handled = self._handle(task, error)
        trouble = handled.get("trouble")
        if trouble is not None:
            self._unsettled.unwritten.append(failed)
            self._log_store_error(trouble)
            return
        self._unsettled.held.pop(task.id, None)
        if handled.get("category") == Category.SYSTEM:
            failure = classify(error)
            seconds = self._pause.failed(clock.monotonic(), failure.message)
            log.error("%s: claiming pauses for %.0f s because of a system failure: %s", self.worker_id, seconds,
                      failure.message)  # fmt: skip
        if handled.get("deferred") and task.resource is not None:
            reason = str(classify(error))[:200]
            start_cooldown(self.store, StartCooldown(task.resource, handled["delay"], reason))
        if handled.get("changed", True):
            if not handled["retry"]:
                self._count("tasks_failed")
            else:
                self._count("tasks_deferred" if handled.get("deferred") else "tasks_retried")

    def _handle(self, task: WorkerTask, error: BaseException) -> HandledError:
        token = CURRENT_CLAIM.set(CurrentClaim((self.store, self.queue_db), task.id, task.claimed.epoch))
        try:
            return self.error_handler.handle_error(task.id, error, task.attempt)
        except BaseException as hook_error:  # noqa: BLE001  # a handler of the user's; the task matters more
            contain(hook_error)
            error_handler.log_broken_hook("error_handler", hook_error)
            return ErrorHandler(self.store, self.settings.strategy).handle_error(task.id, error, task.attempt)
        finally:
            CURRENT_CLAIM.reset(token)

    def _write_unwritten(self) -> None:
        waiting, self._unsettled.unwritten = self._unsettled.unwritten, []
        for each in waiting:
            if isinstance(each, Settlement):
                self._settle(each)
            else:
                self._settle_failure(each)

    def _log_store_error(self, error: Exception) -> None:
        """Log an error of the queue once, and pause if something waits to be recorded."""
        failure = classify(error)
        if self._unsettled.unwritten:
            self._pause.failed(clock.monotonic(), failure.message)
        level = log.debug if failure.message == self._unsettled.store_error else log.error
        self._unsettled.store_error = failure.message
        level("%s: the queue failed (%s), retrying later: %s", self.worker_id, failure.category, failure.message)
