"""``outlast dlq``: list, edit, replay and discard dead letters, and handle their groups."""

import functools
import json
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.app_options import P, R, flag, id_argument, json_option, list_options, next_command, option, with_app
from outlast.cli.errors import EXIT_FAILED, CommandError, InvalidUsageError, exit_failed
from outlast.cli.formats import (
    RATE,
    ROW_LIMIT,
    ROW_NUMBER,
    exact_time,
    parse_json_option,
    parse_json_or_text,
    relative_time,
)
from outlast.cli.operations import add_operations, why_option, with_filters
from outlast.cli.output import (
    Cells,
    JsonObject,
    make_console,
    print_attempts,
    print_facts,
    print_json,
    print_list,
    print_text,
    print_traceback,
    printable_line,
    progress_bar,
    row_data,
    row_facts,
    table,
)
from outlast.queue.dead_letters import FILTER_FIELDS, masked_edit, masked_replay
from outlast.queue.masking import masked_parameters, masked_texts
from outlast.report.dead_letters import replay_line
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from outlast.app import App
    from outlast.ports.rows import DeadLetter, Group
    from outlast.ports.triage import PayloadEdit, Replay
    from outlast.queue.dead_letters import DeadLetterHistory, Handled
    from outlast.queue.definition import TaskDefinition


CONFLICT_TEXT = "a live task has the same unique key; it stays a dead letter"
_POLL_SECONDS = 0.25
_WORKER_CHECK_SECONDS = 5.0
_WORKER_WAIT_SECONDS = 30.0  # how long to wait without a worker, because one may be restarting


def replay_data(replay: "Replay") -> JsonObject:
    """Return a replay as JSON data, with the filters that are set."""
    names = {field: name for name, field in FILTER_FIELDS.items()}
    filters = {names.get(name, name): each for name, each in row_data(replay.filters).items() if each is not None}
    return {**row_data(replay), "filters": filters}


def warn_without_worker(app: "App") -> bool:
    """Print a warning if no worker is alive to run replays; return whether it was printed."""
    if any(worker.alive for worker in app.tasks.workers()):
        return False
    click.secho("no worker is alive to run it; outlast worker MODULE:APP starts one", fg="yellow", err=True)
    return True


def follow_replay(app: "App", replay: "Replay", *, wait: bool, as_json: bool, verb: str = "started") -> None:
    """Print that a replay started, and optionally wait for its end.

    The exit code is 1 if the replay stops, if a dead letter stays because of a conflict, or if no worker is alive.
    """
    number = replay.id
    if not as_json:
        print_text(f"replay {number} {verb}: {replay_line(masked_replay(replay)).told}")
    if warn_without_worker(app) or not wait:
        _print_follow_up(replay, as_json=as_json)
        click.get_current_context().exit(EXIT_FAILED if wait else 0)
    try:
        last = _show_progress(_poll_replay(app, replay))
    except KeyboardInterrupt:
        click.echo(f"replay {number} continues without this command", err=True)
        _print_follow_up(replay, as_json=False)
        raise
    if as_json:
        print_json(replay_data(last))
    elif last.state == "running":
        warn_without_worker(app)
        _print_follow_up(last, as_json=False)
    else:
        _print_end(last)
    if last.state != "done" or last.conflicts:
        exit_failed()


def _print_follow_up(replay: "Replay", *, as_json: bool) -> None:
    if as_json:
        print_json(replay_data(replay))
        return
    show, stop = (next_command("dlq", "replays", verb, replay.id) for verb in ("show", "stop"))
    click.echo(f"to show it: {show}\nto stop it: {stop}", err=True)


def _poll_replay(app: "App", replay: "Replay") -> "Iterator[Replay]":
    """Yield the state of a replay repeatedly until it has ended, or no worker has been alive for a while."""
    alive_at = checked_at = time.monotonic()
    while True:
        yield replay
        if replay.state != "running":
            return
        time.sleep(_POLL_SECONDS)
        replay = app.dead_letters.replay_run(replay.id)
        now = time.monotonic()
        if now - checked_at >= _WORKER_CHECK_SECONDS:
            checked_at = now
            if any(worker.alive for worker in app.tasks.workers()):
                alive_at = now
            elif now - alive_at > _WORKER_WAIT_SECONDS:
                return


