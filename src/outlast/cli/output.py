"""What commands print: tables for people, JSON for programs, never control characters.

Text from a store is untrusted: a task's arguments, or an error message. It is printed as text, never as markup, and
characters that are not printable are replaced, so that no payload can colour, move or forge what the terminal shows.
"""

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import click

from outlast import clock
from outlast.cli.app_options import next_command
from outlast.cli.errors import no_color
from outlast.cli.formats import exact_time
from outlast.queue.masking import masked_row, masked_text, masked_texts, masked_value
from outlast.record.json_values import json_text
from outlast.redact import safe_text
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, JustifyMethod
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

    from outlast.ports.rows import Attempt

T = TypeVar("T")
JsonObject = dict[str, Any]
"""A JSON object, as commands print it."""
Cells = Sequence[object]
"""The cells of one row of a table."""
_MAX_CELL_CHARS = 400
_MAX_TRACEBACK_CHARS = 32_768
_MAX_TEXT_CHARS = 300_000  # a payload may have 256 KiB
_COLUMN_GAP = 2  # spaces
_MIN_LAST_COLUMN = 40  # characters; other columns are cut before the last one gets narrower
_NO_FILTERS = {"limit", "as_json", "reference", "url"}  # parameters of lists
_LEAST_LAST_COLUMN = 16  # characters; other columns are left out before the last one gets narrower
_WIDE = 1_000_000  # columns of a terminal without an edge
_NUMBER_COLUMNS = {"EXIT", "FAILED", "HTTP", "TASKS", "TOOK", "TRIES"}  # right-aligned even if all values are dashes
_STYLES = {
    text: style
    for style, texts in (
        ("cyan", ("RUNNING", "probation")),
        ("green", ("DONE", "replayed", "healthy")),
        ("yellow", ("PARKED", "paused", "warning", "waits")),
        ("red", ("FAILED", "conflict", "error", "disabled", "failed", "given up")),
    )
    for text in texts
}


