"""What a message says of itself, and of who retries it."""

from typing import Any, NamedTuple

from outlast.engines.celery.envelope import HEADER

__all__ = ["Held", "header_of", "held_by", "retries_itself"]


class Held(NamedTuple):
    """An attempt of a task that has a row.

    Attributes:
        task_id: The row.
        attempt: Number of the attempt, from 1.
        epoch: Of its start; None where only the number fences.
        unbegun: Whether it is not for us to say anything where somebody runs it already.
    """

    task_id: int
    attempt: int
    epoch: int | None
    unbegun: bool = False


def header_of(request: Any) -> dict[str, Any] | None:
    """Return what a message that we sent says of itself: task, attempt, and Celery's count of retries as we set it."""
    found = (request.headers or {}).get(HEADER)
    return found if isinstance(found, dict) else None


def held_by(request: Any) -> Held | None:
    """Return the attempt for which a message was sent; None for a message of the program's own."""
    header = header_of(request)
    return Held(int(header["task"]), int(header["attempt"]), None) if header and "task" in header else None


def retries_itself(task: Any, request: Any) -> bool:
    """Tell whether a task retries by Celery's own means: by `autoretry_for`, or because it called `retry`."""
    if hasattr(task, "_orig_run"):  # what Celery leaves behind where it has wrapped the function
        return True
    return int(request.retries or 0) > int((header_of(request) or {}).get("retries", 0))
