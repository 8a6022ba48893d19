"""One way to read an error, and how sure it is."""

from enum import StrEnum

from outlast.failure import RETRYABLE, Category, Evidence, Origin

__all__ = ["Reading", "Strength"]


class Strength(StrEnum):
    """How sure a reading is."""

    STRONG = "strong"
    """A type, a status or a code says so."""
    WEAK = "weak"
    """The name of a class or an attribute nobody described says so."""
    TEXT = "text"
    """Only the words of the message say so."""


class Reading:
    """One way to read an error.

    Attributes:
        category: What it would be.
        rule: Name of the rule that says so.
        strength: How sure it is.
        evidence: What was read.
        origin: What was talked to.
    """

    __slots__ = ("category", "evidence", "origin", "rule", "strength")

    def __init__(self, category: Category, rule: str, strength: Strength, evidence: Evidence, origin: Origin) -> None:
        """Keep the fields."""
        self.category = category
        self.rule = rule
        self.strength = strength
        self.evidence = evidence
        self.origin = origin

    @property
    def retryable(self) -> bool:
        """Whether trying again may help, if it is this."""
        stated = self.evidence.retryable
        return self.category in RETRYABLE if stated is None else stated

    def __repr__(self) -> str:
        """Return the reading for people."""
        return f"<Reading {self.category.value} by {self.rule!r}, {self.strength.value}>"
