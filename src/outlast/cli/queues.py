"""``outlast queues``: list queues, pause and resume them."""

from typing import TYPE_CHECKING

import click

from outlast.cli.auditing import write_down
from outlast.cli.choosing import with_app
from outlast.cli.completing import queue_names
from outlast.cli.failing import FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from outlast.app import App
    from outlast.ports.rows import QueueRow

__all__ = ["queues", "queues_table"]


@click.group()
def queues() -> None:
    """List queues, pause and resume them.

    \b
    Examples:
      outlast queues list
      outlast queues pause mail
    """  # noqa: D301  # click reads the control character, not a backslash


@queues.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_queues(app: "App", *, as_json: bool) -> None:
    """List the queues that have tasks or are paused.

    \b
    Example:
      outlast queues list --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, found_none, print_json, screen  # noqa: PLC0415  # not for --help

    found = app.tasks.queues()
    if as_json:
        print_json([as_data(queue) for queue in found])
    elif found:
        screen().print(queues_table(found))
    else:
        found_none("no queue has tasks, and none is paused", "outlast enqueue MODULE:APP TASK adds a task")


def queues_table(found: "Sequence[QueueRow]") -> "Table":
    """Return the table of queues."""
    from outlast.cli.showing import table  # noqa: PLC0415  # not for --help

    columns = {"QUEUE": 30, "READY": None, "SCHEDULED": None, "RUNNING": None, "PARKED": None, "STATE": None}
    rows = (
        (row.name, row.ready, row.scheduled, row.running, row.parked, "paused" if row.paused else "open")
        for row in found
    )
    return table(columns, rows)


@queues.command("pause")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=queue_names)
@with_app()
def pause_queues(app: "App", names: tuple[str, ...]) -> None:
    """Have nothing claimed from queues. What runs is left to run, and tasks can still be added.

    \b
    Example:
      outlast queues pause mail
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    known = {row.name for row in app.tasks.queues()}
    for name in names:
        write_down(app, "pause_queue", f"queue:{name}")
        app.tasks.pause(name)
        say(f"queue {name}: paused{'' if name in known else '; it has no tasks yet'}", "yellow")


@queues.command("resume")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=queue_names)
@with_app()
def resume_queues(app: "App", names: tuple[str, ...]) -> None:
    """Have queues claimed from again. Exit code 1 if one is neither paused nor has tasks.

    \b
    Example:
      outlast queues resume mail
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    paused = {row.name: row.paused for row in app.tasks.queues()}
    for name in names:
        if name not in paused:
            say(f"queue {name}: is not paused and has no tasks; is the name right?", "red")
            continue
        write_down(app, "resume_queue", f"queue:{name}")
        app.tasks.resume(name)
        say(f"queue {name}: {'resumed' if paused[name] else 'was not paused'}", "green")
    if not paused.keys() >= set(names):
        click.get_current_context().exit(FAILED)
