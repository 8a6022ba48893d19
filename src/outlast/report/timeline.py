"""The timeline of a task, drawn to scale: each attempt, and each wait with its reason.

An attempt has a minimum width, because a tenth of a second would be invisible beside an hour. A wait that is much
longer than everything else is cut short and marked as cut.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from outlast.ports.rows import Attempt, Cooldown, Status, Task
from outlast.report.text_format import counted
from outlast.units import span

# The store only keeps failed attempts and the last start. The intervals between them follow from the decided waits;
# where more than one thing may have happened, the text says so.

_TOLERANCE = timedelta(seconds=1)  # normal delay between the time a task is due and its claim
_MAX_WAIT = 1e9  # seconds; a wait beyond the end of the calendar cannot be drawn


class IntervalKind(StrEnum):
    """What an interval is: an attempt, or a kind of wait."""

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
    """An interval of a task's time.

    Attributes:
        kind: What it is.
        begin: When it began.
        end: When it ended; now if it goes on, a future time if it is planned.
        text: What happened, in words.
        place: Position among the failed attempts, from 1; otherwise 0.
        number: Number of the start of an attempt; 0 for a wait.
        outcome: Of an attempt: ``retry``, ``fail``, ``lost``, ``done`` or ``running``; empty for a wait.
        planned: Whether it is in the future.
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
        """Its length in seconds."""
        return (self.end - self.begin).total_seconds()


def task_intervals(
    task: Task, attempts: Sequence[Attempt], now: datetime, cooldown: Cooldown | None = None
) -> list[TaskInterval]:
    """Return a task's intervals since its creation, without gaps.

    Args:
        task: The task.
        attempts: Its failed attempts, oldest first.
        now: The store's time.
        cooldown: The cooldown of its resource, if there is one.
    """
    intervals: list[TaskInterval] = []
    before: Attempt | None = None
    begin = task.created_at
    for place, attempt in enumerate(attempts, start=1):
        start = max(begin, attempt.started_at or attempt.finished_at)
        intervals += _wait_intervals(task, before, begin, start, is_last=False)
        end = max(start, attempt.finished_at)
        intervals.append(
            TaskInterval(
                IntervalKind.ATTEMPT, start, end, _attempt_text(attempt), place, attempt.attempt, attempt.outcome
            )
        )
        before, begin = attempt, end
    intervals += _last_intervals(task, before, begin, now, cooldown)
    return [each for each in intervals if each.kind is IntervalKind.ATTEMPT or each.end > each.begin]


def _attempt_text(attempt: Attempt) -> str:
    if attempt.outcome == "lost":
        if attempt.error_type in {"", "WorkerLost"}:
            return "its worker died or missed its heartbeats"
        return f"crashed its process, in which it ran alone ({attempt.error_type})"
    what = f"{attempt.error_category} ({attempt.error_type})" if attempt.error_type else attempt.error_category
    return f"failed for good: {what}" if attempt.outcome == "fail" else f"failed: {what}"


def _wait_intervals(
    task: Task, before: Attempt | None, begin: datetime, end: datetime, *, is_last: bool = True
) -> Iterator[TaskInterval]:
    """Yield the waits between two attempts, or before the first one."""
    if before is None:
        yield from _first_wait(task, begin, end, known=is_last)
    elif before.outcome == "fail":
        yield TaskInterval(IntervalKind.DEAD, begin, end, "was a dead letter until it was replayed and started again")
    elif before.delay is None:
        yield TaskInterval(IntervalKind.QUEUE, begin, end, "was queued again and waited for a worker to run it alone")
    else:
        due = max(begin, _due_time(before, before.delay))
        kind, why = _wait_reason(before)
        if end < due - _TOLERANCE:
            yield TaskInterval(kind, begin, end, f"{why}; planned for {span(before.delay)}, and cut short by hand")
        elif end <= due + _TOLERANCE:
            yield TaskInterval(kind, begin, end, why)
        else:
            yield TaskInterval(kind, begin, due, why)
            yield _ready_interval(task, due, end)


def _due_time(before: Attempt, delay: float) -> datetime:
    """Return when the attempt after a failed one was due."""
    return before.finished_at + timedelta(seconds=min(max(delay, 0.0), _MAX_WAIT))


