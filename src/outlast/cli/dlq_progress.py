"""How far a replay is that workers carry on: followed until it is over, whoever does it."""

import time
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import command
from outlast.cli.failing import FAILED
from outlast.cli.showing import as_data, masked, print_json, say, screen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.app import App
    from outlast.ports.triage_rows import Replay
    from outlast.report.replays import ReplayLine

__all__ = ["follow", "line_of", "replay_data", "say_no_worker"]

_EVERY = 0.25  # seconds between two looks
_WORKERS_EVERY = 5.0  # seconds between two looks for workers
_PATIENCE = 30.0  # seconds without a worker: one may be restarting


def line_of(replay: "Replay") -> "ReplayLine":
    """Return a replay as people are told of it, secrets masked."""
    from outlast.report.replays import replay_line  # noqa: PLC0415  # not for --help

    which = replay.which._replace(text=masked(replay.which.text))
    return replay_line(replay._replace(which=which, stopped_by=masked(replay.stopped_by), reason=masked(replay.reason)))


def replay_data(replay: "Replay") -> dict[str, Any]:
    """Return a replay as JSON has it; of what was meant only what narrows."""
    which = {name: value for name, value in as_data(replay.which).items() if value is not None}
    data = as_data(replay)
    del data["epoch"]
    return {**data, "which": {**which, **({"text": masked(which["text"])} if "text" in which else {})},
            "stopped_by": masked(replay.stopped_by)}  # fmt: skip


def say_no_worker(app: "App") -> bool:
    """Say it if nobody is there to carry replays on; tell whether."""
    if any(worker.alive for worker in app.tasks.workers()):
        return False
    click.secho("no worker is alive to carry it on; outlast worker MODULE:APP starts one", fg="yellow", err=True)
    return True


def follow(app: "App", replay: "Replay", *, wait: bool, as_json: bool, begun: str = "has begun") -> None:
    """Say that a replay has begun, and stay until it is over if that is wished.

    Exit code 1 if it is stopped, if a dead letter stays, or if nobody is there to carry it on.
    """
    number = replay.id
    if not as_json:
        say(f"replay {number} {begun}: {line_of(replay).told}")
    if say_no_worker(app) or not wait:
        _leave(number, as_json=as_json, replay=replay)
        click.get_current_context().exit(FAILED if wait else 0)
    try:
        last = _shown(_steps(app, replay))
    except KeyboardInterrupt:
        click.echo(f"replay {number} goes on without this", err=True)
        _leave(number, as_json=False, replay=replay)
        raise
    if as_json:
        print_json(replay_data(last))
    elif last.state == "running":
        say_no_worker(app)
        _leave(number, as_json=False, replay=last)
    else:
        _say_end(last)
    if last.state != "done" or last.conflicts:
        click.get_current_context().exit(FAILED)


def _leave(number: int, *, as_json: bool, replay: "Replay") -> None:
    if as_json:
        print_json(replay_data(replay))
        return
    look, stop = command("dlq", "replays", "show", number), command("dlq", "replays", "stop", number)
    click.echo(f"to look at it: {look}\nto stop it:    {stop}", err=True)


def _steps(app: "App", replay: "Replay") -> "Iterator[Replay]":
    """Yield how it stands, again and again until it is over, or nobody carries it on any more."""
    alive_at = looked_at = time.monotonic()
    while True:
        yield replay
        if replay.state != "running":
            return
        time.sleep(_EVERY)
        replay = app.dead_letters.replay_run(replay.id)
        now = time.monotonic()
        if now - looked_at >= _WORKERS_EVERY:
            looked_at = now
            if any(worker.alive for worker in app.tasks.workers()):
                alive_at = now
            elif now - alive_at > _PATIENCE:
                return


def _shown(steps: "Iterator[Replay]") -> "Replay":
    """Show how far it is: a bar at a terminal, elsewhere a line for each stage; return how it stands at last."""
    console = screen(stderr=True)
    if console.is_terminal:
        return _with_bar(steps)
    said, last = None, next(steps)
    for last in steps:
        stage = (last.stage, last.replayed > 0)
        if stage != said and last.state == "running":
            said = stage
            click.echo(f"replay {last.id}: {line_of(last).told}", err=True)
    return last


def _with_bar(steps: "Iterator[Replay]") -> "Replay":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  # at a terminal alone

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen(stderr=True), transient=True) as progress:
        bar = progress.add_task("replayed")
        last = next(steps)
        for last in steps:
            line = line_of(last)
            now = next((step.name.lower() for step in line.steps if step.state == "now"), "replayed")
            progress.update(bar, total=last.total, completed=line.handled, description=now)
    return last


def _say_end(last: "Replay") -> None:
    line = line_of(last)
    say(f"replay {last.id}: {line.told}", "green" if last.state == "done" and not last.conflicts else "red")
    if line.stopped_by:
        say(f"  {line.stopped_by}", "red")
    for number in last.conflict_ids:
        click.secho(f"dead letter {number}: a live task has its unique key; it stays", fg="red", err=True)
    if line.can_resume:
        say(f"once it is fixed: {command('dlq', 'replays', 'resume', last.id)}", "dim")
