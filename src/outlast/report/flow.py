"""The flow of tasks over time: counts per event and category, as series that a chart can draw."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from outlast.ports.read_rows import FlowEvent, FlowPoint
from outlast.report.text_format import CATEGORIES

FlowCounts = Mapping[tuple[FlowEvent, str], int]
"""How often each event happened, by event and category."""
_FAILURE_EVENTS = (FlowEvent.RETRIED, FlowEvent.LOST, FlowEvent.FAILED)


class Flow(NamedTuple):
    """What happened in a window of time, divided into steps of equal length.

    Attributes:
        step: Seconds that one step covers.
        steps: When each step begins, oldest first.
        done: Tasks done in each step.
        enqueued: Tasks enqueued in each step.
        failures: Failed attempts in each step, by category; only categories that occurred, in the order of the list.
    """

    step: float
    steps: tuple[datetime, ...]
    done: tuple[int, ...]
    enqueued: tuple[int, ...]
    failures: dict[str, tuple[int, ...]]


def is_failure(event: FlowEvent, category: str) -> bool:
    """Return whether an event is a failed attempt. A deferral is one if it has a category, so something failed.

    A task that fails for good is only recorded as failed, so nothing is counted twice.
    """
    return event in _FAILURE_EVENTS or (event is FlowEvent.DEFERRED and bool(category))


def steps_of(now: datetime, window: float, step: float) -> tuple[datetime, ...]:
    """Return when the steps of a window begin, oldest first; the last step contains now and is not complete."""
    last = now.timestamp() // step * step
    return tuple(
        datetime.fromtimestamp(last, UTC) - timedelta(seconds=step * back)
        for back in range(max(round(window / step), 1) - 1, -1, -1)
    )


def series_of(points: Sequence[FlowPoint], steps: Sequence[datetime], step: float) -> tuple[int, ...]:
    """Return how many events happened in each step; events outside the steps are left out."""
    first = steps[0].timestamp()
    counts = [0] * len(steps)
    for point in points:
        place = int((point.at.timestamp() - first) // step)
        if 0 <= place < len(counts):
            counts[place] += point.count
    return tuple(counts)


def flow_of(points: Sequence[FlowPoint], now: datetime, window: float, step: float) -> Flow:
    """Return the flow of a window of time, with every step, also empty ones."""
    steps = steps_of(now, window, step)
    failed = [point for point in points if is_failure(point.event, point.category)]
    found = {point.category for point in failed}
    order = [*(name for name in CATEGORIES if name in found), *sorted(found.difference(CATEGORIES))]
    failures = {name: series_of([p for p in failed if p.category == name], steps, step) for name in order}
    done, enqueued = (
        series_of([point for point in points if point.event is event], steps, step)
        for event in (FlowEvent.DONE, FlowEvent.ENQUEUED)
    )
    return Flow(step, steps, done, enqueued, {name: counts for name, counts in failures.items() if any(counts)})


def event_count(counts: FlowCounts, *events: FlowEvent) -> int:
    """Return how often these events happened, in all categories."""
    return sum(number for (event, _), number in counts.items() if event in events)


def failed_attempts(counts: FlowCounts) -> int:
    """Return how many attempts failed."""
    return sum(number for (event, category), number in counts.items() if is_failure(event, category))


def failures_by_category(counts: FlowCounts) -> dict[str, int]:
    """Return how many attempts failed in each category, most frequent first."""
    found = Counter[str]()
    for (event, category), number in counts.items():
        if number and is_failure(event, category):
            found[category] += number
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
