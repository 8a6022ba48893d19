"""``outlast job``: run batch jobs, list their runs, show a run and its failures."""

import logging
import sys
from collections import deque
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast import clock
from outlast.classify import classify
from outlast.cli.app_options import flag, list_options, next_command, option, with_app
from outlast.cli.completion import category_names
from outlast.cli.errors import CommandError, exit_failed
from outlast.cli.formats import ROW_LIMIT, duration_text, exact_time, now, relative_time
from outlast.cli.logs import with_log_options
from outlast.cli.output import (
    Cells,
    JsonObject,
    make_console,
    print_empty,
    print_facts,
    print_json,
    print_list,
    print_text,
    print_user_traceback,
    printable_line,
    row_data,
    table,
    throttled,
)
from outlast.config import configure
from outlast.errors import ConfigError, OutlastError
from outlast.failure import Category
from outlast.ports.job_rows import TargetStatus
from outlast.queue.masking import masked_texts, masked_value
from outlast.record.json_values import to_json_value
from outlast.report.job_runs import (
    DIED,
    ETL_FIGURES,
    JobRunView,
    comparison_text,
    failure_group_data,
    remaining_command,
    run_views,
    stored_comparison,
    target_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console

    from outlast.app import App
    from outlast.cli.loader import LoadedJob
    from outlast.jobs.job import Job
    from outlast.jobs.tally import RunTally
    from outlast.ports.job_rows import Jobs, TargetRow


LAST_RUN = "last"
"""Names the last run in place of an id."""
_FIGURES = (
    "total_targets", "success_targets", "failed_targets", "deferred_targets", "skipped_targets", "not_attempted",
)  # fmt: skip


def run_summary_data(summary: "Mapping[str, Any]") -> JsonObject:
    """Return a summary as JSON data, without secrets.

    Args:
        summary: The result of `Summary.to_dict`, or the summary stored with the run.
    """
    data: JsonObject = masked_texts(to_json_value(summary))
    return data


def print_run_summary(data: "Mapping[str, Any]", *, dry_run: bool = False, before: str | None = None) -> None:
    """Print the summary of a run.

    Args:
        data: The summary; one stored by another version may have other fields.
        dry_run: Whether it was a dry run.
        before: Id of the run that it is compared with, if known.
    """
    passed, state = data.get("exit_code") == 0, data.get("state", "done")
    result = f"{'passed' if passed else 'failed'}{'' if state == 'done' else f', {state}'}"
    note = " (dry run: handlers were asked to write nothing, and the run was not stored)" if dry_run else ""
    print_text(f"{data.get('job_id')} {data.get('run_id')}: {result}{note}", "bold green" if passed else "bold red")
    etl_figures = ETL_FIGURES if any(data.get(name) for name in ETL_FIGURES) else ()  # other jobs have none
    rate = data.get("failure_rate")
    print_facts(
        {
            **{name.replace("_", " "): _figure_text(data, name) for name in (*_FIGURES, *etl_figures)},
            "failure rate": None if rate is None else f"{rate:.2%}",
            "exit code": data.get("exit_code"),
            "duration": duration_text(data.get("duration")),
            "attempts": data.get("attempts"),
            "entity": masked_texts(data.get("entity")),
            "env": masked_texts(data.get("env")),
            "by category": _counts_text(data.get("by_category")),
            "by origin": _counts_text(data.get("by_origin")),
            "counted": _counts_text(data.get("figures")),
            f"compared with {before or 'the run before'}": comparison_text(data.get("compared")),
        }
    )
    groups = data.get("groups")
    if groups:
        print_text("")
        make_console().print(failure_groups_table(groups))
    for line in data.get("would") or ():
        print_text(f"observed: {masked_texts(line)}")
    for reason in data.get("reasons") or ():
        print_text(f"exit code 1: {masked_texts(reason)}", "red")


@table("SIZE, CATEGORY:18, ORIGIN, EXAMPLE:20, ERROR")
def failure_groups_table(each: "Mapping[str, Any]") -> Cells:
    """Return the table of the largest groups of failures."""
    return (
        each.get("size"),
        each.get("category"),
        each.get("origin"),
        masked_texts(each.get("source_id")),
        masked_texts(each.get("error")),
    )


def _figure_text(data: "Mapping[str, Any]", name: str) -> str:
    more = ", and more that were not listed" if name == "total_targets" and not data.get("total_is_known", True) else ""
    return f"{data.get(name, 0)}{more}"


def _counts_text(counts: "Mapping[str, int] | None") -> str | None:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) if counts else None


def recent_runs(store: "Jobs", job: str | None, limit: int) -> list[JobRunView]:
    """Return runs, newest first."""
    return run_views(store, store.runs(job, limit), now())


