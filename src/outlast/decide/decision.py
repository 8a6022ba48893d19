"""The decisions on a failed task, a failed job target and an alert."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from outlast.decide.policy import RetryPolicy
from outlast.failure import Category, Failure


class AlertKind(StrEnum):
    """How an alert relates to the previous one on the same subject."""

    FIRST = "first"
    CHANGED = "changed"
    REMINDER = "reminder"
    RECOVERED = "recovered"


def next_alert_kind(open_state: str | None, state: str | None) -> AlertKind | None:
    """Return the kind of alert to send; None for no alert.

    Args:
        open_state: The state in the last alert on the subject; None if there was none, or it has recovered since.
        state: The current state; None if all is well.
    """
    if state is None:
        return None if open_state is None else AlertKind.RECOVERED
    if open_state is None:
        return AlertKind.FIRST
    return None if open_state == state else AlertKind.CHANGED


DEFER_LIMIT = 7 * 86400.0
"""Seconds for which a task may be deferred before it fails as expired."""
# Calls that Outlast itself refused, with the seconds to defer them if the error names no time.
_OWN_REFUSALS = {
    "BreakerOpenError": 1.0,
    "ConcurrencyLimitError": 0.1,
    "CoolingDownError": 1.0,
    "ResourceUnavailableError": 1.0,
}
_QUEUE_JITTER = 0.1


@dataclass(frozen=True)
class Retry:
    """Retry after `delay` seconds; this uses an attempt."""

    delay: float


@dataclass(frozen=True)
class Defer:
    """Defer for `delay` seconds; this uses no attempt."""

    delay: float


@dataclass(frozen=True)
class Fail:
    """Give up, for a reason: ``permanent``, ``exhausted`` or ``expired``."""

    reason: str


@dataclass(frozen=True)
class Abort:
    """Stop everything, for a reason."""

    reason: str


@dataclass(frozen=True)
class Skip:
    """Skip, for a reason."""

    reason: str


Decision = Retry | Defer | Fail | Abort | Skip


def decide(  # noqa: PLR0913  # the facts about the task
    failure: Failure,
    policy: RetryPolicy,
    *,
    attempt: int,
    wanted: bool,
    deferred_for: float = 0.0,
    expires_in: float | None = None,
    own_time_spends: bool = False,
    chance: Callable[[], float] | None = None,
) -> Retry | Defer | Fail:
    """Decide what to do with a task after a failed attempt.

    A wait that the server asks for uses no attempt; neither does a call that Outlast itself refused.

    Args:
        failure: What happened.
        policy: The task's policy.
        attempt: Number of failed attempts, including this one.
        wanted: Whether the policy retries this kind of error.
        deferred_for: Seconds since the task was first deferred.
        expires_in: Seconds until the task expires; None for never.
        own_time_spends: Whether a `RateLimitError` raised by user code with its own `retry_after` uses an attempt. A
            worker with its own loop counts every error that it hands over.
        chance: Returns a random number in [0, 1); by default the system's.
    """
    wait = _deferral_seconds(failure, own_time_spends=own_time_spends)
    if wait is not None and (wanted or failure.category is Category.QUOTA_EXHAUSTED):
        left = DEFER_LIMIT - deferred_for if expires_in is None else expires_in
        return Fail("expired") if wait > left else Defer(wait)
    if not wanted:
        return Fail("permanent")
    if attempt >= policy.for_category(failure.category).max_attempts:
        return Fail("exhausted")
    spread = policy if policy.jitter is not None else policy.replace(jitter=_QUEUE_JITTER)
    delay = spread.delay_after(failure, attempt, chance=chance)
    return Fail("expired") if expires_in is not None and delay > expires_in else Retry(delay)


def _deferral_seconds(failure: Failure, *, own_time_spends: bool) -> float | None:
    """Return the seconds to defer a task, or None if the failure uses an attempt."""
    requested = failure.retry_after
    if failure.exception_name in _OWN_REFUSALS:
        return requested or _OWN_REFUSALS[failure.exception_name]
    if failure.category is Category.QUOTA_EXHAUSTED:
        return requested
    instructed = failure.exact and (own_time_spends or failure.category is not Category.RATE_LIMIT)
    return requested if requested and not instructed else None


ABORT_CATEGORIES = frozenset(
    {
        Category.ACCESS_DENIED,
        Category.AUTHENTICATION,
        Category.QUOTA_EXHAUSTED,
        Category.CONFIGURATION,
        Category.INTEGRITY,
    }
)
"""Failures that every other target would meet too, or that show a mistake in the program."""
_EXHAUSTED_REASONS = frozenset({"exhausted", "deadline", "budget", "breaker"})


def decide_target(
    failure: Failure, *, reason: str, retry_in: float | None, aborts: bool = False
) -> Defer | Fail | Abort:
    """Decide what to do with a job target that gets no further attempt.

    Args:
        failure: The last failure.
        reason: Why there is no further attempt, as in `Report`.
        retry_in: Seconds after which the server may be called again, if it said so.
        aborts: Whether the handler asked to stop the job.
    """
    if aborts:
        return Abort(failure.message or failure.exception_name)
    if failure.category is Category.QUOTA_EXHAUSTED and retry_in is not None:
        return Defer(retry_in)
    if failure.category in ABORT_CATEGORIES:
        return Abort(f"{failure.category}: {failure.exception_name}: {failure.message}"[:500])
    if reason == "deferred" and retry_in is not None:
        return Defer(retry_in)
    return Fail("exhausted" if reason in _EXHAUSTED_REASONS else "permanent")
