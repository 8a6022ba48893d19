"""Runs the attempts of Celery tasks, records their results in the store, and returns what Celery should do next."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from celery.exceptions import Ignore, Reject, Retry  # type: ignore[import-untyped]

from outlast import clock
from outlast.classify import classify
from outlast.decide.decision import Defer, Fail
from outlast.engines.celery.engine import CeleryTaskRules, Engine, log, retry_store_call, within_store_timeout
from outlast.engines.celery.message_codec import (
    HEADER,
    MessageAttempt,
    encode_call,
    expiry_timestamp,
    message_attempt,
    read_header,
    unique_key,
    uses_celery_retry,
)
from outlast.errors import CoolingDownError, LeaseLostError, PayloadError
from outlast.ports.rows import Kind, NewTask, Settlement, Status
from outlast.queue import logs
from outlast.queue.execution import active_resource, breaker_cooldown
from outlast.queue.settlement import (
    TaskDecision,
    decide_task,
    decided_settlement,
    failure_note,
    publish_failure,
    task_state,
)
from outlast.queue.task_failure import TaskFailure, task_failure_of

_LIVE = {Status.QUEUED, Status.RUNNING}
_UNWRITTEN_DELAY = 60.0  # seconds after which a new row is sent if its failure could not be written
_MAX_COUNTDOWN = 600.0  # seconds that a message may wait in Celery, well below the visibility timeout of brokers
_SPREAD, _MAX_SPREAD = 0.1, 10.0  # share of a cooldown, and seconds, over which its tasks come back
_OWN_REFUSALS = {"ConcurrencyLimitError", "BreakerOpenError", "LocalRateLimitError"}
"""Our own limits: such an error says nothing new about the resource, so it starts no cooldown."""


class AttemptRecorder:
    """Records the results of attempts in the store.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lending, self._store = engine.lending, engine.app.store

    def settle_failure(
        self, task: Any, request: Any, rules: CeleryTaskRules, held: MessageAttempt | None, error: BaseException
    ) -> Exception | None:
        """Decide on a failed attempt and record it; return what to raise for Celery, or None for the error itself."""
        task_failure = task_failure_of(error, rules.policy)
        try:
            decision = self.record_failure(task, request, rules, held, task_failure)
        except PayloadError as payload_error:
            log.error("%s %s: %s", task.name, request.id, payload_error)
            return self._retry_in_broker(task, request, rules, error, task_failure)
        except Exception as store_error:  # noqa: BLE001  # any error of a database: the worker goes on
            failure = classify(store_error)
            log.error(
                "%s %s: its failure could not be written (%s): %s", task.name, request.id, failure.category, failure
            )
            if held is not None:  # the row will be sent again
                return _retry_signal(error, self._engine.resend_after)
            return self._retry_in_broker(task, request, rules, error, task_failure)
        if decision is None:
            return _ignore_signal(task, request, "another delivery has already recorded this attempt")
        return None if isinstance(decision, Fail) else _retry_signal(error, decision.delay)

    def record_end(
        self, task: Any, request: Any, rules: CeleryTaskRules, held: MessageAttempt | None, error: BaseException
    ) -> None:
        """Record the end of a task that Celery has ended itself."""
        try:
            self.record_failure(task, request, rules, held, task_failure_of(error, rules.policy), is_over=True)
        except Exception as store_error:  # noqa: BLE001  # as above; Celery also records the end
            log.error("%s %s: its end could not be written: %s", task.name, request.id, classify(store_error))

    @within_store_timeout
    def has_failed(self, task: Any, request: Any, held: MessageAttempt | None) -> bool:
        """Return whether the store has the task as failed: the process of an attempt may end after it was recorded."""
        number = self._lending.find_by_key(task.name, unique_key(request.id)) if held is None else held.task_id
        row = None if number is None else self._store.get(number)
        return row is not None and row.status is Status.FAILED

    @within_store_timeout
    def record_failure(
        self,
        task: Any,
        request: Any,
        rules: CeleryTaskRules,
        held: MessageAttempt | None,
        task_failure: TaskFailure,
        *,
        is_over: bool = False,
    ) -> TaskDecision | None:
        """Record a failed attempt; return the decision, or None if the attempt is not the current one.

        Args:
            task: The task.
            request: Its request.
            rules: The settings of the task.
            held: The attempt, if the task has a row; otherwise a row is added.
            task_failure: The failure.
            is_over: Whether Celery has already ended the task.

        Raises:
            PayloadError: If the arguments cannot be stored.
            Exception: An error of the database.
        """
        held = held or self._find_or_add_row(task, request, rules, delay=_UNWRITTEN_DELAY)
        state = None if held is None else retry_store_call(lambda: self._lending.attempt_state(held.task_id))
        if held is None or state is None or state.status not in _LIVE or state.retry_count != held.attempt - 1:
            return None
        failure, exhausted = task_failure.failure, is_over or uses_celery_retry(task, request)
        facts = task_state(
            task_failure.wanted, state, attempt=held.attempt, wait=task_failure.wait, exhausted=exhausted
        )
        decision = decide_task(failure, rules.policy, facts)
        note = failure_note(failure, task_failure.traceback)
        if not self._settle(decided_settlement(held.task_id, 0, decision, note), held):
            return None
        logs.log_failure(rules.name, rules.policy, held.task_id, held.attempt, task_failure, decision)
        if rules.resource is not None and isinstance(decision, Defer) and failure.exception_name not in _OWN_REFUSALS:
            reason = f"{failure.category}: {failure.message:.200}"
            self._engine.app.cooling.start_cooldown(rules.resource, decision.delay, reason)
        publish_failure(rules.name, held.task_id, held.attempt, decision, failure)
        return decision

    @within_store_timeout
    def defer(self, task: Any, request: Any, rules: CeleryTaskRules, wait: float) -> Exception:
        """Let an attempt wait in the store before it starts; return what to raise for Celery."""
        held = message_attempt(request)
        held = held and held._replace(unbegun=True)  # another message may have started it
        reason = CoolingDownError(f"{rules.resource} cools down", retry_after=wait)
        try:
            if held is None:
                known = self._find_or_add_row(task, request, rules, delay=wait) is not None
            else:
                state = self._lending.attempt_state(held.task_id)
                if state is not None and state.canary:  # a canary has to give its answer now
                    self.record_failure(task, request, rules, held, task_failure_of(reason, rules.policy))
                    return reason
                settlement = Settlement(held.task_id, 0, Kind.DEFER, wait)
                known = self._lending.settle_attempt(settlement, held.attempt, unbegun=True)
        except Exception as error:  # noqa: BLE001  # the message waits even if it cannot be stored
            log.warning("%s %s: waits in the broker: %s", task.name, request.id, classify(error))
            return self._resend_message(task, request, reason, min(wait, _MAX_COUNTDOWN), spent=0)
        if not known:
            return _ignore_signal(task, request, "another delivery is running or was already deferred")
        log.info("%s %s: deferred for %.1f s, %s", task.name, request.id, wait, reason)
        return _retry_signal(reason, wait)

    @within_store_timeout
    def record_success(self, held: MessageAttempt) -> None:
        """Record a success."""
        try:
            if not self._settle(Settlement(held.task_id, 0, Kind.DONE), held):
                log.warning("task %d: its success is not recorded, because another attempt has started", held.task_id)
        except Exception as error:  # noqa: BLE001  # the row is released and the task runs again
            log.error("task %d: its success could not be written: %s", held.task_id, classify(error))

    @within_store_timeout
    def lend_row(self, held: MessageAttempt, seconds: float) -> bool:
        """Let a row wait for a message that Celery sends itself; return whether it does."""
        try:
            return self._lending.release_to_engine([(held.task_id, held.epoch or 0)], seconds) == 1
        except Exception as error:  # noqa: BLE001  # the row is released and the task runs again
            log.error("task %d: it could not be released to Celery: %s", held.task_id, classify(error))
            return False

    def stale_message(self, task: Any, request: Any, held: MessageAttempt) -> Exception:
        """Return what to raise for the message of an attempt that is not the current one, or is already running."""
        state = self._lending.attempt_state(held.task_id)
        why = f"task {held.task_id} does not exist any more"
        if state is not None and state.status not in _LIVE:
            why = f"task {held.task_id} is over: {state.status}"
        elif state is not None:
            current = state.retry_count + 1
            why = f"attempt {held.attempt} of task {held.task_id} is running or over; the current attempt is {current}"
        return _ignore_signal(task, request, why)

    def find_redelivered(self, task: Any, request: Any) -> MessageAttempt | None:
        """Return the attempt of a redelivered first message, if a row was added for it but no failure was written.

        Raises:
            Ignore: If its failure was written, so that the message is already processed.
        """
        number = self._row_of_earlier_delivery(task, request)
        if number is not None and not self.is_unwritten(number):
            raise _ignore_signal(task, request, f"it was delivered before, and task {number} has its failure")
        return None if number is None else MessageAttempt(number, 1, None)

    def _row_of_earlier_delivery(self, task: Any, request: Any) -> int | None:
        if not (request.delivery_info or {}).get("redelivered"):
            return None
        return self._lending.find_by_key(task.name, unique_key(request.id))

    def is_unwritten(self, number: int) -> bool:
        """Return whether a row was added for a failure that was then not written."""
        row = self._store.get(number)
        return row is not None and row.status in _LIVE and not (row.attempt or row.deferrals or row.replays)

    def _find_or_add_row(
        self, task: Any, request: Any, rules: CeleryTaskRules, *, delay: float
    ) -> MessageAttempt | None:
        """Return the first attempt of a task, with a new row; None if an earlier delivery was already recorded."""
        known = retry_store_call(lambda: self._row_of_earlier_delivery(task, request))
        if known is not None:
            return MessageAttempt(known, 1, None) if self.is_unwritten(known) else None
        celery_retries = uses_celery_retry(task, request)
        text = encode_call(task, request, limit=self._engine.app.payload_limit, celery_retries=celery_retries)
        expiry = expiry_timestamp(request.expires)
        row = NewTask(
            task.name, text, self._engine.queue, delay=delay, unique_key=unique_key(request.id),
            resource=rules.resource, expires=None if expiry is None else max(0.0, expiry - clock.now()),
        )  # fmt: skip
        added = retry_store_call(lambda: self._store.enqueue([row])[0])
        if not added.created and not self.is_unwritten(added.id):
            return None
        return MessageAttempt(added.id, 1, None)

    def _settle(self, settlement: Settlement, held: MessageAttempt) -> bool:
        reporter = self._engine.worker_id or None
        return retry_store_call(
            lambda: self._lending.settle_attempt(
                settlement, held.attempt, epoch=held.epoch, reporter=reporter, unbegun=held.unbegun
            )
        )

    def _retry_in_broker(
        self, task: Any, request: Any, rules: CeleryTaskRules, error: BaseException, task_failure: TaskFailure
    ) -> Exception | None:
        """Decide on a failed attempt that cannot be stored: the message waits in Celery and counts the attempts."""
        attempt = int(request.retries or 0) + 1
        exhausted = uses_celery_retry(task, request)
        facts = task_state(task_failure.wanted, None, attempt=attempt, wait=task_failure.wait, exhausted=exhausted)
        decision = decide_task(task_failure.failure, rules.policy, facts)
        logs.log_failure(rules.name, rules.policy, 0, attempt, task_failure, decision)
        if isinstance(decision, Fail):
            log.error("%s %s: it has no dead letter, only the record of Celery", task.name, request.id)
            return None
        return self._resend_message(task, request, error, min(decision.delay, _MAX_COUNTDOWN))

    @staticmethod
    def _resend_message(task: Any, request: Any, error: BaseException, wait: float, *, spent: int = 1) -> Exception:
        """Send the message again with a countdown in seconds; it waits in the broker."""
        retries = int(request.retries or 0) + spent
        header = read_header(request) or {}
        header = header | {"retries": int(header.get("retries", 0)) + spent}
        headers = (request.headers or {}) | {HEADER: header}
        task.signature_from_request(request, countdown=wait, retries=retries, headers=headers).apply_async()
        return _retry_signal(error, wait)


