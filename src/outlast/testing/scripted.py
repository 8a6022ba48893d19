"""Functions that fail as told."""

from outlast.run.retry import is_coroutine_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["failing"]


def failing(
    function: "Callable[P, R]", errors: "Iterable[BaseException | type[BaseException] | None]"
) -> "Callable[P, R]":
    """Return the function with failures put before it: each call raises the next of the errors, None lets it through.

    Args:
        function: What is called once the errors are used up.
        errors: What to raise, in order.
    """
    waiting = iter(errors)
    if is_coroutine_function(function):

        async def call_async(*args: "Any", **kwargs: "Any") -> "Any":
            error = next(waiting, None)
            if error is not None:
                raise error
            return await function(*args, **kwargs)  # type: ignore[misc]  # a coroutine function

        return call_async  # type: ignore[return-value]  # a coroutine function for a coroutine function

    def call(*args: "Any", **kwargs: "Any") -> "Any":
        error = next(waiting, None)
        if error is not None:
            raise error
        return function(*args, **kwargs)

    return call
