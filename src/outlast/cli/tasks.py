"""``outlast tasks``: list tasks, cancel them, or make them due now; ``outlast enqueue``: add a task."""

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


@click.command()
@click.argument("reference", metavar="MODULE:APP")
@click.argument("task")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "arguments", metavar="JSON", help="All arguments: an object by name, or a list by position.")
@click.option("--delay", type=DURATION, metavar="SPAN", help="Run it after this time: seconds, or 90s, 15m, 2h, 3d.")
@click.option("--run-at", type=TIME, metavar="TIME", help="Run it at this time, such as 2026-11-15T10:00:00+00:00.")
@click.option("--unique-key", metavar="TEXT", help="Add nothing while a task with this key waits or runs.")
@click.option("--priority", type=click.IntRange(0, 9), metavar="0-9", help="0 runs first, 9 last.")
@click.option("--queue", metavar="NAME", help="The queue. Default: the queue of the task.")
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

    A VALUE that is valid JSON is read as JSON, else as text. For a parameter annotated as str it is always text.

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
        if arguments is not None:
            by_name = _json_arguments(definition, arguments)
        else:
            by_name = _pair_arguments(definition, pairs)
        args, kwargs = _decode_arguments(definition, by_name)
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
        print_text(f"task {added.id}: {definition.name} already has this unique key; nothing was added", "yellow")


def task_definition(app: "App", name: str) -> "TaskDefinition[Any, Any]":
    """Return a task of an app by its name.

    Raises:
        ConfigError: If the app has no task with that name; the message lists its tasks.
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
        hint = f"{f'it has: {known}; other' if known else 'its'} tasks are {others} and are sent by your program"
    else:
        hint = f"it has: {known or 'none'}"
    message = f"the app has no task {name!r}; {hint}"
    raise ConfigError(message)


def _json_arguments(definition: "TaskDefinition[Any, Any]", text: str) -> dict[str, Any]:
    """Return the arguments of ``--args``, by name."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"not valid JSON: {error}"
        raise click.BadParameter(message, param_hint="--args") from None
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        message = 'give an object, such as \'{"url": "https://example.com"}\', or a list'
        raise click.BadParameter(message, param_hint="--args")
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = inspect.signature(definition.function).parameters.values()
    names = [each.name for each in parameters if each.kind in kinds]
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
    by_name = dict(zip(names, value, strict=False))
    if len(value) > len(names):
        if rest is None:
            message = f"too many arguments for task {definition.name}: it takes {len(names)}, not {len(value)}"
            raise click.BadParameter(message, param_hint="--args")
        by_name[rest] = value[len(names) :]
    return by_name


def _pair_arguments(definition: "TaskDefinition[Any, Any]", pairs: tuple[str, ...]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(definition.function)
    except Exception:  # noqa: BLE001  # a hint that cannot be resolved is ignored
        hints = {}
    by_name: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            message = f"{pair!r} is not KEY=VALUE, such as url=https://example.com"
            raise click.UsageError(message)
        if name in by_name:
            message = f"{name} is given twice"
            raise click.UsageError(message)
        by_name[name] = _parse_value(text, hints.get(name))
    return by_name


def _parse_value(text: str, hint: object) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if hint is str and not isinstance(value, str) else value


def _decode_arguments(
    definition: "TaskDefinition[Any, Any]", by_name: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments, decoded by the task's type hints: a text becomes a datetime, say."""
    signature = inspect.signature(definition.function)
    parameters = signature.parameters.values()
    known = {each.name for each in parameters}
    unknown = [name for name in by_name if name not in known]
    var_keyword = next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)
    if var_keyword is not None and unknown:
        more = {name: by_name[name] for name in unknown}
        by_name = {name: value for name, value in by_name.items() if name in known} | {var_keyword: more}
        unknown = []
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _VARIADIC_KINDS]
    missing = [name for name in required if name not in by_name]
    if missing or unknown:
        problems = []
        if missing:
            problems.append(f"is missing the {_arguments_text(missing)}")
        if unknown:
            problems.append(f"has no {_arguments_text(unknown)}")
        message = f"{definition.name}() {' and '.join(problems)}; its parameters are {signature}"
        raise click.UsageError(message)
    return definition.codec.decode(json.dumps(by_name))


