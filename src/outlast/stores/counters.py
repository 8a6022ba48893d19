"""The books of a queue, as far as no database is needed: what is counted, and what is made of it. Pure.

A delta is written in the transaction of what it tells of. Each failed attempt is in one of `FAILURES` and in no second
one: a task that a lost worker made a dead letter is ``failed`` and not ``lost`` too.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from outlast.decide.source_health import SourceState
from outlast.ports.read_rows import Change, FlowEvent, FlowPoint, Pulse
from outlast.ports.rows import Note, Status

T = TypeVar("T")

OBSERVED = tuple(event for event in FlowEvent if event.startswith("would_"))
"""What would have happened in programs that only observe; no task is concerned."""
FAILURES = (FlowEvent.RETRIED, FlowEvent.DEFERRED, FlowEvent.LOST, FlowEvent.FAILED, *OBSERVED)
"""What makes up the failures of a group."""
DEAD_LETTER_CHANGE = {FlowEvent.FAILED: 1, FlowEvent.REPLAYED: -1, FlowEvent.DISCARDED: -1}
"""What each does to the number of dead letters."""
NO_NOTE = Note("", "", "unknown", "", "{}")
"""Stands for a failure that nobody described."""
_MAX_BIGINT = 2**63 - 1  # what both databases hold
MAX_CHANGES = 50
"""Changes that a pulse tells of at most."""


class FlowKey(NamedTuple):
    """What is counted together. Successes and what is enqueued have no more than the event."""

    event: FlowEvent
    task_type: str = ""
    category: str = ""
    fingerprint: str = ""


class CounterDelta:
    """What one transaction adds to the books.

    Attributes:
        counts: How often each happened.
        groups: The first failure of each cause, as its task and its note; its group is made if it is not known.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.counts: Counter[FlowKey] = Counter()
        self.groups: dict[str, tuple[str, Note]] = {}

    def add(self, event: FlowEvent, count: int = 1) -> None:
        """Count what needs no more than its name."""
        if count:
            self.counts[FlowKey(event)] += count

    def failure(self, event: FlowEvent, task_type: str, note: Note | None) -> None:
        """Count a failed attempt. One that was put off without a failure is a mere event."""
        if note is None and event is FlowEvent.DEFERRED:
            self.add(event)
            return
        told = note or NO_NOTE
        self.counts[FlowKey(event, task_type, told.error_category, told.fingerprint)] += 1
        if told.fingerprint:
            self.groups.setdefault(told.fingerprint, (task_type, told))

    def letter(self, event: FlowEvent, task_type: str, category: str, fingerprint: str, count: int = 1) -> None:
        """Count dead letters that were replayed or discarded."""
        self.counts[FlowKey(event, task_type, category, fingerprint)] += count


