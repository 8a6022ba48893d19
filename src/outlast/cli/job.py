"""``outlast job``: run batch jobs, list their runs, show a run and its failures."""

import logging
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.classify import classify
from outlast.cli.app_options import flag, json_option, list_options, next_command, option, with_app
from outlast.cli.completion import category_names, run_ids
from outlast.cli.errors import CommandError, exit_failed
from outlast.cli.formats import ROW_LIMIT, duration_text, exact_time, relative_time
from outlast.cli.job_views import (
    LAST_RUN,
    failure_groups_table,
    find_run,
    print_run_summary,
    recent_runs,
    run_data,
    run_summary_data,
    show_progress,
)
from outlast.cli.logs import quiet_clients, set_up_logs, with_log_options
from outlast.cli.output import (
    Cells,
    JsonObject,
    make_console,
    mask_secrets,
    print_empty,
    print_facts,
    print_json,
    print_list,
    print_text,
    print_user_traceback,
    row_data,
    table,
)
from outlast.config import configure
from outlast.errors import ConfigError, OutlastError
from outlast.failure import Category
from outlast.ports.job_rows import TargetStatus
from outlast.queue.masking import masked_value
from outlast.report.job_runs import DIED, comparison_text, remaining_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from outlast.app import App
    from outlast.cli.loader import LoadedJob
    from outlast.jobs.job import Job
    from outlast.jobs.tally import RunTally
    from outlast.ports.job_rows import Jobs, TargetRow
    from outlast.report.job_runs import JobRunView


_LOGGER = "outlast.jobs"


class _RunArguments(NamedTuple):
    """The options of a run and of its output."""

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
@option("--name", "NAME", "Name of the job, if MODULE:JOB is an app with several.")
@option(
    "--only-failed",
    "RUN",
    "Start a new run with the failed and deferred targets of a run; 'last' is the job's last run.",
)
@option(
    "--resume",
    "RUN",
    "Continue a run: process its remaining and failed targets, and replace its result; 'last' is the job's last run.",
)
@option(
    "--limit",
    "N",
    "Targets at most, counted from the first target, including targets that are already done.",
    type=ROW_LIMIT,
)
@option("--concurrency", "N", "Concurrent targets.", type=click.IntRange(min=1), default=8)
@flag("--from-raw", "Process stored raw objects again, without fetching; the job needs etl=….")
@flag("--dry-run", "Ask handlers to write nothing, and store no run.")
@flag("--json", "Print the summary as a JSON object; show no progress.", "as_json")
@flag("--no-progress", "Show no progress bar and log no progress.")
@with_log_options("info")
def run(reference: str, *, name: str | None, log_level: str, **options: Any) -> None:
    """Run a job over its targets.

    MODULE:JOB names the job: etl:items for the function items in etl.py, decorated with @app.job(…, targets=…), also in
    the current folder. It may also name an app, with --name if the app has several jobs.

    The exit code is 0 if the job's gate passes. It is 1 if the gate fails, if the run was stopped, or if another
    process runs the job; 2 if the job does not exist or has no targets. If targets remain, the command that runs them
    is printed at the end.

    SIGTERM or Ctrl-C stops it: running targets may finish, and you can resume the run. A second signal ends it at once.

    \b
    Examples:
      outlast job run etl:items
      outlast job run etl:items --limit 20 --dry-run
      outlast job run etl:items --only-failed last
      outlast job run etl:items --from-raw
      outlast job run etl:app --name items --json | jq .failure_rate
    """  # noqa: D301  # click reads the control character, not a backslash
    arguments = _RunArguments(**options)
    if arguments.resume is not None and arguments.only_failed is not None:
        raise click.UsageError("--resume continues a run, --only-failed starts a new one; give only one of them")
    from outlast.cli.loader import load_job  # noqa: PLC0415  # not for --help

    set_up_logs(log_level, as_json=arguments.json_logs)
    quiet_clients(log_level)
    configure()
    loaded = load_job(reference, name)
    try:
        if loaded.job.ledger and (not arguments.dry_run or arguments.resume or arguments.only_failed):
            loaded.check_tables()
        data = _run_job(loaded, _resolve_last_run(loaded, arguments))
    finally:
        loaded.close()
    if data["exit_code"]:
        exit_failed()


