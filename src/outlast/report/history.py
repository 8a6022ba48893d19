"""The history of a task, from its rows to stretches of time: what waited for what, which attempt ran when.

The store keeps failed attempts and the last start. What lies between them follows from the waits that were decided,
and where more than one thing can have happened, the text says so.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from outlast.ports.rows import Attempt, Cooldown, Status, Task
from outlast.report.words import span

__all__ = ["Kind", "Stretch", "stretches_of"]

_MERGED = timedelta(seconds=1)  # a worker takes a task up so much after its time without anything having held it back
_LONGEST = 1e9  # seconds: a wait beyond the end of the calendar cannot be drawn


class Kind(StrEnum):
    """What a stretch of time is: an attempt, or a kind of waiting."""

    ATTEMPT = "attempt"
    QUEUE = "queue"
    SCHEDULED = "scheduled"
    BACKOFF = "backoff"
    HINT = "hint"
    COOLDOWN = "cooldown"
    DEFERRAL = "deferral"
    PARKED = "parked"
    HELD = "held"
    DEAD = "dead"


class Stretch(NamedTuple):
    """A part of a task's time.

    Attributes:
        kind: What it is.
        begin: When it began.
        end: When it ended; now for what goes on, a time to come for what is planned.
        text: What happened, for people.
        place: Of a failed attempt, its place among them, from 1; otherwise 0.
        number: Of an attempt, the number of its start; 0 for a wait.
        outcome: Of an attempt: ``retry``, ``fail``, ``lost``, ``done`` or ``running``; empty for a wait.
        planned: Whether it is still to come.
    """

    kind: Kind
    begin: datetime
    end: datetime
    text: str
    place: int = 0
    number: int = 0
    outcome: str = ""
    planned: bool = False

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end - self.begin).total_seconds()


def stretches_of(
    task: Task, attempts: Sequence[Attempt], now: datetime, cooldown: Cooldown | None = None
) -> list[Stretch]:
    """Return a task's time from its creation on, without gaps.

    Args:
        task: As it stands.
        attempts: Its failed attempts, oldest first.
        now: By the store's clock.
        cooldown: Of its resource, if that cools down.
    """
    stretches: list[Stretch] = []
    before: Attempt | None = None
    begin = task.created_at
    for place, attempt in enumerate(attempts, start=1):
        start = max(begin, attempt.started_at or attempt.finished_at)
        stretches += _gap(task, before, begin, start)
        end = max(start, attempt.finished_at)
        stretches.append(
            Stretch(Kind.ATTEMPT, start, end, _attempt_text(attempt), place, attempt.attempt, attempt.outcome)
        )
        before, begin = attempt, end
    stretches += _tail(task, before, begin, now, cooldown)
    return [stretch for stretch in stretches if stretch.kind is Kind.ATTEMPT or stretch.end > stretch.begin]


def _attempt_text(attempt: Attempt) -> str:
    if attempt.outcome == "lost":
        if attempt.error_type in {"", "WorkerLost"}:
            return "its worker died, or was silent for too long"
        return f"took down the process it ran in, alone ({attempt.error_type})"
    what = f"{attempt.error_category} ({attempt.error_type})" if attempt.error_type else attempt.error_category
    return f"failed for good: {what}" if attempt.outcome == "fail" else f"failed: {what}"


def _gap(task: Task, before: Attempt | None, begin: datetime, end: datetime) -> Iterator[Stretch]:
    """Yield the waits between two attempts, or before the first."""
    if before is None:
        yield from _first_wait(task, begin, end, known=False)
    elif before.outcome == "fail":
        yield Stretch(Kind.DEAD, begin, end, "was a dead letter, until it was replayed and begun again")
    elif before.delay is None:
        yield Stretch(Kind.QUEUE, begin, end, "was given back, and waited for a worker that runs it alone")
    else:
        yield from _decided(task, before, begin, end, max(begin, _due(before, before.delay)))


def _due(before: Attempt, delay: float) -> datetime:
    """Return when the attempt behind a failed one was due."""
    return before.finished_at + timedelta(seconds=min(max(delay, 0.0), _LONGEST))


def _decided(task: Task, before: Attempt, begin: datetime, end: datetime, due: datetime) -> Iterator[Stretch]:
    """Yield a wait that was decided when an attempt had failed, and what came behind it."""
    kind, why = _reason(before)
    if end < due - _MERGED:
        yield Stretch(kind, begin, end, f"{why}; it was to be {span(before.delay or 0.0)}, and was cut short by hand")
    elif end <= due + _MERGED:
        yield Stretch(kind, begin, end, why)
    else:
        yield Stretch(kind, begin, due, why)
        yield _ready(task, due, end)


def _reason(before: Attempt) -> tuple[Kind, str]:
    """Return why there was a wait behind an attempt: the policy's, or what the other side asked for."""
    asked = before.failure.get("retry_after")
    if isinstance(asked, int | float) and asked > 0 and (before.delay or 0.0) >= asked - 0.01:  # it is rounded
        return Kind.HINT, f"waited because the other side asked for {span(asked)}"
    return Kind.BACKOFF, "waited as its policy says (backoff)"


