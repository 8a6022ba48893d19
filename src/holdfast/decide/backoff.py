"""How long to wait before the n-th retry: finite, never negative, never above the cap, whatever n is."""

from holdfast.errors import ConfigError

__all__ = ["BACKOFFS", "check_seconds", "delay_before"]

BACKOFFS = ("fixed", "linear", "exponential")
"""The names of the backoffs."""

_MOST_DOUBLINGS = 1000  # 2.0 ** 1024 overflows; the cap applies long before


def check_seconds(name: str, value: float) -> float:
    """Return a time in seconds.

    Raises:
        ConfigError: If it is negative, infinite or not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        message = f"{name} is {value!r}; give seconds, 0 or more"
        raise ConfigError(message)
    return value


def delay_before(retry: int, backoff: str, base: float, cap: float) -> float:
    """Return the wait before a retry, without jitter.

    Args:
        retry: 1 for the first retry.
        backoff: One of `BACKOFFS`: always `base`, ``base · n``, or ``base · 2^(n-1)``.
        base: Seconds.
        cap: Seconds that are never exceeded.
    """
    if backoff == "linear":
        return min(base * retry, cap)
    if backoff == "exponential":
        return min(base * 2.0 ** min(retry - 1, _MOST_DOUBLINGS), cap)
    return min(base, cap)
