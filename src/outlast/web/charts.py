"""The geometry of charts: where each bar stands, in per cent of the drawing. Templates draw and escape.

In per cent nothing is stretched with the width of the page: bars grow, and letters stay as they are.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from outlast.report.overview import compact
from outlast.report.text_format import category_look, count, span

_TOP, _BOTTOM = 5.0, 87.0
"""Where the plot begins and ends from the top; above it stands the uppermost label, below it those of time."""
_BAR_SHARE = 0.82
_MAX_SERIES = 6
_TIME_UNITS = (("min", 60.0, 7_200.0), ("h", 3_600.0, 2 * 86_400.0), ("d", 86_400.0, math.inf))
_MAX_LABELS = 4
_MIN_BAR_HEIGHT = 1.2
"""Height of a bar that would be too low to be seen."""


class Bar(NamedTuple):
    """One bar, or one part of a stack; in per cent.

    Attributes:
        title: What it says.
        time: What narrows the page behind it to its step: ``since`` and ``until``; empty where that page knows no time.
    """

    x: float
    y: float
    width: float
    height: float
    title: str
    time: Mapping[str, str] = {}


class Tick(NamedTuple):
    """A label of an axis, and where it stands in per cent."""

    at: float
    text: str
    anchor: str = "start"


class Series(NamedTuple):
    """What is to be drawn.

    Attributes:
        look: The class of its colour.
        code: Two letters for those who do not see colours; empty where there is only one series.
        hatched: Whether it is hatched as well.
        label: Its name.
        noun: What a bar counts, for its title, one and many.
        counts: One number for each step.
        page: Name of the page behind it.
        params: What narrows that page to it.
        timed: Whether that page can also be narrowed to a time.
    """

    look: str
    code: str
    hatched: bool
    label: str
    noun: tuple[str, str]
    counts: Sequence[int]
    page: str
    params: Mapping[str, Any]
    timed: bool = False


class DrawnSeries(NamedTuple):
    """A series with its bars; a step in which nothing happened has none."""

    series: Series
    total: int
    bars: tuple[Bar, ...]


class Chart(NamedTuple):
    """A chart of stacked bars over time.

    Attributes:
        id: Of the element; what is in it is named after it.
        title: What it shows.
        label: The same and the figures that matter, for those who hear the page.
        drawn: The lowest first.
        legend: Every series and its sum, also those that are drawn as one.
        y_ticks: Lines and labels, the lowest first.
        x_ticks: Labels below, the oldest first.
        most: What the uppermost line stands for.
    """

    id: str
    title: str
    label: str
    drawn: tuple[DrawnSeries, ...]
    legend: tuple[tuple[Series, int], ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    most: float


class Sparkline(NamedTuple):
    """A chart without axes, as it stands in a line of a table."""

    bars: tuple[Bar, ...]
    label: str

    @property
    def path(self) -> str:
        """All bars as one path in a square of 100: a list has forty charts, and a page is to be light."""
        return "".join(f"M{bar.x} {bar.y}h{bar.width}V100h-{bar.width}z" for bar in self.bars)


def stacked_chart(
    id_: str, title: str, series: Sequence[Series], steps: Sequence[datetime], step: float, per: float = 0.0
) -> Chart:
    """Return a chart of stacked bars.

    Args:
        id_: Of the element.
        title: What it shows.
        series: The lowest first, each with a number for every step.
        steps: When each of them begins.
        step: Seconds that one of them covers.
        per: Seconds for which the axis counts, such as 60 for so many per minute; 0 for the step itself.
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
                said = f"{_time_label(steps[place], step)}: {count(number)} {each.noun[number != 1]}"
                bar = _bar(place, len(steps), floors[place], number * scale, most, said)
                bars.append(bar._replace(time=_url_time(steps[place], step)) if each.timed else bar)
                floors[place] += number * scale
        drawn.append(DrawnSeries(each, sum(each.counts), tuple(bars)))
    legend = tuple((each, sum(each.counts)) for each in series)
    said = ", ".join(f"{each.label} {count(total)}" for each, total in legend) or "nothing happened"
    window = step * len(steps)
    label = f"{title}, the last {span(window)}: {said}"
    return Chart(id_, title, label, tuple(drawn), legend, _y_ticks(most), _x_ticks(window), most)


def _merge_small_series(series: Sequence[Series]) -> list[Series]:
    """Return the largest series in their order and all others as one, so that a page has a size that is known."""
    if len(series) <= _MAX_SERIES:
        return list(series)
    largest = sorted(series, key=lambda each: -sum(each.counts))[: _MAX_SERIES - 1]
    others = [each for each in series if each not in largest]
    counts = [sum(numbers) for numbers in zip(*(each.counts for each in others), strict=True)]
    noun = ("failure of other categories", "failures of other categories")
    merged = Series("none", "··", False, "others", noun, counts, others[0].page, {}, others[0].timed)  # noqa: FBT003  # not hatched
    return [*(each for each in series if each in largest), merged]


def category_series(failures: Mapping[str, Sequence[int]], page: str = "failures") -> list[Series]:
    """Return a series for each category."""
    looks = [(name, category_look(name)) for name in failures]
    return [
        Series(
            name.replace("_", "-") if look.code != "??" else "none",
            look.code,
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
    """Return a chart for a line of a table, as high as its highest bar.

    Args:
        counts: One number for each step, the oldest first.
        label: What it shows, for those who hear the page; the sum is added.
    """
    most = max(counts, default=0)
    width = 100.0 / max(len(counts), 1)
    bars = tuple(
        Bar(
            _rounded(place * width),
            _rounded(100.0 - _height(number, most, 100.0, 10.0)),
            _rounded(width * _BAR_SHARE),
            _rounded(_height(number, most, 100.0, 10.0)),
            "",
        )
        for place, number in enumerate(counts)
        if number
    )
    return Sparkline(bars, f"{label}: {count(sum(counts))}")


def axis_maximum(number: float) -> float:
    """Return the number at the top of an axis: 1, 2, 4, 6 or 8 times a power of ten, and not below 4."""
    if number <= 4.0:  # noqa: PLR2004  # four lines of whole numbers
        return 4.0
    power = 10.0 ** math.floor(math.log10(number))
    return next(times * power for times in (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if times * power >= number)


def _bar(place: int, places: int, floor: float, number: float, most: float, title: str) -> Bar:
    width = 100.0 / places
    depth = _BOTTOM - _TOP
    height = _height(number, most, depth, _MIN_BAR_HEIGHT)
    bottom = _BOTTOM - floor / most * depth
    return Bar(
        _rounded(place * width), _rounded(bottom - height), _rounded(width * _BAR_SHARE), _rounded(height), title
    )


def _height(number: float, most: float, depth: float, least: float) -> float:
    return max(number / most * depth, least) if number else 0.0


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
    form = "%H:%M:%S" if step % 60 else "%H:%M" if step < 3600 else "%a %d %b %H:%M"  # noqa: PLR2004  # an hour
    return f"{at.strftime(form)} UTC"


def _url_time(at: datetime, step: float) -> dict[str, str]:
    """Return the time of a step as an address has it: short, for a page has hundreds of bars."""
    form = "%Y%m%dT%H%M%S" if step % 60 else "%Y%m%dT%H%M"
    return {"since": at.strftime(form), "until": (at + timedelta(seconds=step)).strftime(form)}


def _rounded(number: float) -> float:
    rounded = round(number, 2)
    return int(rounded) if rounded == int(rounded) else rounded
