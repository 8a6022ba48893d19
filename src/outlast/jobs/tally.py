"""Counts the results of a run, and decides whether it must end early."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outlast.decide.breaker import Budget
from outlast.decide.decision import Place
from outlast.decide.gate import Counts, Gate, GateResult, count_targets
from outlast.errors import AbortJob
from outlast.failure import Category, Failure, Origin
from outlast.jobs.target import TargetResult
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.run.observe_mode import first_decision, publish_observed, would_do

if TYPE_CHECKING:
    from outlast.decide.policy import RetryPolicy
    from outlast.ports.job_rows import TargetRow


FIGURES = ("diff_new_hash", "s3_put_success", "s3_put_fail", "db_upsert_success", "db_upsert_fail")
"""The counts of an ETL; zero for other jobs."""
_MAX_GROUPS = 1000  # distinct failures that are counted; the rest share one row
_SYSTEM_LIMIT = 3  # targets in a row with a failure of this machine that end the run
_OTHER_GROUPS = "others"
_DATABASE_CATEGORIES = frozenset({Category.DATABASE_BUSY, Category.INTEGRITY})


@dataclass(frozen=True)
class RunLimits:
    """What a run may do before it fails or ends early.

    Attributes:
        gate: Decides whether a run has failed.
        breakers: By origin, such as ``s3``: this many targets in a row that used up their retries there end the run.
        early_stop: Whether a run ends as soon as more targets have failed than the gate allows. It needs the total.
        budget: Retry budget of a whole run.
    """

    gate: Gate
    breakers: Mapping[str, int] = field(default_factory=dict)
    early_stop: bool = False
    budget: Budget | None = None


class RunTally:
    """Counts results. Only one thread adds to it.

    Args:
        limits: When the run ends early.
        total: Number of targets, if it is known.

    Attributes:
        abort: Why the run must end; None if it need not.
        passed_over: Targets that an earlier run has finished.
        attempts: Calls of the handler.
    """

    def __init__(self, limits: RunLimits, total: int | None = None) -> None:
        self._limits = limits
        self._counts = dict.fromkeys(TargetStatus, 0)
        self._db_failed = 0
        self._in_a_row: Counter[str] = Counter()
        self.categories: Counter[str] = Counter()
        self.origins: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()
        self.groups: Counter[str] = Counter()
        self.samples: dict[str, TargetDone | TargetRow] = {}
        self.passed_over = 0
        self.attempts = 0
        self.abort: str | None = None
        self.total = total

    def counts(self, left: int = 0) -> Counts:
        """Return the numbers for the gate.

        Args:
            left: Number of targets that were not attempted.
        """
        counts = {**self._counts, TargetStatus.SKIPPED: self._counts[TargetStatus.SKIPPED] + self.passed_over}
        return Counts(**counts, not_attempted=left, db_failed=self._db_failed)

    def add(self, results: Iterable[TargetResult]) -> None:
        """Add results."""
        for done in results:
            row = done.row
            if done.counts:
                self.figures.update(done.counts)
            if row is None:  # interrupted
                continue
            self.attempts += row.attempts
            self._counts[row.status] += 1
            if row.status is TargetStatus.SUCCESS:
                self._in_a_row.clear()
            elif done.failure is not None:  # None if the handler skipped it
                self._add_failure(done.failure, row, done.abort)

    def load(
        self, counts: Mapping[TargetStatus, int], failed: "Iterable[TargetRow]", earlier: Mapping[str, Any]
    ) -> None:
        """Replace the numbers of one process by those of a whole run.

        Args:
            counts: Targets in the ledger by status.
            failed: Failed and deferred targets in the ledger.
            earlier: The summary of the processes before this one; its attempts and figures are added.
        """
        ledger = RunTally(self._limits)
        for row in failed:
            ledger._count_failure(row)
        self._counts, self._db_failed, self.passed_over = dict(counts), ledger._db_failed, 0
        self.categories, self.origins = ledger.categories, ledger.origins
        self.groups, self.samples = ledger.groups, ledger.samples
        self.attempts += earlier.get("attempts", 0)
        self.figures.update(earlier.get("figures", {}))
        self.figures.update({name: earlier[name] for name in FIGURES if name in earlier})

    def _count_failure(self, row: "TargetDone | TargetRow") -> None:
        self.categories[row.category or ""] += 1
        self.origins[row.origin or ""] += 1
        self._group(row)
        if row.status is not TargetStatus.DEFERRED:
            self._db_failed += row.origin == Origin.DB or row.category in _DATABASE_CATEGORIES

    def _add_failure(self, failure: Failure, row: TargetDone, abort: str | None) -> None:
        self._count_failure(row)
        reason = abort or self._breaker_reason(failure, row) or self._early_stop_reason()
        if reason is not None:
            self._end(reason)

    def _end(self, why: str) -> None:
        self.abort = self.abort or why

    def _breaker_reason(self, failure: Failure, row: TargetDone) -> str | None:
        """Count a failure by its origin; return why it ends the run, or None.

        A failure that is not retryable resets the count: the origin has answered.
        """
        origin = str(failure.origin)
        if row.status is TargetStatus.DEFERRED:
            return None
        if not failure.retryable:
            self._in_a_row.pop(origin, None)
            return None
        self._in_a_row[origin] += 1
        limit = self._limits.breakers.get(origin)
        if limit is not None and self._in_a_row[origin] >= limit:
            return f"{count_targets(limit)} in a row failed at {origin}"
        if failure.category is Category.SYSTEM:
            self._in_a_row[""] += 1
            if self._in_a_row[""] >= _SYSTEM_LIMIT:
                return f"{_SYSTEM_LIMIT} targets in a row failed because of this machine: {failure}"[:500]
        return None

    def _early_stop_reason(self) -> str | None:
        limits = self._limits
        if limits.early_stop and self.total is not None and limits.gate.is_lost(self.counts(), self.total):
            return "too many targets have failed for the run to pass"
        return None

    def _group(self, row: "TargetDone | TargetRow") -> None:
        fingerprint = row.fingerprint or ""
        if fingerprint not in self.groups and len(self.groups) >= _MAX_GROUPS:
            fingerprint = _OTHER_GROUPS
        self.groups[fingerprint] += 1
        self.samples.setdefault(fingerprint, row)


_ALWAYS_PASSES = Gate(1.0, defer_ok=True)


class ObserveTally(RunTally):
    """Counts results in observe mode: as if the job had acted, but without ending the run.

    A target that would have been retried counts as failed.

    Args:
        job: Name of the job, for the published events.
        args: Arguments of `RunTally`.

    Attributes:
        would_do: The number of times that each action would have been taken.
        would_end: Where the run would have ended, and why; None if it would not.
    """

    def __init__(self, job: str, *args: Any) -> None:
        super().__init__(*args)
        self._job = job
        self.would_do: dict[str, int] = {}
        self.would_end: str | None = None

    def add(self, results: Iterable[TargetResult]) -> None:
        """Add results."""
        for done in results:
            super().add((self._publish_decision(done),))

    def _publish_decision(self, done: TargetResult) -> TargetResult:
        """Publish what would have been done about a target, and return the result it would have had."""
        if done.observed is None or done.row is None:
            return done
        decision, delay, reason = done.would or ("fail", None, "")
        self.would_do[decision] = self.would_do.get(decision, 0) + 1
        publish_observed(self._job, done.observed, decision, delay, reason)
        if decision == "defer":
            return done._replace(row=done.row._replace(status=TargetStatus.DEFERRED))
        return done._replace(abort=reason) if decision == "abort" else done

    def _end(self, why: str) -> None:
        number = self.counts().total - self.passed_over
        self.would_end = self.would_end or f"would have ended at target {number}: {why}"[:500]

    def would_result(self, counts: Counts) -> tuple[int, tuple[str, ...]]:
        """Return the exit code that the run would have had, and sentences about what would have happened.

        Args:
            counts: The numbers of this tally.
        """
        result = self._limits.gate.judge(counts)
        code = 1 if self.would_end else result.exit_code
        lines = [] if self.would_end is None else [self.would_end]
        lines += [f"the gate would have failed it: {reason}" for reason in result.reasons]
        if not result.reasons:
            lines.append("the gate would have passed it")
        if retried := self.would_do.get("retry"):
            lines.append(
                f"{count_targets(retried)} would have been retried and might have succeeded; here counted as failed"
            )
        return code, tuple(lines)


def would_decide(error: BaseException, failure: "Failure", policy: "RetryPolicy") -> tuple[str, float | None, str]:
    """Return what a job would do about the first failure of a target, after how many seconds, and why.

    Args:
        error: What the handler raised.
        failure: The classified error.
        policy: The policy of the job.
    """
    decision, delay, reason = would_do(first_decision("the job", error, failure, policy, Place.TARGET), failure)
    return decision, delay, failure.message if issubclass(type(error), AbortJob) and failure.message else reason


def actual_result(counts: Counts, ended: str | None) -> tuple[Counts, GateResult]:
    """Return the actual numbers of a run in observe mode, and its result, which no failed target affects.

    Args:
        counts: The numbers as if the job had acted.
        ended: Why the run ended early, if it did.
    """
    actual = counts._replace(failed=counts.failed + counts.deferred, deferred=0)
    return actual, _ALWAYS_PASSES.judge(actual._replace(db_failed=0), ended=ended)
