"""The circuit breaker as a pure state machine: it is told what happened and when, and says what is allowed.

Closed, calls pass and are counted. Open, they are refused until a time is over. Half-open, a fixed number of probes
pass; they close it again or open it anew. The clock is a parameter, and so nothing here waits or reads one.
"""

from collections import deque

from outlast.decide.backoff import check_seconds, is_number, short_repr
from outlast.decide.policy import check_retry_on, matches
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Frozen

TYPE_CHECKING = False

if TYPE_CHECKING:
    from datetime import timedelta

    from outlast.decide.policy import RetryOn


# The retry budget as a pure token bucket: when everything fails, retries stop long before calls do.


class Budget:
    """Retries that may still be made. Not thread-safe by itself.

    Args:
        capacity: Retries that may come at once; at least 1.
        per_second: How many come back each second.

    Raises:
        ConfigError: If a number is not valid.
    """

    __slots__ = ("_filled", "capacity", "per_second", "tokens")

    def __init__(self, capacity: float = 100.0, per_second: float = 10.0) -> None:
        """Begin full."""
        for name, value, least in (("capacity", capacity, 1), ("per_second", per_second, 0)):
            if not is_number(value) or value < least:
                message = f"{name} is {short_repr(value)}; give a number, {least} or more"
                raise ConfigError(message)
        self.capacity = float(capacity)
        self.per_second = float(per_second)
        self.tokens = float(capacity)
        self._filled: float | None = None

    def take(self, now: float) -> bool:
        """Take one retry; False if none is left."""
        if self._filled is not None:
            self.tokens = min(self.capacity, self.tokens + max(0.0, now - self._filled) * self.per_second)
        self._filled = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


OPENED_BY_HAND = "by hand"
"""The reason of a breaker that somebody opened."""
BREAKER_OPEN = "breaker open"
"""The reason of a cooldown that an open breaker began."""
OPENED_ELSEWHERE = "elsewhere: "
"""What the reason of a breaker begins with that is open because another process has opened its own."""
PROBE_FAILED = "a probe failed"
"""What the reason of a breaker begins with that was tried and opened anew."""
_MIN_PROBE_SECONDS = 1.0  # seconds that a probe has at least before it counts as lost


class BreakerSettings(Frozen):
    """When a breaker opens, for how long, and what closes it again.

    Attributes:
        consecutive: Failures in a row that open it; None for no such limit.
        failure_rate: Share of failures among the last `window` calls that opens it, above 0 to 1; None for none.
        window: How many calls the rate looks back on; it is judged only once so many have been made.
        slow_call: Seconds from which a successful call counts as a failure; None for never.
        open_for: Seconds it stays open.
        probes: Calls that may pass half-open; all have to succeed.
        counts: Which errors are failures of the resource, in the forms of `RetryPolicy.retry_on`; by default what the
            classifier calls retryable, so that no 404 and no bug opens it. Any other error says nothing of the
            resource: neither failure nor success. None means every Exception but a `PermanentError`.
    """

    consecutive: int | None
    failure_rate: float | None
    window: int
    slow_call: float | None
    open_for: float
    probes: int
    counts: "RetryOn"

    def __init__(  # a breaker is its settings
        self,
        *,
        consecutive: int | None = 5,
        failure_rate: float | None = None,
        window: int = 20,
        slow_call: "float | timedelta | None" = None,
        open_for: "float | timedelta" = 30.0,
        probes: int = 1,
        counts: "RetryOn" = RETRYABLE,
    ) -> None:
        """Check and keep the settings.

        Raises:
            ConfigError: If one is not valid, or nothing would ever open it.
        """
        for name, number in (("consecutive", consecutive), ("window", window), ("probes", probes)):
            if number is None and name == "consecutive":
                continue
            if type(number) is not int or number < 1:
                message = f"{name} is {short_repr(number)}; give a whole number, 1 or more"
                raise ConfigError(message)
        if failure_rate is not None and not (is_number(failure_rate) and 0 < failure_rate <= 1):
            message = f"failure_rate is {short_repr(failure_rate)}; give a share above 0 and up to 1"
            raise ConfigError(message)
        if consecutive is None and failure_rate is None:
            message = "a breaker needs consecutive or failure_rate, or nothing would ever open it"
            raise ConfigError(message)
        self.__dict__.update(
            consecutive=consecutive,
            failure_rate=failure_rate,
            window=window,
            slow_call=None if slow_call is None else check_seconds("slow_call", slow_call),
            open_for=check_seconds("open_for", open_for),
            probes=probes,
            counts=check_retry_on(counts, "counts"),
        )

    @property
    def plain(self) -> bool:
        """Whether it counts failures in a row alone, so that a success changes nothing."""
        return self.failure_rate is None and self.slow_call is None

    def is_failure(self, error: BaseException) -> bool:
        """Tell whether an error is a failure of the resource."""
        return matches(self.counts, error)


