"""Nodes: functions that are steps of a pipeline, each with its own retries."""

from functools import partial

from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.run.retry import checked, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar, overload

    from outlast.decide.retry_on import RetryOn

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["node"]

_ONCE = RetryPolicy(max_attempts=1)


if TYPE_CHECKING:  # typing's overload is not loaded at run time

    @overload
    def node(function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def node(*, retry_policy: RetryPolicy | None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def node(*, retries: int | None = None, retry_on: RetryOn = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def node(function: Any = None, /, **settings: Any) -> Any:
        """Make a function a step of a pipeline."""

else:

    def node(function=None, /, *, retry_policy=None, retries=None, retry_on=None):  # noqa: ANN001, ANN201
        """Make a function or coroutine function a step of a pipeline, with retries of its own.

        Args:
            function: The function, when used without brackets; it is then called once.
            retry_policy: A whole policy.
            retries: Short for ``RetryPolicy(max_retries=…)``: calls in all; by default every Exception is retried.
            retry_on: With `retries`: what is retried.

        Raises:
            ConfigError: If a policy and its short form are both given, or the policy is none.
        """
        policy = _policy(retry_policy, retries, retry_on)
        if function is None:
            return partial(wrap, policy=policy, fallback=None)
        return wrap(function, policy, None)


def _policy(retry_policy: RetryPolicy | None, retries: int | None, retry_on: "RetryOn") -> RetryPolicy:
    if retry_policy is not None:
        if retries is not None or retry_on is not None:
            message = "give retry_policy, or retries and retry_on, not both"
            raise ConfigError(message)
        return checked(retry_policy)
    if retries is None:
        if retry_on is not None:
            message = "retry_on says what is retried, and retries how often; give retries too"
            raise ConfigError(message)
        return _ONCE
    return RetryPolicy(max_retries=retries, retry_on=retry_on)
