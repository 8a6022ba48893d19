"""The figures of a run while it runs, and what in them ends it early."""

from collections import Counter
from collections.abc import Iterable, Mapping

from outlast.decide.gate import Counts, Gate
from outlast.failure import Category, Failure, Origin
from outlast.jobs.target import Done
from outlast.ports.job_rows import TargetDone, TargetStatus

__all__ = ["Tally"]

_MOST_GROUPS = 1000  # causes that are counted one by one; a run whose every failure is another has one row for the rest
_SYSTEM_LIMIT = 3  # targets in a row that may meet with trouble of this machine
_REST = "others"
_AT_THE_DATABASE = frozenset({Category.DATABASE_BUSY, Category.INTEGRITY})


class Tally:
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

    def add(self, results: Iterable[Done]) -> None:
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
            self._db_failed += failure.origin is Origin.DB or failure.category in _AT_THE_DATABASE
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
        if mark not in self.groups and len(self.groups) >= _MOST_GROUPS:
            mark = _REST
        self.groups[mark] += 1
        self.samples.setdefault(mark, row)
