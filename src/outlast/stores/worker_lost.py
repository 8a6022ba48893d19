"""What is noted of an attempt whose worker died: nobody was there to say more."""

from functools import cache

from outlast.failure import Category, Failure, Origin
from outlast.ports.rows import Note

__all__ = ["worker_lost"]


@cache
def worker_lost() -> Note:
    """Return the note; all of them are of one cause. Which worker it was, the attempt says."""
    failure = Failure(
        category=Category.UNKNOWN,
        retryable=True,
        origin=Origin.PROCESS,
        exception_name="WorkerLost",
        message="worker lost: its process died, or its lease ran out, while the task was running",
        rule="worker lost",
    )
    return Note(failure.exception_name, failure.message, str(failure.category), failure.fingerprint, failure.to_json())
