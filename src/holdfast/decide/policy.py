"""How many attempts, how long to wait, for which failures."""

from holdfast.classify import classify
from holdfast.decide.backoff import BACKOFFS, check_seconds, delay_before
from holdfast.errors import ConfigError, PermanentError
from holdfast.failure import RETRYABLE, Category, Failure
from holdfast.values import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from typing import Any

    RetryOn = (
        type[BaseException]
        | tuple[type[BaseException], ...]
        | Set[Category]
        | Callable[[BaseException], object]
        | None
    )
    """Exception types, categories, a predicate, or None for every Exception."""

__all__ = ["DEFAULT_POLICY", "RetryPolicy"]

_DEFAULT_ATTEMPTS = 3


class RetryPolicy(Frozen):
    """How many attempts, how long to wait, for which failures. Immutable; share it freely.

    Attributes:
        max_attempts: Calls in all, the first one included; at least 1.
        retry_on: What is retried: exception types, a set of categories, `RETRYABLE` (whatever the classifier calls
            retryable), or a predicate. None means every Exception but a `PermanentError`; `()` retries nothing.
        backoff: ``"fixed"``, ``"linear"`` (base · n) or ``"exponential"`` (base · 2^(n-1)).
        base_delay: Seconds before the first retry.
        max_delay: Seconds that no wait exceeds.
    """

    max_attempts: int
    retry_on: "RetryOn"
    backoff: str
    base_delay: float
    max_delay: float

    def __init__(  # noqa: PLR0913  # a policy is its settings
        self,
        *,
        max_attempts: int | None = None,
        max_retries: int | None = None,
        retry_on: "RetryOn" = None,
        backoff: str = "fixed",
        base_delay: float = 1.0,
        max_delay: float = 60.0,
    ) -> None:
        """Check and keep the settings.

        Args:
            max_attempts: Calls in all, the first one included (default 3).
            max_retries: The same number under its older name: it too counts calls, and 0 and 1 both mean one call.
                Give one of the two.
            retry_on: What is retried.
            backoff: Name of the backoff.
            base_delay: Seconds before the first retry.
            max_delay: Seconds that no wait exceeds.

        Raises:
            ConfigError: If a setting is not valid; it is a ValueError, and its message names the valid choices.
        """
        self.__dict__.update(
            max_attempts=_attempts(max_attempts, max_retries),
            retry_on=_checked(retry_on),
            backoff=_backoff(backoff),
            base_delay=check_seconds("base_delay", base_delay),
            max_delay=check_seconds("max_delay", max_delay),
        )

    @property
    def max_retries(self) -> int:
        """The number of calls under its older name; see `max_attempts`."""
        return self.max_attempts

    def should_retry(self, error: BaseException, attempt: int) -> bool:
        """Tell whether an error is worth another attempt.

        Args:
            error: What was raised.
            attempt: Number of the attempt that failed, from 1.
        """
        return attempt < self.max_attempts and self.retries(error)

    def retries(self, error: BaseException) -> bool:
        """Tell whether this kind of error is retried at all. What is no Exception never is."""
        if not isinstance(error, Exception):
            return False
        wanted: Any = self.retry_on
        if wanted is None:
            return not isinstance(error, PermanentError)
        if isinstance(wanted, type | tuple):
            return isinstance(error, wanted)
        if isinstance(wanted, frozenset):
            failure = classify(error)
            return failure.retryable if wanted is RETRYABLE else failure.category in wanted
        return bool(wanted(error))

    def get_delay(self, attempt: int) -> float:
        """Return the seconds to wait after a failed attempt.

        Args:
            attempt: Number of the attempt that failed, from 1.
        """
        return delay_before(attempt, self.backoff, self.base_delay, self.max_delay)

    def delay_after(self, failure: Failure, attempt: int) -> float:
        """Return the seconds to wait after a failure; what the other side asks for is a lower bound."""
        return max(self.get_delay(attempt), failure.retry_after or 0.0)


def _attempts(max_attempts: object, max_retries: object) -> int:
    if max_attempts is not None and max_retries is not None:
        message = "max_attempts and max_retries are two names of one number; give one of them"
        raise ConfigError(message)
    name, value, least = ("max_attempts", max_attempts, 1) if max_retries is None else ("max_retries", max_retries, 0)
    if value is None:
        return _DEFAULT_ATTEMPTS
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        message = f"{name} is {value!r}; give a whole number, {least} or more"
        raise ConfigError(message)
    return max(1, value)


def _backoff(name: str) -> str:
    if name not in BACKOFFS:
        message = f"{name!r} is no backoff; choose one of: {', '.join(BACKOFFS)}"
        raise ConfigError(message)
    return name


def _checked(retry_on: "Any") -> "RetryOn":
    if retry_on is None or retry_on is RETRYABLE or (isinstance(retry_on, type) and issubclass(retry_on, BaseException)):
        return retry_on  # type: ignore[no-any-return]  # one of the forms, by the checks before
    if isinstance(retry_on, tuple | list):
        if all(isinstance(each, type) and issubclass(each, BaseException) for each in retry_on):
            return tuple(retry_on)
        message = f"retry_on is {retry_on!r}; in a tuple give exception classes, in a set give categories"
        raise ConfigError(message)
    if isinstance(retry_on, set | frozenset | Category):
        members = (retry_on,) if isinstance(retry_on, Category) else retry_on
        return frozenset(Category.parse(each) for each in members)
    if callable(retry_on):
        return retry_on  # type: ignore[no-any-return]  # a predicate
    message = f"retry_on is {retry_on!r}; give exception classes, a set of categories, hf.RETRYABLE or a predicate"
    raise ConfigError(message)


DEFAULT_POLICY = RetryPolicy(
    max_attempts=5, retry_on=RETRYABLE, backoff="exponential", base_delay=0.5, max_delay=30.0
)
"""What a bare ``@hf.retry`` does."""
