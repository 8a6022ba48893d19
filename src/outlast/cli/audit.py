"""``outlast audit``: who changed what."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import json_rows_option, limit_option, next_command, option, with_app
from outlast.cli.formats import ROW_NUMBER, relative_time
from outlast.cli.output import Cells, JsonObject, mask_secrets, print_list, print_text, row_data, table

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.triage import AuditEntry


@click.command()
@option("--subject", "WHAT", "Only entries about this, such as dead_letter:7 or queue:mail.")
@option("--action", "NAME", "Only this action, such as discard_dead_letter.")
@option("--before", "ID", "Only entries with smaller ids: the next page.", type=ROW_NUMBER)
@limit_option("Entries", 50)
@json_rows_option
@with_app
def audit(app: "App", /, *, limit: int, as_json: bool, **filters: Any) -> None:
    """Show who changed what with commands and on the dashboard, newest first.

    An entry is written before the change is made. Entries never contain the arguments of a task.

    \b
    Examples:
      outlast audit
      outlast audit --subject dead_letter:7 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.store.audits(limit=limit, **filters)
    empty = ("no audit entries yet", "commands such as outlast dlq replay write them")
    if any(value is not None for value in filters.values()):
        empty = ("no audit entries match", f"{next_command('audit')} shows all")
    if print_list(found, _audit_table, empty, as_json=as_json, data=_entry_data) and len(found) == limit:
        print_text(f"there may be more: --before {found[-1].id}", "dim")


@table("ID, WHEN, WHO:20, ACTION, SUBJECT:28, WHY")
def _audit_table(row: "AuditEntry") -> Cells:
    return row.id, relative_time(row.at), row.who, row.action, row.subject, _reason_text(row)


def _reason_text(entry: "AuditEntry") -> str:
    """Return the reason and the other details of an entry, without secrets."""
    more = ", ".join(f"{name} {_value_text(value)}" for name, value in entry.detail.items())
    return str(mask_secrets(f"{entry.reason} ({more})" if entry.reason and more else entry.reason or more))


def _value_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _entry_data(entry: "AuditEntry") -> JsonObject:
    return {**row_data(entry), "detail": mask_secrets(entry.detail)}
