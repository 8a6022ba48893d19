"""``outlast job show`` and ``failures``: look into one run."""

from typing import TYPE_CHECKING, Any

import click

from outlast.cli.choosing import command, with_app
from outlast.cli.completing import category_names, run_ids
from outlast.cli.moments import exact, relative, took
from outlast.cli.numbers import LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from outlast.app import App
    from outlast.cli.job_runs import Known
    from outlast.ports.job_rows import TargetRow, TargetStatus
    from outlast.ports.jobs import Jobs

__all__ = ["failures", "show"]

_GROUPS = 5
_MANY_GROUPS = 1000  # among which those of a category are looked for
_PAGE = 1000
_JOB = "MODULE:JOB"  # a store knows the name of a job, and not where its code is


@click.command("show")
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show(app: "App", run_id: str, *, as_json: bool) -> None:
    """Show one run: its summary, whose rest it did, and how it differs from the run before.

    \b
    Examples:
      outlast job show 20261115T100000-3f2a1b
      outlast job show 20261115T100000-3f2a1b --json | jq .summary.groups
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.job_runs import found_run, run_data  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import print_json  # noqa: PLC0415  # not for --help

    known = found_run(app.store, run_id)
    compared = _compared(app.store, known)
    if as_json:
        print_json({**run_data(known, whole=True), "compared": compared})
    else:
        _show(app, known, compared)


def _compared(store: "Jobs", known: "Known") -> dict[str, Any] | None:
    """Return how a run differs from the one before: as it was at its end, else as far as it is."""
    run = known.run
    if run.summary is not None:
        compared: dict[str, Any] | None = run.summary.get("compared")
        return compared
    return store.compare_runs(run.parent, run.id) if run.parent is not None else None


def _show(app: "App", known: "Known", compared: dict[str, Any] | None) -> None:
    from outlast.cli.job_runs import DIED  # noqa: PLC0415  # not for --help
    from outlast.cli.job_summary import (  # noqa: PLC0415  # not for --help
        compared_told,
        print_summary,
        rest_of,
        summary_data,
    )
    from outlast.cli.showing import facts, masked, say, screen  # noqa: PLC0415  # not for --help

    run = known.run
    over = run.summary is not None
    lines: list[tuple[str, object]] = [
        ("run", run.id),
        ("job", f"{masked(run.job)}{f', of {masked(run.entity)}' if run.entity else ''}, in {masked(run.env)}"),
        ("state", f"{known.state}{f', by {masked(known.holder)}' if known.holder else ''}"),
        ("rest of run", run.parent),
        ("started", exact(run.started_at)),
        ("ended", exact(run.ended_at)),
    ]
    if not over:
        lines += [("has taken", took(known.seconds)), *known.counts.items()]
        lines.append((f"compared with {run.parent}", compared_told(compared)))
    screen().print(facts((name.replace("_", " "), value) for name, value in lines))
    if run.summary is not None:
        say("")
        print_summary(summary_data(run.summary), before=run.parent)
    if known.counts["failed_targets"] or known.counts["deferred_targets"]:
        say(f"what failed, and why: {command('job', 'failures', run.id)}")
    if known.state == DIED:
        say("its process died; what it has done is kept, and the job can be run again", "yellow")
    left = run.summary or {"run_id": run.id, "total_is_known": known.state != DIED}
    rest = rest_of(left, _words(app, run.job))
    if rest is not None:
        say(f"the rest: {rest}", "bold")


def _words(app: "App", name: str) -> list[str]:
    """Return what names a job on the command line, as far as that is known."""
    reference = click.get_current_context().params.get("reference")
    return [reference, "--name", name] if reference and name in app.jobs_by_name else [_JOB]


@click.command("failures")
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.option(
    "--category",
    metavar="NAME",
    shell_complete=category_names,
    help="Only those of a category of failure, such as network.",
)
@click.option(
    "--status", type=click.Choice(["failed", "deferred"]), help="Only those that failed, or only those put off."
)
@click.option("--limit", type=LIMIT, metavar="N", default=50, show_default=True, help="How many targets at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def failures(app: "App", run_id: str, *, category: str | None, status: str | None, limit: int, as_json: bool) -> None:
    """Show what failed in a run: the largest groups of failures, then the targets.

    \b
    Examples:
      outlast job failures 20261115T100000-3f2a1b
      outlast job failures 20261115T100000-3f2a1b --category network
      outlast job failures 20261115T100000-3f2a1b --status deferred --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.job_runs import found_run  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import found_none, print_json, say  # noqa: PLC0415  # not for --help
    from outlast.failure import Category  # noqa: PLC0415  # not for --help
    from outlast.ports.job_rows import TargetStatus  # noqa: PLC0415  # not for --help

    wanted = None if category is None else Category.parse(category).value
    statuses = [TargetStatus.FAILED, TargetStatus.DEFERRED] if status is None else [TargetStatus(status)]
    run = found_run(app.store, run_id).run
    groups = _groups(app.store, run.id, wanted) if TargetStatus.FAILED in statuses else []
    found = _targets(app.store, run.id, statuses, wanted, limit)
    if as_json:
        print_json({"run": run.id, "groups": groups, "targets": [_target_data(each) for each in found]})
    elif found:
        _print(groups, found)
        if len(found) == limit:
            counts = app.store.target_counts(run.id)
            say(f"{sum(counts[each] for each in statuses)} in all; --limit shows more", "dim")
    else:
        narrowed = category or status
        hint = (
            f"{command('job', 'failures' if narrowed else 'show', run.id)} shows {'all' if narrowed else 'how it went'}"
        )
        found_none(f"no such target in run {run.id}" if narrowed else f"nothing failed in run {run.id}", hint)


