"""What commands print: tables for people, JSON for programs, and nothing that a terminal would obey.

Text from a store was written by whoever enqueued or failed. It is printed as text, never as markup, and characters that
are not printable are replaced: no payload can colour, move or forge what the terminal shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outlast.queue.masking import masked_text, masked_value
from outlast.record.plain import json_text
from outlast.redact import safe_text

__all__ = [
    "as_data",
    "counted",
    "counts_told",
    "facts",
    "found_none",
    "line",
    "masked",
    "one_line",
    "print_json",
    "say",
    "screen",
    "shown",
    "table",
]

_LONGEST_CELL = 400
_LONGEST = 300_000  # a payload may have 256 KiB
_BETWEEN = 2  # blanks
_ENOUGH = 40  # characters of the last column that are worth more than the others in full
_NUMBERS = {"EXIT", "FAILED", "HTTP", "TASKS", "TOOK", "TRIES"}  # also where all are unknown, or have a unit
_FREE_TEXT = ("unique_key", "resource", "last_error", "error_message", "reason", "traceback", "failure")
_STYLES = {
    "RUNNING": "cyan",
    "PARKED": "yellow",
    "DONE": "green",
    "FAILED": "red",
    "paused": "yellow",
    "replayed": "green",
    "conflict": "red",
    "healthy": "green",
    "warning": "yellow",
    "error": "red",
    "disabled": "red",
    "probation": "cyan",
    "failed": "red",
    "waits": "yellow",
    "given up": "red",
}


def screen(*, stderr: bool = False) -> Console:
    """Return the console: no markup, no emoji codes, no guessing at numbers and URLs."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def shown(text: object) -> str:
    """Return text that is safe to print, of any number of lines."""
    return safe_text(str(text), _LONGEST).replace("\t", "    ")


def one_line(text: object, limit: int = _LONGEST_CELL) -> str:
    """Return text that is safe to print, in one line."""
    return " ".join(safe_text(str(text)[: limit * 4], limit).split())


def line(text: object, style: str = "") -> Text:
    """Return text for the console, never read as markup."""
    return Text(shown(text), style=style)


def say(text: object, style: str = "") -> None:
    """Print a text."""
    screen().print(line(text, style), soft_wrap=True)


def table(columns: Mapping[str, int | None], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table whose rows keep to one line each; where there is no room, it is the last column that gives way.

    Args:
        columns: Headings, with how wide a column may be where there is no room for all; columns of numbers stand to
            the right.
        rows: Their cells; None is shown as a dash.
    """
    given = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in given]
    widest = [max([len(heading), *(row[number].cell_len for row in cells)]) for number, heading in enumerate(columns)]
    roomy = sum(widest[:-1]) + _BETWEEN * len(widest) + min(widest[-1], _ENOUGH) <= screen().width
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, (heading, most) in enumerate(columns.items()):
        is_last = number == len(columns) - 1
        numbers = any(isinstance(row[number], int) for row in given) or (heading in _NUMBERS and not is_last)
        made.add_column(
            Text(heading, no_wrap=True),
            no_wrap=not is_last,
            width=None
            if is_last
            else widest[number]
            if roomy or most is None
            else _narrow(heading, widest[number], most),
            justify="right" if numbers else "left",
        )
    for row in cells:
        made.add_row(*row)
    return made


def _narrow(heading: str, widest: int, most: int) -> int:
    return max(len(heading), min(widest, most))


def found_none(what: str, hint: str) -> None:
    """Say that a list is empty, and what to do about it."""
    screen().print(Text(shown(what)).append(shown(f"; {hint}"), "dim"), soft_wrap=True)


def _cell(value: object) -> Text:
    text = "-" if value is None or value == "" else one_line(value)
    return Text(text, style=_STYLES.get(text, ""), no_wrap=True, overflow="ellipsis")


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return names and values beneath one another; what is None is left out."""
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            made.add_row(name, line(value))
    return made


def counts_told(counts: Mapping[str, int]) -> str:
    """Return how many tasks there are of each status, in one line."""
    told = [f"{name.lower().replace('_', ' ')} {count}" for name, count in counts.items() if count]
    return ", ".join(told) or "no tasks"


def counted(count: int, word: str) -> str:
    """Return a number with its word: ``1 attempt``, ``2 attempts``."""
    return f"{count} {word if count == 1 else f'{word}s'}"


def masked(value: Any) -> Any:
    """Return what may hold text of others without the secrets in it: a text, a table of texts, or None."""
    if type(value) is str:  # the members of an enumeration are words of ours
        return masked_text(value)
    if isinstance(value, dict):
        return {key: masked(each) for key, each in value.items()}
    return [masked(each) for each in value] if isinstance(value, list) else value


def as_data(row: Any) -> dict[str, Any]:
    """Return a row as JSON has it: times as ISO text with their offset, the payload as an object, secrets masked."""
    data: dict[str, Any] = row._asdict()
    for name, value in data.items():
        if isinstance(value, datetime):
            data[name] = value.isoformat()
    for name in _FREE_TEXT:
        if name in data:
            data[name] = masked(data[name])
    if "parameters" in data:
        data["parameters"] = masked_value(data["parameters"])
    return data


def print_json(value: object) -> None:
    """Print JSON; what is not printable is written as an escape, which means the same and moves no cursor."""
    text = json_text(value, indent=2)
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)
    click.echo(text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
