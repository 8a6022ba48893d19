"""How long to wait before the n-th retry: finite, never negative, never above the cap, whatever n is."""

from holdfast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    Backoff = str | Callable[[int], float]
    """The name of a backoff, or a function from the number of the retry (1 for the first) to seconds."""
    Jitter = str | float | None
    """The name of a jitter, a fraction, or None."""

__all__ = ["BACKOFFS", "JITTERS", "check_backoff", "check_jitter", "check_seconds", "delay_before", "jittered"]

BACKOFFS = ("fixed", "linear", "exponential")
"""The names of the backoffs."""
JITTERS = ("none", "full", "equal", "decorrelated")
"""The names of the jitters."""

_MOST_DOUBLINGS = 1000  # 2.0 ** 1024 overflows; the cap applies long before


def check_seconds(name: str, value: "float | timedelta | object") -> float:
    """Return a time in seconds.

    Raises:
        ConfigError: If it is negative, infinite or not a number.
    """
    total = getattr(value, "total_seconds", None)
    seconds = total() if callable(total) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        message = f"{name} is {value!r}; give seconds or a timedelta, 0 or more"
        raise ConfigError(message)
    return seconds


def check_backoff(backoff: "Backoff") -> "Backoff":
    """Return a backoff that is known or can be called.

    Raises:
        ConfigError: If it is neither; the message names the valid choices.
    """
    if backoff in BACKOFFS or callable(backoff):
        return backoff
    message = (
        f"{backoff!r} is no backoff; choose one of: {', '.join(BACKOFFS)}, or give a function of the retry's number"
    )
    raise ConfigError(message)


def check_jitter(jitter: "Jitter") -> "Jitter":
    """Return a jitter that is known, or a fraction from 0 to 1.

    Raises:
        ConfigError: If it is neither; the message names the valid choices.
    """
    if jitter is None or jitter in JITTERS:
        return jitter
    if isinstance(jitter, bool):
        return 0.1 if jitter else 0.0
    if isinstance(jitter, int | float) and 0 <= jitter <= 1:
        return float(jitter)
    message = f"jitter is {jitter!r}; choose one of: {', '.join(JITTERS)}, or give a fraction from 0 to 1"
    raise ConfigError(message)


def delay_before(retry: int, backoff: "Backoff", base: float, cap: float) -> float:
    """Return the wait before a retry, without jitter.

    Args:
        retry: 1 for the first retry.
        backoff: ``"fixed"`` (always `base`), ``"linear"`` (``base · n``), ``"exponential"`` (``base · 2^(n-1)``), or a
            function of the retry's number.
        base: Seconds.
        cap: Seconds that are never exceeded.

    Raises:
        ConfigError: If a function gives what is no time.
    """
    retry = max(retry, 1)
    if backoff == "exponential":
        return min(base * 2.0 ** min(retry - 1, _MOST_DOUBLINGS), cap)
    if backoff == "fixed":
        return min(base, cap)
    if backoff == "linear":
        return min(base * retry, cap)
    assert callable(backoff)  # noqa: S101  # for type checkers; check_backoff has seen to it
    return min(check_seconds("the backoff's delay", backoff(retry)), cap)


def jittered(
    delay: float, jitter: "Jitter", base: float, cap: float, *, previous: float | None, chance: "Callable[[], float]"
) -> float:
    """Spread a wait at random, so that callers that failed together do not come back together.

    Args:
        delay: The wait without jitter, at most `cap`.
        jitter: ``"full"`` (0 to the wait), ``"equal"`` (half of it to all of it), ``"decorrelated"`` (`base` to three
            times the wait before), or a fraction (so much more or less, within the cap).
        base: Seconds before the first retry.
        cap: Seconds that are never exceeded.
        previous: The wait before this one, if there was one.
        chance: Gives a random number in [0, 1).
    """
    if not jitter or jitter == "none":
        return delay
    if jitter == "full":
        return delay * chance()
    if jitter == "equal":
        return delay * (0.5 + chance() / 2)
    if jitter == "decorrelated":
        low = min(base, cap)
        high = min(max(3 * (base if previous is None else previous), low), cap)
        return min(low + (high - low) * chance(), cap)  # rounding alone may exceed what it was made of
    fraction = float(jitter)
    low, high = delay * (1 - fraction), min(delay * (1 + fraction), cap)
    return min(low + (high - low) * chance(), cap)
