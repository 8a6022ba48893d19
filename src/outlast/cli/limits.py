"""``outlast limits``: what resources take from all workers together, and how it stands."""

from typing import TYPE_CHECKING

import click

from outlast.cli.choosing import with_app
from outlast.cli.moments import relative

if TYPE_CHECKING:
    from datetime import datetime

    from outlast.app import App
    from outlast.ports.limits import LimitRow

__all__ = ["limits"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def limits(app: "App", *, as_json: bool) -> None:
    """Show what resources take from all workers together, by app.limit(…), and how it stands.

    Those are shown for which a worker has asked within a day, with the settings of the one that asked last.

    \b
    Examples:
      outlast limits
      outlast limits --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import as_data, found_none, masked, print_json, screen, table  # noqa: PLC0415  # not for --help

    found = app.store.limits()
    if as_json:
        print_json([as_data(row) for row in found])
        return
    if not found:
        found_none("no worker has asked for a limit within a day", "app.limit(RESOURCE, rate=…) sets one")
        return
    columns = {
        "RESOURCE": 30,
        "RATE": None,
        "RUNNING": None,
        "RETRIES": None,
        "NEXT START": None,
        "WAITING UNTIL": None,
        "ASKED": None,
    }
    screen().print(table(columns, (_cells(row, masked(row.resource)) for row in found)))


def _cells(row: "LimitRow", name: str) -> tuple[object, ...]:
    return (
        name,
        _rate(row.rate, row.burst),
        None if row.concurrency is None else f"{row.running} of {row.concurrency}",
        _rate(row.retries, row.retry_burst),
        "now" if row.next_start is None else relative(row.next_start),
        _later(row.waiting_until, row.retries_until),
        relative(row.asked_at),
    )


def _rate(rate: float | None, burst: int) -> str | None:
    """Return a rate, with what may come at once where that is more than one."""
    from outlast.units import rate_text  # noqa: PLC0415  # not for --help

    return None if rate is None else f"{rate_text(rate)}{f', {burst} at once' if burst > 1 else ''}"


def _later(*times: "datetime | None") -> str | None:
    known = [each for each in times if each is not None]
    return relative(max(known)) if known else None
