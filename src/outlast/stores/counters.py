"""The counters of a queue, without I/O: deltas, totals, the status snapshot, and the check against the rows.

A delta is written in the transaction of the change that it counts. Each failed attempt counts as exactly one event: a
task that becomes a dead letter because its worker died is ``failed`` and not also ``lost``.
"""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from outlast.decide.source_health import SourceState
from outlast.ports.read_rows import Change, FlowEvent, FlowPoint, Pulse
from outlast.ports.rows import Kind, Note, Settlement, Status

T = TypeVar("T")

DEAD_LETTER_CHANGE = {FlowEvent.FAILED: 1, FlowEvent.REPLAYED: -1, FlowEvent.DISCARDED: -1}
"""Change of the number of dead letters by event."""
NO_NOTE = Note("", "", "unknown", "", "{}")
"""Used for a failure without a note."""
_MAX_BIGINT = 2**63 - 1  # the largest integer of both databases
MAX_CHANGES = 50
"""Changes in a pulse at most."""


class FlowKey(NamedTuple):
    """Key of a counter. Successes and enqueued tasks have only the event."""

    event: FlowEvent
    task_type: str = ""
    category: str = ""
    fingerprint: str = ""


EVENTS = {
    Kind.RETRY: FlowEvent.RETRIED,
    Kind.FAIL: FlowEvent.FAILED,
    Kind.DEFER: FlowEvent.DEFERRED,
    Kind.CRASH: FlowEvent.LOST,
}
"""The events of settlements of failed attempts."""


def failure_event(settlement: Settlement) -> FlowEvent:
    """Return the event of a settlement of a failed attempt: one with a reason leaves a dead letter."""
    return EVENTS[settlement.kind] if settlement.reason is None else FlowEvent.FAILED


class CounterDelta:
    """What one transaction adds to the counters.

    Attributes:
        counts: Number of events by key.
        groups: By fingerprint, task type and note of the first failure. The group is created if it is new.
    """

    def __init__(self) -> None:
        self.counts: Counter[FlowKey] = Counter()
        self.groups: dict[str, tuple[str, Note]] = {}

    def add(self, event: FlowEvent, count: int = 1) -> None:
        """Count events that have no other attributes."""
        if count:
            self.counts[FlowKey(event)] += count

    def failure(self, event: FlowEvent, task_type: str, note: Note | None) -> None:
        """Count a failed attempt. A deferral without a note counts as a plain event."""
        if note is None and event is FlowEvent.DEFERRED:
            self.add(event)
            return
        note = note or NO_NOTE
        self.counts[FlowKey(event, task_type, note.error_category, note.fingerprint)] += 1
        if note.fingerprint:
            self.groups.setdefault(note.fingerprint, (task_type, note))

    def dead_letters(self, event: FlowEvent, task_type: str, category: str, fingerprint: str, count: int = 1) -> None:
        """Count dead letters that were replayed or discarded."""
        self.counts[FlowKey(event, task_type, category, fingerprint)] += count


_HOUR, _DAY = 3600, 86400
_FINE_AGE = 2 * _HOUR + 1200  # the pulse reads two hours in steps of ten seconds
BREAKER_RETENTION = _DAY
"""Seconds for which breaker states of processes that report nothing are kept."""


class Rollup(NamedTuple):
    """Rows of a span that are older than `age` move to another span, or are deleted in its steps. In seconds."""

    flow: str
    span: int
    age: int
    into: int
    keep: bool


ROLLUPS = (
    Rollup("flow", 0, 10, 10, keep=True),
    Rollup("flow", 10, _FINE_AGE, 600, keep=True),
    Rollup("flow", 600, 8 * _DAY, _DAY, keep=True),
    Rollup("flow", _DAY, 90 * _DAY, _DAY, keep=False),  # the all-time totals already contain it
    Rollup("failure_flow", 10, _FINE_AGE, 600, keep=True),
    Rollup("failure_flow", 600, 8 * _DAY, 600, keep=False),
)


