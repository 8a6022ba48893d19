"""What is told of something that went wrong, and when: first, changed, reminder, recovered."""

from enum import StrEnum

__all__ = ["AlertKind", "next_kind"]


class AlertKind(StrEnum):
    """What an alert says of the one before it on the same matter."""

    FIRST = "first"
    CHANGED = "changed"
    REMINDER = "reminder"
    RECOVERED = "recovered"


def next_kind(open_state: str | None, state: str | None) -> AlertKind | None:
    """Decide what is told, if anything.

    Args:
        open_state: What was told last of the matter; None where it was never told of, or recovered since.
        state: What it is now; None for well.
    """
    if state is None:
        return None if open_state is None else AlertKind.RECOVERED
    if open_state is None:
        return AlertKind.FIRST
    return None if open_state == state else AlertKind.CHANGED
