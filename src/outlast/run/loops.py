"""The two attempt loops, sync and async, as wrappers around a function.

A call that succeeds at once costs one `try`. Everything else happens in `CallState`, after the first failure. A
resource, a time limit and the check of a result are wrappers inside the loop, a fallback is one around it.
"""

import functools
from types import CoroutineType

from outlast import clock
from outlast.decide.decision import RetriedResult
from outlast.decide.policy import check_verdict
from outlast.errors import ConfigError
from outlast.run import logs
from outlast.run.call_state import CURRENT, CallPlan, CallState, restart_attempt
from outlast.run.report import report_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from typing import Any

    from outlast.decide.policy import RetryPolicy
    from outlast.run.resources import Resource

    Function = Callable[..., Any]


def name_of(function: object) -> str:
    """Return what a function is called in logs and events."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def wrapped_sync(
    function: "Function", policy: "RetryPolicy", fallback: "Function | None", retry_result: "Function | None" = None
) -> "Function":
    """Return the function with its retries and its fallback."""
    plan = CallPlan(policy, name_of(function))
    attempt = function if plan.resource is None else _guarded(function, plan.resource)
    retried = retry_sync(attempt if retry_result is None else _judged(attempt, plan.name, retry_result), plan)
    if fallback is None and retry_result is None:
        return retried

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return retried(*args, **kwargs)
        except RetriedResult as last:
            return last.value
        except Exception as error:
            if fallback is None:
                raise
            return fallback(error)

    return wrapper


def wrapped_async(
    function: "Function", policy: "RetryPolicy", fallback: "Function | None", retry_result: "Function | None" = None
) -> "Function":
    """Return the coroutine function with its retries and its fallback."""
    plan = CallPlan(policy, name_of(function))
    attempt = function if plan.limit is None else limited(function, plan.limit)
    attempt = attempt if plan.resource is None else _guarded_async(attempt, plan.resource)
    retried = retry_async(attempt if retry_result is None else _judged_async(attempt, plan.name, retry_result), plan)
    if fallback is None and retry_result is None:
        return retried

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return await retried(*args, **kwargs)
        except RetriedResult as last:
            return last.value
        except Exception as error:
            if fallback is None:
                raise
            result = fallback(error)
            return await result if hasattr(result, "__await__") else result

    return wrapper


def retry_sync(function: "Function", plan: CallPlan) -> "Function":  # noqa: C901  # one loop, read from top to bottom
    """Return the function with its retries."""
    timed, counter, seen = plan.timed, report_counter, type(None)

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal seen
        call = (plan, clock.monotonic() if timed else None, counter.last)
        token, state = CURRENT.set(call), None
        try:
            while True:
                try:
                    result = function(*args, **kwargs)
                except Exception as error:  # the policy decides
                    state = state or plan.state(call, args)
                    delay = state.failed(error)
                    if delay is None:
                        raise
                else:
                    if state is not None:
                        state.succeeded()
                    if type(result) is not seen:
                        seen = checked_result_type(plan.name, result)
                    return result
                CURRENT.set(state)
                if plan.sleep is not None:
                    plan.sleep(state, delay)
                elif delay > 0:
                    clock.sleep(delay)
                state.begin()
        finally:
            CURRENT.reset(token)
            if state is not None:
                state.last = None  # an interrupted wait would keep the error, and all that it refers to, alive

    return wrapper


def retry_async(function: "Function", plan: CallPlan) -> "Function":
    """Return the coroutine function with its retries."""
    timed, counter = plan.timed, report_counter

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        call = (plan, clock.monotonic() if timed else None, counter.last)
        token, state = CURRENT.set(call), None
        try:
            while True:
                try:
                    result = await function(*args, **kwargs)
                except Exception as error:  # the policy decides
                    state = state or plan.state(call, args)
                    delay = state.failed(error)
                    if delay is None:
                        raise
                else:
                    if state is not None:
                        state.succeeded()
                    return result
                CURRENT.set(state)
                if plan.sleep_async is not None:
                    await plan.sleep_async(state, delay)
                elif delay > 0:
                    await clock.sleep_async(delay)
                state.begin()
        finally:
            leave(token)
            if state is not None:
                state.last = None

    return wrapper


def leave(token: "Token[Any]") -> None:
    """Leave a call, or an attempt of a block."""
    try:  # noqa: SIM105  # contextlib is not loaded with outlast
        CURRENT.reset(token)
    except ValueError:  # a coroutine that is closed from outside its task; that context never held the call
        pass


def limited(function: "Function", first_limit: float) -> "Function":
    """Return the coroutine function with each attempt cancelled when its time is up."""
    from outlast.run.time_limit import run_within  # noqa: PLC0415  # loads asyncio, which only async functions need

    @functools.wraps(function)
    def attempt(*args: "Any", **kwargs: "Any") -> "Any":
        current = CURRENT.get()
        left = current.attempt_left() if isinstance(current, CallState) else first_limit
        return run_within(left or 0.0, function, args, kwargs)

    return attempt


def checked_result_type(name: str, result: "Any") -> type:
    """Return the type of a sync function's result.

    Raises:
        ConfigError: If it is an awaitable, which nobody would await.
    """
    kind = type(result)
    if not hasattr(kind, "__await__"):
        return kind
    if kind is CoroutineType:
        result.close()  # thrown away, it would warn that nobody awaited it
    raise ConfigError(
        f"{name} returned a {kind.__name__}, whose errors would not be seen; use the coroutine function itself, or an "
        "async function that awaits it"
    )


def _judged(function: "Function", name: str, retry_result: "Function") -> "Function":
    """Return the function with a result that `retry_result` does not accept raised, so that the loop sees it."""

    @functools.wraps(function)
    def judged(*args: "Any", **kwargs: "Any") -> "Any":
        return _accepted(name, retry_result, function(*args, **kwargs))

    return judged


def _judged_async(function: "Function", name: str, retry_result: "Function") -> "Function":
    """Return the coroutine function with a result that `retry_result` does not accept raised."""

    @functools.wraps(function)
    async def judged(*args: "Any", **kwargs: "Any") -> "Any":
        return _accepted(name, retry_result, await function(*args, **kwargs))

    return judged


def _accepted(name: str, retry_result: "Function", result: "Any") -> "Any":
    """Return a result, or raise it as a `RetriedResult`. If `retry_result` is broken, the result is returned."""
    if hasattr(type(result), "__await__"):  # the loop refuses it
        return result
    try:
        retries, wait = check_verdict(retry_result, retry_result(result))
    except Exception as mistake:  # noqa: BLE001  # a function of the user's; the result at hand matters more
        logs.log_user_error("retry_result", name, mistake)
        return result
    if retries:
        raise RetriedResult(result, wait)
    return result


def _guarded(function: "Function", guard: "Resource") -> "Function":
    """Return the function inside its resource's breaker and limits."""

    @functools.wraps(function)
    def guarded(*args: "Any", **kwargs: "Any") -> "Any":
        if guard.limiter is not None and guard.wait(current := CURRENT.get()):
            restart_attempt(current)
        permit, began = guard.enter(), clock.monotonic()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            guard.ended(error, permit)
            raise
        guard.succeeded(permit, clock.monotonic() - began)
        return result

    return guarded


def _guarded_async(function: "Function", guard: "Resource") -> "Function":
    """Return the coroutine function inside its resource's breaker and limits."""

    @functools.wraps(function)
    async def guarded(*args: "Any", **kwargs: "Any") -> "Any":
        if guard.limiter is not None and await guard.wait_async(current := CURRENT.get()):
            restart_attempt(current)
        permit, began = guard.enter(), clock.monotonic()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            guard.ended(error, permit)
            raise
        guard.succeeded(permit, clock.monotonic() - began)
        return result

    return guarded
