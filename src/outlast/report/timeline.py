"""The time of a task, drawn to scale: each attempt, and each wait with what it waited for.

A tenth of a second beside an hour could not be seen, so an attempt has a least width. A wait that is very much longer
than all that happens around it would crush the rest, so it is cut, and marked as cut.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from outlast.ports.rows import Attempt, Cooldown, Status, Task
from outlast.report.text_format import counted, span

# The history of a task, from its rows to stretches of time: what waited for what, which attempt ran when.
#
# The store keeps failed attempts and the last start. What lies between them follows from the waits that were decided,
# and where more than one thing can have happened, the text says so.

_TOLERANCE = timedelta(
    seconds=1
)  # a worker takes a task up so much after its time without anything having held it back
_MAX_WAIT = 1e9  # seconds: a wait beyond the end of the calendar cannot be drawn


class IntervalKind(StrEnum):
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


class TaskInterval(NamedTuple):
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

    kind: IntervalKind
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


def task_intervals(
    task: Task, attempts: Sequence[Attempt], now: datetime, cooldown: Cooldown | None = None
) -> list[TaskInterval]:
    """Return a task's time from its creation on, without gaps.

    Args:
        task: As it stands.
        attempts: Its failed attempts, oldest first.
        now: By the store's clock.
        cooldown: Of its resource, if that cools down.
    """
    stretches: list[TaskInterval] = []
    before: Attempt | None = None
    begin = task.created_at
    for place, attempt in enumerate(attempts, start=1):
        start = max(begin, attempt.started_at or attempt.finished_at)
        stretches += _wait_intervals(task, before, begin, start)
        end = max(start, attempt.finished_at)
        stretches.append(
            TaskInterval(
                IntervalKind.ATTEMPT, start, end, _attempt_text(attempt), place, attempt.attempt, attempt.outcome
            )
        )
        before, begin = attempt, end
    stretches += _last_intervals(task, before, begin, now, cooldown)
    return [stretch for stretch in stretches if stretch.kind is IntervalKind.ATTEMPT or stretch.end > stretch.begin]


def _attempt_text(attempt: Attempt) -> str:
    if attempt.outcome == "lost":
        if attempt.error_type in {"", "WorkerLost"}:
            return "its worker died, or was silent for too long"
        return f"took down the process it ran in, alone ({attempt.error_type})"
    what = f"{attempt.error_category} ({attempt.error_type})" if attempt.error_type else attempt.error_category
    return f"failed for good: {what}" if attempt.outcome == "fail" else f"failed: {what}"


def _wait_intervals(task: Task, before: Attempt | None, begin: datetime, end: datetime) -> Iterator[TaskInterval]:
    """Yield the waits between two attempts, or before the first."""
    if before is None:
        yield from _first_wait(task, begin, end, known=False)
    elif before.outcome == "fail":
        yield TaskInterval(IntervalKind.DEAD, begin, end, "was a dead letter, until it was replayed and begun again")
    elif before.delay is None:
        yield TaskInterval(IntervalKind.QUEUE, begin, end, "was given back, and waited for a worker that runs it alone")
    else:
        yield from _decided_wait(task, before, begin, end, max(begin, _due_time(before, before.delay)))


def _due_time(before: Attempt, delay: float) -> datetime:
    """Return when the attempt behind a failed one was due."""
    return before.finished_at + timedelta(seconds=min(max(delay, 0.0), _MAX_WAIT))


def _decided_wait(task: Task, before: Attempt, begin: datetime, end: datetime, due: datetime) -> Iterator[TaskInterval]:
    """Yield a wait that was decided when an attempt had failed, and what came behind it."""
    kind, why = _wait_reason(before)
    if end < due - _TOLERANCE:
        yield TaskInterval(
            kind, begin, end, f"{why}; it was to be {span(before.delay or 0.0)}, and was cut short by hand"
        )
    elif end <= due + _TOLERANCE:
        yield TaskInterval(kind, begin, end, why)
    else:
        yield TaskInterval(kind, begin, due, why)
        yield _ready_interval(task, due, end)


def _wait_reason(before: Attempt) -> tuple[IntervalKind, str]:
    """Return why there was a wait behind an attempt: the policy's, or what the other side asked for."""
    asked = before.failure.get("retry_after")
    if isinstance(asked, int | float) and asked > 0 and (before.delay or 0.0) >= asked - 0.01:  # it is rounded
        return IntervalKind.HINT, f"waited because the other side asked for {span(asked)}"
    return IntervalKind.BACKOFF, "waited as its policy says (backoff)"