def _retry_signal(error: BaseException, seconds: float) -> Exception:
    """Return the exception that tells Celery that a task will be retried. It sends no message."""
    signal: Exception = Retry(exc=error, when=round(seconds, 3))
    return signal


def _ignore_signal(task: Any, request: Any, why: str) -> Exception:
    """Return the exception that makes Celery ignore a message, and log why, since Celery does not."""
    log.info("%s %s: a message is ignored, %s", task.name, request.id, why)
    signal: Exception = Ignore(why)
    return signal


class AttemptRunner:
    """Runs attempts, and records their errors before Celery gets them.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._recorder = engine, AttemptRecorder(engine)

    def run(self, task: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an attempt for the current message, and return the result of the function.

        Args:
            task: The task.
            call: Calls its function.
            args: Positional arguments.
            kwargs: Keyword arguments.

        Raises:
            Ignore: If the message is not that of the current attempt: it came twice, or the task is over.
            Retry: If the attempt failed or was deferred, and waits in the store.
            Exception: The error of the function, if the task has failed for good.
        """
        engine, request = self._engine, task.request
        rules = engine.rules(task)
        wait = 0.0 if rules.resource is None else engine.app.cooling.left(rules.resource)
        if wait > 0:
            wait += clock.random() * min(_SPREAD * wait, _MAX_SPREAD)  # with jitter, without using an attempt
            raise self._recorder.defer(task, request, rules, wait)
        request.outlast_held = held = self._mark_started(task, request)
        guard = active_resource(rules.resource)
        try:
            with guard or nullcontext():
                value = call(*args, **kwargs)
        except (Retry, Ignore, Reject) as signal:
            self._settle_for_celery(request, held, signal)
            raise
        except Exception as error:
            replacement = self._recorder.settle_failure(task, request, rules, held, error)
            cooldown = breaker_cooldown(guard)  # so that all tasks of the resource wait
            if cooldown is not None:
                engine.app.cooling.start_cooldown(*cooldown)
            if replacement is None:
                raise
            raise replacement from error
        if rules.resource is not None:
            engine.app.cooling.answered(rules.resource)
        if not getattr(request, "outlast_lent", False):  # else a retry was sent, and the task is not over
            request.outlast_ran = (held,)  # recorded once Celery has stored the result
        return value

    def succeeded(self, request: Any) -> None:
        """Record a success once Celery has stored the result; a task that never failed has no row."""
        ran, request.outlast_ran = getattr(request, "outlast_ran", None), None
        if ran and ran[0] is not None:
            self._recorder.record_success(ran[0])

    def record_late_failure(self, task: Any, request: Any, error: BaseException) -> None:
        """Record a failure after the function has returned: Celery could not store the result."""
        ran, request.outlast_ran = getattr(request, "outlast_ran", None), None
        if ran:
            self._recorder.record_end(task, request, self._engine.rules(task), ran[0], error)

    def lend_for_retry(self, request: Any, when: object) -> None:
        """Let the row of an attempt wait for the message that Celery is about to send for it.

        Call it before: afterwards, another process may already have taken the message, and found the attempt running.

        Args:
            request: The request of the attempt.
            when: A time, or a number of seconds.
        """
        held = getattr(request, "outlast_held", None)
        if held is not None and held.epoch is not None:
            request.outlast_lent = self._recorder.lend_row(held, _seconds_until(when) + self._engine.resend_after)

    @within_store_timeout
    def _mark_started(self, task: Any, request: Any) -> MessageAttempt | None:
        """Mark the start of an attempt that has a row, and return it; None for the first attempt, which has no row."""
        engine, held = self._engine, message_attempt(request)
        try:
            held = held or self._recorder.find_redelivered(task, request)
            if held is None:
                return None
            epoch = engine.lending.begin(held.task_id, held.attempt, engine.worker_id)
            if epoch is None:
                raise self._recorder.stale_message(task, request, held)
        except Ignore:
            raise
        except LeaseLostError:  # the worker registers again; the attempt number still fences
            return held
        except Exception as error:  # noqa: BLE001  # any error of a database: the message is here now
            log.warning("%s %s: runs although the store is unavailable: %s", task.name, request.id, classify(error))
            return held
        return held._replace(epoch=epoch)

    def _settle_for_celery(self, request: Any, held: MessageAttempt | None, signal: Exception) -> None:
        """Settle the row as the function told Celery to treat the message."""
        if held is None or held.epoch is None or getattr(request, "outlast_lent", False):
            return  # a row that waits for a message that was not sent is sent again later
        if isinstance(signal, Retry) or (isinstance(signal, Reject) and signal.requeue):
            wait = _seconds_until(signal.when) if isinstance(signal, Retry) else 0.0
            self._recorder.lend_row(held, wait + self._engine.resend_after)
        else:
            self._recorder.record_success(held)


def _seconds_until(when: object) -> float:
    expiry = expiry_timestamp(when)
    if expiry is not None:
        return max(0.0, expiry - clock.now())
    return float(when) if isinstance(when, int | float) else 0.0