def find_run(store: "Jobs", run_id: str) -> JobRunView:
    """Return a run by its id; ``last`` is the last run of any job.

    Raises:
        CommandError: If it does not exist.
    """
    if run_id == LAST_RUN:
        latest = recent_runs(store, None, 1)
        if latest:
            return latest[0]
        raise CommandError("there is no run yet; outlast job run MODULE:JOB starts one")
    run = store.run(run_id)
    if run is None:
        raise CommandError(f"run {run_id} does not exist; {next_command('job', 'list')} shows the runs")
    return run_views(store, [run], now())[0]


def run_data(known: JobRunView, *, whole: bool = False) -> JsonObject:
    """Return a run as JSON data.

    Args:
        known: The run.
        whole: Whether to include its summary.
    """
    data = row_data(known.run)
    data = {"run_id": data.pop("id"), **data}
    summary = data.pop("summary")
    data.update(
        state=known.state,
        holder=masked_texts(known.holder),
        duration=known.seconds,
        **known.counts,
        failure_rate=known.failure_rate,
    )
    if whole:
        data["summary"] = None if summary is None else run_summary_data(summary)
    return data


_LINE_EVERY = 10.0  # seconds between two log lines of progress, if there is no terminal
_BAR_EVERY = 0.05  # seconds between two updates of the bar
_RATE_SAMPLES = 30  # at least a second apart
_BAR_WIDTH = 20
log = logging.getLogger("outlast.jobs")


class ProgressFigures(NamedTuple):
    """Progress of a run.

    Attributes:
        done: Targets that have ended.
        total: All targets; None if unknown.
        failed: Targets that failed.
        deferred: Targets that were deferred.
        rate: Recent targets per second.
        seconds_left: Estimated seconds until the end; None if unknown.
    """

    done: int
    total: int | None
    failed: int
    deferred: int
    rate: float
    seconds_left: float | None

    def __str__(self) -> str:
        """Return the progress in one line."""
        rate = f"{self.rate:.0f}/s" if self.rate >= 100 else f"{self.rate:.1f}/s"  # noqa: PLR2004  # three digits are enough
        parts = [
            f"{self.done}/{self.total}" if self.total is not None else f"{self.done} done",
            rate,
            f"failed {self.failed}",
            f"deferred {self.deferred}",
        ]
        if self.seconds_left is not None:
            parts.append(f"{_clock_text(self.seconds_left)} left")
        return "  ".join(parts)


class ProgressRate:
    """Measures the recent speed of a run."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque([(clock.monotonic(), 0)], _RATE_SAMPLES)

    def figures(self, tally: "RunTally") -> ProgressFigures:
        """Return the progress of the run now."""
        counts, total, now = tally.counts(), tally.total, clock.monotonic()
        done = counts.total
        since, before = self._samples[0]
        rate = (done - before) / (now - since) if now > since else 0.0
        if now - self._samples[-1][0] >= 1:
            self._samples.append((now, done))
        left = max(0, total - done) / rate if total is not None and rate > 0 else None
        return ProgressFigures(done, total, counts.failed, counts.deferred, rate, left)


@contextmanager
def show_progress(name: str) -> "Iterator[Callable[[RunTally], None]]":
    """Yield a function that shows the progress of the run of a job: a bar on a terminal, or else log lines."""
    console, pace = _terminal_console(), ProgressRate()
    if console is None or console.is_dumb_terminal:

        def log_progress(tally: "RunTally") -> None:
            figures = pace.figures(tally)
            log.info("%s: %s", name, figures, extra={"job_id": name, **figures._asdict()})

        yield throttled(log_progress, _LINE_EVERY)
        return
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415  # only on a terminal

    bar = Progress(
        TextColumn(printable_line(name, 30).replace("{", "{{").replace("}", "}}"), markup=False),
        BarColumn(_BAR_WIDTH),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,  # the summary follows
        redirect_stdout=sys.stdout.isatty(),  # output to a file must arrive there
    )
    with bar:
        task = bar.add_task("", total=None)

        def show(tally: "RunTally") -> None:
            figures = pace.figures(tally)
            bar.update(task, description=str(figures), completed=figures.done, total=figures.total)

        yield throttled(show, _BAR_EVERY, at_once=True)


def _terminal_console() -> "Console | None":
    """Return the console of the logs, so that they appear above a bar; None without a terminal, or with JSON logs."""
    return next((each.console for each in logging.getLogger().handlers if hasattr(each, "console")), None)


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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


@job.command("run")
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
def run(
    reference: str,
    *,
    name: str | None,
    from_raw: bool,
    as_json: bool,
    no_progress: bool,
    **settings: Any,
) -> None:
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
    if settings["resume"] is not None and settings["only_failed"] is not None:
        raise click.UsageError("--resume continues a run, --only-failed starts a new one; give only one of them")
    from outlast.cli.loader import load_job  # noqa: PLC0415  # not for --help

    configure()
    loaded = load_job(reference, name)
    shows_progress = not as_json and not no_progress
    is_terminal = _terminal_console() is not None and sys.stdout.isatty()
    try:
        needs_tables = loaded.job.ledger and (not settings["dry_run"] or settings["resume"] or settings["only_failed"])
        if needs_tables and loaded.app is not None:
            loaded.app.store.check_schema()  # SQLite creates them
        _resolve_last_run(loaded.job, settings)
        made = loaded.job.from_raw() if from_raw else loaded.job
        with _collect_summaries(hidden=is_terminal and not as_json) as summaries:
            try:
                with (
                    _explain_target_errors(made),
                    show_progress(made.name) if shows_progress else nullcontext() as progress,
                ):
                    data = run_summary_data(made.run(**settings, progress=progress).to_dict())
            except BaseException:  # a second Ctrl-C, or a ledger that cannot be written
                if summaries:
                    _print_result(run_summary_data(summaries[-1]), loaded, settings, as_json=as_json)
                raise
        _print_result(data, loaded, settings, as_json=as_json)
    finally:
        loaded.close()
    if data["exit_code"]:
        exit_failed()


def _resolve_last_run(made: "Job", settings: dict[str, Any]) -> None:
    """Replace 'last' by the id of the job's last run."""
    for name in ("resume", "only_failed"):
        if settings[name] == LAST_RUN:
            try:
                settings[name] = made.found(LAST_RUN).id
            except ConfigError as error:
                raise CommandError(str(error)) from None


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

    def keep(record: logging.LogRecord) -> bool:
        summary = getattr(record, "summary", None)
        if not isinstance(summary, dict) or "exit_code" not in summary:
            return True
        found.append(summary)
        return not hidden

    log.addFilter(keep)
    try:
        yield found
    finally:
        log.removeFilter(keep)


