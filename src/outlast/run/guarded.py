"""The attempt loops for functions with a resource or a fallback."""

import functools

from outlast import clock
from outlast.run.again import again, again_async, limited, never_awaitable
from outlast.run.call_state import CallState
from outlast.run.loops import name_of, wrapped_async, wrapped_sync
from outlast.run.report import report_counter
from outlast.run.resources import Resource, resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from outlast.decide.policy import RetryPolicy

    Function = Callable[..., Any]


def guarded_sync(function: "Function", policy: "RetryPolicy", fallback: "Function | None") -> "Function":
    """The function behind its resource's breaker, budget and limit, and before its fallback."""
    if policy.resource is None:
        retried = wrapped_sync(function, policy)
    else:
        guard = resource(policy.resource)
        retried = (_plain_sync if _is_plain(policy, guard) else _with_resource)(function, policy, guard)
    if fallback is None:
        return retried

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return retried(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # a fallback is for all of them
            return fallback(error)

    return wrapper


def _is_plain(policy: "RetryPolicy", guard: Resource) -> bool:
    """Tell whether there is only a breaker that counts failures in a row, which closed is looked at and no more."""
    breaker = guard.breaker
    timed = policy.deadline is not None or policy.attempt_timeout is not None
    return breaker is not None and breaker.settings.plain and guard.max_concurrency is None and not timed


def _plain_sync(function: "Function", policy: "RetryPolicy", guard: Resource) -> "Function":
    name, marks, seen = name_of(function), report_counter, type(None)
    entering = _entering_sync(function, guard)
    breaker: Any = guard.breaker

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal seen
        serial, permit = marks.last, breaker.passing
        try:
            result = function(*args, **kwargs) if permit else entering(*args, **kwargs)
        except Exception as error:  # the policy decides
            if permit:
                guard.failed(error, permit)
            state = CallState(policy, name, serial, None, guard)
            delay = state.failed(error)
            if delay is None:
                raise
        else:
            if breaker.failures and breaker.passing == permit:  # another generation's failures are not ours to forget
                breaker.failures = 0
            if type(result) is not seen:
                seen = never_awaitable(name, result)
            return result
        result = again(entering, args, kwargs, state, delay)
        if type(result) is not seen:
            seen = never_awaitable(name, result)
        return result

    return wrapper


def _with_resource(function: "Function", policy: "RetryPolicy", guard: Resource) -> "Function":
    name, marks, seen = name_of(function), report_counter, type(None)
    timed = policy.deadline is not None or policy.attempt_timeout is not None
    entering = _entering_sync(function, guard)

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal seen
        serial, started = marks.last, clock.monotonic() if timed else None
        try:
            result = entering(*args, **kwargs)
        except Exception as error:  # the policy decides
            state = CallState(policy, name, serial, started, guard)
            delay = state.failed(error)
            if delay is None:
                raise
        else:
            if type(result) is not seen:
                seen = never_awaitable(name, result)
            return result
        result = again(entering, args, kwargs, state, delay)
        if type(result) is not seen:
            seen = never_awaitable(name, result)
        return result

    return wrapper


def _entering_sync(function: "Function", guard: Resource) -> "Function":
    def entering(*args: "Any", **kwargs: "Any") -> "Any":
        permit = guard.enter()
        started = clock.monotonic()
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            guard.failed(error, permit)
            raise
        except BaseException:
            guard.withdrawn(permit)
            raise
        guard.succeeded(permit, clock.monotonic() - started)
        return result

    return entering


def guarded_async(function: "Function", policy: "RetryPolicy", fallback: "Function | None") -> "Function":
    """The coroutine function behind its resource's breaker, budget and limit, and before its fallback."""
    if policy.resource is None:
        retried = wrapped_async(function, policy)
    else:
        guard = resource(policy.resource)
        retried = (_plain_async if _is_plain(policy, guard) else _with_resource_async)(function, policy, guard)
    if fallback is None:
        return retried

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return await retried(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # a fallback is for all of them
            result = fallback(error)
            return await result if hasattr(result, "__await__") else result

    return wrapper


def _plain_async(function: "Function", policy: "RetryPolicy", guard: Resource) -> "Function":
    name, marks = name_of(function), report_counter
    breaker: Any = guard.breaker

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        serial, permit = marks.last, breaker.passing
        state = None if permit else CallState(policy, name, serial, None, guard)
        try:
            if state is not None:
                return await _entering(function, state, guard)(*args, **kwargs)
            result = await function(*args, **kwargs)
        except Exception as error:  # the policy decides
            if state is None:
                guard.failed(error, permit)
                state = CallState(policy, name, serial, None, guard)
            delay = state.failed(error)
            if delay is None:
                raise
        else:
            if breaker.failures and breaker.passing == permit:  # another generation's failures are not ours to forget
                breaker.failures = 0
            return result
        return await again_async(_entering(function, state, guard), args, kwargs, state, delay)

    return wrapper


def _with_resource_async(function: "Function", policy: "RetryPolicy", guard: Resource) -> "Function":
    name, marks = name_of(function), report_counter
    timed = policy.deadline is not None or policy.attempt_timeout is not None

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        state = CallState(policy, name, marks.last, clock.monotonic() if timed else None, guard)
        attempt = _entering(function, state, guard)
        try:
            return await attempt(*args, **kwargs)
        except Exception as error:  # the policy decides
            delay = state.failed(error)
            if delay is None:
                raise
        return await again_async(attempt, args, kwargs, state, delay)

    return wrapper


def _entering(function: "Function", state: CallState, guard: Resource) -> "Function":
    """Return an attempt behind its resource; one that ends for want of time is its failure, a cancelled one is not."""
    within = limited(function, state)

    async def entering(*args: "Any", **kwargs: "Any") -> "Any":
        permit = guard.enter()
        started = clock.monotonic()
        try:
            result = await within(*args, **kwargs)
        except Exception as error:
            guard.failed(error, permit)
            raise
        except BaseException:
            guard.withdrawn(permit)
            raise
        guard.succeeded(permit, clock.monotonic() - started)
        return result

    return entering
