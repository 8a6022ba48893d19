"""``outlast dlq``: look at dead letters; what is done about them has files of its own."""

import functools
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import click

from outlast.cli.app_options import next_command, with_app
from outlast.cli.completion import category_names, queue_names
from outlast.cli.dlq_replays import replays
from outlast.cli.errors import EXIT_FAILED, InvalidUsageError
from outlast.cli.formats import DURATION, PAST_TIME, RATE, ROW_LIMIT, ROW_NUMBER, exact_time, relative_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from outlast.app import App
    from outlast.ports.rows import DeadLetter, Group
    from outlast.ports.triage import PayloadEdit, Replay
    from outlast.queue.dead_letters import DeadLetterHistory, DryRun, Handled
    from outlast.queue.definition import TaskDefinition


# Which dead letters are meant: the options that ``dlq list``, ``groups``, ``replay`` and ``discard`` share.

P = ParamSpec("P")
R = TypeVar("R")

FILTER_NAMES = ("task_type", "queue", "category", "reason", "fingerprint", "since", "until", "text")
_FILTER_OPTIONS = (
    click.option("--task", "task_type", metavar="NAME", help="Only those of a task."),
    click.option("--queue", metavar="NAME", shell_complete=queue_names, help="Only those of a queue."),
    click.option(
        "--category",
        metavar="NAME",
        shell_complete=category_names,
        help="Only those of a category of failure, such as network.",
    ),
    click.option(
        "--reason",
        type=click.Choice(["exhausted", "permanent", "crash", "undecodable", "expired", "canary"]),
        help="Only those that ended so.",
    ),
    click.option("--group", "fingerprint", metavar="FINGERPRINT", help="Only those of one cause; see dlq groups."),
    click.option(
        "--since", type=PAST_TIME, metavar="TIME", help="Moved at this time or later: 2h, 3d, or an ISO time."
    ),
    click.option("--until", type=PAST_TIME, metavar="TIME", help="Moved before this time: 2h, 3d, or an ISO time."),
    click.option("--text", metavar="TEXT", help="Only those whose error holds this text."),
)