def _ready_interval(task: Task, begin: datetime, end: datetime) -> TaskInterval:
    """Return a wait of a task whose time had come."""
    if task.deferrals:
        text = f"waited for a worker, or was put off without an attempt spent (in all {_times(task.deferrals)})"
        return TaskInterval(IntervalKind.DEFERRAL, begin, end, text)
    return TaskInterval(IntervalKind.QUEUE, begin, end, "was ready, and waited for a worker")


def _first_wait(task: Task, begin: datetime, end: datetime, *, known: bool) -> Iterator[TaskInterval]:
    """Yield the waits before the first attempt; when it was due is only known as long as none has failed."""
    due = min(max(begin, task.next_run_after), end) if known else begin
    if known and task.deferrals:
        due = begin
    if due - begin > _TOLERANCE:
        yield TaskInterval(IntervalKind.SCHEDULED, begin, due, "waited for the time it was scheduled for")
        begin = due
    yield _ready_interval(task, begin, end)


def _last_intervals(
    task: Task, before: Attempt | None, begin: datetime, now: datetime, cooldown: Cooldown | None
) -> Iterator[TaskInterval]:
    """Yield what came behind the last failed attempt, as the task stands."""
    match task.status:
        case Status.QUEUED:
            yield from _queued_intervals(task, before, begin, max(now, begin), cooldown)
        case Status.PARKED:
            yield TaskInterval(
                IntervalKind.PARKED, begin, max(now, begin), "is parked: no worker knows a task of its name"
            )
        case Status.RUNNING if task.started_at is None:
            claimed = max(begin, task.updated_at)
            yield from _last_wait(task, before, begin, claimed)
            yield TaskInterval(IntervalKind.HELD, claimed, max(now, claimed), "is in a worker's hands, not begun yet")
        case Status.RUNNING | Status.DONE:
            end = task.finished_at or now
            start = max(begin, task.started_at or end)
            done = task.status is Status.DONE
            yield from _last_wait(task, before, begin, start)
            text, outcome = ("succeeded", "done") if done else ("is running", "running")
            yield TaskInterval(IntervalKind.ATTEMPT, start, max(start, end), text, 0, task.attempt, outcome)
        case Status.CANCELLED:
            yield from _last_wait(task, before, begin, max(begin, task.finished_at or begin))
        case Status.DISCARDED:
            end = max(begin, task.finished_at or begin)
            yield TaskInterval(IntervalKind.DEAD, begin, end, "was a dead letter, until it was discarded")
        case Status.FAILED:
            return


def _last_wait(task: Task, before: Attempt | None, begin: datetime, end: datetime) -> Iterator[TaskInterval]:
    if before is None:
        return _first_wait(task, begin, end, known=True)
    return _wait_intervals(task, before, begin, end)


def _queued_intervals(
    task: Task, before: Attempt | None, begin: datetime, now: datetime, cooldown: Cooldown | None
) -> Iterator[TaskInterval]:
    """Yield what a task waits for: up to now, and from now on."""
    due = max(begin, task.next_run_after)
    if cooldown is not None and due <= cooldown.until + _TOLERANCE:
        due, kind, text = max(due, cooldown.until), IntervalKind.COOLDOWN, "waits for its resource to cool down"
    else:
        kind, text = _current_wait(task, before, due, now)
    if due <= now:
        yield TaskInterval(kind, begin, due, text)
        yield TaskInterval(IntervalKind.QUEUE, due, now, "is ready, and waits for a worker")
    else:
        yield TaskInterval(kind, begin, now, text)
        yield TaskInterval(kind, now, due, "still to wait", planned=True)


def _current_wait(task: Task, before: Attempt | None, due: datetime, now: datetime) -> tuple[IntervalKind, str]:
    """Return what a task waits for until it is due, and that in words."""
    if before is not None and before.delay is not None:
        decided = _due_time(before, before.delay)
        if due <= decided + _TOLERANCE:
            kind, text = _wait_reason(before)
            return kind, text if due >= decided - _TOLERANCE else f"{text}; it was cut short by hand"
    if task.deferrals and (due > now or before is None):
        return IntervalKind.DEFERRAL, f"was put off without an attempt spent ({_times(task.deferrals)})"
    if before is None:
        return IntervalKind.SCHEDULED, "waits for the time it is scheduled for" if due > now else "waited for its time"
    if before.outcome == "fail":
        return IntervalKind.DEAD, "was a dead letter, until it was replayed"
    return IntervalKind.QUEUE, "was given back, and waits for a worker that runs it alone"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


MAX_ATTEMPTS_DRAWN = 25
"""Attempts that are drawn, the last ones."""

