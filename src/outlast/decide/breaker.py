"""The circuit breaker as a pure state machine, and the retry budget.

A closed breaker lets calls pass and counts failures. An open one refuses calls until its time is up. A half-open one
lets a fixed number of probes pass, which close it or open it again. The time is a parameter; nothing reads a clock.
"""

from collections import deque

from outlast.classify import attach_failure, failure_of
from outlast.decide.backoff import check_count, check_seconds, is_number, short_repr
from outlast.decide.policy import NODE_RETRY_ON, check_retry_on, matches
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Frozen

TYPE_CHECKING = False

if TYPE_CHECKING:
    from datetime import timedelta

    from outlast.decide.policy import RetryOn


class Budget:
    """A retry budget: a token bucket that stops retries when everything fails. Not thread-safe by itself.

    Args:
        capacity: Maximum number of retries at once; at least 1.
        per_second: Retries added each second.

    Raises:
        ConfigError: If a number is not valid.
    """

    __slots__ = ("_filled_at", "capacity", "per_second", "tokens")

    def __init__(self, capacity: float = 100.0, per_second: float = 10.0) -> None:
        for name, value, minimum in (("capacity", capacity, 1), ("per_second", per_second, 0)):
            if not is_number(value) or value < minimum:
                raise ConfigError(f"{name} is {short_repr(value)}; give a number, {minimum} or more")
        self.capacity = float(capacity)
        self.per_second = float(per_second)
        self.tokens = float(capacity)
        self._filled_at: float | None = None

    def take(self, now: float) -> bool:
        """Take one retry; return False if none is left."""
        if self._filled_at is not None:
            self.tokens = min(self.capacity, self.tokens + max(0.0, now - self._filled_at) * self.per_second)
        self._filled_at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


OPENED_BY_HAND = "by hand"
"""The reason of a breaker that was opened by hand."""
BREAKER_OPEN = "breaker open"
"""The reason of a cooldown that an open breaker started."""
OPENED_ELSEWHERE = "elsewhere: "
"""Prefix of the reason of a breaker that is open because another process opened its own."""
PROBE_FAILED = "a probe failed"
"""Prefix of the reason of a breaker that a failed probe opened again."""
_MIN_PROBE_SECONDS = 1.0  # minimum seconds before a probe counts as lost


