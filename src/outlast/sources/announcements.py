"""Log records and events about sources and cycles."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from outlast.classify import default_classifier
from outlast.decide.source_health import SourceState
from outlast.ports.source_rows import Closed, Cycle, Source, Transition
from outlast.record import bus
from outlast.record.bus import publish
from outlast.record.events import CycleEnded, SourceChanged

log = logging.getLogger("outlast.sources")
_BAD_STATES = frozenset({SourceState.WARNING, SourceState.ERROR, SourceState.DISABLED})


def redacted_source_url(source: Source | Transition) -> str:
    """Return the URL of a source without secrets."""
    return default_classifier().redact(source.url)


def announce_transitions(transitions: Sequence[Transition]) -> None:
    """Log and publish transitions, after they are written."""
    for each in transitions:
        url, level = redacted_source_url(each), logging.WARNING if each.after in _BAD_STATES else logging.INFO
        keys = {"source_id": each.source_id, "url": url, "before": str(each.before), "after": str(each.after)}
        log.log(
            level,
            "source %d is %s, was %s (failures in a row: %d): %s: %s",
            each.source_id,
            each.after,
            each.before,
            each.consecutive_failures,
            url,
            each.reason,
            extra=keys,
        )
        if bus.subscribers:
            publish(
                SourceChanged(
                    each.source_id, url, str(each.before), str(each.after), each.consecutive_failures, each.reason
                )
            )


def announce_cycle(closed: Closed) -> None:
    """Log and publish the end of a cycle and its transitions."""
    announce_transitions(closed.transitions)
    if bus.subscribers:
        cycle = closed.cycle
        publish(CycleEnded(cycle.profile, cycle.id, cycle.polled, cycle.failed, cycle.outage_since is not None))


class CycleSummary(NamedTuple):
    """The result of a cycle.

    Attributes:
        cycle: Its numbers, of all monitors together.
        transitions: Number of sources whose state this monitor changed: by a result or at the end of the cycle.
        broken_callbacks: How often `on_change` raised an error in this monitor.
        seconds: Its duration.
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
            f"{cycle.deferred} deferred",
        ]
        if self.transitions:
            parts.append(f"{self.transitions} changed state")
        if self.cycle.outage_since is not None:
            parts.append("probably an outage")
        if self.broken_callbacks:
            times = "once" if self.broken_callbacks == 1 else f"{self.broken_callbacks} times"
            parts.append(f"on_change failed {times}")
        return f"cycle {cycle.id} of {cycle.profile}: {', '.join(parts)}; {self.seconds:.1f} s"
