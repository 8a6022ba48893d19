"""``outlast tasks``: list tasks, cancel them, or make them due now; ``outlast enqueue``: add a task."""

import difflib
import inspect
import json
import typing
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import id_argument, json_option, list_options, option, with_app
from outlast.cli.formats import (
    DURATION,
    ROW_NUMBER,
    TIME,
    exact_time,
    parse_json_option,
    parse_json_or_text,
    relative_time,
)
from outlast.cli.operations import add_operations
from outlast.cli.output import (
    Cells,
    JsonObject,
    count_isolated_crashes,
    count_lost_workers,
    print_attempts,
    print_facts,
    print_json,
    print_list,
    print_text,
    row_data,
    row_facts,
    table,
)
from outlast.config import configure
from outlast.errors import ConfigError
from outlast.ports.rows import Status
from outlast.queue.masking import masked_parameters
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Collection

    from outlast.app import App
    from outlast.ports.rows import Task
    from outlast.queue.definition import TaskDefinition
    from outlast.queue.task_reader import TaskHistory


@click.command()
@click.argument("reference", metavar="MODULE:APP")
@click.argument("task")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@option("--args", "JSON", "All arguments: an object by name, or a list by position.", "arguments")
@option("--delay", "SPAN", "Run it after this time: seconds, or 90s, 15m, 2h, 3d.", type=DURATION)
@option("--run-at", "TIME", "Run it at this time, such as 2026-11-15T10:00:00+00:00.", type=TIME)
@option("--unique-key", "TEXT", "Add nothing while a task with this key waits or runs.")
@option("--priority", "0-9", "0 runs first, 9 last.", type=click.IntRange(0, 9))
@option("--queue", "NAME", "The queue. Default: the queue of the task.")
@json_option
def enqueue(
    reference: str, task: str, pairs: tuple[str, ...], arguments: str | None, *, as_json: bool, **options: Any
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

    if pairs and arguments is not None:
        raise click.UsageError("give --args or KEY=VALUE, not both")
    configure()
    app = load_app(reference)
    try:
        definition = task_definition(app, task)
        by_name = _pair_arguments(definition, pairs) if arguments is None else _json_arguments(definition, arguments)
        args, kwargs = _decode_arguments(definition, by_name)
        chosen = {name: value for name, value in options.items() if value is not None}
        added = definition.enqueue(*args, **kwargs, **chosen)
    finally:
        app.close()
    if as_json:
        queue = chosen.get("queue", definition.queue)
        print_json({"task_id": added.id, "created": added.created, "task_type": definition.name, "queue": queue})
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

    close = difflib.get_close_matches(name, app.tasks_by_name, n=1)
    known = ", ".join(sorted(app.tasks_by_name))
    others = " and ".join(f"{engine}'s" for engine in app.engines)
    if close:
        hint = f"did you mean {close[0]}?"
    elif others:
        hint = f"{f'it has: {known}; other' if known else 'its'} tasks are {others} and are sent by your program"
    else:
        hint = f"it has: {known or 'none'}"
    raise ConfigError(f"the app has no task {name!r}; {hint}")


def _json_arguments(definition: "TaskDefinition[Any, Any]", text: str) -> JsonObject:
    """Return the arguments of ``--args``, by name."""
    value = parse_json_option(text, "--args")
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        raise click.BadParameter(
            'give an object, such as \'{"url": "https://example.com"}\', or a list', param_hint="--args"
        )
    signature = inspect.signature(definition.function)
    try:
        return signature.bind_partial(*value).arguments
    except TypeError:
        problem = f"too many arguments for task {definition.name}: {len(value)}; its parameters are {signature}"
        raise click.BadParameter(problem, param_hint="--args") from None


def _pair_arguments(definition: "TaskDefinition[Any, Any]", pairs: tuple[str, ...]) -> JsonObject:
    try:
        hints = typing.get_type_hints(definition.function)
    except Exception:  # noqa: BLE001  # a hint that cannot be resolved is ignored
        hints = {}
    by_name: JsonObject = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r} is not KEY=VALUE, such as url=https://example.com")
        if name in by_name:
            raise click.UsageError(f"{name} is given twice")
        by_name[name] = parse_json_or_text(text, is_text=hints.get(name) is str)
    return by_name


