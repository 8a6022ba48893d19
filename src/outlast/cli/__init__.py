"""The command line. A command's module is imported when the command is used."""

import click

import outlast
from outlast.cli.errors import RootGroup

__all__ = ["cli"]

_COMMANDS = {
    "init": ("outlast.cli.init:init", "Write an outlast.toml with every setting explained."),
    "worker": ("outlast.cli.worker:worker", "Run the tasks of an app until stopped."),
    "monitor": ("outlast.cli.monitor:monitor", "Poll the sources of an app until stopped."),
    "job": ("outlast.cli.job:job", "Run batch jobs and show their runs."),
    "enqueue": ("outlast.cli.tasks:enqueue", "Add a task."),
    "status": ("outlast.cli.status:status", "Show tasks, queues, workers, cooldowns and failures."),
    "tasks": ("outlast.cli.tasks:tasks", "List tasks, cancel them, or make them due now."),
    "dlq": ("outlast.cli.dlq:dlq", "List, edit, replay or discard dead letters."),
    "queues": ("outlast.cli.queues:queues", "List, pause and resume queues."),
    "limits": ("outlast.cli.queues:limits", "Show the limits that all workers share."),
    "sources": ("outlast.cli.sources:sources", "List, add, enable and disable the sources that are polled."),
    "web": ("outlast.cli.web:web", "Serve the dashboard: failures, waits and changes in a browser."),
    "alerts": ("outlast.cli.alerts:alerts", "List alerts, test the channels, deliver waiting alerts."),
    "audit": ("outlast.cli.audit:audit", "Show who changed what with commands and on the dashboard."),
    "db": ("outlast.cli.db:db", "Create, migrate and check the tables."),
    "move": ("outlast.cli.db:move", "Move all data from a SQLite file to PostgreSQL."),
    "doctor": ("outlast.cli.doctor:doctor", "Check settings, store and workers, and that no task was lost."),
    "explain": ("outlast.cli.explain:explain", "Explain an error, and what a policy does about it."),
    "policy": ("outlast.cli.policy:policy", "Show what a policy does: how often it tries, and how long it waits."),
    "completion": ("outlast.cli.completion:completion", "Print a completion script for your shell."),
}


@click.group("outlast", cls=RootGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(outlast.__version__, prog_name="outlast", message="%(prog)s %(version)s")
def cli() -> None:
    """Handle failures: retries, durable tasks, dead letters, polled sources and batch jobs.

    \b
    Examples:
      outlast worker jobs:app
      outlast monitor feeds:app
      outlast job run etl:items
      outlast status --watch
      outlast dlq groups
      outlast explain 429
    """  # noqa: D301  # click reads the control character, not a backslash