def _ready(task: Task, begin: datetime, end: datetime) -> Stretch:
    """Return a wait of a task whose time had come."""
    if task.deferrals:
        text = f"waited for a worker, or was put off without an attempt spent (in all {_times(task.deferrals)})"
        return Stretch(Kind.DEFERRAL, begin, end, text)
    return Stretch(Kind.QUEUE, begin, end, "was ready, and waited for a worker")


def _first_wait(task: Task, begin: datetime, end: datetime, *, known: bool) -> Iterator[Stretch]:
    """Yield the waits before the first attempt; when it was due is only known as long as none has failed."""
    due = min(max(begin, task.next_run_after), end) if known else begin
    if known and task.deferrals:
        due = begin
    if due - begin > _MERGED:
        yield Stretch(Kind.SCHEDULED, begin, due, "waited for the time it was scheduled for")
        begin = due
    yield _ready(task, begin, end)


def _tail(
    task: Task, before: Attempt | None, begin: datetime, now: datetime, cooldown: Cooldown | None
) -> Iterator[Stretch]:
    """Yield what came behind the last failed attempt, as the task stands."""
    match task.status:
        case Status.QUEUED:
            yield from _queued(task, before, begin, max(now, begin), cooldown)
        case Status.PARKED:
            yield Stretch(Kind.PARKED, begin, max(now, begin), "is parked: no worker knows a task of its name")
        case Status.RUNNING if task.started_at is None:
            claimed = max(begin, task.updated_at)
            yield from _last_gap(task, before, begin, claimed)
            yield Stretch(Kind.HELD, claimed, max(now, claimed), "is in a worker's hands, not begun yet")
        case Status.RUNNING | Status.DONE:
            end = task.finished_at or now
            start = max(begin, task.started_at or end)
            done = task.status is Status.DONE
            yield from _last_gap(task, before, begin, start)
            text, outcome = ("succeeded", "done") if done else ("is running", "running")
            yield Stretch(Kind.ATTEMPT, start, max(start, end), text, 0, task.attempt, outcome)
        case Status.CANCELLED:
            yield from _last_gap(task, before, begin, max(begin, task.finished_at or begin))
        case Status.DISCARDED:
            end = max(begin, task.finished_at or begin)
            yield Stretch(Kind.DEAD, begin, end, "was a dead letter, until it was discarded")
        case Status.FAILED:
            return


def _last_gap(task: Task, before: Attempt | None, begin: datetime, end: datetime) -> Iterator[Stretch]:
    if before is None:
        return _first_wait(task, begin, end, known=True)
    return _gap(task, before, begin, end)


def _queued(
    task: Task, before: Attempt | None, begin: datetime, now: datetime, cooldown: Cooldown | None
) -> Iterator[Stretch]:
    """Yield what a task waits for: up to now, and from now on."""
    due = max(begin, task.next_run_after)
    if cooldown is not None and due <= cooldown.until + _MERGED:
        due, kind, text = max(due, cooldown.until), Kind.COOLDOWN, "waits for its resource to cool down"
    else:
        kind, text = _waits_for(task, before, due, now)
    if due <= now:
        yield Stretch(kind, begin, due, text)
        yield Stretch(Kind.QUEUE, due, now, "is ready, and waits for a worker")
    else:
        yield Stretch(kind, begin, now, text)
        yield Stretch(kind, now, due, "still to wait", planned=True)


def _waits_for(task: Task, before: Attempt | None, due: datetime, now: datetime) -> tuple[Kind, str]:
    """Return what a task waits for until it is due, and that in words."""
    if before is not None and before.delay is not None:
        decided = _due(before, before.delay)
        if due <= decided + _MERGED:
            kind, text = _reason(before)
            return kind, text if due >= decided - _MERGED else f"{text}; it was cut short by hand"
    if task.deferrals and (due > now or before is None):
        return Kind.DEFERRAL, f"was put off without an attempt spent ({_times(task.deferrals)})"
    if before is None:
        return Kind.SCHEDULED, "waits for the time it is scheduled for" if due > now else "waited for its time"
    if before.outcome == "fail":
        return Kind.DEAD, "was a dead letter, until it was replayed"
    return Kind.QUEUE, "was given back, and waits for a worker that runs it alone"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
