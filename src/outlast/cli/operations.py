"""Commands made from the table of operations, options made from its parameters, and ``outlast audit``."""

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import P, R, flag, json_option, list_options, next_command, option, with_app
from outlast.cli.completion import category_names
from outlast.cli.errors import exit_failed, message_hint
from outlast.cli.formats import ROW_NUMBER, ParsedType, relative_time
from outlast.cli.logs import set_up_logs
from outlast.cli.output import Cells, print_json, print_list, print_text, printable_line, table
from outlast.operations import FILTERS, FLAG, SOURCE, WHY, InvalidValueError, Parameter, filter_arguments, parse_values
from outlast.operations.actions import OperationResult
from outlast.operations.table import OPERATIONS, Operation, perform
from outlast.queue.audit import SUBJECTS
from outlast.queue.masking import masked_row, masked_texts
from outlast.report.text_format import detail_text

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.triage import AuditEntry

why_option = option(f"--{WHY.name}", WHY.kind.metavar, WHY.help, default="")


def parameter_option(parameter: Parameter) -> "Callable[[Callable[P, R]], Callable[P, R]]":
    """Return the option or argument of a parameter; its value is a text, or a tuple of texts."""
    name, completer = _option_name(parameter), category_names if parameter.name == "category" else None
    if parameter.argument:
        count = -1 if parameter.argument.endswith("...") else 1
        return click.argument(parameter.name, metavar=parameter.argument, nargs=count, required=True)
    if parameter.kind is FLAG:
        return flag(name, parameter.help)
    settings: dict[str, Any] = {"required": True} if parameter.required else {"default": parameter.default}
    if "enum" in parameter.kind.schema and completer is None:
        return click.option(name, type=click.Choice(parameter.kind.schema["enum"]), help=parameter.help)
    return option(name, parameter.kind.metavar, parameter.help, shell_complete=completer, **settings)


def parse_options(
    app: "App", parameters: Sequence[Parameter], texts: Mapping[str, str | bool | None]
) -> dict[str, Any]:
    """Return the values of options and arguments. One that is not valid is a usage error that names it."""
    try:
        given = {name: ["yes" if text is True else text] for name, text in texts.items() if text}
        return parse_values(app, parameters, given)
    except InvalidValueError as error:
        names = {each.name: each.argument.removesuffix("...") or _option_name(each) for each in parameters}
        raise click.BadParameter(str(error), param_hint=names.get(error.parameter)) from None


def _option_name(parameter: Parameter) -> str:
    return f"--{parameter.name.replace('_', '-')}"


def with_filters(command: Callable[..., R]) -> Callable[..., R]:
    """Add the filter options of dead letters to a command, and pass those that are set as ``filters``."""

    @functools.wraps(command)
    def run(app: "App", *args: Any, **kwargs: Any) -> R:
        values = parse_options(app, FILTERS, {each.name: kwargs.pop(each.name) for each in FILTERS})
        return command(app, *args, filters=filter_arguments(values), **kwargs)

    made: Callable[..., R] = run
    for parameter in reversed(FILTERS):
        made = parameter_option(parameter)(made)
    return made


def operation_command(operation: Operation) -> click.Command:
    """Return the command of an operation. With several subjects, one that fails does not stop the others.

    The exit code is 1 if one was not done. Operations that ask for confirmation check all subjects first.
    """
    name = operation.command.split()[-1]
    subject, *others = (each for each in operation.parameters if each is not WHY)

    @with_app
    def run(app: "App", /, *, as_json: bool, yes: bool = False, **texts: Any) -> None:
        if subject.kind is SOURCE:
            set_up_logs("error", as_json=False)  # what the registry logs is printed here
        given = texts.pop(subject.name)
        words = dict.fromkeys(given if isinstance(given, tuple) else [given])
        shared = parse_options(app, (*others, WHY), texts)
        if operation.confirm:
            parsed = [parse_values(app, [subject], {subject.name: [word]}) for word in words]
            if not yes:
                shown = ", ".join(_subject_label(app, operation, values) for values in parsed)
                click.confirm(f"{operation.confirm} {shown}:", abort=True, err=True)
            results = [perform(app, operation, shared | each) for each in parsed]
        else:
            for word in words:  # one that is not valid is refused before the first change
                with suppress(LookupError):
                    parse_options(app, [subject], {subject.name: word})
            results = [_perform_one(app, operation, subject, word, shared) for word in words]
        _print_results(results, as_json=as_json)

    run = why_option(json_option(run))
    if operation.confirm:
        run = flag("--yes", "Do not ask for confirmation.")(run)
    for parameter in reversed([subject, *others]):
        run = parameter_option(parameter)(run)
    example = f"\n\n\b\nExample:\n  outlast {operation.command} {operation.example}"
    help_text = (
        f"{operation.help} Exit code 1 if {'one' if subject.argument.endswith('...') else 'it'} was not done.{example}"
    )
    first_sentence = f"{operation.help.partition('. ')[0].removesuffix('.')}."
    return click.command(name, help=help_text, short_help=first_sentence)(run)  # click cuts one that it makes