def event_totals(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the total of each event, including those that never happened."""
    totals = {str(event): 0 for event in FlowEvent}
    for event, count in rows:
        totals[event] += count
    return totals


def status_counts(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the number of tasks by status, and ``dead_letters``. Negative numbers become 0."""
    return {name: max(0, number) for name, number in raw_status_counts(rows).items()}


def raw_status_counts(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the number of tasks by status, and ``dead_letters``. Negative numbers mean wrong counters.

    Args:
        rows: Counts by event, and ``running`` and ``parked``, as the statement ``counts`` returns them.
    """
    totals = Counter[str]()
    for name, count in rows:
        totals[name] += count
    running, parked = totals["running"], totals["parked"]
    live = totals["enqueued"] + totals["replayed"] - totals["done"] - totals["failed"] - totals["cancelled"]
    dead = sum(totals[event] * sign for event, sign in DEAD_LETTER_CHANGE.items())
    counts = {
        Status.QUEUED: live - running - parked,
        Status.RUNNING: running,
        Status.PARKED: parked,
        Status.DONE: totals["done"] - totals["pruned_done"],
        Status.FAILED: dead,
        Status.CANCELLED: totals["cancelled"] - totals["pruned_cancelled"],
        Status.DISCARDED: totals["discarded"] - totals["pruned_discarded"],
    }
    return {str(status): number for status, number in counts.items()} | {"dead_letters": dead}


def format_cursor(value: int, fingerprint: str) -> str:
    """Return the end of a page of groups: the value of its order, and the fingerprint."""
    return f"{value}.{fingerprint}"


def parse_cursor(text: str | None) -> tuple[int, str] | None:
    """Parse the text of `format_cursor`; return None for the beginning and for invalid text."""
    value, dot, fingerprint = (text or "").partition(".")
    try:
        number = int(value) if dot else None
    except ValueError:
        return None
    return None if number is None or abs(number) > _MAX_BIGINT else (number, fingerprint)


def take_matching(walk: Iterable[tuple[T, bool]], limit: int, look: int) -> tuple[list[T], T | None, int]:
    """Take matching rows from a scan that reads at most `look` rows.

    Args:
        walk: Rows, each with whether it matches. One row more than needed is read to see whether there is one.
        limit: Maximum number of matches.
        look: Maximum number of rows to scan.

    Returns:
        The matches; the last scanned row, None if the scan is complete; and the number of scanned rows.
    """
    taken: list[T] = []
    last: T | None = None
    looked = 0
    for row, matches in walk:
        if len(taken) >= limit or looked >= look:
            return taken, last, looked
        last, looked = row, looked + 1
        if matches:
            taken.append(row)
    return taken, None, looked


def parse_pulse(text: str) -> Pulse:
    """Return the pulse from the JSON text of a store's status snapshot. Times in it are Unix seconds.

    Its members are the fields of `Pulse`, with these differences: ``totals`` (event and total), ``running`` and
    ``parked`` replace the counts; ``flow`` has rows of time, event, category and count; ``hours`` has rows of event,
    category, count of the last hour and count of the hour before; ``sources`` has rows of state and count; and
    ``changes`` has unordered rows with the fields of `Change`.
    """
    fields: dict[str, Any] = json.loads(text)
    hours = [(FlowEvent(event), category, last, before) for event, category, last, before in fields.pop("hours")]
    changes = sorted((Change(_to_datetime(at), *map(str, rest)) for at, *rest in fields.pop("changes")), reverse=True)
    counted = [*fields.pop("totals"), ("running", fields.pop("running")), ("parked", fields.pop("parked"))]
    flow = sorted(FlowPoint(_to_datetime(at), FlowEvent(event), *rest) for at, event, *rest in fields.pop("flow"))
    return Pulse(
        at=_to_datetime(fields.pop("at")),
        counts=status_counts(counted),
        flow=tuple(flow),
        last_hour={(event, category): last for event, category, last, _ in hours if last},
        hour_before={(event, category): before for event, category, _, before in hours if before},
        sources={str(state): 0 for state in SourceState} | dict(fields.pop("sources")),
        changes=tuple(changes[:MAX_CHANGES]),
        **fields,
    )


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


_LIVE_STATUSES = (Status.QUEUED, Status.RUNNING, Status.PARKED)
_END_EVENTS = (
    (Status.DONE, FlowEvent.DONE, FlowEvent.PRUNED_DONE),
    (Status.CANCELLED, FlowEvent.CANCELLED, FlowEvent.PRUNED_CANCELLED),
    (Status.DISCARDED, FlowEvent.DISCARDED, FlowEvent.PRUNED_DISCARDED),
)


class CounterAudit(NamedTuple):
    """Counters and rows of the same moment.

    Attributes:
        counted: Number of events by key, according to the counters.
        tasks: Number of tasks by status.
        dead_letters: Number of dead letters by task, category and fingerprint.
    """

    counted: Counter[FlowKey]
    tasks: dict[str, int]
    dead_letters: dict[tuple[str, str, str], int]


def read_audit(rows: Iterable[tuple[str, str, str, str, int]]) -> CounterAudit:
    """Parse rows of ``task``, ``dead_letter`` or ``event``, status or event, task type, category and count."""
    found = CounterAudit(Counter(), {}, {})
    for kind, name, task_type, category, count in rows:
        if kind == "task":
            found.tasks[name] = count
        elif kind == "dead_letter":
            found.dead_letters[task_type, category, ""] = count
        else:
            found.counted[FlowKey(FlowEvent(name), task_type, category)] = count
    return found


def missing_events(found: CounterAudit) -> Counter[FlowKey]:
    """Return the events to add to the counters. Numbers are positive: surplus tasks count as pruned or discarded."""
    more: Counter[FlowKey] = Counter()

    def total(event: FlowEvent) -> int:
        return sum(count for key, count in (*found.counted.items(), *more.items()) if key.event is event)

    for cause in {key[1:] for key in found.counted if key.event in DEAD_LETTER_CHANGE} | set(found.dead_letters):
        dead = sum(found.counted[FlowKey(event, *cause)] * sign for event, sign in DEAD_LETTER_CHANGE.items())
        lack = found.dead_letters.get(cause, 0) - dead
        more[FlowKey(FlowEvent.FAILED if lack > 0 else FlowEvent.DISCARDED, *cause)] += abs(lack)
    for status, event, pruned in _END_EVENTS:
        here = found.tasks.get(status, 0)
        lack = max(0, here + max(0, total(pruned)) - total(event))
        more[FlowKey(event)] += lack
        if event is FlowEvent.DISCARDED:  # it had failed before
            more[FlowKey(FlowEvent.FAILED)] += lack
        more[FlowKey(pruned)] += total(event) - here - total(pruned)
    live = total(FlowEvent.ENQUEUED) + total(FlowEvent.REPLAYED)
    live -= total(FlowEvent.DONE) + total(FlowEvent.FAILED) + total(FlowEvent.CANCELLED)
    lack = sum(found.tasks.get(status, 0) for status in _LIVE_STATUSES) - live
    if lack > 0:
        more[FlowKey(FlowEvent.ENQUEUED)] += lack
    else:
        more[FlowKey(FlowEvent.CANCELLED)] -= lack
        more[FlowKey(FlowEvent.PRUNED_CANCELLED)] -= lack
    return +more


def count_errors(found: CounterAudit, more: Counter[FlowKey], rebuilt: int) -> dict[str, int]:
    """Return the correction of each count that was wrong, and as ``rebuilt`` the number of rebuilt dead letters."""
    live = [("running", found.tasks.get(Status.RUNNING, 0)), ("parked", found.tasks.get(Status.PARKED, 0))]
    events = live + [(str(key.event), count) for key, count in found.counted.items()]
    before = raw_status_counts(events)
    after = raw_status_counts(events + [(str(key.event), count) for key, count in more.items()])
    wrong = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    return wrong | {"rebuilt": rebuilt} if rebuilt else wrong
