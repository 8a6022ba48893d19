"""``outlast dlq edit``: change the arguments of a dead letter before it is replayed."""

import json
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import command, with_app
from outlast.cli.failing import MisusedError
from outlast.cli.numbers import NUMBER

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.rows import DeadLetter
    from outlast.queue.definition import TaskDefinition

__all__ = ["edit"]


@click.command()
@click.argument("number", type=NUMBER, metavar="ID")
@click.option("--patch", metavar="JSON", help="Operations of JSON Patch: a list of add, replace and remove.")
@click.option(
    "--set", "pairs", multiple=True, metavar="PATH=VALUE", help="Set one value, as /url=https://…; repeatable."
)
@click.option("--reason", "--why", "why", metavar="TEXT", required=True, help="Why, for those who look at it later.")
@click.option("--json", "as_json", is_flag=True, help="Print the edit as a JSON object, secrets masked.")
@with_app()
def edit(app: "App", number: int, *, patch: str | None, pairs: tuple[str, ...], why: str, as_json: bool) -> None:
    """Change the arguments of a dead letter; replay it to have them used.

    They are checked against the types of the task, so --app is needed. What was there before is kept, with who changed
    it and why. A value that is masked can be replaced, and nothing else.

    \b
    Examples:
      outlast dlq edit 7 --set /depth=2 --reason 'too deep' --app jobs:app
      outlast dlq edit 7 --patch '[{"op": "remove", "path": "/n"}]' --why unused
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, print_json, say  # noqa: PLC0415  # not for --help
    from outlast.queue.triage import masked_edit  # noqa: PLC0415  # not for --help

    if (patch is None) == (not pairs):
        message = "give either --patch or --set"
        raise click.UsageError(message)
    letter = app.dead_letters.show(number).letter
    definition = _definition(app, letter)
    operations = _read(patch) if patch is not None else [_operation(letter, definition, pair) for pair in pairs]
    edited = masked_edit(app.dead_letters.edit(number, operations, definition=definition, why=why))
    if as_json:
        print_json(as_data(edited))
        return
    say(f"dead letter {number}: its arguments were changed", "green")
    say(f"  before  {edited.before}")
    say(f"  now     {edited.after}")
    say(f"to have them used: {command('dlq', 'replay', number)}", "dim")


def _definition(app: "App", letter: "DeadLetter") -> "TaskDefinition[Any, Any]":
    definition = app.tasks_by_name.get(letter.task_type)
    if definition is None:
        known = ", ".join(sorted(app.tasks_by_name))
        hint = f"its tasks are: {known}" if known else "give --app MODULE:APP, the app that has the task"
        message = f"the arguments cannot be checked, for there is no task {letter.task_type!r} here"
        raise MisusedError(message, hint)
    return definition


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"this is no JSON: {error}"
        raise click.BadParameter(message, param_hint="--patch") from None


def _operation(letter: "DeadLetter", definition: "TaskDefinition[Any, Any]", pair: str) -> dict[str, Any]:
    """Return the operation that sets one value, in an object or in a list."""
    path, equals, text = pair.partition("=")
    if not equals or not path:
        message = f"{pair!r} is no PATH=VALUE, such as /url=https://example.com"
        raise click.UsageError(message)
    path = path if path.startswith("/") else f"/{path}"
    names = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    in_list = isinstance(_holder(letter.parameters, names[:-1]), list)
    is_text = len(names) == 1 and definition.function.__annotations__.get(names[0]) in {str, "str"}
    return {"op": "replace" if in_list else "add", "path": path, "value": _value(text, is_text=is_text)}


def _holder(parameters: str, names: list[str]) -> Any:
    """Return what holds the value, as far as it can be found; what is wrong with a path is said by the edit itself."""
    try:
        value = json.loads(parameters)
        for name in names:
            value = value[int(name)] if isinstance(value, list) else value[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return value


def _value(text: str, *, is_text: bool) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if is_text and not isinstance(value, str) else value