def _print_result(data: JsonObject, loaded: "LoadedJob", settings: "Mapping[str, Any]", *, as_json: bool) -> None:
    if as_json:
        print_json(data)
        return
    print_run_summary(data, dry_run=settings["dry_run"], before=settings["only_failed"])
    if settings["dry_run"] or not loaded.job.ledger:
        return
    if loaded.job.hand_over is not None and data["failed_targets"]:
        name = loaded.job.hand_over.name
        print_text(f"failed targets were passed to the task {name}; outlast tasks list shows them")
    command = remaining_command(data, loaded.words)
    if command is not None:
        print_text(f"to run the rest: {command}", "bold")


_SHOWN_GROUPS = 5
_MAX_GROUPS = 1000  # that are searched for a category
_PAGE_ROWS = 1000
_JOB_PLACEHOLDER = "MODULE:JOB"  # the store knows the name of a job, but not where its code is


@job.command("show")
@click.argument("run_id", metavar="RUN")
@list_options()
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
    compared = stored_comparison(app.store, known.run)
    if as_json:
        print_json({**run_data(known, whole=True), "compared": compared})
    else:
        _print_run(app, known, compared)


def _print_run(app: "App", known: "JobRunView", compared: "Mapping[str, Any] | None") -> None:
    run = known.run
    entity = f"of {masked_texts(run.entity)}, " if run.entity else ""
    facts: JsonObject = {
        "run": run.id,
        "job": f"{masked_texts(run.job)}, {entity}in {masked_texts(run.env)}",
        "state": f"{known.state}{f', by {masked_texts(known.holder)}' if known.holder else ''}",
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


@job.command("failures")
@click.argument("run_id", metavar="RUN")
@option("--category", "NAME", "Only failures of this category, such as network.", shell_complete=category_names)
@click.option("--status", type=click.Choice(["failed", "deferred"]), help="Only failed targets, or only deferred ones.")
@list_options("Targets", 50)
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
    wanted = [each for each in found if category in {None, each[2].category}]
    return failure_group_data(wanted[:_SHOWN_GROUPS], masked_texts)


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
        masked_texts(row.source_id),
        str(row.status),
        row.category,
        row.attempts,
        relative_time(row.retry_at),
        masked_texts(target_error(row)),
    )


def _target_data(row: "TargetRow") -> JsonObject:
    data = row_data(row)
    del data["run_id"]
    data["target"] = None if row.target is None else masked_value(row.target)
    return data


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
    found, hint = recent_runs(app.store, name, limit), "outlast job run MODULE:JOB starts one"
    print_list(found, _runs_table, "runs", hint, as_json=as_json, data=run_data)


@table("RUN, JOB:14, STATE, EXIT, STARTED, TOOK, ENTITY:12, FAILED")
def _runs_table(each: "JobRunView") -> Cells:
    return (
        each.run.id,
        masked_texts(each.run.job),
        each.state,
        each.run.exit_code,
        relative_time(each.run.started_at),
        duration_text(each.seconds),
        masked_texts(each.run.entity),
        each.failed_text,
    )
