"""What the Celery worker itself sees of a task: that its process died, took too long, or was stopped by hand."""

from functools import partial
from typing import Any

from celery import signals  # type: ignore[import-untyped]
from celery.exceptions import Ignore, TimeLimitExceeded, WorkerLostError  # type: ignore[import-untyped]
from celery.worker import request as celery_request  # type: ignore[import-untyped]
from celery.worker import state

from outlast.classify import classify
from outlast.engines.celery.attempt import AttemptRecorder
from outlast.engines.celery.engine import LoopCallback, log, within_store_timeout
from outlast.engines.celery.message_codec import MessageAttempt, message_attempt
from outlast.failure import Category, Failure
from outlast.ports.rows import Kind, Reason, Settlement
from outlast.queue.settlement import failure_note


class OutlastRequest(celery_request.Request):  # type: ignore[misc]  # Celery has no types
    """A message in the hands of a Celery worker.

    A process that dies with a task is a failed attempt like any other: it is written, and retried by the task's policy.
    Without that, Celery gives the task up, or delivers its message again and again.
    """

    _outlast_told = False

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:  # noqa: FBT001, FBT002  # Celery's own
        """Take in that an attempt failed; what its process could not write is written here."""
        error = _unwrap_error(exc_info.exception)
        if isinstance(error, WorkerLostError | TimeLimitExceeded | SystemExit | KeyboardInterrupt) and self._is_ours():
            otherwise = partial(super().on_failure, exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
            return self._hand_over(error, exc_info, otherwise)
        return super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft: Any, timeout: Any) -> None:
        """Take in that an attempt took too long; its process is killed by Celery."""
        if self._outlast_recorded:
            return
        if not soft and self._is_ours():
            self._hand_over(TimeLimitExceeded(timeout), None, partial(super().on_timeout, soft, timeout))
            return
        super().on_timeout(soft, timeout)

    def _announce_revoked(self, reason: Any, terminated: Any, signum: Any, expired: Any) -> None:  # Celery's own
        super()._announce_revoked(reason, terminated, signum, expired)
        held = message_attempt(self._context)
        if held is not None:
            self.task.outlast_engine.aside.do(partial(self._end, held, reason, terminated=bool(terminated)))

    def _is_ours(self) -> bool:
        if state.should_terminate or self._already_cancelled or self._already_revoked:
            return False
        if self.task.name.startswith("celery."):
            return False
        stored = getattr(self, "_success_was_stored", None)
        return stored is None or not stored()

    def _hand_over(self, error: BaseException, exc_info: Any, otherwise: LoopCallback) -> None:
        """Have it written beside the loop: a store that does not answer must not hold up the other tasks."""
        self._outlast_recorded = True
        self.task.outlast_engine.aside.do(partial(self._written, error, exc_info, otherwise))

    def _written(self, error: BaseException, exc_info: Any, otherwise: LoopCallback) -> LoopCallback:
        """Write a failed attempt; return what is left to tell Celery."""
        task, context = self.task, self._context
        engine = task.outlast_engine
        rules, held = engine.rules(task), message_attempt(context)
        context.args, context.kwargs = self.args, self.kwargs
        if isinstance(error, SystemExit | KeyboardInterrupt):
            error = WorkerLostError(f"the task ended its process: {type(error).__name__}")
        try:
            told = AttemptRecorder(engine).failed(task, context, rules, held, error)
        except Exception as trouble:  # noqa: BLE001  # neither store nor broker: then Celery does as it always did
            log.error("%s %s: its failure could not be kept: %s", task.name, self.id, classify(trouble))
            return otherwise
        return partial(self._told, error, exc_info, told)

    def _told(self, error: BaseException, exc_info: Any, instead: Exception | None) -> None:
        """Tell Celery's side of it: its result, its events, and that the message is dealt with."""
        state.task_ready(self)
        task, context, traceback = self.task, self._context, getattr(exc_info, "traceback", None)
        if self.task.acks_late:
            self.acknowledge()
        if isinstance(instead, Ignore):
            return
        told = {"exception": repr(error), "traceback": str(traceback or "")}
        if instead is None:
            task.backend.mark_as_failure(self.id, error, traceback, request=context, store_result=self.store_errors)
            task.request_stack.push(context)
            try:
                task.on_failure(error, self.id, self.args, self.kwargs, exc_info)
                signals.task_failure.send(
                    sender=task, task_id=self.id, exception=error, args=self.args, kwargs=self.kwargs,
                    traceback=traceback, einfo=exc_info,
                )  # fmt: skip
            finally:
                task.request_stack.pop()
            self.send_event("task-failed", **told)
            return
        if self.store_errors:
            task.backend.mark_as_retry(self.id, error, traceback, request=context)
        task.request_stack.push(context)
        try:
            task.on_retry(error, self.id, self.args, self.kwargs, exc_info)
            signals.task_retry.send(sender=task, request=context, reason=instead, einfo=exc_info)
        finally:
            task.request_stack.pop()
        self.send_event("task-retried", **told)

    @within_store_timeout
    def _end(self, held: MessageAttempt, reason: str, *, terminated: bool) -> None:
        """Write that a task was stopped by hand, or came too late."""
        engine = self.task.outlast_engine
        try:
            if terminated:
                AttemptRecorder(engine).ended(
                    self.task, self._context, engine.rules(self.task), held,
                    RuntimeError("stopped by hand, while it ran"),
                )  # fmt: skip
            elif reason == "expired":
                engine.lending.settle_attempt(_expired_settlement(held.task_id), held.attempt, unbegun=True)
            else:
                engine.app.store.cancel([held.task_id])
        except Exception as trouble:  # noqa: BLE001  # it is sent again, and revoked again
            log.error("task %d: that it was revoked could not be written: %s", held.task_id, classify(trouble))


def _expired_settlement(number: int) -> Settlement:
    message = "not started in time: its expiry had passed"
    failure = Failure(Category.UNKNOWN, retryable=False, exception_name="Expired", message=message, rule="expired")
    return Settlement(number, 0, Kind.FAIL, note=failure_note(failure), reason=Reason.EXPIRED)


def _unwrap_error(error: Any) -> Any:
    """Return an error as it was; the pool packs some up with their tracebacks."""
    inner = getattr(error, "exc", None)
    return inner if type(error).__name__ == "ExceptionWithTraceback" and inner is not None else error
