"""``outlast tasks``: look at tasks, cancel them, make them due now."""

import difflib
import inspect
import json
import typing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import next_command, with_app
from outlast.cli.audit import write_audit_entry
from outlast.cli.completion import queue_names
from outlast.cli.errors import EXIT_FAILED
from outlast.cli.formats import DURATION, ROW_LIMIT, ROW_NUMBER, TIME, exact_time, relative_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from outlast.app import App
    from outlast.ports.rows import Task
    from outlast.queue.definition import TaskDefinition
    from outlast.queue.task_reader import TaskHistory


# ``outlast enqueue``: add a task from the command line.


@click.command()
@click.argument("reference", metavar="MODULE:APP")
@click.argument("task")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "arguments", metavar="JSON", help="All arguments: an object by name, or a list by position.")
@click.option("--delay", type=DURATION, metavar="SPAN", help="How long to wait first: seconds, or 90s, 15m, 2h, 3d.")
@click.option("--run-at", type=TIME, metavar="TIME", help="When to run, such as 2026-11-15T10:00:00+00:00.")
@click.option("--unique-key", metavar="TEXT", help="Add nothing while a task of this key waits or runs.")
@click.option("--priority", type=click.IntRange(0, 9), metavar="0-9", help="0 goes first, 9 last.")
@click.option("--queue", metavar="NAME", help="Where it waits. Default: as the task says.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def enqueue(
    reference: str,
    task: str,
    pairs: tuple[str, ...],
    arguments: str | None,
    *,
    as_json: bool,
    **options: float | datetime | str | None,
) -> None:
    """Add a task.

    A VALUE is read as JSON where it is JSON, else as text; a parameter that is annotated as str takes it as text.

    \b
    Examples:
      outlast enqueue jobs:app scrape url=https://example.com depth=2
      outlast enqueue jobs:app scrape --args '{"url": "http://e.com"}' --delay 9m
      outlast enqueue jobs:app report day=2026-11-15 --unique-key 2026-11-15
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    if pairs and arguments is not None:
        message = "give --args or KEY=VALUE, not both"
        raise click.UsageError(message)
    configure()
    app = load_app(reference)
    try:
        definition = task_definition(app, task)
        given = _named_arguments(definition, arguments) if arguments is not None else _pair_arguments(definition, pairs)
        args, kwargs = _decode_arguments(definition, given)
        chosen = {name: value for name, value in options.items() if value is not None}
        added = definition.enqueue(*args, **kwargs, **chosen)
    finally:
        app.close()
    if as_json:
        queue = chosen.get("queue", definition.queue)
        print_json({"id": added.id, "created": added.created, "task_type": definition.name, "queue": queue})
    elif added.created:
        print_text(f"task {added.id}: {definition.name} is queued")
    else:
        print_text(f"task {added.id}: {definition.name} has this unique key already; nothing was added", "yellow")


def task_definition(app: "App", name: str) -> "TaskDefinition[Any, Any]":
    """Return a task of an app by its name.

    Raises:
        ConfigError: If it has none of that name; the message says which it has.
    """
    if name in app.tasks_by_name:
        return app.tasks_by_name[name]
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    close = difflib.get_close_matches(name, app.tasks_by_name, n=1)
    known = ", ".join(sorted(app.tasks_by_name))
    others = " and ".join(f"{engine}'s" for engine in app.engines)
    if close:
        hint = f"did you mean {close[0]}?"
    elif others:
        hint = f"{f'there are: {known}; others' if known else 'its tasks'} are {others}, sent by your program as ever"
    else:
        hint = f"there are: {known or 'none'}"
    message = f"the app has no task {name!r}; {hint}"
    raise ConfigError(message)


def _named_arguments(definition: "TaskDefinition[Any, Any]", text: str) -> dict[str, Any]:
    """Return the arguments of ``--args``, by name."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"this is no JSON: {error}"
        raise click.BadParameter(message, param_hint="--args") from None
    if isinstance(given, dict):
        return given
    if not isinstance(given, list):
        message = 'give an object, such as \'{"url": "https://example.com"}\', or a list'
        raise click.BadParameter(message, param_hint="--args")
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = inspect.signature(definition.function).parameters.values()
    names = [each.name for each in parameters if each.kind in kinds]
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
    by_name = dict(zip(names, given, strict=False))
    if len(given) > len(names):
        if rest is None:
            many = "1 argument is" if len(given) == 1 else f"{len(given)} arguments are"
            message = f"{many} too many for task {definition.name}, which takes {len(names)}"
            raise click.BadParameter(message, param_hint="--args")
        by_name[rest] = given[len(names) :]
    return by_name