_WIDTH = 100.0  # percent
_MIN_ATTEMPT_WIDTH, _MIN_WAIT_WIDTH = 1.2, 0.3  # percent
_MAX_MINIMUM_WIDTHS = 60.0  # percent that least widths may take in all, however many there are
_CUT_FROM = 20.0  # times the longest stretch that is kept
_CRUSHED_SHARE = 0.1  # of the whole: what is kept and would take more than that is not crushed
_CUT_TO = 3.0  # times all that is kept, for those that are cut together
_LONG_ATTEMPT = 10.0  # seconds from which the length of an attempt is worth seeing
_LABEL_WIDTH, _NUMBER_WIDTH = 9.0, 3.5  # percent that a text needs


class Segment(NamedTuple):
    """A stretch as it is drawn.

    Attributes:
        kind: What it is.
        begin: When it began.
        end: When it ended or is to end.
        text: What happened, for people.
        place: Of a failed attempt, its place among all of them, from 1; otherwise 0.
        number: Of an attempt, the number of its start; otherwise 0.
        outcome: Of an attempt: ``retry``, ``fail``, ``lost``, ``done`` or ``running``.
        planned: Whether it is still to come.
        seconds: How long it really is.
        x: Where it begins, in percent of the width.
        width: In percent.
        cut: Whether it is drawn shorter than it is.
        label: Text that has room beside it: the number of an attempt, the length of a wait; or empty.
        told: The whole of it in one sentence.
    """

    kind: IntervalKind
    begin: datetime
    end: datetime
    text: str
    place: int
    number: int
    outcome: str
    planned: bool
    seconds: float
    x: float
    width: float
    cut: bool
    label: str
    told: str


class Timeline(NamedTuple):
    """A task's time.

    Attributes:
        segments: From the oldest on, without gaps.
        begin: Where it begins.
        end: Where it ends; a time to come where something is planned.
        now: Where the present is, in percent, where something is planned behind it; otherwise None.
        left_out: Attempts that are too many to be drawn, the oldest.
        summary: How it went, in one sentence.
        scale: What to know of the scale, in one sentence.
    """

    segments: tuple[Segment, ...]
    begin: datetime
    end: datetime
    now: float | None
    left_out: int
    summary: str
    scale: str


def timeline(task: Task, attempts: Sequence[Attempt], now: datetime, cooldown: Cooldown | None = None) -> Timeline:
    """Return a task's time, to scale.

    Args:
        task: As it stands.
        attempts: Its failed attempts, oldest first.
        now: By the store's clock.
        cooldown: Of its resource, if that cools down.
    """
    stretches = task_intervals(task, attempts, now, cooldown)
    summary = _summary(task, attempts, stretches, now)
    places = [index for index, stretch in enumerate(stretches) if stretch.kind is IntervalKind.ATTEMPT]
    left_out = max(0, len(places) - MAX_ATTEMPTS_DRAWN)
    if left_out:
        stretches = stretches[places[left_out - 1] + 1 :]
    cut = _cut_length(stretches)
    widths = _widths(stretches, cut)
    segments = tuple(_draw_segments(stretches, widths, cut))
    planned = [segment.x for segment in segments if segment.planned]
    begin, end = (stretches[0].begin, stretches[-1].end) if stretches else (task.created_at, task.created_at)
    return Timeline(
        segments, begin, end, planned[0] if planned else None, left_out, summary, _scale(segments, widths, stretches)
    )


def _is_significant(stretch: TaskInterval) -> bool:
    """Tell whether a stretch is what people come to see: waits between attempts, and attempts that took their time."""
    if stretch.kind is IntervalKind.ATTEMPT:
        return stretch.seconds >= _LONG_ATTEMPT
    return stretch.kind in {IntervalKind.BACKOFF, IntervalKind.HINT}


def _cut_length(stretches: list[TaskInterval]) -> float | None:
    """Return the length from which stretches are cut; None where everything can be drawn as it is.

    It stands where lengths jump: what is longer is many times as long as all below it that tells the story, and would
    crush it.
    """
    lengths = sorted(stretch.seconds for stretch in stretches)
    least = min((stretch.seconds for stretch in stretches if _is_significant(stretch)), default=None)
    if not least:
        return None
    for place, (longest, longer) in enumerate(pairwise(lengths), start=1):
        jumps = longest >= least and longer >= longest * _CUT_FROM
        if jumps and sum(lengths[:place]) < sum(lengths) * _CRUSHED_SHARE:
            return longer
    return None


