"""Handles failed attempts of tasks: classifies the error, decides about a retry, and records and logs the result."""

from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, NotRequired, TypedDict

from outlast.classify import attach_failure, classify, failure_of
from outlast.classify.rules import as_classifier
from outlast.classify.safe_access import contain
from outlast.decide.decision import DecisionReason, Defer, Fail, Retry
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import Category, Failure
from outlast.ports.external_attempts import AttemptState
from outlast.ports.rows import Note, Status
from outlast.queue.logs import log
from outlast.queue.settlement import (
    TaskDecision,
    decide_task,
    decided_settlement,
    failure_note,
    publish_failure,
    task_state,
)
from outlast.record.log_text import traceback_of
from outlast.units import format_seconds
from outlast.worker.queue_access import attempt_reports_of
from outlast.worker.settings import ExponentialBackoffStrategy, RetryStrategyProtocol


class ErrorClassifier:
    """Classifies errors for workers.

    Args:
        classifier: A `Classifier`, or an object with `is_retryable` and `get_error_category`; by default the classifier
            of the process.
    """

    def __init__(self, classifier: Any = None) -> None:
        self._classifier = None if classifier is None else as_classifier(classifier)

    def classify(self, error: BaseException) -> Failure:
        """Return the classified failure of an error."""
        if self._classifier is not None:
            return self._classifier.classify(error).settled()
        failure = failure_of(error)
        attach_failure(error, failure)  # the other methods, and the code that handles the error next, need it too
        return failure

    def is_retryable(self, error: BaseException) -> bool:
        """Return whether a retry may help. Unknown errors are not retryable."""
        return self.classify(error).retryable

    def get_error_category(self, error: BaseException) -> str:
        """Return the name of the error's category; ``"unknown"`` if no rule matches."""
        return self.classify(error).category.value

    def get_error_metadata(self, error: BaseException) -> dict[str, Any]:
        """Return the facts about an error, redacted and ready for JSON."""
        failure = self.classify(error)
        metadata: dict[str, Any] = {
            "error_type": failure.exception_name,
            "error_message": failure.message,
            "category": failure.category.value,
            "retryable": failure.retryable,
            "origin": failure.origin.value,
            "http_status": failure.http_status,
            "code": failure.code,
            "rule": failure.rule,
            "fingerprint": failure.fingerprint,
        }
        if failure.retry_after is not None:
            metadata["retry_after"] = failure.retry_after
        return metadata


def log_failed_attempt(  # noqa: PLR0913  # all facts about the attempt
    task_id: int,
    attempt: int,
    failure: Failure,
    traceback: str,
    *,
    category: str,
    max_attempts: int | None,
    will_retry: bool,
    delay: float | None = None,
) -> None:
    """Log a failed attempt: a retry as a warning with the traceback at debug level, the last one as an error with it.

    The arguments of a task are never logged.
    """
    of, text = "" if max_attempts is None else f" of {max_attempts}", failure.summary
    keys = {**_log_keys(task_id, failure), "attempt": attempt, "max_attempts": max_attempts, "error_category": category}
    with suppress(Exception):  # a log handler that raises must not end the worker
        if will_retry:
            when = "retrying" if delay is None else f"retrying in {format_seconds(delay)}"
            log.warning("task %s: attempt %s%s failed (%s), %s: %s",
                        task_id, attempt, of, category, when, text, extra=keys | {"delay": delay})  # fmt: skip
            log.debug("task %s: traceback of attempt %s\n%s", task_id, attempt, traceback)
        else:
            log.error("task %s: dead letter after attempt %s%s (%s): %s\n%s",
                      task_id, attempt, of, category, text, traceback, extra=keys)  # fmt: skip


def log_broken_hook(name: str, error: BaseException) -> None:
    """Log that an object of the user's, such as a classifier or metrics, raised an error."""
    with suppress(Exception):  # as above
        log.error("%s raised: %s", name, classify(error).summary)


def _log_keys(task_id: int, failure: Failure) -> dict[str, Any]:
    return {"task_id": task_id, **failure.log_keys()}