def _groups(store: "Jobs", run_id: str, category: str | None) -> list[dict[str, Any]]:
    from outlast.cli.showing import masked  # noqa: PLC0415  # not for --help

    found = store.failure_groups(run_id, _GROUPS if category is None else _MANY_GROUPS)
    return [
        {
            "fingerprint": fingerprint,
            "size": size,
            "category": row.category,
            "origin": row.origin,
            "error": masked(_error(row)),
            "source_id": masked(row.source_id),
        }
        for fingerprint, size, row in found
        if category in {None, row.category}
    ][:_GROUPS]


def _targets(
    store: "Jobs", run_id: str, statuses: "Sequence[TargetStatus]", category: str | None, limit: int
) -> "list[TargetRow]":
    if category is None:
        return store.targets(run_id, statuses=statuses, limit=limit)
    found: list[TargetRow] = []
    after: str | None = None
    while len(found) < limit:
        page = store.targets(run_id, statuses=statuses, after=after, limit=_PAGE)
        found += [row for row in page if row.category == category]
        if len(page) < _PAGE:
            break
        after = page[-1].source_id
    return found[:limit]


def _print(groups: "Sequence[dict[str, Any]]", found: "Sequence[TargetRow]") -> None:
    from outlast.cli.job_summary import groups_table  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import say, screen  # noqa: PLC0415  # not for --help

    if groups:
        screen().print(groups_table(groups))
        say("")
    screen().print(_target_table(found))


def _target_table(found: "Sequence[TargetRow]") -> "Table":
    from outlast.cli.showing import masked, table  # noqa: PLC0415  # not for --help

    columns = {"TARGET": 20, "STATUS": None, "CATEGORY": 18, "TRIES": None, "RETRY": None, "ERROR": None}
    rows = (
        (masked(row.source_id), str(row.status), row.category, row.attempts, _retry(row.retry_at), masked(_error(row)))
        for row in found
    )
    return table(columns, rows)


def _target_data(row: "TargetRow") -> dict[str, Any]:
    from outlast.cli.showing import as_data, masked  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_value  # noqa: PLC0415  # not for --help

    data = as_data(row)
    del data["run_id"]
    data["source_id"] = masked(data["source_id"])
    data["target"] = None if row.target is None else masked_value(row.target)
    return data


def _error(row: "TargetRow") -> str:
    return f"{row.error_type}: {row.error_message}"


def _retry(moment: "datetime | None") -> str | None:
    return None if moment is None else relative(moment)
