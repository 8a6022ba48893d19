"""What a worker asks about an error."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, NotRequired, TypedDict

from outlast import clock
from outlast.classify import Classifier, classify, default_classifier
from outlast.decide.decision import Defer, Fail, Retry, decide
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import Category, Failure
from outlast.ports.engine import AttemptState
from outlast.ports.rows import Kind, Note, Reason, Settlement, Status
from outlast.queue.logs import log
from outlast.queue.settlement import failure_note
from outlast.record.bus import has_subscribers, publish
from outlast.record.log_text import failure_keys, first_line, format_seconds, traceback_of
from outlast.worker.queue_access import handling_of
from outlast.worker.settings import ExponentialBackoffStrategy, RetryStrategyProtocol

TYPE_CHECKING = False


class ErrorClassifier:
    """Tells workers whether an error is worth another attempt, and what kind it is.

    Args:
        classifier: The judgement to use; by default the process's.
    """

    def __init__(self, classifier: Classifier | None = None) -> None:
        """Keep the classifier."""
        self._classifier = classifier

    def classify(self, error: BaseException) -> "Failure":
        """Return the whole judgement on an error."""
        return self._judge.classify(error)

    def is_retryable(self, error: BaseException) -> bool:
        """Tell whether trying again may help; an unknown error is not retried."""
        return self._judge.classify(error).retryable

    def get_error_category(self, error: BaseException) -> str:
        """Return the name of the error's category, ``"unknown"`` where nothing is known."""
        return self._judge.classify(error).category.value

    def get_error_metadata(self, error: BaseException) -> "dict[str, Any]":
        """Return what is worth keeping of an error: redacted, and ready for JSON."""
        failure = self._judge.classify(error)
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

    @property
    def _judge(self) -> Classifier:
        return self._classifier or default_classifier()


# What is logged of failed attempts: a retry is a warning with its traceback at debug, an end is an error with it.
#
# A handler of the log that raises changes nothing. Arguments of tasks are never logged.


def log_failed_attempt(  # noqa: PLR0913  # what is known of the attempt
    task_id: int,
    attempt: int,
    failure: Failure,
    traceback: str,
    *,
    category: str,
    most: int | None,
    again: bool,
    delay: float | None = None,
) -> None:
    """Tell that an attempt failed, and whether there will be another one."""
    of = "" if most is None else f" of {most}"
    keys = {**_log_keys(task_id, failure), "attempt": attempt, "max_attempts": most, "error_category": category}
    if again:
        when = "to be retried" if delay is None else f"again in {format_seconds(delay)}"
        keys["delay"] = delay
        _log_safely(log.warning, "task %s: attempt %s%s failed (%s), %s: %s",
             task_id, attempt, of, category, when, _failure_text(failure), extra=keys)  # fmt: skip
        _log_safely(log.debug, "task %s: traceback of attempt %s\n%s", task_id, attempt, traceback)
    else:
        _log_safely(log.error, "task %s: dead letter after attempt %s%s (%s): %s\n%s",
             task_id, attempt, of, category, _failure_text(failure), traceback, extra=keys)  # fmt: skip


def log_deferred(task_id: int, delay: float, failure: Failure) -> None:
    """Tell that a task was put off."""
    _log_safely(log.warning, "task %s: put off for %s, no attempt spent (%s): %s",
         task_id, format_seconds(delay), failure.category.value, _failure_text(failure),
         extra=_log_keys(task_id, failure))  # fmt: skip


def log_ignored(task_id: int, failure: Failure, why: str, traceback: str) -> None:
    """Tell that a report changed nothing."""
    _log_safely(log.warning, "task %s: a failure was reported and changed nothing, %s: %s",
         task_id, why, _failure_text(failure),
         extra=_log_keys(task_id, failure))  # fmt: skip
    _log_safely(log.debug, "task %s: traceback of what was reported\n%s", task_id, traceback)


def log_unwritten(task_id: int, attempt: int, failure: Failure, trouble: Failure, traceback: str) -> None:
    """Tell that what follows from a failure could not be written."""
    _log_safely(log.error, "task %s stays as it was: attempt %s failed (%s) and the database too (%s: %s)\n%s",
         task_id, attempt, _failure_text(failure), trouble.category.value, _failure_text(trouble), traceback,
         extra=_log_keys(task_id, failure))  # fmt: skip