def _resolve_last_run(loaded: "LoadedJob", arguments: _RunArguments) -> _RunArguments:
    """Return the arguments with 'last' replaced by the id of the job's last run."""
    if LAST_RUN not in {arguments.resume, arguments.only_failed}:
        return arguments
    try:
        run_id = loaded.job.found(LAST_RUN).id
    except ConfigError as error:
        raise CommandError(str(error)) from None
    return arguments._replace(
        resume=run_id if arguments.resume == LAST_RUN else arguments.resume,
        only_failed=run_id if arguments.only_failed == LAST_RUN else arguments.only_failed,
    )


def _run_job(loaded: "LoadedJob", arguments: _RunArguments) -> JsonObject:
    job = loaded.job.from_raw() if arguments.from_raw else loaded.job
    progress_display: AbstractContextManager[Callable[[RunTally], None] | None] = nullcontext()
    if not arguments.as_json and not arguments.no_progress:
        progress_display = show_progress(job.name, plain=arguments.json_logs)
    on_terminal = not arguments.json_logs and sys.stderr.isatty() and sys.stdout.isatty()
    with _collect_summaries(hidden=on_terminal and not arguments.as_json) as summaries:
        try:
            with _explain_target_errors(job), progress_display as progress:
                summary = job.run(
                    concurrency=arguments.concurrency,
                    resume=arguments.resume,
                    only_failed=arguments.only_failed,
                    limit=arguments.limit,
                    dry_run=arguments.dry_run,
                    progress=progress,
                )
        except BaseException:  # a second Ctrl-C, or a ledger that cannot be written
            if summaries:
                _print_result(run_summary_data(summaries[-1]), loaded, arguments)
            raise
    data = run_summary_data(summary.to_dict())
    _print_result(data, loaded, arguments)
    return data


@contextmanager
def _explain_target_errors(job: "Job") -> "Iterator[None]":
    """Within the block, an error of the job's targets function is shown as a traceback and one line."""
    original = job.targets
    if original is None:
        yield
        return

    def targets() -> "Iterable[Any]":
        try:
            return original()
        except OutlastError:
            raise
        except Exception as error:
            trace = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without this frame
            print_user_traceback(error, trace)
            raise CommandError(f"the targets of {job.name} cannot be listed: {classify(error)}") from error

    job.targets = targets
    try:
        yield
    finally:
        job.targets = original


@contextmanager
def _collect_summaries(*, hidden: bool) -> "Iterator[list[JsonObject]]":
    """Within the block, collect the summaries that are logged, because a run that raises logs one too.

    Args:
        hidden: Whether to keep them out of the log, because the same is printed as a table.
    """
    found: list[JsonObject] = []

    class SummaryHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not is_other(record):
                found.append(vars(record)["summary"])

    def is_other(record: logging.LogRecord) -> bool:
        summary = getattr(record, "summary", None)
        return record.name != _LOGGER or not isinstance(summary, dict) or "exit_code" not in summary

    logger, collector, handlers = logging.getLogger(_LOGGER), SummaryHandler(), logging.getLogger().handlers[:]
    logger.addHandler(collector)
    for handler in handlers if hidden else ():
        handler.addFilter(is_other)
    try:
        yield found
    finally:
        logger.removeHandler(collector)
        for handler in handlers:
            handler.removeFilter(is_other)