def _show_progress(steps: "Iterator[Replay]") -> "Replay":
    """Show a progress bar on a terminal, or else a line for each stage; return the last state."""
    console = make_console(stderr=True)
    if console.is_terminal:
        return _show_bar(steps, console)
    shown, last = None, next(steps)
    for last in steps:
        stage = (last.stage, last.replayed > 0)
        if stage != shown and last.state == "running":
            shown = stage
            click.echo(f"replay {last.id}: {replay_line(masked_replay(last)).told}", err=True)
    return last


def _show_bar(steps: "Iterator[Replay]", console: "Console") -> "Replay":
    with progress_bar(console) as progress:
        bar = progress.add_task("replayed")
        last = next(steps)
        for last in steps:
            line = replay_line(masked_replay(last))
            now = next((step.name.lower() for step in line.steps if step.state == "now"), "replayed")
            progress.update(bar, total=last.total, completed=line.handled, description=now)
    return last


def _print_end(last: "Replay") -> None:
    line = replay_line(masked_replay(last))
    print_text(f"replay {last.id}: {line.told}", "green" if last.state == "done" and not last.conflicts else "red")
    if line.stopped_by:
        print_text(f"  {line.stopped_by}", "red")
    for number in last.conflict_ids:
        click.secho(f"dead letter {number}: {CONFLICT_TEXT}", fg="red", err=True)
    if line.can_resume:
        print_text(f"when the cause is fixed: {next_command('dlq', 'replays', 'resume', last.id)}", "dim")


class _ReplaysGroup(click.Group):
    """A group that runs ``list`` without a command, and ``show`` for a number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command, then parse the arguments."""
        first = args[0] if args else "--"
        if first.isdecimal():
            args = ["show", *args]
        elif first.startswith("-") and first not in {"-h", "--help"}:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group()
def dlq() -> None:
    """List, edit, replay or discard dead letters.

    A dead letter is a task that failed for good. It is kept until you replay or discard it.

    \b
    Examples:
      outlast dlq groups
      outlast dlq replay --group 5d41402abc4b2a76 --canary --rate 10/s
    """  # noqa: D301  # click reads the control character, not a backslash


@dlq.command()
@id_argument
@option("--patch", "JSON", "JSON Patch operations: a list of add, replace and remove.")
@option("--set", "PATH=VALUE", "Set one value, such as /url=https://…; repeatable.", "pairs", multiple=True)
@option("--why", "TEXT", "The reason, for the audit log.", required=True)
@json_option
@with_app
def edit(app: "App", number: int, *, patch: str | None, pairs: tuple[str, ...], why: str, as_json: bool) -> None:
    """Change the arguments of a dead letter; then replay it to use them.

    The new arguments are checked against the types of the task, so --app is needed. The old arguments are kept, with
    who changed them and why. A masked value can only be replaced.

    \b
    Examples:
      outlast dlq edit 7 --set /depth=2 --why 'too deep' --app jobs:app
      outlast dlq edit 7 --patch '[{"op": "remove", "path": "/n"}]' --why unused
    """  # noqa: D301  # click reads the control character, not a backslash
    if (patch is None) == (not pairs):
        raise click.UsageError("give either --patch or --set, not both")
    letter = app.dead_letters.show(number).dead_letter
    definition = _task_definition(app, letter)
    operations = (
        parse_json_option(patch, "--patch")
        if patch is not None
        else [_set_operation(letter, definition, pair) for pair in pairs]
    )
    edited = masked_edit(app.dead_letters.edit(number, operations, definition=definition, why=why))
    if as_json:
        print_json(row_data(edited))
        return
    print_text(f"dead letter {number}: arguments changed", "green")
    print_text(f"  before  {edited.before}")
    print_text(f"  now     {edited.after}")
    for name, kept in (("resource", letter.resource), ("unique key", letter.unique_key)):
        if kept is not None:
            print_text(f"  the {name} stays {masked_texts(kept)}", "yellow")
    print_text(f"to use them: {next_command('dlq', 'replay', number)}", "dim")


