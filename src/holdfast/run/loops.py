"""The two attempt loops, sync and async, as wrappers around a function.

A call that succeeds at once pays for a `try` and one look at a number. Everything else happens in `Attempting`, after
something has failed. Policies with a resource, and async ones with a time limit, have wrappers of their own.
"""

import functools
import sys

from holdfast import backends, clock
from holdfast.run.attempting import Attempting
from holdfast.run.report import MARKS
from holdfast.run.resources import Resource, resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from holdfast.decide.policy import RetryPolicy
    from holdfast.run.watch import Watch

    Function = Callable[..., Any]

__all__ = ["attempting_frame", "name_of", "wrapped_async", "wrapped_sync"]


def name_of(function: object) -> str:
    """Return what a function is called in logs and events."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def wrapped_sync(function: "Function", policy: "RetryPolicy", fallback: "Function | None" = None) -> "Function":
    """Return the function with its retries."""
    name, marks = name_of(function), MARKS
    if policy.resource is not None or fallback is not None:
        return _guarded_sync(function, policy, fallback)
    if policy.deadline is None:

        @functools.wraps(function)
        def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
            serial = marks.last
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
                state = Attempting(policy, name, serial, None)
                delay = state.failed(error)
            return _again(function, args, kwargs, state, delay)

    else:

        @functools.wraps(function)
        def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
            serial, started = marks.last, clock.monotonic()
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
                state = Attempting(policy, name, serial, started)
                delay = state.failed(error)
            return _again(function, args, kwargs, state, delay)

    return wrapper


def _again(
    function: "Function", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", state: Attempting, delay: float
) -> "Any":
    """Make the second and further attempts."""
    while True:
        if delay > 0:
            clock.sleep(delay)
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
            delay = state.failed(error)
        else:
            state.succeeded()
            return result


def wrapped_async(function: "Function", policy: "RetryPolicy", fallback: "Function | None" = None) -> "Function":
    """Return the coroutine function with its retries."""
    name, marks = name_of(function), MARKS
    if policy.resource is not None or fallback is not None:
        return _guarded_async(function, policy, fallback)
    if policy.deadline is not None or policy.attempt_timeout is not None:
        return _watched(function, policy, name)

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        serial = marks.last
        try:
            return await function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
            state = Attempting(policy, name, serial, None)
            delay = state.failed(error)
        return await _again_async(function, args, kwargs, state, delay)

    return wrapper


def _watched(function: "Function", policy: "RetryPolicy", name: str) -> "Function":
    """The coroutine function with its retries, its first attempt ended at the time limit."""
    from holdfast.run.watch import CancelledError, current_task, ended, get_running_loop, new_watch  # noqa: PLC0415  # brings asyncio along, which only async functions need

    limit = min(each for each in (policy.deadline, policy.attempt_timeout) if each is not None)
    marks, real_clock = MARKS, clock.monotonic
    watch: Watch | None = None

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal watch
        serial, started = marks.last, clock.monotonic()
        try:
            if watch is None or watch.loop is not get_running_loop():
                watch = new_watch(limit)
                if watch is None:  # trio, which has timeouts of its own
                    return await backends.run_within(limit, function(*args, **kwargs))
            due = started + watch.offset if clock.monotonic is real_clock else watch.loop.time() + limit
            entry = [current_task(watch.loop), due, -1]
            calls = watch.calls
            key = id(entry)
            calls[key] = entry
            if not watch.armed:
                watch.arm(due)
            try:
                return await function(*args, **kwargs)
            except CancelledError:
                if not ended(entry):
                    raise
                message = f"cancelled after {limit:g} s"
                raise TimeoutError(message) from None
            finally:
                del calls[key]
        except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
            state = Attempting(policy, name, serial, started)
            delay = state.failed(error)
        return await _again_async(function, args, kwargs, state, delay)

    return wrapper


async def _again_async(
    function: "Function", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", state: Attempting, delay: float
) -> "Any":
    """Make the second and further attempts."""
    while True:
        if delay > 0:
            await clock.sleep_async(delay)
        try:
            result = await limited(function(*args, **kwargs), state)
        except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
            delay = state.failed(error)
        else:
            state.succeeded()
            return result


async def limited(awaitable: "Any", state: Attempting) -> "Any":
    """Await an attempt within its own timeout and what is left until the deadline, whichever is shorter."""
    limits = [each for each in (state.time_left(), state.policy.attempt_timeout) if each is not None]
    return await (backends.run_within(min(limits), awaitable) if limits else awaitable)


def _guarded_sync(function: "Function", policy: "RetryPolicy", fallback: "Function | None") -> "Function":
    """The function behind its resource's breaker, budget and limit, and before its fallback."""
    if policy.resource is None:
        retried = wrapped_sync(function, policy)
    else:
        retried = _with_resource(function, policy, resource(policy.resource))
    if fallback is None:
        return retried

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return retried(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # a fallback is for all of them
            return fallback(error)

    return wrapper


def _with_resource(function: "Function", policy: "RetryPolicy", guard: Resource) -> "Function":
    name, marks = name_of(function), MARKS
    timed, entering = policy.deadline is not None, _entering_sync(function, guard)
    breaker: Any = guard.breaker
    plain = breaker is not None and breaker.settings.plain and guard.max_concurrency is None

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        serial, started = marks.last, clock.monotonic() if timed else None
        try:
            if not plain or breaker.state != "closed":
                return entering(*args, **kwargs)
            try:  # a closed breaker that counts failures in a row is only looked at
                result = function(*args, **kwargs)
            except Exception:
                guard.failed()
                raise
            if breaker.failures:
                breaker.failures = 0
            return result  # noqa: TRY300  # an else here would hide which try it belongs to
        except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
            state = Attempting(policy, name, serial, started, guard)
            delay = state.failed(error)
        return _again(entering, args, kwargs, state, delay)

    return wrapper


def _entering_sync(function: "Function", guard: Resource) -> "Function":
    slow = guard.breaker is not None and guard.breaker.settings.slow_call is not None

    def entering(*args: "Any", **kwargs: "Any") -> "Any":
        guard.enter()
        started = clock.monotonic() if slow else 0.0
        try:
            result = function(*args, **kwargs)
        except Exception:
            guard.failed()
            raise
        except BaseException:
            guard.withdrawn()
            raise
        guard.succeeded(clock.monotonic() - started if slow else 0.0)
        return result

    return entering


def _guarded_async(function: "Function", policy: "RetryPolicy", fallback: "Function | None") -> "Function":
    """The coroutine function behind its resource's breaker, budget and limit, and before its fallback."""
    name, marks = name_of(function), MARKS
    guard = resource(policy.resource) if policy.resource is not None else None
    inner = function if guard is None else _entering_async(function, guard)
    timed = policy.deadline is not None

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        serial, started = marks.last, clock.monotonic() if timed else None
        state = Attempting(policy, name, serial, started, guard)
        try:
            try:
                return await limited(inner(*args, **kwargs), state)
            except Exception as error:  # noqa: BLE001  # the policy decides, and raises it again
                delay = state.failed(error)
            return await _again_async(inner, args, kwargs, state, delay)
        except Exception as error:
            if fallback is None:
                raise
            result = fallback(error)
            return await result if hasattr(result, "__await__") else result

    return wrapper


def _entering_async(function: "Function", guard: Resource) -> "Function":
    slow = guard.breaker is not None and guard.breaker.settings.slow_call is not None

    async def entering(*args: "Any", **kwargs: "Any") -> "Any":
        guard.enter()
        started = clock.monotonic() if slow else 0.0
        try:
            result = await function(*args, **kwargs)
        except Exception:
            guard.failed()
            raise
        except BaseException:
            guard.withdrawn()
            raise
        guard.succeeded(clock.monotonic() - started if slow else 0.0)
        return result

    return entering


_MOST_FRAMES = 1000


def attempting_frame() -> "FrameType | None":
    """Return the nearest frame of an attempt loop above the caller, or None.

    Reading the stack costs only who asks for it; the loops themselves keep no record of a first attempt.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the stack is what we look at
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_filename == __file__ and ("marks" in frame.f_locals or "state" in frame.f_locals):
            return frame
        frame = frame.f_back
    return None
