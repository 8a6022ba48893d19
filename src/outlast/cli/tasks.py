"""``outlast tasks``: look at tasks, cancel them, make them due now."""

from typing import TYPE_CHECKING

import click

from outlast.cli.auditing import write_down
from outlast.cli.choosing import command, with_app
from outlast.cli.completing import queue_names
from outlast.cli.failing import FAILED
from outlast.cli.moments import exact, relative
from outlast.cli.numbers import LIMIT, NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rich.table import Table

    from outlast.app import App
    from outlast.ports.rows import Task
    from outlast.queue.overview import TaskHistory

__all__ = ["tasks"]

_STATUSES = ("queued", "running", "parked", "done", "failed", "cancelled", "discarded")


@click.group()
def tasks() -> None:
    """Look at tasks, cancel them, make them due now.

    \b
    Examples:
      outlast tasks list --status queued
      outlast tasks show 42
    """  # noqa: D301  # click reads the control character, not a backslash


@tasks.command("list")
@click.option("--status", type=click.Choice(_STATUSES, case_sensitive=False), help="Only those that stand so.")
@click.option("--queue", metavar="NAME", shell_complete=queue_names, help="Only those of a queue.")
@click.option("--task", "task_type", metavar="NAME", help="Only those of a name.")
@click.option("--before", type=NUMBER, metavar="ID", help="Only those with smaller numbers: the next page.")
@click.option("--limit", type=LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_tasks(
    app: "App",
    *,
    status: str | None,
    queue: str | None,
    task_type: str | None,
    before: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """List tasks, newest first.

    \b
    Examples:
      outlast tasks list --status running
      outlast tasks list --task scrape --limit 200 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, found_none, print_json, say, screen  # noqa: PLC0415  # not for --help
    from outlast.ports.rows import Status  # noqa: PLC0415  # not for --help

    found = app.tasks.list(
        status=None if status is None else Status(status.upper()),
        queue=queue,
        task_type=task_type,
        before=before,
        limit=limit,
    )
    if as_json:
        print_json([as_data(task) for task in found])
    elif found:
        screen().print(_table(found))
        if len(found) == limit:
            say(f"there may be more: --before {found[-1].id}", "dim")
    else:
        narrowed = any(each is not None for each in (status, queue, task_type, before))
        hint = command("tasks", "list") if narrowed else "outlast enqueue MODULE:APP TASK"
        found_none(
            "no tasks like that" if narrowed else "no tasks", f"{hint} {'shows all' if narrowed else 'adds one'}"
        )


def _table(found: "Sequence[Task]") -> "Table":
    from outlast.cli.showing import table  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_parameters  # noqa: PLC0415  # not for --help

    columns = {"ID": None, "STATUS": None, "TASK": 18, "QUEUE": 10, "FAILED": None, "WHEN": None, "ARGUMENTS": None}
    return table(
        columns,
        (
            (
                task.id,
                task.status.value,
                task.task_type,
                task.queue,
                task.retry_count or None,
                relative(_moment(task)),
                masked_parameters(task.parameters),
            )
            for task in found
        ),
    )


def _moment(task: "Task") -> "datetime":
    """Return when it ended, or began, or is due: what is next for it, or was last."""
    running = task.started_at if task.status == "RUNNING" else None
    return task.finished_at or task.failed_at or running or task.next_run_after


@tasks.command("show")
@click.argument("number", type=NUMBER, metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_task(app: "App", number: int, *, as_json: bool) -> None:
    """Show a task and its history: failed attempts and lost workers.

    \b
    Example:
      outlast tasks show 42
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, print_json  # noqa: PLC0415  # not for --help

    history = app.tasks.show(number)
    if as_json:
        print_json({**as_data(history.task), "attempts": [as_data(attempt) for attempt in history.attempts]})
    else:
        _show(history)


def _show(history: "TaskHistory") -> None:
    from outlast.cli.attempts import print_attempts  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import counted, facts, masked, screen  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_parameters  # noqa: PLC0415  # not for --help

    task = history.task
    screen().print(
        facts(
            [
                ("task", f"{task.id} {task.task_type}"),
                ("status", task.status.value),
                ("arguments", masked_parameters(task.parameters)),
                ("queue", f"{task.queue}, priority {task.priority}"),
                ("due", exact(task.next_run_after) if task.status in {"QUEUED", "PARKED"} else None),
                ("unique key", masked(task.unique_key)),
                ("resource", masked(task.resource)),
                ("starts", _starts(history)),
                ("crashes", task.crash_count or None),
                ("suspect", "it was running when a worker died; it runs alone next time" if task.suspect else None),
                ("put off", counted(task.deferrals, "time") if task.deferrals else None),
                ("replays", task.replays or None),
                ("worker", task.worker_id),
                ("last error", masked(task.last_error)),
                ("created", exact(task.created_at)),
                ("started", exact(task.started_at)),
                ("finished", exact(task.finished_at)),
                ("expires", exact(task.expires_at)),
            ]
        )
    )
    print_attempts(history.attempts)


def _starts(history: "TaskHistory") -> str:
    """Tell how the starts ended: what a process took with it is no failure, and a replay begins the count anew."""
    from outlast.cli.attempts import crashes_apart, lost_workers  # noqa: PLC0415  # not for --help

    task, lost, crashed = history.task, lost_workers(history.attempts), crashes_apart(history.attempts)
    anew = " since the last replay" if task.replays else ""
    said = f"{task.attempt}, {task.retry_count} failed{anew}" + (f", {lost} lost with a worker" if lost else "")
    return said + (f", {crashed} lost with a process apart" if crashed else "")


@tasks.command("cancel")
@click.argument("numbers", type=NUMBER, nargs=-1, required=True, metavar="ID...")
@with_app()
def cancel_tasks(app: "App", numbers: tuple[int, ...]) -> None:
    """Cancel tasks that wait or are parked. What runs is left to run.

    \b
    Example:
      outlast tasks cancel 42 43
    """  # noqa: D301  # click reads the control character, not a backslash
    _each(app, numbers, app.tasks.cancel, "cancelled", "cancel_task")


@tasks.command("retry")
@click.argument("numbers", type=NUMBER, nargs=-1, required=True, metavar="ID...")
@with_app()
def retry_tasks(app: "App", numbers: tuple[int, ...]) -> None:
    """Make tasks that wait due now, whatever they wait for.

    For a task that has failed for good see `outlast dlq replay`.

    \b
    Example:
      outlast tasks retry 42
    """  # noqa: D301  # click reads the control character, not a backslash
    _each(app, numbers, app.tasks.hurry, "due now", "hurry_task")


def _each(app: "App", numbers: tuple[int, ...], act: "Callable[..., Sequence[int]]", word: str, action: str) -> None:
    """Do something to tasks and say of each what became of it; exit 1 if it could not be done to one."""
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    wanted = dict.fromkeys(numbers)
    for number in wanted:
        write_down(app, action, f"task:{number}")
    changed = set(act(*wanted))
    for number in wanted:
        if number in changed:
            say(f"task {number}: {word}", "green")
            continue
        task = app.store.get(number)
        if task is None:
            say(f"task {number}: there is none", "red")
        elif task.status == "FAILED":
            say(f"task {number}: has failed; its dead letter can be replayed: {command('dlq', 'list')}", "red")
        else:
            say(f"task {number}: is {task.status.value}, left as it is", "red")
    if len(changed) < len(wanted):
        click.get_current_context().exit(FAILED)
