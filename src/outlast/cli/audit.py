"""``outlast audit``, and the audit entries that commands write before they change something."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import next_command, with_app
from outlast.cli.formats import ROW_LIMIT, ROW_NUMBER, relative_time

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.triage import AuditEntry


def write_audit_entry(app: "App", action: str, subject: str, why: str = "", **detail: Any) -> None:
    """Write an audit entry for the user of this process.

    Args:
        app: The app whose store keeps the entry.
        action: What is done, such as ``cancel_task``; the dashboard uses the same names.
        subject: What it is done to, such as ``task:42``.
        why: The user's reason.
        detail: More fields.
    """
    from outlast.queue import audit  # noqa: PLC0415  # not for --help

    audit.write_audit(app.store, action, subject, detail, why=why)


@click.command()
@click.option("--subject", metavar="WHAT", help="Only entries about this, such as dead_letter:7 or queue:mail.")
@click.option("--action", metavar="NAME", help="Only this action, such as discard_dead_letter.")
@click.option("--before", type=ROW_NUMBER, metavar="ID", help="Only entries with smaller ids: the next page.")
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="Entries at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def audit(
    app: "App", *, subject: str | None, action: str | None, before: int | None, limit: int, as_json: bool
) -> None:
    """Show who changed what with commands and on the dashboard, newest first.

    An entry is written before the change is made. Entries never contain the arguments of a task.

    \b
    Examples:
      outlast audit
      outlast audit --subject dead_letter:7 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, make_table, print_empty, print_json, print_text  # noqa: PLC0415  # not for --help

    found = app.store.audits(subject=subject, action=action, before=before, limit=limit)
    if as_json:
        print_json([_entry_data(entry) for entry in found])
        return
    if not found:
        has_filter = any(each is not None for each in (subject, action, before))
        if has_filter:
            print_empty("no audit entries match", f"{next_command('audit')} shows all")
        else:
            print_empty("no audit entries yet", "commands such as outlast dlq replay write them")
        return
    columns = {"ID": None, "WHEN": None, "WHO": 20, "ACTION": None, "SUBJECT": 28, "WHY": None}
    rows = ((row.id, relative_time(row.at), row.who, row.action, row.subject, _reason_text(row)) for row in found)
    make_console().print(make_table(columns, rows))
    if len(found) == limit:
        print_text(f"there may be more: --before {found[-1].id}", "dim")


def _reason_text(entry: "AuditEntry") -> str:
    """Return the reason and the other details of an entry, without secrets."""
    from outlast.cli.output import mask_secrets  # noqa: PLC0415  # not for --help

    more = ", ".join(f"{name} {_value_text(value)}" for name, value in entry.detail.items())
    return str(mask_secrets(f"{entry.reason} ({more})" if entry.reason and more else entry.reason or more))


def _value_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _entry_data(entry: "AuditEntry") -> dict[str, Any]:
    from outlast.cli.output import mask_secrets, row_data  # noqa: PLC0415  # not for --help

    return {**row_data(entry), "detail": mask_secrets(entry.detail)}