def _wait_reason(before: Attempt) -> tuple[IntervalKind, str]:
    """Return why there was a wait after an attempt: the policy's backoff, or a wait that the server asked for."""
    retry_after = before.failure.get("retry_after")
    rounding = 0.01  # of stored delays
    if isinstance(retry_after, int | float) and 0 < retry_after <= (before.delay or 0.0) + rounding:
        return IntervalKind.HINT, f"waited because the server asked for {span(retry_after)}"
    return IntervalKind.BACKOFF, "waited for the backoff of its policy"


def _ready_interval(task: Task, begin: datetime, end: datetime) -> TaskInterval:
    """Return the wait of a task that was due."""
    if task.deferrals:
        text = f"waited for a worker, or was deferred without spending an attempt ({_times(task.deferrals)} in total)"
        return TaskInterval(IntervalKind.DEFERRAL, begin, end, text)
    return TaskInterval(IntervalKind.QUEUE, begin, end, "was ready and waited for a worker")


def _first_wait(task: Task, begin: datetime, end: datetime, *, known: bool) -> Iterator[TaskInterval]:
    """Yield the waits before the first attempt. When it was due is only known until an attempt fails."""
    due = min(max(begin, task.next_run_after), end) if known and not task.deferrals else begin
    if due - begin > _TOLERANCE:
        yield TaskInterval(IntervalKind.SCHEDULED, begin, due, "waited for its scheduled time")
        begin = due
    yield _ready_interval(task, begin, end)


def _last_intervals(
    task: Task, before: Attempt | None, begin: datetime, now: datetime, cooldown: Cooldown | None
) -> Iterator[TaskInterval]:
    """Yield what followed the last failed attempt, depending on the task's status."""
    match task.status:
        case Status.QUEUED:
            yield from _queued_intervals(task, before, begin, max(now, begin), cooldown)
        case Status.PARKED:
            yield TaskInterval(IntervalKind.PARKED, begin, max(now, begin), "is parked: no worker knows its task name")
        case Status.RUNNING if task.started_at is None:
            claimed = max(begin, task.updated_at)
            yield from _wait_intervals(task, before, begin, claimed)
            yield TaskInterval(IntervalKind.HELD, claimed, max(now, claimed), "is claimed by a worker, not started yet")
        case Status.RUNNING | Status.DONE:
            end = task.finished_at or now
            start = max(begin, task.started_at or end)
            yield from _wait_intervals(task, before, begin, start)
            text, outcome = ("succeeded", "done") if task.status is Status.DONE else ("is running", "running")
            yield TaskInterval(IntervalKind.ATTEMPT, start, max(start, end), text, 0, task.attempt, outcome)
        case Status.CANCELLED:
            yield from _wait_intervals(task, before, begin, max(begin, task.finished_at or begin))
        case Status.DISCARDED:
            end = max(begin, task.finished_at or begin)
            yield TaskInterval(IntervalKind.DEAD, begin, end, "was a dead letter until it was discarded")
        case Status.FAILED:
            return


def _queued_intervals(
    task: Task, before: Attempt | None, begin: datetime, now: datetime, cooldown: Cooldown | None
) -> Iterator[TaskInterval]:
    """Yield what a queued task waits for: until now, and from now on."""
    due = max(begin, task.next_run_after)
    if cooldown is not None and due <= cooldown.until + _TOLERANCE:
        due, kind, text = max(due, cooldown.until), IntervalKind.COOLDOWN, "waits for the cooldown of its resource"
    else:
        kind, text = _current_wait(task, before, due, now)
    if due <= now:
        yield TaskInterval(kind, begin, due, text)
        yield TaskInterval(IntervalKind.QUEUE, due, now, "is ready and waits for a worker")
    else:
        yield TaskInterval(kind, begin, now, text)
        yield TaskInterval(kind, now, due, "remaining wait", planned=True)


def _current_wait(task: Task, before: Attempt | None, due: datetime, now: datetime) -> tuple[IntervalKind, str]:
    """Return the kind of wait until a task is due, and its text."""
    if before is not None and before.delay is not None:
        decided = _due_time(before, before.delay)
        if due <= decided + _TOLERANCE:
            kind, text = _wait_reason(before)
            return kind, text if due >= decided - _TOLERANCE else f"{text}; it was cut short by hand"
    if task.deferrals and (due > now or before is None):
        return IntervalKind.DEFERRAL, f"was deferred without spending an attempt ({_times(task.deferrals)})"
    if before is None:
        text = "waits for its scheduled time" if due > now else "waited for its scheduled time"
        return IntervalKind.SCHEDULED, text
    if before.outcome == "fail":
        return IntervalKind.DEAD, "was a dead letter until it was replayed"
    return IntervalKind.QUEUE, "was queued again and waits for a worker to run it alone"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


