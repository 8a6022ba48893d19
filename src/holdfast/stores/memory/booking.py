"""The books of a store in memory: plain counts."""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.ports.read_rows import FlowEvent
from holdfast.stores.books import FAILURES, FlowKey, Tally

__all__ = ["STEP", "Books", "Group"]

STEP = 10.0
"""Seconds that are counted together."""


@dataclass(slots=True)
class Group:
    """A group of failures, but for its counts."""

    task_type: str
    error_type: str
    error_category: str
    error_message: str
    first_seen: float
    last_seen: float
    note: str = ""
    acknowledged_at: float | None = None
    acknowledged_by: str = ""
    snoozed_until: float | None = None


@dataclass(slots=True)
class Books:
    """What happened.

    Attributes:
        ever: How often each happened.
        flow: The same for each step, by the time at which it begins.
        groups: Groups of failures.
    """

    ever: Counter[FlowKey] = field(default_factory=Counter)
    flow: dict[float, Counter[FlowKey]] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def write(self, tally: Tally, now: float) -> None:
        """Write what was done together."""
        if not tally.counts:
            return
        self.ever.update(tally.counts)
        self.flow.setdefault(now // STEP * STEP, Counter()).update(tally.counts)
        for fingerprint, (task_type, note) in tally.groups.items():
            fresh = Group(task_type, note.error_type, note.error_category, note.error_message, now, now)
            self.groups.setdefault(fingerprint, fresh)
        for key in tally.counts:
            if key.event in FAILURES and key.fingerprint:
                self.groups[key.fingerprint].last_seen = now

    def forget_group(self, fingerprint: str) -> None:
        """Drop a group; what it counted stays, without its cause."""
        del self.groups[fingerprint]
        for key in [key for key in self.ever if key.fingerprint == fingerprint]:
            self.ever[key._replace(fingerprint="")] += self.ever.pop(key)

    def forget(self, before: float) -> int:
        """Drop the flow of steps that began before; return how many. What was ever stays."""
        old = [at for at in self.flow if at < before]
        for at in old:
            del self.flow[at]
        return len(old)

    def add(self, event: FlowEvent, count: int, now: float) -> None:
        """Write what needs no more than its name."""
        tally = Tally()
        tally.add(event, count)
        self.write(tally, now)
