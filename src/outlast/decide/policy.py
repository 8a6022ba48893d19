"""`RetryPolicy`: how many attempts, how long to wait, for which failures."""

from types import MappingProxyType

from outlast import clock
from outlast.classify import failure_of
from outlast.decide.backoff import (
    add_jitter,
    check_backoff,
    check_count,
    check_flag,
    check_jitter,
    check_seconds,
    delay_before,
    short_repr,
)
from outlast.errors import ConfigError, PermanentError
from outlast.failure import RETRYABLE, Category, Frozen

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import timedelta
    from typing import Any, Self, Unpack

    from outlast.decide.backoff import Backoff, Jitter
    from outlast.decide.schedule import Schedule
    from outlast.decide.settings import PolicySettings
    from outlast.failure import Failure

    RetryOn = (
        type[BaseException]
        | Sequence[type[BaseException] | str]
        | AbstractSet[str]
        | str
        | Callable[[Exception], bool | float | timedelta]
        | None
    )
    """Exception types, categories or their names, a function, or None for what the classifier calls retryable.

    The function gets the error and returns a verdict: True to retry, False to give up, or the seconds to wait.
    """


def _is_not_permanent(error: BaseException) -> bool:
    return issubclass(type(error), Exception) and not issubclass(type(error), PermanentError)


NODE_RETRY_ON: "RetryOn" = _is_not_permanent
"""What `node` and `RetryPolicy.should_retry` retry without `retry_on`: every Exception except `PermanentError`."""


def verdict_on(
    retry_on: "RetryOn", error: BaseException, failure: "Failure | None" = None
) -> tuple[bool, float | None]:
    """Return whether `retry_on` includes an error, and the seconds to wait if a function says so, else None.

    It never includes a BaseException that is not an Exception.

    Args:
        retry_on: In one of its forms; None is what the classifier calls retryable.
        error: The error.
        failure: The classified error, if it is known.

    Raises:
        ConfigError: If a function returns something that is not a verdict.
    """
    kind = type(error)  # not isinstance: it would ask the error for its __class__
    if not issubclass(kind, Exception):
        return False, None
    if isinstance(retry_on, tuple) and retry_on and isinstance(retry_on[-1], frozenset):  # classes, then categories
        is_listed = issubclass(kind, retry_on[:-1])
        return (True, None) if is_listed else verdict_on(retry_on[-1], error, failure)
    if isinstance(retry_on, type | tuple):
        return issubclass(kind, retry_on), None
    if retry_on is None or isinstance(retry_on, frozenset):
        failure = failure or failure_of(error)
        asks_retryable = retry_on is None or retry_on is RETRYABLE or retry_on == RETRYABLE
        return (failure.retryable if asks_retryable else failure.category in retry_on), None  # type: ignore[operator]  # a set
    return check_verdict(retry_on, retry_on(error))  # type: ignore[operator, arg-type]  # a function, as check_retry_on ensured


def check_verdict(function: object, verdict: object) -> tuple[bool, float | None]:
    """Return whether a function said to retry, and the seconds to wait if it returned them, else None.

    Raises:
        ConfigError: If what it returned is not True, False or a time that is not negative.
    """
    if verdict is True or verdict is False:
        return verdict, None
    try:
        return True, min(float(check_seconds("verdict", verdict)), _LONGEST_WAIT)
    except ConfigError:
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        raise ConfigError(
            f"{name} returned {short_repr(verdict)}; return True to retry, False to give up, or the wait: seconds or a "
            "timedelta, 0 or more"
        ) from None


def matches(retry_on: "RetryOn", error: BaseException, failure: "Failure | None" = None) -> bool:
    """Return whether `retry_on` includes an error; `verdict_on` describes the arguments."""
    return verdict_on(retry_on, error, failure)[0]


