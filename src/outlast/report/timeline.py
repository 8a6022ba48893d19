"""The time of a task, drawn to scale: each attempt, and each wait with what it waited for.

A tenth of a second beside an hour could not be seen, so an attempt has a least width. A wait that is very much longer
than all that happens around it would crush the rest, so it is cut, and marked as cut.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from outlast.ports.rows import Attempt, Cooldown, Status, Task
from outlast.report.history import Kind, Stretch, stretches_of
from outlast.report.words import counted, span

__all__ = ["MOST_DRAWN", "Segment", "Timeline", "timeline"]

MOST_DRAWN = 25
"""Attempts that are drawn, the last ones."""

_WIDTH = 100.0  # percent
_LEAST_ATTEMPT, _LEAST_WAIT = 1.2, 0.3  # percent
_MOST_FOR_LEAST = 60.0  # percent that least widths may take in all, however many there are
_CUT_FROM = 20.0  # times the longest stretch that is kept
_CRUSHED = 0.1  # of the whole: what is kept and would take more than that is not crushed
_CUT_TO = 3.0  # times all that is kept, for those that are cut together
_LONG_ATTEMPT = 10.0  # seconds from which the length of an attempt is worth seeing
_LABEL, _NUMBER = 9.0, 3.5  # percent that a text needs


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

    kind: Kind
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
    stretches = stretches_of(task, attempts, now, cooldown)
    summary = _summary(task, attempts, stretches, now)
    places = [index for index, stretch in enumerate(stretches) if stretch.kind is Kind.ATTEMPT]
    left_out = max(0, len(places) - MOST_DRAWN)
    if left_out:
        stretches = stretches[places[left_out - 1] + 1 :]
    cut = _too_long(stretches)
    widths = _widths(stretches, cut)
    segments = tuple(_drawn(stretches, widths, cut))
    planned = [segment.x for segment in segments if segment.planned]
    begin, end = (stretches[0].begin, stretches[-1].end) if stretches else (task.created_at, task.created_at)
    return Timeline(
        segments, begin, end, planned[0] if planned else None, left_out, summary, _scale(segments, widths, stretches)
    )


def _is_story(stretch: Stretch) -> bool:
    """Tell whether a stretch is what people come to see: waits between attempts, and attempts that took their time."""
    if stretch.kind is Kind.ATTEMPT:
        return stretch.seconds >= _LONG_ATTEMPT
    return stretch.kind in {Kind.BACKOFF, Kind.HINT}


def _too_long(stretches: list[Stretch]) -> float | None:
    """Return the length from which stretches are cut; None where everything can be drawn as it is.

    It stands where lengths jump: what is longer is many times as long as all below it that tells the story, and would
    crush it.
    """
    lengths = sorted(stretch.seconds for stretch in stretches)
    least = min((stretch.seconds for stretch in stretches if _is_story(stretch)), default=None)
    if not least:
        return None
    for place, (longest, longer) in enumerate(pairwise(lengths), start=1):
        jumps = longest >= least and longer >= longest * _CUT_FROM
        if jumps and sum(lengths[:place]) < sum(lengths) * _CRUSHED:
            return longer
    return None


def _widths(stretches: list[Stretch], cut: float | None) -> list[float]:
    """Return how wide each stretch is, in percent: in proportion, but none below its least."""
    if not stretches:
        return []
    lengths = [stretch.seconds for stretch in stretches]
    if cut is not None:
        kept = [length for length in lengths if length < cut]
        most = max(2 * max(kept), _CUT_TO * sum(kept) / (len(lengths) - len(kept)))
        lengths = [min(length, most) if length >= cut else length for length in lengths]
    least = [_LEAST_ATTEMPT if stretch.kind is Kind.ATTEMPT else _LEAST_WAIT for stretch in stretches]
    if sum(least) > _MOST_FOR_LEAST:
        least = [each * _MOST_FOR_LEAST / sum(least) for each in least]
    return _shared(lengths, least)


def _shared(lengths: list[float], least: list[float]) -> list[float]:
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


def _drawn(stretches: list[Stretch], widths: list[float], cut: float | None) -> list[Segment]:
    drawn: list[Segment] = []
    x, free = 0.0, -_WIDTH  # where the next number of an attempt has room
    for stretch, width in zip(stretches, widths, strict=True):
        is_cut = cut is not None and stretch.seconds >= cut
        label = ""
        if stretch.kind is Kind.ATTEMPT:
            middle = x + width / 2
            if middle - free >= _NUMBER:
                label, free = str(stretch.number), middle
        elif width >= _LABEL:
            label = span(stretch.seconds)
        at, wide = round(x, 2), round(width, 2)
        drawn.append(Segment(*stretch, stretch.seconds, at, wide, is_cut, label, _told(stretch)))
        x += width
    return drawn


def _told(stretch: Stretch) -> str:
    long = span(stretch.seconds)
    if stretch.kind is Kind.ATTEMPT:
        after = f", after {long}" if stretch.seconds else ""  # else its start is not known
        return f"attempt {stretch.number}: {stretch.text}{after}" if stretch.outcome else stretch.text
    return f"{stretch.text}: {long}"


_ENDS = {
    Status.DONE: "done",
    Status.FAILED: "a dead letter",
    Status.CANCELLED: "cancelled",
    Status.DISCARDED: "discarded",
}


def _summary(task: Task, attempts: Sequence[Attempt], stretches: list[Stretch], now: datetime) -> str:
    """Return how it went: the end, the whole time, and how much of it was work."""
    over = task.status in _ENDS
    end = max([stretch.end for stretch in stretches], default=task.created_at) if over else now
    whole = max(0.0, (end - task.created_at).total_seconds())
    head = f"{_ENDS[task.status]} after {span(whole)}" if over else f"{span(whole)} so far"
    if all(stretch.kind is not Kind.ATTEMPT for stretch in stretches):
        return f"{head}, nothing but waiting"
    work = sum(stretch.seconds for stretch in stretches if stretch.kind is Kind.ATTEMPT)
    tried = counted(len(attempts), "failed attempt") if attempts else "no attempt failed"
    worked = f", {span(work)} of work" if work else ""  # else no start is known
    return f"{head}: {tried}{worked}, {span(max(0.0, whole - work))} of waiting"


def _scale(segments: tuple[Segment, ...], widths: list[float], stretches: list[Stretch]) -> str:
    """Return what a reader has to know of the scale."""
    cut = sum(segment.cut for segment in segments)
    if cut:
        which = "one part is" if cut == 1 else f"{cut} parts are"
        return f"To scale, but {which} cut (//): drawn shorter, so that the rest can be seen."
    whole = sum(stretch.seconds for stretch in stretches)
    widened = any(
        stretch.kind is Kind.ATTEMPT and stretch.seconds * _WIDTH < width * whole * 0.9
        for stretch, width in zip(stretches, widths, strict=True)
    )
    return "To scale; attempts too short to be seen are drawn wider." if widened else "To scale."