def with_filters(command: Callable[P, R]) -> Callable[..., R]:
    """Give a command the options, and as ``which`` those that were given."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> R:
        given = {name: kwargs.pop(name) for name in FILTER_NAMES}
        if given["category"] is not None:
            given["category"] = _parse_category(given["category"])
        which = {name: value for name, value in given.items() if value is not None}
        return command(*args, which=which, **kwargs)  # type: ignore[arg-type]  # click passes options by name

    for option in reversed(_FILTER_OPTIONS):
        run = option(run)
    return run


def _parse_category(name: str) -> str:
    from outlast.failure import Category  # noqa: PLC0415  # not for --help

    return Category.parse(name).value


# ``outlast dlq ack``, ``snooze``, ``reopen`` and ``note``: what people say of a group.


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@with_app()
def ack(app: "App", fingerprint: str) -> None:
    """Say that you see to a group; it is not told of. When it fails after that, it is open again by itself.

    \b
    Example:
      outlast dlq ack 5d41402abc4b2a76
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    group = app.dead_letters.acknowledge(fingerprint)
    print_text(
        f"group {fingerprint}: acknowledged by {group.acknowledged_by}; it is open again once it fails again", "green"
    )


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@click.option("--for", "seconds", type=DURATION, metavar="SPAN", required=True, help="How long, such as 2h or 3d.")
@with_app()
def snooze(app: "App", fingerprint: str, *, seconds: float) -> None:
    """Have a group not told of for a while.

    \b
    Example:
      outlast dlq snooze 5d41402abc4b2a76 --for 2h
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    until = app.dead_letters.snooze(fingerprint, seconds).snoozed_until
    told = f"snoozed, told of again {relative_time(until)}" if until is not None and seconds else "open again"
    print_text(f"group {fingerprint}: {told}", "green")


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@with_app()
def reopen(app: "App", fingerprint: str) -> None:
    """Have a group told of again that was acknowledged or snoozed.

    \b
    Example:
      outlast dlq reopen 5d41402abc4b2a76
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    app.dead_letters.reopen(fingerprint)
    print_text(f"group {fingerprint}: open again", "green")


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@click.argument("text", metavar="TEXT")
@with_app()
def note(app: "App", fingerprint: str, text: str) -> None:
    """Write a note to a group, for people; an empty TEXT removes it.

    \b
    Example:
      outlast dlq note 5d41402abc4b2a76 'prices with a comma, fixed in 1.4'
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    app.dead_letters.note(fingerprint, text)
    print_text(f"group {fingerprint}: the note was {'kept' if text else 'removed'}", "green")


# ``outlast dlq edit``: change the arguments of a dead letter before it is replayed.


@click.command()
@click.argument("number", type=ROW_NUMBER, metavar="ID")
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
    from outlast.cli.output import print_json, print_text, row_data  # noqa: PLC0415  # not for --help
    from outlast.queue.dead_letters import masked_edit  # noqa: PLC0415  # not for --help

    if (patch is None) == (not pairs):
        message = "give either --patch or --set"
        raise click.UsageError(message)
    letter = app.dead_letters.show(number).letter
    definition = _task_definition(app, letter)
    operations = (
        _parse_patch(patch) if patch is not None else [_set_operation(letter, definition, pair) for pair in pairs]
    )
    edited = masked_edit(app.dead_letters.edit(number, operations, definition=definition, why=why))
    if as_json:
        print_json(row_data(edited))
        return
    print_text(f"dead letter {number}: its arguments were changed", "green")
    print_text(f"  before  {edited.before}")
    print_text(f"  now     {edited.after}")
    print_text(f"to have them used: {next_command('dlq', 'replay', number)}", "dim")


def _task_definition(app: "App", letter: "DeadLetter") -> "TaskDefinition[Any, Any]":
    definition = app.tasks_by_name.get(letter.task_type)
    if definition is None:
        known = ", ".join(sorted(app.tasks_by_name))
        hint = f"its tasks are: {known}" if known else "give --app MODULE:APP, the app that has the task"
        message = f"the arguments cannot be checked, for there is no task {letter.task_type!r} here"
        raise InvalidUsageError(message, hint)
    return definition


def _parse_patch(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"this is no JSON: {error}"
        raise click.BadParameter(message, param_hint="--patch") from None


def _set_operation(letter: "DeadLetter", definition: "TaskDefinition[Any, Any]", pair: str) -> dict[str, Any]:
    """Return the operation that sets one value, in an object or in a list."""
    path, equals, text = pair.partition("=")
    if not equals or not path:
        message = f"{pair!r} is no PATH=VALUE, such as /url=https://example.com"
        raise click.UsageError(message)
    path = path if path.startswith("/") else f"/{path}"
    names = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    in_list = isinstance(_parent_value(letter.parameters, names[:-1]), list)
    is_text = len(names) == 1 and definition.function.__annotations__.get(names[0]) in {str, "str"}
    return {"op": "replace" if in_list else "add", "path": path, "value": _parse_value(text, is_text=is_text)}


def _parent_value(parameters: str, names: list[str]) -> Any:
    """Return what holds the value, as far as it can be found; what is wrong with a path is said by the edit itself."""
    try:
        value = json.loads(parameters)
        for name in names:
            value = value[int(name)] if isinstance(value, list) else value[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return value


def _parse_value(text: str, *, is_text: bool) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if is_text and not isinstance(value, str) else value


# ``outlast dlq replay`` and ``outlast dlq discard``: many dead letters, one transaction each.

_MIN_BAR_TOTAL = 5
_MAX_SHOWN = 10  # groups, tasks and categories of a dry run


class _Selection(NamedTuple):
    """Which dead letters a command is about.

    Attributes:
        ids: Their numbers, if they were named.
        which: What narrows.
        limit: How many at most.
    """

    ids: tuple[int, ...]
    which: dict[str, Any]
    limit: int | None

    @property
    def named(self) -> bool:
        """Whether they are named one by one, so that one that is gone is worth telling."""
        return bool(self.ids) and not self.which

    def count(self, app: "App") -> int:
        """Return how many there are."""
        found = app.dead_letters.count(**self._filter_arguments())
        return found if self.limit is None else min(found, self.limit)

    def dry_run(self, app: "App") -> "DryRun":
        """Count them by group, task and category."""
        return app.dead_letters.dry_run(**(self._filter_arguments() or {"all": True}), limit=self.limit)

    def later(self, app: "App", *, canary: bool, rate: float | None, why: str) -> "Replay":
        """Begin a replay of them that workers carry on."""
        narrowing = {**(self._filter_arguments() or {"all": True}), "limit": self.limit}
        return app.dead_letters.replay_later(canary=canary, rate=rate, why=why, **narrowing)

    def handled(self, act: "Callable[..., Iterator[Handled]]") -> "Iterator[Handled]":
        """Do it, one by one, as the result is read."""
        if self.named:
            each = chain.from_iterable(act(number) for number in self.ids)
        else:
            each = chain.from_iterable([act(**(self._filter_arguments() or {"all": True}))])
        return islice(each, self.limit)

    def _filter_arguments(self) -> dict[str, Any]:
        return {**self.which, "ids": self.ids} if self.ids else self.which


def _select_dead_letters(
    ids: tuple[int, ...], which: dict[str, Any], limit: int | None, *, everything: bool
) -> _Selection:
    if everything and (ids or which):
        message = "--all goes with neither ids nor filters"
        raise click.UsageError(message)
    if not (everything or ids or which):
        message = "say which dead letters are meant: ids, filters such as --group or --since, or --all"
        raise click.UsageError(message)
    return _Selection(tuple(dict.fromkeys(ids)), which, limit)


@click.command()
@click.argument("ids", type=ROW_NUMBER, nargs=-1, metavar="[ID]...")
@with_filters
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", help="How many at most, the newest first.")
@click.option("--canary", is_flag=True, help="One first, then ten, then the rest; any failure stops it.")
@click.option("--rate", type=RATE, metavar="RATE", help="How fast at most: 10/s, 30/min. Workers keep to it.")
@click.option("--wait/--no-wait", default=True, help="With --canary or --rate: whether to stay until it is over.")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@click.option("--dry-run", is_flag=True, help="Count them only, by group, task and category.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app()
def replay(  # noqa: PLR0913  # its options
    app: "App",
    ids: tuple[int, ...],
    *,
    which: dict[str, Any],
    everything: bool,
    limit: int | None,
    canary: bool,
    rate: float | None,
    wait: bool,
    why: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Queue dead letters again, with their history.

    Each is a transaction of its own: stopped halfway, every task is in exactly one place. One whose unique key is taken
    by a live task stays a dead letter and counts as a conflict; the exit code is 1 then.

    With --canary or --rate the workers do it, and go on if this command ends. A canary gets one attempt; any failure
    of a task that was replayed stops the replay, and the exit code is 1. See outlast dlq replays.

    \b
    Examples:
      outlast dlq replay 7 8
      outlast dlq replay --group 5d41402abc4b2a76 --canary --rate 10/s
      outlast dlq replay --category network --since 2h --dry-run
    """  # noqa: D301  # click reads the control character, not a backslash
    meant = _select_dead_letters(ids, which, limit, everything=everything)
    if dry_run:
        _print_dry_run(meant.dry_run(app), "would be replayed", as_json=as_json)
    elif canary or rate is not None:
        from outlast.cli.dlq_replays import follow_replay  # noqa: PLC0415  # not for --help

        follow_replay(app, meant.later(app, canary=canary, rate=rate, why=why), wait=wait, as_json=as_json)
    else:
        act = partial(app.dead_letters.replaying, why=why)
        _handle_each(meant, meant.count(app), act, "replayed", as_json=as_json)