def _decode_arguments(
    definition: "TaskDefinition[Any, Any]", by_name: JsonObject
) -> tuple[tuple[Any, ...], JsonObject]:
    """Return positional and keyword arguments, decoded by the task's type hints: a text becomes a datetime, say."""
    signature = inspect.signature(definition.function)
    parameters = signature.parameters.values()
    known = {each.name for each in parameters}
    unknown = {name: value for name, value in by_name.items() if name not in known}
    var_keyword = next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)
    if var_keyword is not None and unknown:
        by_name = {name: value for name, value in by_name.items() if name in known} | {var_keyword: unknown}
        unknown = {}
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _VARIADIC_KINDS]
    missing = [name for name in required if name not in by_name]
    problems = [
        f"{problem} {_arguments_text(names)}"
        for problem, names in (("is missing the", missing), ("has no", unknown))
        if names
    ]
    if problems:
        raise click.UsageError(f"{definition.name}() {' and '.join(problems)}; its parameters are {signature}")
    return definition.codec.decode(json.dumps(by_name))


def _arguments_text(names: "Collection[str]") -> str:
    return f"argument{'' if len(names) == 1 else 's'} {', '.join(map(repr, names))}"


_VARIADIC_KINDS = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


@click.group()
def tasks() -> None:
    """List tasks, cancel them, or make them due now.

    \b
    Examples:
      outlast tasks list --status queued
      outlast tasks show 42
    """  # noqa: D301  # click reads the control character, not a backslash


@tasks.command("list")
@click.option(
    "--status",
    type=click.Choice([each.lower() for each in Status], case_sensitive=False),
    help="Only tasks with this status.",
)
@option("--queue", "NAME", "Only tasks of this queue.")
@option("--task", "NAME", "Only tasks with this name.")
@option("--before", "ID", "Only tasks with smaller ids: the next page.", type=ROW_NUMBER)
@list_options("Tasks", 50)
@with_app
def list_tasks(app: "App", /, *, status: str | None, limit: int, as_json: bool, **filters: Any) -> None:
    """List tasks, newest first.

    \b
    Examples:
      outlast tasks list --status running
      outlast tasks list --task scrape --limit 200 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.tasks.list(status=None if status is None else Status(status.upper()), limit=limit, **filters)
    hint = "outlast enqueue MODULE:APP TASK adds one"
    print_list(found, _tasks_table, "tasks", hint, as_json=as_json, next_page="--before")


@table("ID, STATUS, TASK:18, QUEUE:10, FAILED, WHEN, ARGUMENTS")
def _tasks_table(task: "Task") -> Cells:
    running = task.started_at if task.status == "RUNNING" else None
    return (
        task.id,
        task.status.value,
        task.task_type,
        task.queue,
        task.retry_count or None,
        relative_time(task.finished_at or task.failed_at or running or task.next_run_after),
        masked_parameters(task.parameters),
    )


@tasks.command("show")
@id_argument
@json_option
@with_app
def show_task(app: "App", number: int, *, as_json: bool) -> None:
    """Show a task and its history: failed attempts and lost workers.

    \b
    Example:
      outlast tasks show 42
    """  # noqa: D301  # click reads the control character, not a backslash
    history = app.tasks.show(number)
    if as_json:
        print_json({**row_data(history.task), "attempts": [row_data(attempt) for attempt in history.attempts]})
    else:
        _print_task(history)


def _print_task(history: "TaskHistory") -> None:
    task = history.task
    print_facts(
        {
            "task": f"{task.id} {task.task_type}",
            "status": task.status.value,
            "arguments": masked_parameters(task.parameters),
            "queue": f"{task.queue}, priority {task.priority}",
            "due": exact_time(task.next_run_after) if task.status in {"QUEUED", "PARKED"} else None,
            **row_facts(task, "unique_key", "resource", "options"),
            "starts": _starts_text(history),
            "crashes": task.crash_count or None,
            "suspect": "it was running when a worker died; next time it runs alone" if task.suspect else None,
            "deferred": counted(task.deferrals, "time") if task.deferrals else None,
            **row_facts(task, "replays", "worker_id", "last_error"),
            **row_facts(task, "created_at", "started_at", "finished_at", "expires_at"),
        }
    )
    print_attempts(history.attempts)


def _starts_text(history: "TaskHistory") -> str:
    """Return how often a task started and how the starts ended; a lost worker is not a failure."""
    task, lost, crashed = history.task, count_lost_workers(history.attempts), count_isolated_crashes(history.attempts)
    text = f"{task.attempt}, {task.retry_count} failed"
    if task.replays:  # a replay resets the count
        text += " since the last replay"
    if lost:
        text += f", {lost} lost with a worker"
    if crashed:
        text += f", {crashed} crashed in isolation"
    return text


add_operations(tasks, "tasks")
