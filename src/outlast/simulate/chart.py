"""Charts of calls over time: as text for a terminal, and as SVG for pages and documents."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from outlast.units import span

_HEIGHT = 8  # lines of a chart in a terminal
_WIDTH, _TALL, _LEFT, _TOP, _BOTTOM = 720, 240, 48, 28, 34
_BLOCKS = (("first", "#3b82c4"), ("retries", "#d98324"))
_NAMES = {"first": "first calls", "retries": "retries", "done": "successful calls"}
_DONE_COLOUR = "#2f9e5b"


INK = "#767676"
"""Colour of lines and texts, which can be read on white and on black."""


class TimeStep(NamedTuple):
    """What happened in one step of time.

    Attributes:
        start: Seconds from the beginning.
        length: Seconds of the step.
        first: First calls of a piece of work.
        retries: Further calls.
        done: Calls that succeeded.
        failed: Work that failed for good.
    """

    start: int
    length: int
    first: int
    retries: int
    done: int
    failed: int

    @property
    def calls(self) -> int:
        """All calls."""
        return self.first + self.retries


def draw_text(steps: Sequence[TimeStep]) -> str:
    """Return a chart for a terminal: ``█`` for first calls, ``░`` for retries above them."""
    if not steps:
        return "no calls"
    top = max(1, *(step.calls for step in steps))
    lines = []
    for line in range(_HEIGHT, 0, -1):
        floor = (line - 0.5) / _HEIGHT * top
        cells = "".join("█" if step.first >= floor else "░" if step.calls >= floor else " " for step in steps)
        label = _rate(top * line / _HEIGHT, steps[0].length) if line in {_HEIGHT, _HEIGHT // 2} else ""
        lines.append(f"{label:>8} │{cells}".rstrip())
    end = steps[-1].start + steps[-1].length
    right = span(end)
    return "\n".join([*lines, f"{'0':>8} └{'─' * len(steps)}", f"{'':10}0{right:>{max(len(steps) - 1, 1)}}",
                      f"{'':10}calls per second: █ first calls, ░ retries"])  # fmt: skip


def _rate(calls: float, length: int) -> str:
    return f"{calls / length:,.0f}" if calls >= length else f"{calls / length:.2g}"


def draw_svg(steps: Sequence[TimeStep], phases: Sequence[tuple[float, float]], title: str, ink: str = INK) -> str:
    """Return an SVG chart without styles or scripts, so that a page with a strict policy can contain it.

    Args:
        steps: What happened over time.
        phases: Start and end of the times to shade.
        title: What the chart shows.
        ink: Colour of lines and texts.
    """
    length = steps[0].length if steps else 1
    end = max((step.start + step.length for step in steps), default=1)
    top = max([1, *(max(step.calls, step.done) for step in steps)])
    inner, depth = _WIDTH - _LEFT - 8, _TALL - _TOP - _BOTTOM

    def across(seconds: float) -> float:
        return round(_LEFT + min(seconds, end) / end * inner, 1)

    def height(calls: float) -> float:
        return round(calls / top * depth, 1)

    floor, width = _TALL - _BOTTOM, max(round(inner * length / end * 0.86, 2), 0.6)
    parts = [
        f'<rect x="{across(start)}" y="{_TOP}" width="{round(across(stop) - across(start), 1)}" height="{depth}" '
        'fill-opacity="0.1"/>'
        for start, stop in phases
    ]
    for level in (0.0, 0.5, 1.0):
        y = round(floor - level * depth, 1)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y}" y2="{y}" stroke="{ink}" stroke-opacity="0.2"/>')
        parts.append(_text(_LEFT - 6, y + 4, _rate(top * level, length) if level else "0", "end"))
    for step in steps:
        below = 0.0
        for name, colour in _BLOCKS:
            size = height(getattr(step, name))
            if size:
                y = round(floor - below - size, 1)
                parts.append(
                    f'<rect x="{across(step.start)}" y="{y}" width="{width}" height="{size}" fill="{colour}"/>'
                )
                below += size
    line = " ".join(f"{across(step.start + step.length / 2)},{round(floor - height(step.done), 1)}" for step in steps)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{_DONE_COLOUR}" stroke-width="2"/>')
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        parts.append(_text(across(end * share), _TALL - _BOTTOM + 16, span(end * share) if share else "0", anchor))
    legend = [*_BLOCKS, ("done", _DONE_COLOUR)]
    for place, (name, colour) in enumerate(legend):
        x = _LEFT + place * 150
        parts.append(f'<rect x="{x}" y="{_TALL - 12}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(x + 16, _TALL - 3, _NAMES[name], "start"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_TALL}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="12" fill="{ink}">'
    )
    return "\n".join([head, _text(_LEFT, 16, title, "start"), *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