_LIVE_STATUSES = {Status.QUEUED, Status.RUNNING}


class CurrentClaim(NamedTuple):
    """The claim under which the calling code runs a task, and its queue, because task ids are unique per store only."""

    queues: tuple[object, ...]
    task_id: int
    epoch: int


CURRENT_CLAIM: ContextVar[CurrentClaim | None] = ContextVar("outlast.worker.held", default=None)


class HandledError(TypedDict):
    """The result of `ErrorHandler.handle_error`.

    Attributes:
        retry: Whether the task runs again.
        delay: Seconds until it runs again.
        category: Name of the error's category.
        metadata: The facts about the error.
        changed: Whether the task was changed.
        deferred: Whether the task was deferred without using an attempt, because the other side asked to wait.
        why: If the task was not changed: the reason.
        trouble: If the task was not changed because the database failed: the error of the database.
    """

    retry: bool
    delay: float
    category: str
    metadata: dict[str, Any]
    changed: bool
    deferred: bool
    why: NotRequired[str]
    trouble: NotRequired[Exception]


class _JudgedError(NamedTuple):
    """A classified error."""

    failure: Failure
    retryable: bool
    category: str
    metadata: dict[str, Any]
    note: Note


class ErrorHandler:
    """Decides about failed attempts and records the decision: a retry, or the dead letter queue.

    The number of the attempt is a fence: a report about an attempt that is not the current one is ignored. So one
    failure is never counted twice, even with two loops or a repeated call.

    Args:
        queue_db: An App, a store, or a connection of sqlite3 or psycopg. On a connection, each write is a transaction
            of its own; if the caller has one open, the write is part of it and is not committed.
        retry_strategy: Number of attempts and the waits between them; by default an `ExponentialBackoffStrategy`.

    Attributes:
        classifier: Decides which errors are retryable: an `ErrorClassifier`, or an object with `is_retryable` and
            `get_error_category`.
        retry_strategy: Decides how often to retry, and when.
    """

    def __init__(self, queue_db: Any, retry_strategy: RetryStrategyProtocol | None = None) -> None:
        self.queue_db = queue_db
        self.classifier = ErrorClassifier()
        self.retry_strategy = ExponentialBackoffStrategy() if retry_strategy is None else retry_strategy
        self._tasks = attempt_reports_of(queue_db)

    def handle_error(self, task_id: int, error: BaseException, attempt: int) -> HandledError:
        """Decide what happens to a task after a failed attempt, and record it.

        A retry is due after the delay of the strategy, or after the exact `retry_after` of an error of Outlast. If the
        other side asks to wait, the task is deferred and no attempt is used. A permanent error, or the last attempt,
        makes the task a dead letter; so does any error of a replay's canary. Status, history and dead letter are
        written in one transaction. Errors of the database are logged, never raised; the task is then unchanged.

        Args:
            task_id: The task, waiting or running.
            error: The error of the attempt.
            attempt: Number of the attempt, from 1: the task's `retry_count` + 1.
        """
        judged = self._judge(error)
        policy = self._policy(error, attempt, retryable=judged.retryable)
        decision: TaskDecision = self._decide(judged, policy, attempt, None)
        try:
            standing = self._tasks.attempt_state(task_id)
            stale = _stale_reason(standing, task_id, attempt, self._epoch_of(task_id))
            if stale is not None:
                return self._ignore(task_id, judged, stale)
            decision = self._decide(judged, policy, attempt, standing)
            changed = self._write(task_id, judged, decision, attempt)
        except Exception as trouble:  # noqa: BLE001  # an error of the database must not end the loop
            failed = classify(trouble)
            with suppress(Exception):  # as above
                log.error("task %s is unchanged: attempt %s failed (%s), and so did the database (%s: %s)\n%s",
                          task_id, attempt, judged.failure.summary, failed.category.value, failed.summary,
                          traceback_of(trouble), extra=_log_keys(task_id, judged.failure))  # fmt: skip
            why = f"the database failed: {failed}"
            return self._handled(judged, decision) | {"changed": False, "why": why, "trouble": trouble}
        if not changed:
            return self._ignore(task_id, judged, f"task {task_id} was changed by another process at the same time")
        self._announce(task_id, error, attempt, judged, decision, standing)
        return self._handled(judged, decision)

    def log_error(
        self,
        task_id: int,
        error: BaseException,
        attempt: int,
        should_retry: bool,  # noqa: FBT001  # positional for compatibility
        category: str | None = None,
        *,
        delay: float | None = None,
    ) -> None:
        """Log a failed attempt: as a warning, with the traceback at debug level, or as an error if it is the last.

        Args:
            task_id: The task.
            error: The error, which is logged with its own traceback.
            attempt: Number of the attempt, from 1.
            should_retry: Whether there will be a retry.
            category: Name of the error's category; by default that of the classifier.
            delay: Seconds until the retry, if known.
        """
        failure = self._judge(error).failure
        log_failed_attempt(
            task_id,
            attempt,
            failure,
            traceback_of(error),
            category=category or failure.category.value,
            max_attempts=getattr(self.retry_strategy, "max_retries", None),
            will_retry=should_retry,
            delay=delay,
        )

    def update_task_status(
        self, task_id: int, status: str, error: BaseException, attempt: int, delay: float = 0.0
    ) -> bool:
        """Record a decision that was made elsewhere. Returns whether the task was changed.

        Args:
            task_id: The task, waiting or running.
            status: ``QUEUED`` for a retry, ``FAILED`` for the dead letter queue.
            error: The error of the attempt.
            attempt: Number of the attempt, from 1. If it is not the current one, nothing changes.
            delay: Seconds until the retry.

        Raises:
            ConfigError: If the status is not one of these.
        """
        if status == Status.QUEUED:
            return self._write(task_id, self._judge(error), Retry(delay), attempt)
        if status == Status.FAILED:
            return self.move_to_dlq(task_id, error, attempt)
        raise ConfigError(f"status is {status!r}; after a failed attempt it must be QUEUED or FAILED")

    def move_to_dlq(self, task_id: int, error: BaseException, attempt: int | None = None) -> bool:
        """Move a task with its history to the dead letters, in one transaction. Returns whether it was changed.

        Args:
            task_id: The task, waiting or running.
            error: The reason.
            attempt: Number of the attempt that failed; by default the current one.
        """
        if attempt is None:
            standing = self._tasks.attempt_state(task_id)
            if standing is None:
                return False
            attempt = standing.retry_count + 1
        judged = self._judge(error)
        reason = DecisionReason.EXHAUSTED if judged.retryable else DecisionReason.PERMANENT
        if judged.failure.unreadable:
            reason = DecisionReason.UNREADABLE
        return self._write(task_id, judged, Fail(reason), attempt)

    def _judge(self, error: BaseException) -> _JudgedError:
        """Classify an error with the classifier, which the user may have replaced."""
        classifier = self.classifier
        try:
            failure = getattr(classifier, "classify", classify)(error)
            retryable, category = bool(classifier.is_retryable(error)), str(classifier.get_error_category(error))
            describe = getattr(classifier, "get_error_metadata", None)
            facts = {"category": category, "retryable": retryable}
            metadata = ErrorClassifier().get_error_metadata(error) | facts if describe is None else describe(error)
        except BaseException as hook_error:  # noqa: BLE001  # a classifier of the user's; the error of the task matters more
            contain(hook_error)
            log_broken_hook("classifier", hook_error)
            plain = ErrorClassifier()
            failure, metadata = plain.classify(error), plain.get_error_metadata(error)
            retryable, category = failure.retryable, failure.category.value
        if category in set(Category):
            failure = failure.replace(category=Category(category), retryable=retryable)
        retryable = retryable and issubclass(type(error), Exception)
        note = failure_note(failure, traceback_of(error))._replace(error_category=category)
        return _JudgedError(failure, retryable, category, metadata, note)

    def _policy(self, error: BaseException, attempt: int, *, retryable: bool) -> RetryPolicy:
        """Ask the strategy once, and return its decision as a policy with this delay and one or no further attempt."""
        once = RetryPolicy(max_attempts=max(1, attempt))
        if not retryable or not isinstance(error, Exception):
            return once
        try:
            if not self.retry_strategy.should_retry(error, attempt):
                return once
            delay = self.retry_strategy.get_retry_delay(attempt)
            return RetryPolicy(max_attempts=once.max_attempts + 1, base_delay=delay, max_delay=delay, jitter=0.0)
        except BaseException as hook_error:  # noqa: BLE001  # a strategy of the user's; the error of the task matters more
            contain(hook_error)
            log_broken_hook("retry_strategy", hook_error)
            return once

    @staticmethod
    def _decide(judged: _JudgedError, policy: RetryPolicy, attempt: int, standing: AttemptState | None) -> TaskDecision:
        facts = task_state(judged.retryable, standing, attempt=max(1, attempt), counts_own_waits=True)
        return decide_task(judged.failure, policy, facts)

    def _write(self, task_id: int, judged: _JudgedError, decision: TaskDecision, attempt: int) -> bool:
        settlement = decided_settlement(task_id, 0, decision, judged.note)  # the store sets the epoch
        return self._tasks.settle_attempt(settlement, attempt, epoch=self._epoch_of(task_id))

    def _epoch_of(self, task_id: int) -> int | None:
        """Return the epoch of the claim under which the calling code runs the task, which is a fence too; else None."""
        claim = CURRENT_CLAIM.get()
        if claim is None or claim.task_id != task_id:
            return None
        own_queues = (self.queue_db, getattr(self.queue_db, "store", self.queue_db))
        is_own = any(queue is own for queue in claim.queues for own in own_queues)
        return claim.epoch if is_own else None

    @staticmethod
    def _handled(judged: _JudgedError, decision: TaskDecision) -> HandledError:
        return {
            "retry": not isinstance(decision, Fail),
            "delay": 0.0 if isinstance(decision, Fail) else decision.delay,
            "category": judged.category,
            "metadata": judged.metadata,
            "changed": True,
            "deferred": isinstance(decision, Defer),
        }

    def _ignore(self, task_id: int, judged: _JudgedError, why: str) -> HandledError:
        with suppress(Exception):  # as above
            log.warning("task %s: a reported failure was ignored because %s: %s",
                        task_id, why, judged.failure.summary,
                        extra=_log_keys(task_id, judged.failure))  # fmt: skip
            log.debug("task %s: traceback of the reported failure\n%s", task_id, judged.note.traceback)
        return self._handled(judged, Fail(DecisionReason.PERMANENT)) | {"changed": False, "why": why}

    def _announce(
        self,
        task_id: int,
        error: BaseException,
        attempt: int,
        judged: _JudgedError,
        decision: TaskDecision,
        standing: AttemptState | None,
    ) -> None:
        failure, category = judged.failure, judged.category
        match decision:
            case Retry(delay):
                self.log_error(task_id, error, attempt, True, category, delay=delay)  # noqa: FBT003  # positional for compatibility
            case Defer(delay):
                with suppress(Exception):  # as above
                    log.warning("task %s: deferred for %s, no attempt used (%s): %s",
                                task_id, format_seconds(delay), failure.category.value, failure.summary,
                                extra=_log_keys(task_id, failure))  # fmt: skip
            case Fail():
                self.log_error(task_id, error, attempt, False, category)  # noqa: FBT003  # positional for compatibility
        publish_failure("" if standing is None else standing.task_type, task_id, attempt, decision, failure)


def _stale_reason(standing: AttemptState | None, task_id: int, attempt: int, epoch: int | None) -> str | None:
    """Return why an attempt is not the current one; None if it is."""
    if standing is None:
        return f"task {task_id} does not exist"
    if standing.status not in _LIVE_STATUSES:
        return f"task {task_id} is {standing.status}, not waiting or running"
    if standing.retry_count != attempt - 1:
        return f"attempt {attempt} of task {task_id} is not the current one, which is {standing.retry_count + 1}"
    if epoch is not None and standing.epoch != epoch:
        return f"another worker has task {task_id}"
    return None