def event_totals(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return how often each event happened, all of them named."""
    totals = {str(event): 0 for event in FlowEvent}
    for event, count in rows:
        totals[event] += count
    return totals


def status_counts(totals: Mapping[str, int], running: int, parked: int) -> dict[str, int]:
    """Return how many tasks there are of each status, and ``dead_letters``; of nothing less than none."""
    return {name: max(0, number) for name, number in raw_status_counts(totals, running, parked).items()}


def raw_status_counts(totals: Mapping[str, int], running: int, parked: int) -> dict[str, int]:
    """Return the same as the books have it: one that is less than none is wrong."""
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


def window_start(now: float, window: float, step: float) -> float:
    """Return when the first step of a window begins: steps begin at whole multiples, and none is cut."""
    return (now - window) // step * step


def format_cursor(value: int, fingerprint: str) -> str:
    """Return where a page of groups ends: the value it is ordered by, and the group."""
    return f"{value}.{fingerprint}"


def parse_cursor(text: str | None) -> tuple[int, str] | None:
    """Read what `place` made; None for the beginning, also where somebody made something else of it."""
    value, dot, fingerprint = (text or "").partition(".")
    try:
        number = int(value) if dot else None
    except ValueError:
        return None
    return None if number is None or abs(number) > _MAX_BIGINT else (number, fingerprint)


def take_matching(walk: Iterable[tuple[T, bool]], limit: int, look: int) -> tuple[list[T], T | None, int]:
    """Take what fits from a walk along an order, which looks at no more rows than told.

    Args:
        walk: Rows, each with whether it fits. No more of it is read than needed, and one to see whether there is more.
        limit: How many are wanted.
        look: How many are looked at.

    Returns:
        What fits; the last row that was looked at, None where there are no more; and how many were looked at.
    """
    taken: list[T] = []
    last: T | None = None
    looked = 0
    for row, fits in walk:
        if len(taken) >= limit or looked >= look:
            return taken, last, looked
        last, looked = row, looked + 1
        if fits:
            taken.append(row)
    return taken, None, looked


def parse_pulse(text: str) -> Pulse:
    """Return a pulse from the one JSON value that the statement of a store gives; times in it are seconds.

    Its members are the fields of `Pulse`, with these differences: ``totals`` (event and how often, ever), ``running``
    and ``parked`` stand for the counts; ``flow`` has rows of time, event, category and count; ``hours`` has rows of
    event, category, count of the last hour and count of the one before; ``sources`` has rows of state and count; and
    ``changes`` has rows in the order of `Change`, in any order.
    """
    told: dict[str, Any] = json.loads(text)
    hours = [(FlowEvent(event), category, last, before) for event, category, last, before in told.pop("hours")]
    changes = sorted((Change(_to_datetime(at), *map(str, rest)) for at, *rest in told.pop("changes")), reverse=True)
    flow = sorted(FlowPoint(_to_datetime(at), FlowEvent(event), *rest) for at, event, *rest in told.pop("flow"))
    return Pulse(
        at=_to_datetime(told.pop("at")),
        counts=status_counts(event_totals(told.pop("totals")), told.pop("running"), told.pop("parked")),
        flow=tuple(flow),
        last_hour={(event, category): last for event, category, last, _ in hours if last},
        hour_before={(event, category): before for event, category, _, before in hours if before},
        sources={str(state): 0 for state in SourceState} | dict(told.pop("sources")),
        changes=tuple(changes[:MAX_CHANGES]),
        **told,
    )


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def counted_statuses(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return how many tasks there are of each status by the books, from the rows of the query ``counts``.

    One that is less than none is told as it is: who asks wants to see what is wrong.
    """
    totals, live = [], {"running": 0, "parked": 0}
    for name, count in rows:
        if name in live:
            live[name] = count
        else:
            totals.append((name, count))
    return raw_status_counts(event_totals(totals), live["running"], live["parked"])


# What has to be added to the books so that they tell what is really there. Pure.

_LIVE_STATUSES = (Status.QUEUED, Status.RUNNING, Status.PARKED)
_END_EVENTS = (
    (Status.DONE, FlowEvent.DONE, FlowEvent.PRUNED_DONE),
    (Status.CANCELLED, FlowEvent.CANCELLED, FlowEvent.PRUNED_CANCELLED),
    (Status.DISCARDED, FlowEvent.DISCARDED, FlowEvent.PRUNED_DISCARDED),
)


class CounterAudit(NamedTuple):
    """The books and what is there, of one moment.

    Attributes:
        booked: How often each happened, by the books.
        tasks: How many tasks there are of each status.
        letters: How many dead letters there are of each task, category and cause.
    """

    booked: Counter[FlowKey]
    tasks: dict[str, int]
    letters: dict[tuple[str, str, str], int]


def read_audit(rows: Iterable[tuple[str, str, str, str, int]]) -> CounterAudit:
    """Read what the statement of a store gives: ``task``, ``letter`` or ``booked``, what, task, category and count."""
    found = CounterAudit(Counter(), {}, {})
    for kind, name, task_type, category, count in rows:
        if kind == "task":
            found.tasks[name] = count
        elif kind == "letter":
            found.letters[task_type, category, ""] = count
        else:
            found.booked[FlowKey(FlowEvent(name), task_type, category)] = count
    return found


def missing_events(found: CounterAudit) -> Counter[FlowKey]:
    """Return what the books lack. Nothing is negative: what they have too much of is taken for pruned or discarded."""
    more: Counter[FlowKey] = Counter()

    def total(event: FlowEvent) -> int:
        return sum(count for key, count in (*found.booked.items(), *more.items()) if key.event is event)

    for cause in {key[1:] for key in found.booked if key.event in DEAD_LETTER_CHANGE} | set(found.letters):
        dead = sum(found.booked[FlowKey(event, *cause)] * sign for event, sign in DEAD_LETTER_CHANGE.items())
        lack = found.letters.get(cause, 0) - dead
        more[FlowKey(FlowEvent.FAILED if lack > 0 else FlowEvent.DISCARDED, *cause)] += abs(lack)
    for status, event, pruned in _END_EVENTS:
        here = found.tasks.get(status, 0)
        lack = max(0, here + max(0, total(pruned)) - total(event))
        more[FlowKey(event)] += lack
        if event is FlowEvent.DISCARDED:  # had failed before
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
    """Return by how much each count was wrong, nothing for those that were right; and how many letters were rebuilt."""
    running, parked = found.tasks.get(Status.RUNNING, 0), found.tasks.get(Status.PARKED, 0)
    booked = [(key.event, count) for key, count in found.booked.items()]
    before = raw_status_counts(event_totals(booked), running, parked)
    booked += [(key.event, count) for key, count in more.items()]
    after = raw_status_counts(event_totals(booked), running, parked)
    wrong = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    return wrong | {"rebuilt": rebuilt} if rebuilt else wrong
