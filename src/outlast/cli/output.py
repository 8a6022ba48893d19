"""What commands print: tables for people, JSON for programs, never control characters.

Text from a store is untrusted: a task's arguments, or an error message. It is printed as text, never as markup, and
characters that are not printable are replaced, so that no payload can colour, move or forge what the terminal shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outlast.cli.formats import relative_time
from outlast.queue.masking import masked_text, masked_value
from outlast.record.json_values import json_text
from outlast.redact import safe_text

if TYPE_CHECKING:
    from outlast.ports.rows import Attempt

_MAX_CELL_CHARS = 400
_MAX_TEXT_CHARS = 300_000  # a payload may have 256 KiB
_COLUMN_GAP = 2  # spaces
_MIN_LAST_COLUMN = 40  # characters; other columns are cut before the last one gets narrower
_NUMBER_COLUMNS = {"EXIT", "FAILED", "HTTP", "TASKS", "TOOK", "TRIES"}  # right-aligned even if all values are dashes
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


def make_console(*, stderr: bool = False) -> Console:
    """Return a console without markup, emoji codes and highlighting."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable_text(text: object) -> str:
    """Return text that is safe to print, with its line breaks."""
    return safe_text(str(text), _MAX_TEXT_CHARS).replace("\t", "    ")


def printable_line(text: object, limit: int = _MAX_CELL_CHARS) -> str:
    """Return text that is safe to print, in one line."""
    return " ".join(safe_text(str(text)[: limit * 4], limit).split())


def styled_text(text: object, style: str = "") -> Text:
    """Return text for the console that is never read as markup."""
    return Text(printable_text(text), style=style)


def print_text(text: object, style: str = "") -> None:
    """Print a text."""
    make_console().print(styled_text(text, style), soft_wrap=True)


