"""Runs one attempt of a task, from its payload to its outcome. No error of a task escapes."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from outlast import clock
from outlast.decide.breaker import BREAKER_OPEN, OPENED_BY_HAND
from outlast.errors import BreakerOpenError, PayloadError, ResourceUnavailableError
from outlast.failure import Category, Failure, Origin
from outlast.ports.rows import Claimed, Kind, Note, Reason, Settlement
from outlast.queue.child_process import ChildPool, Died, FunctionRef, Raised, Returned, TimedOut, describe_exit
from outlast.queue.definition import TaskDefinition
from outlast.queue.logs import log
from outlast.queue.settlement import (
    Outcome,
    StartCooldown,
    settle_crash,
    settle_failure,
    settle_no_process,
    settle_result,
    settle_undecodable,
)
from outlast.queue.task_failure import TaskFailure, task_failure_of
from outlast.record.bus import publish
from outlast.run.call_state import CURRENT_TASK
from outlast.run.resources import Resource, resource

Definition = TaskDefinition[Any, Any]
_MANUAL_OPEN_WAIT = 60.0  # seconds for which the tasks of what was opened by hand wait until the breaker is asked again
_MAX_STDERR = 1000  # characters that are shown of what a process wrote before it died
_RECHECK_WAIT = 1.0  # seconds; for what was refused itself: it is the cooldown that it waits for, and that can be ended


class ChildLimits(NamedTuple):
    """What an attempt in a child may take.

    Attributes:
        seconds: Then it is killed.
        memory: Bytes, or up to 1 a share of the machine's; None for no limit.
        crashes: For a suspect, how often it may take its process down; None where that is a failed attempt.
    """

    seconds: float
    memory: float | None = None
    crashes: int | None = None


def execute(
    definition: Definition, claimed: Claimed, children: ChildPool, leaving: Callable[[], bool]
) -> list[Outcome]:
    """Run a task in this thread, or in a child process when it has a timeout.

    Args:
        definition: The task.
        claimed: The claim.
        children: Where tasks with a timeout run.
        leaving: Tells whether the worker kills its children because it stops.
    """
    CURRENT_TASK.set(claimed)
    if definition.target is not None:
        bounds = ChildLimits(definition.timeout or 0.0)
        return execute_in_child(definition, claimed, definition.target, children, leaving, bounds)
    try:
        args, kwargs = definition.codec.decode(claimed.parameters)
    except PayloadError as error:
        return settle_undecodable(definition, claimed, error)
    guard = _active_resource(definition)
    try:
        if guard is None:
            value = definition.function(*args, **kwargs)
        else:
            with guard:
                value = definition.function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
        return _settle_failed(definition, claimed, task_failure_of(error, definition.policy), guard)
    return _settle_success(definition, claimed, value)


async def execute_async(definition: Definition, claimed: Claimed, leaving: Callable[[], bool]) -> list[Outcome]:
    """Run a task on the event loop; cancelled because the worker stops, it is given back."""
    CURRENT_TASK.set(claimed)
    try:
        args, kwargs = definition.codec.decode(claimed.parameters)
    except PayloadError as error:
        return settle_undecodable(definition, claimed, error)
    guard = _active_resource(definition)
    try:
        if guard is None and definition.timeout is None:
            value = await definition.function(*args, **kwargs)
        else:
            value = await _run_within_timeout(definition, args, kwargs, guard)
    except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
        if isinstance(error, asyncio.CancelledError) and leaving():
            return [release_settlement(claimed)]
        return _settle_failed(definition, claimed, task_failure_of(error, definition.policy), guard)
    return _settle_success(definition, claimed, value)


async def _run_within_timeout(
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
    target: FunctionRef,
    children: ChildPool,
    leaving: Callable[[], bool],
    bounds: ChildLimits,
) -> list[Outcome]:
    """Run a task in a child process, within bounds."""
    CURRENT_TASK.set(claimed)
    guard, suspect = _active_resource(definition), bounds.crashes is not None
    context = {"claimed": list(claimed), "keep": definition.keep_result is not None, "memory": bounds.memory}
    try:
        permit = 0 if guard is None else guard.enter()
    except ResourceUnavailableError as error:
        return _settle_failed(definition, claimed, task_failure_of(error, definition.policy), guard, suspect=suspect)
    try:
        reply = children.run(target, claimed.parameters, timeout=bounds.seconds, context=context)
    except Exception as error:  # noqa: BLE001  # no child can be started; that says nothing about the resource
        if guard is not None:
            guard.withdrawn(permit)
        return _settle_unstarted(definition, claimed, error, guard, suspect=suspect)
    if isinstance(reply, Returned):
        if guard is not None:
            guard.succeeded(permit)
        return [_child_result_outcome(definition, claimed, reply.text)]
    if isinstance(reply, Died) and leaving():
        if guard is not None:
            guard.withdrawn(permit)
        return [release_settlement(claimed)]
    verdict, stand_in = _failure_of_reply(reply, definition)
    if guard is not None:
        guard.failed(stand_in, permit)
    if bounds.crashes is None:
        return _settle_failed(definition, claimed, verdict, guard)
    return _add_cooldown(_settle_suspect(definition, claimed, reply, verdict, bounds.crashes), verdict, guard)


def _settle_unstarted(
    definition: Definition, claimed: Claimed, error: Exception, guard: Resource | None, *, suspect: bool
) -> list[Outcome]:
    """Return what is written where no process could be had."""
    if suspect:
        return settle_no_process(definition, claimed, f"no process could be started: {error}")
    return _settle_failed(definition, claimed, task_failure_of(error, definition.policy), guard)


def _settle_suspect(
    definition: Definition, claimed: Claimed, reply: Raised | TimedOut | Died, verdict: TaskFailure, crash_limit: int
) -> list[Outcome]:
    """Return what is written for a suspect that failed: a crash where it would have taken a worker down.

    One that raised an error stays a suspect until it succeeds: that it lived says nothing, it had not come to its end.
    One whose time was up does not, it may just need longer than it has here.
    """
    if isinstance(reply, Died) or (isinstance(reply, Raised) and reply.memory is not None):
        return settle_crash(definition, claimed, verdict, crash_limit)
    stays = isinstance(reply, Raised)
    return settle_failure(definition, claimed, verdict, final=definition.target is not None, suspect=stays)


def _child_result_outcome(definition: Definition, claimed: Claimed, text: str | None) -> Outcome:
    if definition.keep_result is None or text is None:
        return (claimed.id, claimed.epoch)
    return Settlement(claimed.id, claimed.epoch, Kind.DONE, result=text, keep=definition.keep_result)


def _failure_of_reply(reply: Raised | TimedOut | Died, definition: Definition) -> tuple[TaskFailure, Exception]:
    """Return the judgement on a call that failed in a child, and an error that stands for it."""
    match reply:
        case Raised(verdict, memory, taken):
            if memory is None:
                return verdict, RuntimeError(verdict.failure.message)
            had = f"{taken / 2**20:.0f} of the {memory / 2**20:.0f} MiB"
            message = f"out of memory: it used {had} that suspect_memory allows"
            message = f"{message}: {verdict.failure.message}" if verdict.failure.message else message
            return verdict._replace(failure=verdict.failure.replace(message=message)), RuntimeError(message)
        case TimedOut(seconds):
            error = TimeoutError(f"killed after {seconds:g} s")
            return task_failure_of(error, definition.policy), error
        case Died(code, stderr):
            message = f"its process {describe_exit(code)}" + (
                f": {_shorten_middle(stderr.strip())}" if stderr.strip() else ""
            )
            return _process_died_failure(message), RuntimeError(message)


def _shorten_middle(text: str) -> str:
    """Return a long text without its middle: the first line says what it was, the last ones where."""
    return text if len(text) <= _MAX_STDERR else f"{text[: _MAX_STDERR // 4]}\n…\n{text[-_MAX_STDERR // 4 * 3 :]}"


def _process_died_failure(message: str) -> TaskFailure:
    failure = Failure(
        Category.UNKNOWN, retryable=True, origin=Origin.PROCESS, exception_name="ProcessDied", message=message,
        rule="process died",
    )  # fmt: skip
    return TaskFailure(failure, wanted=True, traceback="")


def _active_resource(definition: Definition) -> Resource | None:
    if definition.resource is None:
        return None
    guard = resource(definition.resource)
    return None if guard.is_bare else guard


def _settle_success(definition: Definition, claimed: Claimed, value: object) -> list[Outcome]:
    if definition.keep_result is None:
        return [(claimed.id, claimed.epoch)]
    try:
        return [settle_result(definition, claimed, value)]
    except PayloadError as error:  # its work is done; doing it again would not help
        log.error("%s %d succeeded, but its result cannot be stored: %s", definition.name, claimed.id, error)
        return [(claimed.id, claimed.epoch)]


def _settle_failed(
    definition: Definition, claimed: Claimed, verdict: TaskFailure, guard: Resource | None, *, suspect: bool = False
) -> list[Outcome]:
    return _add_cooldown(settle_failure(definition, claimed, verdict, suspect=suspect), verdict, guard)


def _add_cooldown(outcomes: list[Outcome], verdict: TaskFailure, guard: Resource | None) -> list[Outcome]:
    """Add to outcomes that a resource is left alone whose breaker is open."""
    if guard is not None and guard.is_open and guard.breaker is not None:
        left = max(0.0, guard.breaker.until - clock.monotonic())
        if guard.breaker.reason == OPENED_BY_HAND:  # whose end nobody knows: somebody may close it at any time
            left = min(left, _MANUAL_OPEN_WAIT)
            if verdict.failure.exception_name == BreakerOpenError.__name__:
                outcomes = [_defer_briefly(each) for each in outcomes if not isinstance(each, StartCooldown)]
        outcomes.insert(0, StartCooldown(guard.name, left, BREAKER_OPEN))
    return outcomes


def _defer_briefly(outcome: Outcome) -> Outcome:
    """Return an outcome in which a task that was put off waits for the end of its resource's cooldown alone."""
    if isinstance(outcome, Settlement) and outcome.kind is Kind.DEFER:
        return outcome._replace(delay=min(outcome.delay, _RECHECK_WAIT))
    return outcome


