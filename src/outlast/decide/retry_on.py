"""Which errors are worth another attempt."""

from outlast.classify import classify
from outlast.errors import ConfigError, PermanentError
from outlast.failure import RETRYABLE, Category

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from typing import Any

    RetryOn = (
        type[BaseException]
        | tuple[type[BaseException], ...]
        | AbstractSet[str]
        | Callable[[BaseException], object]
        | None
    )
    """Exception types, categories or their names, a predicate, or None for every Exception."""

__all__ = ["check_retry_on", "wants"]


def wants(retry_on: "RetryOn", error: BaseException) -> bool:
    """Tell whether this kind of error is retried at all. What is no Exception never is."""
    if not isinstance(error, Exception):
        return False
    if isinstance(retry_on, type | tuple):
        return isinstance(error, retry_on)
    if retry_on is None:
        return not isinstance(error, PermanentError)
    if isinstance(retry_on, frozenset):
        failure = classify(error)
        return failure.retryable if retry_on == RETRYABLE else failure.category in retry_on
    return bool(retry_on(error))  # type: ignore[operator]  # a predicate, by the checks when the policy was made


def check_retry_on(retry_on: "RetryOn", name: str = "retry_on") -> "RetryOn":
    """Return what is retried in the form that `wants` understands.

    Raises:
        ConfigError: If it is none of the forms.
    """
    given: Any = retry_on
    if isinstance(given, tuple | list):
        if not all(_is_exception_class(each) for each in given):
            message = f"{name} is {given!r}; in a tuple give exception classes, in a set give categories"
            raise ConfigError(message)
        return tuple(given)
    if isinstance(given, Category):
        return frozenset({given})
    if isinstance(given, set | frozenset) and given is not RETRYABLE:
        return frozenset(Category.parse(each) for each in given)
    if given is None or given is RETRYABLE or _is_exception_class(given) or _is_predicate(given):
        return retry_on
    message = f"{name} is {given!r}; give exception classes, a set of categories, outlast.RETRYABLE or a predicate"
    raise ConfigError(message)


def _is_exception_class(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)


def _is_predicate(thing: object) -> bool:
    return callable(thing) and not isinstance(thing, type)
