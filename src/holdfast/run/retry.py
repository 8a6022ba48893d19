"""The `retry` decorator: call again what the policy wants called again."""

import functools

from holdfast import clock
from holdfast.classify import classify
from holdfast.decide.policy import DEFAULT_POLICY, RetryPolicy
from holdfast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar, overload

    from holdfast.decide.policy import RetryOn

    P = ParamSpec("P")
    R = TypeVar("R")

    @overload
    def retry(function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def retry(
        *, policy: RetryPolicy | None = None, max_attempts: int | None = None, retry_on: RetryOn = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


__all__ = ["retry"]

# Flags of code objects, as `inspect` names them; importing it would double the cost of importing Holdfast.
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def retry(  # type: ignore[no-redef]  # the overloads above are for type checkers alone
    function: "Callable[..., Any] | None" = None,
    /,
    *,
    policy: RetryPolicy | None = None,
    max_attempts: int | None = None,
    retry_on: "RetryOn" = None,
) -> "Any":
    """Call a function again while the policy says so; raise its last error when it no longer does.

    Bare, it retries what the classifier calls retryable: 5 attempts, waits doubling from 0.5 s to at most 30 s.

    Args:
        function: The function or coroutine function, when used without brackets.
        policy: A whole policy; the other arguments are then not allowed.
        max_attempts: Calls in all, the first one included.
        retry_on: What is retried; see `RetryPolicy`.
    """
    if policy is not None and (max_attempts is not None or retry_on is not None):
        message = "give a policy or its settings, not both"
        raise ConfigError(message)
    chosen = policy or RetryPolicy(
        max_attempts=max_attempts if max_attempts is not None else DEFAULT_POLICY.max_attempts,
        retry_on=DEFAULT_POLICY.retry_on if retry_on is None else retry_on,
        backoff=DEFAULT_POLICY.backoff,
        base_delay=DEFAULT_POLICY.base_delay,
        max_delay=DEFAULT_POLICY.max_delay,
    )
    return functools.partial(_wrap, policy=chosen) if function is None else _wrap(function, chosen)


def _wrap(function: "Callable[..., Any]", policy: RetryPolicy) -> "Callable[..., Any]":
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & (_GENERATOR | _ASYNC_GENERATOR):
        message = f"{function.__qualname__} is a generator; retrying it would repeat items already delivered"
        raise ConfigError(message)
    return _async_wrapper(function, policy) if flags & _COROUTINE else _sync_wrapper(function, policy)


def _sync_wrapper(function: "Callable[..., Any]", policy: RetryPolicy) -> "Callable[..., Any]":
    @functools.wraps(function)
    def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return function(*args, **kwargs)
        except Exception as error:
            wait = _wait(policy, error, 1)
        for attempt in range(2, policy.max_attempts + 1):
            if wait:
                clock.sleep(wait)
            try:
                return function(*args, **kwargs)
            except Exception as error:
                wait = _wait(policy, error, attempt)
        raise AssertionError  # pragma: no cover  # _wait raises on the last attempt

    return wrapper


def _async_wrapper(function: "Callable[..., Any]", policy: RetryPolicy) -> "Callable[..., Any]":
    @functools.wraps(function)
    async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
        from asyncio import sleep  # noqa: PLC0415  # whoever awaits has it loaded already

        for attempt in range(1, policy.max_attempts + 1):
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                wait = _wait(policy, error, attempt)
            if wait:
                await sleep(wait)
        raise AssertionError  # pragma: no cover  # _wait raises on the last attempt

    return wrapper


def _wait(policy: RetryPolicy, error: Exception, attempt: int) -> float:
    """Return how long to wait for the next attempt, or raise the error if there is none."""
    if not policy.should_retry(error, attempt):
        raise error
    return policy.delay_after(classify(error), attempt)