def _subject_label(app: "App", operation: Operation, values: Mapping[str, Any]) -> str:
    kind, _, name = operation.subject(values).partition(":")
    if kind != "source":
        return f"{kind} {name}"
    source = app.sources.get(int(name))
    return f"source {name} ({printable_line(masked_texts(source.name or source.url))})"


def _perform_one(
    app: "App", operation: Operation, subject: Parameter, word: str, shared: Mapping[str, Any]
) -> OperationResult:
    try:
        values = parse_options(app, [subject], {subject.name: word})
        return perform(app, operation, {**shared, **values})
    except LookupError as error:
        if type(error) is not LookupError:  # a KeyError would be a bug
            raise
        hint = message_hint(str(error))
        return OperationResult(f"{error}; {hint}" if hint else str(error), {subject.name: word}, ok=False)


def _print_results(results: list[OperationResult], *, as_json: bool) -> None:
    if as_json:
        print_json([{**each.data, "ok": each.ok, "message": each.message} for each in results])
    else:
        for each in results:
            following = f"; {next_command(*each.next)}" if each.next else ""
            print_text(f"{each.message}{following}", "green" if each.ok else "red")
    if not all(each.ok for each in results):
        exit_failed()


def add_operations(group: click.Group, words: str) -> click.Group:
    """Add the commands of all operations below some words, such as ``dlq``, to a group; return the group."""
    for operation in OPERATIONS:
        if operation.command.rpartition(" ")[0] == words:
            group.add_command(operation_command(operation))
    return group


def _operation_group(name: str, text: str, example: str) -> click.Group:
    help_text = f"{text}\n\n\b\nExample:\n  outlast {name} {example}"
    return add_operations(click.Group(name, help=help_text), name)


cooldowns = _operation_group(
    "cooldowns", "Start and end the cooldowns of resources; outlast status lists them.", "end api.example.com"
)
periodic = _operation_group(
    "periodic", "Pause and resume periodic tasks, or run them now; the dashboard lists them.", "pause nightly"
)
mark = _operation_group("mark", "Mark events on the charts of the dashboard.", "deploy v1.2")
breakers = _operation_group(
    "breakers", "Open and close breakers in all processes; the dashboard lists them.", "close api.example.com"
)


def _parse_subject(text: str) -> str | None:
    kinds = {each.partition(":")[:2] for each in SUBJECTS}
    return text if text.partition(":")[:2] in kinds else None


_SUBJECT = ParsedType("subject", _parse_subject, f"is not a subject; give one of: {', '.join(SUBJECTS)}")


@click.command()
@option("--subject", "WHAT", "Only entries about this, such as dead_letter:7 or queue:mail.", type=_SUBJECT)
@option("--action", "NAME", "Only this action, such as discard_dead_letter.")
@option("--before", "ID", "Only entries with smaller ids: the next page.", type=ROW_NUMBER)
@list_options("Entries", 50)
@with_app
def audit(app: "App", /, *, limit: int, as_json: bool, **filters: Any) -> None:
    """Show who changed what with commands and on the dashboard, newest first.

    An entry is written before the change is made. Entries never contain the arguments of a task.

    \b
    Examples:
      outlast audit
      outlast audit --subject dead_letter:7 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.store.audits(limit=limit, **filters)
    hint = "commands such as outlast dlq replay write them"
    print_list(found, _audit_table, "audit entries", hint, as_json=as_json, next_page="--before")


@table("ID, ACTION, SUBJECT:28, WHO:20, WHEN, WHY")
def _audit_table(row: "AuditEntry") -> Cells:
    return row.id, row.action, row.subject, row.who, relative_time(row.at), _reason_text(row)


def _reason_text(entry: "AuditEntry") -> str:
    """Return the reason and the other details of an entry, without secrets."""
    masked = masked_row(entry)
    more = detail_text(masked.detail)
    return f"{masked.reason} ({more})" if masked.reason and more else masked.reason or more