def check_retry_on(retry_on: "RetryOn", name: str = "retry_on") -> "RetryOn":
    """Return `retry_on` in the form that `verdict_on` takes.

    Raises:
        ConfigError: If it is not in one of the valid forms.
    """
    checked: Any = retry_on
    if isinstance(checked, tuple | list):
        kinds = tuple(each for each in checked if _is_exception_class(each))
        names = [each for each in checked if isinstance(each, str)]
        if len(kinds) + len(names) < len(checked):
            raise ConfigError(f"{name} is {checked!r}; in a list give exception classes and names of categories")
        categories = frozenset(map(Category.parse, names))
        mixed: Any = (*kinds, categories)
        return (mixed if kinds else categories) if categories else kinds
    if isinstance(checked, str):
        return frozenset({Category.parse(checked)})
    if isinstance(checked, set | frozenset) and checked is not RETRYABLE:
        return frozenset(Category.parse(each) for each in checked)
    if checked is None or checked is RETRYABLE or _is_exception_class(checked) or is_function(checked):
        return retry_on
    raise ConfigError(
        f"{name} is {checked!r}; give exception classes, a set of categories, outlast.RETRYABLE or a function"
    )


def _is_exception_class(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)


def is_function(thing: object) -> bool:
    """Return whether something can be called and is not a class."""
    return callable(thing) and not isinstance(thing, type)


_DEFAULT_ATTEMPTS = 3
_LONGEST_WAIT = 10 * 365 * 86400.0  # seconds; no date overflows
RATE_LIMIT_WAIT = 1.0
"""Seconds added to the backoff after a rate limit without a hint."""
_CALL_SETTINGS = {"retry_on", "deadline", "attempt_timeout", "overrides", "resource", "nested"}
OVERRIDE_SETTINGS = ("backoff", "base_delay", "jitter", "max_attempts", "max_delay", "max_retries")
"""The settings of an override."""


