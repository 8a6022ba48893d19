"""The task that the calling code is part of, for whoever stands below the queue."""

from contextvars import ContextVar
from typing import Any

__all__ = ["CURRENT"]

CURRENT: "ContextVar[Any]" = ContextVar("outlast.task", default=None)
"""The claimed task that a worker runs in this thread or coroutine; None outside of one."""