@click.command()
@click.argument("ids", type=ROW_NUMBER, nargs=-1, metavar="[ID]...")
@with_filters
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", help="How many at most, the newest first.")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@click.option("--dry-run", is_flag=True, help="Count them only, by group, task and category.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app()
def discard(  # noqa: PLR0913  # its options
    app: "App",
    ids: tuple[int, ...],
    *,
    which: dict[str, Any],
    everything: bool,
    limit: int | None,
    why: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove dead letters for good.

    \b
    Examples:
      outlast dlq discard 7
      outlast dlq discard --category not_found --until 30d --why 'gone' --yes
    """  # noqa: D301  # click reads the control character, not a backslash
    meant = _select_dead_letters(ids, which, limit, everything=everything)
    if dry_run:
        _print_dry_run(meant.dry_run(app), "would be discarded", as_json=as_json)
        return
    count = meant.count(app)
    if count and not yes:
        click.confirm(f"Discard {_dead_letters_text(count)} for good?", abort=True, err=True)
    _handle_each(meant, count, partial(app.dead_letters.discarding, why=why), "discarded", as_json=as_json)


def _handle_each(
    meant: _Selection, total: int, act: "Callable[..., Iterator[Handled]]", word: str, *, as_json: bool
) -> None:
    """Do it with a bar, and say at the end what became of how many, also when it was stopped."""
    counts: Counter[str] = Counter()
    over = False
    try:
        for handled in _track_progress(meant.handled(act), total, word):
            counts[handled.outcome] += 1
            if handled.outcome == "conflict" or (handled.outcome == "gone" and meant.named):
                click.secho(f"dead letter {handled.id}: {_OUTCOME_TEXTS[handled.outcome]}", fg="red", err=True)
        over = True
    finally:
        if over or counts:
            _print_outcomes(counts, word, as_json=as_json)
    if counts["conflict"] or (counts["gone"] and meant.named):
        click.get_current_context().exit(EXIT_FAILED)


_OUTCOME_TEXTS = {"conflict": "a live task has its unique key; it stays", "gone": "there is none (any more)"}


def _track_progress(handled: "Iterator[Handled]", total: int, word: str) -> "Iterator[Handled]":
    from rich.progress import track  # noqa: PLC0415  # not for --help

    from outlast.cli.output import make_console  # noqa: PLC0415  # not for --help

    console = make_console(stderr=True)
    if total <= _MIN_BAR_TOTAL or not console.is_terminal:
        return handled
    return iter(track(handled, description=word, total=total, console=console, transient=True))


def _print_outcomes(counts: Counter[str], word: str, *, as_json: bool) -> None:
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help

    if as_json:
        print_json({word: 0, **counts})
    else:
        said = [f"{count} {outcome}" for outcome, count in counts.items()]
        print_text(", ".join(said) or "no dead letter is meant by that")


def _print_dry_run(found: "DryRun", words: str, *, as_json: bool) -> None:
    from outlast.cli.output import print_json, print_text, printable_line  # noqa: PLC0415  # not for --help

    if as_json:
        print_json({"count": found.total, **found._asdict()})
        return
    print_text(f"{_dead_letters_text(found.total)} {words}")
    for word, counts in (("group", found.groups), ("task", found.tasks), ("category", found.categories)):
        for name, count in islice(counts.items(), _MAX_SHOWN):
            print_text(f"  {word} {printable_line(name) or '-'}: {count}")
        if len(counts) > _MAX_SHOWN:
            print_text(f"  … and {len(counts) - _MAX_SHOWN} more", "dim")


def _dead_letters_text(count: int) -> str:
    return f"{count} dead {'letter' if count == 1 else 'letters'}"


@click.group()
def dlq() -> None:
    """Look at dead letters, edit, replay or discard them.

    A dead letter is a task that has ended without success. It is kept until it is replayed or discarded.

    \b
    Examples:
      outlast dlq groups
      outlast dlq replay --group 5d41402abc4b2a76 --canary --rate 10/s
    """  # noqa: D301  # click reads the control character, not a backslash


@dlq.command("list")
@with_filters
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_dead_letters(app: "App", *, which: dict[str, Any], limit: int, as_json: bool) -> None:
    """List dead letters, newest first.

    \b
    Examples:
      outlast dlq list --since 2h
      outlast dlq list --task scrape --category network --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, make_table, mask_secrets, print_json, print_text, row_data  # noqa: PLC0415  # not for --help

    found = app.dead_letters.list(limit, **which)
    if as_json:
        print_json([row_data(letter) for letter in found])
        return
    if not found:
        _print_none(which, "list")
        return
    columns = {"ID": None, "TASK": 16, "REASON": None, "CATEGORY": 14, "WHEN": None, "ERROR": None}
    rows = (
        (
            letter.id,
            letter.task_type,
            letter.reason.value,
            letter.error_category,
            relative_time(letter.moved_to_dlq_at),
            f"{letter.error_type}: {mask_secrets(letter.error_message)}",
        )
        for letter in found
    )
    make_console().print(make_table(columns, rows))
    if len(found) == limit:
        print_text(f"{app.dead_letters.count(**which)} in all; --limit shows more", "dim")


@dlq.command("show")
@click.argument("number", type=ROW_NUMBER, metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_dead_letter(app: "App", number: int, *, as_json: bool) -> None:
    """Show a dead letter, every failed attempt, who has changed its arguments, and the traceback.

    \b
    Example:
      outlast dlq show 7
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_json, row_data  # noqa: PLC0415  # not for --help
    from outlast.queue.dead_letters import masked_edit  # noqa: PLC0415  # not for --help

    history = app.dead_letters.show(number)
    edits = [masked_edit(each) for each in app.dead_letters.edits(history.letter.original_task_id)]
    if as_json:
        attempts = [row_data(attempt) for attempt in history.attempts]
        print_json({**row_data(history.letter), "attempts": attempts, "edits": [row_data(each) for each in edits]})
    else:
        _print_dead_letter(history, edits)


def _print_dead_letter(history: "DeadLetterHistory", edits: "Sequence[PayloadEdit]") -> None:
    from outlast.cli.output import count_text, facts_table, make_console, mask_secrets, print_attempts, print_traceback  # noqa: PLC0415  # not for --help  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_parameters  # noqa: PLC0415  # not for --help

    letter = history.letter
    rule = letter.failure.get("rule")
    make_console().print(
        facts_table(
            [
                ("dead letter", f"{letter.id}, of task {letter.original_task_id} {letter.task_type}"),
                ("reason", letter.reason.value),
                ("error", f"{letter.error_type}: {mask_secrets(letter.error_message)}"),
                ("category", f"{letter.error_category}{f' ({rule})' if rule else ''}"),
                ("group", letter.fingerprint),
                ("arguments", masked_parameters(letter.parameters)),
                ("queue", f"{letter.queue}, priority {letter.priority}"),
                ("unique key", mask_secrets(letter.unique_key)),
                ("resource", mask_secrets(letter.resource)),
                ("failed", count_text(letter.retry_count, "attempt")),
                ("crashes", letter.crash_count or None),
                ("replays", letter.replays or None),
                ("worker", letter.worker_id),
                ("created", exact_time(letter.created_at)),
                ("moved", exact_time(letter.moved_to_dlq_at)),
            ]
        )
    )
    _print_edits(edits)
    print_attempts(history.attempts)
    if letter.traceback and not any(attempt.traceback for attempt in history.attempts[-1:]):
        print_traceback(letter.traceback)


def _print_edits(edits: "Sequence[PayloadEdit]") -> None:
    """Print who has changed the arguments, oldest first."""
    from outlast.cli.output import count_text, make_console, mask_secrets, printable_line, styled_text  # noqa: PLC0415  # not for --help

    if not edits:
        return
    console = make_console()
    console.print(styled_text(f"\nchanged by hand: {count_text(len(edits), 'time')}", "bold"))
    for each in edits:
        at = f"{each.at.isoformat(timespec='seconds')} ({relative_time(each.at)})"
        told = f"  {at} by {each.who}: {mask_secrets(each.reason)}"
        console.print(styled_text(printable_line(told)), soft_wrap=True)
        console.print(styled_text(f"     was {printable_line(each.before)}"), soft_wrap=True)
        console.print(styled_text(f"     {printable_line(each.patch)}", "dim"), soft_wrap=True)


@dlq.command("groups")
@with_filters
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="How many groups at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_groups(app: "App", *, which: dict[str, Any], limit: int, as_json: bool) -> None:
    """Group dead letters by cause, the largest group first.

    \b
    Examples:
      outlast dlq groups
      outlast dlq groups --since 1d --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, print_json, row_data  # noqa: PLC0415  # not for --help

    found = app.dead_letters.groups(limit, **which)
    if as_json:
        print_json([row_data(group) for group in found])
    elif found:
        make_console().print(dead_letter_groups_table(found))
    else:
        _print_none(which, "groups")


def _print_none(which: dict[str, Any], again: str) -> None:
    from outlast.cli.output import print_empty  # noqa: PLC0415  # not for --help

    if which:
        print_empty("no dead letters like that", f"{next_command('dlq', again)} shows all")
    else:
        print_empty("no dead letters", f"nothing has failed for good; {next_command('tasks', 'list')} shows what waits")


def dead_letter_groups_table(found: "Sequence[Group]") -> "Table":
    """Return the table of groups; the fingerprint is whole, to be pasted behind ``--group``."""
    from outlast.cli.output import make_table, mask_secrets  # noqa: PLC0415  # not for --help

    columns = {"GROUP": None, "SIZE": None, "LAST": None, "TASK": 14, "CATEGORY": 12, "ERROR": None}
    rows = (
        (
            group.fingerprint,
            group.size,
            relative_time(group.last_seen),
            group.task_type,
            group.error_category,
            f"{group.error_type}: {mask_secrets(group.error_message)}",
        )
        for group in found
    )
    return make_table(columns, rows)


for each in (replay, replays, edit, discard, ack, snooze, reopen, note):
    dlq.add_command(each)
