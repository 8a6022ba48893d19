"""Turns the outcome of a task into a settlement: the one place where a worker decides about a retry."""

from typing import Any, NamedTuple

from outlast import clock
from outlast.decide.decision import Defer, Fail, Retry, decide
from outlast.failure import Category, Failure, Origin
from outlast.ports.rows import Claimed, Kind, Note, Reason, Settlement, storable
from outlast.queue import logs
from outlast.queue.definition import TaskDefinition
from outlast.queue.payload import encode_result
from outlast.queue.task_failure import TaskFailure, task_failure_of
from outlast.record.bus import has_subscribers, publish
from outlast.redact import Redactor

Definition = TaskDefinition[Any, Any]
_NOT_OF_RESOURCE = {"ConcurrencyLimitError", "NoProcess"}  # what says nothing about a resource
_CRASH_WAITS = (1.0, 10.0, 60.0)  # seconds after a suspect's first crash and the next; what kills others may pass
_NO_PROCESS_WAIT = 60.0  # seconds until a process for a suspect is asked for again
_MAX_MESSAGE = 4096  # characters of an error's text that are kept
_redact_message = Redactor(limit=_MAX_MESSAGE)


class StartCooldown(NamedTuple):
    """A resource is to be left alone, whatever else becomes of the task."""

    resource: str
    seconds: float
    reason: str


class PauseClaiming(NamedTuple):
    """This machine is not well: no more is claimed for a while."""

    reason: str


Outcome = tuple[int, int] | Settlement | StartCooldown | PauseClaiming


def settle_result(definition: Definition, claimed: Claimed, value: object) -> Outcome:
    """Return what is written for a success."""
    keep = definition.keep_result
    if keep is None:
        return (claimed.id, claimed.epoch)
    text = encode_result(value, definition.codec.returns)
    return Settlement(claimed.id, claimed.epoch, Kind.DONE, result=text, keep=keep)


def settle_failure(
    definition: Definition, claimed: Claimed, verdict: TaskFailure, *, final: bool = True, suspect: bool = False
) -> list[Outcome]:
    """Return what is written for a failed attempt, and what else follows from it; tell the log and the subscribers.

    Args:
        definition: The task.
        claimed: The claim.
        verdict: The judgement.
        final: Whether it is the last word on an error that the policy does not retry. Where a suspect runs apart, it is
            not: what the program had set up in the worker may be all that it missed. It is tried there while there are
            attempts, once at least.
        suspect: Whether it runs apart again where it is tried again.
    """
    failure, policy, attempt = verdict.failure, definition.policy, claimed.retry_count + 1
    most = policy.for_category(failure.category).max_attempts
    decision = decide(
        failure,
        policy,
        attempt=attempt,
        wanted=verdict.wanted,
        deferred_for=claimed.deferred_for,
        expires_in=claimed.expires_in,
        chance=clock.chance,
    )
    outcomes: list[Outcome] = []
    note = failure_note(failure, verdict.traceback)
    if claimed.canary:
        if isinstance(decision, Defer):
            outcomes += _cooldown_outcomes(definition, failure, decision.delay)
        decision = Fail(Reason.CANARY)  # it is tried so that the others need not be
    elif not final and decision == Fail(Reason.PERMANENT) and attempt < max(2, most):
        decision, suspect = Retry(0.0), False
    match decision:
        case Retry(delay):
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.RETRY, delay, note, suspect=suspect))
        case Defer(delay):
            outcomes += _cooldown_outcomes(definition, failure, delay)
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.DEFER, delay, note, suspect=suspect))
        case Fail(reason):
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason(reason)))
    if failure.category is Category.SYSTEM:
        outcomes.append(PauseClaiming(f"{failure.exception_name}: {failure.message:.200}"))
    logs.log_failure(definition, claimed, verdict, decision)
    if has_subscribers():
        _publish_failure(definition, claimed, failure, decision)
    return outcomes


def settle_crash(definition: Definition, claimed: Claimed, verdict: TaskFailure, crash_limit: int) -> list[Outcome]:
    """Return what is written for a suspect that took its process down: what a rescue writes where it was the worker."""
    reason = None
    if claimed.canary:
        reason = Reason.CANARY  # it gets one attempt
    elif claimed.crash_count + 1 >= crash_limit:
        reason = Reason.CRASH
    if reason is None:
        logs.log_crash(definition, claimed, verdict, crash_limit)
    else:
        logs.log_failure(definition, claimed, verdict, Fail(reason))
        if has_subscribers():
            _publish_failure(definition, claimed, verdict.failure, Fail(reason))
    note = failure_note(verdict.failure, verdict.traceback)
    delay = _CRASH_WAITS[min(claimed.crash_count, len(_CRASH_WAITS) - 1)] if reason is None else 0.0
    return [Settlement(claimed.id, claimed.epoch, Kind.CRASH, delay, note, reason)]


def settle_no_process(definition: Definition, claimed: Claimed, why: str) -> list[Outcome]:
    """Return what is written for a suspect that found no process to run in: no attempt is spent, and it stays one."""
    failure = Failure(
        Category.UNKNOWN, retryable=True, origin=Origin.PROCESS, retry_after=_NO_PROCESS_WAIT,
        exception_name="NoProcess",
        message=why, rule="no process",
    )  # fmt: skip
    return settle_failure(definition, claimed, TaskFailure(failure, wanted=True, traceback=""), suspect=True)


def _cooldown_outcomes(definition: Definition, failure: Failure, delay: float) -> list[Outcome]:
    """Return that a resource is left alone, where the task has one that others may not call either, only fewer."""
    if definition.resource is None or failure.exception_name in _NOT_OF_RESOURCE:
        return []
    return [StartCooldown(definition.resource, delay, f"{failure.category}: {failure.message:.200}")]


def settle_undecodable(definition: Definition, claimed: Claimed, error: Exception) -> list[Outcome]:
    """Return what is written for a task whose payload cannot be read: no attempt could help."""
    verdict = task_failure_of(error, definition.policy)
    logs.log_failure(definition, claimed, verdict, Fail("undecodable"))
    if has_subscribers():
        _publish_failure(definition, claimed, verdict.failure, Fail("undecodable"))
    note = failure_note(verdict.failure, verdict.traceback)
    return [Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason.UNDECODABLE)]


def failure_note(failure: Failure, traceback: str = "") -> Note:
    """Return what is stored of a failure; text that no database takes is replaced."""
    kept = failure.replace(message=storable(_redact_message(failure.message)))
    kept.__dict__["fingerprint"] = failure.fingerprint  # of the whole text
    return Note(
        storable(kept.exception_name), kept.message, str(kept.category), kept.fingerprint, storable(kept.to_json()),
        storable(traceback),
    )  # fmt: skip


def _publish_failure(
    definition: Definition, claimed: Claimed, failure: Failure, decision: Retry | Defer | Fail
) -> None:
    from outlast.record.events import TaskDeferred, TaskFailed, TaskRetrying  # noqa: PLC0415  # only subscribers need them

    about = (definition.name, claimed.id, claimed.retry_count + 1)
    match decision:
        case Retry(delay):
            publish(TaskRetrying(*about, delay, failure))
        case Defer(delay):
            publish(TaskDeferred(*about, delay, failure))
        case Fail(reason):
            publish(TaskFailed(*about, reason, failure))
