"""Decides about the outcome of an attempt: the one place where a worker decides about retries."""

from typing import NamedTuple

from outlast import clock
from outlast.decide.decision import (
    Abort,
    DecisionReason,
    DecisionState,
    Defer,
    Fail,
    Place,
    Retry,
    Skip,
    decide,
    deferral_seconds,
)
from outlast.decide.policy import RetryPolicy
from outlast.failure import Category, Failure, Origin
from outlast.ports.external_attempts import AttemptState
from outlast.ports.rows import Claimed, Kind, Note, Reason, Settlement, storable
from outlast.queue import logs
from outlast.queue.definition import Definition
from outlast.queue.task_failure import TaskFailure, task_failure_of
from outlast.record import bus
from outlast.record.bus import publish
from outlast.redact import Redactor

_NOT_OF_RESOURCE = {
    "ConcurrencyLimitError",
    "LocalRateLimitError",
    "NoProcess",
}  # errors that say nothing about a resource
_CRASH_WAITS = (1.0, 10.0, 60.0)  # seconds after a suspect's first crash, its second, and all others
_NOT_RETRIED = (Fail(DecisionReason.PERMANENT), Fail(DecisionReason.BROKEN))
_NO_PROCESS_WAIT = 60.0  # seconds until the next try to start a process for a suspect
_MAX_MESSAGE = 4096  # stored characters of an error message
_redact_message = Redactor(limit=_MAX_MESSAGE)


class StartCooldown(NamedTuple):
    """Tasks of a resource are not claimed for a while."""

    resource: str
    seconds: float
    reason: str


class Outcome(NamedTuple):
    """What one attempt of a task ended with.

    Attributes:
        task_id: The task.
        epoch: Epoch of its claim.
        settlement: What is written for the task; None for a success without a stored result.
        cooldown: The cooldown to start, whatever happens to the task.
        pause: Why this worker must pause claiming: the machine has no memory, disk or descriptors left.
    """

    task_id: int
    epoch: int
    settlement: Settlement | None = None
    cooldown: StartCooldown | None = None
    pause: str | None = None

    @classmethod
    def of(cls, settlement: Settlement) -> "Outcome":
        """Return the outcome that is only a settlement."""
        return cls(settlement.task_id, settlement.epoch, settlement)


def settle_success(definition: Definition, claimed: Claimed, result: str | None) -> Outcome:
    """Return the outcome of a success.

    Args:
        definition: The task.
        claimed: The claim.
        result: The result as JSON text; None to store none.
    """
    if definition.keep_result is None or result is None:
        return Outcome(claimed.id, claimed.epoch)
    return Outcome.of(Settlement(claimed.id, claimed.epoch, Kind.DONE, result=result, keep=definition.keep_result))


def settle_failure(
    definition: Definition, claimed: Claimed, task_failure: TaskFailure, *, final: bool = True, suspect: bool = False
) -> Outcome:
    """Decide about a failed attempt, log it and publish it.

    Args:
        definition: The task.
        claimed: The claim.
        task_failure: The failure.
        final: Whether an error that the policy does not retry ends the task. Not for a suspect in a child process: the
            child may lack what the program had set up in the worker. It is then retried in the worker, at least once.
        suspect: Whether a retry runs isolated again.
    """
    failure, policy, attempt = task_failure.failure, definition.policy, claimed.retry_count + 1
    most = policy.for_category(failure.category).max_attempts
    state = task_state(task_failure.wanted, claimed, wait=task_failure.wait)
    decision = decide_task(failure, policy, state)
    wait = decision.delay if isinstance(decision, Defer) else None
    if claimed.canary:  # it fails, but a wait that was asked for applies to the others
        wait = deferral_seconds(failure, policy, state)
    cooldown = None if wait is None else _resource_cooldown(claimed.resource or definition.resource, failure, wait)
    if not final and decision in _NOT_RETRIED and attempt < max(2, most):
        decision, suspect = Retry(0.0), False
    settlement = _announce_failure(definition, claimed, task_failure, decision, suspect=suspect)
    pause = f"{failure.exception_name}: {failure.message:.200}" if failure.category is Category.SYSTEM else None
    return Outcome(claimed.id, claimed.epoch, settlement, cooldown, pause)


def task_state(wanted: bool | None, task: Claimed | AttemptState | None, **facts: object) -> DecisionState:  # noqa: FBT001  # a fact
    """Return the state of a failed attempt of a task, for `decide`.

    Args:
        wanted: Whether the policy retries this kind of error; None if its predicate raised an error.
        task: The claim or the attempt; None if nothing is known of it.
        facts: What differs, as in `DecisionState`.
    """
    known: dict[str, object] = {}
    if task is not None:
        known = {
            "attempt": task.retry_count + 1,
            "deferred_for": task.deferred_for,
            "expires_in": task.expires_in,
            "canary": task.canary,
        }
    return DecisionState(place=Place.TASK, wanted=wanted, chance=clock.chance, **(known | facts))


TaskDecision = Retry | Defer | Fail


def decide_task(failure: Failure, policy: RetryPolicy, state: DecisionState) -> TaskDecision:
    """Decide on a failed attempt of a task."""
    decision = decide(failure, policy, state)
    assert not isinstance(decision, Abort | Skip)  # noqa: S101  # for type checkers: only targets of jobs are
    return decision


