"""Runs of batch jobs in words and figures, for the command line and the page alike. Pure: rows in, facts out."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple

from outlast.decide.gate import Gate
from outlast.ports.job_rows import Run, RunState, TargetStatus

DIED = "died"
"""The state of a run that is said to run, and nobody does."""
COUNT_KEYS = {
    TargetStatus.SUCCESS: "success_targets",
    TargetStatus.FAILED: "failed_targets",
    TargetStatus.DEFERRED: "deferred_targets",
    TargetStatus.SKIPPED: "skipped_targets",
}
"""What a summary calls the targets of each kind."""


class GateLine(NamedTuple):
    """What a gate said of a run.

    Attributes:
        text: In a sentence.
        kind: ``ok``, ``bad``, or ``info`` where there is no verdict yet.
    """

    text: str
    kind: str


def run_state(run: Run, holder: str | None) -> str:
    """Return where a run stands.

    Args:
        run: The row.
        holder: Who has the lock of its job for this run; None for nobody.
    """
    return DIED if run.state is RunState.RUNNING and holder is None else str(run.state)


def run_result(run: Run, state: str) -> str:
    """Return what became of a run, in a word: ``passed``, ``failed``, or its state where it has no verdict.

    Args:
        run: The row.
        state: As `state_of` has it.
    """
    if run.exit_code is None or run.ended_at is None:
        return state
    return "passed" if run.exit_code == 0 else "failed"


def target_counts(run: Run, counted: Mapping[TargetStatus, int]) -> dict[str, int]:
    """Return targets of each kind, by the names that a summary has for them.

    Args:
        run: The row; its summary is believed, where there is one.
        counted: What was counted, for a run without a summary.
    """
    if run.summary is not None:
        return {name: int(run.summary.get(name, 0)) for name in (*COUNT_KEYS.values(), "not_attempted")}
    return {COUNT_KEYS[status]: counted.get(status, 0) for status in TargetStatus}


def run_seconds(run: Run, state: str, now: datetime) -> float | None:
    """Return how long a run took, or has taken so far; None if nobody knows, as of one that died."""
    if run.summary is not None and "duration" in run.summary:
        duration = run.summary["duration"]
        return None if duration is None else float(duration)
    if run.ended_at is not None:
        return (run.ended_at - run.started_at).total_seconds()
    if state == DIED:
        return None
    return max(0.0, (now - run.started_at).total_seconds())


def comparison_text(compared: Mapping[str, Any] | None) -> str | None:
    """Return how a run differs from another, in one line."""
    if not compared:
        return None
    return f"{compared.get('fixed')} fixed, {compared.get('broken')} broken, {compared.get('still')} still failing"


def remaining_command(data: Mapping[str, Any], words: Sequence[str], *, limit: int | None = None) -> str | None:
    """Return the command that does what a run has left to do; None if that is nothing.

    Args:
        data: The summary.
        words: What names the job on the command line.
        limit: How many targets it had at most.
    """
    command, run_id = ["outlast", "job", "run", *words], str(data["run_id"])
    if data.get("not_attempted") or not data.get("total_is_known", True):
        return shlex.join([*command, "--resume", run_id, *(["--limit", str(limit)] if limit else [])])
    if data.get("failed_targets") or data.get("deferred_targets"):
        return shlex.join([*command, "--only-failed", run_id])
    return None


def gate_line(run: Run, state: str, counts: Mapping[str, int], gate: Gate | None) -> GateLine:
    """Return what the gate said of a run, in a sentence.

    Args:
        run: The row.
        state: As `state_of` has it.
        counts: As `counts_of` has them.
        gate: That of the job as it is now, where the job is at hand; a run before may have had another.
    """
    if state == DIED:
        return GateLine("Its process died before the gate could judge it. What it has done is kept.", "bad")
    if run.exit_code is None or run.ended_at is None:
        return GateLine(f"It runs; the gate judges it at its end. {_gate_text(gate)}".strip(), "info")
    reasons = [str(each) for each in (run.summary or {}).get("reasons") or ()]
    would = [str(each) for each in (run.summary or {}).get("would") or ()]
    if would and run.exit_code == 0:
        return GateLine(f"It was only observed: {'; '.join(would)}.", "info")
    if run.exit_code == 0:
        return GateLine(f"The gate let it pass: {_failed_text(run, counts)}. {_gate_text(gate)}".strip(), "ok")
    why = "; ".join(reasons) if reasons else f"exit code {run.exit_code}"
    return GateLine(f"The gate did not let it pass: {why}.", "bad")


def _failed_text(run: Run, counts: Mapping[str, int]) -> str:
    failed, deferred = counts.get("failed_targets", 0), counts.get("deferred_targets", 0)
    rate = (run.summary or {}).get("failure_rate")
    said = f"{failed} of {run.total} failed" if failed else f"none of {run.total} failed"
    put_off = f", {deferred} put off" if deferred else ""
    return f"{said}{put_off}" + (f" ({_percent_text(float(rate))})" if failed and rate is not None else "")


def _gate_text(gate: Gate | None) -> str:
    """Return what a gate lets pass, in a sentence."""
    if gate is None:
        return ""
    rate = float(Fraction(repr(gate.max_failure_rate)) * 100)
    said = f"Up to {rate:g} % of the targets may fail" if rate else "No target may fail"
    if gate.min_sample:
        said += f" where there are {gate.min_sample} or more"
    if gate.max_failures is not None:
        said += f", and {gate.max_failures} at most"
    return said + ("; what is put off does not count." if gate.defer_ok else "; what is put off counts as failed.")


def _percent_text(share: float) -> str:
    return f"{share:.2%}".replace(".00%", "%").replace("%", " %")
