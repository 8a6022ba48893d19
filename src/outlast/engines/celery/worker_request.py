"""The request class of Celery workers: records tasks whose process died, took too long, or were revoked."""

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
from outlast.queue.settlement import expiry_settlement


class OutlastRequest(celery_request.Request):  # type: ignore[misc]  # Celery has no types
    """A message that a Celery worker processes.

    If the process of a task dies, that is a failed attempt like any other: it is recorded, and retried by the policy
    of the task. Without this, Celery gives the task up, or delivers its message again and again.
    """

    _outlast_recorded = False

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:  # noqa: FBT001, FBT002  # the signature of Celery
        """Record a failed attempt here if its process could not."""
        error = _unwrap_error(exc_info.exception)
        fallback = partial(super().on_failure, exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
        if isinstance(error, WorkerLostError | TimeLimitExceeded | SystemExit | KeyboardInterrupt) and self._is_ours():
            return self._record_in_background(error, exc_info, fallback)
        return fallback()

    def on_timeout(self, soft: Any, timeout: Any) -> None:
        """Record an attempt that took too long; Celery kills its process."""
        if self._outlast_recorded:
            return
        fallback = partial(super().on_timeout, soft, timeout)
        if not soft and self._is_ours():
            self._record_in_background(TimeLimitExceeded(timeout), None, fallback)
        else:
            fallback()

    def _announce_revoked(self, reason: Any, terminated: Any, signum: Any, expired: Any) -> None:  # overrides Celery
        super()._announce_revoked(reason, terminated, signum, expired)
        held = message_attempt(self._context)
        if held is not None:
            self.task.outlast_engine.background_thread.do(
                partial(self._record_revoked, held, reason, terminated=bool(terminated))
            )

    def _is_ours(self) -> bool:
        is_ended = state.should_terminate or self._already_cancelled or self._already_revoked
        if is_ended or self.task.name.startswith("celery."):
            return False
        stored = getattr(self, "_success_was_stored", None)
        return stored is None or not stored()

    def _record_in_background(self, error: BaseException, exc_info: Any, fallback: LoopCallback) -> None:
        """Record a failed attempt in the background thread: a slow store must not block the other tasks."""
        self._outlast_recorded = True
        self.task.outlast_engine.background_thread.do(partial(self._record_failure, error, exc_info, fallback))

    def _record_failure(self, error: BaseException, exc_info: Any, fallback: LoopCallback) -> LoopCallback:
        """Record a failed attempt; return the call that reports it to Celery."""
        task, context = self.task, self._context
        engine = task.outlast_engine
        rules, held = engine.rules(task), message_attempt(context)
        context.args, context.kwargs = self.args, self.kwargs
        if isinstance(error, SystemExit | KeyboardInterrupt):
            error = WorkerLostError(f"the task ended its process: {type(error).__name__}")
        recorder, signal = AttemptRecorder(engine), None
        try:
            if not recorder.has_failed(task, context, held):
                signal = recorder.settle_failure(task, context, rules, held, error)
        except Exception as store_error:  # noqa: BLE001  # neither store nor broker works: Celery handles it alone
            log.error("%s %s: its failure could not be written: %s", task.name, self.id, classify(store_error))
            return fallback
        return partial(self._report_to_celery, error, exc_info, signal)

    def _report_to_celery(self, error: BaseException, exc_info: Any, signal: Exception | None) -> None:
        """Report the attempt to Celery: acknowledge the message, store the result, send the events."""
        state.task_ready(self)
        task, context, traceback = self.task, self._context, getattr(exc_info, "traceback", None)
        if self.task.acks_late:
            self.acknowledge()
        if isinstance(signal, Ignore):
            return
        if signal is None:
            task.backend.mark_as_failure(self.id, error, traceback, request=context, store_result=self.store_errors)
        elif self.store_errors:
            task.backend.mark_as_retry(self.id, error, traceback, request=context)
        task.request_stack.push(context)
        try:
            if signal is None:
                task.on_failure(error, self.id, self.args, self.kwargs, exc_info)
                signals.task_failure.send(
                    sender=task, task_id=self.id, exception=error, args=self.args, kwargs=self.kwargs,
                    traceback=traceback, einfo=exc_info,
                )  # fmt: skip
            else:
                task.on_retry(error, self.id, self.args, self.kwargs, exc_info)
                signals.task_retry.send(sender=task, request=context, reason=signal, einfo=exc_info)
        finally:
            task.request_stack.pop()
        event = "task-failed" if signal is None else "task-retried"
        self.send_event(event, exception=repr(error), traceback=str(traceback or ""))

    @within_store_timeout
    def _record_revoked(self, held: MessageAttempt, reason: str, *, terminated: bool) -> None:
        """Record that a task was revoked or has expired."""
        engine = self.task.outlast_engine
        try:
            if terminated:
                AttemptRecorder(engine).record_end(
                    self.task, self._context, engine.rules(self.task), held,
                    RuntimeError("stopped by hand, while it ran"),
                )  # fmt: skip
            elif reason == "expired":
                engine.lending.settle_attempt(expiry_settlement(held.task_id, 0), held.attempt, unbegun=True)
            else:
                engine.app.store.cancel([held.task_id])
        except Exception as error:  # noqa: BLE001  # it is sent again, and revoked again
            log.error("task %d: its revocation could not be written: %s", held.task_id, classify(error))


def _unwrap_error(error: Any) -> Any:
    """Return the original error: the pool wraps some to keep their tracebacks."""
    inner = getattr(error, "exc", None)
    return inner if type(error).__name__ == "ExceptionWithTraceback" and inner is not None else error
