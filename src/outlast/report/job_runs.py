"""Runs of batch jobs in words and figures, shared by the command line and the dashboard."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from outlast.decide.gate import Gate
from outlast.ports.job_rows import Jobs, Run, RunState, TargetRow, TargetStatus

DIED = "died"
"""State of a run that is stored as running, although no process holds its job."""
COUNT_KEYS = {
    TargetStatus.SUCCESS: "success_targets",
    TargetStatus.FAILED: "failed_targets",
    TargetStatus.DEFERRED: "deferred_targets",
    TargetStatus.SKIPPED: "skipped_targets",
}
"""Key of a run's summary that counts the targets of each status."""


ETL_FIGURES = ("diff_new_hash", "s3_put_success", "s3_put_fail", "db_upsert_success", "db_upsert_fail")
"""Keys of a summary that only ETL jobs have."""


class GateLine(NamedTuple):
    """The result of a run's gate.

    Attributes:
        text: The result in a sentence.
        kind: ``ok``, ``bad``, or ``info`` if there is no result yet.
    """

    text: str
    kind: str


_MAX_LATER_RUNS = 200  # runs of a job that are searched for a later one


class JobRunView:
    """A run with its current state and counts.

    Args:
        store: The store of the run.
        run: The row.
        holder: The process that runs it; None if there is none.
        now: The current time.

    Attributes:
        state: The state; ``died`` if the row says running, but no process runs it.
    """

    def __init__(self, store: Jobs, run: Run, holder: str | None, now: datetime) -> None:
        self._store, self._now = store, now
        self.run, self.holder = run, holder
        self.state = DIED if run.state is RunState.RUNNING and holder is None else str(run.state)

    @property
    def result(self) -> str:
        """``passed``, ``failed``, or the state of a run that has no result yet."""
        if self.run.exit_code is None or self.run.ended_at is None:
            return self.state
        return "passed" if self.run.exit_code == 0 else "failed"

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Number of targets by the keys of a summary; counted in the store if the run has no summary yet."""
        if self.run.summary is not None:
            return {name: int(self.run.summary.get(name, 0)) for name in (*COUNT_KEYS.values(), "not_attempted")}
        counted = self._store.target_counts(self.run.id)
        return {COUNT_KEYS[status]: counted.get(status, 0) for status in TargetStatus}

    @property
    def seconds(self) -> float | None:
        """Duration in seconds, so far if it is running; None if unknown, as for a run that died."""
        if self.run.summary is not None and "duration" in self.run.summary:
            duration = self.run.summary["duration"]
            return None if duration is None else float(duration)
        if self.run.ended_at is not None:
            return (self.run.ended_at - self.run.started_at).total_seconds()
        return None if self.state == DIED else max(0.0, (self._now - self.run.started_at).total_seconds())

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


def run_views(store: Jobs, runs: Iterable[Run], now: datetime) -> list[JobRunView]:
    """Return runs with their current states and counts."""
    holders: dict[str, tuple[str | None, str | None]] = {}  # newest run that is stored as running, and who runs it
    views = []
    for run in runs:
        holder = None
        if run.state is RunState.RUNNING:
            if run.job not in holders:
                later = (each.id for each in store.runs(run.job, _MAX_LATER_RUNS) if each.state is RunState.RUNNING)
                holders[run.job] = next(later, None), store.job_holder(run.job)
            newest, holder = holders[run.job]
            holder = holder if newest == run.id else None  # a job has one lock: an older run that seems to run has died
        views.append(JobRunView(store, run, holder, now))
    return views


def target_error(row: TargetRow) -> str:
    """Return the error of a target in one text."""
    return ": ".join(filter(None, (row.error_type, row.error_message)))


def failure_group_data(
    groups: Iterable[tuple[str, int, TargetRow]], mask: Callable[[Any], Any]
) -> list[dict[str, Any]]:
    """Return groups of failed targets as data for JSON.

    Args:
        groups: Fingerprint, size and an example of each.
        mask: Masks the secrets in a text.
    """
    return [
        {
            "fingerprint": fingerprint,
            "size": size,
            "category": row.category or "unknown",
            "origin": row.origin,
            "error": mask(target_error(row)),
            "source_id": mask(row.source_id),
        }
        for fingerprint, size, row in groups
    ]


def stored_comparison(store: Jobs, run: Run) -> Mapping[str, Any] | None:
    """Return how a run differs from its parent: as stored at its end, or else as of now; None without a parent."""
    stored = (run.summary or {}).get("compared")
    return stored or (store.compare_runs(run.parent, run.id) if run.parent is not None else None)


def comparison_text(compared: Mapping[str, Any] | None) -> str | None:
    """Return how a run differs from another, in one line; None if there is nothing to compare."""
    if not compared:
        return None
    return f"{compared.get('fixed')} fixed, {compared.get('broken')} broken, {compared.get('still')} still failing"


def remaining_command(data: Mapping[str, Any], words: Sequence[str]) -> str | None:
    """Return the shell command that runs the remaining targets of a run; None if there are none.

    Args:
        data: The summary.
        words: Arguments that name the job on the command line.
    """
    command, run_id = ["outlast", "job", "run", *words], str(data["run_id"])
    if data.get("not_attempted") or not data.get("total_is_known", True):
        limit = data.get("limit")
        return shlex.join([*command, "--resume", run_id, *(["--limit", str(limit)] if limit else [])])
    if data.get("failed_targets") or data.get("deferred_targets"):
        return shlex.join([*command, "--only-failed", run_id])
    return None


def gate_line(run: Run, state: str, counts: Mapping[str, int], gate: Gate | None) -> GateLine:
    """Return the result of a run's gate, in a sentence.

    Args:
        run: The row.
        state: State of its `JobRunView`.
        counts: Counts of its `JobRunView`.
        gate: The job's current gate, if its code is loaded. Earlier runs may have had another one.
    """
    if state == DIED:
        return GateLine("Its process died before the gate checked it. Completed targets are kept.", "bad")
    if run.exit_code is None or run.ended_at is None:
        return GateLine(f"Running; the gate checks it at the end. {_gate_text(gate)}".strip(), "info")
    reasons = [str(each) for each in (run.summary or {}).get("reasons") or ()]
    would = [str(each) for each in (run.summary or {}).get("would") or ()]
    if would and run.exit_code == 0:
        return GateLine(f"Observed only: {'; '.join(would)}.", "info")
    if run.exit_code == 0:
        return GateLine(f"The gate passed: {_failed_text(run, counts)}. {_gate_text(gate)}".strip(), "ok")
    why = "; ".join(reasons) if reasons else f"exit code {run.exit_code}"
    return GateLine(f"The gate failed: {why}.", "bad")


def _failed_text(run: Run, counts: Mapping[str, int]) -> str:
    failed, deferred = counts.get("failed_targets", 0), counts.get("deferred_targets", 0)
    rate = (run.summary or {}).get("failure_rate")
    text = f"{failed or 'none'} of {run.total} failed"
    if deferred:
        text += f", {deferred} deferred"
    return f"{text} ({_percent_text(float(rate))})" if failed and rate is not None else text


def _gate_text(gate: Gate | None) -> str:
    """Return the limits of a gate, in a sentence; empty without a gate."""
    if gate is None:
        return ""
    rate = float(Fraction(repr(gate.max_failure_rate)) * 100)
    text = f"Up to {rate:g} % of the targets may fail" if rate else "No target may fail"
    if gate.min_sample:
        text += f" if there are {gate.min_sample} or more"
    if gate.max_failures is not None:
        text += f", and {gate.max_failures} at most"
    return text + ("; deferred targets do not count." if gate.defer_ok else "; deferred targets count as failed.")


def _percent_text(share: float) -> str:
    return f"{share:.2%}".replace(".00%", "%").replace("%", " %")
