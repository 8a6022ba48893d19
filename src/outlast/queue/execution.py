"""Runs one attempt of a task, from its payload to its outcome. No error of a task escapes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Concatenate, NamedTuple, ParamSpec

from outlast import clock
from outlast.classify.safe_access import drop_interrupts
from outlast.decide.breaker import BREAKER_OPEN, OPENED_BY_HAND
from outlast.errors import BreakerOpenError, PayloadError, ResourceUnavailableError
from outlast.failure import Category, Failure, Origin
from outlast.ports.rows import Claimed, Kind, Settlement
from outlast.queue.child_process import ChildPool, Died, FunctionRef, Raised, Returned, TimedOut, describe_exit
from outlast.queue.definition import Definition
from outlast.queue.logs import log, log_done
from outlast.queue.payload import encode_kept_result
from outlast.queue.settlement import (
    Outcome,
    StartCooldown,
    release_settlement,
    settle_crash,
    settle_failure,
    settle_no_process,
    settle_success,
    settle_undecodable,
)
from outlast.queue.task_failure import TaskFailure, task_failure_of
from outlast.record import bus
from outlast.record.bus import publish
from outlast.record.log_text import traceback_of
from outlast.run.call_state import CURRENT, CURRENT_TASK
from outlast.run.loops import checked_result_type
from outlast.run.resources import Resource, find_resource

P = ParamSpec("P")
_BUG_WAIT = 60.0  # seconds until a task that could not be settled runs again
_MANUAL_OPEN_WAIT = 60.0  # longest cooldown in seconds for a breaker opened by hand: it may be closed at any time
_MAX_STDERR = 1000  # shown characters of what a process wrote before it died
_RECHECK_WAIT = 1.0  # seconds; a task that such a breaker refused waits for the cooldown, which can be ended


class ChildLimits(NamedTuple):
    """The limits of an attempt in a child process.

    Attributes:
        seconds: Seconds after which it is killed.
        memory: Bytes, or a share of the machine's memory up to 1; None for no limit.
        crashes: For a suspect, how often it may crash its process; None if a crash is a failed attempt.
    """

    seconds: float
    memory: float | None = None
    crashes: int | None = None


def execute(definition: Definition, claimed: Claimed, children: ChildPool, is_leaving: Callable[[], bool]) -> Outcome:
    """Run a task in this thread, or in a child process if it has a timeout.

    Args:
        definition: The task.
        claimed: The claim.
        children: Run tasks with a timeout.
        is_leaving: Returns whether the worker kills its children because it stops.
    """
    if definition.target is not None:
        limits = ChildLimits(definition.timeout or 0.0)
        return execute_in_child(definition, claimed, definition.target, children, is_leaving, limits)
    return _execute_here(definition, claimed)


async def execute_async(definition: Definition, claimed: Claimed, is_leaving: Callable[[], bool]) -> Outcome:
    """Run a task on the event loop. If it is cancelled because the worker stops, it is released."""
    drop_interrupts()
    started_at = None
    try:
        started_at = _start(definition, claimed)
        outcome = await _run_on_loop(definition, claimed, is_leaving)
    except BaseException as error:  # noqa: BLE001  # a bug must not lose the task
        outcome = defer_after_bug(claimed, error)
    _end(definition, claimed, started_at, outcome)
    return outcome


def defer_after_bug(claimed: Claimed, error: BaseException) -> Outcome:
    """Defer a task that could not be settled: a bug of ours, or the interpreter is out of memory."""
    log.error("could not settle %s %d\n%s", claimed.task_type, claimed.id, traceback_of(error))
    return Outcome.of(Settlement(claimed.id, claimed.epoch, Kind.DEFER, _BUG_WAIT, suspect=claimed.suspect))


def _with_events(
    run: Callable[Concatenate[Definition, Claimed, P], Outcome],
) -> Callable[Concatenate[Definition, Claimed, P], Outcome]:
    """Publish the start and the end of an attempt, and defer the task after a bug of ours."""

    def run_with_events(definition: Definition, claimed: Claimed, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        started_at = None
        try:
            started_at = _start(definition, claimed)
            outcome = run(definition, claimed, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001  # a bug of ours must not lose the task
            outcome = defer_after_bug(claimed, error)
        _end(definition, claimed, started_at, outcome)
        return outcome

    return run_with_events


def _start(definition: Definition, claimed: Claimed) -> float:
    """Publish the start of an attempt. Returns the time."""
    if bus.subscribers:
        from outlast.record.events import TaskStarted  # noqa: PLC0415  # only subscribers need it

        publish(TaskStarted(definition.name, claimed.id, claimed.retry_count + 1))
    return clock.monotonic()


def _end(definition: Definition, claimed: Claimed, started_at: float | None, outcome: Outcome) -> None:
    """Log the end of a task that is done, and publish the end of any attempt that has started."""
    if started_at is None:
        return
    kind = Kind.DONE if outcome.settlement is None else outcome.settlement.kind
    seconds = clock.monotonic() - started_at
    if kind is Kind.DONE:
        log_done(definition.name, claimed.id, claimed.retry_count + 1, seconds)
    if not bus.subscribers:
        return
    from outlast.record.events import TaskEnded  # noqa: PLC0415  # only subscribers need it

    try:
        publish(TaskEnded(definition.name, claimed.id, claimed.retry_count + 1, seconds, kind.value))
    except BaseException as error:  # noqa: BLE001  # a subscriber that ends its thread must not lose the outcome
        log.error("a subscriber failed on TaskEnded\n%s", traceback_of(error))


@_with_events
def _execute_here(definition: Definition, claimed: Claimed) -> Outcome:
    CURRENT_TASK.set(claimed)
    try:
        args, kwargs = definition.codec.decode(claimed.parameters)
    except PayloadError as error:
        return settle_undecodable(definition, claimed, error)
    guard = active_resource(claimed.resource or definition.resource)
    try:
        with guard or nullcontext():
            value = definition.function(*args, **kwargs)
        checked_result_type(definition.name, value)
    except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
        return _settle_error(definition, claimed, error, guard)
    return settle_success(definition, claimed, _encode_kept_result(definition, claimed, value))


async def _run_on_loop(definition: Definition, claimed: Claimed, is_leaving: Callable[[], bool]) -> Outcome:
    CURRENT_TASK.set(claimed)
    try:
        args, kwargs = definition.codec.decode(claimed.parameters)
    except PayloadError as error:
        return settle_undecodable(definition, claimed, error)
    guard = active_resource(claimed.resource or definition.resource)
    try:
        if guard is None and definition.timeout is None:
            value = await definition.function(*args, **kwargs)
        else:
            value = await _run_within_timeout(definition, args, kwargs, guard)
    except BaseException as error:  # noqa: BLE001  # also SystemExit: a task does not end its worker
        if issubclass(type(error), asyncio.CancelledError) and is_leaving():
            return Outcome.of(release_settlement(claimed))
        return _settle_error(definition, claimed, error, guard)
    return settle_success(definition, claimed, _encode_kept_result(definition, claimed, value))


async def _run_within_timeout(
    definition: Definition, args: Sequence[Any], kwargs: dict[str, Any], guard: Resource | None
) -> object:
    limit = asyncio.timeout(None)
    try:
        async with limit, guard or nullcontext():
            if definition.timeout is not None:  # it begins after the wait of a rate limit
                limit.reschedule(asyncio.get_running_loop().time() + definition.timeout)
            return await definition.function(*args, **kwargs)
    except TimeoutError:
        if not limit.expired():
            raise
    raise TimeoutError(f"cancelled after {definition.timeout:g} s")


@_with_events
def execute_in_child(
    definition: Definition,
    claimed: Claimed,
    target: FunctionRef,
    children: ChildPool,
    is_leaving: Callable[[], bool],
    limits: ChildLimits,
) -> Outcome:
    """Run a task in a child process, within limits."""
    CURRENT_TASK.set(claimed)
    guard, suspect = active_resource(claimed.resource or definition.resource), limits.crashes is not None
    context = {"claimed": list(claimed), "keep": definition.keep_result is not None, "memory": limits.memory}
    try:
        permit = _enter(guard)
    except ResourceUnavailableError as error:
        return _settle_error(definition, claimed, error, guard, suspect=suspect)
    try:
        reply = children.run(target, claimed.parameters, timeout=limits.seconds, context=context)
    except Exception as error:  # noqa: BLE001  # no child can be started; that says nothing about the resource
        if guard is not None:
            guard.withdrawn(permit)
        if suspect:
            return settle_no_process(definition, claimed, f"no process could be started: {error}")
        return _settle_error(definition, claimed, error, guard)
    if isinstance(reply, Returned):
        if guard is not None:
            guard.succeeded(permit)
        return settle_success(definition, claimed, reply.text)
    if isinstance(reply, Died) and is_leaving():
        if guard is not None:
            guard.withdrawn(permit)
        return Outcome.of(release_settlement(claimed))
    task_failure, raised = _failure_of_reply(reply, definition)
    if guard is not None:
        guard.failed(raised, permit)
    outcome = _settle_reply(definition, claimed, reply, task_failure, limits.crashes)
    return _add_breaker_cooldown(outcome, task_failure, guard)


def _enter(guard: Resource | None) -> int:
    """Start a call of a resource, when its rate limit allows it; return the permit."""
    if guard is None:
        return 0
    guard.wait(CURRENT.get())
    return guard.enter()


def _settle_reply(
    definition: Definition,
    claimed: Claimed,
    reply: Raised | TimedOut | Died,
    task_failure: TaskFailure,
    crash_limit: int | None,
) -> Outcome:
    """Return the outcome of a task that failed in a child: for a suspect a crash, if it would have crashed a worker.

    A suspect that raised an error stays one until it succeeds, because it did not get to its end. One that timed out
    does not: it may only need more time than it has here.
    """
    if crash_limit is None:
        return settle_failure(definition, claimed, task_failure)
    if isinstance(reply, Died) or (isinstance(reply, Raised) and reply.memory is not None):
        return settle_crash(definition, claimed, task_failure, crash_limit)
    stays = isinstance(reply, Raised)
    return settle_failure(definition, claimed, task_failure, final=definition.target is not None, suspect=stays)


def _failure_of_reply(reply: Raised | TimedOut | Died, definition: Definition) -> tuple[TaskFailure, Exception]:
    """Return the failure of a call in a child, and an error that stands for it."""
    match reply:
        case Raised(task_failure, memory, taken):
            message = task_failure.failure.message
            if memory is not None:
                used = f"{taken / 2**20:.0f} of the {memory / 2**20:.0f} MiB"
                cause = f": {message}" if message else ""
                message = f"out of memory: it used {used} that suspect_memory allows{cause}"
                task_failure = task_failure._replace(failure=task_failure.failure.replace(message=message))
            return task_failure, RuntimeError(message)
        case TimedOut(seconds):
            error = TimeoutError(f"killed after {seconds:g} s")
            return task_failure_of(error, definition.policy), error
        case Died(code, stderr):
            message, text = f"its process {describe_exit(code)}", stderr.strip()
            if len(text) > _MAX_STDERR:  # its first line tells what happened, the last ones where
                text = f"{text[: _MAX_STDERR // 4]}\n…\n{text[-_MAX_STDERR // 4 * 3 :]}"
            if text:
                message = f"{message}: {text}"
            failure = Failure(
                Category.UNKNOWN, retryable=True, origin=Origin.PROCESS, exception_name="ProcessDied", message=message,
                rule="process died",
            )  # fmt: skip
            return TaskFailure(failure, wanted=True, traceback=""), RuntimeError(message)


def active_resource(name: str | None) -> Resource | None:
    """Return a resource that has a breaker or a limit; None for another one."""
    guard = None if name is None else find_resource(name)
    return None if guard is None or guard.is_bare else guard


def _encode_kept_result(definition: Definition, claimed: Claimed, value: object) -> str | None:
    if definition.keep_result is None:
        return None
    return encode_kept_result(value, definition.codec.returns, f"{definition.name} {claimed.id}")


def _settle_error(
    definition: Definition, claimed: Claimed, error: BaseException, guard: Resource | None, *, suspect: bool = False
) -> Outcome:
    task_failure = task_failure_of(error, definition.policy)
    outcome = settle_failure(definition, claimed, task_failure, suspect=suspect)
    return _add_breaker_cooldown(outcome, task_failure, guard)


def breaker_cooldown(guard: Resource | None) -> StartCooldown | None:
    """Return a cooldown for as long as the breaker of a resource is open; None if it is not."""
    if guard is None or guard.breaker is None or not guard.is_open:
        return None
    left = max(0.0, guard.breaker.until - clock.monotonic())
    if guard.breaker.reason == OPENED_BY_HAND:
        left = min(left, _MANUAL_OPEN_WAIT)
    return StartCooldown(guard.name, left, BREAKER_OPEN)


def _add_breaker_cooldown(outcome: Outcome, task_failure: TaskFailure, guard: Resource | None) -> Outcome:
    """Return the outcome with a cooldown for as long as the breaker of the resource is open."""
    cooldown = breaker_cooldown(guard)
    if guard is None or guard.breaker is None or cooldown is None:
        return outcome
    refused = task_failure.failure.exception_name == BreakerOpenError.__name__
    if refused and guard.breaker.reason == OPENED_BY_HAND:
        return outcome._replace(settlement=_defer_briefly(outcome.settlement), cooldown=cooldown)
    if outcome.cooldown is not None and outcome.cooldown.seconds > cooldown.seconds:
        return outcome
    return outcome._replace(cooldown=cooldown)


def _defer_briefly(settlement: Settlement | None) -> Settlement | None:
    """Return the settlement of a task that a breaker opened by hand has refused: only the cooldown delays it."""
    if settlement is None or settlement.kind is not Kind.DEFER:
        return settlement
    return settlement._replace(delay=min(settlement.delay, _RECHECK_WAIT))
