"""The verdict on a run over many targets: how much may fail before the whole of it has."""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from outlast.errors import ConfigError

__all__ = ["ENTITY_RATES", "Counts", "Gate", "GateResult"]

ENTITY_RATES = {"ranking": 0.01, "genre": 0.01, "tag": 0.01, "item": 0.05}
"""Failure rates by entity that need not be stated; any other entity states its own."""


class Counts(NamedTuple):
    """What became of the targets of a run; the five add up to all of them.

    Attributes:
        not_attempted: Targets that were known and came to no end, for the run ended before.
        db_failed: How many of the failed failed at a database.
    """

    success: int = 0
    failed: int = 0
    deferred: int = 0
    skipped: int = 0
    not_attempted: int = 0
    db_failed: int = 0

    @property
    def total(self) -> int:
        """All targets."""
        return self.success + self.failed + self.deferred + self.skipped + self.not_attempted


class GateResult(NamedTuple):
    """What a gate says.

    Attributes:
        exit_code: 0 or 1.
        failure_rate: Share of the targets that failed, for people.
        reasons: Why it is 1; empty where it is 0.
    """

    exit_code: int
    failure_rate: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Gate:
    """When a run has failed.

    Attributes:
        max_failure_rate: Share of all targets that may fail; more fails the run. Exactly so many do not.
        min_sample: With fewer targets the rate does not count.
        max_failures: Number of targets that may fail, whatever their share; None for any.
        defer_ok: Whether targets that were put off do not count as failed.
    """

    max_failure_rate: float
    min_sample: int = 0
    max_failures: int | None = None
    defer_ok: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        rate: object = self.max_failure_rate
        if type(rate) not in {int, float} or not 0 <= self.max_failure_rate <= 1:
            message = f"max_failure_rate is {rate!r}; give a share from 0 to 1, such as 0.05 for 5 %"
            raise ConfigError(message)
        for name in ("min_sample", "max_failures"):
            number = getattr(self, name)
            if number is None and name == "max_failures":
                continue
            if type(number) is not int or number < 0:
                message = f"{name} is {number!r}; give a whole number, 0 or more"
                raise ConfigError(message)

    @classmethod
    def for_entity(cls, entity: str | None, max_failure_rate: float | None, **settings: object) -> "Gate":
        """Return the gate of an entity, with the rate that is given or the one that is known for it.

        Raises:
            ConfigError: If none is given, and none is known.
        """
        rate = max_failure_rate if max_failure_rate is not None else ENTITY_RATES.get(entity or "")
        if rate is None:
            known = ", ".join(f"{name} {share:.0%}" for name, share in ENTITY_RATES.items())
            message = f"no failure rate is known for {entity!r}; give max_failure_rate=… (known are: {known})"
            raise ConfigError(message)
        return cls(rate, **settings)  # type: ignore[arg-type]  # checked when it is made

    def judge(self, counts: Counts, *, ended: str | None = None) -> GateResult:
        """Judge a run that is over.

        Args:
            counts: What became of its targets.
            ended: Why it ended before its time, if it did.
        """
        failed = self._failed(counts)
        reasons = [] if ended is None else [ended]
        if counts.not_attempted:
            reasons.append(f"{_count_targets(counts.not_attempted)} not attempted")
        if self._is_too_much(failed, counts.total) and counts.total >= self.min_sample:
            share = float(Fraction(repr(self.max_failure_rate)) * 100)
            reasons.append(f"{failed} of {_count_targets(counts.total)} failed, and at most {share:g} % may")
        if self.max_failures is not None and failed > self.max_failures:
            reasons.append(f"{_count_targets(failed)} failed, and at most {self.max_failures} may")
        if counts.db_failed:
            reasons.append(f"{_count_targets(counts.db_failed)} failed at the database")
        rate = failed / counts.total if counts.total else 0.0
        return GateResult(1 if reasons else 0, rate, tuple(reasons))

    def is_lost(self, counts: Counts, total: int) -> bool:
        """Tell whether a run of so many targets has failed already, whatever becomes of the rest."""
        failed = self._failed(counts)
        if self.max_failures is not None and failed > self.max_failures:
            return True
        return total >= self.min_sample and self._is_too_much(failed, total)

    def _failed(self, counts: Counts) -> int:
        return counts.failed + (0 if self.defer_ok else counts.deferred)

    def _is_too_much(self, failed: int, total: int) -> bool:
        return failed > Fraction(repr(self.max_failure_rate)) * total  # exact: 0.07 is no binary fraction


def _count_targets(number: int) -> str:
    return "1 target" if number == 1 else f"{number} targets"
