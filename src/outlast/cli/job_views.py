"""The summary of a run as it is shown: to people as tables, to programs as JSON; and the command that does the rest."""

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
    """Return the fields of a summary as JSON has them, the texts of others without secrets.

    Args:
        summary: As `Summary.to_dict` returns it, or as it is kept with the run.
    """
    data: dict[str, Any] = mask_secrets(to_json_value(summary))
    return data


def print_run_summary(data: "Mapping[str, Any]", *, dry_run: bool = False, before: str | None = None) -> None:
    """Print how a run ended, for people.

    Args:
        data: The summary as it is kept with the run; another version may have kept other fields.
        dry_run: Whether nothing was written.
        before: The run with which it was compared, where that is known.
    """
    passed, state = data.get("exit_code") == 0, data.get("state", "done")
    how = f"{'passed' if passed else 'failed'}{'' if state == 'done' else f', {state}'}"
    dry = " (dry run: handlers were told to write nothing, and no ledger was kept)" if dry_run else ""
    print_text(f"{data.get('job_id')} {data.get('run_id')}: {how}{dry}", "bold green" if passed else "bold red")
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
    columns = {"SIZE": None, "CATEGORY": 18, "ORIGIN": None, "FOR INSTANCE": 20, "ERROR": None}
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
    """Return the figures that only an ETL has; in other jobs they stay at zero, and are left out."""
    return _ETL_FIGURES if any(data.get(name) for name in _ETL_FIGURES) else ()


def _figure_label(name: str) -> str:
    return name.replace("_", " ")


def _figure_text(data: "Mapping[str, Any]", name: str) -> str:
    more = ", and more that were not read" if name == "total_targets" and not data.get("total_is_known", True) else ""
    return f"{data.get(name, 0)}{more}"


def _rate_text(share: float | None) -> str | None:
    return None if share is None else f"{share:.2%}"


def _counts_text(counts: "Mapping[str, int] | None") -> str | None:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) if counts else None


# Runs as they are shown: where one stands, also if its process died, and what is known of it while it runs.

_MAX_LATER_RUNS = 1000  # runs of a job among which a later one is looked for


class JobRunView:
    """A run, and what its row does not say.

    Args:
        store: Where it is kept.
        run: The row.
        holder: Who runs it; None if nobody does.

    Attributes:
        state: Where it stands; ``died`` if it is said to run, and nobody does.
    """

    def __init__(self, store: "Jobs", run: "Run", holder: str | None) -> None:
        """Ask for nothing yet."""
        self._store = store
        self.run, self.holder = run, holder
        self.state = run_state(run, holder)

    @cached_property
    def counts(self) -> "Mapping[str, int]":
        """Targets of each kind, by the names that a summary has for them; where there is none, they are counted."""
        return target_counts(self.run, {} if self.run.summary is not None else self._store.target_counts(self.run.id))

    @property
    def seconds(self) -> float | None:
        """How long it took, or has taken so far; None if nobody knows."""
        return run_seconds(self.run, self.state, datetime.fromtimestamp(clock.now(), UTC))

    @property
    def failure_rate(self) -> float | None:
        """Share of the targets that failed, once it is over."""
        rate = (self.run.summary or {}).get("failure_rate")
        return None if rate is None else float(rate)

    @property
    def told(self) -> str:
        """How much failed, in a few words."""
        failed, deferred, rate = self.counts["failed_targets"], self.counts["deferred_targets"], self.failure_rate
        if self.run.ended_at is None:
            told = [f"{failed} of {sum(self.counts.values())} so far"]
        else:
            told = [*([f"{rate:.1%}"] if rate is not None else []), f"{failed} of {self.run.total}"]
        return ", ".join([*told, *([f"{deferred} put off"] if deferred else [])])


