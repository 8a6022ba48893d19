"""The task that the calling code is part of."""

from contextvars import ContextVar

from holdfast.ports.rows import Claimed

__all__ = ["CURRENT", "current_task"]

CURRENT: ContextVar[Claimed | None] = ContextVar("holdfast.task", default=None)


def current_task() -> Claimed | None:
    """Return the task that a worker runs at this moment in this thread or coroutine, or None outside of one.

    Its ``id`` is the same for every attempt, which makes it a good idempotency key.
    """
    return CURRENT.get()
