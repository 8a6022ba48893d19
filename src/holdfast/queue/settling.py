"""From what a task did to what is written: the one place where a worker decides."""

from typing import Any, NamedTuple

from holdfast import clock
from holdfast.decide.decision import Defer, Fail, Retry, decide
from holdfast.failure import Category, Failure
from holdfast.ports.rows import Claimed, Kind, Note, Reason, Settlement
from holdfast.ports.texts import storable
from holdfast.queue import logs
from holdfast.queue.definition import TaskDefinition
from holdfast.queue.payload import encode_result
from holdfast.queue.verdict import Verdict, verdict_on
from holdfast.record.bus import has_subscribers, publish
from holdfast.redact import Redactor

__all__ = ["Cool", "Outcome", "Strain", "note_of", "settled_failure", "settled_result", "undecodable"]

Definition = TaskDefinition[Any, Any]
_FULL = "ConcurrencyLimitError"
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


def settled_failure(definition: Definition, claimed: Claimed, verdict: Verdict) -> list[Outcome]:
    """Return what is written for a failed attempt, and what else follows from it; tell the log and the subscribers."""
    failure, policy, attempt = verdict.failure, definition.policy, claimed.retry_count + 1
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
    match decision:
        case Retry(delay):
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.RETRY, delay, note))
        case Defer(delay):
            outcomes += _cooling(definition, failure, delay)
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.DEFER, delay, note))
        case Fail(reason):
            outcomes.append(Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason(reason)))
    if failure.category is Category.SYSTEM:
        outcomes.append(Strain(f"{failure.exception_name}: {failure.message:.200}"))
    logs.failed(definition, claimed, verdict, decision)
    if has_subscribers():
        _tell(definition, claimed, failure, decision)
    return outcomes


def _cooling(definition: Definition, failure: Failure, delay: float) -> list[Outcome]:
    """Return that a resource is left alone, where the task has one that others may not call either, only fewer."""
    if definition.resource is None or failure.exception_name == _FULL:
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
    from holdfast.record.events import TaskDeferred, TaskFailed, TaskRetrying  # noqa: PLC0415  # only subscribers need them

    about = (definition.name, claimed.id, claimed.retry_count + 1)
    match decision:
        case Retry(delay):
            publish(TaskRetrying(*about, delay, failure))
        case Defer(delay):
            publish(TaskDeferred(*about, delay, failure))
        case Fail(reason):
            publish(TaskFailed(*about, reason, failure))
