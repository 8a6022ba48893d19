"""The two attempt loops, sync and async, as wrappers around a function.

A call that succeeds at once pays for a `try` and one look at a number. Everything else happens in `Attempting`, after
something has failed. Policies with a resource, and async ones with a time limit, have wrappers of their own.
"""

import functools
import sys
import time
from types import CoroutineType

from holdfast import backends, clock
from holdfast.errors import ConfigError
from holdfast.run.attempting import Attempting
from holdfast.run.report import MARKS
from holdfast.run.resources import Resource, resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, Literal

    from holdfast.decide.policy import RetryPolicy
    from holdfast.run.watch import Watch

    Function = Callable[..., Any]

__all__ = ["attempting_frame", "name_of", "wrapped_async", "wrapped_sync"]


def name_of(function: object) -> str:
    """Return what a function is called in logs and events."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def is_coroutine(name: str, result: "Any") -> "Literal[False]":
    """Look once at what a function returns that is not marked as a coroutine function.

    Raises:
        ConfigError: If it is a coroutine, whose errors the loop would never see.
    """
    if type(result) is not CoroutineType:
        return False
    result.close()
    message = f"{name} returned a coroutine, whose errors nobody here would see; decorate the coroutine function itself"
    raise ConfigError(message)


def wrapped_sync(function: "Function", policy: "RetryPolicy", fallback: "Function | None" = None) -> "Function":
    """Return the function with its retries."""
    name, marks, unsure = name_of(function), MARKS, True
    if policy.resource is not None or fallback is not None:
        return _guarded_sync(function, policy, fallback)
    if policy.deadline is None and policy.attempt_timeout is None:

        @functools.wraps(function)
        def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
            nonlocal unsure
            serial = marks.last
            try:
                result = function(*args, **kwargs)
            except Exception as error:  # the policy decides
                state = Attempting(policy, name, serial, None)
                delay = state.failed(error)
                if delay is None:
                    raise
            else:
                if unsure:
                    unsure = is_coroutine(name, result)
                return result
            return _again(function, args, kwargs, state, delay)

        return wrapper
    return _timed_sync(function, policy, name)


def _timed_sync(function: "Function", policy: "RetryPolicy", name: str) -> "Function":
    """The function with its retries, the time of its first attempt taken."""
    marks, unsure = MARKS, True

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal unsure
        serial, started = marks.last, clock.monotonic()
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # the policy decides
            state = Attempting(policy, name, serial, started)
            delay = state.failed(error)
            if delay is None:
                raise
        else:
            if unsure:
                unsure = is_coroutine(name, result)
            return result
        return _again(function, args, kwargs, state, delay)

    return wrapper


def _again(
    function: "Function", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", state: Attempting, delay: float
) -> "Any":
    """Make the second and further attempts."""
    while True:
        if delay > 0:
            try:
                clock.sleep(delay)
            except BaseException:
                state.last = None
                raise
        if state.started is not None and not state.begin():
            raise state.overslept()
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # the policy decides
            following = state.failed(error)
            if following is None:
                raise
            delay = following
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
        except Exception as error:  # the policy decides
            state = Attempting(policy, name, serial, None)
            delay = state.failed(error)
            if delay is None:
                raise
        return await _again_async(function, args, kwargs, state, delay)

    return wrapper


def _watched(function: "Function", policy: "RetryPolicy", name: str) -> "Function":  # a call would cost more
    """The coroutine function with its retries, its first attempt ended at the time limit."""
    from holdfast.run.watch import CancelledError, current_task, get_ident, new_watch  # noqa: PLC0415  # brings asyncio along, which only async functions need

    limit = min(each for each in (policy.deadline, policy.attempt_timeout) if each is not None)
    marks, real_clock = MARKS, time.monotonic
    known: Watch | None = None

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal known
        serial, started = marks.last, clock.monotonic()
        try:
            watch = known  # read once: another thread's event loop may put its own in its place
            task = current_task(watch.loop) if watch is not None and watch.thread == get_ident() else None
            if task is None:  # the first call on this event loop
                watch = known = new_watch(limit)
                task = current_task(watch.loop) if watch is not None else None
            if (
                watch is None
                or task is None
                or task in watch.calls
                or task.cancelling()
                or clock.monotonic is not real_clock
            ):  # trio, which has timeouts of its own; a call within a call or in a cancelled task; a test's clock
                return await backends.run_within(limit, function(*args, **kwargs))
            calls = watch.calls
            calls[task] = started
            if not watch.armed:
                watch.arm(started)
            try:
                return await function(*args, **kwargs)
            except CancelledError:
                if not watch.ended(task):
                    raise
                message = f"cancelled after {limit:g} s"
                raise TimeoutError(message) from None
            finally:
                del calls[task]
                if watch.cancelled:
                    watch.settle(task)
        except Exception as error:  # the policy decides
            state = Attempting(policy, name, serial, started)
            delay = state.failed(error)
            if delay is None:
                raise
        return await _again_async(function, args, kwargs, state, delay)

    return wrapper


async def _again_async(
    function: "Function", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", state: Attempting, delay: float
) -> "Any":
    """Make the second and further attempts."""
    while True:
        if delay > 0:
            try:
                await clock.sleep_async(delay)
            except BaseException:
                state.last = None
                raise
        if state.started is not None and not state.begin():
            raise state.overslept()
        try:
            if state.resource is not None:
                result = await _entered(function, args, kwargs, state, state.resource)
            elif state.started is None:
                result = await function(*args, **kwargs)
            else:
                result = await limited(function(*args, **kwargs), state)
        except Exception as error:  # the policy decides
            following = state.failed(error)
            if following is None:
                raise
            delay = following
        else:
            state.succeeded()
            return result


async def limited(awaitable: "Any", state: Attempting) -> "Any":
    """Await an attempt within its own timeout and what is left until the deadline, whichever is shorter."""
    left = state.attempt_left()
    return await (awaitable if left is None else backends.run_within(left, awaitable))


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
    name, marks, unsure = name_of(function), MARKS, True
    timed = policy.deadline is not None or policy.attempt_timeout is not None
    entering = _entering_sync(function, guard)
    breaker: Any = guard.breaker
    plain = breaker is not None and breaker.settings.plain and guard.max_concurrency is None

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        nonlocal unsure
        serial, started = marks.last, clock.monotonic() if timed else None
        try:
            permit = breaker.passing if plain else 0
            if not permit:
                result = entering(*args, **kwargs)
            else:
                try:  # a closed breaker that counts failures in a row is only looked at
                    result = function(*args, **kwargs)
                except Exception as error:
                    guard.failed(error, permit)
                    raise
                if breaker.failures:
                    breaker.failures = 0
        except Exception as error:  # the policy decides
            state = Attempting(policy, name, serial, started, guard)
            delay = state.failed(error)
            if delay is None:
                raise
        else:
            if unsure:
                unsure = is_coroutine(name, result)
            return result
        return _again(entering, args, kwargs, state, delay)

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


def _guarded_async(function: "Function", policy: "RetryPolicy", fallback: "Function | None") -> "Function":
    """The coroutine function behind its resource's breaker, budget and limit, and before its fallback."""
    if policy.resource is None:
        retried = wrapped_async(function, policy)
    else:
        retried = _with_resource_async(function, policy, resource(policy.resource))
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