MAX_ATTEMPTS_DRAWN = 25
"""How many attempts are drawn: the last ones."""

_WIDTH = 100.0  # percent
_MIN_ATTEMPT_WIDTH, _MIN_WAIT_WIDTH = 1.2, 0.3  # percent
_MAX_MINIMUM_WIDTHS = 60.0  # percent that all minimum widths together may take
_CUT_FROM = 20.0  # an interval this many times as long as the longest uncut one is cut
_CRUSHED_SHARE = 0.1  # nothing is cut if the uncut intervals already take this share of the total
_CUT_TO = 3.0  # all cut intervals together are drawn this many times as long as the uncut ones
_LONG_ATTEMPT = 10.0  # seconds; shorter attempts need not be drawn to scale
_LABEL_WIDTH, _NUMBER_WIDTH = 9.0, 3.5  # percent that a text needs


class Segment(NamedTuple):
    """An interval as it is drawn.

    Attributes:
        kind: What it is.
        begin: When it began.
        end: When it ended or will end.
        text: What happened, in words.
        place: Position among the failed attempts, from 1; otherwise 0.
        number: Number of the start of an attempt; otherwise 0.
        outcome: Of an attempt: ``retry``, ``fail``, ``lost``, ``done`` or ``running``.
        planned: Whether it is in the future.
        seconds: Its real length.
        x: Where it begins, in percent of the total width.
        width: Its width in percent.
        cut: Whether it is drawn shorter than its length.
        label: The number of an attempt or the length of a wait, if there is room; otherwise empty.
        told: The interval in one sentence.
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
    """A task's time as it is drawn.

    Attributes:
        segments: Oldest first, without gaps.
        begin: When the first segment begins.
        end: When the last segment ends; a future time if it is planned.
        now: Position of the present in percent if a segment is planned; otherwise None.
        left_out: How many attempts, the oldest, are not drawn because there are too many.
        summary: The task's history in one sentence.
        scale: A note on the scale, in one sentence.
    """

    segments: tuple[Segment, ...]
    begin: datetime
    end: datetime
    now: float | None
    left_out: int
    summary: str
    scale: str


def timeline(task: Task, attempts: Sequence[Attempt], now: datetime, cooldown: Cooldown | None = None) -> Timeline:
    """Return a task's timeline, to scale.

    Args:
        task: The task.
        attempts: Its failed attempts, oldest first.
        now: The store's time.
        cooldown: The cooldown of its resource, if there is one.
    """
    intervals = task_intervals(task, attempts, now, cooldown)
    summary = _summary(task, attempts, intervals, now)
    places = [index for index, interval in enumerate(intervals) if interval.kind is IntervalKind.ATTEMPT]
    left_out = max(0, len(places) - MAX_ATTEMPTS_DRAWN)
    if left_out:
        intervals = intervals[places[left_out - 1] + 1 :]
    cut = _cut_length(intervals)
    widths = _widths(intervals, cut)
    segments = tuple(_draw_segments(intervals, widths, cut))
    planned = next((segment.x for segment in segments if segment.planned), None)
    begin, end = (intervals[0].begin, intervals[-1].end) if intervals else (task.created_at, task.created_at)
    return Timeline(segments, begin, end, planned, left_out, summary, _scale(segments, widths, intervals))


def _is_significant(interval: TaskInterval) -> bool:
    """Return whether an interval must stay visible: a wait between attempts, or a long attempt."""
    if interval.kind is IntervalKind.ATTEMPT:
        return interval.seconds >= _LONG_ATTEMPT
    return interval.kind in {IntervalKind.BACKOFF, IntervalKind.HINT}


def _cut_length(intervals: list[TaskInterval]) -> float | None:
    """Return the length in seconds from which intervals are cut; None if everything can be drawn to scale.

    That is where the sorted lengths jump: the longer intervals would leave no room for the significant ones.
    """
    lengths = sorted(interval.seconds for interval in intervals)
    least = min((interval.seconds for interval in intervals if _is_significant(interval)), default=None)
    if not least:
        return None
    for place, (longest, longer) in enumerate(pairwise(lengths), start=1):
        jumps = longest >= least and longer >= longest * _CUT_FROM
        if jumps and sum(lengths[:place]) < sum(lengths) * _CRUSHED_SHARE:
            return longer
    return None


def _widths(intervals: list[TaskInterval], cut: float | None) -> list[float]:
    """Return the width of each interval in percent: proportional, but at least its minimum."""
    lengths = [interval.seconds for interval in intervals]
    if cut is not None:
        kept = [length for length in lengths if length < cut]
        most = max(2 * max(kept), _CUT_TO * sum(kept) / (len(lengths) - len(kept)))
        lengths = [min(length, most) if length >= cut else length for length in lengths]
    least = [_MIN_ATTEMPT_WIDTH if interval.kind is IntervalKind.ATTEMPT else _MIN_WAIT_WIDTH for interval in intervals]
    if sum(least) > _MAX_MINIMUM_WIDTHS:
        least = [each * _MAX_MINIMUM_WIDTHS / sum(least) for each in least]
    return _share_width(lengths, least)


def _share_width(lengths: list[float], least: list[float]) -> list[float]:
    """Return widths in proportion to lengths, after each interval that needs its minimum has got it."""
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


def _draw_segments(intervals: list[TaskInterval], widths: list[float], cut: float | None) -> list[Segment]:
    drawn: list[Segment] = []
    x, free = 0.0, -_WIDTH  # where the next number of an attempt has room
    for interval, width in zip(intervals, widths, strict=True):
        is_cut = cut is not None and interval.seconds >= cut
        label = ""
        if interval.kind is IntervalKind.ATTEMPT:
            middle = x + width / 2
            if middle - free >= _NUMBER_WIDTH:
                label, free = str(interval.number), middle
        elif width >= _LABEL_WIDTH:
            label = span(interval.seconds)
        at, wide = round(x, 2), round(width, 2)
        drawn.append(Segment(*interval, interval.seconds, at, wide, is_cut, label, _segment_text(interval)))
        x += width
    return drawn


def _segment_text(interval: TaskInterval) -> str:
    length = span(interval.seconds)
    if interval.kind is IntervalKind.ATTEMPT:
        after = f", after {length}" if interval.seconds else ""  # without a length its start is unknown
        return f"attempt {interval.number}: {interval.text}{after}" if interval.outcome else interval.text
    return f"{interval.text}: {length}"


_END_TEXTS = {
    Status.DONE: "done",
    Status.FAILED: "a dead letter",
    Status.CANCELLED: "cancelled",
    Status.DISCARDED: "discarded",
}


def _summary(task: Task, attempts: Sequence[Attempt], intervals: list[TaskInterval], now: datetime) -> str:
    """Return the task's end, its total time, and how much of it was work."""
    over = task.status in _END_TEXTS
    end = max([interval.end for interval in intervals], default=task.created_at) if over else now
    whole = max(0.0, (end - task.created_at).total_seconds())
    head = f"{_END_TEXTS[task.status]} after {span(whole)}" if over else f"{span(whole)} so far"
    if all(interval.kind is not IntervalKind.ATTEMPT for interval in intervals):
        return f"{head}, only waiting"
    work = sum(interval.seconds for interval in intervals if interval.kind is IntervalKind.ATTEMPT)
    tried = counted(len(attempts), "failed attempt") if attempts else "no attempt failed"
    worked = f", {span(work)} of work" if work else ""  # without work no start is known
    return f"{head}: {tried}{worked}, {span(max(0.0, whole - work))} of waiting"


def _scale(segments: tuple[Segment, ...], widths: list[float], intervals: list[TaskInterval]) -> str:
    """Return a note on the scale: what is cut or widened."""
    cut = sum(segment.cut for segment in segments)
    if cut:
        parts = "one part is" if cut == 1 else f"{cut} parts are"
        return f"To scale, but {parts} cut (//): drawn shorter, so that the rest is visible."
    whole = sum(interval.seconds for interval in intervals)
    widened = any(
        interval.kind is IntervalKind.ATTEMPT and interval.seconds * _WIDTH < width * whole * 0.9
        for interval, width in zip(intervals, widths, strict=True)
    )
    return "To scale; very short attempts are drawn wider." if widened else "To scale."
