"""``outlast job run``: run a job over its targets, and say how it went."""

import logging
import sys
import traceback
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.cli.failing import FAILED, OneLineError
from outlast.cli.logs import LEVELS, quiet_clients, set_up_logs
from outlast.cli.numbers import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from outlast.cli.job_loading import Chosen
    from outlast.jobs.job import Job
    from outlast.jobs.tally import Tally

__all__ = ["run"]

_LOGGER = "outlast.jobs"
_LAST = "last"
_LONGEST = 32_768  # characters of a traceback


class _How(NamedTuple):
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
@click.option("--limit", type=LIMIT, metavar="N", help="How many targets at most.")
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
    how = _How(**options)
    if how.resume is not None and how.only_failed is not None:
        message = "--resume goes on with a run, --only-failed begins another; give one of them"
        raise click.UsageError(message)
    from outlast.cli.job_loading import load_job  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    set_up_logs(log_level, as_json=how.json_logs)
    quiet_clients(log_level)
    configure()
    chosen = load_job(reference, name)
    try:
        if chosen.job.ledger and (not how.dry_run or how.resume or how.only_failed):
            chosen.check_tables()
        data = _run(chosen, _with_last(chosen, how))
    finally:
        chosen.close()
    if data["exit_code"]:
        click.get_current_context().exit(FAILED)


def _with_last(chosen: "Chosen", how: _How) -> _How:
    """Return the options with the number of the run that 'last' means."""
    if _LAST not in {how.resume, how.only_failed}:
        return how
    job = chosen.job
    found = [] if job.store is None or not job.ledger else job.store.runs(job.name, 1)
    if not found:
        message = f"job {job.name} has no run yet; leave --resume and --only-failed out, and it gets one"
        raise OneLineError(message)
    run_id = found[0].id
    return how._replace(
        resume=run_id if how.resume == _LAST else how.resume,
        only_failed=run_id if how.only_failed == _LAST else how.only_failed,
    )


def _run(chosen: "Chosen", how: _How) -> dict[str, Any]:
    from outlast.cli.job_summary import summary_data  # noqa: PLC0415  # not for --help

    job = chosen.job.from_raw() if how.from_raw else chosen.job
    seen_here = not how.json_logs and sys.stderr.isatty() and sys.stdout.isatty()
    with _last_words(hidden=seen_here and not how.as_json) as words:
        try:
            with _targets_told(job), _progress(job, how) as progress:
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
                _show(summary_data(words[-1]), chosen, how)
            raise
    data = summary_data(summary.to_dict())
    _show(data, chosen, how)
    return data


@contextmanager
def _targets_told(job: "Job") -> "Iterator[None]":
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
            click.echo(safe_text(masked_text("".join(frames)), _LONGEST), err=True)
            message = f"the targets of {job.name} cannot be had: {classify(error)}"
            raise OneLineError(message) from error

    from outlast.classify import classify  # noqa: PLC0415  # not for --help
    from outlast.errors import OutlastError  # noqa: PLC0415  # not for --help
    from outlast.queue.masking import masked_text  # noqa: PLC0415  # not for --help
    from outlast.redact import safe_text  # noqa: PLC0415  # not for --help

    job.targets = targets
    try:
        yield
    finally:
        job.targets = theirs


def _progress(job: "Job", how: _How) -> "AbstractContextManager[Callable[[Tally], None] | None]":
    from outlast.cli.job_progress import progress_of  # noqa: PLC0415  # not for --help

    if how.as_json or how.no_progress:
        return nullcontext()
    return progress_of(job.name, plain=how.json_logs)


@contextmanager
def _last_words(*, hidden: bool) -> "Iterator[list[dict[str, Any]]]":
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


def _show(data: dict[str, Any], chosen: "Chosen", how: _How) -> None:
    from outlast.cli.job_summary import print_summary, rest_of  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help

    if how.as_json:
        print_json(data)
        return
    print_summary(data, dry_run=how.dry_run, before=how.only_failed)
    job = chosen.job
    command = rest_of(data, chosen.words, limit=how.limit)
    if job.hand_over is not None and data["failed_targets"] and job.ledger and not how.dry_run:
        say(f"what failed was given to the task {job.hand_over.name}; outlast tasks list shows it")
    if command is not None and job.ledger and not how.dry_run:
        say(f"the rest: {command}", "bold")
