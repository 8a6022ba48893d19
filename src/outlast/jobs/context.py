"""What the handler of a job gets beside its target."""

import logging
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.classify import default_classifier
from outlast.run.call_state import attempt_seconds_left

if TYPE_CHECKING:
    from outlast.decide.policy import RetryPolicy


log = logging.getLogger("outlast.jobs")


def redacted_id(source_id: str) -> str:
    """Return what tells a target from others as logs and events show it: an address may hold a password."""
    return default_classifier().redact(source_id)


class RunFacts:
    """What all targets of a run share.

    Attributes:
        job_id: Name of the job.
        run_id: Of this run.
        env: Where it runs.
        job_start_at: When it began.
        entity: What its targets are.
        dry_run: Whether nothing is to be written.
    """

    def __init__(  # the fields above
        self, job_id: str, run_id: str, env: str, job_start_at: datetime, entity: str | None, *, dry_run: bool
    ) -> None:
        """Keep them."""
        self.job_id, self.run_id, self.env = job_id, run_id, env
        self.job_start_at, self.entity, self.dry_run = job_start_at, entity, dry_run

    def keys(self) -> dict[str, Any]:
        """Return what every log record of the run carries."""
        return {
            "job_id": self.job_id,
            "run_id": self.run_id,
            "env": self.env,
            "job_start_at": self.job_start_at.isoformat(),
            "entity": self.entity,
        }


class JobContext:
    """One target on its way through a job.

    Attributes:
        source_id: What tells the target from others.
        attempt: Number of this attempt, from 1.
        max_attempts: Calls that the policy allows in all.
        log: A logger whose records carry the keys of the job and the target.
        counts: What `count` has counted, in all attempts together.
    """

    __slots__ = ("_facts", "_log", "_timing", "attempt", "counts", "max_attempts", "source_id")

    def __init__(self, facts: RunFacts, source_id: str, max_attempts: int) -> None:
        """Begin before the first attempt."""
        self._facts = facts
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._timing: tuple[RetryPolicy, float, float] | None = None
        self.source_id = source_id
        self.attempt = 0
        self.max_attempts = max_attempts
        self.counts: Counter[str] | None = None

    @property
    def job_id(self) -> str:
        """Name of the job."""
        return self._facts.job_id

    @property
    def run_id(self) -> str:
        """Of this run."""
        return self._facts.run_id

    @property
    def env(self) -> str:
        """Where it runs."""
        return self._facts.env

    @property
    def entity(self) -> str | None:
        """What the targets are."""
        return self._facts.entity

    @property
    def job_start_at(self) -> datetime:
        """When the run began."""
        return self._facts.job_start_at

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be written."""
        return self._facts.dry_run

    @property
    def time_left(self) -> float | None:
        """Seconds left for this attempt, by its timeout or the deadline; None where there is neither.

        A coroutine is cancelled when they are over; a function is not, and may keep to them.
        """
        return None if self._timing is None else attempt_seconds_left(*self._timing)

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry the keys of the job and the target."""
        if self._log is None:
            self._log = logging.LoggerAdapter(log, self.keys())
        return self._log

    def count(self, name: str, number: int = 1) -> None:
        """Add to a figure of the summary, such as ``diff_new_hash``."""
        if self.counts is None:
            self.counts = Counter()
        self.counts[name] += number

    def keys(self) -> dict[str, Any]:
        """Return what every log record of this target carries."""
        return {**self._facts.keys(), "source_id": redacted_id(self.source_id)}

    def _begin(self, policy: "RetryPolicy", started: float | None, began: float | None) -> None:
        """Begin the next attempt, with the times from which its limits count."""
        self.attempt += 1
        if started is not None and began is not None:
            self._timing = (policy, started, began)
