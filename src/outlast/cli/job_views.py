"""Runs of jobs as they are shown: summaries as tables and JSON, the state of a run, and its progress."""

import logging
import sys
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast import clock
from outlast.cli.app_options import next_command
from outlast.cli.errors import CommandError
from outlast.cli.formats import duration_text, now
from outlast.cli.output import (
    Cells,
    JsonObject,
    make_console,
    mask_secrets,
    print_facts,
    print_text,
    printable_line,
    row_data,
    table,
    throttled,
)
from outlast.record.json_values import to_json_value
from outlast.report.job_runs import ETL_FIGURES, JobRunView, comparison_text, run_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console

    from outlast.jobs.tally import RunTally
    from outlast.ports.job_rows import Jobs


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
    data: JsonObject = mask_secrets(to_json_value(summary))
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
            "entity": mask_secrets(data.get("entity")),
            "env": mask_secrets(data.get("env")),
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
        print_text(f"observed: {mask_secrets(line)}")
    for reason in data.get("reasons") or ():
        print_text(f"exit code 1: {mask_secrets(reason)}", "red")


@table("SIZE, CATEGORY:18, ORIGIN, EXAMPLE:20, ERROR")
def failure_groups_table(each: "Mapping[str, Any]") -> Cells:
    """Return the table of the largest groups of failures."""
    return (
        each.get("size"),
        each.get("category"),
        each.get("origin"),
        mask_secrets(each.get("source_id")),
        mask_secrets(each.get("error")),
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
    data.update({name: mask_secrets(data[name]) for name in ("job", "entity", "env")})
    data.update(
        state=known.state,
        holder=mask_secrets(known.holder),
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
def show_progress(name: str, *, plain: bool) -> "Iterator[Callable[[RunTally], None]]":
    """Yield a function that shows the progress of a run: a bar on a terminal, or else log lines.

    Args:
        name: Name of the job.
        plain: Whether to write log lines on a terminal too, as with JSON logs.
    """
    console, pace = None if plain else _terminal_console(), ProgressRate()
    if console is None:

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
    """Return the console of the logs, so that they appear above the bar; None without a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.logging import RichHandler  # noqa: PLC0415  # only on a terminal

    handlers = [each for each in logging.getLogger().handlers if isinstance(each, RichHandler)]
    console = handlers[0].console if handlers else make_console(stderr=True)
    return None if console.is_dumb_terminal else console


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
