"""Sleep, threads and timeouts under asyncio or trio. Neither is imported unless it is in use."""

import sys

from outlast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    T = TypeVar("T")


def in_trio() -> bool:
    """Return whether the running event loop is trio's."""
    trio: Any = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def in_event_loop() -> bool:
    """Return whether an event loop of asyncio or trio runs in this thread."""
    if in_trio():
        return True
    asyncio: Any = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def check_no_event_loop(instead: str) -> None:
    """Refuse to start an event loop inside another one.

    Args:
        instead: What to write in async code.

    Raises:
        ConfigError: If an event loop is running in this thread.
    """
    if in_event_loop():
        raise ConfigError(f"an event loop is already running; use: await {instead}")


async def sleep(seconds: float) -> None:
    """Wait without blocking the event loop."""
    if in_trio():
        import trio  # noqa: PLC0415  # loaded already

        await trio.sleep(seconds)
    else:
        import asyncio  # noqa: PLC0415  # loaded already

        await asyncio.sleep(seconds)


async def run_in_thread(function: "Callable[..., T]", *args: "Any") -> "T":
    """Run a blocking function in a thread, with the context variables of the caller.

    A cancelled caller does not wait: the function keeps running in its thread.
    """
    if in_trio():
        import trio  # noqa: PLC0415  # loaded already

        result: T = await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)
        return result
    import asyncio  # noqa: PLC0415  # loaded already

    return await asyncio.to_thread(function, *args)


class TimeLimit:
    """Cancels the current task when a block takes too long. Create it when the block starts, call `exit` when it ends.

    Args:
        seconds: Time limit of the block.

    Attributes:
        nursery_error: Another error that a trio nursery raised when it was cancelled.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.nursery_error: Exception | None = None
        self._scope: Any = None
        if in_trio():
            import trio  # noqa: PLC0415  # loaded already

            self._scope = trio.move_on_after(seconds)
            self._scope.__enter__()
            return
        import asyncio  # noqa: PLC0415  # loaded already

        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        self._expired = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self._task is not None:
            self._expired = True
            self._task.cancel()

    def exit(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        """End the time limit; return whether the block ended only because the limit cancelled it."""
        if self._scope is not None:
            try:
                self._scope.__exit__(kind, error, traceback)
            except Exception as nursery_error:  # trio raises what remains of a group without its cancellations
                if not self._scope.cancelled_caught:
                    raise
                self.nursery_error = nursery_error
            return bool(self._scope.cancelled_caught)
        self._timer.cancel()
        if not self._expired or self._task is None:
            return False
        import asyncio  # noqa: PLC0415  # loaded already

        return self._task.uncancel() <= self._cancelling and issubclass(type(error), asyncio.CancelledError)


async def run_with_timeout(
    seconds: float, awaitable: "Awaitable[T]", late: "Callable[[float], Exception] | None" = None
) -> "T":
    """Await something for at most `seconds`, then cancel it.

    Args:
        seconds: The time limit.
        awaitable: What to await.
        late: Returns the error to raise; by default a TimeoutError.

    Raises:
        TimeoutError: If the time was up; the awaitable was cancelled.
    """
    limit = TimeLimit(seconds)
    try:
        result = await awaitable
    except BaseException:
        if not limit.exit(*sys.exc_info()):  # asks the error nothing: its own code may raise
            raise
    else:
        limit.exit(None, None, None)
        return result
    nursery_error, limit.nursery_error = limit.nursery_error, None
    try:
        raise (TimeoutError(f"cancelled after {seconds:.3g} s") if late is None else late(seconds)) from nursery_error
    finally:
        del nursery_error  # an error whose traceback holds this frame would refer to itself