def wide_flag() -> bool | None:
    """Return whether ``--wide`` is given; None if the command does not have it."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get("outlast.wide")


def make_console(*, stderr: bool = False) -> "Console":
    """Return a console without markup, emoji codes and highlighting; with NO_COLOR it is no terminal."""
    from rich.console import Console  # noqa: PLC0415  # not for --help

    settings: dict[str, Any] = {"force_terminal": False, "color_system": None} if no_color() else {}
    width = _WIDE if wide_flag() else None
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width, **settings)


def printable_text(text: object) -> str:
    """Return text that is safe to print, with its line breaks."""
    return safe_text(str(text), _MAX_TEXT_CHARS).replace("\t", "    ")


def printable_line(text: object, limit: int = _MAX_CELL_CHARS) -> str:
    """Return text that is safe to print, in one line."""
    return " ".join(safe_text(str(text)[: limit * 4], limit).split())


def styled_text(text: object, style: str = "") -> "Text":
    """Return text for the console that is never read as markup."""
    from rich.text import Text  # noqa: PLC0415  # not for --help

    return Text(printable_text(text), style=style)


def print_text(text: object, style: str = "") -> None:
    """Print a text."""
    make_console().print(styled_text(text, style), soft_wrap=True)


def make_table(columns: Mapping[str, int | None], rows: Iterable[Cells]) -> "Table":
    """Return a table with one line per row that fits the terminal.

    Without enough room, columns with a maximum are cut. Then the columns between the first and the last are left out:
    first those without values, then from the right. Then the last one is cut. A first column without a maximum is
    always whole, because the next command needs its value. With ``--wide`` nothing is cut.

    Args:
        columns: Headings, each with the maximum width of its column if there is no room for all; None for no
            maximum. Columns of numbers are right-aligned.
        rows: The cells; None is shown as a dash.
    """
    from rich.table import Table  # noqa: PLC0415  # not for --help

    values = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in values]
    names, last, room = list(columns), len(columns) - 1, make_console().width
    widths = [max([len(name), *(row[index].cell_len for row in cells)]) for index, name in enumerate(names)]
    if sum(widths[:-1]) + _COLUMN_GAP * last + min(widths[-1], _MIN_LAST_COLUMN) > room:
        for index, maximum in enumerate(columns.values()):
            widths[index] = widths[index] if maximum is None else max(len(names[index]), min(widths[index], maximum))
    used = {index for index in range(len(names)) if any(row[index] not in {None, ""} for row in values)}
    shown = list(range(len(names)))
    for index in [*sorted(range(1, last), key=lambda index: (index in used, -index)), last]:
        left = room - sum(widths[each] + _COLUMN_GAP for each in shown if each != last)  # for the last column
        if len(shown) > 1 and left < min(widths[last], _LEAST_LAST_COLUMN):
            shown.remove(index)
    if last in shown:
        widths[last] = min(widths[last], room - sum(widths[each] + _COLUMN_GAP for each in shown if each != last))
    left_out = [names[index] for index in sorted(used.difference(shown))]
    hint = "" if wide_flag() is None else "; --wide shows all"
    made = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        caption=styled_text(f"no room for {', '.join(left_out)}{hint}", "dim") if left_out else None,
        caption_justify="left",
    )
    for index in shown:
        is_numeric = any(isinstance(row[index], int) for row in values) or (
            names[index] in _NUMBER_COLUMNS and index != last
        )
        justify: JustifyMethod = "right" if is_numeric else "left"
        made.add_column(_unwrapped(names[index]), width=min(widths[index], room), justify=justify)
    for row in cells:
        if row[0].cell_len > room:
            row[0].no_wrap, row[0].overflow = False, "fold"
        made.add_row(*(row[index] for index in shown))
    return made


def table(columns: str) -> "Callable[[Callable[[T], Cells]], Callable[[Iterable[T]], Table]]":
    """Turn a function that returns the cells of one row into a function that returns the table of many rows.

    Args:
        columns: Headings separated by commas, with the maximum widths of `make_table`: ``ID, TASK:16, ERROR``.
    """
    parts = [part.partition(":") for part in columns.split(", ")]
    widths = {heading: int(width) if width else None for heading, _, width in parts}
    return lambda cells: lambda found: make_table(widths, map(cells, found))


def _cell(value: object) -> "Text":
    limit = _MAX_TEXT_CHARS if wide_flag() else _MAX_CELL_CHARS
    text = "-" if value is None or value == "" else printable_line(value, limit)
    return _unwrapped(text, _STYLES.get(text, ""))


def _unwrapped(text: str, style: str = "") -> "Text":
    shown = styled_text(text, style)
    shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown


def print_list(
    found: Sequence[Any],
    make_rows: "Callable[[Sequence[Any]], Table]",
    what: str,
    hint: str,
    *,
    as_json: bool,
    data: Callable[[Any], object] | None = None,
    next_page: str = "--limit",
) -> bool:
    """Print the rows that a command lists, and how to get more; return whether a table was printed.

    Args:
        found: The rows.
        make_rows: Returns their table.
        what: What is listed, such as ``tasks``.
        hint: What to do if there are none at all. If they were filtered, the command without filters is shown.
        as_json: Whether to print JSON instead, also if there are none.
        data: Returns the JSON data of a row; by default `row_data`.
        next_page: The option that shows more rows: ``--limit``, or one that takes the id of the last row.
    """
    if as_json:
        print_json([(data or row_data)(each) for each in found])
    elif found:
        make_console().print(make_rows(found))
        if len(found) == (limit := click.get_current_context().params.get("limit")):
            value = limit * 2 if next_page == "--limit" else found[-1].id
            print_text(f"there may be more: {next_page} {value}", "dim")
    elif _is_filtered():
        command = click.get_current_context().command_path.split()[1:]
        print_empty(f"no {what} match", f"{next_command(*command)} shows all")
    else:
        print_empty(f"no {what}", hint)
    return bool(found) and not as_json


def _is_filtered() -> bool:
    """Return whether the command has an option that leaves rows out."""
    return any(value for name, value in click.get_current_context().params.items() if name not in _NO_FILTERS)


def print_empty(what: str, hint: str) -> None:
    """Print that a list is empty, and what to do."""
    make_console().print(styled_text(what).append(printable_text(f"; {hint}"), "dim"), soft_wrap=True)


def print_facts(facts: Mapping[str, object]) -> None:
    """Print a name and a value per line; values that are None are left out."""
    from rich.table import Table  # noqa: PLC0415  # not for --help

    lines = Table(box=None, pad_edge=False, show_header=False)
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            lines.add_row(name, styled_text(value))
    make_console().print(lines)


def row_facts(row: object, *names: str) -> JsonObject:
    """Return attributes of a row for `print_facts`: texts masked, times exact, and None for what is empty."""
    return {name.removesuffix("_at").removesuffix("_id").replace("_", " "): _fact(getattr(row, name)) for name in names}


def _fact(value: object) -> object:
    return exact_time(value) if isinstance(value, datetime) else masked_texts(value) or None


def status_counts_text(counts: Mapping[str, int]) -> str:
    """Return the number of tasks of each status, in one line."""
    parts = [f"{name.lower().replace('_', ' ')} {count}" for name, count in counts.items() if count]
    return ", ".join(parts) or "no tasks"


def row_data(row: Any) -> JsonObject:
    """Return a row as JSON data: times as ISO text with their offset, the payload as an object, secrets masked."""
    data: JsonObject = masked_row(row)._asdict()
    data.pop("epoch", None)  # how often the row was leased
    if "parameters" in data:
        data["parameters"] = masked_value(data["parameters"])
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in data.items()}


def print_json(value: object) -> None:
    """Print JSON; characters that are not printable are written as escapes."""
    text = json_text(value, indent=2)
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    click.echo(text)


_LOST_OUTCOME = "lost"
_WORKER_LOST = "WorkerLost"
_WHOLE_SECONDS_FROM = 10.0  # seconds; longer delays are shown without tenths


def print_attempts(attempts: "Sequence[Attempt]") -> None:
    """Print the history of a task, oldest first: failed attempts and lost workers."""
    if not attempts:
        return
    print_text(f"\nhistory: {_attempts_summary(attempts)}", "bold")
    for _, group in groupby(
        attempts, lambda each: (each.outcome == _LOST_OUTCOME, each.error_type, each.error_message)
    ):
        first, *others = group
        _print_attempt(first)
        if len(others) > 1:
            print_text(f"     … {counted(len(others) - 1, 'more attempt')} with the same error", "dim")
        if others:
            _print_attempt(others[-1])
    if attempts[-1].traceback:
        print_traceback(attempts[-1].traceback)


def _print_attempt(each: "Attempt") -> None:
    print_text(f"  {each.attempt}. {exact_time(each.finished_at)}, {_outcome_text(each)}")
    if each.outcome != _LOST_OUTCOME:
        print_text(f"     {each.error_type}: {printable_line(masked_texts(each.error_message))}")


def _attempts_summary(attempts: "Sequence[Attempt]") -> str:
    lost, crashed = count_lost_workers(attempts), count_isolated_crashes(attempts)
    failed = len(attempts) - lost - crashed
    parts = ((failed, "failed attempt"), (lost, "lost worker"), (crashed, "isolated crash", "isolated crashes"))
    return ", ".join(counted(*part) for part in parts if part[0])


def count_lost_workers(attempts: "Sequence[Attempt]") -> int:
    """Return how many attempts ended because their worker died; these do not count as failures of the task."""
    return sum(each.outcome == _LOST_OUTCOME and each.error_type == _WORKER_LOST for each in attempts)


def count_isolated_crashes(attempts: "Sequence[Attempt]") -> int:
    """Return how many attempts crashed the process in which a suspect runs alone; these do not count as failures."""
    return sum(each.outcome == _LOST_OUTCOME and each.error_type != _WORKER_LOST for each in attempts)


def _outcome_text(attempt: "Attempt") -> str:
    if attempt.outcome == _LOST_OUTCOME:
        return f"lost: {printable_line(masked_texts(attempt.error_message).removeprefix('worker lost: '))}"
    category = attempt.error_category
    if attempt.delay is None:
        return f"failed, {category}: last attempt" if attempt.outcome == "fail" else f"failed, {category}"
    return f"failed, {category}: retry in {attempt.delay:.{0 if attempt.delay >= _WHOLE_SECONDS_FROM else 1}f} s"


def print_traceback(text: str) -> None:
    """Print a traceback, indented."""
    print_text("\ntraceback", "bold")
    for each in printable_text(masked_texts(text)).splitlines():
        print_text(f"  {each}", "dim")


def print_user_traceback(error: Exception, trace: "TracebackType | None") -> None:
    """Print an error of the user's code to standard error, masked, with the part of its traceback that is theirs."""
    frames = traceback.format_exception(type(error), error, trace)
    click.echo(safe_text(masked_text("".join(frames)), _MAX_TRACEBACK_CHARS), err=True)


def progress_bar(console: "Console") -> "Progress":
    """Return a bar with a description and the number of handled rows, which disappears at the end."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  # only on a terminal

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True)


def throttled(show: Callable[[T], object], every: float, *, at_once: bool = False) -> Callable[[T], None]:
    """Return a function that shows progress, but drops calls that follow the last shown one too soon.

    Args:
        show: Shows the progress.
        every: Seconds between two calls of it.
        at_once: Whether the first call is shown too.
    """
    shown_at = clock.monotonic() - (every if at_once else 0)

    def progress(step: T) -> None:
        nonlocal shown_at
        if clock.monotonic() - shown_at >= every:
            shown_at = clock.monotonic()
            show(step)

    return progress
