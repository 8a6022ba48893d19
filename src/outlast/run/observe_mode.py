"""Observe mode: classify errors and report what a retry would have done, without changing anything."""

import functools
from functools import partial

from outlast import clock
from outlast.classify import failure_of
from outlast.decide.decision import Abort, Decision, DecisionState, Defer, Fail, Place, Retry, Skip, decide
from outlast.decide.policy import RetryPolicy
from outlast.errors import AbortJob, ConfigError, SkipTarget
from outlast.record import bus
from outlast.record.bus import publish
from outlast.record.log_text import failure_line
from outlast.run import logs
from outlast.run.loops import name_of
from outlast.run.report import was_retried_inside
from outlast.run.retry import is_coroutine_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from outlast.failure import Failure


def checked_mode(mode: object) -> str:
    """Return ``act`` or ``observe``.

    Raises:
        ConfigError: If it is neither.
    """
    if mode == "act" or mode == "observe":  # noqa: PLR1714  # what is given may not be hashable
        return str(mode)
    raise ConfigError(f"mode is {mode!r}; choose act or observe")


def observe(function: "Any", policy: RetryPolicy, mode: object) -> "Any":
    """Return the function for ``outlast.retry(mode="observe")``; a decorator for None.

    The function is called once, as without the decorator, and its error is raised unchanged. What the policy would have
    done is logged to ``outlast.observe`` and published as `Observed`.

    Raises:
        ConfigError: If the mode does not exist.
    """
    checked_mode(mode)
    if function is None:
        return partial(observe, policy=policy, mode=mode)
    called = name_of(function)
    if is_coroutine_function(function):

        @functools.wraps(function)
        async def wrapper_async(*args: "Any", **kwargs: "Any") -> "Any":
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                _publish_error(error, policy, called)
                raise

        return wrapper_async

    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return function(*args, **kwargs)
        except Exception as error:
            _publish_error(error, policy, called)
            raise

    return wrapper


def first_decision(
    name: str, error: BaseException, failure: "Failure", policy: RetryPolicy, place: Place = Place.CALL
) -> Decision:
    """Return what a policy would decide about the first failed attempt.

    Args:
        name: What failed, for the log.
        error: The error of the attempt.
        failure: The classified error.
        policy: The policy.
        place: Where the attempt was made.
    """
    state = DecisionState(
        place=place,
        time_left=policy.deadline,
        nested=was_retried_inside(error, 0),
        skips=issubclass(type(error), SkipTarget),
        aborts=issubclass(type(error), AbortJob),
        chance=clock.chance,
        on_broken=lambda what, mistake: logs.log_user_error(what, name, mistake),
    )
    state.ask_policy(policy, error, failure)
    return decide(failure, policy, state)


def _publish_error(error: Exception, policy: RetryPolicy, name: str) -> None:
    """Publish what would be done. No mistake in the policy reaches the program that is only observed."""
    try:
        failure = failure_of(error)
        publish_observed(name, failure, *would_do(first_decision(name, error, failure, policy), failure))
    except Exception as mistake:  # noqa: BLE001  # a backoff of the user's, for instance
        logs.log_user_error("the policy", name, mistake)


def would_do(decision: Decision, failure: "Failure") -> tuple[str, float | None, str]:
    """Return a decision as a verb (retry, defer, fail, abort or skip), the wait in seconds, and the reason."""
    match decision:
        case Retry(delay):
            return "retry", delay, ""
        case Defer(delay):
            return "defer", delay, "the wait is too long to sleep"
        case Abort():
            return "abort", None, failure_line(failure)
        case Skip():
            return "skip", None, failure.message
        case Fail(reason):
            return "fail", None, str(reason)


def publish_observed(
    name: str, failure: "Failure", decision: str, delay: float | None = None, reason: str = ""
) -> None:
    """Log and publish what would have been done about a failure.

    Args:
        name: What failed: a function, a job or a profile.
        failure: The classified error.
        decision: ``retry``, ``defer``, ``fail``, ``abort``, ``skip`` or ``disable``.
        delay: Seconds after which it would have been tried again.
        reason: Why.
    """
    logs.log_observed(name, failure, decision, delay)
    if bus.subscribers:
        from outlast.record.events import Observed  # noqa: PLC0415  # only subscribers need it

        publish(Observed(name, decision, delay, reason, failure.settled()))
