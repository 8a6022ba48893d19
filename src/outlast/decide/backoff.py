"""Backoff and jitter: the wait before the n-th retry, which is finite, never negative and never above the cap."""

from outlast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, Literal, TypeVar

    T = TypeVar("T")
    Backoff = Literal["fixed", "linear", "exponential"] | Callable[[int], float]
    """The name of a backoff, or a function from the number of the retry (1 for the first) to seconds."""
    Jitter = Literal["none", "full", "equal", "decorrelated"] | float | None
    """The name of a jitter, a fraction, or None."""


BACKOFFS = ("fixed", "linear", "exponential")
"""The names of the backoffs."""
JITTERS = ("none", "full", "equal", "decorrelated")
"""The names of the jitters."""

_MAX_DOUBLINGS = 1000  # 2.0 ** 1024 overflows; the cap applies long before
_REPR_LIMIT = 80  # characters


def is_number(value: object) -> bool:
    """Return whether a value is a finite number that fits into a float, and not a bool."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float("-inf") < float(value) < float("inf")
    except OverflowError:
        return False


def short_repr(value: object) -> str:
    """Return the repr of a value for a message, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers with thousands of digits
        return "a number with too many digits"
    return text if len(text) <= _REPR_LIMIT else f"{text[:_REPR_LIMIT]}…"


def choice(kind: str, choices: "dict[str, T]", name: str) -> "T":
    """Return what has this name.

    Raises:
        ConfigError: If it does not exist; the message lists the valid names.
    """
    try:
        return choices[name]
    except (KeyError, TypeError):
        raise ConfigError(f"{name!r} is not a {kind}; choose one of: {', '.join(choices)}") from None


def check_seconds(name: str, value: "float | timedelta | object") -> float:
    """Return a time in seconds.

    Raises:
        ConfigError: If it is negative, infinite or not a number.
    """
    total = None if isinstance(value, type) else getattr(value, "total_seconds", None)
    seconds = total() if callable(total) else value
    if not isinstance(seconds, int | float) or not is_number(seconds) or seconds < 0:
        raise ConfigError(f"{name} is {short_repr(value)}; give seconds or a timedelta, 0 or more")
    return seconds


def check_count(name: str, value: "Any", minimum: int) -> int:
    """Return a whole number.

    Raises:
        ConfigError: If it is not one, or is too small.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigError(f"{name} is {short_repr(value)}; give a whole number, {minimum} or more")
    return value


def check_flag(name: str, value: object) -> bool:
    """Return True or False.

    Raises:
        ConfigError: If it is anything else.
    """
    if isinstance(value, bool):
        return value
    raise ConfigError(f"{name} is {short_repr(value)}; give True or False")


def check_backoff(value: "Backoff | object") -> "Backoff":
    """Return a valid backoff: a known name or a function.

    Raises:
        ConfigError: If it is neither; the message names the valid choices.
    """
    backoff: Any = value
    if backoff in BACKOFFS or callable(backoff):
        checked: Backoff = backoff
        return checked
    choices = f"choose one of: {', '.join(BACKOFFS)}, or give a function of the retry number"
    raise ConfigError(f"{short_repr(backoff)} is not a backoff; {choices}")


def check_jitter(value: "Jitter | object") -> "Jitter":
    """Return a valid jitter: a known name, a fraction from 0 to 1, or None.

    Raises:
        ConfigError: If it is neither; the message names the valid choices.
    """
    jitter: Any = value
    if jitter is None or jitter in JITTERS:
        checked: Jitter = jitter
        return checked
    if isinstance(jitter, bool):
        return 0.1 if jitter else 0.0
    if isinstance(jitter, int | float) and 0 <= jitter <= 1:
        return float(jitter)
    raise ConfigError(
        f"jitter is {short_repr(jitter)}; choose one of: {', '.join(JITTERS)}, or give a fraction from 0 to 1"
    )


def delay_before(retry: int, backoff: "Backoff", base: float, cap: float) -> float:
    """Return the wait before a retry, without jitter.

    Args:
        retry: 1 for the first retry.
        backoff: ``"fixed"`` (always `base`), ``"linear"`` (``base · n``), ``"exponential"`` (``base · 2^(n-1)``), or a
            function of the retry number.
        base: Base delay in seconds.
        cap: Maximum delay in seconds.

    Raises:
        ConfigError: If a function does not return a valid time.
    """
    retry = max(retry, 1)
    if backoff == "exponential":
        return min(base * 2.0 ** min(retry - 1, _MAX_DOUBLINGS), cap)
    if backoff == "fixed":
        return min(base, cap)
    if backoff == "linear":
        return min(base * retry, cap)
    assert callable(backoff)  # noqa: S101  # for type checkers; check_backoff ensures it
    delay = backoff(retry)
    if type(delay) is int and delay > cap:
        return cap  # an integer may be too large for a float and is valid all the same
    return min(check_seconds("the backoff's delay", delay), cap)


class DoublingPause:
    """The pause of a background loop while a store or server is unavailable: doubles with every failure, up to a cap.

    Args:
        first: Seconds after the first failure.
        longest: Maximum seconds.

    Attributes:
        seconds: The current pause; 0 while nothing has failed.
    """

    __slots__ = ("_first", "_longest", "seconds")

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest, self.seconds = first, longest, 0.0

    def grow(self) -> float:
        """Return the seconds to pause after one more failure."""
        self.seconds = min(max(self.seconds * 2, self._first), self._longest)
        return self.seconds

    def reset(self) -> None:
        """Start again with the first pause."""
        self.seconds = 0.0


def add_jitter(
    delay: float, jitter: "Jitter", base: float, cap: float, *, previous: float | None, chance: "Callable[[], float]"
) -> float:
    """Return a wait with random jitter, so that callers that failed together do not retry together.

    Args:
        delay: The wait without jitter, at most `cap`.
        jitter: ``"full"`` (0 to the wait), ``"equal"`` (half of it to all of it), ``"decorrelated"`` (`base` to three
            times the previous wait), or a fraction (the wait plus or minus that share, within the cap).
        base: Seconds before the first retry.
        cap: Maximum delay in seconds.
        previous: The previous wait in seconds, if there was one.
        chance: Returns a random number in [0, 1).
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
        return min(low + (high - low) * chance(), cap)  # rounding may exceed the cap
    fraction = float(jitter)
    low, high = delay * (1 - fraction), min(delay * (1 + fraction), cap)
    return min(low + (high - low) * chance(), cap)
