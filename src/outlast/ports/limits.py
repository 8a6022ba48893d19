"""What is asked of a store that keeps limits: who may start, and when a retry may come."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from outlast.decide.limits import Candidate, Limit

__all__ = ["Ask", "LimitRow", "Limits"]


class Ask(NamedTuple):
    """Claimed tasks of one resource that are about to start.

    Attributes:
        limit: What the resource takes; the worker brings the settings.
        candidates: The tasks, in the order in which they go.
        mean: Seconds that a task of the resource needs, as this worker has seen it; None if it has seen none end.
    """

    limit: Limit
    candidates: tuple[Candidate, ...]
    mean: float | None = None


class LimitRow(NamedTuple):
    """A limit as people see it, with the settings of the worker that asked last.

    Attributes:
        resource: What is limited.
        rate: Starts per second.
        burst: Starts that may come at once.
        concurrency: Tasks that run at once.
        retries: Retries per second.
        retry_burst: Retries that may come at once.
        running: Tasks that run now; None where their number is not limited.
        next_start: When the rate lets the next one start; None for now.
        waiting_until: When the last of those comes back that were refused; None if that is over.
        retries_until: When the last retry has its place; None if that is over.
        mean: Seconds that a task needs, as workers have seen it.
        asked_at: When a worker last asked.
    """

    resource: str
    rate: float | None
    burst: int
    concurrency: int | None
    retries: float | None
    retry_burst: int
    running: int | None
    next_start: datetime | None
    waiting_until: datetime | None
    retries_until: datetime | None
    mean: float
    asked_at: datetime


class Limits(Protocol):
    """Limits of resources, kept across all workers of the store."""

    def admit(self, asks: Sequence[Ask]) -> dict[int, float]:
        """Let claimed tasks start as far as their resources allow; in one transaction that locks what is known of them.

        A task counts as running until it is settled, given back or taken from a dead worker; nobody has to say so.

        Returns:
            By task, the seconds after which those that must not start now should come back. The others may start.
        """

    def reserve_retries(self, limit: Limit, count: int) -> list[float]:
        """Give so many retries a place each; return the seconds for which each is to wait, the shortest first."""

    def limits(self) -> list[LimitRow]:
        """Return the limits that were asked for within a day, by resource."""