class RetryPolicy(Frozen):
    """How many attempts, how long to wait, for which failures. Immutable and safe to share.

    Its defaults are 3 attempts with a fixed wait of 1 s and no deadline. ``@outlast.retry`` has others: 5 attempts,
    exponential from 0.5 s to 30 s with full jitter, within 60 s.

    Attributes:
        max_attempts: Maximum number of calls, including the first; at least 1.
        retry_on: What is retried: exception types, categories, a list of both, or a function of the error that returns
            True, False or the wait in seconds. None, the default, means what the classifier calls retryable
            (`RETRYABLE`); `()` retries nothing.
        backoff: ``"fixed"``, ``"linear"`` (base · n), ``"exponential"`` (base · 2^(n-1)), or a function of n.
        base_delay: Seconds before the first retry.
        max_delay: Maximum wait in seconds; a server may ask for a longer one.
        jitter: ``"none"``, ``"full"``, ``"equal"``, ``"decorrelated"``, a fraction, or None for the default: none in
            process, 0.1 in the queue.
        deadline: Seconds for all attempts and waits together; None for no limit.
        attempt_timeout: Seconds for one attempt: an async one is cancelled, a sync one can read the time left.
        overrides: Policies by category, read-only; their waits and attempts apply to failures of that category.
        resource: Name of the resource that is called; its breaker, budget and limits apply.
        nested: Whether errors that an inner retry gave up on are retried again.
    """

    max_attempts: int
    retry_on: "RetryOn"
    backoff: "Backoff"
    base_delay: float
    max_delay: float
    jitter: "Jitter"
    deadline: float | None
    attempt_timeout: float | None
    overrides: "Mapping[Category, RetryPolicy]"
    resource: str | None
    nested: bool

    def __init__(  # noqa: PLR0913  # the settings
        self,
        *,
        max_attempts: int | None = None,
        max_retries: int | None = None,
        retry_on: "RetryOn" = None,
        backoff: "Backoff" = "fixed",
        base_delay: "float | timedelta" = 1.0,
        max_delay: "float | timedelta" = 60.0,
        jitter: "Jitter" = None,
        deadline: "float | timedelta | None" = None,
        attempt_timeout: "float | timedelta | None" = None,
        overrides: "Mapping[Any, RetryPolicy | Mapping[str, Any]] | None" = None,
        resource: str | None = None,
        nested: bool = False,
    ) -> None:
        """Check the settings.

        Args:
            max_attempts: Maximum number of calls, including the first (default 3).
            max_retries: Older name of `max_attempts`: it counts calls too, and 0 and 1 both mean one call. Give only
                one of the two.
            retry_on: What is retried.
            backoff: How waits grow.
            base_delay: Seconds before the first retry.
            max_delay: Maximum wait in seconds.
            jitter: How waits are randomised.
            deadline: Seconds for all attempts and waits together.
            attempt_timeout: Seconds for one attempt.
            overrides: A policy, or the settings that differ, by category.
            resource: Name of the resource that is called.
            nested: Whether errors that an inner retry gave up on are retried again.

        Raises:
            ConfigError: If a setting is not valid; it is a ValueError, and its message names the valid choices.
        """
        self.__dict__.update(
            max_attempts=_check_attempts(max_attempts, max_retries),
            retry_on=check_retry_on(retry_on),
            backoff=check_backoff(backoff),
            base_delay=check_seconds("base_delay", base_delay),
            max_delay=check_seconds("max_delay", max_delay),
            jitter=check_jitter(jitter),
            deadline=None if deadline is None else check_seconds("deadline", deadline),
            attempt_timeout=None if attempt_timeout is None else check_seconds("attempt_timeout", attempt_timeout),
            resource=_check_resource(resource),
            nested=check_flag("nested", nested),
            overrides=MappingProxyType({}),
            _overrides=_check_overrides(overrides),
        )
        self.__dict__["overrides"] = MappingProxyType(
            {category: self._override(changes) for category, changes in self.__dict__["_overrides"].items()}
        )

    def replace(self, **changes: "Unpack[PolicySettings]") -> "Self":  # type: ignore[override]  # only its own settings
        """Return a copy with some settings changed.

        Overrides given as settings, such as those of presets, inherit the changes. A new jitter replaces theirs.
        """
        settings: dict[str, Any] = {name: getattr(self, name) for name in self._fields}
        settings["overrides"] = self.__dict__["_overrides"]
        if "jitter" in changes:
            settings["overrides"] = {
                category: each if isinstance(each, RetryPolicy) else {**each, "jitter": changes["jitter"]}
                for category, each in settings["overrides"].items()
            }
        if "max_retries" in changes:
            del settings["max_attempts"]
        settings.update(changes)
        return type(self)(**settings)

    def _override(self, override: "RetryPolicy | Mapping[str, Any]") -> "RetryPolicy":
        if isinstance(override, RetryPolicy):
            return override
        for name in override:
            if name in _CALL_SETTINGS:
                raise ConfigError(f"{name} applies to the whole call; an override can only set attempts and waits")
            if name not in OVERRIDE_SETTINGS:
                raise ConfigError(
                    f"{name!r} is not a setting of an override; choose from: {', '.join(OVERRIDE_SETTINGS)}"
                )
        changes: dict[str, Any] = {**override, "overrides": {}}
        return self.replace(**changes)

    def __hash__(self) -> int:
        """Hash the fields."""
        plain = (getattr(self, name) for name in self._fields if name != "overrides")
        return hash((*plain, frozenset(self.overrides.items())))

    def __repr__(self) -> str:
        """Show the fields."""
        fields = {name: getattr(self, name) for name in self._fields} | {"overrides": dict(self.overrides)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"

    def __getstate__(self) -> "dict[str, Any]":
        """Return the state for pickle and copy; a read-only mapping cannot be pickled."""
        return self.__dict__ | {"overrides": dict(self.overrides)}

    def __setstate__(self, state: "dict[str, Any]") -> None:
        """Restore the state."""
        self.__dict__.update(state, overrides=MappingProxyType(state["overrides"]))

    @property
    def max_retries(self) -> int:
        """Older name of `max_attempts`."""
        return self.max_attempts

    def should_retry(self, error: BaseException, attempt: int) -> bool:
        """Return whether to make another attempt after an error.

        Without `retry_on`, this retries every Exception except `PermanentError`, as `node` does. ``@outlast.retry``
        does not: it retries what the classifier calls retryable.

        Args:
            error: What was raised.
            attempt: Number of the attempt that failed, from 1.
        """
        if not matches(NODE_RETRY_ON if self.retry_on is None else self.retry_on, error):
            return False
        chosen = self.for_category(failure_of(error).category) if self.overrides else self
        return attempt < chosen.max_attempts

    def retries(self, error: BaseException, failure: "Failure | None" = None) -> bool:
        """Return whether this kind of error is retried. A BaseException that is not an Exception never is.

        Args:
            error: What was raised.
            failure: The classified error, if it is known.
        """
        return matches(self.retry_on, error, failure)

    def for_category(self, category: Category) -> "RetryPolicy":
        """Return the policy whose waits and attempts apply to failures of a category."""
        return self.overrides.get(category, self)

    def get_delay(
        self, attempt: int, *, previous: float | None = None, chance: "Callable[[], float] | None" = None
    ) -> float:
        """Return the seconds to wait after a failed attempt.

        Args:
            attempt: Number of the attempt that failed, from 1.
            previous: The wait before the attempt, which decorrelated jitter uses.
            chance: Returns a random number in [0, 1); by default the system's, or the test clock's.
        """
        return self._jittered(attempt, self.jitter, previous, chance)

    def delay_after(
        self,
        failure: "Failure",
        attempt: int,
        *,
        previous: float | None = None,
        chance: "Callable[[], float] | None" = None,
        unset_jitter: float | None = None,
    ) -> float:
        """Return the seconds to wait after a failure.

        A wait that the server asks for is a lower bound, and jitter only adds to it; an override for the category
        applies only if the server asked for no wait. The `retry_after` of Outlast's own errors is used unchanged. A
        rate limit without a hint waits 1 s plus the backoff, within `max_delay`, unless an override says otherwise.

        Args:
            failure: What happened.
            attempt: Number of the attempt that failed, from 1.
            previous: The wait before the attempt.
            chance: Returns a random number in [0, 1).
            unset_jitter: The jitter to use if the policy sets none.
        """
        requested = failure.retry_after
        if requested is None:
            chosen = self.for_category(failure.category)
            jitter = unset_jitter if chosen.jitter is None else chosen.jitter
            if failure.category is not Category.RATE_LIMIT or chosen is not self:
                return chosen._jittered(attempt, jitter, previous, chance)  # noqa: SLF001  # another policy
            own = self._jittered(attempt, "full" if self.jitter is None else jitter, previous, chance)
            return min(RATE_LIMIT_WAIT + own, self.max_delay)
        if failure.exact:
            return requested
        own = delay_before(attempt, self.backoff, self.base_delay, self.max_delay)
        jitter = unset_jitter if self.jitter is None else self.jitter
        if not jitter or jitter == "none":
            return max(requested, own)
        return requested + own * (chance or clock.random)()

    def _jittered(
        self, attempt: int, jitter: "Jitter", previous: float | None, chance: "Callable[[], float] | None"
    ) -> float:
        delay = delay_before(attempt, self.backoff, self.base_delay, self.max_delay)
        if not jitter or jitter == "none":
            return delay
        return add_jitter(
            delay, jitter, self.base_delay, self.max_delay, previous=previous, chance=chance or clock.random
        )

    def preview(self) -> "Schedule":
        """Return the schedule of waits; it prints as a small chart."""
        from outlast.decide.schedule import Schedule  # noqa: PLC0415  # rarely needed

        return Schedule.of(self)


def _check_attempts(max_attempts: object, max_retries: object) -> int:
    if max_attempts is not None and max_retries is not None:
        raise ConfigError("max_attempts and max_retries are two names of the same setting; give only one")
    name, value, minimum = "max_attempts", max_attempts, 1
    if max_retries is not None:
        name, value, minimum = "max_retries", max_retries, 0
    if value is None:
        return _DEFAULT_ATTEMPTS
    return max(1, check_count(name, value, minimum))


def _check_resource(name: object) -> str | None:
    if name is None or (isinstance(name, str) and name):
        return name
    raise ConfigError(f"resource is {short_repr(name)}; give the name of the resource, such as 'api.example.com'")


def _is_mapping(thing: object) -> bool:
    # What dict() checks; avoids an import of collections.abc.
    return hasattr(thing, "keys") and not isinstance(thing, type)


def _check_overrides(overrides: "Any") -> "dict[Category, Any]":
    """Return a copy of the overrides by category."""
    if overrides is None:
        return {}
    if not _is_mapping(overrides):
        raise ConfigError(
            f"overrides is {short_repr(overrides)}; give a dict of policies, or of their settings, by category"
        )
    checked: dict[Category, Any] = {}
    for key, override in dict(overrides).items():
        if not isinstance(override, RetryPolicy) and not _is_mapping(override):
            raise ConfigError(
                f"an override is {short_repr(override)}; give a policy, or a dict of the settings that differ"
            )
        checked[Category.parse(key)] = override if isinstance(override, RetryPolicy) else dict(override)
    return checked


DEFAULT_POLICY = RetryPolicy(
    max_attempts=5,
    retry_on=RETRYABLE,
    backoff="exponential",
    base_delay=0.5,
    max_delay=30.0,
    jitter="full",
    deadline=60.0,
)
"""The policy of a bare ``@outlast.retry``."""