def _print_result(data: JsonObject, loaded: "LoadedJob", arguments: _RunArguments) -> None:
    if arguments.as_json:
        print_json(data)
        return
    print_run_summary(data, dry_run=arguments.dry_run, before=arguments.only_failed)
    job = loaded.job
    command = remaining_command(data, loaded.words)
    if job.hand_over is not None and data["failed_targets"] and job.ledger and not arguments.dry_run:
        print_text(f"failed targets were passed to the task {job.hand_over.name}; outlast tasks list shows them")
    if command is not None and job.ledger and not arguments.dry_run:
        print_text(f"to run the rest: {command}", "bold")


_SHOWN_GROUPS = 5
_MAX_GROUPS = 1000  # that are searched for a category
_PAGE_ROWS = 1000
_JOB_PLACEHOLDER = "MODULE:JOB"  # the store knows the name of a job, but not where its code is


@click.command("show")
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@list_options(json_flag=json_option)
@with_app
def show(app: "App", run_id: str, *, as_json: bool) -> None:
    """Show one run, and how it differs from the run that it continues.

    RUN is the id of a run, or 'last' for the last run of any job.

    \b
    Examples:
      outlast job show last
      outlast job show 20261115T100000-3f2a1b
      outlast job show 20261115T100000-3f2a1b --json | jq .summary.groups
    """  # noqa: D301  # click reads the control character, not a backslash
    known = find_run(app.store, run_id)
    compared = _comparison(app.store, known)
    if as_json:
        print_json({**run_data(known, whole=True), "compared": compared})
    else:
        _print_run(app, known, compared)


def _comparison(store: "Jobs", known: "JobRunView") -> JsonObject | None:
    """Return how a run differs from its parent: as stored at its end, or else as of now."""
    run = known.run
    if run.summary is not None:
        return run.summary.get("compared")
    return store.compare_runs(run.parent, run.id) if run.parent is not None else None


def _print_run(app: "App", known: "JobRunView", compared: JsonObject | None) -> None:
    run = known.run
    entity = f"of {mask_secrets(run.entity)}, " if run.entity else ""
    facts: JsonObject = {
        "run": run.id,
        "job": f"{mask_secrets(run.job)}, {entity}in {mask_secrets(run.env)}",
        "state": f"{known.state}{f', by {mask_secrets(known.holder)}' if known.holder else ''}",
        "rest of run": run.parent,
        "started": exact_time(run.started_at),
        "ended": exact_time(run.ended_at),
    }
    if run.summary is None:
        facts["duration so far"] = duration_text(known.seconds)
        facts |= {name.replace("_", " "): count for name, count in known.counts.items()}
        facts[f"compared with {run.parent}"] = comparison_text(compared)
    print_facts(facts)
    if run.summary is not None:
        print_text("")
        print_run_summary(run_summary_data(run.summary), before=run.parent)
    if known.counts["failed_targets"] or known.counts["deferred_targets"]:
        print_text(f"to show the failures: {next_command('job', 'failures', run.id)}")
    if known.state == DIED:
        print_text("its process died; completed targets are kept, and the job can be run again", "yellow")
    summary = run.summary or {"run_id": run.id, "total_is_known": known.state != DIED}
    command = remaining_command(summary, _job_reference(app, run.job))
    if command is not None:
        print_text(f"to run the rest: {command}", "bold")


def _job_reference(app: "App", name: str) -> list[str]:
    """Return the arguments that name a job on the command line, or a placeholder."""
    reference = click.get_current_context().params.get("reference")
    return [reference, "--name", name] if reference and name in app.jobs_by_name else [_JOB_PLACEHOLDER]


