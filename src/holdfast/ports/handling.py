"""What is asked of a store by those who report a failed attempt by its number, without a claim of their own."""

from typing import NamedTuple, Protocol, runtime_checkable

from holdfast.ports.rows import Settlement, Status

__all__ = ["Handling", "Standing"]


class Standing(NamedTuple):
    """How a task stands before a failed attempt of it is written down.

    Attributes:
        task_type: Name of the task.
        status: Where it stands.
        retry_count: Failed attempts so far; the current attempt is the next one.
        epoch: Of the latest claim.
        expires_in: Seconds after which it is not worth starting; None for never.
        deferred_for: Seconds since it was first put off without an attempt spent; 0 if it was not.
        canary: Whether a replay tries it before others: it gets one attempt.
    """

    task_type: str
    status: Status
    retry_count: int
    epoch: int
    expires_in: float | None
    deferred_for: float
    canary: bool = False


@runtime_checkable
class Handling(Protocol):
    """Failed attempts, fenced by their number."""

    def standing(self, task_id: int) -> Standing | None:
        """Return how a task stands."""

    def settle_attempt(self, settlement: Settlement, attempt: int, *, epoch: int | None = None) -> bool:
        """Write what becomes of a task whose current attempt failed: status, history and dead letter, all or nothing.

        Args:
            settlement: A retry, a deferral or an end; its own epoch is not looked at.
            attempt: Number of the attempt, from 1. The task must be waiting or running, with one failed attempt fewer.
            epoch: Of the claim, where there is one; then it must be the latest one.

        Returns:
            Whether the task was changed.
        """
