"""From what a task did to what is written: the one place where a worker decides."""

from typing import Any, NamedTuple

from outlast import clock
from outlast.decide.decision import Defer, Fail, Retry, decide
from outlast.failure import Category, Failure, Origin
from outlast.ports.rows import Claimed, Kind, Note, Reason, Settlement
from outlast.ports.texts import storable
from outlast.queue import logs
from outlast.queue.definition import TaskDefinition
from outlast.queue.payload import encode_result
from outlast.queue.verdict import Verdict, verdict_on
from outlast.record.bus import has_subscribers, publish
from outlast.redact import Redactor

__all__ = [
    "Cool",
    "Outcome",
    "Strain",
    "note_of",
    "put_off",
    "settled_crash",
    "settled_failure",
    "settled_result",
    "undecodable",
]

Definition = TaskDefinition[Any, Any]
_OURS = {"ConcurrencyLimitError", "NoProcess"}  # what says nothing about a resource
_CRASH_WAITS = (1.0, 10.0, 60.0)  # seconds after a suspect's first crash and the next; what kills others may pass
_PUT_OFF = 60.0  # seconds until a process for a suspect is asked for again
_STORED = 4096  # characters of an error's text that are kept
_cut = Redactor(limit=_STORED)


class Cool(NamedTuple):
    """A resource is to be left alone, whatever else becomes of the task."""

    resource: str
    seconds: float
    reason: str


class Strain(NamedTuple):
    """This machine is not well: no more is claimed for a while."""

    reason: str


Outcome = tuple[int, int] | Settlement | Cool | Strain


def settled_result(definition: Definition, claimed: Claimed, value: object) -> Outcome:
    """Return what is written for a success."""
    keep = definition.keep_result
    if keep is None:
        return (claimed.id, claimed.epoch)
    text = encode_result(value, definition.codec.returns)
    return Settlement(claimed.id, claimed.epoch, Kind.DONE, result=text, keep=keep)


def settled_failure(
    definition: Definition, claimed: Claimed, verdict: Verdict, *, final: bool = True, suspect: bool = False
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
    note = note_of(failure, verdict.traceback)
    if claimed.canary:
        if isinstance(decision, Defer):
            outcomes += _cooling(definition, failure, decision.delay)
        decision = Fail(Reason.CANARY)  # it is tried so that the others need not be
    elif not final and decision == Fail(Reason.PERMANENT) and attempt < max(2, most):
        decision, suspect = Retry(0.0), False
    match decision:
        case Retry(delay):
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.RETRY, delay, note, suspect=suspect))
        case Defer(delay):
            outcomes += _cooling(definition, failure, delay)
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.DEFER, delay, note, suspect=suspect))
        case Fail(reason):
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason(reason)))
    if failure.category is Category.SYSTEM:
        outcomes.append(Strain(f"{failure.exception_name}: {failure.message:.200}"))
    logs.failed(definition, claimed, verdict, decision)
    if has_subscribers():
        _tell(definition, claimed, failure, decision)
    return outcomes


def settled_crash(definition: Definition, claimed: Claimed, verdict: Verdict, crash_limit: int) -> list[Outcome]:
    """Return what is written for a suspect that took its process down: what a rescue writes where it was the worker."""
    reason = None
    if claimed.canary:
        reason = Reason.CANARY  # it gets one attempt
    elif claimed.crash_count + 1 >= crash_limit:
        reason = Reason.CRASH
    if reason is None:
        logs.crashed(definition, claimed, verdict, crash_limit)
    else:
        logs.failed(definition, claimed, verdict, Fail(reason))
        if has_subscribers():
            _tell(definition, claimed, verdict.failure, Fail(reason))
    note = note_of(verdict.failure, verdict.traceback)
    delay = _CRASH_WAITS[min(claimed.crash_count, len(_CRASH_WAITS) - 1)] if reason is None else 0.0
    return [Settlement(claimed.id, claimed.epoch, Kind.CRASH, delay, note, reason)]


def put_off(definition: Definition, claimed: Claimed, why: str) -> list[Outcome]:
    """Return what is written for a suspect that found no process to run in: no attempt is spent, and it stays one."""
    failure = Failure(
        Category.UNKNOWN, retryable=True, origin=Origin.PROCESS, retry_after=_PUT_OFF, exception_name="NoProcess",
        message=why, rule="no process",
    )  # fmt: skip
    return settled_failure(definition, claimed, Verdict(failure, wanted=True, traceback=""), suspect=True)


def _cooling(definition: Definition, failure: Failure, delay: float) -> list[Outcome]:
    """Return that a resource is left alone, where the task has one that others may not call either, only fewer."""
    if definition.resource is None or failure.exception_name in _OURS:
        return []
    return [Cool(definition.resource, delay, f"{failure.category}: {failure.message:.200}")]


def undecodable(definition: Definition, claimed: Claimed, error: Exception) -> list[Outcome]:
    """Return what is written for a task whose payload cannot be read: no attempt could help."""
    verdict = verdict_on(error, definition.policy)
    logs.failed(definition, claimed, verdict, Fail("undecodable"))
    if has_subscribers():
        _tell(definition, claimed, verdict.failure, Fail("undecodable"))
    note = note_of(verdict.failure, verdict.traceback)
    return [Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason.UNDECODABLE)]


def note_of(failure: Failure, traceback: str = "") -> Note:
    """Return what is stored of a failure; text that no database takes is replaced."""
    kept = failure.replace(message=storable(_cut(failure.message)))
    kept.__dict__["fingerprint"] = failure.fingerprint  # of the whole text
    return Note(
        storable(kept.exception_name), kept.message, str(kept.category), kept.fingerprint, storable(kept.to_json()),
        storable(traceback),
    )  # fmt: skip


def _tell(definition: Definition, claimed: Claimed, failure: Failure, decision: Retry | Defer | Fail) -> None:
    from outlast.record.events import TaskDeferred, TaskFailed, TaskRetrying  # noqa: PLC0415  # only subscribers need them

    about = (definition.name, claimed.id, claimed.retry_count + 1)
    match decision:
        case Retry(delay):
            publish(TaskRetrying(*about, delay, failure))
        case Defer(delay):
            publish(TaskDeferred(*about, delay, failure))
        case Fail(reason):
            publish(TaskFailed(*about, reason, failure))