def _pair_arguments(definition: "TaskDefinition[Any, Any]", pairs: tuple[str, ...]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(definition.function)
    except Exception:  # noqa: BLE001  # a hint that cannot be read says nothing
        hints = {}
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            message = f"{pair!r} is no KEY=VALUE, such as url=https://example.com"
            raise click.UsageError(message)
        if name in given:
            message = f"{name} is given twice"
            raise click.UsageError(message)
        given[name] = _parse_value(text, hints.get(name))
    return given


def _parse_value(text: str, hint: object) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if hint is str and not isinstance(value, str) else value


def _decode_arguments(
    definition: "TaskDefinition[Any, Any]", given: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the call that the JSON values mean by the task's hints: a text becomes a datetime where one is wanted."""
    parameters = inspect.signature(definition.function).parameters.values()
    more = next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)
    known = {each.name for each in parameters}
    unknown = [name for name in given if name not in known]
    if more is not None and unknown:
        given = {name: value for name, value in given.items() if name in known} | {
            more: {name: given[name] for name in unknown}
        }
        unknown = []
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _VARIADIC_KINDS]
    missing = [name for name in required if name not in given]
    if missing or unknown:
        said = [f"{', '.join(missing)} is missing"] * bool(missing) + [
            f"it has no parameter {', '.join(unknown)}"
        ] * bool(unknown)
        signature = inspect.signature(definition.function)
        message = f"task {definition.name} cannot be called so: {'; '.join(said)}; its parameters are {signature}"
        raise click.UsageError(message)
    return definition.codec.decode(json.dumps(given))


