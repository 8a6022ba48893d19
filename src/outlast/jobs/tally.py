"""The figures of a run while it runs, and what in them ends it early."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from outlast.decide.decision import Abort, Defer, decide_target
from outlast.decide.gate import Counts, Gate, GateResult
from outlast.errors import AbortJob, SkipTarget
from outlast.failure import Category, Failure, Origin
from outlast.jobs.target import TargetResult
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.run import logs
from outlast.run.observe_mode import observed_decision, publish_observed

if TYPE_CHECKING:
    from outlast.decide.policy import RetryPolicy


_MAX_GROUPS = 1000  # causes that are counted one by one; a run whose every failure is another has one row for the rest
_SYSTEM_LIMIT = 3  # targets in a row that may meet with trouble of this machine
_OTHER_GROUPS = "others"
_DATABASE_CATEGORIES = frozenset({Category.DATABASE_BUSY, Category.INTEGRITY})


class RunTally:
    """Counts what becomes of targets. Only one thread adds to it.

    Args:
        gate: Says when a run is lost.
        breakers: By origin, such as ``s3``: so many targets in a row that it has exhausted end the run.
        early_stop: Whether a run ends as soon as more have failed than may; that needs the total.
        total: How many targets there are in all, where that is known.

    Attributes:
        abort: Why the run is to end; None while it is not.
        passed_over: Targets that an earlier run has done.
        attempts: Calls of the handler.
    """

    def __init__(self, gate: Gate, breakers: Mapping[str, int], *, early_stop: bool, total: int | None = None) -> None:
        """Begin with nothing."""
        self._gate = gate
        self._breakers = breakers
        self._early_stop = early_stop
        self._success = self._failed = self._deferred = self._skipped = self._db_failed = 0
        self._in_a_row: Counter[str] = Counter()
        self.categories: Counter[str] = Counter()
        self.origins: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()
        self.groups: Counter[str] = Counter()
        self.samples: dict[str, TargetDone] = {}
        self.passed_over = 0
        self.attempts = 0
        self.abort: str | None = None
        self.total = total

    def counts(self, known: int = 0) -> Counts:
        """Return the figures that a gate judges.

        Args:
            known: All targets that are known of: those that came to no end were not attempted.
        """
        skipped = self._skipped + self.passed_over
        left = known - self._success - self._failed - self._deferred - skipped
        return Counts(self._success, self._failed, self._deferred, skipped, max(0, left), self._db_failed)

    def add(self, results: Iterable[TargetResult]) -> None:
        """Take in what became of targets."""
        for done in results:
            row = done.row
            if done.counts:
                self.figures.update(done.counts)
            if row is None:  # interrupted
                continue
            self.attempts += row.attempts
            if row.status is TargetStatus.SUCCESS:
                self._success += 1
                if self._in_a_row:
                    self._in_a_row.clear()
            elif done.failure is None:  # its handler left it out
                self._skipped += 1
            else:
                self._add_failure(done.failure, row, done.abort)

    def _add_failure(self, failure: Failure, row: TargetDone, abort: str | None) -> None:
        self.categories[str(failure.category)] += 1
        self.origins[str(failure.origin)] += 1
        self._group(row)
        if row.status is TargetStatus.DEFERRED:
            self._deferred += 1
        else:
            self._failed += 1
            self._db_failed += failure.origin is Origin.DB or failure.category in _DATABASE_CATEGORIES
        found = abort or self._tripped(failure, row) or self._lost()
        if found is not None:
            self._end(found)

    def _end(self, why: str) -> None:
        self.abort = self.abort or why

    def _tripped(self, failure: Failure, row: TargetDone) -> str | None:
        """Count a target that its dependency has exhausted; what is answered with a refusal shows that it lives."""
        origin = str(failure.origin)
        if row.status is TargetStatus.DEFERRED:
            return None
        if not failure.retryable:
            self._in_a_row.pop(origin, None)
            return None
        self._in_a_row[origin] += 1
        limit = self._breakers.get(origin)
        if limit is not None and self._in_a_row[origin] >= limit:
            return f"{limit} targets in a row failed at {origin}"
        if failure.category is Category.SYSTEM:
            self._in_a_row[""] += 1
            if self._in_a_row[""] >= _SYSTEM_LIMIT:
                return f"{_SYSTEM_LIMIT} targets in a row met with trouble of this machine: {failure}"[:500]
        return None

    def _lost(self) -> str | None:
        if self._early_stop and self.total is not None and self._gate.is_lost(self.counts(), self.total):
            return "the verdict cannot change any more: too many targets have failed"
        return None

    def _group(self, row: TargetDone) -> None:
        mark = row.fingerprint or ""
        if mark not in self.groups and len(self.groups) >= _MAX_GROUPS:
            mark = _OTHER_GROUPS
        self.groups[mark] += 1
        self.samples.setdefault(mark, row)


# A job that is only observed: what its policy and its gate would have done, while every target is called once.

_ALWAYS_PASSES = Gate(1.0, defer_ok=True)


class ObserveTally(RunTally):
    """Counts targets as if the job had acted, tells what would have been done with them, and ends nothing.

    That a target would have been tried again is taken for nothing: it counts as failed.

    Args:
        job: Name of the job, for those who are told.
        settings: As for `Tally`.

    Attributes:
        would_do: How often each thing would have been done.
        would_end: Where the run would have ended, and why; None if it would not.
    """

    def __init__(self, job: str, *settings: Any, **more: Any) -> None:
        """Begin with nothing."""
        super().__init__(*settings, **more)
        self._job = job
        self.would_do: dict[str, int] = {}
        self.would_end: str | None = None

    def add(self, results: Iterable[TargetResult]) -> None:
        """Take in what became of targets."""
        for done in results:
            super().add((self._as_if(done),))

    def _as_if(self, done: TargetResult) -> TargetResult:
        """Tell what would have been done with a target, and return what would have become of it."""
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

    def told(self, counts: Counts, gate: Gate) -> tuple[int, tuple[str, ...]]:
        """Return the exit code that the run would have had, and what would have happened, for people.

        Args:
            counts: Of this tally.
            gate: Says when a run has failed.
        """
        verdict = gate.judge(counts)
        code = 1 if self.would_end else verdict.exit_code
        lines = [] if self.would_end is None else [self.would_end]
        lines += [f"the gate would have failed it: {reason}" for reason in verdict.reasons]
        if not verdict.reasons:
            lines.append("the gate would have passed it")
        if retried := self.would_do.get("retry"):
            each = "1 target" if retried == 1 else f"{retried} targets"
            lines.append(f"{each} would have been tried again, and may then have succeeded; here it counts as failed")
        return code, tuple(lines)


def would_decide(error: BaseException, failure: "Failure", policy: "RetryPolicy") -> tuple[str, float | None, str]:
    """Return what a job would do about the first failure of a target, the wait, and why.

    A policy that raises an error of its own is told to the log.

    Args:
        error: What its handler raised.
        failure: The same, judged.
        policy: Of the job.
    """
    if isinstance(error, SkipTarget):
        return "skip", None, failure.message
    decision, delay, reason = "fail", None, "permanent"
    if not isinstance(error, AbortJob):
        try:
            decision, delay, reason = observed_decision(error, failure, policy)  # type: ignore[arg-type]  # or what was cancelled
        except Exception as mistake:  # noqa: BLE001  # a predicate or a backoff of the user's
            logs.log_user_error("the policy", "the job", mistake)
            decision, delay, reason = "fail", None, "the policy raised an error of its own"
    if decision == "retry":
        return decision, delay, reason
    wait = failure.retry_after if delay is None and failure.category is Category.QUOTA_EXHAUSTED else delay
    found = decide_target(
        failure,
        reason="deferred" if decision == "defer" else reason,
        retry_in=wait,
        aborts=isinstance(error, AbortJob),
    )
    match found:
        case Abort(why):
            return "abort", None, why
        case Defer(seconds):
            return "defer", seconds, reason
        case _:
            return "fail", None, found.reason


def actual_result(counts: Counts, ended: str | None) -> tuple[Counts, GateResult]:
    """Return what really became of the targets of a run that was observed, and its verdict: no gate stands in its way.

    Args:
        counts: As if the job had acted.
        ended: Why the run itself ended before its time, if it did.
    """
    real = counts._replace(failed=counts.failed + counts.deferred, deferred=0)
    return real, _ALWAYS_PASSES.judge(real._replace(db_failed=0), ended=ended)
