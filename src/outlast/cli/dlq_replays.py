"""``outlast dlq replays``: replays that workers carry on: how far they are, stop one, have it go on."""

import time
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import next_command, with_app
from outlast.cli.errors import EXIT_FAILED
from outlast.cli.formats import ROW_LIMIT, ROW_NUMBER, exact_time, relative_time
from outlast.cli.output import make_console, mask_secrets, print_json, print_text, row_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.app import App
    from outlast.ports.triage import Replay
    from outlast.report.dead_letters import ReplayLine


# How far a replay is that workers carry on: followed until it is over, whoever does it.

_POLL_SECONDS = 0.25  # seconds between two looks
_WORKER_CHECK_SECONDS = 5.0  # seconds between two looks for workers
_WORKER_WAIT_SECONDS = 30.0  # seconds without a worker: one may be restarting


def masked_replay_line(replay: "Replay") -> "ReplayLine":
    """Return a replay as people are told of it, secrets masked."""
    from outlast.report.dead_letters import replay_line  # noqa: PLC0415  # not for --help

    which = replay.which._replace(text=mask_secrets(replay.which.text))
    return replay_line(
        replay._replace(which=which, stopped_by=mask_secrets(replay.stopped_by), reason=mask_secrets(replay.reason))
    )


def replay_data(replay: "Replay") -> dict[str, Any]:
    """Return a replay as JSON has it; of what was meant only what narrows."""
    which = {name: value for name, value in row_data(replay.which).items() if value is not None}
    data = row_data(replay)
    del data["epoch"]
    return {**data, "which": {**which, **({"text": mask_secrets(which["text"])} if "text" in which else {})},
            "stopped_by": mask_secrets(replay.stopped_by)}  # fmt: skip


def warn_without_worker(app: "App") -> bool:
    """Say it if nobody is there to carry replays on; tell whether."""
    if any(worker.alive for worker in app.tasks.workers()):
        return False
    click.secho("no worker is alive to carry it on; outlast worker MODULE:APP starts one", fg="yellow", err=True)
    return True


def follow_replay(app: "App", replay: "Replay", *, wait: bool, as_json: bool, begun: str = "has begun") -> None:
    """Say that a replay has begun, and stay until it is over if that is wished.

    Exit code 1 if it is stopped, if a dead letter stays, or if nobody is there to carry it on.
    """
    number = replay.id
    if not as_json:
        print_text(f"replay {number} {begun}: {masked_replay_line(replay).told}")
    if warn_without_worker(app) or not wait:
        _print_follow_up(number, as_json=as_json, replay=replay)
        click.get_current_context().exit(EXIT_FAILED if wait else 0)
    try:
        last = _show_progress(_poll_replay(app, replay))
    except KeyboardInterrupt:
        click.echo(f"replay {number} goes on without this", err=True)
        _print_follow_up(number, as_json=False, replay=replay)
        raise
    if as_json:
        print_json(replay_data(last))
    elif last.state == "running":
        warn_without_worker(app)
        _print_follow_up(number, as_json=False, replay=last)
    else:
        _print_end(last)
    if last.state != "done" or last.conflicts:
        click.get_current_context().exit(EXIT_FAILED)


def _print_follow_up(number: int, *, as_json: bool, replay: "Replay") -> None:
    if as_json:
        print_json(replay_data(replay))
        return
    look, stop = next_command("dlq", "replays", "show", number), next_command("dlq", "replays", "stop", number)
    click.echo(f"to look at it: {look}\nto stop it:    {stop}", err=True)


def _poll_replay(app: "App", replay: "Replay") -> "Iterator[Replay]":
    """Yield how it stands, again and again until it is over, or nobody carries it on any more."""
    alive_at = looked_at = time.monotonic()
    while True:
        yield replay
        if replay.state != "running":
            return
        time.sleep(_POLL_SECONDS)
        replay = app.dead_letters.replay_run(replay.id)
        now = time.monotonic()
        if now - looked_at >= _WORKER_CHECK_SECONDS:
            looked_at = now
            if any(worker.alive for worker in app.tasks.workers()):
                alive_at = now
            elif now - alive_at > _WORKER_WAIT_SECONDS:
                return


def _show_progress(steps: "Iterator[Replay]") -> "Replay":
    """Show how far it is: a bar at a terminal, elsewhere a line for each stage; return how it stands at last."""
    console = make_console(stderr=True)
    if console.is_terminal:
        return _show_bar(steps)
    said, last = None, next(steps)
    for last in steps:
        stage = (last.stage, last.replayed > 0)
        if stage != said and last.state == "running":
            said = stage
            click.echo(f"replay {last.id}: {masked_replay_line(last).told}", err=True)
    return last


def _show_bar(steps: "Iterator[Replay]") -> "Replay":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  # at a terminal alone

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=make_console(stderr=True), transient=True) as progress:
        bar = progress.add_task("replayed")
        last = next(steps)
        for last in steps:
            line = masked_replay_line(last)
            now = next((step.name.lower() for step in line.steps if step.state == "now"), "replayed")
            progress.update(bar, total=last.total, completed=line.handled, description=now)
    return last


