"""Runs as they are shown: where one stands, also if its process died, and what is known of it while it runs."""

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from outlast import clock
from outlast.cli.choosing import command
from outlast.cli.failing import OneLineError
from outlast.cli.job_summary import summary_data
from outlast.cli.showing import as_data, masked
from outlast.ports.job_rows import RunState
from outlast.report.runs import DIED, counts_of, seconds_of, state_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outlast.ports.job_rows import Run
    from outlast.ports.jobs import Jobs

__all__ = ["DIED", "Known", "found_run", "known_runs", "run_data"]

_LOOKED_BACK = 1000  # runs of a job among which a later one is looked for


class Known:
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
        self.state = state_of(run, holder)

    @cached_property
    def counts(self) -> "Mapping[str, int]":
        """Targets of each kind, by the names that a summary has for them; where there is none, they are counted."""
        return counts_of(self.run, {} if self.run.summary is not None else self._store.target_counts(self.run.id))

    @property
    def seconds(self) -> float | None:
        """How long it took, or has taken so far; None if nobody knows."""
        return seconds_of(self.run, self.state, datetime.fromtimestamp(clock.now(), UTC))

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


def known_runs(store: "Jobs", job: str | None, limit: int) -> list[Known]:
    """Return runs, newest first."""
    holders: dict[str, str | None] = {}
    found = []
    for run in store.runs(job, limit):
        if run.state is RunState.RUNNING and run.job not in holders:
            holders[run.job] = store.job_holder(run.job)
            found.append(Known(store, run, holders[run.job]))
        else:
            found.append(Known(store, run, None))  # one lock, one run: an older one that seems to run has died
    return found


def found_run(store: "Jobs", run_id: str) -> Known:
    """Return one.

    Raises:
        OneLineError: If there is none.
    """
    run = store.run(run_id)
    if run is None:
        message = f"there is no run {run_id}; {command('job', 'list')} shows what there is"
        raise OneLineError(message)
    if run.state is not RunState.RUNNING:
        return Known(store, run, None)
    running = [each.id for each in store.runs(run.job, _LOOKED_BACK) if each.state is RunState.RUNNING]
    return Known(store, run, store.job_holder(run.job) if running[:1] == [run.id] else None)


def run_data(known: Known, *, whole: bool = False) -> dict[str, Any]:
    """Return a run as JSON has it.

    Args:
        known: The run.
        whole: With all of its summary.
    """
    data = as_data(known.run)
    summary = data.pop("summary")
    data.update({name: masked(data[name]) for name in ("job", "entity", "env")})
    data.update(
        state=known.state,
        holder=masked(known.holder),
        duration=known.seconds,
        **known.counts,
        failure_rate=known.failure_rate,
    )
    if whole:
        data["summary"] = None if summary is None else summary_data(summary)
    return data
