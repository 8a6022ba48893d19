"""The summary of a run as it is shown: to people as tables, to programs as JSON; and the command that does the rest."""

from typing import TYPE_CHECKING, Any

from outlast.cli.moments import took
from outlast.cli.showing import facts, masked, say, screen, table
from outlast.record.plain import plain
from outlast.report.runs import compared_told, rest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

__all__ = ["compared_told", "groups_table", "print_summary", "rest_of", "summary_data", "took"]

_FIGURES = (
    "total_targets", "success_targets", "failed_targets", "deferred_targets", "skipped_targets", "not_attempted",
)  # fmt: skip
_OF_AN_ETL = ("diff_new_hash", "s3_put_success", "s3_put_fail", "db_upsert_success", "db_upsert_fail")


def summary_data(summary: "Mapping[str, Any]") -> dict[str, Any]:
    """Return the fields of a summary as JSON has them, the texts of others without secrets.

    Args:
        summary: As `Summary.to_dict` returns it, or as it is kept with the run.
    """
    data: dict[str, Any] = masked(plain(summary))
    return data


def print_summary(data: "Mapping[str, Any]", *, dry_run: bool = False, before: str | None = None) -> None:
    """Print how a run ended, for people.

    Args:
        data: The summary as it is kept with the run; another version may have kept other fields.
        dry_run: Whether nothing was written.
        before: The run with which it was compared, where that is known.
    """
    passed, state = data.get("exit_code") == 0, data.get("state", "done")
    how = f"{'passed' if passed else 'failed'}{'' if state == 'done' else f', {state}'}"
    dry = " (dry run: handlers were told to write nothing, and no ledger was kept)" if dry_run else ""
    say(f"{data.get('job_id')} {data.get('run_id')}: {how}{dry}", "bold green" if passed else "bold red")
    screen().print(
        facts(
            [
                *((_words(name), _figure(data, name)) for name in (*_FIGURES, *_of_an_etl(data))),
                ("failure rate", _rate(data.get("failure_rate"))),
                ("exit code", data.get("exit_code")),
                ("duration", took(data.get("duration"))),
                ("attempts", data.get("attempts")),
                ("entity", masked(data.get("entity"))),
                ("env", masked(data.get("env"))),
                ("by category", _told(data.get("by_category"))),
                ("by origin", _told(data.get("by_origin"))),
                ("counted", _told(data.get("figures"))),
                (f"compared with {before or 'the run before'}", compared_told(data.get("compared"))),
            ]
        )
    )
    groups = data.get("groups")
    if groups:
        say("")
        screen().print(groups_table(groups))
    for line in data.get("would") or ():
        say(f"observed: {masked(line)}")
    for reason in data.get("reasons") or ():
        say(f"exit code 1: {masked(reason)}", "red")


def groups_table(groups: "Sequence[Mapping[str, Any]]") -> "Table":
    """Return the table of the largest groups of failures."""
    columns = {"SIZE": None, "CATEGORY": 18, "ORIGIN": None, "FOR INSTANCE": 20, "ERROR": None}
    rows = (
        (
            each.get("size"),
            each.get("category"),
            each.get("origin"),
            masked(each.get("source_id")),
            masked(each.get("error")),
        )
        for each in groups
    )
    return table(columns, rows)


def _of_an_etl(data: "Mapping[str, Any]") -> tuple[str, ...]:
    """Return the figures that only an ETL has; in other jobs they stay at zero, and are left out."""
    return _OF_AN_ETL if any(data.get(name) for name in _OF_AN_ETL) else ()


def _words(name: str) -> str:
    return name.replace("_", " ")


def _figure(data: "Mapping[str, Any]", name: str) -> str:
    more = ", and more that were not read" if name == "total_targets" and not data.get("total_is_known", True) else ""
    return f"{data.get(name, 0)}{more}"


def _rate(share: float | None) -> str | None:
    return None if share is None else f"{share:.2%}"


def _told(counts: "Mapping[str, int] | None") -> str | None:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) if counts else None
