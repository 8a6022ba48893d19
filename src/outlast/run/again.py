"""The second and further attempts, sync and async."""

from types import CoroutineType

from outlast import async_backends, clock
from outlast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from outlast.run.call_state import CallState

    Function = Callable[..., Any]


def never_awaitable(name: str, result: "Any") -> type:
    """Look at what a function returns that is not marked as a coroutine function.

    Returns:
        Its type; another result of that type need not be looked at.

    Raises:
        ConfigError: If it is to be awaited: a coroutine, a future. The loop would never see its errors.
    """
    kind = type(result)
    if not hasattr(kind, "__await__"):
        return kind
    if kind is CoroutineType:
        result.close()  # thrown away, it would warn that nobody awaited it
    message = (
        f"{name} returned a {kind.__name__}, whose errors would not be seen; decorate the coroutine function itself"
    )
    raise ConfigError(message)


def again(
    function: "Function", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", state: "CallState", delay: float
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


async def again_async(
    attempt: "Function", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", state: "CallState", delay: float
) -> "Any":
    """Make the second and further attempts, each by calling a coroutine function that keeps to its time."""
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
            result = await attempt(*args, **kwargs)
        except Exception as error:  # the policy decides
            following = state.failed(error)
            if following is None:
                raise
            delay = following
        else:
            state.succeeded()
            return result


def limited(function: "Function", state: "CallState") -> "Function":
    """Return a coroutine function that has its own timeout or what is left until the deadline, whichever is shorter."""

    async def attempt(*args: "Any", **kwargs: "Any") -> "Any":
        left = state.attempt_left()
        awaitable = function(*args, **kwargs)
        return await (awaitable if left is None else async_backends.run_with_timeout(left, awaitable))

    return attempt
