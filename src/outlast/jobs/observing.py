"""A job that is only observed: what its policy and its gate would have done, while every target is called once."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from outlast.decide.decision import Abort, Defer
from outlast.decide.gate import Counts, Gate, Verdict
from outlast.decide.targets import decide_target
from outlast.errors import AbortJob, SkipTarget
from outlast.failure import Category
from outlast.jobs.tally import Tally
from outlast.jobs.target import Done
from outlast.ports.job_rows import TargetStatus
from outlast.run import logs
from outlast.run.observing import tell_of, would_do

if TYPE_CHECKING:
    from outlast.decide.policy import RetryPolicy
    from outlast.failure import Failure

__all__ = ["ObservingTally", "judged", "really"]

_ANYTHING = Gate(1.0, defer_ok=True)


class ObservingTally(Tally):
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

    def add(self, results: Iterable[Done]) -> None:
        """Take in what became of targets."""
        for done in results:
            super().add((self._as_if(done),))

    def _as_if(self, done: Done) -> Done:
        """Tell what would have been done with a target, and return what would have become of it."""
        if done.observed is None or done.row is None:
            return done
        decision, delay, reason = done.would or ("fail", None, "")
        self.would_do[decision] = self.would_do.get(decision, 0) + 1
        tell_of(self._job, done.observed, decision, delay, reason)
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


def judged(error: BaseException, failure: "Failure", policy: "RetryPolicy") -> tuple[str, float | None, str]:
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
            decision, delay, reason = would_do(error, failure, policy)  # type: ignore[arg-type]  # or what was cancelled
        except Exception as mistake:  # noqa: BLE001  # a predicate or a backoff of the user's
            logs.broken("the policy", "the job", mistake)
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


def really(counts: Counts, ended: str | None) -> tuple[Counts, Verdict]:
    """Return what really became of the targets of a run that was observed, and its verdict: no gate stands in its way.

    Args:
        counts: As if the job had acted.
        ended: Why the run itself ended before its time, if it did.
    """
    real = counts._replace(failed=counts.failed + counts.deferred, deferred=0)
    return real, _ANYTHING.judge(real._replace(db_failed=0), ended=ended)
