"""``outlast job``: list the runs of batch jobs; running them and looking into one have files of their own."""

import logging
import sys
import traceback
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.app_options import next_command, with_app
from outlast.cli.completion import category_names, run_ids
from outlast.cli.errors import EXIT_FAILED, CommandError
from outlast.cli.formats import ROW_LIMIT, duration_text, exact_time, relative_time
from outlast.cli.logs import LEVELS, quiet_clients, set_up_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from rich.table import Table

    from outlast.app import App
    from outlast.cli.job_views import JobRunView
    from outlast.cli.loader import LoadedJob
    from outlast.jobs.job import Job
    from outlast.jobs.tally import RunTally
    from outlast.ports.job_rows import Jobs, TargetRow, TargetStatus


# ``outlast job run``: run a job over its targets, and say how it went.

_LOGGER = "outlast.jobs"
_LAST_RUN = "last"
_MAX_TRACEBACK_CHARS = 32_768  # characters of a traceback


class _RunArguments(NamedTuple):
    """What the options say of a run, and of how it is shown."""

    resume: str | None
    only_failed: str | None
    limit: int | None
    concurrency: int
    dry_run: bool
    from_raw: bool
    as_json: bool
    json_logs: bool
    no_progress: bool


@click.command("run")
@click.argument("reference", metavar="MODULE:JOB")
@click.option("--name", metavar="NAME", help="Which job, where an app is named that has several.")
@click.option(
    "--only-failed",
    metavar="RUN",
    help="Do again what failed or was put off in a run, in a run of its own; 'last' is the last run of the job.",
)
@click.option(
    "--resume",
    metavar="RUN",
    help="Go on with a run that ended too soon: what it has done is skipped; 'last' is the last run of the job.",
)
@click.option("--limit", type=ROW_LIMIT, metavar="N", help="How many targets at most.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), metavar="N", default=8, show_default=True, help="Targets at once."
)
@click.option("--from-raw", is_flag=True, help="Apply again from raw objects, without fetching; the job needs etl=….")
@click.option("--dry-run", is_flag=True, help="Tell handlers to write nothing, and keep no ledger of it.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as a JSON object, and show no progress.")
@click.option("--no-progress", is_flag=True, help="Show no bar, and log no line every ten seconds.")
@click.option(
    "--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="info", show_default=True,
    help="What is logged at least.",
)  # fmt: skip
@click.option("--json-logs", is_flag=True, help="Log one JSON object per line.")
def run(reference: str, *, name: str | None, log_level: str, **options: Any) -> None:
    """Run a job over the targets that it names itself.

    MODULE:JOB is where the job is: etl:items for the function items in etl.py that @app.job(…, targets=…) made a job.
    The current folder is looked in too. An app may be named instead, with --name if it has several jobs.

    The exit code is 0 if the gate of the job lets it pass, 1 if not, if it was stopped, or if somebody else runs the
    job; 2 if there is no such job, or it has no targets. At the end stands the command that does the rest.

    SIGTERM or Ctrl-C stops it: targets that run may finish, and the run can be resumed. A second one ends it at once.

    \b
    Examples:
      outlast job run etl:items
      outlast job run etl:items --limit 20 --dry-run
      outlast job run etl:items --only-failed last
      outlast job run etl:items --from-raw
      outlast job run etl:app --name items --json | jq .failure_rate
    """  # noqa: D301  # click reads the control character, not a backslash
    how = _RunArguments(**options)
    if how.resume is not None and how.only_failed is not None:
        message = "--resume goes on with a run, --only-failed begins another; give one of them"
        raise click.UsageError(message)
    from outlast.cli.loader import load_job  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    set_up_logs(log_level, as_json=how.json_logs)
    quiet_clients(log_level)
    configure()
    chosen = load_job(reference, name)
    try:
        if chosen.job.ledger and (not how.dry_run or how.resume or how.only_failed):
            chosen.check_tables()
        data = _run_job(chosen, _resolve_last_run(chosen, how))
    finally:
        chosen.close()
    if data["exit_code"]:
        click.get_current_context().exit(EXIT_FAILED)


def _resolve_last_run(chosen: "LoadedJob", how: _RunArguments) -> _RunArguments:
    """Return the options with the number of the run that 'last' means."""
    if _LAST_RUN not in {how.resume, how.only_failed}:
        return how
    job = chosen.job
    found = [] if job.store is None or not job.ledger else job.store.runs(job.name, 1)
    if not found:
        message = f"job {job.name} has no run yet; leave --resume and --only-failed out, and it gets one"
        raise CommandError(message)
    run_id = found[0].id
    return how._replace(
        resume=run_id if how.resume == _LAST_RUN else how.resume,
        only_failed=run_id if how.only_failed == _LAST_RUN else how.only_failed,
    )


