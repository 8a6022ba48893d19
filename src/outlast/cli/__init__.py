"""The command line; every command has a file of its own, imported when it is used."""

import click

import outlast
from outlast.cli.errors import RootGroup

__all__ = ["cli"]

_COMMANDS = {
    "init": ("outlast.cli.init:init", "Write an outlast.toml with every setting explained."),
    "worker": ("outlast.cli.worker:worker", "Run the tasks of an app until told to stop."),
    "monitor": ("outlast.cli.monitor:monitor", "Poll the sources of an app until told to stop."),
    "job": ("outlast.cli.job:job", "Run batch jobs, and look at their runs."),
    "enqueue": ("outlast.cli.tasks:enqueue", "Add a task."),
    "status": ("outlast.cli.status:status", "Show what waits, runs and fails, and who works."),
    "tasks": ("outlast.cli.tasks:tasks", "Look at tasks, cancel them, make them due now."),
    "dlq": ("outlast.cli.dlq:dlq", "Look at dead letters, edit, replay or discard them."),
    "queues": ("outlast.cli.queues:queues", "List queues, pause and resume them."),
    "limits": ("outlast.cli.queues:limits", "Show what resources take from all workers together."),
    "sources": ("outlast.cli.sources:sources", "Look at what is polled, add sources, enable and disable them."),
    "web": ("outlast.cli.web:web", "Show what fails, what waits for what, and what changed, in a browser."),
    "alerts": ("outlast.cli.alerts:alerts", "Look at alerts, try the channels, deliver what waits."),
    "audit": ("outlast.cli.audit:audit", "Show who asked for what by hand."),
    "db": ("outlast.cli.db:db", "Create the tables, bring them up to date, check them."),
    "move": ("outlast.cli.db:move", "Move all that is in a SQLite file to PostgreSQL."),
    "doctor": ("outlast.cli.doctor:doctor", "Check settings, store and workers, and that no task was lost."),
    "explain": ("outlast.cli.explain:explain", "Say what an error is, and what a policy does about it."),
    "policy": ("outlast.cli.policy:policy", "See what a policy does: how often it tries, and how long it waits."),
    "completion": ("outlast.cli.completion:completion", "Print a script that has a shell complete what you type."),
}


@click.group("outlast", cls=RootGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(outlast.__version__, prog_name="outlast", message="%(prog)s %(version)s")
def cli() -> None:
    """Failure handling: what a program does when something it depends on fails.

    \b
    Examples:
      outlast worker jobs:app
      outlast monitor feeds:app
      outlast job run etl:items
      outlast status --watch
      outlast dlq groups
      outlast explain 429
    """  # noqa: D301  # click reads the control character, not a backslash
