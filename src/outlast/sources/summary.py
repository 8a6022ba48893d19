"""What is told of a cycle that has ended."""

from typing import NamedTuple

from outlast.ports.source_rows import Cycle

__all__ = ["CycleSummary"]


class CycleSummary(NamedTuple):
    """How a cycle ended.

    Attributes:
        cycle: Its figures, of all monitors together.
        transitions: States that changed when it ended.
        broken_callbacks: How often `on_change` raised in this monitor.
        seconds: How long it took.
    """

    cycle: Cycle
    transitions: int
    broken_callbacks: int
    seconds: float

    def __str__(self) -> str:
        """Return one line for people."""
        cycle = self.cycle
        parts = [
            f"{cycle.polled} of {cycle.sources} sources polled",
            f"{cycle.changed} changed",
            f"{cycle.failed} failed",
            f"{cycle.deferred} put off",
        ]
        if self.transitions:
            parts.append(f"{self.transitions} in another state")
        if self.cycle.outage_since is not None:
            parts.append("an outage, by the look of it")
        if self.broken_callbacks:
            times = "once" if self.broken_callbacks == 1 else f"{self.broken_callbacks} times"
            parts.append(f"on_change failed {times}")
        return f"cycle {cycle.id} of {cycle.profile}: {', '.join(parts)}; {self.seconds:.1f} s"