@click.command("failures")
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@option("--category", "NAME", "Only failures of this category, such as network.", shell_complete=category_names)
@click.option("--status", type=click.Choice(["failed", "deferred"]), help="Only failed targets, or only deferred ones.")
@list_options("Targets", 50, json_option)
@with_app
def failures(app: "App", run_id: str, *, category: str | None, status: str | None, limit: int, as_json: bool) -> None:
    """Show the failures of a run: the largest groups, then the targets.

    RUN is the id of a run, or 'last' for the last run of any job.

    \b
    Examples:
      outlast job failures last
      outlast job failures 20261115T100000-3f2a1b
      outlast job failures 20261115T100000-3f2a1b --category network
      outlast job failures 20261115T100000-3f2a1b --status deferred --json
    """  # noqa: D301  # click reads the control character, not a backslash
    wanted = None if category is None else Category.parse(category).value
    statuses = [TargetStatus.FAILED, TargetStatus.DEFERRED] if status is None else [TargetStatus(status)]
    run = find_run(app.store, run_id).run
    groups = _failure_groups(app.store, run.id, wanted) if TargetStatus.FAILED in statuses else []
    found = _failed_targets(app.store, run.id, statuses, wanted, limit)
    if as_json:
        print_json({"run_id": run.id, "groups": groups, "targets": [_target_data(each) for each in found]})
    elif found:
        if groups:
            make_console().print(failure_groups_table(groups))
            print_text("")
        make_console().print(_target_table(found))
        if len(found) == limit:
            counts = app.store.target_counts(run.id)
            print_text(f"{sum(counts[each] for each in statuses)} in total; --limit shows more", "dim")
    elif category or status:
        print_empty(f"no targets of run {run.id} match", f"{next_command('job', 'failures', run.id)} shows all")
    else:
        print_empty(f"no targets of run {run.id} failed", f"{next_command('job', 'show', run.id)} shows the summary")


def _failure_groups(store: "Jobs", run_id: str, category: str | None) -> list[JsonObject]:
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


@table("TARGET:20, STATUS, CATEGORY:18, TRIES, RETRY, ERROR")
def _target_table(row: "TargetRow") -> Cells:
    return (
        mask_secrets(row.source_id),
        str(row.status),
        row.category,
        row.attempts,
        relative_time(row.retry_at),
        mask_secrets(_error_text(row)),
    )


def _target_data(row: "TargetRow") -> JsonObject:
    data = row_data(row)
    del data["run_id"]
    data["source_id"] = mask_secrets(data["source_id"])
    data["target"] = None if row.target is None else masked_value(row.target)
    return data


def _error_text(row: "TargetRow") -> str:
    return f"{row.error_type}: {row.error_message}"


@click.group()
def job() -> None:
    """Run batch jobs and show their runs.

    A job is a function for one target that runs over many targets. Targets fail independently; a gate decides whether
    the whole run failed; failed and remaining targets can be run again.

    \b
    Examples:
      outlast job run etl:items
      outlast job list
      outlast job failures 20261115T100000-3f2a1b
      outlast job run etl:items --only-failed 20261115T100000-3f2a1b
    """  # noqa: D301  # click reads the control character, not a backslash


@job.command("list")
@option("--job", "NAME", "Only runs of this job.", "name")
@list_options("Runs", 20)
@with_app
def list_runs(app: "App", *, name: str | None, limit: int, as_json: bool) -> None:
    """List the runs of jobs, newest first.

    The state died means that the process of the run ended, by a crash or a power cut. To continue the run:
    outlast job run MODULE:JOB --resume RUN.

    \b
    Examples:
      outlast job list
      outlast job list --job items --limit 100 --json
    """  # noqa: D301  # click reads the control character, not a backslash
    of = f" of {name}" if name is not None else ""
    empty = (f"no run{of} yet", "outlast job run MODULE:JOB starts one")
    print_list(recent_runs(app.store, name, limit), _runs_table, empty, as_json=as_json, data=run_data)


@table("RUN, JOB:14, STATE, EXIT, STARTED, TOOK, ENTITY:12, FAILED")
def _runs_table(each: "JobRunView") -> Cells:
    return (
        each.run.id,
        mask_secrets(each.run.job),
        each.state,
        each.run.exit_code,
        relative_time(each.run.started_at),
        duration_text(each.seconds),
        mask_secrets(each.run.entity),
        each.failed_text,
    )


for _command in (run, show, failures):
    job.add_command(_command)
