"""The public retry functions: `retry`, `call`, `with_policy`, `no_retries` and `current_attempt`."""

from contextvars import ContextVar
from functools import partial

from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy, is_function
from outlast.errors import ConfigError
from outlast.run.call_state import RETRIES_OFF
from outlast.run.loops import name_of, wrapped_async, wrapped_sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

    from outlast.decide.settings import PolicySettings

    P = ParamSpec("P")
    R = TypeVar("R")


_SETTINGS = {*RetryPolicy._fields, "max_retries"}  # the names of its fields are its settings
# Flags of code objects, as `inspect` names them; importing it would double the cost of importing Outlast.
_GENERATOR, _COROUTINE, _ITERABLE_COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200


if TYPE_CHECKING:  # typing's overload is not loaded at run time
    Fallback = Callable[[Exception], Any] | None
    RetryResult = Callable[[Any], bool | float | timedelta] | None

    class RetryOptions(TypedDict, total=False):
        """What `retry` takes besides a policy."""

        fallback: Fallback
        retry_result: RetryResult
        mode: str

    class RetrySettings(PolicySettings, RetryOptions, total=False):
        """What `retry` takes without a policy."""

    @overload
    def retry(
        function: Callable[P, R], /, *, policy: RetryPolicy | None, **options: Unpack[RetryOptions]
    ) -> Callable[P, R]: ...
    @overload
    def retry(function: Callable[P, R], /, **settings: Unpack[RetrySettings]) -> Callable[P, R]: ...
    @overload
    def retry(
        policy: RetryPolicy, /, **options: Unpack[RetryOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def retry(
        *, policy: RetryPolicy | None, **options: Unpack[RetryOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def retry(**settings: Unpack[RetrySettings]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def retry(function: Any = None, /, **settings: Any) -> Any:
        """Retry a function as the policy says."""

else:

    def retry(function=None, /, *, policy=None, fallback=None, retry_result=None, mode="act", **settings):  # noqa: ANN001, ANN003, ANN201
        """Retry a function as the policy says, and raise its last error when the policy gives up.

        Without arguments it retries errors that the classifier calls retryable: 5 attempts with exponential backoff
        from 0.5 s to 30 s, full jitter, and a deadline of 60 s. A rate limit without a hint waits 1 s longer.

        Args:
            function: The function or coroutine function, if used without parentheses; or the policy.
            policy: A policy. Do not give `settings` then.
            fallback: Called with the error that would be raised. Its return value is returned instead.
            retry_result: Called with each returned value. It returns False to accept the value, True to retry, or the
                seconds to wait. If there is no further attempt, the last value is returned.
            mode: ``act``, or ``observe`` to call once and report what a retry would have done.
            settings: Settings of a `RetryPolicy` that differ from the defaults of ``@outlast.retry``.
        """
        if isinstance(function, RetryPolicy):
            if policy is not None:
                raise ConfigError("the policy is given twice, positionally and by name")
            function, policy = None, function
        if function is not None and not callable(function) and not isinstance(function, classmethod):
            raise ConfigError(
                f"retry() got {function!r}; give a function, a policy such as retry(outlast.preset('blog')), or "
                "settings by name such as retry(max_attempts=5)"
            )
        chosen = pick_policy(policy, settings)
        if mode != "act":
            if retry_result is not None:
                raise ConfigError("retry_result cannot be observed, only errors can; leave out retry_result or mode")
            from outlast.run.observe_mode import observe  # noqa: PLC0415  # few need it, and it needs this module

            return observe(function, chosen, mode)
        if function is None:
            return partial(wrap, policy=chosen, fallback=fallback, retry_result=retry_result)
        return wrap(function, chosen, fallback, retry_result)


def call(
    function: "Callable[..., R]",
    /,
    *args: "Any",
    policy: RetryPolicy | None = None,
    retry_result: "RetryResult" = None,
    **kwargs: "Any",
) -> "R":
    """Call a function once with a policy: ``outlast.call(fetch, url, policy=…)``.

    Args:
        function: A function, or a coroutine function; then await the result.
        args: The arguments of the function.
        policy: The policy; by default that of a bare ``@outlast.retry``, with up to five calls.
        retry_result: Says which returned values are retried, as in `retry`.
        kwargs: The keyword arguments of the function.
    """
    chosen = DEFAULT_POLICY if policy is None else check_policy(policy)
    result: R = wrap(function, chosen, None, retry_result)(*args, **kwargs)
    return result


def with_policy(
    function: "Callable[P, R]", policy: RetryPolicy | None = None, /, **changes: "Unpack[PolicySettings]"
) -> "Callable[P, R]":
    """Return a decorated function with another policy: ``outlast.with_policy(fetch, max_attempts=2)(url)``.

    Args:
        function: A function decorated with `retry` or `node`.
        policy: The other policy.
        changes: Settings that differ from its current policy.

    Raises:
        ConfigError: If the function is not decorated, or the policy is not valid.
    """
    inner: Any = getattr(function, "__wrapped__", None)
    own: RetryPolicy | None = getattr(function, "__outlast_policy__", None)
    if inner is None or own is None:
        raise ConfigError(f"{name_of(function)} is not decorated with a policy")
    bound = getattr(function, "__self__", None)
    chosen = own if policy is None else check_policy(policy)
    given = (getattr(function, name, None) for name in ("__outlast_fallback__", "__outlast_retry_result__"))
    changed = wrap(inner, chosen.replace(**changes), *given)
    return changed if bound is None else changed.__get__(bound)


_no_retry_tokens: "ContextVar[int]" = ContextVar("outlast_no_retries", default=0)
"""How many blocks of `no_retries` this thread or task is in; an instance keeps nothing, and so serves many at once."""


class no_retries:  # noqa: N801  # a context manager is named like a function
    """Switch retries off within a block: ``with outlast.no_retries(): …`` makes every call once.

    It applies to the thread or task that enters it, and to tasks started inside. An instance can be reused, nested, and
    shared by several threads and tasks.
    """

    def __enter__(self) -> None:
        """Switch retries off."""
        _no_retry_tokens.set(_no_retry_tokens.get() + 1)
        RETRIES_OFF.set(True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Put things back as they were: off inside an outer block, else on."""
        left = max(
            0, _no_retry_tokens.get() - 1
        )  # a block that was entered in another context is not counted in this one
        _no_retry_tokens.set(left)
        RETRIES_OFF.set(left > 0)


def pick_policy(
    policy: RetryPolicy | None, settings: "dict[str, Any]", default: RetryPolicy = DEFAULT_POLICY
) -> RetryPolicy:
    """Return a policy that is given as such or by its settings.

    Args:
        policy: The policy.
        settings: Settings that differ from the default.
        default: The policy without both.

    Raises:
        ConfigError: If both are given, or one is not valid.
    """
    unknown = [name for name in settings if name not in _SETTINGS]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is not a setting of a policy; choose from: {', '.join(sorted(_SETTINGS))}")
    if policy is None:
        if "overrides" in settings:  # those of the default stay for categories that are not named
            given = RetryPolicy(overrides=settings["overrides"])  # checks them
            settings["overrides"] = {**_given_overrides(default), **_given_overrides(given)}
        if settings.get("max_attempts", ...) is None:
            del settings["max_attempts"]
        return default.replace(**settings) if settings else default
    if settings:
        raise ConfigError("give a policy or its settings, not both")
    return check_policy(policy)


def _given_overrides(policy: RetryPolicy) -> "dict[Any, Any]":
    """Return the overrides as they were given: those that are settings follow a change of the policy."""
    given: dict[Any, Any] = policy.__dict__["_overrides"]
    return given


def check_policy(policy: object, about: str = "") -> RetryPolicy:
    """Return a policy.

    Raises:
        ConfigError: If it is not a policy; the message starts with `about`.
    """
    if isinstance(policy, RetryPolicy):
        return policy
    name = policy if isinstance(policy, str) else "NAME"
    raise ConfigError(
        f"{about}policy is {policy!r}; give a RetryPolicy, a preset such as outlast.preset('etl'), or a policy of "
        f"outlast.toml: outlast.configure().policies[{name!r}]"
    )


def wrap(
    function: "Callable[..., Any]", policy: RetryPolicy, fallback: "Fallback", retry_result: "RetryResult" = None
) -> "Callable[..., Any]":
    """Wrap a function of whatever kind it is."""
    if isinstance(function, staticmethod | classmethod):
        return type(function)(wrap(function.__func__, policy, fallback, retry_result))
    thing: object = function
    other: object = fallback
    if other is not None and not callable(other):
        raise ConfigError(f"fallback is {other!r}; give a function that takes the error")
    if retry_result is not None and (not is_function(retry_result) or _flags(retry_result) & _COROUTINE):
        raise ConfigError(f"retry_result is {retry_result!r}; give a plain function that takes the returned value")
    if isinstance(thing, type) or not callable(thing):
        raise ConfigError(f"{function!r} cannot be retried; decorate a function, a method or a coroutine function")
    flags = _flags(function)
    if flags & (_GENERATOR | _ASYNC_GENERATOR) and not flags & _ITERABLE_COROUTINE:
        raise ConfigError(
            f"{name_of(function)} is a generator; retrying it would repeat items already delivered; "
            "return a list, or retry inside it"
        )
    wrapper = (wrapped_async if flags & _COROUTINE else wrapped_sync)(function, policy, fallback, retry_result)
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]  # functools sets it for functions alone
    wrapper.__outlast_policy__ = policy  # type: ignore[attr-defined]  # with_policy reads it
    wrapper.__outlast_fallback__ = fallback  # type: ignore[attr-defined]  # and this
    wrapper.__outlast_retry_result__ = retry_result  # type: ignore[attr-defined]  # and this
    return wrapper


def is_coroutine_function(function: "Callable[..., Any]") -> bool:
    """Return whether a call returns a coroutine: of a function, a partial or an object with ``__call__``."""
    return bool(_flags(function) & _COROUTINE)


def _flags(function: "Any") -> int:
    """Return the flags of the code behind a function, a partial, a bound method or an object with ``__call__``."""
    for _ in range(16):
        if isinstance(function, partial):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif hasattr(function, "__code__"):
            flags: int = function.__code__.co_flags
            return flags
        else:
            function = type(function).__call__  # an object that can be called
    return 0
