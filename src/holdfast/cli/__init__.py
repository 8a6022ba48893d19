"""The command line; every command has a file of its own, imported when it is used."""

import click

import holdfast
from holdfast.cli.failing import FailingGroup

__all__ = ["cli"]

_COMMANDS = {
    "init": ("holdfast.cli.init:init", "Write a holdfast.toml with every setting explained."),
    "worker": ("holdfast.cli.worker:worker", "Run the tasks of an app until told to stop."),
    "monitor": ("holdfast.cli.monitor:monitor", "Poll the sources of an app until told to stop."),
    "job": ("holdfast.cli.job:job", "Run batch jobs, and look at their runs."),
    "enqueue": ("holdfast.cli.enqueue:enqueue", "Add a task."),
    "status": ("holdfast.cli.status:status", "Show what waits, runs and fails, and who works."),
    "tasks": ("holdfast.cli.tasks:tasks", "Look at tasks, cancel them, make them due now."),
    "dlq": ("holdfast.cli.dlq:dlq", "Look at dead letters, edit, replay or discard them."),
    "queues": ("holdfast.cli.queues:queues", "List queues, pause and resume them."),
    "limits": ("holdfast.cli.limits:limits", "Show what resources take from all workers together."),
    "sources": ("holdfast.cli.sources:sources", "Look at what is polled, add sources, enable and disable them."),
    "web": ("holdfast.cli.web:web", "Show what fails, what waits for what, and what changed, in a browser."),
    "alerts": ("holdfast.cli.alerts:alerts", "Look at alerts, try the channels, deliver what waits."),
    "audit": ("holdfast.cli.audit:audit", "Show who asked for what by hand."),
    "db": ("holdfast.cli.db:db", "Create the tables, bring them up to date, check them."),
    "move": ("holdfast.cli.move:move", "Move all that is in a SQLite file to PostgreSQL."),
    "doctor": ("holdfast.cli.doctor:doctor", "Check settings, store and workers, and that no task was lost."),
    "explain": ("holdfast.cli.explain:explain", "Say what an error is, and what a policy does about it."),
    "policy": ("holdfast.cli.policy:policy", "See what a policy does: how often it tries, and how long it waits."),
    "completion": ("holdfast.cli.completion:completion", "Print a script that has a shell complete what you type."),
}


@click.group("holdfast", cls=FailingGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(holdfast.__version__, prog_name="holdfast")
def cli() -> None:
    """Failure handling: what a program does when something it depends on fails.

    \b
    Examples:
      holdfast worker jobs:app
      holdfast monitor feeds:app
      holdfast job run etl:items
      holdfast status --watch
      holdfast dlq groups
      holdfast explain 429
    """  # noqa: D301  # click reads the control character, not a backslash
