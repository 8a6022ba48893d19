"""What commands print: tables for people, JSON for programs, and nothing that a terminal would obey.

Text from a store was written by whoever enqueued or failed. It is printed as text, never as markup, and characters that
are not printable are replaced: no payload can colour, move or forge what the terminal shows.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.queue.masking import masked_parameters
from holdfast.redact import safe_text

__all__ = ["as_data", "counts_told", "facts", "line", "one_line", "print_json", "say", "screen", "shown", "table"]

_LONGEST_CELL = 400
_LONGEST = 300_000  # a payload may have 256 KiB
_STYLES = {
    "RUNNING": "cyan",
    "PARKED": "yellow",
    "DONE": "green",
    "FAILED": "red",
    "paused": "yellow",
    "replayed": "green",
    "conflict": "red",
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
        columns: Headings, with how wide a column may be; columns of numbers stand to the right.
        rows: Their cells; None is shown as a dash.
    """
    given = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in given]
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, (heading, most) in enumerate(columns.items()):
        widest = max((row[number].cell_len for row in cells), default=0)
        is_last = number == len(columns) - 1
        made.add_column(
            Text(heading, no_wrap=True),
            no_wrap=not is_last,
            width=None if is_last else max(len(heading), min(widest, most or widest)),
            justify="right" if any(isinstance(row[number], int) for row in given) else "left",
        )
    for row in cells:
        made.add_row(*row)
    return made


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


def as_data(row: Any) -> dict[str, Any]:
    """Return a row as JSON has it: times as ISO text with their offset, the payload masked and as an object."""
    data: dict[str, Any] = row._asdict()
    for name, value in data.items():
        if isinstance(value, datetime):
            data[name] = value.isoformat()
    if "parameters" in data:
        text = masked_parameters(data["parameters"])
        try:
            data["parameters"] = json.loads(text)
        except ValueError:
            data["parameters"] = text
    return data


def print_json(value: object) -> None:
    """Print JSON; what is not printable is written as an escape, which means the same and moves no cursor."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)
    click.echo(text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
