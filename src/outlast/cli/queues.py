"""``outlast queues``: list, pause and resume queues; ``outlast limits``: the limits that all workers share."""

from typing import TYPE_CHECKING

import click

from outlast.cli.app_options import with_app
from outlast.cli.audit import write_audit_entry
from outlast.cli.completion import queue_names
from outlast.cli.errors import EXIT_FAILED
from outlast.cli.formats import relative_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from outlast.app import App
    from outlast.ports.rows import QueueRow
    from outlast.ports.store import LimitRow


@click.group()
def queues() -> None:
    """List, pause and resume queues.

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
    from outlast.cli.output import make_console, print_empty, print_json, row_data  # noqa: PLC0415  # not for --help

    found = app.tasks.queues()
    if as_json:
        print_json([row_data(queue) for queue in found])
    elif found:
        make_console().print(queues_table(found))
    else:
        print_empty("no queue has tasks or is paused", "outlast enqueue MODULE:APP TASK adds a task")


def queues_table(found: "Sequence[QueueRow]") -> "Table":
    """Return the table of queues."""
    from outlast.cli.output import make_table  # noqa: PLC0415  # not for --help

    columns = {"QUEUE": 30, "READY": None, "SCHEDULED": None, "RUNNING": None, "PARKED": None, "STATE": None}
    rows = (
        (row.name, row.ready, row.scheduled, row.running, row.parked, "paused" if row.paused else "open")
        for row in found
    )
    return make_table(columns, rows)


@queues.command("pause")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=queue_names)
@with_app()
def pause_queues(app: "App", names: tuple[str, ...]) -> None:
    """Pause queues: workers start no more tasks from them. Running tasks finish, and tasks can still be added.

    \b
    Example:
      outlast queues pause mail
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    known = {row.name for row in app.tasks.queues()}
    for name in names:
        write_audit_entry(app, "pause_queue", f"queue:{name}")
        app.tasks.pause(name)
        print_text(f"queue {name}: paused{'' if name in known else '; it has no tasks yet'}", "yellow")


@queues.command("resume")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=queue_names)
@with_app()
def resume_queues(app: "App", names: tuple[str, ...]) -> None:
    """Resume queues. Exit code 1 if a queue is not paused and has no tasks.

    \b
    Example:
      outlast queues resume mail
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    paused = {row.name: row.paused for row in app.tasks.queues()}
    for name in names:
        if name not in paused:
            print_text(f"queue {name}: is not paused and has no tasks; check the name", "red")
            continue
        write_audit_entry(app, "resume_queue", f"queue:{name}")
        app.tasks.resume(name)
        print_text(f"queue {name}: {'resumed' if paused[name] else 'was not paused'}", "green")
    if not paused.keys() >= set(names):
        click.get_current_context().exit(EXIT_FAILED)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def limits(app: "App", *, as_json: bool) -> None:
    """Show the limits that all workers share, set by app.limit(…), and their current use.

    Limits that a worker used within the last day are listed, with the settings of the worker that used them last.

    \b
    Examples:
      outlast limits
      outlast limits --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, make_table, mask_secrets, print_empty, print_json, row_data  # noqa: PLC0415  # not for --help

    found = app.store.limits()
    if as_json:
        print_json([row_data(row) for row in found])
        return
    if not found:
        print_empty("no worker used a limit within the last day", "app.limit(RESOURCE, rate=…) sets one")
        return
    columns = {
        "RESOURCE": 30,
        "RATE": None,
        "RUNNING": None,
        "RETRIES": None,
        "NEXT START": None,
        "WAITING UNTIL": None,
        "USED": None,
    }
    make_console().print(make_table(columns, (_limit_cells(row, mask_secrets(row.resource)) for row in found)))


def _limit_cells(row: "LimitRow", name: str) -> tuple[object, ...]:
    return (
        name,
        _rate_text(row.rate, row.burst),
        None if row.concurrency is None else f"{row.running} of {row.concurrency}",
        _rate_text(row.retries, row.retry_burst),
        "now" if row.next_start is None else relative_time(row.next_start),
        _latest_time(row.waiting_until, row.retries_until),
        relative_time(row.asked_at),
    )


def _rate_text(rate: float | None, burst: int) -> str | None:
    """Return a rate, with its burst if that is more than one."""
    from outlast.units import rate_text  # noqa: PLC0415  # not for --help

    return None if rate is None else f"{rate_text(rate)}{f', burst {burst}' if burst > 1 else ''}"


def _latest_time(*times: "datetime | None") -> str | None:
    known = [each for each in times if each is not None]
    return relative_time(max(known)) if known else None
