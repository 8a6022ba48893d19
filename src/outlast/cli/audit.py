"""``outlast audit``: who asked for what by hand."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import command, with_app
from outlast.cli.moments import relative
from outlast.cli.numbers import LIMIT, NUMBER

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.triage_rows import AuditEntry

__all__ = ["audit"]


@click.command()
@click.option("--subject", metavar="WHAT", help="Only what was done to this, such as dead_letter:7 or queue:mail.")
@click.option("--action", metavar="NAME", help="Only what is called so, such as discard_dead_letter.")
@click.option("--before", type=NUMBER, metavar="ID", help="Only those with smaller numbers: the next page.")
@click.option("--limit", type=LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def audit(
    app: "App", *, subject: str | None, action: str | None, before: int | None, limit: int, as_json: bool
) -> None:
    """Show who asked for what by hand, newest first.

    What is done with commands and on the dashboard is written down before it is done. Nothing of the arguments of a
    task is in it.

    \b
    Examples:
      outlast audit
      outlast audit --subject dead_letter:7 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import found_none, print_json, say, screen, table  # noqa: PLC0415  # not for --help

    found = app.store.audits(subject=subject, action=action, before=before, limit=limit)
    if as_json:
        print_json([_data(entry) for entry in found])
        return
    if not found:
        narrowed = any(each is not None for each in (subject, action, before))
        if narrowed:
            found_none("nothing like that was asked for", f"{command('audit')} shows all")
        else:
            found_none("nothing was asked for by hand yet", "commands such as outlast dlq replay are noted here")
        return
    columns = {"ID": None, "WHEN": None, "WHO": 20, "ACTION": None, "SUBJECT": 28, "WHY": None}
    rows = ((row.id, relative(row.at), row.who, row.action, row.subject, _why(row)) for row in found)
    screen().print(table(columns, rows))
    if len(found) == limit:
        say(f"there may be more: --before {found[-1].id}", "dim")


def _why(entry: "AuditEntry") -> str:
    """Return the reason, and what else is known."""
    from outlast.cli.showing import masked  # noqa: PLC0415  # not for --help

    more = ", ".join(f"{name} {_told(value)}" for name, value in entry.detail.items())
    return str(masked(f"{entry.reason} ({more})" if entry.reason and more else entry.reason or more))


def _told(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _data(entry: "AuditEntry") -> dict[str, Any]:
    from outlast.cli.showing import as_data, masked  # noqa: PLC0415  # not for --help

    return {**as_data(entry), "detail": masked(entry.detail)}
