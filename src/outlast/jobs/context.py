"""The context that a job passes to its handler together with the target."""

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.classify import default_classifier
from outlast.run.call_state import CURRENT, Call, CallState, attempt_of

if TYPE_CHECKING:
    from outlast.decide.decision import Decision


log = logging.getLogger("outlast.jobs")


def redacted_id(source_id: str) -> str:
    """Return the id of a target as logs and events show it: a URL in it may contain a password."""
    return default_classifier().redact(source_id)


@dataclass(frozen=True)
class RunFacts:
    """The facts that all targets of a run share.

    Attributes:
        job_id: Name of the job.
        run_id: Id of the run.
        env: Environment, such as ``local``.
        job_start_at: When the run started.
        entity: What kind of thing a target is.
        dry_run: Whether handlers must not write anything.
    """

    job_id: str
    run_id: str
    env: str
    job_start_at: datetime
    entity: str | None
    dry_run: bool

    def keys(self) -> dict[str, Any]:
        """Return the keys of every log record of the run."""
        return {
            "job_id": self.job_id,
            "run_id": self.run_id,
            "env": self.env,
            "job_start_at": self.job_start_at.isoformat(),
            "entity": self.entity,
        }


class JobContext:
    """One target while a job processes it.

    Attributes:
        source_id: Key of the target.
        attempt: Number of this attempt, from 1.
        max_attempts: Total number of calls that the policy allows.
        log: A logger whose records carry the keys of the job and the target.
        counts: Totals from `count`, over all attempts.
    """

    __slots__ = ("_call", "_decision", "_facts", "_log", "attempt", "counts", "max_attempts", "source_id")

    def __init__(self, facts: RunFacts, source_id: str, max_attempts: int) -> None:
        self._facts = facts
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._call: Call | CallState | None = None
        self._decision: Decision | None = None
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
        """Id of the run."""
        return self._facts.run_id

    @property
    def env(self) -> str:
        """Environment, such as ``local``."""
        return self._facts.env

    @property
    def entity(self) -> str | None:
        """What kind of thing a target is."""
        return self._facts.entity

    @property
    def job_start_at(self) -> datetime:
        """When the run started."""
        return self._facts.job_start_at

    @property
    def dry_run(self) -> bool:
        """Whether the handler must not write anything."""
        return self._facts.dry_run

    @property
    def time_left(self) -> float | None:
        """Seconds left for this attempt, by its timeout or the deadline; None if there is neither.

        A coroutine is cancelled when they are up. A function is not: it can check this itself.
        """
        return None if self._call is None else attempt_of(self._call).time_left

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry the keys of the job and the target."""
        if self._log is None:
            self._log = logging.LoggerAdapter(log, self.keys())
        return self._log

    def count(self, name: str, number: int = 1) -> None:
        """Add to a number in the summary, such as ``diff_new_hash``."""
        if self.counts is None:
            self.counts = Counter()
        self.counts[name] += number

    def keys(self) -> dict[str, Any]:
        """Return the keys of every log record of this target."""
        return {**self._facts.keys(), "source_id": redacted_id(self.source_id)}

    def _begin(self) -> None:
        """Start the next attempt."""
        self.attempt += 1
        self._call, self._decision = CURRENT.get(), None
