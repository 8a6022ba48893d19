"""What answers make of a cooldown. Pure: a store reads the row, asks, and writes, all in one transaction."""

from typing import NamedTuple

__all__ = ["LATE", "Cooled", "cooled"]

LATE = 60.0
"""Seconds behind the end of a cooldown in which tasks wait that met what began it: they were put off after it began."""


class Cooled(NamedTuple):
    """A cooldown as it is kept, also after its end; times are in the store's unit.

    Attributes:
        capped: Answers in a row that asked for longer than the cap.
        probing: Whether it is the time of a probe.
    """

    until: float
    reason: str
    capped: int = 0
    probing: bool = False


def cooled(known: Cooled | None, answer: Cooled, now: float) -> Cooled:
    """Return what an answer makes of a cooldown; the longer of the two stays.

    Args:
        known: What there was.
        answer: What the answer asks for; `capped` is 1 if it asked for longer than that.
        now: The time.
    """
    if known is None:
        return answer
    longer = answer if answer.until > known.until else known
    waits = known.until > now and not known.probing
    row = max(known.capped, 1) if waits else known.capped + 1
    return Cooled(longer.until, longer.reason, row if answer.capped else 0)
