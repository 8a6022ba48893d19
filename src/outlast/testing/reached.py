"""What is said when a test has ordered something at a place that the program never came to."""

from collections import Counter
from collections.abc import Iterable

__all__ = ["NotReachedError", "times_passed"]


class NotReachedError(AssertionError):
    """The program never came to the place where it was to fail or to end, so the test proves nothing."""


def times_passed(names: Iterable[str]) -> str:
    """Say which points were passed, and how often."""
    counts = Counter(names)
    if not counts:
        return "no point was passed"
    told = ", ".join(f"{name!r}" if times == 1 else f"{name!r} ({times} times)" for name, times in counts.items())
    return f"points that were passed: {told}"
