"""Observe mode: classify errors and report what a retry would have done, without changing anything."""

import functools
from functools import partial

from outlast import clock
from outlast.classify import MAX_RETRY_AFTER_SECONDS, classify
from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import Category
from outlast.record.bus import has_subscribers, publish
from outlast.run import logs
from outlast.run.loops import name_of
from outlast.run.report import was_retried_inside
from outlast.run.retry import check_policy, is_coroutine_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from outlast.failure import Failure

    Function = Callable[..., Any]


def checked_mode(mode: object) -> str:
    """Return ``act`` or ``observe``.

    Raises:
        ConfigError: If it is neither.
    """
    if mode == "act" or mode == "observe":  # noqa: PLR1714  # what is given may not be hashable
        return str(mode)
    message = f"mode is {mode!r}; choose act or observe"
    raise ConfigError(message)


def observe(function: "Any" = None, /, *, policy: RetryPolicy = DEFAULT_POLICY, name: str | None = None) -> "Any":
    """Have a function's errors judged by a policy that is not in force yet, as ``outlast.retry(mode="observe")`` does.

    The function is called once, as without the decorator, and its error is raised as it is. What the policy would have
    done is written to the log ``outlast.observe`` and told to subscribers as `Observed`.

    Args:
        function: The function or coroutine function, when used without brackets.
        policy: What decides; by default that of a bare ``@outlast.retry``.
        name: What it is called in logs and events; by default the function's name.
    """
    chosen = check_policy(policy)
    if function is None:
        return partial(_wrap_observed, policy=chosen, name=name)
    return _wrap_observed(function, chosen, name)


def _wrap_observed(function: "Function", policy: RetryPolicy, name: str | None) -> "Function":
    called = name or name_of(function)
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


def observed_decision(error: Exception, failure: "Failure", policy: RetryPolicy) -> tuple[str, float | None, str]:
    """Return what a policy would do after a first failure: ``retry``, ``defer`` or ``fail``; the wait; and why."""
    if not policy.nested and was_retried_inside(error, 0):
        return "fail", None, "nested"
    if not policy.retries(error):
        return "fail", None, "permanent"
    if policy.for_category(failure.category).max_attempts == 1:
        return "fail", None, "exhausted"
    delay = policy.delay_after(failure, 1, previous=None, chance=clock.chance)
    over = policy.deadline is not None and delay >= policy.deadline
    asked_to_wait = failure.retry_after is not None or failure.category is Category.RATE_LIMIT
    if failure.capped or (failure.retry_after or 0.0) > MAX_RETRY_AFTER_SECONDS or (over and asked_to_wait):
        return "defer", delay, "the wait is too long to sleep"
    if over:
        return "fail", None, "deadline"
    return "retry", delay, ""


def _publish_error(error: Exception, policy: RetryPolicy, name: str) -> None:
    """Tell what would be done. Nothing that goes wrong here reaches the program that is only observed."""
    try:
        failure = classify(error)
        publish_observed(name, failure, *observed_decision(error, failure, policy))
    except Exception as mistake:  # noqa: BLE001  # a predicate or a backoff of the user's
        logs.log_user_error("the policy", name, mistake)


def publish_observed(
    name: str, failure: "Failure", decision: str, delay: float | None = None, reason: str = ""
) -> None:
    """Tell log and subscribers what would have been done with a failure.

    Args:
        name: What failed: a function, a job or a profile.
        failure: What happened.
        decision: ``retry``, ``defer``, ``fail``, ``abort``, ``skip`` or ``disable``.
        delay: Seconds after which it would have been tried again, where it would.
        reason: Why, for people.
    """
    logs.log_observed(name, failure, decision, delay)
    if has_subscribers():
        from outlast.record.events import Observed  # noqa: PLC0415  # only subscribers need it

        publish(Observed(name, decision, delay, reason, failure))
