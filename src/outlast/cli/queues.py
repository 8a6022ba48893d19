"""``outlast queues``: list, pause and resume queues; ``outlast limits``: the limits that all workers share."""

from typing import TYPE_CHECKING

import click

from outlast.cli.app_options import list_options, with_app
from outlast.cli.formats import relative_time
from outlast.cli.operations import add_operations
from outlast.cli.output import Cells, print_list, table
from outlast.queue.masking import masked_texts
from outlast.units import limit_text

if TYPE_CHECKING:
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
@list_options()
@with_app
def list_queues(app: "App", *, as_json: bool) -> None:
    """List the queues that have tasks or are paused.

    \b
    Example:
      outlast queues list --json
    """  # noqa: D301  # click reads the control character, not a backslash
    hint = "outlast enqueue MODULE:APP TASK adds a task"
    print_list(app.tasks.queues(), queues_table, "queue has tasks or is paused", hint, as_json=as_json)


@table("QUEUE, READY, SCHEDULED, RUNNING, PARKED, STATE")
def queues_table(row: "QueueRow") -> Cells:
    """Return the table of queues."""
    return (row.name, row.ready, row.scheduled, row.running, row.parked, "paused" if row.paused else "open")


add_operations(queues, "queues")


@click.command()
@list_options()
@with_app
def limits(app: "App", *, as_json: bool) -> None:
    """Show the limits that all workers share, set by app.limit(…), and their current use.

    Limits that a worker used within the last day are listed, with the settings of the worker that used them last.

    \b
    Examples:
      outlast limits
      outlast limits --json
    """  # noqa: D301  # click reads the control character, not a backslash
    hint = "app.limit(RESOURCE, rate=…) sets one"
    print_list(app.store.limits(), _limits_table, "worker used a limit within the last day", hint, as_json=as_json)


@table("RESOURCE, RATE, RUNNING, RETRIES, NEXT START, WAITING UNTIL, USED")
def _limits_table(row: "LimitRow") -> Cells:
    return (
        masked_texts(row.resource),
        limit_text(row.rate, row.burst),
        None if row.concurrency is None else f"{row.running} of {row.concurrency}",
        limit_text(row.retries, row.retry_burst),
        "now" if row.next_start is None else relative_time(row.next_start),
        relative_time(max(filter(None, (row.waiting_until, row.retries_until)), default=None)),
        relative_time(row.asked_at),
    )
