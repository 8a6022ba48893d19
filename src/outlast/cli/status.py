"""``outlast status``: tasks, queues, workers, cooldowns, sources, jobs and failures on one screen."""

import time
from typing import TYPE_CHECKING

import click

from outlast.cli.app_options import flag, list_options, next_command, option, with_app
from outlast.cli.dlq import dead_letter_groups_table
from outlast.cli.formats import relative_time
from outlast.cli.job import recent_runs, run_data
from outlast.cli.output import (
    Cells,
    JsonObject,
    make_console,
    print_json,
    row_data,
    status_counts_text,
    styled_text,
    table,
)
from outlast.cli.queues import queues_table
from outlast.cli.sources import state_counts_text
from outlast.queue.masking import masked_texts
from outlast.report.job_runs import DIED
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from outlast.app import App
    from outlast.ports.rows import Cooldown, WorkerRow
    from outlast.ports.source_rows import Alert
    from outlast.report.job_runs import JobRunView


_REFRESH_SECONDS = 1.0
_MAX_WAITING = 1000  # alerts that are counted
_MAX_RUNS = 50  # latest runs that are read
_MOVE_HINT = "a move into this database is not finished: run outlast move again to continue, or cancel it with --cancel"


@click.command()
@flag("--watch", "Refresh every second until Ctrl-C.")
@option("--groups", "N", "Groups of failures to show.", "top", type=click.IntRange(0, 1000), default=5)
@list_options()
@with_app
def status(app: "App", *, watch: bool, top: int, as_json: bool) -> None:
    """Show tasks, queues, workers, cooldowns and failures.

    \b
    Examples:
      outlast status
      outlast status --watch --app jobs:app
      outlast status --json | jq .counts.QUEUED
    """  # noqa: D301  # click reads the control character, not a backslash
    if watch and as_json:
        raise click.UsageError("give --watch or --json, not both")
    if watch:
        _watch(app, top)
    elif as_json:
        print_json(_status_data(app, top))
    else:
        make_console().print(_overview(app, top))


def _watch(app: "App", top: int) -> None:
    from rich.live import Live  # noqa: PLC0415  # not for --help

    try:
        console = make_console()
        while not console.is_terminal:
            console.print(_overview(app, top))
            time.sleep(_REFRESH_SECONDS)
        with Live(_overview(app, top), console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(_overview(app, top), refresh=True)
    except KeyboardInterrupt:
        return


def _status_data(app: "App", top: int) -> JsonObject:
    return {
        "store": app.store.location,
        "counts": app.tasks.counts(),
        "queues": [row_data(row) for row in app.tasks.queues()],
        "workers": [row_data(row) for row in app.tasks.workers()],
        "cooldowns": [row_data(row) for row in app.tasks.cooldowns()],
        "groups": [row_data(row) for row in app.dead_letters.groups(top)] if top else [],
        "sources": {str(state): count for state, count in app.sources.health().items()},
        "alerts_waiting": len(_waiting_alerts(app)),
        "jobs": [run_data(each) for each in _open_runs(app)],
    }


def _overview(app: "App", top: int) -> "RenderableType":
    """Return all tables that are not empty."""
    from rich.console import Group  # noqa: PLC0415  # not for --help

    parts: list[RenderableType] = [
        styled_text(app.store.location, "dim"),
        styled_text(status_counts_text(app.tasks.counts()), "bold"),
    ]
    queues, workers, cooldowns = app.tasks.queues(), app.tasks.workers(), app.tasks.cooldowns()
    groups = app.dead_letters.groups(top) if top else []
    parts += [*_source_lines(app), *_job_lines(app)]
    if queues:
        parts += [styled_text(""), queues_table(queues)]
    if workers:
        parts += [styled_text(""), _workers_table(workers)]
    elif queues or app.tasks_by_name or not app.sources.polled:  # an app that only polls needs none
        parts += [styled_text(""), styled_text(f"no workers; {_worker_hint(app)}", "yellow")]
    if cooldowns:
        parts += [styled_text(""), _cooldowns_table(cooldowns)]
    if groups:
        parts += [styled_text(""), dead_letter_groups_table(groups)]
    return Group(*parts)


def _worker_hint(app: "App") -> str:
    """Return how to start a worker of Outlast, or of the engine that runs the app's tasks."""
    if getattr(app.store, "receives_move", bool)():  # only PostgreSQL can be the target of a move
        return _MOVE_HINT
    hints = ["outlast worker MODULE:APP starts one"] if app.tasks_by_name or not app.engines else []
    what = "other tasks" if hints else "its tasks"
    return "; ".join([*hints, *(f"{what} run in {name}: {start}" for name, start in app.engines.items())])


def _source_lines(app: "App") -> "list[RenderableType]":
    """Return a line about sources and a line about waiting alerts, if there are any."""
    parts: list[RenderableType] = []
    counts, waiting = app.sources.health(), _waiting_alerts(app)
    if sum(counts.values()):
        parts.append(styled_text(state_counts_text(counts), "bold"))
    if waiting:
        more = " or more" if len(waiting) == _MAX_WAITING else ""
        text = f"{counted(len(waiting), 'alert')}{more} not delivered yet, the oldest"
        parts.append(styled_text(f"{text} {relative_time(waiting[-1].created_at)}", "yellow"))
    return parts


def _job_lines(app: "App") -> "list[RenderableType]":
    """Return a line about every job that is running or whose last run died."""
    parts: list[RenderableType] = []
    for each in _open_runs(app):
        job, run_id, died = masked_texts(each.run.job), each.run.id, each.state == DIED
        state = f"is running, started {relative_time(each.run.started_at)}: run {run_id}"
        if died:
            state = f"died: {next_command('job', 'show', run_id)}"
        parts.append(styled_text(f"job {job} {state}", "red" if died else "cyan"))
    return parts


def _open_runs(app: "App") -> "Sequence[JobRunView]":
    """Return the last run of each job if it has not ended; earlier runs that died are left out."""
    newest = {each.run.job: each for each in reversed(recent_runs(app.store, None, _MAX_RUNS))}
    return [each for each in newest.values() if each.run.ended_at is None]


def _waiting_alerts(app: "App") -> "Sequence[Alert]":
    return app.store.alerts(waiting=True, limit=_MAX_WAITING)


@table("WORKER:30, TASKS, HEARTBEAT, QUEUES:16, STATE")
def _workers_table(row: "WorkerRow") -> Cells:
    return (
        row.name,
        f"{row.tasks}/{row.concurrency}",
        relative_time(row.heartbeat_at),
        ",".join(row.queues),
        row.state if row.alive else "silent",
    )


@table("COOLDOWN, ENDS, REASON")
def _cooldowns_table(row: "Cooldown") -> Cells:
    return masked_texts(row.resource), relative_time(row.until), masked_texts(row.reason)
