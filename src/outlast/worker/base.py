"""A worker to derive from: claims tasks one at a time, and survives whatever they do."""

import threading
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from outlast import clock
from outlast.classify import classify
from outlast.errors import ConfigError, LeaseLostError, PayloadError, SchemaError
from outlast.failure import Category
from outlast.ports.rows import Claim, Claimed, Kind, Reason, Settlement, Turn
from outlast.queue.current import CURRENT
from outlast.queue.executing import expired
from outlast.queue.pausing import ClaimPause
from outlast.queue.payload import encode_result
from outlast.queue.settling import note_of
from outlast.record.tracebacks import traceback_of
from outlast.worker import logs
from outlast.worker.handler import HELD, ErrorHandler, HandledError, Held
from outlast.worker.lease import Lease
from outlast.worker.outlets import counter_of, saver_of
from outlast.worker.places import store_of
from outlast.worker.settings import settings_from
from outlast.worker.task import WorkerTask

__all__ = ["BaseWorker"]


class _Failed(NamedTuple):
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
        self.settings = settings_from(config)
        self.poll_interval = self.settings.poll_interval
        self.store, self._owned = store_of(queue_db)
        self.error_handler = ErrorHandler(self.store, self.settings.strategy)
        self._lease = Lease(self.store, self.worker_id, self.settings)
        self._save, self._count = saver_of(results_db), counter_of(metrics)
        self._stopped = threading.Event()
        self._pause = ClaimPause()
        self._held: dict[int, WorkerTask] = {}
        self._unwritten: list[_Failed | Settlement] = []
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
                self._settle(expired(claimed))
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
            logs.log.warning("%s: the queue answers again", self.worker_id)
            self._trouble = ""
        if task is not None:
            self._work(task)
        return task is not None

    def _work(self, task: WorkerTask) -> None:
        token = CURRENT.set(task.claimed)
        try:
            result = self.process_task(task)
            self.report_result(task, result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
            self._failed(_Failed(task, error))
        else:
            if task.id in self._held:  # a `report_result` of the user's own has not settled it
                self._done(task, None)
            self._pause.succeeded(clock.monotonic())
            self._count("tasks_done")
        finally:
            CURRENT.reset(token)

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
            claimed = self._turn(Turn(self._lease.id, [], [], [], Claim(queues, 1, 1, suspect=alone)))
            if claimed is not None:
                return claimed
        return None

    def _turn(self, turn: Turn) -> Claimed | None:
        try:
            turned = self.store.turn(turn)
        except LeaseLostError as error:
            self._held.clear()
            self._lease.renew(error.worker_id)
            return None
        except Exception:
            self._unsure = True
            raise
        if turned.refused:
            logs.log.warning("%s: what became of task %d was refused: another worker has it", self.worker_id,
                             turned.refused[0])  # fmt: skip
        return turned.claimed[0] if turned.claimed else None

    def _done(self, task: WorkerTask, result: Any) -> None:
        text, keep = None, self.settings.keep_result
        if result is not None and keep:
            try:
                text = encode_result(result)
            except PayloadError as error:
                logs.log.info("task %d is done; its result is not kept: %s", task.id, error)
        self._settle(Settlement(task.id, task.claimed.epoch, Kind.DONE, result=text, keep=keep))

    def _undecodable(self, claimed: Claimed, error: PayloadError) -> None:
        failure = classify(error)
        logs.failed(claimed.id, claimed.retry_count + 1, failure, traceback_of(error),
                    category=failure.category.value, most=None, again=False)  # fmt: skip
        note = note_of(failure, traceback_of(error))
        self._settle(Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason.UNDECODABLE))

    def _settle(self, settlement: Settlement) -> None:
        """Write what became of a task, now or later."""
        self._held.pop(settlement.task_id, None)
        try:
            self._turn(Turn(self._lease.id, [], [settlement], []))
        except Exception as error:  # noqa: BLE001  # its work is done; doing it again would not help
            self._unwritten.append(settlement)
            self._troubled(error)

    def _failed(self, failed: _Failed) -> None:
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
            logs.log.error("%s claims nothing for %.0f s, this machine is not well: %s", self.worker_id, seconds,
                           failure.message)  # fmt: skip
        if handled.get("deferred") and task.resource is not None:
            self._cool(task.resource, handled["delay"], error)
        if handled.get("changed", True):
            kind = "failed" if not handled["retry"] else "deferred" if handled.get("deferred") else "retried"
            self._count(f"tasks_{kind}")

    def _cool(self, resource: str, seconds: float, error: BaseException) -> None:
        """Have everybody leave a resource alone that has named a time."""
        try:
            self.store.cool(resource, seconds, str(classify(error))[:200])
        except Exception as trouble:  # noqa: BLE001  # the task itself is put off all the same
            logs.log.warning("the cooldown of %s could not be shared: %s", resource, classify(trouble).message)

    def _handled(self, task: WorkerTask, error: BaseException) -> HandledError:
        token = HELD.set(Held((self.store, self.queue_db), task.id, task.claimed.epoch))
        try:
            return self.error_handler.handle_error(task.id, error, task.attempt)
        except Exception as mistake:  # noqa: BLE001  # a handler of the user's; the task matters more
            logs.broken("error_handler", mistake)
            return ErrorHandler(self.store, self.settings.strategy).handle_error(task.id, error, task.attempt)
        finally:
            HELD.reset(token)

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
        level = logs.log.debug if failure.message == self._trouble else logs.log.error
        self._trouble = failure.message
        level("%s: the queue failed (%s), tried again later: %s", self.worker_id, failure.category, failure.message)