def _run_job(chosen: "LoadedJob", how: _RunArguments) -> dict[str, Any]:
    from outlast.cli.job_views import run_summary_data  # noqa: PLC0415  # not for --help

    job = chosen.job.from_raw() if how.from_raw else chosen.job
    seen_here = not how.json_logs and sys.stderr.isatty() and sys.stdout.isatty()
    with _collect_summaries(hidden=seen_here and not how.as_json) as words:
        try:
            with _explain_target_errors(job), _progress_display(job, how) as progress:
                summary = job.run(
                    concurrency=how.concurrency,
                    resume=how.resume,
                    only_failed=how.only_failed,
                    limit=how.limit,
                    dry_run=how.dry_run,
                    progress=progress,
                )
        except BaseException:  # a second Ctrl-C, or a ledger that cannot be written
            if words:
                _print_result(run_summary_data(words[-1]), chosen, how)
            raise
    data = run_summary_data(summary.to_dict())
    _print_result(data, chosen, how)
    return data


@contextmanager
def _explain_target_errors(job: "Job") -> "Iterator[None]":
    """Within the block, targets that cannot be had end the command with a line; above it stands where that fails."""
    theirs = job.targets
    if theirs is None:
        yield
        return

    def targets() -> "Iterable[Any]":
        try:
            return theirs()
        except OutlastError:
            raise
        except Exception as error:
            trace = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without this frame
            frames = traceback.format_exception(type(error), error, trace)
            click.echo(safe_text(masked_text("".join(frames)), _MAX_TRACEBACK_CHARS), err=True)
            message = f"the targets of {job.name} cannot be had: {classify(error)}"
            raise CommandError(message) from error

    from outlast.classify import classify  # noqa: PLC0415  # not for --help
    from outlast.errors import OutlastError  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_text  # noqa: PLC0415  # not for --help
    from outlast.redact import safe_text  # noqa: PLC0415  # not for --help

    job.targets = targets
    try:
        yield
    finally:
        job.targets = theirs


def _progress_display(job: "Job", how: _RunArguments) -> "AbstractContextManager[Callable[[RunTally], None] | None]":
    from outlast.cli.job_views import show_progress  # noqa: PLC0415  # not for --help

    if how.as_json or how.no_progress:
        return nullcontext()
    return show_progress(job.name, plain=how.json_logs)


@contextmanager
def _collect_summaries(*, hidden: bool) -> "Iterator[list[dict[str, Any]]]":
    """Within the block, collect the summaries that are logged: a run that raises has one too.

    Args:
        hidden: Whether they are not to be seen in the log, for the same stands beneath it in a table.
    """
    found: list[dict[str, Any]] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not is_other(record):
                found.append(vars(record)["summary"])

    def is_other(record: logging.LogRecord) -> bool:
        summary = getattr(record, "summary", None)
        return record.name != _LOGGER or not isinstance(summary, dict) or "exit_code" not in summary

    logger, listener, handlers = logging.getLogger(_LOGGER), Listener(), logging.getLogger().handlers[:]
    logger.addHandler(listener)
    for handler in handlers if hidden else ():
        handler.addFilter(is_other)
    try:
        yield found
    finally:
        logger.removeHandler(listener)
        for handler in handlers:
            handler.removeFilter(is_other)


def _print_result(data: dict[str, Any], chosen: "LoadedJob", how: _RunArguments) -> None:
    from outlast.cli.job_views import print_run_summary  # noqa: PLC0415  # not for --help
    from outlast.cli.output import print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.report.job_runs import remaining_command  # noqa: PLC0415  # not for --help

    if how.as_json:
        print_json(data)
        return
    print_run_summary(data, dry_run=how.dry_run, before=how.only_failed)
    job = chosen.job
    command = remaining_command(data, chosen.words, limit=how.limit)
    if job.hand_over is not None and data["failed_targets"] and job.ledger and not how.dry_run:
        print_text(f"what failed was given to the task {job.hand_over.name}; outlast tasks list shows it")
    if command is not None and job.ledger and not how.dry_run:
        print_text(f"the rest: {command}", "bold")


# ``outlast job show`` and ``failures``: look into one run.

