"""One attempt of one task, from its payload to its outcomes. Nothing that a task does escapes from here."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from outlast import clock
from outlast.decide.breaker import BREAKER_OPEN, BY_HAND
from outlast.errors import BreakerOpenError, PayloadError, ResourceUnavailableError
from outlast.failure import Category, Failure, Origin
from outlast.ports.rows import Claimed, Kind, Note, Reason, Settlement
from outlast.queue.calls import Died, Raised, Returned, Target, TimedOut
from outlast.queue.child import Children
from outlast.queue.current import CURRENT
from outlast.queue.definition import TaskDefinition
from outlast.queue.ends import how_it_ended
from outlast.queue.logs import log
from outlast.queue.settling import (
    Cool,
    Outcome,
    put_off,
    settled_crash,
    settled_failure,
    settled_result,
    undecodable,
)
from outlast.queue.verdict import Verdict, verdict_on
from outlast.run.resources import Resource, resource

__all__ = ["Bounds", "execute", "execute_async", "execute_in_child", "expired", "parked", "released"]

Definition = TaskDefinition[Any, Any]
_BY_HAND_FOR = 60.0  # seconds for which the tasks of what was opened by hand wait until the breaker is asked again
_SHOWN = 1000  # characters that are shown of what a process wrote before it died
_NEXT_LOOK = 1.0  # seconds; for what was refused itself: it is the cooldown that it waits for, and that can be ended


class Bounds(NamedTuple):
    """What an attempt in a child may take.

    Attributes:
        seconds: Then it is killed.
        memory: Bytes, or up to 1 a share of the machine's; None for no limit.
        crashes: For a suspect, how often it may take its process down; None where that is a failed attempt.
    """

    seconds: float
    memory: float | None = None
    crashes: int | None = None


def execute(definition: Definition, claimed: Claimed, children: Children, leaving: Callable[[], bool]) -> list[Outcome]:
    """Run a task in this thread, or in a child process when it has a timeout.

    Args:
        definition: The task.
        claimed: The claim.
        children: Where tasks with a timeout run.
        leaving: Tells whether the worker kills its children because it stops.
    """
    CURRENT.set(claimed)
    if definition.target is not None:
        bounds = Bounds(definition.timeout or 0.0)
        return execute_in_child(definition, claimed, definition.target, children, leaving, bounds)
    try:
        args, kwargs = definition.codec.decode(claimed.parameters)
    except PayloadError as error:
        return undecodable(definition, claimed, error)
    guard = _guard(definition)
    try:
        if guard is None:
            value = definition.function(*args, **kwargs)
        else:
            with guard:
                value = definition.function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
        return _failed(definition, claimed, verdict_on(error, definition.policy), guard)
    return _succeeded(definition, claimed, value)


async def execute_async(definition: Definition, claimed: Claimed, leaving: Callable[[], bool]) -> list[Outcome]:
    """Run a task on the event loop; cancelled because the worker stops, it is given back."""
    CURRENT.set(claimed)
    try:
        args, kwargs = definition.codec.decode(claimed.parameters)
    except PayloadError as error:
        return undecodable(definition, claimed, error)
    guard = _guard(definition)
    try:
        if guard is None and definition.timeout is None:
            value = await definition.function(*args, **kwargs)
        else:
            value = await _limited(definition, args, kwargs, guard)
    except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
        if isinstance(error, asyncio.CancelledError) and leaving():
            return [released(claimed)]
        return _failed(definition, claimed, verdict_on(error, definition.policy), guard)
    return _succeeded(definition, claimed, value)


async def _limited(
    definition: Definition, args: Sequence[Any], kwargs: dict[str, Any], guard: Resource | None
) -> object:
    limit = asyncio.timeout(definition.timeout)
    try:
        async with limit:
            if guard is None:
                return await definition.function(*args, **kwargs)
            with guard:
                return await definition.function(*args, **kwargs)
    except TimeoutError:
        if not limit.expired():
            raise
    message = f"cancelled after {definition.timeout:g} s"
    raise TimeoutError(message)


def execute_in_child(
    definition: Definition,
    claimed: Claimed,
    target: Target,
    children: Children,
    leaving: Callable[[], bool],
    bounds: Bounds,
) -> list[Outcome]:
    """Run a task in a child process, within bounds."""
    CURRENT.set(claimed)
    guard, suspect = _guard(definition), bounds.crashes is not None
    context = {"claimed": list(claimed), "keep": definition.keep_result is not None, "memory": bounds.memory}
    try:
        permit = 0 if guard is None else guard.enter()
    except ResourceUnavailableError as error:
        return _failed(definition, claimed, verdict_on(error, definition.policy), guard, suspect=suspect)
    try:
        reply = children.run(target, claimed.parameters, timeout=bounds.seconds, context=context)
    except Exception as error:  # noqa: BLE001  # no child can be started; that says nothing about the resource
        if guard is not None:
            guard.withdrawn(permit)
        return _unstarted(definition, claimed, error, guard, suspect=suspect)
    if isinstance(reply, Returned):
        if guard is not None:
            guard.succeeded(permit)
        return [_kept(definition, claimed, reply.text)]
    if isinstance(reply, Died) and leaving():
        if guard is not None:
            guard.withdrawn(permit)
        return [released(claimed)]
    verdict, stand_in = _verdict(reply, definition)
    if guard is not None:
        guard.failed(stand_in, permit)
    if bounds.crashes is None:
        return _failed(definition, claimed, verdict, guard)
    return _cooled(_suspected(definition, claimed, reply, verdict, bounds.crashes), verdict, guard)


def _unstarted(
    definition: Definition, claimed: Claimed, error: Exception, guard: Resource | None, *, suspect: bool
) -> list[Outcome]:
    """Return what is written where no process could be had."""
    if suspect:
        return put_off(definition, claimed, f"no process could be started: {error}")
    return _failed(definition, claimed, verdict_on(error, definition.policy), guard)


def _suspected(
    definition: Definition, claimed: Claimed, reply: Raised | TimedOut | Died, verdict: Verdict, crash_limit: int
) -> list[Outcome]:
    """Return what is written for a suspect that failed: a crash where it would have taken a worker down.

    One that raised an error stays a suspect until it succeeds: that it lived says nothing, it had not come to its end.
    One whose time was up does not, it may just need longer than it has here.
    """
    if isinstance(reply, Died) or (isinstance(reply, Raised) and reply.memory is not None):
        return settled_crash(definition, claimed, verdict, crash_limit)
    stays = isinstance(reply, Raised)
    return settled_failure(definition, claimed, verdict, final=definition.target is not None, suspect=stays)


def _kept(definition: Definition, claimed: Claimed, text: str | None) -> Outcome:
    if definition.keep_result is None or text is None:
        return (claimed.id, claimed.epoch)
    return Settlement(claimed.id, claimed.epoch, Kind.DONE, result=text, keep=definition.keep_result)


def _verdict(reply: Raised | TimedOut | Died, definition: Definition) -> tuple[Verdict, Exception]:
    """Return the judgement on a call that failed in a child, and an error that stands for it."""
    match reply:
        case Raised(verdict, memory, taken):
            if memory is None:
                return verdict, RuntimeError(verdict.failure.message)
            had = f"{taken / 2**20:.0f} of the {memory / 2**20:.0f} MiB"
            message = f"it was refused more memory when it had {had} that suspect_memory lets it take"
            message = f"{message}: {verdict.failure.message}" if verdict.failure.message else message
            return verdict._replace(failure=verdict.failure.replace(message=message)), RuntimeError(message)
        case TimedOut(seconds):
            error = TimeoutError(f"killed after {seconds:g} s")
            return verdict_on(error, definition.policy), error
        case Died(code, stderr):
            message = f"its process {how_it_ended(code)}" + (
                f": {_both_ends(stderr.strip())}" if stderr.strip() else ""
            )
            return _died(message), RuntimeError(message)


def _both_ends(text: str) -> str:
    """Return a long text without its middle: the first line says what it was, the last ones where."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 4]}\n…\n{text[-_SHOWN // 4 * 3 :]}"


