"""``outlast dlq replays``: follow, list, stop and resume the replays that workers run."""

import time
from typing import TYPE_CHECKING

import click

from outlast.cli.app_options import flag, id_argument, json_option, list_options, next_command, with_app
from outlast.cli.errors import EXIT_FAILED, exit_failed
from outlast.cli.formats import exact_time, relative_time
from outlast.cli.operations import add_operations, why_option
from outlast.cli.output import (
    Cells,
    JsonObject,
    make_console,
    mask_secrets,
    print_facts,
    print_json,
    print_list,
    print_text,
    progress_bar,
    row_data,
    table,
)
from outlast.queue.dead_letters import FILTER_FIELDS
from outlast.report.dead_letters import replay_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from outlast.app import App
    from outlast.ports.triage import Replay


CONFLICT_TEXT = "a live task has the same unique key; it stays a dead letter"
_POLL_SECONDS = 0.25
_WORKER_CHECK_SECONDS = 5.0
_WORKER_WAIT_SECONDS = 30.0  # how long to wait without a worker, because one may be restarting


def replay_data(replay: "Replay") -> JsonObject:
    """Return a replay as JSON data, with the filters that are set."""
    names = {field: name for name, field in FILTER_FIELDS.items()}
    filters = {names.get(name, name): each for name, each in row_data(replay.filters).items() if each is not None}
    if "text" in filters:
        filters["text"] = mask_secrets(filters["text"])
    data = row_data(replay)
    del data["epoch"]
    return {**data, "filters": filters, "stopped_by": mask_secrets(replay.stopped_by)}


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
        print_text(f"replay {number} {verb}: {replay_line(replay, mask_secrets).told}")
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
            click.echo(f"replay {last.id}: {replay_line(last, mask_secrets).told}", err=True)
    return last


def _show_bar(steps: "Iterator[Replay]", console: "Console") -> "Replay":
    with progress_bar(console) as progress:
        bar = progress.add_task("replayed")
        last = next(steps)
        for last in steps:
            line = replay_line(last, mask_secrets)
            now = next((step.name.lower() for step in line.steps if step.state == "now"), "replayed")
            progress.update(bar, total=last.total, completed=line.handled, description=now)
    return last


def _print_end(last: "Replay") -> None:
    line = replay_line(last, mask_secrets)
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


@click.group(cls=_ReplaysGroup)
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
    empty = (
        "no replay is running" if running else "no replays",
        "outlast dlq replay --group GROUP --canary starts one",
    )
    printed = print_list(found, _replays_table, empty, as_json=as_json, data=replay_data)
    if printed and any(each.state == "running" for each in found):
        warn_without_worker(app)


@table("ID, STATE, QUEUED, OF, CONFLICTS, STARTED, WHAT")
def _replays_table(replay: "Replay") -> Cells:
    line = replay_line(replay, mask_secrets)
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
    line = replay_line(found, mask_secrets)
    print_facts(
        {
            "replay": f"{line.id}, {line.state}",
            "what": line.what,
            "progress": line.told,
            "stopped by": line.stopped_by or None,
            "conflicts": ", ".join(map(str, line.conflict_ids)) or None,
            "rate": line.rate,
            "failures": line.failures,
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
@flag("--json", "Print a JSON object at the end.", "as_json")
@with_app
def resume_replay(app: "App", number: int, *, why: str, wait: bool, as_json: bool) -> None:
    """Resume a stopped replay: one task, then ten, then the rest. Exit code 1 if it stops again.

    Tasks of the replay that failed are replayed too.

    \b
    Example:
      outlast dlq replays resume 3
    """  # noqa: D301  # click reads the control character, not a backslash
    follow_replay(app, app.dead_letters.resume_replay(number, why=why), wait=wait, as_json=as_json, verb="resumed")


add_operations(replays, "dlq replays")
