"""asyncio and trio, told apart without importing either."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    T = TypeVar("T")


def in_trio() -> bool:
    """Tell whether the running event loop is trio's."""
    trio: Any = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


async def sleep(seconds: float) -> None:
    """Wait without blocking the event loop."""
    if in_trio():
        import trio  # noqa: PLC0415  # loaded already

        await trio.sleep(seconds)
    else:
        import asyncio  # noqa: PLC0415  # loaded already

        await asyncio.sleep(seconds)


async def run_in_thread(function: "Callable[..., T]", *args: "Any") -> "T":
    """Call a function that blocks in a thread, with the context variables of the caller.

    Who is cancelled does not wait for it: it goes on by itself.
    """
    if in_trio():
        import trio  # noqa: PLC0415  # loaded already

        result: T = await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)
        return result
    import asyncio  # noqa: PLC0415  # loaded already

    return await asyncio.to_thread(function, *args)


class TimeLimit:
    """Cancels the running task when its time is over: made when a block begins, and told with `left` that it ended.

    Args:
        seconds: How long the block may take.

    Attributes:
        rest: What else came out of a trio nursery when it was cancelled, if anything did.
    """

    def __init__(self, seconds: float) -> None:
        """Begin."""
        self.seconds = seconds
        self.rest: Exception | None = None
        self._scope: Any = None
        if in_trio():
            import trio  # noqa: PLC0415  # loaded already

            self._scope = trio.move_on_after(seconds)
            self._scope.__enter__()
            return
        import asyncio  # noqa: PLC0415  # loaded already

        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        self._over = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    def _end(self) -> None:
        if self._task is not None:
            self._over = True
            self._task.cancel()

    def left(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        """Take the end of the block in; tell whether it ended by our cancellation alone."""
        if self._scope is not None:
            try:
                self._scope.__exit__(kind, error, traceback)
            except Exception as rest:  # what is left of a group without its cancellations is raised
                if not self._scope.cancelled_caught:
                    raise
                self.rest = rest
            return bool(self._scope.cancelled_caught)
        self._timer.cancel()
        if not self._over or self._task is None:
            return False
        import asyncio  # noqa: PLC0415  # loaded already

        return self._task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)


async def run_with_timeout(seconds: float, awaitable: "Awaitable[T]") -> "T":
    """Await something for so long at most, then cancel it.

    Raises:
        TimeoutError: If the time was over; the inner work was cancelled.
    """
    if in_trio():
        import trio  # noqa: PLC0415  # loaded already

        scope, rest = trio.move_on_after(seconds), None
        try:
            with scope:
                return await awaitable
        except Exception as error:
            if not scope.cancelled_caught:
                raise
            rest = error  # what else came out of a nursery when it was cancelled
        message = f"cancelled after {seconds:g} s"
        try:
            raise TimeoutError(message) from rest
        finally:
            del rest  # an error whose traceback holds this frame would refer to itself
    import asyncio  # noqa: PLC0415  # loaded already

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if not limit.expired():
            raise
    message = f"cancelled after {seconds:g} s"
    raise TimeoutError(message)
