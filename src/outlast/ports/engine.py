"""What is asked of a store by those who run tasks without a worker of ours, and report of attempts by their number."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from outlast.ports.rows import Settlement, Status


class AttemptState(NamedTuple):
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
class AttemptReports(Protocol):
    """Failed attempts, fenced by their number."""

    def standing(self, task_id: int) -> AttemptState | None:
        """Return how a task stands."""

    def settle_attempt(
        self,
        settlement: Settlement,
        attempt: int,
        *,
        epoch: int | None = None,
        reporter: str | None = None,
        unbegun: bool = False,
    ) -> bool:
        """Write what becomes of a task whose current attempt failed: status, history and dead letter, all or nothing.

        Args:
            settlement: A retry, a deferral or an end; its own epoch is not looked at.
            attempt: Number of the attempt, from 1. The task must be waiting or running, with one failed attempt fewer.
            epoch: Of the claim, where there is one; then it must be the latest one.
            reporter: Who is named in the history where no worker had claimed the task.
            unbegun: Whether the task is left as it is where somebody runs the attempt already.

        Returns:
            Whether the task was changed.
        """


@runtime_checkable
class EngineTasks(AttemptReports, Protocol):
    """Tasks that another engine runs: the row waits here, a message of the engine's calls for each attempt."""

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt for which a message has come; the first message has it.

        Args:
            task_id: The task.
            attempt: Number of the attempt, from 1: there has to be one failed attempt fewer.
            worker_id: Who runs it; its lease keeps the task from being sent again.

        Returns:
            The epoch that settles it; None where the attempt is not the current one, or runs already.

        Raises:
            LeaseLostError: If the store does not know the worker (any more); nothing was done.
        """

    def release_to_engine(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Give tasks out of a claim to the engine: they wait for their messages, and are due again after so long.

        Nothing is counted. A start that was marked is taken back.

        Args:
            tasks: Each with the epoch of its claim.
            seconds: After which a message that has not come is taken for lost.

        Returns:
            How many were still ours.
        """

    def running(self, worker_id: str) -> list[tuple[int, int]]:
        """Return what a worker has in its hands, each with the epoch of its claim or start."""

    def find_by_key(self, task_type: str, unique_key: str) -> int | None:
        """Return the latest task that has or had a key, one that is over included; the key begins with ``celery:``."""


# Who is named in a task's history where no worker had claimed it.

DEFAULT_REPORTER = "ErrorHandler"
"""Stands for the loop that ran a task without a claim and reported how it ended."""