class BreakerSettings(Frozen):
    """When a circuit breaker opens, for how long, and what closes it.

    Attributes:
        consecutive: Failures in a row that open it; None for no such limit.
        failure_rate: Share of failures among the last `window` calls that opens it, above 0 and up to 1; None for no
            such limit.
        window: Number of calls that `failure_rate` covers; it applies only after that many calls.
        slow_call: Seconds from which a successful call counts as a failure; None for never.
        open_for: Seconds it stays open.
        probes: Calls that a half-open breaker lets pass; all must succeed to close it.
        counts: Which errors are failures of the resource, in the forms of `RetryPolicy.retry_on`; by default those the
            classifier calls retryable, so that a 404 or a bug does not open it. Other errors count neither as failure
            nor as success. None means every Exception except `PermanentError`.
    """

    consecutive: int | None
    failure_rate: float | None
    window: int
    slow_call: float | None
    open_for: float
    probes: int
    counts: "RetryOn"

    def __init__(
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
        """Check the settings.

        Raises:
            ConfigError: If a setting is not valid, or the breaker would never open.
        """
        for name, number in (("consecutive", consecutive), ("window", window), ("probes", probes)):
            if number is not None or name != "consecutive":
                check_count(name, number, 1)
        if failure_rate is not None and not (is_number(failure_rate) and 0 < failure_rate <= 1):
            raise ConfigError(f"failure_rate is {short_repr(failure_rate)}; give a share above 0 and up to 1")
        if consecutive is None and failure_rate is None:
            raise ConfigError("a breaker needs consecutive or failure_rate, otherwise it would never open")
        self.__dict__.update(
            consecutive=consecutive,
            failure_rate=failure_rate,
            window=window,
            slow_call=None if slow_call is None else check_seconds("slow_call", slow_call),
            open_for=check_seconds("open_for", open_for),
            probes=probes,
            counts=check_retry_on(counts, "counts"),
        )

    def is_failure(self, error: BaseException) -> bool:
        """Return whether an error is a failure of the resource."""
        counts = NODE_RETRY_ON if self.counts is None else self.counts
        failure = None
        if isinstance(counts, frozenset):
            failure = failure_of(error)
            attach_failure(error, failure)  # the loop around the resource needs it too
        elif callable(counts) and not isinstance(counts, type):
            return isinstance(error, Exception) and bool(counts(error))
        return matches(counts, error, failure)


class Breaker:
    """The state of one breaker. Not thread-safe by itself: hold a lock for everything except `closed`.

    Attributes:
        state: ``"closed"``, ``"open"`` or ``"half_open"``.
        reason: Why it is open.
        until: When an open breaker lets probes pass; infinite if it is open until it is closed by hand.
        generation: Incremented by every change of state. A permit is the generation it was issued in; what its call
            reports after a change of state is ignored.
        passing: The generation while it is closed, else 0; a caller that reads a generation needs no lock.
    """

    def __init__(self, settings: BreakerSettings) -> None:
        self.settings = settings
        self.state = "closed"
        self.reason = ""
        self.until = 0.0
        self.failures = 0
        self.generation = self.passing = 1
        self.outcomes: deque[bool] = deque(maxlen=settings.window)
        self._probes_running = 0
        self._probes_passed = 0

    @property
    def closed(self) -> bool:
        """Whether all calls pass."""
        return self.state == "closed"

    def permit(self, now: float) -> int:
        """Return a permit for a call, or 0 to refuse it. A half-open breaker issues one permit per probe."""
        if self.state == "open" and now >= self.until:
            self._half_open(now)
        if self.state == "half_open":
            if now >= self.until and self._probes_running:  # a probe never reported back: let others try
                self._half_open(now)
            if self._probes_running + self._probes_passed >= self.settings.probes:
                return 0
            self._probes_running += 1
            return self.generation
        return self.generation if self.state == "closed" else 0

    def _half_open(self, now: float) -> None:
        self.state, self._probes_running, self._probes_passed = "half_open", 0, 0
        self.generation += 1
        self.until = now + max(self.settings.open_for, _MIN_PROBE_SECONDS)

    def succeeded(self, now: float, permit: int, seconds: float = 0.0) -> None:
        """Count a success; a call that was too slow counts as a failure."""
        if permit != self.generation:
            return
        if self.settings.slow_call is not None and seconds >= self.settings.slow_call:
            self.failed(now, permit, "slow calls")
            return
        if self.state == "half_open":
            self._probes_running -= 1
            self._probes_passed += 1
            if self._probes_passed >= self.settings.probes:
                self.close()
        elif self.state == "closed":
            self.failures = 0
            self.outcomes.append(True)

    def failed(self, now: float, permit: int, what: str = "failures") -> None:
        """Count a failure, which may open the breaker."""
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
        """Return an unused permit: the call was cancelled and has no result."""
        if permit == self.generation and self.state == "half_open":
            self._probes_running -= 1

    def open(self, now: float, reason: str = OPENED_BY_HAND, seconds: "float | timedelta | None" = None) -> None:
        """Refuse calls from now on.

        Args:
            now: The time.
            reason: Why.
            seconds: For how long; infinity until it is closed by hand; by default as in the settings.

        Raises:
            ConfigError: If `seconds` is not a valid time; the breaker is not changed.
        """
        length = self.settings.open_for if seconds is None else seconds
        until = now + (float("inf") if length == float("inf") else check_seconds("seconds", length))
        self.state, self.reason, self.passing = "open", reason, 0
        self.generation += 1
        self.until = until
        self.failures = 0
        self.outcomes.clear()

    def close(self) -> None:
        """Let all calls pass."""
        if self.state != "closed":
            self.generation += 1
        self.state, self.reason, self.failures = "closed", "", 0
        self.passing = self.generation
        self.outcomes.clear()
