"""The command line. A command's module is imported when the command is used."""

import click

import outlast
from outlast.cli.errors import RootGroup

__all__ = ["cli"]

_HELP_LINES = {
    "init": "Write an outlast.toml with every setting explained.",
    "worker": "Run the tasks of an app until stopped.",
    "monitor": "Poll the sources of an app until stopped.",
    "job": "Run batch jobs and show their runs.",
    "enqueue": "Add a task.",
    "status": "Show tasks, queues, workers, cooldowns and failures.",
    "tasks": "List tasks, cancel them, or make them due now.",
    "dlq": "List, edit, replay or discard dead letters.",
    "periodic": "Pause and resume periodic tasks, or run them now; the dashboard lists them.",
    "mark": "Mark events on the charts of the dashboard.",
    "queues": "List, pause and resume queues.",
    "cooldowns": "Start and end the cooldowns of resources; outlast status lists them.",
    "breakers": "Open and close breakers in all processes; the dashboard lists them.",
    "limits": "Show the limits that all workers share.",
    "sources": "List, add, enable and disable the sources that are polled.",
    "web": "Serve the dashboard: failures, waits and changes in a browser.",
    "alerts": "List alerts, test the channels, deliver waiting alerts.",
    "audit": "Show who changed what with commands and on the dashboard.",
    "db": "Create, migrate and check the tables.",
    "move": "Move all data from a SQLite file to PostgreSQL.",
    "doctor": "Check settings, store and workers, and that no task was lost.",
    "explain": "Explain an error, and what a policy does about it.",
    "policy": "Show what a policy does: how often it tries, and how long it waits.",
    "simulate": "Show what a policy does in an outage, or would have done in a recorded one.",
    "completion": "Print a completion script for your shell.",
}
_SHARED_MODULES = {
    "enqueue": "tasks",
    "limits": "queues",
    "move": "db",
    **dict.fromkeys(("cooldowns", "breakers", "audit", "periodic", "mark"), "operations"),
}  # of commands beside another one
_COMMANDS = {
    name: (f"outlast.cli.{_SHARED_MODULES.get(name, name)}:{name}", line) for name, line in _HELP_LINES.items()
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
