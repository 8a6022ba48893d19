"""Runs of jobs as they are shown: summaries as tables and JSON, the state of a run, and its progress."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast import clock
from outlast.cli.app_options import next_command
from outlast.cli.errors import CommandError
from outlast.cli.formats import duration_text
from outlast.cli.output import facts_table, make_console, make_table, mask_secrets, print_text, row_data
from outlast.ports.job_rows import RunState
from outlast.record.json_values import to_json_value
from outlast.report.job_runs import comparison_text, run_seconds, run_state, target_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from outlast.jobs.tally import RunTally
    from outlast.ports.job_rows import Jobs, Run


_FIGURES = (
    "total_targets", "success_targets", "failed_targets", "deferred_targets", "skipped_targets", "not_attempted",
)  # fmt: skip
_ETL_FIGURES = ("diff_new_hash", "s3_put_success", "s3_put_fail", "db_upsert_success", "db_upsert_fail")


def run_summary_data(summary: "Mapping[str, Any]") -> dict[str, Any]:
    """Return a summary as JSON data, without secrets.

    Args:
        summary: The result of `Summary.to_dict`, or the summary stored with the run.
    """
    data: dict[str, Any] = mask_secrets(to_json_value(summary))
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
    make_console().print(
        facts_table(
            [
                *((_figure_label(name), _figure_text(data, name)) for name in (*_FIGURES, *_etl_figures(data))),
                ("failure rate", _rate_text(data.get("failure_rate"))),
                ("exit code", data.get("exit_code")),
                ("duration", duration_text(data.get("duration"))),
                ("attempts", data.get("attempts")),
                ("entity", mask_secrets(data.get("entity"))),
                ("env", mask_secrets(data.get("env"))),
                ("by category", _counts_text(data.get("by_category"))),
                ("by origin", _counts_text(data.get("by_origin"))),
                ("counted", _counts_text(data.get("figures"))),
                (f"compared with {before or 'the run before'}", comparison_text(data.get("compared"))),
            ]
        )
    )
    groups = data.get("groups")
    if groups:
        print_text("")
        make_console().print(failure_groups_table(groups))
    for line in data.get("would") or ():
        print_text(f"observed: {mask_secrets(line)}")
    for reason in data.get("reasons") or ():
        print_text(f"exit code 1: {mask_secrets(reason)}", "red")


def failure_groups_table(groups: "Sequence[Mapping[str, Any]]") -> "Table":
    """Return the table of the largest groups of failures."""
    columns = {"SIZE": None, "CATEGORY": 18, "ORIGIN": None, "EXAMPLE": 20, "ERROR": None}
    rows = (
        (
            each.get("size"),
            each.get("category"),
            each.get("origin"),
            mask_secrets(each.get("source_id")),
            mask_secrets(each.get("error")),
        )
        for each in groups
    )
    return make_table(columns, rows)


def _etl_figures(data: "Mapping[str, Any]") -> tuple[str, ...]:
    """Return the names of the ETL figures; empty if all are zero, as in other jobs."""
    return _ETL_FIGURES if any(data.get(name) for name in _ETL_FIGURES) else ()


def _figure_label(name: str) -> str:
    return name.replace("_", " ")


def _figure_text(data: "Mapping[str, Any]", name: str) -> str:
    more = ", and more that were not listed" if name == "total_targets" and not data.get("total_is_known", True) else ""
    return f"{data.get(name, 0)}{more}"


def _rate_text(share: float | None) -> str | None:
    return None if share is None else f"{share:.2%}"


def _counts_text(counts: "Mapping[str, int] | None") -> str | None:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) if counts else None


_MAX_LATER_RUNS = 1000  # runs of a job that are searched for a later one


class JobRunView:
    """A run with its current state and counts.

    Args:
        store: The store of the run.
        run: The row.
        holder: The process that runs it; None if there is none.

    Attributes:
        state: The state; ``died`` if the row says running, but no process runs it.
    """

    def __init__(self, store: "Jobs", run: "Run", holder: str | None) -> None:
        self._store = store
        self.run, self.holder = run, holder
        self.state = run_state(run, holder)

    @cached_property
    def counts(self) -> "Mapping[str, int]":
        """Number of targets by the keys of a summary; counted in the store if the run has no summary yet."""
        return target_counts(self.run, {} if self.run.summary is not None else self._store.target_counts(self.run.id))

    @property
    def seconds(self) -> float | None:
        """Duration in seconds, so far if it is running; None if unknown."""
        return run_seconds(self.run, self.state, datetime.fromtimestamp(clock.now(), UTC))

    @property
    def failure_rate(self) -> float | None:
        """Fraction of the targets that failed, once the run has ended."""
        rate = (self.run.summary or {}).get("failure_rate")
        return None if rate is None else float(rate)

    @property
    def failed_text(self) -> str:
        """How many targets failed and were deferred, in a few words."""
        failed, deferred, rate = self.counts["failed_targets"], self.counts["deferred_targets"], self.failure_rate
        if self.run.ended_at is None:
            parts = [f"{failed} of {sum(self.counts.values())} so far"]
        else:
            parts = [*([f"{rate:.1%}"] if rate is not None else []), f"{failed} of {self.run.total}"]
        return ", ".join([*parts, *([f"{deferred} deferred"] if deferred else [])])


def recent_runs(store: "Jobs", job: str | None, limit: int) -> list[JobRunView]:
    """Return runs, newest first."""
    holders: dict[str, str | None] = {}
    found = []
    for run in store.runs(job, limit):
        if run.state is RunState.RUNNING and run.job not in holders:
            holders[run.job] = store.job_holder(run.job)
            found.append(JobRunView(store, run, holders[run.job]))
        else:
            found.append(JobRunView(store, run, None))  # a job has one lock: an older run that seems to run has died
    return found


def find_run(store: "Jobs", run_id: str) -> JobRunView:
    """Return a run by its id.

    Raises:
        CommandError: If it does not exist.
    """
    run = store.run(run_id)
    if run is None:
        message = f"run {run_id} does not exist; {next_command('job', 'list')} shows the runs"
        raise CommandError(message)
    if run.state is not RunState.RUNNING:
        return JobRunView(store, run, None)
    running = [each.id for each in store.runs(run.job, _MAX_LATER_RUNS) if each.state is RunState.RUNNING]
    return JobRunView(store, run, store.job_holder(run.job) if running[:1] == [run.id] else None)


def run_data(known: JobRunView, *, whole: bool = False) -> dict[str, Any]:
    """Return a run as JSON data.

    Args:
        known: The run.
        whole: Whether to include its summary.
    """
    data = row_data(known.run)
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
    console = None if plain else _terminal_console()
    if console is None:
        yield _log_progress(name)
        return
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415  # only on a terminal

    from outlast.cli.output import printable_line  # noqa: PLC0415  # it needs rich

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

        def show(figures: ProgressFigures) -> None:
            bar.update(task, description=str(figures), completed=figures.done, total=figures.total)

        yield _throttled_display(show, _BAR_EVERY, at_once=True)


def _throttled_display(
    show: Callable[[ProgressFigures], None], every: float, *, at_once: bool
) -> "Callable[[RunTally], None]":
    pace, shown_at = ProgressRate(), clock.monotonic() - (every if at_once else 0)

    def progress(tally: "RunTally") -> None:
        nonlocal shown_at
        if clock.monotonic() - shown_at >= every:
            shown_at = clock.monotonic()
            show(pace.figures(tally))

    return progress


def _log_progress(name: str) -> "Callable[[RunTally], None]":
    def show(figures: ProgressFigures) -> None:
        log.info("%s: %s", name, figures, extra={"job_id": name, **figures._asdict()})

    return _throttled_display(show, _LINE_EVERY, at_once=False)


def _terminal_console() -> "Console | None":
    """Return the console of the logs, so that they appear above the bar; None without a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.logging import RichHandler  # noqa: PLC0415  # only on a terminal

    from outlast.cli.output import make_console  # noqa: PLC0415  # it needs rich

    handlers = [each for each in logging.getLogger().handlers if isinstance(each, RichHandler)]
    console = handlers[0].console if handlers else make_console(stderr=True)
    return None if console.is_dumb_terminal else console


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
