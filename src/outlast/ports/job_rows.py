"""The rows of batch jobs: runs, and what became of their targets. Times are aware datetimes, waits are seconds."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

__all__ = ["Run", "RunState", "TargetDone", "TargetRow", "TargetStatus"]


class RunState(StrEnum):
    """Where a run stands.

    A run is ``running`` until it ends as ``done`` (all targets were seen), ``aborted`` (a failure ended it) or
    ``stopped`` (somebody did). One whose process died is found ``running`` with nobody holding its lock.
    """

    RUNNING = "running"
    DONE = "done"
    ABORTED = "aborted"
    STOPPED = "stopped"


class TargetStatus(StrEnum):
    """What became of a target in a run."""

    SUCCESS = "success"
    FAILED = "failed"
    DEFERRED = "deferred"
    SKIPPED = "skipped"


class Run(NamedTuple):
    """One run of a job.

    Attributes:
        id: Text that sorts by time, such as ``20260301T120000-3f2a``.
        job: Name of the job.
        entity: What its targets are.
        env: Where it ran.
        parent: The run of which this one does the rest, if it does.
        state: Where it stands.
        total: Targets in all, once it is over.
        summary: All figures, once it is over.
        exit_code: Once it is over.
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
    """What became of a target, to be written.

    Attributes:
        source_id: What tells it from others of its job.
        status: How it ended.
        attempts: Calls that were made.
        target: The target itself as JSON text, where another run may need it.
        error_type: Class name of the last error.
        error_message: Its text; redacted, capped, storable.
        category: Value of the category.
        origin: Value of the origin.
        http_status: If there was one.
        fingerprint: Groups like failures.
        retry_in: Seconds after which it may be tried again, for one that was put off.
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
    """What became of a target, as it is kept."""

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


# What is asked of a store for batch jobs. Every method is one transaction, unless it says otherwise.


class JobLock(Protocol):
    """A job that nobody else runs while this is held; a process that dies lets go of it at once."""

    def held(self) -> bool:
        """Tell whether it is still ours: a connection that broke has let go of it."""

    def release(self) -> None:
        """Let others run it."""


class Jobs(Protocol):
    """Runs of batch jobs, and what became of their targets."""

    def lock_job(self, job: str, holder: str) -> JobLock | None:
        """Keep a job to oneself; None if somebody else has it. Not a transaction: it is held until it is released.

        Args:
            job: Name of the job.
            holder: Who asks, for people: host and process.
        """

    def job_holder(self, job: str) -> str | None:
        """Return who holds a job's lock, as far as it is known; None if nobody does."""

    def add_run(self, run_id: str, job: str, entity: str | None, env: str, parent: str | None) -> Run:
        """Begin a run."""

    def reopen_run(self, run_id: str) -> Run | None:
        """Have a run go on; None if there is none."""

    def end_run(self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any]) -> None:
        """End a run; its total is the summary's ``total_targets``."""

    def run(self, run_id: str) -> Run | None:
        """Return one."""

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first.

        Args:
            job: Only those of this one.
            limit: How many at most.
            before: Only those behind this run, for the next page; none if that run is gone.
        """

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Write what became of targets; return how many of them were not known in this run.

        A target that is known already is written over: the last word counts. A result that is no success does not
        replace a success.
        """

    def done_targets(self, run_id: str, source_ids: Sequence[str]) -> set[str]:
        """Return which of these targets need no more in this run: success or skipped."""

    def targets(
        self,
        run_id: str,
        *,
        statuses: Sequence[TargetStatus] = (),
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TargetRow]:
        """Return targets of a run by their ids.

        Args:
            run_id: Which run.
            statuses: Only these; none for all.
            after: Only those whose id sorts behind this one, for the next page.
            limit: How many at most.
        """

    def target_counts(self, run_id: str) -> dict[TargetStatus, int]:
        """Return how many there are of each status, all named."""

    def failure_groups(self, run_id: str, limit: int = 5) -> list[tuple[str, int, TargetRow]]:
        """Return the largest groups of failures of a run: fingerprint, size, one of them."""

    def compare_runs(self, before: str, after: str) -> dict[str, int]:
        """Return how two runs differ, in targets that both have.

        Returns:
            ``fixed`` (failed or put off, then a success), ``broken`` (a success, then not), ``still`` (neither time).
        """

    def prune_runs(self, older_than: float) -> int:
        """Delete runs that ended longer ago than so many seconds, with their targets; return how many. In batches."""
