"""The task that the calling code is part of."""

from outlast.ports.rows import Claimed
from outlast.run.current import CURRENT

__all__ = ["CURRENT", "current_task"]


def current_task() -> Claimed | None:
    """Return the task that a worker runs at this moment in this thread or coroutine, or None outside of one.

    Its ``id`` is the same for every attempt, which makes it a good idempotency key.
    """
    task: Claimed | None = CURRENT.get()
    return task