def _print_end(last: "Replay") -> None:
    line = masked_replay_line(last)
    print_text(f"replay {last.id}: {line.told}", "green" if last.state == "done" and not last.conflicts else "red")
    if line.stopped_by:
        print_text(f"  {line.stopped_by}", "red")
    for number in last.conflict_ids:
        click.secho(f"dead letter {number}: a live task has its unique key; it stays", fg="red", err=True)
    if line.can_resume:
        print_text(f"once it is fixed: {next_command('dlq', 'replays', 'resume', last.id)}", "dim")


class _ReplaysGroup(click.Group):
    """A group that lists when no command is named, and shows one when a number is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the command that is meant."""
        first = args[0] if args else "--"
        if first.isdecimal():
            args = ["show", *args]
        elif first.startswith("-") and first not in {"-h", "--help"}:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ReplaysGroup)
def replays() -> None:
    """List replays that workers carry on; stop one, have it go on.

    They are begun by outlast dlq replay with --canary or --rate, or on the dashboard.

    \b
    Examples:
      outlast dlq replays
      outlast dlq replays stop 3
    """  # noqa: D301  # click reads the control character, not a backslash


@replays.command("list")
@click.option("--running", is_flag=True, help="Only those that are not over.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=20, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_replays(app: "App", *, running: bool, limit: int, as_json: bool) -> None:
    """List replays, newest first.

    \b
    Example:
      outlast dlq replays list --running
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, make_table, print_empty, print_json  # noqa: PLC0415  # not for --help

    found = app.dead_letters.replays(running=running, limit=limit)
    if as_json:
        print_json([replay_data(each) for each in found])
        return
    if not found:
        print_empty(
            "no replay runs" if running else "no replays", "outlast dlq replay --group GROUP --canary begins one"
        )
        return
    columns = {"ID": None, "STATE": None, "QUEUED": None, "OF": None, "STAYED": None, "BEGUN": None, "WHAT": None}
    rows = (
        (
            each.id,
            each.state,
            each.replayed,
            each.total,
            each.conflicts or None,
            relative_time(each.created_at),
            each.what,
        )
        for each in map(masked_replay_line, found)
    )
    make_console().print(make_table(columns, rows))
    if any(each.state == "running" for each in found):
        warn_without_worker(app)


@replays.command("show")
@click.argument("number", type=ROW_NUMBER, metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_replay(app: "App", number: int, *, as_json: bool) -> None:
    """Show how far a replay is, and why it was stopped.

    \b
    Example:
      outlast dlq replays show 3
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_json  # noqa: PLC0415  # not for --help

    found = app.dead_letters.replay_run(number)
    if as_json:
        print_json(replay_data(found))
        return
    _print_replay(found)
    if found.state == "running":
        warn_without_worker(app)


def _print_replay(found: "Replay") -> None:
    from outlast.cli.output import facts_table, make_console  # noqa: PLC0415  # not for --help

    line = masked_replay_line(found)
    make_console().print(
        facts_table(
            [
                ("replay", f"{line.id}, {line.state}"),
                ("of", line.what),
                ("stands", line.told),
                ("stopped by", line.stopped_by or None),
                ("stayed", ", ".join(map(str, line.conflict_ids)) or None),
                ("rate", line.rate),
                ("steps", ", ".join(f"{step.name}: {step.state}" for step in line.steps) or None),
                ("begun by", line.who),
                ("why", line.reason or None),
                ("begun", exact_time(line.created_at)),
                ("last step", exact_time(line.updated_at)),
                ("ended", exact_time(line.ended_at)),
                ("go on", next_command("dlq", "replays", "resume", line.id) if line.can_resume else None),
            ]
        )
    )


@replays.command("stop")
@click.argument("number", type=ROW_NUMBER, metavar="ID")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@with_app()
def stop_replay(app: "App", number: int, *, why: str) -> None:
    """Have a replay queue no more; what it has queued already runs. Exit code 1 if it does not run.

    \b
    Example:
      outlast dlq replays stop 3
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import print_text  # noqa: PLC0415  # not for --help

    if app.dead_letters.stop_replay(number, why=why):
        print_text(
            f"replay {number}: stopped; {next_command('dlq', 'replays', 'resume', number)} has it go on", "yellow"
        )
        return
    print_text(f"replay {number}: was over already", "red")
    click.get_current_context().exit(EXIT_FAILED)


@replays.command("resume")
@click.argument("number", type=ROW_NUMBER, metavar="ID")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@click.option("--wait/--no-wait", default=True, help="Whether to stay until it is over.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object at the end.")
@with_app()
def resume_replay(app: "App", number: int, *, why: str, wait: bool, as_json: bool) -> None:
    """Have a replay go on that was stopped: one first again, then ten, then the rest. Exit code 1 if it stops again.

    What had failed is taken up again too.

    \b
    Example:
      outlast dlq replays resume 3
    """  # noqa: D301  # click reads the control character, not a backslash
    follow_replay(app, app.dead_letters.resume_replay(number, why=why), wait=wait, as_json=as_json, begun="goes on")
