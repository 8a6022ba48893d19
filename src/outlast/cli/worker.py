"""``outlast worker``: run the tasks of an app."""

import logging
import time
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import flag, option, reaches_store
from outlast.cli.health_endpoints import ProcessState, heartbeat_check, serve_health, with_health_options
from outlast.cli.logs import with_log_options
from outlast.config import configure
from outlast.ports.rows import Kind
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.app import App
    from outlast.config import Config
    from outlast.queue.worker import Worker


_CONCURRENCY = 10
_MAX_LISTED = 12
_OUTCOME_WORDS = {
    Kind.DONE: "done",
    Kind.RETRY: "to retry",
    Kind.DEFER: "deferred",
    Kind.FAIL: "dead letters",
    Kind.PARK: "parked",
}
log = logging.getLogger("outlast.worker")


@click.command()
@click.argument("reference", metavar="MODULE:APP")
@option("--queues", "A,B", "Queues to take tasks from, in turn. Default: all queues of the tasks.")
@option("--concurrency", "N", f"Concurrent tasks. Default: {_CONCURRENCY}.", type=click.IntRange(min=1))
@option("--name", "TEXT", "Name of the worker. Default: host and process.")
@flag("--drain", "Exit when no more tasks are due.")
@with_log_options("info")
@with_health_options
def worker(
    reference: str, queues: str | None, concurrency: int | None, name: str | None, *, drain: bool, **health: Any
) -> None:
    """Run the tasks of an app until stopped.

    MODULE:APP names the app: jobs:app for the variable app in jobs.py, also in the current folder.

    SIGTERM or Ctrl-C stops it: running tasks may finish, tasks that have not started are returned to the queue. A
    second signal ends it at once; tasks that were running run again. Options that are not given come from the table
    [app] in outlast.toml.

    \b
    Examples:
      outlast worker jobs:app
      outlast worker jobs:app --queues mail,default --concurrency 20
      outlast worker jobs:app --drain
      outlast worker jobs:app --json-logs --health-port 8787
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help

    config = configure()
    app = load_app(reference)
    queue_names = _parse_queues(queues) or config.app.get("queues")
    made = app.worker(queue_names, concurrency=concurrency or config.app.get("concurrency", _CONCURRENCY), name=name)
    try:
        reached = reaches_store(app.store.check_schema, required=drain)  # before the start is logged
        state = ProcessState(
            lambda: made.last_beat, lambda: made.stopping, made.queues, {"heartbeat": heartbeat_check(app, made)}
        )
        with serve_health(app, state, **health):
            _log_start(app, made, config)
            if reached:
                _warn_about_setup(app, queue_names or ())
            _run_worker(made, drain=drain)
    finally:
        app.close()


def _parse_queues(queues: str | None) -> list[str] | None:
    if queues is None:
        return None
    names = list(dict.fromkeys(name.strip() for name in queues.split(",") if name.strip()))
    if not names:
        raise click.BadParameter(
            "give one or more names of queues, separated by commas: --queues mail,default", param_hint="--queues"
        )
    return names


def _run_worker(made: "Worker", *, drain: bool) -> None:
    started = time.monotonic()
    try:
        if drain:
            made.drain()
        else:
            made.run()
    finally:
        counts = {kind.value: count for kind, count in made.outcomes.items() if count}
        summary = ", ".join(
            f"{word} {made.outcomes[kind]}" for kind, word in _OUTCOME_WORDS.items() if made.outcomes[kind]
        )
        log.info(
            "worker %s ended after %.1f s: %s",
            made.name,
            time.monotonic() - started,
            summary or "no task ended",
            extra={"outcomes": counts},
        )


def _log_start(app: "App", made: "Worker", config: "Config") -> None:
    known = sorted(app.tasks_by_name)
    names = ", ".join(known[:_MAX_LISTED]) + (", …" if len(known) > _MAX_LISTED else "")
    where = app.store.location
    keys: dict[str, Any] = {
        "worker": made.name,
        "queues": list(made.queues),
        "tasks": known,
        "concurrency": made.concurrency,
        "store": where,
    }
    log.info(
        "worker %s: queues %s; %s; concurrency %d; store %s%s",
        made.name,
        ", ".join(made.queues),
        f"{counted(len(known), 'task')}: {names}" if known else "no tasks",
        made.concurrency,
        where,
        f"; settings {config.source}" if config.source else "",
        extra=keys,
    )


def _warn_about_setup(app: "App", queue_names: "Sequence[str]") -> None:
    """Warn about likely mistakes: an app without tasks, a queue that no task uses."""
    for engine, start in app.engines.items() if not app.tasks_by_name else ():
        log.warning("the app has no tasks of its own; its tasks run in %s: %s", engine, start)
    if not app.tasks_by_name and not app.engines:
        log.warning("the app has no tasks; check that its module imports the module that defines them")
    unused = [name for name in queue_names if name not in {each.queue for each in app.tasks_by_name.values()}]
    if not unused:
        return  # counting the waiting tasks is slow if there are many
    waiting = {row.name for row in app.tasks.queues() if row.ready or row.scheduled or row.running or row.parked}
    for name in unused:
        if name not in waiting:
            log.warning("queue %s: no task of the app uses it and no task waits in it; check the name", name)
