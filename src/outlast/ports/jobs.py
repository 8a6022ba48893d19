"""What is asked of a store for batch jobs. Every method is one transaction, unless it says otherwise."""

from collections.abc import Sequence
from typing import Any, Protocol

from outlast.ports.job_rows import Run, RunState, TargetDone, TargetRow, TargetStatus

__all__ = ["JobLock", "Jobs"]


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
