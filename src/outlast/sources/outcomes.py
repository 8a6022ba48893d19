"""Pure functions that return the changes of a source after a poll, an action by hand, or the end of a cycle."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from outlast.classify import default_classifier
from outlast.decide.source_health import (
    PollCounts,
    SourceHealth,
    SourceRules,
    SourceState,
    after_failure,
    after_success,
    is_outage,
    probe_delay,
)
from outlast.failure import Category, Failure, first_line
from outlast.ports.rows import storable
from outlast.ports.source_rows import (
    ChangeSource,
    CloseCycle,
    Closing,
    Cycle,
    NewAlert,
    Poll,
    Source,
    SourceChange,
    Transition,
)
from outlast.sources.fetchers import Fetched

_MAX_TEXT = 1000  # characters of an error that are kept with a source and its history
_IN_TROUBLE = frozenset({SourceState.ERROR, SourceState.DISABLED})
_POLLED = frozenset({"changed", "unchanged", "failed"})
_MAX_NAMED = 5
_OUTAGE_FORGOTTEN = 86400.0  # seconds without a cycle after which it is unknown whether an outage lasted


def next_slot(now: datetime, every: float) -> datetime:
    """Return when a source is due next: at a whole multiple of the interval, so that sources stay together.

    Sources that drift apart would be polled in cycles of a few each, in which an outage could not be detected.
    """
    if every <= 0:
        return now
    return datetime.fromtimestamp((math.floor(now.timestamp() / every) + 1) * every, UTC)


def success_change(
    rules: SourceRules, every: float, fetched: Fetched, content_hash: str | None, **poll: Any
) -> ChangeSource:
    """Return the change for a poll that succeeded.

    Args:
        rules: The rules of the profile.
        every: Seconds between two polls.
        fetched: The result of the fetch.
        content_hash: Hash of the new content, if it counts as seen; None keeps the previous one.
        poll: ``outcome`` and ``attempts``.
    """

    def change(source: Source, now: datetime) -> SourceChange:
        after = source._replace(
            health=_health_after_success(source, rules, now),
            next_poll_at=next_slot(now, every),
            not_before=None,
            outcome=poll["outcome"],
            pending=None,
            leased_until=None,
        )
        if content_hash is not None:
            after = after._replace(
                content_hash=content_hash,
                etag=_stored_validator(fetched.etag),
                last_modified=_stored_validator(fetched.last_modified),
                memory=fetched.memory,
            )
        return _source_change(source, after, now, "it answers again", http_status=fetched.http_status, **poll)

    return change


def failure_change(rules: SourceRules, every: float, failure: Failure, attempts: int) -> ChangeSource:
    """Return the change for a poll that failed in a cycle. The failure counts when the cycle ends."""

    def change(source: Source, now: datetime) -> SourceChange:
        probed_again = None if source.is_active else now + timedelta(seconds=probe_delay(source.health, rules))
        after = source._replace(
            next_poll_at=next_slot(now, every),
            not_before=probed_again,
            outcome="failed",
            pending=_stored_failure(failure),
            leased_until=None,
        )
        return SourceChange(after, _poll_row(after, now, "failed", attempts, failure))

    return change


def reported_success_change(rules: SourceRules) -> ChangeSource:
    """Return the change for a success that is reported outside of a cycle; a running poll is not affected."""

    def change(source: Source, now: datetime) -> SourceChange:
        after = source._replace(health=_health_after_success(source, rules, now), not_before=None, pending=None)
        return _source_change(source, after, now, "it answers again", outcome="unchanged", attempts=1)

    return change


def reported_failure_change(rules: SourceRules, failure: Failure) -> ChangeSource:
    """Return the change for a failure that is reported outside of a cycle. It counts at once."""

    def change(source: Source, now: datetime) -> SourceChange:
        stands = _count_failure(source, _stored_failure(failure), rules, now)
        return stands._replace(poll=_poll_row(source, now, "failed", 1, failure, stands.transition))

    return change


def deferral_change(rules: SourceRules, wait: float, failure: Failure | None, attempts: int) -> ChangeSource:
    """Return the change for a source that is deferred because its host asked to wait. Nothing is counted.

    A source that never succeeds is still detected, after the `stale_after` of the rules.
    """

    def change(source: Source, now: datetime) -> SourceChange:
        until = now + timedelta(seconds=wait)
        after = source._replace(
            next_poll_at=until, not_before=until, outcome="deferred", pending=None, leased_until=None
        )
        if attempts and failure is not None and source.is_active:  # the host was called and refused
            after = after._replace(health=after_failure(source.health, Category.RATE_LIMIT, rules, now))
        reason = "" if failure is None else _error_text(failure)
        changed = _source_change(source, after, now, reason, outcome="deferred", attempts=attempts)
        return changed._replace(poll=_poll_row(after, now, "deferred", attempts, failure, changed.transition))

    return change


def enable_change(source: Source, now: datetime) -> SourceChange:
    """Return the change that enables a source and resets its failures."""
    health = SourceHealth(last_success_at=source.health.last_success_at, last_failure_at=source.health.last_failure_at)
    after = source._replace(health=health, next_poll_at=now, not_before=None, pending=None)
    return _source_change(source, after, now, "enabled by hand", outcome="enabled", attempts=0)


def disable_change(reason: str) -> ChangeSource:
    """Return the change that disables a source until it is enabled by hand."""

    def change(source: Source, now: datetime) -> SourceChange:
        health = source.health._replace(state=SourceState.DISABLED, disabled_at=now, disabled_by="hand")
        unpolled = source.cycle and source.outcome is None  # a running cycle must not poll it either
        outcome = "deferred" if unpolled else source.outcome
        after = source._replace(health=health, not_before=None, pending=None, outcome=outcome)
        changed = _source_change(source, after, now, reason or "disabled by hand", outcome="disabled", attempts=0)
        resolved = NewAlert(_alert_key(source), None, f"{_source_title(source)}: disabled by hand", reason)
        row = _poll_row(after, now, "disabled", 0, None, changed.transition)
        row = row._replace(error=storable(first_line(reason), _MAX_TEXT) or None)
        return changed._replace(alerts=(resolved,), poll=row)  # no alert, and an open one is resolved

    return change


def probe_change(source: Source, now: datetime) -> SourceChange | None:
    """Return the change that makes a source due now; None if it was disabled by hand."""
    if _is_disabled_by_hand(source):
        return None
    return SourceChange(source._replace(next_poll_at=now, not_before=None))


def cycle_close(profile: str, rules: SourceRules) -> CloseCycle:
    """Return the function that ends a cycle: failures count, or are withdrawn if there were enough for an outage."""

    def close(cycle: Cycle, previous: Cycle | None, sources: Sequence[Source], now: datetime) -> Closing:
        polled = [source for source in sources if source.outcome in _POLLED]
        bad = [source for source in polled if source.pending is not None]
        some_are_well = len(bad) < len(polled)
        known = [source for source in polled if _is_no_outage_sign(source, some_are_well=some_are_well)]
        polls = PollCounts(len(polled), len(bad), len(known), sum(source.pending is not None for source in known))
        since = _outage_since(previous, rules, now)
        lasts = (now - since).total_seconds() if since is not None else 0.0
        outage, wide = is_outage(polls, rules, lasts), is_outage(polls, rules)
        if wide:
            since = since or now
        elif some_are_well and _shows_outage_over(polls, previous, rules):
            since = None  # most sources that succeeded before succeed again
        counts = Counter(source.outcome for source in sources)
        ended = cycle._replace(
            ended_at=now,
            sources=len(sources),
            polled=len(polled),
            changed=counts["changed"],
            failed=len(bad),
            deferred=counts["deferred"],
            outage_since=since,
        )
        return Closing(
            ended,
            withdraw=outage,
            changes=[] if outage else [_count_failure(source, source.pending or {}, rules, now) for source in bad],
            alerts=_outage_alerts(profile, polls, bad, outage=outage, wide=wide, over=since is None),
        )

    return close


def _outage_since(previous: Cycle | None, rules: SourceRules, now: datetime) -> datetime | None:
    """Return the start of the outage by the previous cycle; None if there is none, or that cycle is too old to tell."""
    if previous is None or previous.ended_at is None:
        return None
    forgotten = (now - previous.ended_at).total_seconds() >= max(rules.outage_limit, _OUTAGE_FORGOTTEN)
    return None if forgotten else previous.outage_since


def _shows_outage_over(polls: PollCounts, previous: Cycle | None, rules: SourceRules) -> bool:
    """Return whether a cycle shows that an outage is over: many sources were polled, or most of the previous cycle."""
    most = previous is not None and 2 * polls.polled >= previous.polled
    return polls.polled >= rules.outage_sources or (most and not polls.failed)


def _is_no_outage_sign(source: Source, *, some_are_well: bool) -> bool:
    """Return whether a failure of a source is no sign of an outage.

    It failed before; or it has never succeeded while others do, so its URL is probably wrong.
    """
    health = source.health
    return health.failing_since is not None or (some_are_well and health.last_success_at is None)


def _outage_alerts(
    profile: str, polls: PollCounts, bad: Sequence[Source], *, outage: bool, wide: bool, over: bool
) -> tuple[NewAlert, ...]:
    key = f"outage:{profile}"
    share = f"{polls.failed} of {polls.polled} sources failed together"
    causes = Counter((source.pending or {}).get("category", "") for source in bad).most_common(_MAX_NAMED)
    text = ", ".join(f"{category} {count}" for category, count in causes)
    if outage:
        return (NewAlert(key, "outage", f"{profile}: {share}; their failures are not counted", text),)
    if wide:
        return (NewAlert(key, "lasting", f"{profile}: {share}, and still do; from now on failures are counted", text),)
    return (NewAlert(key, None, f"{profile}: the outage is over, {share}"),) if over else ()


def _count_failure(source: Source, pending: dict[str, Any], rules: SourceRules, now: datetime) -> SourceChange:
    """Count a failure."""
    if _is_disabled_by_hand(source):
        return SourceChange(source._replace(pending=None))
    category = Category(pending.get("category", Category.UNKNOWN))
    health = after_failure(source.health, category, rules, now)
    waits = health.state is SourceState.DISABLED
    after = source._replace(
        health=health,
        last_failure=pending,
        last_error=first_line(f"{pending.get('exception_name', '')}: {pending.get('message', '')}")[:_MAX_TEXT],
        not_before=now + timedelta(seconds=probe_delay(health, rules)) if waits else source.not_before,
        pending=None,
    )
    changed = _source_change(source, after, now, str(after.last_error), outcome=str(health.state), attempts=0)
    return changed if changed.transition is not None else changed._replace(poll=None)


def _source_change(source: Source, after: Source, now: datetime, reason: str, **poll: Any) -> SourceChange:
    """Return a change with its history entry, and with a transition and an alert if the state changes."""
    before, state = source.state, after.state
    transition = None
    alerts: tuple[NewAlert, ...] = ()
    if before is not state:
        transition = Transition(source.id, source.url, before, state, after.consecutive_failures, reason)
        if state in _IN_TROUBLE:
            alerts = (NewAlert(_alert_key(source), str(state), _alert_title(after, state), reason),)
        elif before in _IN_TROUBLE:
            alerts = (NewAlert(_alert_key(source), None, f"{_source_title(after)}: {reason}"),)
    line = _poll_row(after, now, poll["outcome"], poll["attempts"], None, transition)
    return SourceChange(after, line._replace(http_status=poll.get("http_status")), transition, alerts)


def _health_after_success(source: Source, rules: SourceRules, now: datetime) -> SourceHealth:
    return source.health if _is_disabled_by_hand(source) else after_success(source.health, rules, now)


def _is_disabled_by_hand(source: Source) -> bool:
    """Return whether a source was disabled by hand: a poll that is in progress does not change that."""
    return source.health.disabled_by == "hand"


def _alert_title(source: Source, state: SourceState) -> str:
    since = source.health.failing_since
    if source.consecutive_failures == 0 and since is not None:
        return f"{_source_title(source)}: no success since {since:%Y-%m-%d}"
    what = "disabled" if state is SourceState.DISABLED else "in trouble"
    return f"{_source_title(source)}: {what} after {failures_in_a_row(source)}"


def failures_in_a_row(source: Source) -> str:
    """Return the number of a source's failures as text."""
    failures = source.consecutive_failures
    return "1 failure" if failures == 1 else f"{failures} failures in a row"


def _source_title(source: Source) -> str:
    return source.name or default_classifier().redact(source.url)


def _alert_key(source: Source) -> str:
    return f"source:{source.id}"


def _poll_row(
    source: Source,
    now: datetime,
    outcome: str,
    attempts: int,
    failure: Failure | None,
    transition: Transition | None = None,
) -> Poll:
    row = Poll(source.id, source.cycle, now, outcome, attempts)
    if failure is not None:
        error = _error_text(failure)
        row = row._replace(http_status=failure.http_status, category=str(failure.category), error=error)
    return row if transition is None else row._replace(before=transition.before, after=transition.after)


def _error_text(failure: Failure) -> str:
    return storable(first_line(f"{failure.exception_name}: {failure.message}"), _MAX_TEXT)


def _stored_failure(failure: Failure) -> dict[str, Any]:
    """Return a failure as it is stored."""
    kept = failure.replace(message=storable(failure.message, _MAX_TEXT)).to_dict()
    return {**kept, "exception_name": storable(failure.exception_name), "fingerprint": failure.fingerprint}


def _stored_validator(validator: str | None) -> str | None:
    """Return a validator if it can be sent again and is not too long."""
    return validator if validator is not None and len(validator) <= _MAX_TEXT and validator.isprintable() else None