def make_table(columns: Mapping[str, int | None], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table with one line per row, except that the last column wraps if there is no room.

    Args:
        columns: Headings, each with the maximum width of its column if there is no room for all; None for no
            maximum. Columns of numbers are right-aligned.
        rows: The cells; None is shown as a dash.
    """
    values = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in values]
    widest = [max([len(heading), *(row[index].cell_len for row in cells)]) for index, heading in enumerate(columns)]
    has_room = sum(widest[:-1]) + _COLUMN_GAP * len(widest) + min(widest[-1], _MIN_LAST_COLUMN) <= make_console().width
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, (heading, maximum) in enumerate(columns.items()):
        is_last = index == len(columns) - 1
        is_numeric = any(isinstance(row[index], int) for row in values) or (heading in _NUMBER_COLUMNS and not is_last)
        width = widest[index] if has_room or maximum is None else max(len(heading), min(widest[index], maximum))
        table.add_column(
            Text(heading, no_wrap=True),
            no_wrap=not is_last,
            width=None if is_last else width,
            justify="right" if is_numeric else "left",
        )
    for row in cells:
        table.add_row(*row)
    return table


def print_empty(what: str, hint: str) -> None:
    """Print that a list is empty, and what to do."""
    make_console().print(Text(printable_text(what)).append(printable_text(f"; {hint}"), "dim"), soft_wrap=True)


def _cell(value: object) -> Text:
    text = "-" if value is None or value == "" else printable_line(value)
    return Text(text, style=_STYLES.get(text, ""), no_wrap=True, overflow="ellipsis")


def facts_table(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return a table with a name and a value per line; values that are None are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            table.add_row(name, styled_text(value))
    return table


def status_counts_text(counts: Mapping[str, int]) -> str:
    """Return the number of tasks of each status, in one line."""
    parts = [f"{name.lower().replace('_', ' ')} {count}" for name, count in counts.items() if count]
    return ", ".join(parts) or "no tasks"


def count_text(count: int, word: str) -> str:
    """Return a count with its noun: ``1 attempt``, ``2 attempts``."""
    return f"{count} {word if count == 1 else f'{word}s'}"


def mask_secrets(value: Any) -> Any:
    """Return a value without the secrets in its texts: a text, a dict or list of texts, or None."""
    if type(value) is str:  # members of an enumeration hold no secrets
        return masked_text(value)
    if isinstance(value, dict):
        return {key: mask_secrets(each) for key, each in value.items()}
    return [mask_secrets(each) for each in value] if isinstance(value, list) else value


def row_data(row: Any) -> dict[str, Any]:
    """Return a row as JSON data: times as ISO text with their offset, the payload as an object, secrets masked."""
    data: dict[str, Any] = row._asdict()
    for name, value in data.items():
        if isinstance(value, datetime):
            data[name] = value.isoformat()
    for name in _FREE_TEXT:
        if name in data:
            data[name] = mask_secrets(data[name])
    if "parameters" in data:
        data["parameters"] = masked_value(data["parameters"])
    return data


def print_json(value: object) -> None:
    """Print JSON; characters that are not printable are written as escapes."""
    text = json_text(value, indent=2)
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char == "\n" else _escape_char(char) for char in text)
    click.echo(text)


def _escape_char(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))


_LOST_OUTCOME = "lost"
_WORKER_LOST = "WorkerLost"
_WHOLE_SECONDS_FROM = 10.0  # seconds; longer delays are shown without tenths


def print_attempts(attempts: "Sequence[Attempt]") -> None:
    """Print the history of a task, oldest first: failed attempts and lost workers."""
    if not attempts:
        return
    console = make_console()
    console.print(styled_text(f"\nhistory: {_attempts_summary(attempts)}", "bold"))
    for each in attempts:
        console.print(
            styled_text(
                f"  {each.attempt}. {each.finished_at.isoformat(timespec='seconds')} "
                f"({relative_time(each.finished_at)}), "
                f"{_outcome_text(each)}"
            ),
            soft_wrap=True,
        )
        if each.outcome != _LOST_OUTCOME:
            error = f"     {each.error_type}: {printable_line(mask_secrets(each.error_message))}"
            console.print(styled_text(error), soft_wrap=True)
    if attempts[-1].traceback:
        print_traceback(attempts[-1].traceback)


def _attempts_summary(attempts: "Sequence[Attempt]") -> str:
    lost, crashed = count_lost_workers(attempts), count_isolated_crashes(attempts)
    failed = len(attempts) - lost - crashed
    parts = []
    if failed:
        parts.append(count_text(failed, "failed attempt"))
    if lost:
        parts.append(count_text(lost, "lost worker"))
    if crashed:
        parts.append(f"{crashed} isolated {'crash' if crashed == 1 else 'crashes'}")
    return ", ".join(parts)


def count_lost_workers(attempts: "Sequence[Attempt]") -> int:
    """Return how many attempts ended because their worker died; these do not count as failures of the task."""
    return sum(each.outcome == _LOST_OUTCOME and each.error_type == _WORKER_LOST for each in attempts)


def count_isolated_crashes(attempts: "Sequence[Attempt]") -> int:
    """Return how many attempts crashed the process in which a suspect runs alone; these do not count as failures."""
    return sum(each.outcome == _LOST_OUTCOME and each.error_type != _WORKER_LOST for each in attempts)


def _outcome_text(attempt: "Attempt") -> str:
    if attempt.outcome == _LOST_OUTCOME:
        return f"lost: {printable_line(mask_secrets(attempt.error_message).removeprefix('worker lost: '))}"
    category = attempt.error_category
    if attempt.delay is None:
        return f"failed, {category}: last attempt" if attempt.outcome == "fail" else f"failed, {category}"
    return f"failed, {category}: retry in {attempt.delay:.{0 if attempt.delay >= _WHOLE_SECONDS_FROM else 1}f} s"


def print_traceback(text: str) -> None:
    """Print a traceback, indented."""
    console = make_console()
    console.print(styled_text("\ntraceback", "bold"))
    for each in printable_text(mask_secrets(text)).splitlines():
        console.print(styled_text(f"  {each}", "dim"), soft_wrap=True)