def release_settlement(claimed: Claimed) -> Settlement:
    """Give a task back as it was."""
    return Settlement(claimed.id, claimed.epoch, Kind.RELEASE)


def park_settlement(claimed: Claimed) -> Settlement:
    """Put a task aside whose name nobody here knows."""
    return Settlement(claimed.id, claimed.epoch, Kind.PARK)


def expiry_settlement(claimed: Claimed) -> Settlement:
    """End a task that is no longer worth starting."""
    message = "not started in time: its expiry had passed"  # stored: another text would make another group
    failure = Failure(Category.UNKNOWN, retryable=False, exception_name="Expired", message=message, rule="expired")
    note = Note("Expired", message, str(failure.category), failure.fingerprint, failure.to_json())
    return Settlement(claimed.id, claimed.epoch, Kind.FAIL, note=note, reason=Reason.EXPIRED)


def execute_with_events(
    definition: Definition, claimed: Claimed, children: ChildPool, leaving: Callable[[], bool]
) -> list[Outcome]:
    """Run a task as `execute` does."""
    began, outcomes = _publish_start(definition, claimed), list[Outcome]()
    try:
        outcomes = execute(definition, claimed, children, leaving)
    finally:
        _publish_end(definition, claimed, began, outcomes)
    return outcomes


def execute_in_child_with_events(
    definition: Definition,
    claimed: Claimed,
    target: FunctionRef,
    children: ChildPool,
    leaving: Callable[[], bool],
    bounds: ChildLimits,
) -> list[Outcome]:
    """Run a task as `execute_in_child` does."""
    began, outcomes = _publish_start(definition, claimed), list[Outcome]()
    try:
        outcomes = execute_in_child(definition, claimed, target, children, leaving, bounds)
    finally:
        _publish_end(definition, claimed, began, outcomes)
    return outcomes


