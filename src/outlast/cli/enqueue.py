"""``outlast enqueue``: add a task from the command line."""

import difflib
import inspect
import json
import typing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.moments import MOMENT, SPAN

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.queue.definition import TaskDefinition

__all__ = ["definition_of", "enqueue"]


@click.command()
@click.argument("reference", metavar="MODULE:APP")
@click.argument("task")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "arguments", metavar="JSON", help="All arguments: an object by name, or a list by position.")
@click.option("--delay", type=SPAN, metavar="SPAN", help="How long to wait first: seconds, or 90s, 15m, 2h, 3d.")
@click.option("--run-at", type=MOMENT, metavar="TIME", help="When to run, such as 2026-11-15T10:00:00+00:00.")
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
    from outlast.cli.loading import load_app  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    if pairs and arguments is not None:
        message = "give --args or KEY=VALUE, not both"
        raise click.UsageError(message)
    configure()
    app = load_app(reference)
    try:
        definition = definition_of(app, task)
        given = _by_name(definition, arguments) if arguments is not None else _from_pairs(definition, pairs)
        args, kwargs = _decoded(definition, given)
        chosen = {name: value for name, value in options.items() if value is not None}
        added = definition.enqueue(*args, **kwargs, **chosen)
    finally:
        app.close()
    if as_json:
        queue = chosen.get("queue", definition.queue)
        print_json({"id": added.id, "created": added.created, "task_type": definition.name, "queue": queue})
    elif added.created:
        say(f"task {added.id}: {definition.name} is queued")
    else:
        say(f"task {added.id}: {definition.name} has this unique key already; nothing was added", "yellow")


def definition_of(app: "App", name: str) -> "TaskDefinition[Any, Any]":
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


def _by_name(definition: "TaskDefinition[Any, Any]", text: str) -> dict[str, Any]:
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


def _from_pairs(definition: "TaskDefinition[Any, Any]", pairs: tuple[str, ...]) -> dict[str, Any]:
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
        given[name] = _value(text, hints.get(name))
    return given


def _value(text: str, hint: object) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if hint is str and not isinstance(value, str) else value


def _decoded(definition: "TaskDefinition[Any, Any]", given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
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
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _STARS]
    missing = [name for name in required if name not in given]
    if missing or unknown:
        said = [f"{', '.join(missing)} is missing"] * bool(missing) + [
            f"it has no parameter {', '.join(unknown)}"
        ] * bool(unknown)
        signature = inspect.signature(definition.function)
        message = f"task {definition.name} cannot be called so: {'; '.join(said)}; its parameters are {signature}"
        raise click.UsageError(message)
    return definition.codec.decode(json.dumps(given))


_STARS = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
