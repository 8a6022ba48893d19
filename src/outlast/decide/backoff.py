"""How long to wait before the n-th retry: finite, never negative, never above the cap, whatever n is."""

from outlast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, Literal

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
    """Tell whether something is a number that can be reckoned with: neither true or false, nor beyond all floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float("-inf") < float(value) < float("inf")
    except OverflowError:
        return False


def short_repr(value: object) -> str:
    """Return a value as a message shows it, cut where it is long; numbers of very many digits cannot be written out."""
    try:
        text = repr(value)
    except ValueError:
        return "a number beyond all bounds"
    return text if len(text) <= _REPR_LIMIT else f"{text[:_REPR_LIMIT]}…"


def check_seconds(name: str, value: "float | timedelta | object") -> float:
    """Return a time in seconds.

    Raises:
        ConfigError: If it is negative, infinite or not a number.
    """
    total = None if isinstance(value, type) else getattr(value, "total_seconds", None)
    seconds = total() if callable(total) else value
    if not isinstance(seconds, int | float) or not is_number(seconds) or seconds < 0:
        message = f"{name} is {short_repr(value)}; give seconds or a timedelta, 0 or more"
        raise ConfigError(message)
    return seconds


def check_backoff(given: "Backoff | object") -> "Backoff":
    """Return a backoff that is known or can be called.

    Raises:
        ConfigError: If it is neither; the message names the valid choices.
    """
    backoff: Any = given
    if backoff in BACKOFFS or callable(backoff):
        checked: Backoff = backoff
        return checked
    choices = f"choose one of: {', '.join(BACKOFFS)}, or give a function of the retry's number"
    message = f"{short_repr(backoff)} is no backoff; {choices}"
    raise ConfigError(message)


def check_jitter(given: "Jitter | object") -> "Jitter":
    """Return a jitter that is known, or a fraction from 0 to 1.

    Raises:
        ConfigError: If it is neither; the message names the valid choices.
    """
    jitter: Any = given
    if jitter is None or jitter in JITTERS:
        checked: Jitter = jitter
        return checked
    if isinstance(jitter, bool):
        return 0.1 if jitter else 0.0
    if isinstance(jitter, int | float) and 0 <= jitter <= 1:
        return float(jitter)
    message = f"jitter is {short_repr(jitter)}; choose one of: {', '.join(JITTERS)}, or give a fraction from 0 to 1"
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
        return min(base * 2.0 ** min(retry - 1, _MAX_DOUBLINGS), cap)
    if backoff == "fixed":
        return min(base, cap)
    if backoff == "linear":
        return min(base * retry, cap)
    assert callable(backoff)  # noqa: S101  # for type checkers; check_backoff has seen to it
    given = backoff(retry)
    if type(given) is int and given > cap:
        return cap  # a whole number grows beyond what a float can hold, and is a time all the same
    return min(check_seconds("the backoff's delay", given), cap)


class DoublingPause:
    """The pause of a background loop while a store or a server is away: doubles with every failure, up to a cap.

    Args:
        first: Seconds after the first failure.
        longest: Seconds at most.

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
        """Begin with the first pause again."""
        self.seconds = 0.0


def add_jitter(
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