def _with_resource_async(function: "Function", policy: "RetryPolicy", guard: Resource) -> "Function":
    name, marks = name_of(function), MARKS
    timed = policy.deadline is not None or policy.attempt_timeout is not None
    breaker: Any = guard.breaker
    plain = breaker is not None and breaker.settings.plain and guard.max_concurrency is None and not timed

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        serial, started = marks.last, clock.monotonic() if timed else None
        state = None
        try:
            permit = breaker.passing if plain else 0
            if permit:  # a closed breaker that counts failures in a row is only looked at
                try:
                    result = await function(*args, **kwargs)
                except Exception as error:
                    guard.failed(error, permit)
                    raise
                if breaker.failures:
                    breaker.failures = 0
                return result
            state = Attempting(policy, name, serial, started, guard)
            return await _entered(function, args, kwargs, state, guard)
        except Exception as error:  # the policy decides
            state = state or Attempting(policy, name, serial, started, guard)
            delay = state.failed(error)
            if delay is None:
                raise
        return await _again_async(function, args, kwargs, state, delay)

    return wrapper


async def _entered(
    function: "Function", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", state: Attempting, guard: Resource
) -> "Any":
    """Make an attempt behind its resource; one that ends for want of time is its failure, a cancelled one is not."""
    permit = guard.enter()
    started = clock.monotonic()
    try:
        result = await limited(function(*args, **kwargs), state)
    except Exception as error:
        guard.failed(error, permit)
        raise
    except BaseException:
        guard.withdrawn(permit)
        raise
    guard.succeeded(permit, clock.monotonic() - started)
    return result


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
