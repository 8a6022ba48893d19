"""The settings of a limit, from what people write: ``"10/s"``, ``"5000/h"`` or a number per second."""

from outlast.decide.backoff import shown
from outlast.decide.limits import Limit
from outlast.errors import ConfigError
from outlast.units import RATE_FORMAT, parse_rate

__all__ = ["checked_limit", "per_second"]

_MOST = 100_000  # starts at once, or tasks that run
_LONGEST_NAME = 200
_BURST_SECONDS = 0.1  # a worker that is woken late by so much loses nothing
_RETRY_BURST_SECONDS = 1.0  # retries come in bunches, and one by itself should not be held up


def per_second(name: str, value: object) -> float:
    """Return a rate as a number per second.

    Raises:
        ConfigError: If it is not a rate.
    """
    rate = parse_rate(value)
    if rate is None:
        message = f"{name} is {shown(value)}; {RATE_FORMAT}"
        raise ConfigError(message)
    return rate


def checked_limit(
    resource: str,
    *,
    rate: str | float | None = None,
    burst: int | None = None,
    concurrency: int | None = None,
    retries: str | float | None = None,
    retry_burst: int | None = None,
) -> Limit:
    """Return a limit; `app.limit` describes the settings.

    Raises:
        ConfigError: If a setting cannot be used, or nothing is limited.
    """
    name: object = resource
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or "\0" in name:
        longest = f"{_LONGEST_NAME} characters at most"
        message = f"resource is {shown(name)}; give the name that tasks have as resource=…, {longest}"
        raise ConfigError(message)
    if rate is None and concurrency is None and retries is None:
        message = f"the limit of {resource!r} limits nothing; give rate=…, concurrency=… or retries=…"
        raise ConfigError(message)
    for what, of, number, base in (("burst", "rate", burst, rate), ("retry_burst", "retries", retry_burst, retries)):
        if number is not None and base is None:
            message = f"{what} is {shown(number)}, and there is no {of}=… that it belongs to; give that as well"
            raise ConfigError(message)
    starts = None if rate is None else per_second("rate", rate)
    again = None if retries is None else per_second("retries", retries)
    return Limit(
        resource,
        starts,
        _whole("burst", burst) or _in(_BURST_SECONDS, starts),
        _whole("concurrency", concurrency),
        again,
        _whole("retry_burst", retry_burst) or _in(_RETRY_BURST_SECONDS, again),
    )


def _in(seconds: float, rate: float | None) -> int:
    """Return how many come in so many seconds, 1 at least."""
    return 1 if rate is None else max(1, round(rate * seconds))


def _whole(name: str, value: int | None) -> int | None:
    given: object = value
    if given is not None and (type(given) is not int or not 1 <= given <= _MOST):
        message = f"{name} is {shown(value)}; give a whole number from 1 to {_MOST}"
        raise ConfigError(message)
    return value