_VARIADIC_KINDS = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


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
@click.option("--before", type=ROW_NUMBER, metavar="ID", help="Only those with smaller numbers: the next page.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
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
    from outlast.cli.output import make_console, print_empty, print_json, print_text, row_data  # noqa: PLC0415  # not for --help
    from outlast.ports.rows import Status  # noqa: PLC0415  # not for --help

    found = app.tasks.list(
        status=None if status is None else Status(status.upper()),
        queue=queue,
        task_type=task_type,
        before=before,
        limit=limit,
    )
    if as_json:
        print_json([row_data(task) for task in found])
    elif found:
        make_console().print(_tasks_table(found))
        if len(found) == limit:
            print_text(f"there may be more: --before {found[-1].id}", "dim")
    else:
        narrowed = any(each is not None for each in (status, queue, task_type, before))
        hint = next_command("tasks", "list") if narrowed else "outlast enqueue MODULE:APP TASK"
        print_empty(
            "no tasks like that" if narrowed else "no tasks", f"{hint} {'shows all' if narrowed else 'adds one'}"
        )


def _tasks_table(found: "Sequence[Task]") -> "Table":
    from outlast.cli.output import make_table  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_parameters  # noqa: PLC0415  # not for --help

    columns = {"ID": None, "STATUS": None, "TASK": 18, "QUEUE": 10, "FAILED": None, "WHEN": None, "ARGUMENTS": None}
    return make_table(
        columns,
        (
            (
                task.id,
                task.status.value,
                task.task_type,
                task.queue,
                task.retry_count or None,
                relative_time(_task_time(task)),
                masked_parameters(task.parameters),
            )
            for task in found
        ),
    )


def _task_time(task: "Task") -> "datetime":
    """Return when it ended, or began, or is due: what is next for it, or was last."""
    running = task.started_at if task.status == "RUNNING" else None
    return task.finished_at or task.failed_at or running or task.next_run_after


@tasks.command("show")
@click.argument("number", type=ROW_NUMBER, metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_task(app: "App", number: int, *, as_json: bool) -> None:
    """Show a task and its history: failed attempts and lost workers.

    \b
    Example:
      outlast tasks show 42
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_json, row_data  # noqa: PLC0415  # not for --help

    history = app.tasks.show(number)
    if as_json:
        print_json({**row_data(history.task), "attempts": [row_data(attempt) for attempt in history.attempts]})
    else:
        _print_task(history)


def _print_task(history: "TaskHistory") -> None:
    from outlast.cli.output import (  # noqa: PLC0415  # not for --help
        count_text,
        facts_table,
        make_console,
        mask_secrets,
        print_attempts,  # not for --help
    )
    from outlast.queue.masking import masked_parameters  # noqa: PLC0415  # not for --help

    task = history.task
    make_console().print(
        facts_table(
            [
                ("task", f"{task.id} {task.task_type}"),
                ("status", task.status.value),
                ("arguments", masked_parameters(task.parameters)),
                ("queue", f"{task.queue}, priority {task.priority}"),
                ("due", exact_time(task.next_run_after) if task.status in {"QUEUED", "PARKED"} else None),
                ("unique key", mask_secrets(task.unique_key)),
                ("resource", mask_secrets(task.resource)),
                ("starts", _starts_text(history)),
                ("crashes", task.crash_count or None),
                ("suspect", "it was running when a worker died; it runs alone next time" if task.suspect else None),
                ("put off", count_text(task.deferrals, "time") if task.deferrals else None),
                ("replays", task.replays or None),
                ("worker", task.worker_id),
                ("last error", mask_secrets(task.last_error)),
                ("created", exact_time(task.created_at)),
                ("started", exact_time(task.started_at)),
                ("finished", exact_time(task.finished_at)),
                ("expires", exact_time(task.expires_at)),
            ]
        )
    )
    print_attempts(history.attempts)


def _starts_text(history: "TaskHistory") -> str:
    """Tell how the starts ended: what a process took with it is no failure, and a replay begins the count anew."""
    from outlast.cli.output import count_isolated_crashes, count_lost_workers  # noqa: PLC0415  # not for --help

    task, lost, crashed = history.task, count_lost_workers(history.attempts), count_isolated_crashes(history.attempts)
    anew = " since the last replay" if task.replays else ""
    said = f"{task.attempt}, {task.retry_count} failed{anew}" + (f", {lost} lost with a worker" if lost else "")
    return said + (f", {crashed} lost with a process apart" if crashed else "")


@tasks.command("cancel")
@click.argument("numbers", type=ROW_NUMBER, nargs=-1, required=True, metavar="ID...")
@with_app()
def cancel_tasks(app: "App", numbers: tuple[int, ...]) -> None:
    """Cancel tasks that wait or are parked. What runs is left to run.

    \b
    Example:
      outlast tasks cancel 42 43
    """  # noqa: D301  # click reads the control character, not a backslash
    _apply_to_each(app, numbers, app.tasks.cancel, "cancelled", "cancel_task")


@tasks.command("retry")
@click.argument("numbers", type=ROW_NUMBER, nargs=-1, required=True, metavar="ID...")
@with_app()
def retry_tasks(app: "App", numbers: tuple[int, ...]) -> None:
    """Make tasks that wait due now, whatever they wait for.

    For a task that has failed for good see `outlast dlq replay`.

    \b
    Example:
      outlast tasks retry 42
    """  # noqa: D301  # click reads the control character, not a backslash
    _apply_to_each(app, numbers, app.tasks.run_now, "due now", "hurry_task")


def _apply_to_each(
    app: "App", numbers: tuple[int, ...], act: "Callable[..., Sequence[int]]", word: str, action: str
) -> None:
    """Do something to tasks and say of each what became of it; exit 1 if it could not be done to one."""
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    wanted = dict.fromkeys(numbers)
    for number in wanted:
        write_audit_entry(app, action, f"task:{number}")
    changed = set(act(*wanted))
    for number in wanted:
        if number in changed:
            print_text(f"task {number}: {word}", "green")
            continue
        task = app.store.get(number)
        if task is None:
            print_text(f"task {number}: there is none", "red")
        elif task.status == "FAILED":
            print_text(
                f"task {number}: has failed; its dead letter can be replayed: {next_command('dlq', 'list')}", "red"
            )
        else:
            print_text(f"task {number}: is {task.status.value}, left as it is", "red")
    if len(changed) < len(wanted):
        click.get_current_context().exit(EXIT_FAILED)
