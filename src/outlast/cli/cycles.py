"""How cycles are shown: the one that has just ended, and the last ones."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import with_app
from outlast.cli.completing import profile_names
from outlast.cli.moments import relative, took
from outlast.cli.numbers import LIMIT

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.source_rows import Cycle
    from outlast.sources.monitor import CycleSummary

__all__ = ["cycles", "print_summary", "summary_data"]


@click.command()
@click.option("--profile", metavar="NAME", shell_complete=profile_names, help="Only those of a profile.")
@click.option("--limit", type=LIMIT, metavar="N", default=20, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def cycles(app: "App", *, profile: str | None, limit: int, as_json: bool) -> None:
    """List the last cycles, newest first: one round through the sources that were due.

    \b
    Examples:
      outlast sources cycles
      outlast sources cycles --profile feed --limit 100 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, found_none, print_json, screen, table  # noqa: PLC0415  # not for --help

    found = app.sources.cycles(profile, limit)
    if as_json:
        print_json([as_data(cycle) for cycle in found])
        return
    if not found:
        found_none("no cycle yet", "outlast monitor MODULE:APP begins one")
        return
    columns = {
        "CYCLE": None, "STARTED": None, "TOOK": None, "SOURCES": None, "POLLED": None, "CHANGED": None, "FAILED": None,
        "PUT OFF": None, "PROFILE": None,
    }  # fmt: skip
    rows = (
        (
            cycle.id,
            relative(cycle.started_at),
            _took(cycle),
            cycle.sources,
            cycle.polled,
            cycle.changed,
            cycle.failed,
            cycle.deferred,
            f"{cycle.profile}{', outage' if cycle.outage_since is not None else ''}",
        )
        for cycle in found
    )
    screen().print(table(columns, rows))


def _took(cycle: "Cycle") -> str | None:
    return "runs" if cycle.ended_at is None else took((cycle.ended_at - cycle.started_at).total_seconds())


def summary_data(profile: str, summary: "CycleSummary | None", *, stopped: bool) -> dict[str, Any]:
    """Return how a cycle ended, as JSON has it; ``cycle`` is None where no source was due, or it was stopped."""
    if summary is None:
        return {"cycle": None, "profile": profile, "stopped": stopped}
    from outlast.cli.showing import as_data  # noqa: PLC0415  # not for --help

    figures = as_data(summary.cycle)
    return {
        "cycle": figures.pop("id"),
        **figures,
        "outage": summary.cycle.outage_since is not None,
        "transitions": summary.transitions,
        "broken_callbacks": summary.broken_callbacks,
        "seconds": round(summary.seconds, 3),
        "stopped": stopped,
    }


def print_summary(profile: str, summary: "CycleSummary | None", *, stopped: bool) -> None:
    """Print how a cycle ended, for people."""
    from outlast.cli.showing import facts, say, screen  # noqa: PLC0415  # not for --help

    if summary is None:
        if stopped:
            say("stopped before the end of the cycle; what was polled is kept, the rest is polled next time", "yellow")
        else:
            say(f"no source of the profile {profile} can be polled now: there is none, or all are put off or disabled")
        return
    cycle = summary.cycle
    screen().print(
        facts(
            [
                ("cycle", f"{cycle.id} of {cycle.profile}, {summary.seconds:.1f} s"),
                ("sources", cycle.sources),
                ("polled", cycle.polled),
                ("changed", cycle.changed),
                ("failed", cycle.failed),
                ("put off", cycle.deferred),
                ("in another state", summary.transitions),
                ("on_change failed", summary.broken_callbacks or None),
            ]
        )
    )
    if cycle.outage_since is not None:
        say(
            "so many failed together that it is an outage, not their fault; what each said: outlast sources show ID",
            "red",
        )