def _died(message: str) -> Verdict:
    failure = Failure(
        Category.UNKNOWN, retryable=True, origin=Origin.PROCESS, exception_name="ProcessDied", message=message,
        rule="process died",
    )  # fmt: skip
    return Verdict(failure, wanted=True, traceback="")


def _guard(definition: Definition) -> Resource | None:
    if definition.resource is None:
        return None
    guard = resource(definition.resource)
    return None if guard.is_bare else guard


def _succeeded(definition: Definition, claimed: Claimed, value: object) -> list[Outcome]:
    if definition.keep_result is None:
        return [(claimed.id, claimed.epoch)]
    try:
        return [settled_result(definition, claimed, value)]
    except PayloadError as error:  # its work is done; doing it again would not help
        log.error("%s %d succeeded, its result cannot be kept: %s", definition.name, claimed.id, error)
        return [(claimed.id, claimed.epoch)]


def _failed(
    definition: Definition, claimed: Claimed, verdict: Verdict, guard: Resource | None, *, suspect: bool = False
) -> list[Outcome]:
    return _cooled(settled_failure(definition, claimed, verdict, suspect=suspect), verdict, guard)


def _cooled(outcomes: list[Outcome], verdict: Verdict, guard: Resource | None) -> list[Outcome]:
    """Add to outcomes that a resource is left alone whose breaker is open."""
    if guard is not None and guard.is_open and guard.breaker is not None:
        left = max(0.0, guard.breaker.until - clock.monotonic())
        if guard.breaker.reason == BY_HAND:  # whose end nobody knows: somebody may close it at any time
            left = min(left, _BY_HAND_FOR)
            if verdict.failure.exception_name == BreakerOpenError.__name__:
                outcomes = [_soon(each) for each in outcomes if not isinstance(each, Cool)]
        outcomes.insert(0, Cool(guard.name, left, BREAKER_OPEN))
    return outcomes


def _soon(outcome: Outcome) -> Outcome:
    """Return an outcome in which a task that was put off waits for the end of its resource's cooldown alone."""
    if isinstance(outcome, Settlement) and outcome.kind is Kind.DEFER:
        return outcome._replace(delay=min(outcome.delay, _NEXT_LOOK))
    return outcome


def released(claimed: Claimed) -> Settlement:
    """Give a task back as it was."""
    return Settlement(claimed.id, claimed.epoch, Kind.RELEASE)


def parked(claimed: Claimed) -> Settlement:
    """Put a task aside whose name nobody here knows."""
    return Settlement(claimed.id, claimed.epoch, Kind.PARK)


def expired(claimed: Claimed) -> Settlement:
    """End a task that is no longer worth starting."""
    message = "not started in time: its expiry had passed"
    failure = Failure(Category.UNKNOWN, retryable=False, exception_name="Expired", message=message, rule="expired")
    note = Note("Expired", message, str(failure.category), failure.fingerprint, failure.to_json())
    return Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason.EXPIRED)
