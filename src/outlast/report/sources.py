"""Sources in words, for the command line and the page alike: when one is polled next and why then, and its history."""

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
"""How each line of a history looks."""
_OUTCOME_GROUPS = {"changed": "answered", "unchanged": "answered", "failed": "failed", "deferred": "put off"}
_OUTCOME_TEXTS = {
    "changed": "answered, with something new",
    "unchanged": "answered, nothing new",
    "failed": "failed",
    "deferred": "put off",
    "withdrawn": "its failure does not count, for there was an outage",
    "enabled": "enabled by hand",
    "disabled": "disabled",
}


class NextPoll(NamedTuple):
    """When a source is polled next.

    Attributes:
        how: ``never`` (disabled by hand), ``now`` (a monitor has it), ``due``, ``probe`` (disabled by its profile, and
            looked at once in a while), ``held`` (its host is left alone until then) or ``scheduled``.
        at: When, where that is a time to come.
    """

    how: str
    at: datetime | None


class HistoryCell(NamedTuple):
    """One line of a history as a strip shows it.

    Attributes:
        kind: How it looks: ok, warn, bad, info or mute.
        title: What happened, in a line.
    """

    kind: str
    title: str


def next_poll(source: Source, now: datetime) -> NextPoll:
    """Return when a source is polled next, and why then.

    Args:
        source: The row.
        now: The time.
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
    """Return a failure as it was stored, in one line; another program may have stored anything."""
    if not failure:
        return None
    status = failure.get("http_status")
    said = f"{failure.get('category', 'unknown')}{f' ({status})' if status else ''}"
    return f"{said}: {failure.get('exception_name', '')}: {failure.get('message', '')}"


def uncounted_failures_text(source: Source, polls: Sequence[Poll]) -> str:
    """Return what its state does not say of a source: that it never answered, or fails and is not blamed for it.

    Args:
        source: The row.
        polls: The last lines of its history, newest first.
    """
    lines = [poll.outcome for poll in polls if poll.outcome in _OUTCOME_GROUPS]
    failed = next((place for place, outcome in enumerate(lines) if outcome != "failed"), len(lines))
    if not failed:
        return ""
    if source.health.last_success_at is None:
        return f"never answered, {failed} failed" if failed > 1 else "never answered"
    if failed > source.consecutive_failures:
        return f"{failed} failed in a row, not counted" if failed > 1 else "failed, not counted"
    return ""


def history_cell(poll: Poll) -> HistoryCell:
    """Return a line of a source's history for its strip."""
    moved = f", {poll.before} to {poll.after}" if poll.after is not None and poll.before is not None else ""
    status = f", {poll.http_status}" if poll.http_status else ""
    why = ": ".join(each for each in (poll.category, poll.error) if each)
    said = f"{_OUTCOME_TEXTS.get(poll.outcome, poll.outcome)}{status}{moved}{f': {why}' if why else ''}"
    return HistoryCell(
        OUTCOME_KINDS.get(poll.outcome, "mute"), f"{poll.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {said}"
    )


def history_summary(polls: Sequence[Poll]) -> str:
    """Return what a strip shows, in a line."""
    counts = Counter(_OUTCOME_GROUPS.get(poll.outcome, "other") for poll in polls)
    figures = [f"{counts[name]} {name}" for name in ("answered", "failed", "put off", "other") if counts[name]]
    return f"The last {len(polls)} lines: {', '.join(figures)}" if polls else "Not polled yet"


def cycle_text(cycle: Cycle) -> str:
    """Return what a cycle found, in a line."""
    figures = [f"{cycle.polled} polled", f"{cycle.changed} with something new", f"{cycle.failed} failed"]
    if cycle.deferred:
        figures.append(f"{cycle.deferred} put off")
    outage = "; so many failed together that it is taken for an outage" if cycle.outage_since is not None else ""
    return f"{', '.join(figures)}{outage}"
