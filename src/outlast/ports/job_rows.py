"""The rows and protocols of batch jobs: runs and the results of their targets. Times are aware datetimes.

Each method is one transaction unless its docstring says otherwise.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from outlast.ports.source_rows import NewAlert


class RunState(StrEnum):
    """State of a run.

    A run is ``running`` until it ends as ``done`` (all targets were processed), ``aborted`` (a failure ended it) or
    ``stopped`` (somebody did). A run whose process died is ``running``, and nobody holds its lock.
    """

    RUNNING = "running"
    DONE = "done"
    ABORTED = "aborted"
    STOPPED = "stopped"


class TargetStatus(StrEnum):
    """Result of a target in a run."""

    SUCCESS = "success"
    FAILED = "failed"
    DEFERRED = "deferred"
    SKIPPED = "skipped"


REMAINING = frozenset({TargetStatus.FAILED, TargetStatus.DEFERRED})
"""Statuses of targets that another run processes again."""


class Run(NamedTuple):
    """One run of a job.

    Attributes:
        id: Text that sorts by time, such as ``20260301T120000-3f2a``.
        job: Name of the job.
        entity: What its targets are.
        env: Environment that it ran in.
        parent: The run that this one completes, if any.
        state: State of the run.
        total: Number of targets, once it has ended.
        summary: All figures, once it has ended.
        exit_code: Exit code, once it has ended.
    """

    id: str
    job: str
    entity: str | None
    env: str
    parent: str | None
    state: RunState
    total: int
    exit_code: int | None
    summary: dict[str, Any] | None
    started_at: datetime
    ended_at: datetime | None


class TargetDone(NamedTuple):
    """The result of a target, to be written.

    Attributes:
        source_id: Id of the target within its job.
        status: The result.
        attempts: Number of calls.
        target: The target as JSON text, if another run may need it.
        error_type: Class name of the last error.
        error_message: Its message; redacted, truncated and storable.
        category: Value of the category.
        origin: Value of the origin.
        http_status: HTTP status, if there was one.
        fingerprint: Identifies the cause; equal for similar failures.
        retry_in: Seconds until it may be tried again, if it was deferred.
    """

    source_id: str
    status: TargetStatus
    attempts: int = 1
    target: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    category: str | None = None
    origin: str | None = None
    http_status: int | None = None
    fingerprint: str | None = None
    retry_in: float | None = None


class TargetRow(NamedTuple):
    """The stored result of a target."""

    run_id: str
    source_id: str
    status: TargetStatus
    attempts: int
    target: str | None
    error_type: str | None
    error_message: str | None
    category: str | None
    origin: str | None
    http_status: int | None
    fingerprint: str | None
    retry_at: datetime | None
    finished_at: datetime


class JobLock(Protocol):
    """An exclusive lock on a job. It is released at once if the process dies."""

    def held(self) -> bool:
        """Return whether the lock is still held. A broken connection releases it."""

    def release(self) -> None:
        """Release the lock."""


class Jobs(Protocol):
    """Runs of batch jobs, and the results of their targets."""

    def lock_job(self, job: str, holder: str) -> JobLock | None:
        """Lock a job until the lock is released; return None if somebody else holds it. This is not a transaction.

        Args:
            job: Name of the job.
            holder: Host and process of the caller, shown to people.
        """

    def job_holder(self, job: str) -> str | None:
        """Return who holds the lock of a job, empty if unknown; None if nobody does."""

    def add_run(self, run_id: str, job: str, entity: str | None, env: str, parent: str | None) -> Run:
        """Start a run."""

    def reopen_run(self, run_id: str) -> Run | None:
        """Continue a run; return None if it does not exist."""

    def end_run(
        self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any], alerts: Sequence[NewAlert] = ()
    ) -> None:
        """End a run, and raise alerts about it. Its total is ``total_targets`` of the summary."""

    def run(self, run_id: str) -> Run | None:
        """Return a run, or None."""

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first.

        Args:
            job: Only runs of this job.
            limit: Maximum number of runs.
            before: Only runs older than this run, for the next page; the result is empty if it does not exist.
        """

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Save results of targets; return how many of them are new in this run.

        The last result of a target replaces earlier ones, except that only a success replaces a success.
        """

    def done_targets(self, run_id: str, source_ids: Sequence[str]) -> set[str]:
        """Return which of these targets are finished in this run: success or skipped."""

    def targets(
        self,
        run_id: str,
        *,
        statuses: Sequence[TargetStatus] = (),
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TargetRow]:
        """Return targets of a run, ordered by id.

        Args:
            run_id: The run.
            statuses: Only these statuses; empty for all.
            after: Only ids that sort after this one, for the next page.
            limit: Maximum number of targets.
        """

    def target_counts(self, run_id: str) -> dict[TargetStatus, int]:
        """Return the number of targets by status, including statuses without targets."""

    def failure_groups(self, run_id: str, limit: int = 5) -> list[tuple[str, int, TargetRow]]:
        """Return the largest groups of failures of a run: fingerprint, size and one of its targets."""

    def compare_runs(self, before: str, after: str) -> dict[str, int]:
        """Compare two runs, over the targets that both have.

        Returns:
            ``fixed`` (failed or deferred, then a success), ``broken`` (a success, then not), ``still`` (both times
            not).
        """

    def prune_runs(self, older_than: float) -> int:
        """Delete runs that ended more than `older_than` seconds ago and their targets, in batches; return how many."""
