"""The geometry of charts: positions and sizes in percent of the drawing, which templates turn into SVG.

In percent, bars grow with the width of the page while texts keep their size.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from outlast.ports.triage import ChartMark
from outlast.report.overview import compact
from outlast.report.text_format import category_look, count
from outlast.units import span

_TOP, _BOTTOM = 5.0, 87.0
"""Top and bottom of the plot, in percent; the labels of the time axis are below it."""
_BAR_SHARE = 0.82
_MAX_SERIES = 6
_TIME_UNITS = (("min", 60.0, 7_200.0), ("h", 3_600.0, 2 * 86_400.0), ("d", 86_400.0, math.inf))
_MAX_LABELS = 4
_MIN_BAR_HEIGHT = 1.2
"""Minimum height of a bar in percent; a lower one would be invisible."""


class Bar(NamedTuple):
    """One bar, or one part of a stack; positions and sizes in percent.

    Attributes:
        title: Its tooltip.
        time: Time filter of the linked page: ``since`` and ``until``; empty if that page has none.
    """

    x: float
    y: float
    width: float
    height: float
    title: str
    time: Mapping[str, str] = {}


class Tick(NamedTuple):
    """A label of an axis, and its position in percent."""

    at: float
    text: str
    anchor: str = "start"


class Series(NamedTuple):
    """A series to draw.

    Attributes:
        look: CSS class of its colour.
        hatched: Whether its bars are hatched.
        label: Its name.
        noun: What a bar counts, singular and plural.
        counts: One number for each step.
        page: Name of the linked page.
        params: Filter of that page.
        timed: Whether that page also has a time filter.
    """

    look: str
    hatched: bool
    label: str
    noun: tuple[str, str]
    counts: Sequence[int]
    page: str
    params: Mapping[str, Any]
    timed: bool = False


class DrawnSeries(NamedTuple):
    """A series with its bars; empty steps have no bar."""

    series: Series
    bars: tuple[Bar, ...]


class Chart(NamedTuple):
    """A chart of stacked bars over time.

    Attributes:
        id: Id of the element, and prefix of the ids inside it.
        title: What it shows.
        label: Title and totals, for screen readers.
        drawn: Series from bottom to top.
        legend: Every series and its total, also those that are drawn as one.
        y_ticks: Lines and labels, from bottom to top.
        x_ticks: Labels below, oldest first.
        most: Value of the top line.
        marks: Events in this time, oldest first, each with its position in percent.
    """

    id: str
    title: str
    label: str
    drawn: tuple[DrawnSeries, ...]
    legend: tuple[tuple[Series, int], ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    most: float
    marks: tuple[tuple[float, ChartMark], ...] = ()


class Sparkline(NamedTuple):
    """A small chart without axes, for a row of a table.

    Attributes:
        path: All bars as one SVG path in a square of 100, because a list has forty charts and the page must stay small.
        label: What it shows, for screen readers.
    """

    path: str
    label: str


def stacked_chart(
    id_: str,
    title: str,
    series: Sequence[Series],
    steps: Sequence[datetime],
    step: float,
    *,
    per: float = 0.0,
    marks: Sequence[ChartMark] = (),
) -> Chart:
    """Return a chart of stacked bars.

    Args:
        id_: Id of the element.
        title: What it shows.
        series: From bottom to top, each with a number for every step.
        steps: When each step begins.
        step: Seconds that one step covers.
        per: Unit of the axis in seconds, such as 60 for a rate per minute; 0 for counts per step.
        marks: Events to mark, newest first; those outside the steps are left out.
    """
    scale = per / step if per else 1.0
    totals = [sum(numbers) * scale for numbers in zip(*(each.counts for each in series), strict=True)]
    most = axis_maximum(max(totals, default=0.0))
    floors = [0.0] * len(steps)
    drawn: list[DrawnSeries] = []
    for each in _merge_small_series(series):
        bars: list[Bar] = []
        for place, number in enumerate(each.counts):
            if number:
                tooltip = f"{_time_label(steps[place], step)}: {count(number)} {each.noun[number != 1]}"
                bar = _bar(place, len(steps), floors[place], number * scale, most, tooltip)
                bars.append(bar._replace(time=_url_time(steps[place], step)) if each.timed else bar)
                floors[place] += number * scale
        drawn.append(DrawnSeries(each, tuple(bars)))
    legend = tuple((each, sum(each.counts)) for each in series)
    figures = ", ".join(f"{each.label} {count(total)}" for each, total in legend) or "nothing happened"
    window = step * len(steps)
    label = f"{title}, the last {span(window)}: {figures}"
    places = [(_rounded((mark.at - steps[0]).total_seconds() / window * 100.0), mark) for mark in reversed(marks)]
    shown = tuple((at, mark) for at, mark in places if 0 <= at <= 100)  # noqa: PLR2004  # percent
    return Chart(id_, title, label, tuple(drawn), legend, _y_ticks(most), _x_ticks(window), most, shown)


def _merge_small_series(series: Sequence[Series]) -> list[Series]:
    """Return the largest series in their order and all others merged into one, to limit the size of the page."""
    if len(series) <= _MAX_SERIES:
        return list(series)
    largest = sorted(series, key=lambda each: -sum(each.counts))[: _MAX_SERIES - 1]
    others = [each for each in series if each not in largest]
    counts = [sum(numbers) for numbers in zip(*(each.counts for each in others), strict=True)]
    noun = ("failure of other categories", "failures of other categories")
    merged = Series("none", False, "others", noun, counts, others[0].page, {}, others[0].timed)  # noqa: FBT003  # not hatched
    return [*(each for each in series if each in largest), merged]


def category_series(failures: Mapping[str, Sequence[int]], page: str = "failures") -> list[Series]:
    """Return a series for each category."""
    looks = [(name, category_look(name)) for name in failures]
    return [
        Series(
            name.replace("_", "-") if look.meaning else "none",
            not look.retryable,
            look.label,
            (f"failure, {look.label}", f"failures, {look.label}"),
            failures[name],
            page,
            {"category": name},
            timed=True,
        )
        for name, look in looks
    ]


def sparkline(counts: Sequence[int], label: str) -> Sparkline:
    """Return a small chart for a row of a table, scaled to its highest bar.

    Args:
        counts: One number for each step, oldest first.
        label: What it shows, for screen readers; the total is appended.
    """
    most, step = max(counts, default=0), 100.0 / max(len(counts), 1)
    width = _rounded(step * _BAR_SHARE)
    bars = [
        f"M{_rounded(place * step)} {_rounded(100.0 - _height(number, most, 100.0, 10.0))}h{width}V100h-{width}z"
        for place, number in enumerate(counts)
        if number
    ]
    return Sparkline("".join(bars), f"{label}: {count(sum(counts))}")


def axis_maximum(number: float) -> float:
    """Return the value at the top of an axis: 1, 2, 4, 6 or 8 times a power of ten, at least 4."""
    if number <= 4.0:  # noqa: PLR2004  # four lines of whole numbers
        return 4.0
    power = 10.0 ** math.floor(math.log10(number))
    return next(times * power for times in (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if times * power >= number)


def _bar(place: int, places: int, floor: float, number: float, most: float, title: str) -> Bar:
    width, depth = 100.0 / places, _BOTTOM - _TOP
    height = _height(number, most, depth, _MIN_BAR_HEIGHT)
    top = _BOTTOM - floor / most * depth - height
    return Bar(_rounded(place * width), _rounded(top), _rounded(width * _BAR_SHARE), _rounded(height), title)


def _height(number: float, most: float, depth: float, least: float) -> float:
    return max(number / most * depth, least)


def _y_ticks(most: float) -> tuple[Tick, ...]:
    depth = _BOTTOM - _TOP
    return tuple(
        Tick(_rounded(_BOTTOM - depth * part / 2), compact(round(most * part / 2)).replace(".0", ""))
        for part in range(3)
    )


def _x_ticks(window: float) -> tuple[Tick, ...]:
    unit, size = next((unit, size) for unit, size, most in _TIME_UNITS if window <= most)
    ticks = [
        Tick(
            _rounded(100.0 * part / _MAX_LABELS),
            f"{window * (_MAX_LABELS - part) / _MAX_LABELS / size:.3g} {unit}",
            "middle",
        )
        for part in range(1, _MAX_LABELS)
    ]
    return (Tick(0.0, f"{window / size:.3g} {unit} ago"), *ticks, Tick(100.0, "now", "end"))


def _time_label(at: datetime, step: float) -> str:
    if step % 60:
        return at.strftime("%H:%M:%S UTC")
    return at.strftime("%H:%M UTC" if step < 3600 else "%a %d %b %H:%M UTC")  # noqa: PLR2004  # an hour


def _url_time(at: datetime, step: float) -> dict[str, str]:
    """Return the time filter of a step, in a short format because a page has hundreds of bars."""
    form = "%Y%m%dT%H%M%S" if step % 60 else "%Y%m%dT%H%M"
    return {"since": at.strftime(form), "until": (at + timedelta(seconds=step)).strftime(form)}


def _rounded(number: float) -> float:
    rounded = round(number, 2)
    return int(rounded) if rounded == int(rounded) else rounded
