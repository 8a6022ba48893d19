"""The rows of batch jobs: runs, and what became of their targets. Times are aware datetimes, waits are seconds."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

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
