"""The protocols for programs that run tasks without an Outlast worker and report attempts by their number."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from outlast.ports.rows import Settlement, Status


class AttemptState(NamedTuple):
    """The state of a task before a failed attempt is recorded.

    Attributes:
        task_type: Name of the task.
        status: Its status.
        retry_count: Failed attempts so far. The current attempt is the next one.
        epoch: Epoch of the latest claim.
        expires_in: Seconds after which the task must not start any more; None for never.
        deferred_for: Seconds since it was first deferred without using an attempt; 0 if it was not.
        canary: Whether it is the canary of a replay, which gets a single attempt.
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
    """Reports of failed attempts. The number of the attempt guards against stale reports."""

    def attempt_state(self, task_id: int) -> AttemptState | None:
        """Return the state of a task; None if it does not exist."""

    def settle_attempt(
        self,
        settlement: Settlement,
        attempt: int,
        *,
        epoch: int | None = None,
        reporter: str | None = None,
        unbegun: bool = False,
    ) -> bool:
        """Record the outcome of a failed attempt: status, history and dead letter, all or nothing.

        Args:
            settlement: A retry, a deferral or a failure. Its epoch is ignored.
            attempt: Number of the attempt, from 1. The task must be queued or running, with one failed attempt fewer.
            epoch: Epoch of the claim, if there is one. It must be the latest.
            reporter: Name for the history if no worker had claimed the task.
            unbegun: Whether to leave the task unchanged if the attempt is already running.

        Returns:
            Whether the task was changed.
        """


@runtime_checkable
class EngineTasks(AttemptReports, Protocol):
    """Tasks that another engine runs. The row waits here; a message of the engine triggers each attempt."""

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt whose message has arrived. The first message gets the attempt.

        Args:
            task_id: The task.
            attempt: Number of the attempt, from 1. The task must have one failed attempt fewer.
            worker_id: The worker that runs it. Its lease prevents a second message.

        Returns:
            The epoch to settle with; None if the attempt is not the current one or is already running.

        Raises:
            LeaseLostError: If the store does not know the worker. Nothing is changed.
        """

    def release_to_engine(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Release claimed tasks to the engine. They wait for their messages and become due again after `seconds`.

        No attempt is counted. A start that was marked is undone.

        Args:
            tasks: Pairs of task id and epoch of the claim.
            seconds: Seconds after which a message that has not arrived counts as lost.

        Returns:
            The number of tasks that still had the given epoch.
        """

    def running(self, worker_id: str) -> list[tuple[int, int]]:
        """Return the tasks that a worker holds, as pairs of id and epoch."""

    def find_by_key(self, task_type: str, unique_key: str) -> int | None:
        """Return the id of the latest task with a key, finished or not. The key must start with ``celery:``."""


DEFAULT_REPORTER = "ErrorHandler"
"""Worker name in a task's history if the task was reported without a claim."""