def log_broken_hook(what: str, mistake: BaseException) -> None:
    """Tell that a part of the user's raised."""
    _log_safely(log.error, "%s raised: %s", what, _failure_text(classify(mistake)))


def _log_keys(task_id: int, failure: Failure) -> dict[str, Any]:
    return {"task_id": task_id, **failure_keys(failure)}


def _failure_text(failure: Failure) -> str:
    return f"{failure.exception_name}: {first_line(failure.message)}"


def _log_safely(level: Callable[..., None], *args: Any, **keys: Any) -> None:
    try:
        level(*args, **keys)
    except Exception:  # noqa: BLE001  # a handler that raises must not end the worker
        return


# What becomes of a task whose attempt failed, decided and written in one place for any loop that runs tasks.

_LIVE_STATUSES = {Status.QUEUED, Status.RUNNING}


class CurrentClaim(NamedTuple):
    """The claim under which the calling code runs a task, and where it was made: each store counts tasks anew."""

    queues: tuple[object, ...]
    task_id: int
    epoch: int


CURRENT_CLAIM: ContextVar[CurrentClaim | None] = ContextVar("outlast.worker.held", default=None)


class HandledError(TypedDict):
    """What `ErrorHandler.handle_error` answers.

    Attributes:
        retry: Whether the task runs again.
        delay: Seconds until then.
        category: Name of the error's category.
        metadata: What is worth keeping of the error.
        changed: Whether the task was changed.
        deferred: Whether it was put off without spending an attempt, because the other side named a time.
        why: Where nothing was changed: for what reason.
        trouble: Where nothing was changed because the database failed: what it raised.
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
    """An error, judged once."""

    failure: Failure
    retryable: bool
    category: str
    metadata: dict[str, Any]
    note: Note


class ErrorHandler:
    """Decides on failed attempts and writes what follows: another attempt, or the dead letter queue.

    An attempt is fenced by its number: what is reported of an attempt that is not the task's current one changes
    nothing. So two loops, or a call that is repeated, never count one failure twice.

    Args:
        queue_db: An App, a store, or a connection of sqlite3 or psycopg. Work on a connection is a transaction of its
            own; where the caller has one open, it is part of that, and nothing is committed.
        retry_strategy: How often, and after how long; by default an `ExponentialBackoffStrategy`.

    Attributes:
        classifier: Tells what is worth another attempt.
        retry_strategy: Tells how many there are.
    """

    def __init__(self, queue_db: Any, retry_strategy: RetryStrategyProtocol | None = None) -> None:
        """Find the queue; a connection's tables are looked at, and in SQLite created if they are missing."""
        self.queue_db = queue_db
        self.classifier = ErrorClassifier()
        self.retry_strategy = ExponentialBackoffStrategy() if retry_strategy is None else retry_strategy
        self._tasks = handling_of(queue_db)

    def handle_error(self, task_id: int, error: BaseException, attempt: int) -> HandledError:
        """Decide what becomes of a task whose attempt failed, and write it.

        Another attempt is due after the strategy's delay, or after the `retry_after` of our own errors as it is. What
        the other side asks to wait costs no attempt. What is permanent, or was the last attempt, is a dead letter;
        so is a replay's canary, whatever it raised. Status, history and letter are written in one transaction. A
        database that fails is logged, never raised; the task then stays as it was.

        Args:
            task_id: The task, waiting or running.
            error: What its attempt raised.
            attempt: Number of the attempt, from 1: the task's `retry_count` + 1.
        """
        judged = self._judge(error)
        policy = self._policy(error, attempt, retryable=judged.retryable)
        decision: Retry | Defer | Fail = self._decided(judged, policy, attempt, None)
        try:
            standing = self._tasks.attempt_state(task_id)
            stale = _stale_reason(standing, task_id, attempt, self._epoch_of(task_id))
            if stale is not None:
                return self._ignored(task_id, judged, stale)
            decision = self._decided(judged, policy, attempt, standing)
            changed = self._write(task_id, judged, decision, attempt)
        except Exception as trouble:  # noqa: BLE001  # whatever a database says, the loop goes on
            log_unwritten(task_id, attempt, judged.failure, classify(trouble), traceback_of(trouble))
            why = f"the database failed: {classify(trouble)}"
            return self._answer(judged, decision) | {"changed": False, "why": why, "trouble": trouble}
        if not changed:
            return self._ignored(task_id, judged, f"task {task_id} was changed by somebody else at the same time")
        self._tell(task_id, error, attempt, judged, decision, standing)
        return self._answer(judged, decision)

    def log_error(
        self,
        task_id: int,
        error: BaseException,
        attempt: int,
        should_retry: bool,  # noqa: FBT001  # its place among the arguments is the seeds'
        category: str | None = None,
        *,
        delay: float | None = None,
    ) -> None:
        """Log a failed attempt: a retry as a warning with the traceback at debug, an end as an error with it.

        Args:
            task_id: The task.
            error: What was raised; its own traceback is logged, wherever this is called.
            attempt: Number of the attempt, from 1.
            should_retry: Whether there will be another one.
            category: Name of the error's category; by default the classifier is asked.
            delay: Seconds until the next one, where they are known.
        """
        failure = self._judge(error).failure
        log_failed_attempt(
            task_id,
            attempt,
            failure,
            traceback_of(error),
            category=category or failure.category.value,
            most=getattr(self.retry_strategy, "max_retries", None),
            again=should_retry,
            delay=delay,
        )

    def update_task_status(
        self, task_id: int, status: str, error: BaseException, attempt: int, delay: float = 0.0
    ) -> bool:
        """Write a decision that was made elsewhere; tell whether the task was changed.

        Args:
            task_id: The task, waiting or running.
            status: ``QUEUED`` for another attempt, ``FAILED`` for the dead letter queue.
            error: What its attempt raised.
            attempt: Number of the attempt, from 1; it fences, as in `handle_error`.
            delay: Seconds until another attempt is due.

        Raises:
            ConfigError: If the status is another one.
        """
        if status == Status.QUEUED:
            return self._write(task_id, self._judge(error), Retry(delay), attempt)
        if status == Status.FAILED:
            return self.move_to_dlq(task_id, error, attempt)
        message = f"status is {status!r}; a failed attempt leads to QUEUED or FAILED"
        raise ConfigError(message)

    def move_to_dlq(self, task_id: int, error: BaseException, attempt: int | None = None) -> bool:
        """End a task as a dead letter, with its history, in one transaction; tell whether it was changed.

        Args:
            task_id: The task, waiting or running.
            error: Why.
            attempt: Number of the attempt that failed; by default the current one.
        """
        if attempt is None:
            standing = self._tasks.attempt_state(task_id)
            if standing is None:
                return False
            attempt = standing.retry_count + 1
        judged = self._judge(error)
        return self._write(task_id, judged, Fail("exhausted" if judged.retryable else "permanent"), attempt)

    def _judge(self, error: BaseException) -> _JudgedError:
        """Ask the classifier, which may be another one than ours, what an error is."""
        asked = self.classifier
        try:
            failure = getattr(asked, "classify", classify)(error)
            retryable, category = bool(asked.is_retryable(error)), str(asked.get_error_category(error))
            metadata = asked.get_error_metadata(error)
        except Exception as mistake:  # noqa: BLE001  # a classifier of the user's; the error at hand matters more
            log_broken_hook("classifier", mistake)
            plain = ErrorClassifier()
            failure, metadata = plain.classify(error), plain.get_error_metadata(error)
            retryable, category = failure.retryable, failure.category.value
        if category in set(Category):
            failure = failure.replace(category=Category(category), retryable=retryable)
        retryable = retryable and isinstance(error, Exception)
        note = failure_note(failure, traceback_of(error))._replace(error_category=category)
        return _JudgedError(failure, retryable, category, metadata, note)

    def _policy(self, error: BaseException, attempt: int, *, retryable: bool) -> RetryPolicy:
        """Ask the strategy, once, and return its answer as a policy: this wait, and an attempt more or none."""
        calls = max(1, attempt)
        if not retryable or not isinstance(error, Exception):
            return RetryPolicy(max_attempts=calls)
        try:
            if not self.retry_strategy.should_retry(error, attempt):
                return RetryPolicy(max_attempts=calls)
            delay = self.retry_strategy.get_retry_delay(attempt)
            return RetryPolicy(max_attempts=calls + 1, base_delay=delay, max_delay=delay, jitter=0.0)
        except Exception as mistake:  # noqa: BLE001  # a strategy of the user's; the error at hand matters more
            log_broken_hook("retry_strategy", mistake)
            return RetryPolicy(max_attempts=calls)

    @staticmethod
    def _decided(
        judged: _JudgedError, policy: RetryPolicy, attempt: int, standing: AttemptState | None
    ) -> Retry | Defer | Fail:
        if standing is not None and standing.canary:
            return Fail(Reason.CANARY)  # it is tried so that the others need not be
        return decide(
            judged.failure,
            policy,
            attempt=max(1, attempt),
            wanted=judged.retryable,
            own_time_spends=True,
            deferred_for=0.0 if standing is None else standing.deferred_for,
            expires_in=None if standing is None else standing.expires_in,
            chance=clock.chance,
        )

    def _write(self, task_id: int, judged: _JudgedError, decision: Retry | Defer | Fail, attempt: int) -> bool:
        settlement = _settlement_for(task_id, judged.note, decision)
        return self._tasks.settle_attempt(settlement, attempt, epoch=self._epoch_of(task_id))

    def _epoch_of(self, task_id: int) -> int | None:
        """Return the epoch of the claim under which the calling code runs the task, if it does: then it fences too."""
        held = CURRENT_CLAIM.get()
        if held is None or held.task_id != task_id:
            return None
        mine = (self.queue_db, getattr(self.queue_db, "store", self.queue_db))
        return held.epoch if any(each is own for each in held.queues for own in mine) else None

    @staticmethod
    def _answer(judged: _JudgedError, decision: Retry | Defer | Fail) -> HandledError:
        delay = 0.0 if isinstance(decision, Fail) else decision.delay
        return {
            "retry": not isinstance(decision, Fail),
            "delay": delay,
            "category": judged.category,
            "metadata": judged.metadata,
            "changed": True,
            "deferred": isinstance(decision, Defer),
        }

    def _ignored(self, task_id: int, judged: _JudgedError, why: str) -> HandledError:
        log_ignored(task_id, judged.failure, why, judged.note.traceback)
        return self._answer(judged, Fail("permanent")) | {"changed": False, "why": why}

    def _tell(
        self,
        task_id: int,
        error: BaseException,
        attempt: int,
        judged: _JudgedError,
        decision: Retry | Defer | Fail,
        standing: AttemptState | None,
    ) -> None:
        match decision:
            case Retry(delay):
                self.log_error(task_id, error, attempt, True, judged.category, delay=delay)  # noqa: FBT003  # as above
            case Defer(delay):
                log_deferred(task_id, delay, judged.failure)
            case Fail():
                self.log_error(task_id, error, attempt, False, judged.category)  # noqa: FBT003  # as above
        if not has_subscribers():
            return
        from outlast.record.events import TaskDeferred, TaskFailed, TaskRetrying  # noqa: PLC0415  # only subscribers need them

        name = "" if standing is None else standing.task_type
        match decision:
            case Retry(delay):
                publish(TaskRetrying(name, task_id, attempt, delay, judged.failure))
            case Defer(delay):
                publish(TaskDeferred(name, task_id, attempt, delay, judged.failure))
            case Fail(reason):
                publish(TaskFailed(name, task_id, attempt, reason, judged.failure))


def _settlement_for(task_id: int, note: Note, decision: Retry | Defer | Fail) -> Settlement:
    """Return what is written; the store fills the epoch in."""
    match decision:
        case Retry(delay):
            return Settlement(task_id, 0, Kind.RETRY, delay, note)
        case Defer(delay):
            return Settlement(task_id, 0, Kind.DEFER, delay, note)
        case Fail(reason):
            return Settlement(task_id, 0, Kind.FAIL, note=note, reason=Reason(reason))


def _stale_reason(standing: AttemptState | None, task_id: int, attempt: int, epoch: int | None) -> str | None:
    """Return why an attempt is not the current one; None where it is."""
    if standing is None:
        return f"there is no task {task_id}"
    if standing.status not in _LIVE_STATUSES:
        return f"task {task_id} is {standing.status}, neither waiting nor running"
    if standing.retry_count != attempt - 1:
        return f"attempt {attempt} of task {task_id} is not the current one, which is {standing.retry_count + 1}"
    if epoch is not None and standing.epoch != epoch:
        return f"task {task_id} was given to another worker"
    return None
