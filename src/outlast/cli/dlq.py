"""``outlast dlq``: look at dead letters; what is done about them has files of its own."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import command, with_app
from outlast.cli.dlq_edit import edit
from outlast.cli.dlq_filters import with_filters
from outlast.cli.dlq_groups import ack, note, reopen, snooze
from outlast.cli.dlq_handling import discard, replay
from outlast.cli.dlq_replays import replays
from outlast.cli.moments import exact, relative
from outlast.cli.numbers import LIMIT, NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from outlast.app import App
    from outlast.ports.rows import Group
    from outlast.ports.triage_rows import PayloadEdit
    from outlast.queue.dead_letters import DeadLetterHistory

__all__ = ["dlq", "groups_table"]


@click.group()
def dlq() -> None:
    """Look at dead letters, edit, replay or discard them.

    A dead letter is a task that has ended without success. It is kept until it is replayed or discarded.

    \b
    Examples:
      outlast dlq groups
      outlast dlq replay --group 5d41402abc4b2a76 --canary --rate 10/s
    """  # noqa: D301  # click reads the control character, not a backslash


@dlq.command("list")
@with_filters
@click.option("--limit", type=LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_letters(app: "App", *, which: dict[str, Any], limit: int, as_json: bool) -> None:
    """List dead letters, newest first.

    \b
    Examples:
      outlast dlq list --since 2h
      outlast dlq list --task scrape --category network --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, masked, print_json, say, screen, table  # noqa: PLC0415  # not for --help

    found = app.dead_letters.list(limit, **which)
    if as_json:
        print_json([as_data(letter) for letter in found])
        return
    if not found:
        _say_none(which, "list")
        return
    columns = {"ID": None, "TASK": 16, "REASON": None, "CATEGORY": 14, "WHEN": None, "ERROR": None}
    rows = (
        (
            letter.id,
            letter.task_type,
            letter.reason.value,
            letter.error_category,
            relative(letter.moved_to_dlq_at),
            f"{letter.error_type}: {masked(letter.error_message)}",
        )
        for letter in found
    )
    screen().print(table(columns, rows))
    if len(found) == limit:
        say(f"{app.dead_letters.count(**which)} in all; --limit shows more", "dim")


@dlq.command("show")
@click.argument("number", type=NUMBER, metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_letter(app: "App", number: int, *, as_json: bool) -> None:
    """Show a dead letter, every failed attempt, who has changed its arguments, and the traceback.

    \b
    Example:
      outlast dlq show 7
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, print_json  # noqa: PLC0415  # not for --help
    from outlast.queue.triage import masked_edit  # noqa: PLC0415  # not for --help

    history = app.dead_letters.show(number)
    edits = [masked_edit(each) for each in app.dead_letters.edits(history.letter.original_task_id)]
    if as_json:
        attempts = [as_data(attempt) for attempt in history.attempts]
        print_json({**as_data(history.letter), "attempts": attempts, "edits": [as_data(each) for each in edits]})
    else:
        _show(history, edits)


def _show(history: "DeadLetterHistory", edits: "Sequence[PayloadEdit]") -> None:
    from outlast.cli.attempts import print_attempts, print_traceback  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import counted, facts, masked, screen  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_parameters  # noqa: PLC0415  # not for --help

    letter = history.letter
    rule = letter.failure.get("rule")
    screen().print(
        facts(
            [
                ("dead letter", f"{letter.id}, of task {letter.original_task_id} {letter.task_type}"),
                ("reason", letter.reason.value),
                ("error", f"{letter.error_type}: {masked(letter.error_message)}"),
                ("category", f"{letter.error_category}{f' ({rule})' if rule else ''}"),
                ("group", letter.fingerprint),
                ("arguments", masked_parameters(letter.parameters)),
                ("queue", f"{letter.queue}, priority {letter.priority}"),
                ("unique key", masked(letter.unique_key)),
                ("resource", masked(letter.resource)),
                ("failed", counted(letter.retry_count, "attempt")),
                ("crashes", letter.crash_count or None),
                ("replays", letter.replays or None),
                ("worker", letter.worker_id),
                ("created", exact(letter.created_at)),
                ("moved", exact(letter.moved_to_dlq_at)),
            ]
        )
    )
    _print_edits(edits)
    print_attempts(history.attempts)
    if letter.traceback and not any(attempt.traceback for attempt in history.attempts[-1:]):
        print_traceback(letter.traceback)


def _print_edits(edits: "Sequence[PayloadEdit]") -> None:
    """Print who has changed the arguments, oldest first."""
    from outlast.cli.showing import counted, line, masked, one_line, screen  # noqa: PLC0415  # not for --help

    if not edits:
        return
    console = screen()
    console.print(line(f"\nchanged by hand: {counted(len(edits), 'time')}", "bold"))
    for each in edits:
        told = f"  {each.at.isoformat(timespec='seconds')} ({relative(each.at)}) by {each.who}: {masked(each.reason)}"
        console.print(line(one_line(told)), soft_wrap=True)
        console.print(line(f"     was {one_line(each.before)}"), soft_wrap=True)
        console.print(line(f"     {one_line(each.patch)}", "dim"), soft_wrap=True)


@dlq.command("groups")
@with_filters
@click.option("--limit", type=LIMIT, metavar="N", default=50, show_default=True, help="How many groups at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_groups(app: "App", *, which: dict[str, Any], limit: int, as_json: bool) -> None:
    """Group dead letters by cause, the largest group first.

    \b
    Examples:
      outlast dlq groups
      outlast dlq groups --since 1d --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, print_json, screen  # noqa: PLC0415  # not for --help

    found = app.dead_letters.groups(limit, **which)
    if as_json:
        print_json([as_data(group) for group in found])
    elif found:
        screen().print(groups_table(found))
    else:
        _say_none(which, "groups")


def _say_none(which: dict[str, Any], again: str) -> None:
    from outlast.cli.showing import found_none  # noqa: PLC0415  # not for --help

    if which:
        found_none("no dead letters like that", f"{command('dlq', again)} shows all")
    else:
        found_none("no dead letters", f"nothing has failed for good; {command('tasks', 'list')} shows what waits")


def groups_table(found: "Sequence[Group]") -> "Table":
    """Return the table of groups; the fingerprint is whole, to be pasted behind ``--group``."""
    from outlast.cli.showing import masked, table  # noqa: PLC0415  # not for --help

    columns = {"GROUP": None, "SIZE": None, "LAST": None, "TASK": 14, "CATEGORY": 12, "ERROR": None}
    rows = (
        (
            group.fingerprint,
            group.size,
            relative(group.last_seen),
            group.task_type,
            group.error_category,
            f"{group.error_type}: {masked(group.error_message)}",
        )
        for group in found
    )
    return table(columns, rows)


for each in (replay, replays, edit, discard, ack, snooze, reopen, note):
    dlq.add_command(each)
