"""Sources in words, shared by the command line and the dashboard: the next poll, the last failure and the history."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from outlast.ports.source_rows import Cycle, Poll, Source

OUTCOME_KINDS = {
    "changed": "info",
    "unchanged": "ok",
    "failed": "bad",
    "deferred": "warn",
    "withdrawn": "mute",
    "enabled": "info",
    "healthy": "ok",
    "probation": "warn",
    "warning": "warn",
    "error": "bad",
    "disabled": "mute",
}
"""How each outcome of a poll, or each new state, is shown: ok, info, warn, bad or mute."""
_OUTCOME_GROUPS = {"changed": "answered", "unchanged": "answered", "failed": "failed", "deferred": "deferred"}
_OUTCOME_TEXTS = {
    "changed": "answered, changed",
    "unchanged": "answered, unchanged",
    "failed": "failed",
    "deferred": "deferred",
    "withdrawn": "its failure does not count, because there was an outage",
    "enabled": "enabled by hand",
    "disabled": "disabled",
}


class NextPoll(NamedTuple):
    """When a source is polled next.

    Attributes:
        how: ``never`` (disabled by hand), ``now`` (a monitor is polling it), ``due``, ``probe`` (disabled by its
            profile, and probed from time to time), ``held`` (its host is in cooldown until then) or ``scheduled``.
        at: When, if that is in the future.
    """

    how: str
    at: datetime | None


class HistoryCell(NamedTuple):
    """One entry of a source's history, as a cell of a strip.

    Attributes:
        kind: How it is shown: ok, warn, bad, info or mute.
        title: What happened, in one line.
    """

    kind: str
    title: str


def next_poll(source: Source, now: datetime) -> NextPoll:
    """Return when a source is polled next, and why then.

    Args:
        source: The row.
        now: The store's time.
    """
    if source.health.disabled_by == "hand" and not source.is_active:
        return NextPoll("never", None)
    if source.leased_until is not None and source.leased_until > now and source.outcome is None:
        return NextPoll("now", None)
    if not source.is_active:
        later = source.not_before is not None and source.not_before > now
        return NextPoll("probe", source.not_before if later else None)
    due = max(source.next_poll_at, source.not_before or now)
    if due <= now:
        return NextPoll("due", None)
    held = source.not_before is not None and source.not_before > now and source.not_before >= source.next_poll_at
    return NextPoll("held" if held else "scheduled", due)


def failure_text(failure: Mapping[str, Any] | None) -> str | None:
    """Return a stored failure in one line; None if there is none. Any field may be missing."""
    if not failure:
        return None
    status = failure.get("http_status")
    category = f"{failure.get('category', 'unknown')}{f' ({status})' if status else ''}"
    return f"{category}: {failure.get('exception_name', '')}: {failure.get('message', '')}"


def uncounted_failures_text(source: Source, polls: Sequence[Poll]) -> str:
    """Return what a source's state does not show: that it never answered, or that its last failures did not count.

    Args:
        source: The row.
        polls: Its history, newest first.
    """
    outcomes = [poll.outcome for poll in polls if poll.outcome in _OUTCOME_GROUPS]
    failed = next((place for place, outcome in enumerate(outcomes) if outcome != "failed"), len(outcomes))
    if not failed:
        return ""
    if source.health.last_success_at is None:
        return f"never answered, {failed} failed" if failed > 1 else "never answered"
    if failed > source.consecutive_failures:
        return f"{failed} failed in a row, not counted" if failed > 1 else "failed, not counted"
    return ""


def history_cell(poll: Poll) -> HistoryCell:
    """Return an entry of a source's history for its strip."""
    change = f", {poll.before} to {poll.after}" if poll.after is not None and poll.before is not None else ""
    status = f", {poll.http_status}" if poll.http_status else ""
    why = ": ".join(each for each in (poll.category, poll.error) if each)
    text = f"{_OUTCOME_TEXTS.get(poll.outcome, poll.outcome)}{status}{change}{f': {why}' if why else ''}"
    return HistoryCell(
        OUTCOME_KINDS.get(poll.outcome, "mute"), f"{poll.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {text}"
    )


def history_summary(polls: Sequence[Poll]) -> str:
    """Return the outcomes of a source's history, counted, in one line."""
    counts = Counter(_OUTCOME_GROUPS.get(poll.outcome, "other") for poll in polls)
    figures = [f"{counts[name]} {name}" for name in ("answered", "failed", "deferred", "other") if counts[name]]
    return f"The last {len(polls)} entries: {', '.join(figures)}" if polls else "Not polled yet"


def cycle_text(cycle: Cycle) -> str:
    """Return the outcomes of a cycle, counted, in one line."""
    figures = [f"{cycle.polled} polled", f"{cycle.changed} changed", f"{cycle.failed} failed"]
    if cycle.deferred:
        figures.append(f"{cycle.deferred} deferred")
    outage = "; so many failed together that it counts as an outage" if cycle.outage_since is not None else ""
    return f"{', '.join(figures)}{outage}"