_SHOWN_GROUPS = 5
_MAX_GROUPS = 1000  # among which those of a category are looked for
_PAGE_ROWS = 1000
_JOB_PLACEHOLDER = "MODULE:JOB"  # a store knows the name of a job, and not where its code is


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
    from outlast.cli.job_views import find_run, run_data  # noqa: PLC0415  # not for --help
    from outlast.cli.output import print_json  # noqa: PLC0415  # not for --help

    known = find_run(app.store, run_id)
    compared = _comparison(app.store, known)
    if as_json:
        print_json({**run_data(known, whole=True), "compared": compared})
    else:
        _print_run(app, known, compared)


def _comparison(store: "Jobs", known: "JobRunView") -> dict[str, Any] | None:
    """Return how a run differs from the one before: as it was at its end, else as far as it is."""
    run = known.run
    if run.summary is not None:
        compared: dict[str, Any] | None = run.summary.get("compared")
        return compared
    return store.compare_runs(run.parent, run.id) if run.parent is not None else None


def _print_run(app: "App", known: "JobRunView", compared: dict[str, Any] | None) -> None:
    from outlast.cli.job_views import print_run_summary, run_summary_data  # noqa: PLC0415  # not for --help
    from outlast.cli.output import facts_table, make_console, mask_secrets, print_text  # noqa: PLC0415  # not for --help
    from outlast.report.job_runs import (  # noqa: PLC0415  # not for --help
        DIED,  # not for --help
        comparison_text,
        remaining_command,
    )

    run = known.run
    over = run.summary is not None
    lines: list[tuple[str, object]] = [
        ("run", run.id),
        (
            "job",
            ", ".join(
                [
                    mask_secrets(run.job),
                    *([f"of {mask_secrets(run.entity)}"] if run.entity else []),
                    f"in {mask_secrets(run.env)}",
                ]
            ),
        ),
        ("state", f"{known.state}{f', by {mask_secrets(known.holder)}' if known.holder else ''}"),
        ("rest of run", run.parent),
        ("started", exact_time(run.started_at)),
        ("ended", exact_time(run.ended_at)),
    ]
    if not over:
        lines += [("has taken", duration_text(known.seconds)), *known.counts.items()]
        lines.append((f"compared with {run.parent}", comparison_text(compared)))
    make_console().print(facts_table((name.replace("_", " "), value) for name, value in lines))
    if run.summary is not None:
        print_text("")
        print_run_summary(run_summary_data(run.summary), before=run.parent)
    if known.counts["failed_targets"] or known.counts["deferred_targets"]:
        print_text(f"what failed, and why: {next_command('job', 'failures', run.id)}")
    if known.state == DIED:
        print_text("its process died; what it has done is kept, and the job can be run again", "yellow")
    left = run.summary or {"run_id": run.id, "total_is_known": known.state != DIED}
    rest = remaining_command(left, _job_reference(app, run.job))
    if rest is not None:
        print_text(f"the rest: {rest}", "bold")


def _job_reference(app: "App", name: str) -> list[str]:
    """Return what names a job on the command line, as far as that is known."""
    reference = click.get_current_context().params.get("reference")
    return [reference, "--name", name] if reference and name in app.jobs_by_name else [_JOB_PLACEHOLDER]


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
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="How many targets at most.")
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
    from outlast.cli.job_views import find_run  # noqa: PLC0415  # not for --help
    from outlast.cli.output import print_empty, print_json, print_text  # noqa: PLC0415  # not for --help
    from outlast.failure import Category  # noqa: PLC0415  # not for --help
    from outlast.ports.job_rows import TargetStatus  # noqa: PLC0415  # not for --help

    wanted = None if category is None else Category.parse(category).value
    statuses = [TargetStatus.FAILED, TargetStatus.DEFERRED] if status is None else [TargetStatus(status)]
    run = find_run(app.store, run_id).run
    groups = _failure_groups(app.store, run.id, wanted) if TargetStatus.FAILED in statuses else []
    found = _failed_targets(app.store, run.id, statuses, wanted, limit)
    if as_json:
        print_json({"run": run.id, "groups": groups, "targets": [_target_data(each) for each in found]})
    elif found:
        _print_failures(groups, found)
        if len(found) == limit:
            counts = app.store.target_counts(run.id)
            print_text(f"{sum(counts[each] for each in statuses)} in all; --limit shows more", "dim")
    else:
        narrowed = category or status
        command = next_command("job", "failures" if narrowed else "show", run.id)
        hint = f"{command} shows {'all' if narrowed else 'how it went'}"
        print_empty(f"no such target in run {run.id}" if narrowed else f"nothing failed in run {run.id}", hint)


