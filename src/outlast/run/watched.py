"""The async attempt loop for policies with a time limit.

The wrapper holds only what every call needs, because each variable in it costs every call.
"""

import functools
from _thread import get_ident
from time import monotonic

from outlast import async_backends, clock
from outlast.run.again import again_async, limited
from outlast.run.call_state import CallState
from outlast.run.report import report_counter
from outlast.run.watch import NO_WATCH, RUNNING, CancelledError, Here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from outlast.decide.policy import RetryPolicy
    from outlast.run.watch import Watch

    Function = Callable[..., Any]


def _no_thread() -> int:
    return -2


_thread: "Callable[[], int]" = get_ident
"""The number of this thread; that of none while a test's clock is in use, by which no call is noted."""


def _heed_clock(systems: bool) -> None:  # noqa: FBT001  # what the clock tells
    global _thread  # noqa: PLW0603  # a variable of this module is what costs a call least
    _thread = get_ident if systems else _no_thread


clock.when_changed(_heed_clock)


class _Own:
    """What the wrappers of one function need for calls that are not simply alone and successful."""

    __slots__ = ("here", "limit", "name", "policy")

    def __init__(self, policy: "RetryPolicy", name: str) -> None:
        self.policy, self.name, self.here = policy, name, Here()
        self.limit = min(each for each in (policy.deadline, policy.attempt_timeout) if each is not None)

    def late(self) -> TimeoutError:
        """Return the error of an attempt whose time is over."""
        return TimeoutError(f"cancelled after {self.limit:g} s")

    def failing(self, started: float) -> CallState:
        """Return what decides on a first attempt that failed."""
        return CallState(self.policy, self.name, report_counter.before(started), started)


def watched(function: "Function", policy: "RetryPolicy", name: str) -> "Function":
    """Return a coroutine function with its retries, its first attempt ended at the time limit."""
    own, last = _Own(policy, name), NO_WATCH

    def seen(watch: "Watch") -> None:
        nonlocal last
        last = watch

    among_others = _among_others(function, own, seen)

    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        watch = last
        if watch.task is not None or _thread() != watch.place._thread_id:  # noqa: SLF001  # as asyncio names it
            return await among_others(*args, **kwargs)
        watch.started = monotonic()
        try:
            watch.task = RUNNING[watch.loop]
        except KeyError:  # its event loop has no task in hand
            return await among_others(*args, **kwargs)
        try:
            try:
                return await (function(*args, **kwargs) if kwargs else function(*args))
            except CancelledError:
                if not watch.is_alone_over():
                    raise
                raise own.late() from None
            finally:
                watch.task = None
        except Exception as error:  # the policy decides
            state = own.failing(watch.started)
            delay = state.failed(error)
            if delay is None:
                raise
        return await again_async(limited(function, state), args, kwargs, state, delay)

    return wrapper


def _among_others(function: "Function", own: _Own, seen: "Callable[[Watch], None]") -> "Function":
    """The same for a call beside another, and for the first of a thread or of an event loop."""
    with_a_timer = _with_a_timer(function, own.policy, own.name, own.limit)

    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        started = monotonic()
        begun = own.here.begun(own.limit, started) if clock.monotonic is monotonic else None
        if begun is None:  # trio, a call within a call, a task that is being cancelled, or a test's clock
            return await with_a_timer(*args, **kwargs)
        watch, task = begun
        try:
            try:
                seen(watch)
                return await function(*args, **kwargs)
            except CancelledError:
                if not watch.is_over(task):
                    raise
                raise own.late() from None
            finally:
                watch.leaves(task)
        except Exception as error:  # the policy decides
            state = own.failing(started)
            delay = state.failed(error)
            if delay is None:
                raise
        return await again_async(limited(function, state), args, kwargs, state, delay)

    return wrapper


def _with_a_timer(function: "Function", policy: "RetryPolicy", name: str, limit: float) -> "Function":
    """The same with a timer for each call, for where there is no watch."""
    marks = report_counter

    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        serial, started = marks.last, clock.monotonic()
        try:
            return await async_backends.run_with_timeout(limit, function(*args, **kwargs))
        except Exception as error:  # the policy decides
            state = CallState(policy, name, serial, started)
            delay = state.failed(error)
            if delay is None:
                raise
        return await again_async(limited(function, state), args, kwargs, state, delay)

    return wrapper
