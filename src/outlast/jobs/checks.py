"""The settings of a job, checked before anything runs."""

from collections.abc import Mapping
from inspect import isasyncgenfunction, isgeneratorfunction, signature

from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Origin
from outlast.run.retry import checked

__all__ = ["check_handler", "check_targets", "checked_breakers", "checked_number", "checked_policy", "checked_text"]

_LONGEST_NAME = 200


def check_handler(handler: object) -> None:
    """See that something can handle targets.

    Raises:
        ConfigError: If it is not so.
    """
    if not callable(handler) or isinstance(handler, type):
        message = f"{handler!r} cannot be a job; decorate a function or a coroutine function"
        raise ConfigError(message)
    try:
        signature(handler).bind(None, None)
    except TypeError:
        message = f"{handler!r} cannot be called with a context and a target, which every job is"
        raise ConfigError(message) from None
    except ValueError:  # a builtin that does not tell
        pass
    if isgeneratorfunction(handler) or isasyncgenfunction(handler):
        message = f"{handler!r} is a generator, which nobody would run; a job handles one target and returns"
        raise ConfigError(message)


def checked_policy(policy: RetryPolicy) -> RetryPolicy:
    """Return a policy as jobs use it: without a word on what is retried, it is what the classifier calls retryable.

    Raises:
        ConfigError: If it is not so.
    """
    chosen = checked(policy)
    if chosen.resource is not None:
        message = f"a job does not know the resource {chosen.resource!r} of its policy; name it where it is called"
        raise ConfigError(message)
    return chosen.replace(retry_on=RETRYABLE) if chosen.retry_on is None else chosen


def checked_breakers(given: Mapping[str, int]) -> dict[str, int]:
    """Return breakers whose origins exist.

    Raises:
        ConfigError: If it is not so.
    """
    for origin, number in given.items():
        if origin not in set(Origin):
            message = f"breakers names {origin!r}, which is no origin; choose from: {', '.join(Origin)}"
            raise ConfigError(message)
        checked_number(f"the breaker of {origin}", number, 1)
    return {str(origin): number for origin, number in given.items()}


def check_targets(targets: object) -> None:
    """See that targets can be asked for.

    Raises:
        ConfigError: If it is not so.
    """
    if targets is not None and not callable(targets):
        message = f"targets is a {type(targets).__name__}; give a function that returns them, such as lambda: [1, 2]"
        raise ConfigError(message)


def checked_number(name: str, value: object, least: int) -> None:
    """See that a number can be used.

    Raises:
        ConfigError: If it is not so.
    """
    if type(value) is not int or value < least:
        message = f"{name} is {value!r}; give a whole number, {least} or more"
        raise ConfigError(message)


def checked_text(name: str, value: object) -> str:
    """Return a name that can be stored and shown.

    Raises:
        ConfigError: If it is not so.
    """
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable():
        return value
    message = f"{name} is {value!r:.100}; give text of 1 to {_LONGEST_NAME} characters"
    raise ConfigError(message)