def _widths(stretches: list[TaskInterval], cut: float | None) -> list[float]:
    """Return how wide each stretch is, in percent: in proportion, but none below its least."""
    if not stretches:
        return []
    lengths = [stretch.seconds for stretch in stretches]
    if cut is not None:
        kept = [length for length in lengths if length < cut]
        most = max(2 * max(kept), _CUT_TO * sum(kept) / (len(lengths) - len(kept)))
        lengths = [min(length, most) if length >= cut else length for length in lengths]
    least = [_MIN_ATTEMPT_WIDTH if stretch.kind is IntervalKind.ATTEMPT else _MIN_WAIT_WIDTH for stretch in stretches]
    if sum(least) > _MAX_MINIMUM_WIDTHS:
        least = [each * _MAX_MINIMUM_WIDTHS / sum(least) for each in least]
    return _share_width(lengths, least)


def _share_width(lengths: list[float], least: list[float]) -> list[float]:
    """Share the width out in proportion to lengths, after what would get less than its least has got that."""
    small: set[int] = set()
    while True:
        free = _WIDTH - sum(least[index] for index in small)
        whole = sum(length for index, length in enumerate(lengths) if index not in small)
        more = {
            index
            for index, length in enumerate(lengths)
            if index not in small and (whole <= 0 or length * free / whole < least[index])
        }
        if not more:
            return [least[index] if index in small else length * free / whole for index, length in enumerate(lengths)]
        small |= more
        if len(small) == len(lengths):
            return [each * _WIDTH / sum(least) for each in least]


def _draw_segments(stretches: list[TaskInterval], widths: list[float], cut: float | None) -> list[Segment]:
    drawn: list[Segment] = []
    x, free = 0.0, -_WIDTH  # where the next number of an attempt has room
    for stretch, width in zip(stretches, widths, strict=True):
        is_cut = cut is not None and stretch.seconds >= cut
        label = ""
        if stretch.kind is IntervalKind.ATTEMPT:
            middle = x + width / 2
            if middle - free >= _NUMBER_WIDTH:
                label, free = str(stretch.number), middle
        elif width >= _LABEL_WIDTH:
            label = span(stretch.seconds)
        at, wide = round(x, 2), round(width, 2)
        drawn.append(Segment(*stretch, stretch.seconds, at, wide, is_cut, label, _segment_text(stretch)))
        x += width
    return drawn


def _segment_text(stretch: TaskInterval) -> str:
    long = span(stretch.seconds)
    if stretch.kind is IntervalKind.ATTEMPT:
        after = f", after {long}" if stretch.seconds else ""  # else its start is not known
        return f"attempt {stretch.number}: {stretch.text}{after}" if stretch.outcome else stretch.text
    return f"{stretch.text}: {long}"


_END_TEXTS = {
    Status.DONE: "done",
    Status.FAILED: "a dead letter",
    Status.CANCELLED: "cancelled",
    Status.DISCARDED: "discarded",
}


def _summary(task: Task, attempts: Sequence[Attempt], stretches: list[TaskInterval], now: datetime) -> str:
    """Return how it went: the end, the whole time, and how much of it was work."""
    over = task.status in _END_TEXTS
    end = max([stretch.end for stretch in stretches], default=task.created_at) if over else now
    whole = max(0.0, (end - task.created_at).total_seconds())
    head = f"{_END_TEXTS[task.status]} after {span(whole)}" if over else f"{span(whole)} so far"
    if all(stretch.kind is not IntervalKind.ATTEMPT for stretch in stretches):
        return f"{head}, nothing but waiting"
    work = sum(stretch.seconds for stretch in stretches if stretch.kind is IntervalKind.ATTEMPT)
    tried = counted(len(attempts), "failed attempt") if attempts else "no attempt failed"
    worked = f", {span(work)} of work" if work else ""  # else no start is known
    return f"{head}: {tried}{worked}, {span(max(0.0, whole - work))} of waiting"


def _scale(segments: tuple[Segment, ...], widths: list[float], stretches: list[TaskInterval]) -> str:
    """Return what a reader has to know of the scale."""
    cut = sum(segment.cut for segment in segments)
    if cut:
        which = "one part is" if cut == 1 else f"{cut} parts are"
        return f"To scale, but {which} cut (//): drawn shorter, so that the rest can be seen."
    whole = sum(stretch.seconds for stretch in stretches)
    widened = any(
        stretch.kind is IntervalKind.ATTEMPT and stretch.seconds * _WIDTH < width * whole * 0.9
        for stretch, width in zip(stretches, widths, strict=True)
    )
    return "To scale; attempts too short to be seen are drawn wider." if widened else "To scale."