def _arguments_text(names: list[str]) -> str:
    return f"argument{'' if len(names) == 1 else 's'} {', '.join(map(repr, names))}"


_VARIADIC_KINDS = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
_STATUSES = ("queued", "running", "parked", "done", "failed", "cancelled", "discarded")


@click.group()
def tasks() -> None:
    """List tasks, cancel them, or make them due now.

    \b
    Examples:
      outlast tasks list --status queued
      outlast tasks show 42
    """  # noqa: D301  # click reads the control character, not a backslash


@tasks.command("list")
@click.option("--status", type=click.Choice(_STATUSES, case_sensitive=False), help="Only tasks with this status.")
@click.option("--queue", metavar="NAME", shell_complete=queue_names, help="Only tasks of this queue.")
@click.option("--task", "task_type", metavar="NAME", help="Only tasks with this name.")
@click.option("--before", type=ROW_NUMBER, metavar="ID", help="Only tasks with smaller ids: the next page.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="Tasks at most.")
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
    elif any(each is not None for each in (status, queue, task_type, before)):
        print_empty("no tasks match", f"{next_command('tasks', 'list')} shows all")
    else:
        print_empty("no tasks", "outlast enqueue MODULE:APP TASK adds one")


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
    """Return when a task ended, or else started, or else is due."""
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
    from outlast.cli.output import count_text, facts_table, make_console, mask_secrets, print_attempts  # noqa: PLC0415  # not for --help
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
                ("suspect", "it was running when a worker died; next time it runs alone" if task.suspect else None),
                ("deferred", count_text(task.deferrals, "time") if task.deferrals else None),
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
    """Return how often a task started and how the starts ended; a lost worker is not a failure."""
    from outlast.cli.output import count_isolated_crashes, count_lost_workers  # noqa: PLC0415  # not for --help

    task, lost, crashed = history.task, count_lost_workers(history.attempts), count_isolated_crashes(history.attempts)
    text = f"{task.attempt}, {task.retry_count} failed"
    if task.replays:  # a replay resets the count
        text += " since the last replay"
    if lost:
        text += f", {lost} lost with a worker"
    if crashed:
        text += f", {crashed} crashed in isolation"
    return text


@tasks.command("cancel")
@click.argument("numbers", type=ROW_NUMBER, nargs=-1, required=True, metavar="ID...")
@with_app()
def cancel_tasks(app: "App", numbers: tuple[int, ...]) -> None:
    """Cancel tasks that wait or are parked. Running tasks are not stopped.

    \b
    Example:
      outlast tasks cancel 42 43
    """  # noqa: D301  # click reads the control character, not a backslash
    _apply_to_each(app, numbers, app.tasks.cancel, "cancelled", "cancel_task")


@tasks.command("retry")
@click.argument("numbers", type=ROW_NUMBER, nargs=-1, required=True, metavar="ID...")
@with_app()
def retry_tasks(app: "App", numbers: tuple[int, ...]) -> None:
    """Make waiting tasks due now, whatever they wait for.

    For a task that failed for good, see outlast dlq replay.

    \b
    Example:
      outlast tasks retry 42
    """  # noqa: D301  # click reads the control character, not a backslash
    _apply_to_each(app, numbers, app.tasks.run_now, "due now", "hurry_task")


def _apply_to_each(
    app: "App", numbers: tuple[int, ...], act: "Callable[..., Sequence[int]]", result: str, action: str
) -> None:
    """Apply an action to tasks and print the result of each; exit code 1 if one was not changed."""
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    unique = dict.fromkeys(numbers)
    for number in unique:
        write_audit_entry(app, action, f"task:{number}")
    changed = set(act(*unique))
    for number in unique:
        if number in changed:
            print_text(f"task {number}: {result}", "green")
            continue
        task = app.store.get(number)
        if task is None:
            print_text(f"task {number}: does not exist", "red")
        elif task.status == "FAILED":
            print_text(f"task {number}: has failed; replay its dead letter: {next_command('dlq', 'list')}", "red")
        else:
            print_text(f"task {number}: is {task.status.value}, not changed", "red")
    if len(changed) < len(unique):
        click.get_current_context().exit(EXIT_FAILED)