def _task_definition(app: "App", letter: "DeadLetter") -> "TaskDefinition[Any, Any]":
    definition = app.tasks_by_name.get(letter.task_type)
    if definition is None:
        known = ", ".join(sorted(app.tasks_by_name))
        hint = f"its tasks are: {known}" if known else "give --app MODULE:APP, the app that defines the task"
        raise InvalidUsageError(f"the arguments cannot be checked: the app has no task {letter.task_type!r}", hint)
    return definition


def _set_operation(letter: "DeadLetter", definition: "TaskDefinition[Any, Any]", pair: str) -> JsonObject:
    """Return the operation that sets one value, in an object or in a list."""
    path, equals, text = pair.partition("=")
    if not equals or not path:
        raise click.UsageError(f"{pair!r} is not PATH=VALUE, such as /url=https://example.com")
    path = path if path.startswith("/") else f"/{path}"
    names = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    in_list = isinstance(_parent_value(letter.parameters, names[:-1]), list)
    is_text = len(names) == 1 and definition.function.__annotations__.get(names[0]) in {str, "str"}
    return {"op": "replace" if in_list else "add", "path": path, "value": parse_json_or_text(text, is_text=is_text)}


def _parent_value(parameters: str, names: list[str]) -> Any:
    """Return the object or list that contains the value; None for a wrong path, which the edit itself reports."""
    try:
        value = json.loads(parameters)
        for name in names:
            value = value[int(name)] if isinstance(value, list) else value[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return value


_MIN_BAR_TOTAL = 5
_MAX_SHOWN = 10  # groups, tasks and categories that a dry run lists


class _Selection(NamedTuple):
    """The dead letters that a command handles.

    Attributes:
        ids: Their ids, if the user gave any.
        filters: The filters, by option name.
        limit: How many at most.
    """

    ids: tuple[int, ...]
    filters: JsonObject
    limit: int | None

    @property
    def has_only_ids(self) -> bool:
        """Whether the user listed ids without filters, so that a missing one is an error."""
        return bool(self.ids) and not self.filters

    @property
    def least(self) -> int:
        """How many dead letters must exist: all that are listed, or one that matches the filters."""
        every = self.has_only_ids and self.limit is None
        return len(set(self.ids)) if every else bool(self.criteria)

    @property
    def criteria(self) -> JsonObject:
        """The filters and the ids; empty for all dead letters."""
        return {**self.filters, "ids": self.ids} if self.ids else self.filters

    @property
    def arguments(self) -> JsonObject:
        """The same, as methods that change dead letters take them."""
        return self.criteria or {"all": True}

    def count(self, app: "App") -> int:
        """Return how many dead letters match."""
        found = app.dead_letters.count(**self.criteria)
        return found if self.limit is None else min(found, self.limit)

    def apply(self, act: "Callable[..., Iterator[Handled]]") -> "Iterator[Handled]":
        """Replay or discard the dead letters one by one, as the iterator is read."""
        if self.has_only_ids:
            return islice(chain.from_iterable(map(act, self.ids)), self.limit)
        return islice(act(**self.arguments), self.limit)


def _with_selection(command: Callable[P, R]) -> Callable[..., R]:
    """Add the arguments and options that select dead letters, and pass them as ``selection``."""

    @with_filters
    @click.argument("ids", type=ROW_NUMBER, nargs=-1, metavar="[ID]...")
    @flag("--all", "All dead letters.", "everything")
    @option("--limit", "N", "Dead letters at most, newest first.", type=ROW_LIMIT)
    @functools.wraps(command)
    def run(
        app: "App",
        *args: Any,
        ids: tuple[int, ...],
        filters: JsonObject,
        everything: bool,
        limit: int | None,
        **kwargs: Any,
    ) -> R:
        if everything and (ids or filters):
            raise click.UsageError("--all cannot be combined with ids or filters")
        if not (everything or ids or filters):
            raise click.UsageError("no dead letters selected; give ids, filters such as --group or --since, or --all")
        selection = _Selection(tuple(dict.fromkeys(ids)), filters, limit)
        return command(app, *args, selection=selection, **kwargs)  # type: ignore[arg-type]  # click passes options by name

    return run


_dry_run_option = flag("--dry-run", "Only count them, by group, task and category.")


@dlq.command()
@with_app
@_with_selection
@flag("--canary", "Replay one, then ten, then the rest; any failure stops it.")
@option("--rate", "RATE", "Maximum rate: 10/s, 30/min.", type=RATE)
@option(
    "--max-failures",
    "N",
    "Stop if more than N replayed tasks fail again; with --canary: tasks after the canaries, and 0 by default.",
    type=click.IntRange(min=0),
)
@click.option(
    "--wait/--no-wait", default=True, help="With --canary, --rate or --max-failures: whether to wait for the end."
)
@why_option
@_dry_run_option
@json_option
def replay(  # noqa: PLR0913  # its options
    app: "App",
    *,
    selection: _Selection,
    canary: bool,
    rate: float | None,
    max_failures: int | None,
    wait: bool,
    why: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Queue dead letters again, with their history.

    Each dead letter is replayed in its own transaction, so an interrupted command loses and repeats nothing. If a live
    task has the same unique key, the dead letter stays and counts as a conflict. The exit code is 1 after a conflict,
    for an id that does not exist, and if no dead letter matches the filters; with --all and no dead letters it is 0.

    With --canary, --rate or --max-failures the workers run the replay, and continue if this command ends. A canary
    gets one attempt. If a canary fails, or more than --max-failures of the rest, the replay stops and the exit code is
    1. With --rate alone, failures do not stop it unless --max-failures is given. See outlast dlq replays.

    \b
    Examples:
      outlast dlq replay 7 8
      outlast dlq replay --group 5d41402abc4b2a76 --canary --rate 10/s
      outlast dlq replay --category network --since 2h --dry-run
    """  # noqa: D301  # click reads the control character, not a backslash
    if dry_run:
        _print_dry_run(app, selection, "would be replayed", as_json=as_json)
    elif canary or rate is not None or max_failures is not None:
        if (found := selection.count(app)) < selection.least:
            what = f"only {found} of these ids exist" if found else "no dead letters match"
            raise CommandError(what, f"{next_command('dlq', 'list')} shows all")
        started = app.dead_letters.replay_later(
            canary=canary, rate=rate, max_failures=max_failures, why=why, **selection.arguments, limit=selection.limit
        )
        follow_replay(app, started, wait=wait, as_json=as_json)
    else:
        act = partial(app.dead_letters.replaying, why=why)
        _handle_each(selection, selection.count(app), act, "replayed", as_json=as_json)


@dlq.command()
@with_app
@_with_selection
@why_option
@_dry_run_option
@flag("--yes", "Do not ask for confirmation.")
@json_option
def discard(app: "App", *, selection: _Selection, why: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete dead letters.

    \b
    Examples:
      outlast dlq discard 7
      outlast dlq discard --category not_found --until 30d --why 'gone' --yes
    """  # noqa: D301  # click reads the control character, not a backslash
    if dry_run:
        _print_dry_run(app, selection, "would be discarded", as_json=as_json)
        return
    count = selection.count(app)
    if count and not yes:
        click.confirm(f"Discard {counted(count, 'dead letter')} for good?", abort=True, err=True)
    _handle_each(selection, count, partial(app.dead_letters.discarding, why=why), "discarded", as_json=as_json)


def _handle_each(
    selection: _Selection, total: int, act: "Callable[..., Iterator[Handled]]", verb: str, *, as_json: bool
) -> None:
    """Handle dead letters with a progress bar, and print the counts at the end, also after an interrupt."""
    counts: Counter[str] = Counter()
    finished = False
    try:
        for handled in _track_progress(selection.apply(act), total, verb):
            counts[handled.outcome] += 1
            if handled.outcome == "conflict" or (handled.outcome == "gone" and selection.has_only_ids):
                click.secho(f"dead letter {handled.id}: {_OUTCOME_TEXTS[handled.outcome]}", fg="red", err=True)
        finished = True
    finally:
        if finished or counts:
            if as_json:
                print_json({verb: 0, **counts})
            else:
                parts = [f"{count} {outcome}" for outcome, count in counts.items()]
                print_text(", ".join(parts) or "no dead letters match")
    if counts["conflict"] or (counts["gone"] and selection.has_only_ids) or (selection.filters and not counts):
        exit_failed()


_OUTCOME_TEXTS = {"conflict": CONFLICT_TEXT, "gone": "does not exist"}


def _track_progress(handled: "Iterator[Handled]", total: int, verb: str) -> "Iterator[Handled]":
    from rich.progress import track  # noqa: PLC0415  # not for --help

    console = make_console(stderr=True)
    if total <= _MIN_BAR_TOTAL or not console.is_terminal:
        return handled
    return iter(track(handled, description=verb, total=total, console=console, transient=True))


def _print_dry_run(app: "App", selection: _Selection, verb: str, *, as_json: bool) -> None:
    found = app.dead_letters.dry_run(**selection.arguments, limit=selection.limit)
    if as_json:
        print_json({"count": found.total, **found._asdict()})
        return
    print_text(f"{counted(found.total, 'dead letter')} {verb}")
    for word, counts in (("group", found.groups), ("task", found.tasks), ("category", found.categories)):
        for name, count in islice(counts.items(), _MAX_SHOWN):
            print_text(f"  {word} {printable_line(name) or '-'}: {count}")
        if len(counts) > _MAX_SHOWN:
            print_text(f"  … and {len(counts) - _MAX_SHOWN} more", "dim")


@dlq.command("list")
@with_app
@with_filters
@list_options("Dead letters", 50)
def list_dead_letters(app: "App", *, filters: JsonObject, limit: int, as_json: bool) -> None:
    """List dead letters, newest first.

    \b
    Examples:
      outlast dlq list --since 2h
      outlast dlq list --task scrape --category network --json
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.dead_letters.list(limit, **filters)
    printed = print_list(found, _dead_letters_table, "dead letters", _no_dead_letters_hint(), as_json=as_json)
    if printed and len(found) == limit:
        print_text(f"{app.dead_letters.count(**filters)} in total", "dim")


@table("ID, TASK:16, REASON, CATEGORY:14, WHEN, ERROR")
def _dead_letters_table(letter: "DeadLetter") -> Cells:
    return (
        letter.id,
        letter.task_type,
        letter.reason.value,
        letter.error_category,
        relative_time(letter.moved_to_dlq_at),
        f"{letter.error_type}: {masked_texts(letter.error_message)}",
    )


@dlq.command("show")
@id_argument
@json_option
@with_app
def show_dead_letter(app: "App", number: int, *, as_json: bool) -> None:
    """Show a dead letter with its attempts, edits and traceback.

    \b
    Example:
      outlast dlq show 7
    """  # noqa: D301  # click reads the control character, not a backslash
    history = app.dead_letters.show(number)
    edits = [masked_edit(each) for each in app.dead_letters.edits(history.dead_letter.original_task_id)]
    if as_json:
        attempts = [row_data(attempt) for attempt in history.attempts]
        print_json({**row_data(history.dead_letter), "attempts": attempts, "edits": [row_data(each) for each in edits]})
    else:
        _print_dead_letter(history, edits)


def _print_dead_letter(history: "DeadLetterHistory", edits: "Sequence[PayloadEdit]") -> None:
    letter = history.dead_letter
    rule = letter.failure.get("rule")
    print_facts(
        {
            "dead letter": f"{letter.id}, of task {letter.original_task_id} {letter.task_type}",
            "reason": letter.reason.value,
            "error": f"{letter.error_type}: {masked_texts(letter.error_message)}",
            "category": f"{letter.error_category}{f' ({rule})' if rule else ''}",
            "group": letter.fingerprint,
            "arguments": masked_parameters(letter.parameters),
            "queue": f"{letter.queue}, priority {letter.priority}",
            **row_facts(letter, "unique_key", "resource", "options"),
            "failed": counted(letter.retry_count, "attempt"),
            "crashes": letter.crash_count or None,
            **row_facts(letter, "replays", "worker_id", "created_at"),
            "moved": exact_time(letter.moved_to_dlq_at),
        }
    )
    if edits:
        print_text(f"\nchanged by hand: {counted(len(edits), 'time')}", "bold")
    for each in edits:
        print_text(printable_line(f"{exact_time(each.at)} by {each.who}: {masked_texts(each.reason)}"))
        print_text(f"     was {printable_line(each.before)}")
        print_text(f"     {printable_line(each.patch)}", "dim")
    print_attempts(history.attempts)
    if letter.traceback and not any(attempt.traceback for attempt in history.attempts[-1:]):
        print_traceback(letter.traceback)


@dlq.command("groups")
@with_app
@with_filters
@list_options("Groups", 50)
def list_groups(app: "App", *, filters: JsonObject, limit: int, as_json: bool) -> None:
    """Group dead letters by cause, the largest group first.

    \b
    Examples:
      outlast dlq groups
      outlast dlq groups --since 1d --json
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.dead_letters.groups(limit, **filters)
    print_list(found, dead_letter_groups_table, "dead letters", _no_dead_letters_hint(), as_json=as_json)


def _no_dead_letters_hint() -> str:
    return f"no task failed for good; {next_command('tasks', 'list')} shows the tasks"


@table("GROUP, SIZE, LAST, TASK:14, CATEGORY:12, ERROR")
def dead_letter_groups_table(group: "Group") -> Cells:
    """Return the table of groups, with the whole fingerprint for ``--group``."""
    return (
        group.fingerprint,
        group.size,
        relative_time(group.last_seen),
        group.task_type,
        group.error_category,
        f"{group.error_type}: {masked_texts(group.error_message)}",
    )


@dlq.group(cls=_ReplaysGroup)
def replays() -> None:
    """List, stop and resume the replays that workers run.

    Start one with outlast dlq replay and --canary or --rate, or on the dashboard.

    \b
    Examples:
      outlast dlq replays
      outlast dlq replays stop 3
    """  # noqa: D301  # click reads the control character, not a backslash


@replays.command("list")
@flag("--running", "Only replays that are running.")
@list_options("Replays", 20)
@with_app
def list_replays(app: "App", *, running: bool, limit: int, as_json: bool) -> None:
    """List replays, newest first.

    \b
    Example:
      outlast dlq replays list --running
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.dead_letters.replays(running=running, limit=limit)
    hint = "outlast dlq replay --group GROUP --canary starts one"
    printed = print_list(found, _replays_table, "replays", hint, as_json=as_json, data=replay_data)
    if printed and any(each.state == "running" for each in found):
        warn_without_worker(app)


@table("ID, STATE, QUEUED, OF, CONFLICTS, STARTED, WHAT")
def _replays_table(replay: "Replay") -> Cells:
    line = replay_line(masked_replay(replay))
    started = relative_time(line.created_at)
    return line.id, line.state, line.replayed, line.total, line.conflicts or None, started, line.what


@replays.command("show")
@id_argument
@json_option
@with_app
def show_replay(app: "App", number: int, *, as_json: bool) -> None:
    """Show the progress of a replay, and why it stopped.

    \b
    Example:
      outlast dlq replays show 3
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.dead_letters.replay_run(number)
    if as_json:
        print_json(replay_data(found))
        return
    line = replay_line(masked_replay(found))
    print_facts(
        {
            "replay": f"{line.id}, {line.state}",
            "what": line.what,
            "progress": line.told,
            "stopped by": line.stopped_by or None,
            "conflicts": ", ".join(map(str, line.conflict_ids)) or None,
            **row_facts(line, "rate", "failures"),
            "steps": ", ".join(f"{step.name}: {step.state}" for step in line.steps) or None,
            "started by": line.who,
            "why": line.reason or None,
            "started": exact_time(line.created_at),
            "last step": exact_time(line.updated_at),
            "ended": exact_time(line.ended_at),
            "resume": next_command("dlq", "replays", "resume", line.id) if line.can_resume else None,
        }
    )
    if found.state == "running":
        warn_without_worker(app)


@replays.command("resume")
@id_argument
@why_option
@click.option("--wait/--no-wait", default=True, help="Whether to wait for the end.")
@json_option
@with_app
def resume_replay(app: "App", number: int, *, why: str, wait: bool, as_json: bool) -> None:
    """Resume a stopped replay: one task, then ten, then the rest. Exit code 1 if it stops again.

    Tasks of the replay that failed are replayed too.

    \b
    Example:
      outlast dlq replays resume 3
    """  # noqa: D301  # click reads the control character, not a backslash
    follow_replay(app, app.dead_letters.resume_replay(number, why=why), wait=wait, as_json=as_json, verb="resumed")


add_operations(dlq, "dlq")
add_operations(replays, "dlq replays")