def recent_runs(store: "Jobs", job: str | None, limit: int) -> list[JobRunView]:
    """Return runs, newest first."""
    holders: dict[str, str | None] = {}
    found = []
    for run in store.runs(job, limit):
        if run.state is RunState.RUNNING and run.job not in holders:
            holders[run.job] = store.job_holder(run.job)
            found.append(JobRunView(store, run, holders[run.job]))
        else:
            found.append(JobRunView(store, run, None))  # one lock, one run: an older one that seems to run has died
    return found


def find_run(store: "Jobs", run_id: str) -> JobRunView:
    """Return one.

    Raises:
        OneLineError: If there is none.
    """
    run = store.run(run_id)
    if run is None:
        message = f"there is no run {run_id}; {next_command('job', 'list')} shows what there is"
        raise CommandError(message)
    if run.state is not RunState.RUNNING:
        return JobRunView(store, run, None)
    running = [each.id for each in store.runs(run.job, _MAX_LATER_RUNS) if each.state is RunState.RUNNING]
    return JobRunView(store, run, store.job_holder(run.job) if running[:1] == [run.id] else None)


def run_data(known: JobRunView, *, whole: bool = False) -> dict[str, Any]:
    """Return a run as JSON has it.

    Args:
        known: The run.
        whole: With all of its summary.
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


# How far a run is: a bar at a terminal, elsewhere a line in the log every ten seconds.

_LINE_EVERY = 10.0  # seconds
_BAR_EVERY = 0.05
_RATE_SAMPLES = 30  # a second apart, at the least
_BAR_WIDTH = 20
log = logging.getLogger("outlast.jobs")


class ProgressFigures(NamedTuple):
    """How far a run is.

    Attributes:
        done: Targets that came to an end.
        total: All of them, where that is known.
        failed: Those that failed.
        deferred: Those that were put off.
        rate: Targets per second, of late.
        seconds_left: Until the end, if it goes on so; None where nobody knows.
    """

    done: int
    total: int | None
    failed: int
    deferred: int
    rate: float
    seconds_left: float | None

    def __str__(self) -> str:
        """Return them in one line."""
        rate = f"{self.rate:.0f}/s" if self.rate >= 100 else f"{self.rate:.1f}/s"  # noqa: PLR2004  # three digits do
        told = [
            f"{self.done}/{self.total}" if self.total is not None else f"{self.done} done",
            rate,
            f"failed {self.failed}",
            f"put off {self.deferred}",
        ]
        if self.seconds_left is not None:
            told.append(f"{_clock_text(self.seconds_left)} left")
        return "  ".join(told)


class ProgressRate:
    """How fast a run is of late."""

    def __init__(self) -> None:
        """Begin now, with nothing done."""
        self._samples: deque[tuple[float, int]] = deque([(clock.monotonic(), 0)], _RATE_SAMPLES)

    def figures(self, tally: "RunTally") -> ProgressFigures:
        """Return how far the run is."""
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
    """Within the block, show how far a run is.

    Args:
        name: Of the job.
        plain: Lines also at a terminal, for who logs JSON.
    """
    console = None if plain else _terminal_console()
    if console is None:
        yield _log_progress(name)
        return
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415  # only at a terminal

    from outlast.cli.output import printable_line  # noqa: PLC0415  # it needs rich

    bar = Progress(
        TextColumn(printable_line(name, 30).replace("{", "{{").replace("}", "}}"), markup=False),
        BarColumn(_BAR_WIDTH),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,  # the summary says more
        redirect_stdout=sys.stdout.isatty(),  # what goes to a file is to arrive there
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
    """Return the console on which logs appear too, so that they stand above the bar; None where there is none."""
    if not sys.stderr.isatty():
        return None
    from rich.logging import RichHandler  # noqa: PLC0415  # only at a terminal

    from outlast.cli.output import make_console  # noqa: PLC0415  # it needs rich

    handlers = [each for each in logging.getLogger().handlers if isinstance(each, RichHandler)]
    console = handlers[0].console if handlers else make_console(stderr=True)
    return None if console.is_dumb_terminal else console


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
