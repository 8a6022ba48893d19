"""asyncio and trio, told apart without importing either."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any, TypeVar

    T = TypeVar("T")

__all__ = ["in_trio", "run_within", "sleep"]


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


async def run_within(seconds: float, awaitable: "Awaitable[T]") -> "T":
    """Await something for so long at most, then cancel it.

    Raises:
        TimeoutError: If the time was over; the inner work was cancelled.
    """
    if in_trio():
        import trio  # noqa: PLC0415  # loaded already

        with trio.move_on_after(seconds):
            return await awaitable
        message = f"cancelled after {seconds:g} s"
        raise TimeoutError(message)
    import asyncio  # noqa: PLC0415  # loaded already

    async with asyncio.timeout(seconds):
        return await awaitable