class Breaker:
    """The state of one breaker. Not thread-safe by itself; whoever shares it holds a lock for all but `closed`.

    Attributes:
        state: ``"closed"``, ``"open"`` or ``"half_open"``.
        reason: What made it open.
        until: When an open one lets probes pass; infinite for one that was opened by hand.
        generation: Raised by every change of state. A permit is the generation it was given in, and what its call
            reports after a change of state is old news and changes nothing.
        passing: The generation while it is closed, else 0; a caller that sees one needs no lock.
    """

    __slots__ = (
        "_out",
        "_passed",
        "failures",
        "generation",
        "outcomes",
        "passing",
        "reason",
        "settings",
        "state",
        "until",
    )

    def __init__(self, settings: BreakerSettings) -> None:
        """Begin closed."""
        self.settings = settings
        self.state = "closed"
        self.reason = ""
        self.until = 0.0
        self.failures = 0
        self.generation = self.passing = 1
        self.outcomes: deque[bool] = deque(maxlen=settings.window)
        self._out = 0
        self._passed = 0

    @property
    def closed(self) -> bool:
        """Whether calls pass freely."""
        return self.state == "closed"

    def permit(self, now: float) -> int:
        """Return a permit for a call, or 0; half-open, there are so many as there are probes left."""
        if self.state == "open" and now >= self.until:
            self._half_open(now)
        if self.state == "half_open":
            if now >= self.until and self._out:  # a probe that never came back; others get their chance
                self._half_open(now)
            if self._out + self._passed >= self.settings.probes:
                return 0
            self._out += 1
            return self.generation
        return self.generation if self.state == "closed" else 0

    def _half_open(self, now: float) -> None:
        self.state, self._out, self._passed = "half_open", 0, 0
        self.generation += 1
        self.until = now + max(self.settings.open_for, _MIN_PROBE_SECONDS)

    def succeeded(self, now: float, permit: int, seconds: float = 0.0) -> None:
        """Count a success; one that was too slow counts as a failure."""
        if permit != self.generation:
            return
        if self.settings.slow_call is not None and seconds >= self.settings.slow_call:
            self.failed(now, permit, "slow calls")
            return
        if self.state == "half_open":
            self._out -= 1
            self._passed += 1
            if self._passed >= self.settings.probes:
                self.close()
        elif self.state == "closed":
            self.failures = 0
            self.outcomes.append(True)

    def failed(self, now: float, permit: int, what: str = "failures") -> None:
        """Count a failure; it may open the breaker."""
        if permit != self.generation:
            return
        if self.state == "half_open":
            self.open(now, f"{PROBE_FAILED} ({what})")
        elif self.state == "closed":
            self.failures += 1
            self.outcomes.append(False)
            limit, rate = self.settings.consecutive, self.settings.failure_rate
            if limit is not None and self.failures >= limit:
                self.open(now, f"{self.failures} {what} in a row")
            elif rate is not None and len(self.outcomes) == self.settings.window:
                share = self.outcomes.count(False) / len(self.outcomes)
                if share >= rate:
                    self.open(now, f"{share:.0%} {what} in the last {len(self.outcomes)} calls")

    def withdrawn(self, permit: int) -> None:
        """Give a permit back: the call was cancelled and says nothing."""
        if permit == self.generation and self.state == "half_open":
            self._out -= 1

    def open(self, now: float, reason: str = OPENED_BY_HAND, seconds: "float | timedelta | None" = None) -> None:
        """Refuse calls from now on.

        Args:
            now: The time.
            reason: Why.
            seconds: For how long; infinite until it is closed by hand, by default as the settings say.

        Raises:
            ConfigError: If `seconds` is no time; the breaker stays as it was.
        """
        length = self.settings.open_for if seconds is None else seconds
        until = now + (float("inf") if length == float("inf") else check_seconds("seconds", length))
        self.state, self.reason, self.passing = "open", reason, 0
        self.generation += 1
        self.until = until
        self.failures = 0
        self.outcomes.clear()

    def close(self) -> None:
        """Let calls pass freely."""
        if self.state != "closed":
            self.generation += 1
        self.state, self.reason, self.failures = "closed", "", 0
        self.passing = self.generation
        self.outcomes.clear()