def _failure_groups(store: "Jobs", run_id: str, category: str | None) -> list[dict[str, Any]]:
    from outlast.cli.output import mask_secrets  # noqa: PLC0415  # not for --help

    found = store.failure_groups(run_id, _SHOWN_GROUPS if category is None else _MAX_GROUPS)
    return [
        {
            "fingerprint": fingerprint,
            "size": size,
            "category": row.category,
            "origin": row.origin,
            "error": mask_secrets(_error_text(row)),
            "source_id": mask_secrets(row.source_id),
        }
        for fingerprint, size, row in found
        if category in {None, row.category}
    ][:_SHOWN_GROUPS]


def _failed_targets(
    store: "Jobs", run_id: str, statuses: "Sequence[TargetStatus]", category: str | None, limit: int
) -> "list[TargetRow]":
    if category is None:
        return store.targets(run_id, statuses=statuses, limit=limit)
    found: list[TargetRow] = []
    after: str | None = None
    while len(found) < limit:
        page = store.targets(run_id, statuses=statuses, after=after, limit=_PAGE_ROWS)
        found += [row for row in page if row.category == category]
        if len(page) < _PAGE_ROWS:
            break
        after = page[-1].source_id
    return found[:limit]


def _print_failures(groups: "Sequence[dict[str, Any]]", found: "Sequence[TargetRow]") -> None:
    from outlast.cli.job_views import failure_groups_table  # noqa: PLC0415  # not for --help
    from outlast.cli.output import make_console, print_text  # noqa: PLC0415  # not for --help

    if groups:
        make_console().print(failure_groups_table(groups))
        print_text("")
    make_console().print(_target_table(found))


def _target_table(found: "Sequence[TargetRow]") -> "Table":
    from outlast.cli.output import make_table, mask_secrets  # noqa: PLC0415  # not for --help

    columns = {"TARGET": 20, "STATUS": None, "CATEGORY": 18, "TRIES": None, "RETRY": None, "ERROR": None}
    rows = (
        (
            mask_secrets(row.source_id),
            str(row.status),
            row.category,
            row.attempts,
            _retry_text(row.retry_at),
            mask_secrets(_error_text(row)),
        )
        for row in found
    )
    return make_table(columns, rows)


def _target_data(row: "TargetRow") -> dict[str, Any]:
    from outlast.cli.output import mask_secrets, row_data  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_value  # noqa: PLC0415  # not for --help

    data = row_data(row)
    del data["run_id"]
    data["source_id"] = mask_secrets(data["source_id"])
    data["target"] = None if row.target is None else masked_value(row.target)
    return data


def _error_text(row: "TargetRow") -> str:
    return f"{row.error_type}: {row.error_message}"


def _retry_text(moment: "datetime | None") -> str | None:
    return None if moment is None else relative_time(moment)


_WIDE_COLUMNS = 100  # columns from which there is room for what matters less


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
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=20, show_default=True, help="How many at most.")
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
    from outlast.cli.job_views import recent_runs, run_data  # noqa: PLC0415  # not for --help
    from outlast.cli.output import make_console, print_empty, print_json  # noqa: PLC0415  # not for --help

    found = recent_runs(app.store, name, limit)
    if as_json:
        print_json([run_data(each) for each in found])
    elif found:
        console = make_console()
        console.print(_runs_table(found, wide=console.width >= _WIDE_COLUMNS))
    else:
        print_empty(f"no run{f' of {name}' if name is not None else ''} yet", "outlast job run MODULE:JOB begins one")


def _runs_table(found: "Sequence[JobRunView]", *, wide: bool) -> "Table":
    from outlast.cli.output import make_table, mask_secrets  # noqa: PLC0415  # not for --help

    more: dict[str, Any] = {"ENTITY": 12} if wide else {}
    columns: dict[str, int | None] = {
        "RUN": None, "JOB": 14, **more, "STATE": None, "EXIT": None, "STARTED": None, "TOOK": None, "FAILED": None,
    }  # fmt: skip
    rows = (
        (
            each.run.id,
            mask_secrets(each.run.job),
            *([mask_secrets(each.run.entity)] if wide else []),
            each.state,
            each.run.exit_code,
            relative_time(each.run.started_at),
            duration_text(each.seconds),
            each.told,
        )
        for each in found
    )
    return make_table(columns, rows)


for _command in (run, show, failures):
    job.add_command(_command)
