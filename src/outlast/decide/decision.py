"""What happens now: the decisions that worker, batch job and monitor act on, and how a worker's are made."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from outlast.decide.policy import RetryPolicy
from outlast.failure import Category, Failure

# What is told of something that went wrong, and when: first, changed, reminder, recovered.


class AlertKind(StrEnum):
    """What an alert says of the one before it on the same matter."""

    FIRST = "first"
    CHANGED = "changed"
    REMINDER = "reminder"
    RECOVERED = "recovered"


def next_alert_kind(open_state: str | None, state: str | None) -> AlertKind | None:
    """Decide what is told, if anything.

    Args:
        open_state: What was told last of the matter; None where it was never told of, or recovered since.
        state: What it is now; None for well.
    """
    if state is None:
        return None if open_state is None else AlertKind.RECOVERED
    if open_state is None:
        return AlertKind.FIRST
    return None if open_state == state else AlertKind.CHANGED


DEFER_LIMIT = 7 * 86400.0
"""Seconds for which a task may be put off before it is given up as expired."""
# Calls that we held back ourselves, and after how many seconds they are tried again where nothing better is known.
_OWN_REFUSALS = {
    "BreakerOpenError": 1.0,
    "ConcurrencyLimitError": 0.1,
    "CoolingDownError": 1.0,
    "ResourceUnavailableError": 1.0,
}
_QUEUE_JITTER = 0.1


@dataclass(frozen=True)
class Retry:
    """Try again after so many seconds; an attempt is spent."""

    delay: float


@dataclass(frozen=True)
class Defer:
    """Put it off for so many seconds; no attempt is spent."""

    delay: float


@dataclass(frozen=True)
class Fail:
    """Give this one up, for a reason: ``permanent``, ``exhausted`` or ``expired``."""

    reason: str


@dataclass(frozen=True)
class Abort:
    """Stop everything, for a reason."""

    reason: str


@dataclass(frozen=True)
class Skip:
    """Leave this one out, for a reason."""

    reason: str


Decision = Retry | Defer | Fail | Abort | Skip


def decide(  # noqa: PLR0913  # what is known of the task
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
    """Decide what becomes of a task whose attempt failed.

    What the other side asks to wait is waited for without spending an attempt, and so is what we held back ourselves.

    Args:
        failure: What happened.
        policy: The task's.
        attempt: Number of failed attempts, this one included.
        wanted: Whether the policy retries this kind of error.
        deferred_for: Seconds since the task was first put off.
        expires_in: Seconds after which it is not worth starting any more; None for never.
        own_time_spends: Whether a rate limit that an error of ours reports, with its time, spends an attempt. A worker
            with a loop of its own counts every error that it hands over.
        chance: Gives a random number in [0, 1); by default the system's.
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
    """Return the seconds to put a task off, or None where an attempt is spent."""
    asked = failure.retry_after
    if failure.exception_name in _OWN_REFUSALS:
        return asked or _OWN_REFUSALS[failure.exception_name]
    if failure.category is Category.QUOTA_EXHAUSTED:
        return asked
    instructed = failure.exact and (own_time_spends or failure.category is not Category.RATE_LIMIT)
    return asked if asked and not instructed else None


# What becomes of one target of a batch job that failed, and of the job.

ABORT_CATEGORIES = frozenset(
    {
        Category.ACCESS_DENIED,
        Category.AUTHENTICATION,
        Category.QUOTA_EXHAUSTED,
        Category.CONFIGURATION,
        Category.INTEGRITY,
    }
)
"""What every other target would meet with too, or what shows that something is wrong with the program."""
_EXHAUSTED_REASONS = frozenset({"exhausted", "deadline", "budget", "breaker"})


def decide_target(
    failure: Failure, *, reason: str, retry_in: float | None, aborts: bool = False
) -> Defer | Fail | Abort:
    """Decide on a target that gets no other attempt.

    Args:
        failure: The last one.
        reason: Why there is no other attempt, as in `Report`.
        retry_in: Seconds after which the other side may be asked again, where it said so.
        aborts: Whether its handler asks for the end of the job.
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
