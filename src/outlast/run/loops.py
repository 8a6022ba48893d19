"""The two attempt loops, sync and async, as wrappers around a function.

A call that succeeds at once costs one `try`. Everything else happens in `CallState`, after the first failure. Policies
with a resource, and async policies with a time limit, have their own wrappers.
"""

import functools

from outlast import clock
from outlast.run.again import again, again_async, never_awaitable
from outlast.run.call_state import CallState
from outlast.run.report import report_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from outlast.decide.policy import RetryPolicy

    Function = Callable[..., Any]


def name_of(function: object) -> str:
    """Return what a function is called in logs and events."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def wrapped_sync(function: "Function", policy: "RetryPolicy", fallback: "Function | None" = None) -> "Function":
    """Return the function with its retries."""
    if policy.resource is not None or fallback is not None:
        from outlast.run.guarded import guarded_sync  # noqa: PLC0415  # only they need it, and it needs this module

        return guarded_sync(function, policy, fallback)
    name, marks, seen = name_of(function), report_counter, type(None)
    if policy.deadline is None and policy.attempt_timeout is None:

        @functools.wraps(function)
        def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
            nonlocal seen
            serial = marks.last
            try:
                result = function(*args, **kwargs)
            except Exception as error:  # the policy decides
                state = CallState(policy, name, serial, None)
                delay = state.failed(error)
                if delay is None:
                    raise
            else:
                if type(result) is not seen:
                    seen = never_awaitable(name, result)
                return result
            result = again(function, args, kwargs, state, delay)
            if type(result) is not seen:
                seen = never_awaitable(name, result)
            return result

        return wrapper
    return _timed_sync(function, policy, name)


def _timed_sync(function: "Function", policy: "RetryPolicy", name: str) -> "Function":
    """The function with its retries, the time of its first attempt taken."""
    marks, seen = report_counter, type(None)

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal seen
        serial, started = marks.last, clock.monotonic()
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # the policy decides
            state = CallState(policy, name, serial, started)
            delay = state.failed(error)
            if delay is None:
                raise
        else:
            if type(result) is not seen:
                seen = never_awaitable(name, result)
            return result
        result = again(function, args, kwargs, state, delay)
        if type(result) is not seen:
            seen = never_awaitable(name, result)
        return result

    return wrapper


def wrapped_async(function: "Function", policy: "RetryPolicy", fallback: "Function | None" = None) -> "Function":
    """Return the coroutine function with its retries."""
    if policy.resource is not None or fallback is not None:
        from outlast.run.guarded import guarded_async  # noqa: PLC0415  # only they need it, and it needs this module

        return guarded_async(function, policy, fallback)
    name, marks = name_of(function), report_counter
    if policy.deadline is not None or policy.attempt_timeout is not None:
        from outlast.run.watched import watched  # noqa: PLC0415  # brings asyncio along, which only async functions need

        return watched(function, policy, name)

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        serial = marks.last
        try:
            return await function(*args, **kwargs)
        except Exception as error:  # the policy decides
            state = CallState(policy, name, serial, None)
            delay = state.failed(error)
            if delay is None:
                raise
        return await again_async(function, args, kwargs, state, delay)

    return wrapper
