"""``outlast status``: what waits, runs and fails, and who works."""

import time
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import command, store_shown, with_app
from outlast.cli.moments import relative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from outlast.app import App
    from outlast.cli.job_runs import Known
    from outlast.ports.rows import Cooldown, Worker
    from outlast.ports.source_rows import Alert

__all__ = ["status"]

_EVERY = 1.0  # seconds
_MOST_WAITING = 1000  # alerts that are counted
_MOST_RUNS = 50  # the last ones that are looked at
_MOVING = "a move into this database is not over: run outlast move again to go on, or give it up by --cancel"


@click.command()
@click.option("--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@click.option(
    "--groups",
    "top",
    type=click.IntRange(0, 1000),
    metavar="N",
    default=5,
    show_default=True,
    help="Groups of failures.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def status(app: "App", *, watch: bool, top: int, as_json: bool) -> None:
    """Show what waits, runs and fails, and who works.

    \b
    Examples:
      outlast status
      outlast status --watch --app jobs:app
      outlast status --json | jq .counts.QUEUED
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import print_json, screen  # noqa: PLC0415  # not for --help

    if watch and as_json:
        message = "--watch is for people, --json for programs; give one of them"
        raise click.UsageError(message)
    if watch:
        _watch(app, top)
    elif as_json:
        print_json(_data(app, top))
    else:
        screen().print(_overview(app, top))


def _watch(app: "App", top: int) -> None:
    from rich.live import Live  # noqa: PLC0415  # not for --help

    from outlast.cli.showing import screen  # noqa: PLC0415  # not for --help

    try:
        with Live(_overview(app, top), console=screen(), auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                time.sleep(_EVERY)
                live.update(_overview(app, top), refresh=True)
    except KeyboardInterrupt:
        return


def _data(app: "App", top: int) -> dict[str, Any]:
    from outlast.cli.job_runs import run_data  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import as_data  # noqa: PLC0415  # not for --help

    return {
        "store": store_shown(app),
        "counts": app.tasks.counts(),
        "queues": [as_data(row) for row in app.tasks.queues()],
        "workers": [as_data(row) for row in app.tasks.workers()],
        "cooldowns": [as_data(row) for row in app.tasks.cooldowns()],
        "groups": [as_data(row) for row in app.dead_letters.groups(top)] if top else [],
        "sources": {str(state): count for state, count in app.sources.health().items()},
        "alerts_waiting": len(_waiting(app)),
        "jobs": [run_data(each) for each in _open_runs(app)],
    }


def _overview(app: "App", top: int) -> "RenderableType":
    """Return all tables that have something to show."""
    from rich.console import Group  # noqa: PLC0415  # not for --help

    from outlast.cli.dlq import groups_table  # noqa: PLC0415  # not for --help
    from outlast.cli.queues import queues_table  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import counts_told, line  # noqa: PLC0415  # not for --help

    counts = app.tasks.counts()
    parts: list[RenderableType] = [line(store_shown(app), "dim"), line(counts_told(counts), "bold")]
    queues, workers, cooldowns = app.tasks.queues(), app.tasks.workers(), app.tasks.cooldowns()
    groups = app.dead_letters.groups(top) if top else []
    parts += [*_of_sources(app), *_of_jobs(app)]
    if queues:
        parts += [line(""), queues_table(queues)]
    parts += [
        line(""),
        _workers_table(workers) if workers else line(f"no worker is known; {_starting(app)}", "yellow"),
    ]
    if cooldowns:
        parts += [line(""), _cooldowns_table(cooldowns)]
    if groups:
        parts += [line(""), groups_table(groups)]
    return Group(*parts)


def _starting(app: "App") -> str:
    """Return what starts a worker: ours, or that of an engine whose tasks are all that the app has."""
    if getattr(app.store, "receives_move", bool)():  # PostgreSQL alone can be the target of a move
        return _MOVING
    ours = ["outlast worker MODULE:APP starts one"] if app.tasks_by_name or not app.engines else []
    whose = "other tasks" if ours else "its tasks"
    return "; ".join([*ours, *(f"{whose} are {name}'s: {start}" for name, start in app.engines.items())])


def _of_sources(app: "App") -> "list[RenderableType]":
    """Return a line about sources and one about alerts, where there are any."""
    from outlast.cli.showing import counted, line  # noqa: PLC0415  # not for --help
    from outlast.cli.sources_showing import counts_told  # noqa: PLC0415  # not for --help

    parts: list[RenderableType] = []
    counts, waiting = app.sources.health(), _waiting(app)
    if sum(counts.values()):
        parts.append(line(counts_told(counts), "bold"))
    if waiting:
        more = " or more" if len(waiting) == _MOST_WAITING else ""
        oldest = relative(waiting[-1].created_at)
        parts.append(line(f"{counted(len(waiting), 'alert')}{more} not delivered yet, the oldest {oldest}", "yellow"))
    return parts


def _of_jobs(app: "App") -> "list[RenderableType]":
    """Return a line about every job that runs, or whose last run died."""
    from outlast.cli.job_runs import DIED  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import line, masked  # noqa: PLC0415  # not for --help

    parts: list[RenderableType] = []
    for each in _open_runs(app):
        job, run_id, died = masked(each.run.job), each.run.id, each.state == DIED
        how = (
            f"died: {command('job', 'show', run_id)}"
            if died
            else f"is running, begun {relative(each.run.started_at)}: run {run_id}"
        )
        parts.append(line(f"job {job} {how}", "red" if died else "cyan"))
    return parts


def _open_runs(app: "App") -> "Sequence[Known]":
    """Return the last run of each job if it has not ended; one that died and was followed by another is past."""
    from outlast.cli.job_runs import known_runs  # noqa: PLC0415  # not for --help

    newest = {each.run.job: each for each in reversed(known_runs(app.store, None, _MOST_RUNS))}
    return [each for each in newest.values() if each.run.ended_at is None]


def _waiting(app: "App") -> "Sequence[Alert]":
    return app.store.alerts(waiting=True, limit=_MOST_WAITING)


def _workers_table(workers: "Sequence[Worker]") -> "Table":
    from outlast.cli.showing import table  # noqa: PLC0415  # not for --help

    columns = {"WORKER": 30, "TASKS": None, "SEEN": None, "QUEUES": 16, "STATE": None}
    rows = (
        (
            row.name,
            f"{row.tasks}/{row.concurrency}",
            relative(row.heartbeat_at),
            ",".join(row.queues),
            row.state if row.alive else "silent",
        )
        for row in workers
    )
    return table(columns, rows)


def _cooldowns_table(cooldowns: "Sequence[Cooldown]") -> "Table":
    from outlast.cli.showing import masked, table  # noqa: PLC0415  # not for --help

    columns = {"COOLING DOWN": 36, "OVER": None, "WHY": None}
    return table(columns, ((masked(row.resource), relative(row.until), masked(row.reason)) for row in cooldowns))