def dead_letter_reason(reason: DecisionReason) -> Reason:
    """Return the stored reason of a task that failed; a broken policy is a permanent failure."""
    return Reason.PERMANENT if reason is DecisionReason.BROKEN else Reason(reason)


def settle_crash(definition: Definition, claimed: Claimed, task_failure: TaskFailure, crash_limit: int) -> Outcome:
    """Return the outcome of a suspect that crashed its process: the same as for a rescue after a worker crashed."""
    reason, delay = None, 0.0
    if claimed.canary:
        reason = Reason.CANARY  # it gets a single attempt
    elif claimed.crash_count + 1 >= crash_limit:
        reason = Reason.CRASH
    if reason is None:
        delay = _CRASH_WAITS[min(claimed.crash_count, len(_CRASH_WAITS) - 1)]
        logs.log_crash(definition, claimed, task_failure, crash_limit)
    else:
        _announce_failure(definition, claimed, task_failure, Fail(DecisionReason(reason)))
    note = failure_note(task_failure.failure, task_failure.traceback)
    return Outcome.of(Settlement(claimed.id, claimed.epoch, Kind.CRASH, delay, note, reason))


def settle_no_process(definition: Definition, claimed: Claimed, why: str) -> Outcome:
    """Return the outcome of a suspect for which no process could be started: it is deferred and stays a suspect."""
    failure = Failure(
        Category.UNKNOWN, retryable=True, origin=Origin.PROCESS, retry_after=_NO_PROCESS_WAIT,
        exception_name="NoProcess",
        message=why, rule="no process",
    )  # fmt: skip
    return settle_failure(definition, claimed, TaskFailure(failure, wanted=True, traceback=""), suspect=True)


def settle_undecodable(definition: Definition, claimed: Claimed, error: Exception) -> Outcome:
    """Return the outcome of a task whose payload cannot be decoded: a dead letter, because no retry would help."""
    task_failure = task_failure_of(error, definition.policy)
    return Outcome.of(_announce_failure(definition, claimed, task_failure, Fail(DecisionReason.UNDECODABLE)))


def expiry_settlement(task_id: int, epoch: int) -> Settlement:
    """Return the settlement of a task that has expired before it started."""
    message = "not started in time: its expiry had passed"  # stored: another text would make another group
    failure = Failure(Category.UNKNOWN, retryable=False, exception_name="Expired", message=message, rule="expired")
    return Settlement(task_id, epoch, Kind.FAIL, note=failure_note(failure), reason=Reason.EXPIRED)


def release_settlement(claimed: Claimed) -> Settlement:
    """Return a task to the queue as it was."""
    return Settlement(claimed.id, claimed.epoch, Kind.RELEASE)


def _resource_cooldown(resource: str | None, failure: Failure, seconds: float) -> StartCooldown | None:
    """Return the cooldown of the task's resource, if a deferral says that the resource is not available."""
    if resource is None or failure.exception_name in _NOT_OF_RESOURCE:
        return None
    return StartCooldown(resource, seconds, f"{failure.category}: {failure.message:.200}")


def failure_note(failure: Failure, traceback: str = "") -> Note:
    """Return the note to store for a failure; characters that a database refuses are replaced."""
    kept = failure.replace(message=storable(_redact_message(failure.message)))
    kept.__dict__["fingerprint"] = failure.fingerprint  # of the whole text
    return Note(
        storable(kept.exception_name), kept.message, str(kept.category), kept.fingerprint, storable(kept.to_json()),
        storable(traceback),
    )  # fmt: skip


def _announce_failure(
    definition: Definition,
    claimed: Claimed,
    task_failure: TaskFailure,
    decision: TaskDecision,
    *,
    suspect: bool = False,
) -> Settlement:
    """Log and publish the decision on a failed attempt, and return what to write."""
    failure, attempt = task_failure.failure, claimed.retry_count + 1
    logs.log_failure(definition.name, definition.policy, claimed.id, attempt, task_failure, decision)
    publish_failure(definition.name, claimed.id, attempt, decision, failure)
    note = failure_note(failure, task_failure.traceback)
    return decided_settlement(claimed.id, claimed.epoch, decision, note, suspect=suspect)


def decided_settlement(
    task_id: int, epoch: int, decision: TaskDecision, note: Note, *, suspect: bool = False
) -> Settlement:
    """Return what a decision on a failed attempt writes."""
    if isinstance(decision, Fail):
        return Settlement(task_id, epoch, Kind.FAIL, note=note, reason=dead_letter_reason(decision.reason))
    kind = Kind.RETRY if isinstance(decision, Retry) else Kind.DEFER
    return Settlement(task_id, epoch, kind, decision.delay, note, suspect=suspect)


def publish_failure(name: str, task_id: int, attempt: int, decision: TaskDecision, failure: Failure) -> None:
    """Publish the decision on a failed attempt, if there are subscribers."""
    if not bus.subscribers:
        return
    from outlast.record.events import TaskDeferred, TaskFailed, TaskRetrying  # noqa: PLC0415  # only subscribers need them

    match decision:
        case Retry(delay):
            publish(TaskRetrying(name, task_id, attempt, delay, failure))
        case Defer(delay):
            publish(TaskDeferred(name, task_id, attempt, delay, failure))
        case Fail(reason):
            publish(TaskFailed(name, task_id, attempt, reason, failure))
