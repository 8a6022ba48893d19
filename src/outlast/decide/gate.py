"""The gate of a batch job: decides from the counts of a run whether it passed or failed."""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from outlast.decide.backoff import check_count
from outlast.errors import ConfigError

ENTITY_RATES = {"ranking": 0.01, "genre": 0.01, "tag": 0.01, "item": 0.05}
"""Default failure rates by entity; for any other entity you give your own."""


class Counts(NamedTuple):
    """The targets of a run by outcome; the first five add up to all of them.

    Attributes:
        not_attempted: Known targets that were not finished because the run ended early.
        db_failed: How many of the failed targets failed at a database.
    """

    success: int = 0
    failed: int = 0
    deferred: int = 0
    skipped: int = 0
    not_attempted: int = 0
    db_failed: int = 0

    @property
    def total(self) -> int:
        """Number of all targets."""
        return self.success + self.failed + self.deferred + self.skipped + self.not_attempted


class GateResult(NamedTuple):
    """The result of a gate.

    Attributes:
        exit_code: 0 if the run passed, 1 if it failed.
        failure_rate: Share of the targets that failed, for display.
        reasons: Why the run failed; empty if it passed.
    """

    exit_code: int
    failure_rate: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Gate:
    """The limits above which a run counts as failed.

    Attributes:
        max_failure_rate: Share of all targets that may fail; above it the run fails.
        min_sample: Number of targets below which the rate is not checked.
        max_failures: Number of targets that may fail, independent of the rate; None for no such limit.
        defer_ok: Whether deferred targets do not count as failed.
    """

    max_failure_rate: float
    min_sample: int = 0
    max_failures: int | None = None
    defer_ok: bool = False

    def __post_init__(self) -> None:
        """Check the limits."""
        rate: object = self.max_failure_rate
        if type(rate) not in {int, float} or not 0 <= self.max_failure_rate <= 1:
            raise ConfigError(f"max_failure_rate is {rate!r}; give a share from 0 to 1, such as 0.05 for 5 %")
        for name in ("min_sample", "max_failures"):
            number = getattr(self, name)
            if number is not None or name != "max_failures":
                check_count(name, number, 0)

    @classmethod
    def for_entity(cls, entity: str | None, max_failure_rate: float | None, **settings: object) -> "Gate":
        """Return the gate of an entity, with the given rate or the entity's default rate.

        Raises:
            ConfigError: If no rate is given and the entity has no default.
        """
        rate = max_failure_rate if max_failure_rate is not None else ENTITY_RATES.get(entity or "")
        if rate is None:
            known = ", ".join(f"{name} {share:.0%}" for name, share in ENTITY_RATES.items())
            entity_text = "without an entity" if entity is None else f"for the entity {entity!r}"
            raise ConfigError(
                f"there is no default failure rate {entity_text}; give max_failure_rate=…, such as 0.05, or an entity "
                f"with a default: {known}"
            )
        return cls(rate, **settings)  # type: ignore[arg-type]  # checked in __post_init__

    def judge(self, counts: Counts, *, ended: str | None = None) -> GateResult:
        """Return whether a finished run passed or failed.

        Args:
            counts: The targets by outcome.
            ended: Why the run ended early, if it did.
        """
        failed = self._failed(counts)
        reasons = [] if ended is None else [ended]
        if counts.not_attempted:
            reasons.append(f"{count_targets(counts.not_attempted)} not attempted")
        if self._is_too_much(failed, counts.total) and counts.total >= self.min_sample:
            share = float(Fraction(repr(self.max_failure_rate)) * 100)
            reasons.append(f"{failed} of {count_targets(counts.total)} failed (at most {share:g} % allowed)")
        if self.max_failures is not None and failed > self.max_failures:
            reasons.append(f"{count_targets(failed)} failed (at most {self.max_failures} allowed)")
        if counts.db_failed:
            reasons.append(f"{count_targets(counts.db_failed)} failed at the database")
        rate = failed / counts.total if counts.total else 0.0
        return GateResult(1 if reasons else 0, rate, tuple(reasons))

    def is_lost(self, counts: Counts, total: int) -> bool:
        """Return whether a run of `total` targets has already failed, whatever the outcome of the rest."""
        failed = self._failed(counts)
        if self.max_failures is not None and failed > self.max_failures:
            return True
        return total >= self.min_sample and self._is_too_much(failed, total)

    def _failed(self, counts: Counts) -> int:
        return counts.failed + (0 if self.defer_ok else counts.deferred)

    def _is_too_much(self, failed: int, total: int) -> bool:
        return failed > Fraction(repr(self.max_failure_rate)) * total  # exact: 0.07 is not a binary fraction


def count_targets(number: int) -> str:
    """Return a number of targets in words."""
    return "1 target" if number == 1 else f"{number} targets"
