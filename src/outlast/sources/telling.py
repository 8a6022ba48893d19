"""What is told of sources: in the log, and to subscribers."""

import logging
from collections.abc import Sequence

from outlast.classify import default_classifier
from outlast.decide.health import SourceState
from outlast.ports.source_rows import Closed, Source, Transition
from outlast.record.bus import has_subscribers, publish
from outlast.record.events import CycleEnded, SourceChanged

__all__ = ["log", "shown", "tell", "tell_of_cycle"]

log = logging.getLogger("outlast.sources")
_BAD = frozenset({SourceState.WARNING, SourceState.ERROR, SourceState.DISABLED})


def shown(source: Source | Transition) -> str:
    """Return a source's URL without what may be secret in it."""
    return default_classifier().redact(source.url)


def tell(transitions: Sequence[Transition]) -> None:
    """Tell of transitions, after they are written."""
    for each in transitions:
        url, level = shown(each), logging.WARNING if each.after in _BAD else logging.INFO
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
        if has_subscribers():
            publish(
                SourceChanged(
                    each.source_id, url, str(each.before), str(each.after), each.consecutive_failures, each.reason
                )
            )


def tell_of_cycle(closed: Closed) -> None:
    """Tell of a cycle that ended, and of what it changed."""
    tell(closed.transitions)
    if has_subscribers():
        cycle = closed.cycle
        publish(CycleEnded(cycle.profile, cycle.id, cycle.polled, cycle.failed, cycle.outage_since is not None))
