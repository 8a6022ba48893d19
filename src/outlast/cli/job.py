"""``outlast job``: list the runs of batch jobs; running them and looking into one have files of their own."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import with_app
from outlast.cli.job_running import run
from outlast.cli.job_showing import failures, show
from outlast.cli.moments import relative, took
from outlast.cli.numbers import LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from outlast.app import App
    from outlast.cli.job_runs import Known

__all__ = ["job"]

_WIDE = 100  # columns from which there is room for what matters less


@click.group()
def job() -> None:
    """Run batch jobs, and look at their runs.

    A job is a function for one target that runs over many of them. Targets fail alone; a gate says whether the run as a
    whole has failed; what is left can be done again.

    \b
    Examples:
      outlast job run etl:items
      outlast job list
      outlast job failures 20261115T100000-3f2a1b
      outlast job run etl:items --only-failed 20261115T100000-3f2a1b
    """  # noqa: D301  # click reads the control character, not a backslash


@job.command("list")
@click.option("--job", "name", metavar="NAME", help="Only runs of a job.")
@click.option("--limit", type=LIMIT, metavar="N", default=20, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_runs(app: "App", *, name: str | None, limit: int, as_json: bool) -> None:
    """List the runs of jobs, newest first.

    A run that is said to have died was ended with its process, by a crash or a power cut. Go on with it:
    outlast job run MODULE:JOB --resume RUN.

    \b
    Examples:
      outlast job list
      outlast job list --job items --limit 100 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.job_runs import known_runs, run_data  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import found_none, print_json, screen  # noqa: PLC0415  # not for --help

    found = known_runs(app.store, name, limit)
    if as_json:
        print_json([run_data(each) for each in found])
    elif found:
        console = screen()
        console.print(_table(found, wide=console.width >= _WIDE))
    else:
        found_none(f"no run{f' of {name}' if name is not None else ''} yet", "outlast job run MODULE:JOB begins one")


def _table(found: "Sequence[Known]", *, wide: bool) -> "Table":
    from outlast.cli.showing import masked, table  # noqa: PLC0415  # not for --help

    more: dict[str, Any] = {"ENTITY": 12} if wide else {}
    columns: dict[str, int | None] = {
        "RUN": None, "JOB": 14, **more, "STATE": None, "EXIT": None, "STARTED": None, "TOOK": None, "FAILED": None,
    }  # fmt: skip
    rows = (
        (
            each.run.id,
            masked(each.run.job),
            *([masked(each.run.entity)] if wide else []),
            each.state,
            each.run.exit_code,
            relative(each.run.started_at),
            took(each.seconds),
            each.told,
        )
        for each in found
    )
    return table(columns, rows)


for _command in (run, show, failures):
    job.add_command(_command)
