"""What becomes of one target of a batch job that failed, and of the job."""

from outlast.decide.decision import Abort, Defer, Fail
from outlast.failure import Category, Failure

__all__ = ["ABORTS", "decide_target"]

ABORTS = frozenset(
    {
        Category.ACCESS_DENIED,
        Category.AUTHENTICATION,
        Category.QUOTA_EXHAUSTED,
        Category.CONFIGURATION,
        Category.INTEGRITY,
    }
)
"""What every other target would meet with too, or what shows that something is wrong with the program."""
_OUT_OF_TRIES = frozenset({"exhausted", "deadline", "budget", "breaker"})


def decide_target(
    failure: Failure, *, reason: str, retry_in: float | None, aborts: bool = False
) -> Defer | Fail | Abort:
    """Decide on a target that gets no other attempt.

    Args:
        failure: The last one.
        reason: Why there is no other attempt, as in `Report`.
        retry_in: Seconds after which the other side may be asked again, where it said so.
        aborts: Whether its handler asks for the end of the job.
    """
    if aborts:
        return Abort(failure.message or failure.exception_name)
    if failure.category is Category.QUOTA_EXHAUSTED and retry_in is not None:
        return Defer(retry_in)
    if failure.category in ABORTS:
        return Abort(f"{failure.category}: {failure.exception_name}: {failure.message}"[:500])
    if reason == "deferred" and retry_in is not None:
        return Defer(retry_in)
    return Fail("exhausted" if reason in _OUT_OF_TRIES else "permanent")