async def execute_async_with_events(
    definition: Definition, claimed: Claimed, leaving: Callable[[], bool]
) -> list[Outcome]:
    """Run a task as `execute_async` does."""
    began, outcomes = _publish_start(definition, claimed), list[Outcome]()
    try:
        outcomes = await execute_async(definition, claimed, leaving)
    finally:
        _publish_end(definition, claimed, began, outcomes)
    return outcomes


def _publish_start(definition: Definition, claimed: Claimed) -> float:
    from outlast.record.events import TaskStarted  # noqa: PLC0415  # only subscribers need it

    publish(TaskStarted(definition.name, claimed.id, claimed.retry_count + 1))
    return clock.monotonic()


def _publish_end(definition: Definition, claimed: Claimed, began: float, outcomes: Sequence[Outcome]) -> None:
    from outlast.record.events import TaskEnded  # noqa: PLC0415  # only subscribers need it

    seconds = clock.monotonic() - began
    publish(TaskEnded(definition.name, claimed.id, claimed.retry_count + 1, seconds, _outcome_kind(outcomes).value))


def _outcome_kind(outcomes: Sequence[Outcome]) -> Kind:
    """Return what becomes of the task; where a mistake of ours left nothing to be written, it is put off."""
    for each in outcomes:
        if isinstance(each, Settlement):
            return each.kind
        if type(each) is tuple:  # its number and epoch alone: nothing more is to be written of a success
            return Kind.DONE
    return Kind.DEFER
