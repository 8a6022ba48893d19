"""Named resources: a circuit breaker, a retry budget, a concurrency limit and a rate limit that all calls share.

Only a rate limit makes callers wait. A call that the others do not allow is refused at once.
"""

from _thread import allocate_lock  # what threading hands out, without its import
from collections import deque
from contextvars import ContextVar

from outlast import async_backends, clock
from outlast.classify.safe_access import HeldInterrupts, contain
from outlast.decide.backoff import check_count
from outlast.decide.breaker import OPENED_ELSEWHERE, PROBE_FAILED, Breaker, BreakerSettings, Budget
from outlast.errors import BreakerOpenError, ConcurrencyLimitError, ConfigError, LocalRateLimitError
from outlast.forks import after_fork
from outlast.record import bus
from outlast.record.bus import publish
from outlast.run import logs
from outlast.run.call_state import CURRENT, longest_wait
from outlast.units import format_seconds, rate_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeVar

    T = TypeVar("T")
    from outlast.run.call_state import Call, CallState

    _Entry = tuple["Resource", int, float]
    """A resource entered by hand: the permit, and when."""


class RateLimiter:
    """Lets calls start at a rate, first come, first served; each name has its own rate.

    A call reserves the next free moment of its name, and sleeps until then. If it is cancelled, it gives the moment
    back, and the next new call takes it. All threads and event loops of this process share the moments; other
    processes have their own.

    Args:
        rate: Calls per second, as a number or a text such as ``"30/min"``.
    """

    def __init__(self, rate: str | float) -> None:
        from outlast.decide.limits import default_burst, per_second  # noqa: PLC0415  # loads typing

        self.rate = per_second("rate", rate)
        self._step = 1 / self.rate
        self._head_start = (default_burst(self.rate) - 1) * self._step
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        self.lock = allocate_lock()
        self._lines: dict[str, _Line] = {}
        self._most_lines = _MANY_LINES
        self._now = 0.0

    def reserve(self, name: str, current: "Call | CallState | None") -> "Turn | None":
        """Reserve the next free moment; return None if that is now.

        Args:
            name: What is called.
            current: The call, whose deadline limits the wait.

        Raises:
            LocalRateLimitError: If the moment is after the deadline. Nothing is reserved then.
        """
        with self.lock:
            now = clock.monotonic()
            if now < self._now:  # a test has replaced the clock
                self._lines.clear()
            self._now = now
            line = self._lines.get(name) or self._add_line(name)
            free = line.free
            if free - self._head_start <= now:
                line.free = max(free, now) + self._step
                return None
            hole = line.first_hole(now)
            turn = hole or Turn(self, line, free - self._head_start, free)
            wait, left = turn.start - now, longest_wait(current)
            if left is None or wait < left:
                line.holes.discard(turn)
                if hole is None:
                    line.free = free + self._step
                    line.turns.append(turn)
                return turn
        limit = f"its rate limit of {rate_text(self.rate)} allows the next call in {format_seconds(wait)}"
        raise LocalRateLimitError(f"{name}: not called, {limit}", retry_after=wait)

    def _add_line(self, name: str) -> "_Line":
        """Add a name; from time to time, forget those that have not been called for a while."""
        if len(self._lines) >= self._most_lines:
            self._lines = {each: line for each, line in self._lines.items() if line.free > self._now}
            self._most_lines = max(_MANY_LINES, 2 * len(self._lines))
        line = self._lines[name] = _Line()
        return line


_MANY_LINES = 10_000  # names after which a limiter forgets those that are not called


class _Line:
    """The moments of one name.

    Attributes:
        free: The next free moment, at the rate alone.
        turns: The reserved moments that may not have come yet, in order.
        holes: Those of them that were given back.
    """

    __slots__ = ("free", "holes", "turns")

    def __init__(self) -> None:
        self.free = 0.0
        self.turns: deque[Turn] = deque()
        self.holes: set[Turn] = set()

    def first_hole(self, now: float) -> "Turn | None":
        """Return the first moment that was given back and has not passed; forget the moments that have."""
        while self.turns and self.turns[0].start <= now:
            self.turns.popleft()
        if not self.holes:
            return None
        self.holes = {each for each in self.holes if each.start > now}
        return min(self.holes, key=lambda each: each.start, default=None)


class Turn:
    """A reserved moment.

    Attributes:
        start: When it is, on the monotonic clock.
    """

    __slots__ = ("_free_before", "_limiter", "_line", "start")

    def __init__(self, limiter: RateLimiter, line: _Line, start: float, free_before: float) -> None:
        self._limiter, self._line, self.start, self._free_before = limiter, line, start, free_before

    def seconds_left(self) -> float:
        """Return the seconds until the moment."""
        return max(0.0, self.start - clock.monotonic())

    def give_back(self) -> None:
        """Give back a moment that is not used; the next call that would have to wait for a later one gets it."""
        line = self._line
        with self._limiter.lock:
            line.holes.add(self)
            while line.turns and line.turns[-1] in line.holes:
                last = line.turns.pop()
                line.holes.discard(last)
                line.free = last._free_before  # noqa: SLF001  # of this class


class Resource:
    """The circuit breaker, retry budget, concurrency limit and rate limit of one resource.

    Use it through a policy (``RetryPolicy(resource="api.example.com")``), or alone as a context manager around a call:
    ``with outlast.resource("api.example.com"): …``. With a rate limit, use ``async with`` on an event loop.

    Args:
        name: The name, usually the host.
        breaker: The circuit breaker.
        budget: The retry budget.
        max_concurrency: Calls that may run at the same time; further ones raise `ConcurrencyLimitError`.
        rate: Calls per time, such as ``"10/s"`` or ``"30/min"``, in this process. Further ones wait for their turn, or
            raise `LocalRateLimitError` at once if the deadline of the call is earlier. Each attempt counts.
    """

    def __init__(
        self,
        name: str,
        *,
        breaker: BreakerSettings | None = None,
        budget: Budget | None = None,
        max_concurrency: int | None = None,
        rate: str | float | None = None,
    ) -> None:
        """Begin with a closed breaker and a full budget."""
        for what, value, kind in (("breaker", breaker, BreakerSettings), ("budget", budget, Budget)):
            if value is not None and not isinstance(value, kind):
                raise ConfigError(f"{what} is {value!r}; give a {kind.__name__}(…)")
        if max_concurrency is not None:
            check_count("max_concurrency", max_concurrency, 1)
        self.name = name
        self.breaker = Breaker(breaker) if breaker is not None else None
        self.budget = budget
        self.max_concurrency = max_concurrency
        self.limiter = None if rate is None else RateLimiter(rate)
        self.running = 0
        self._entries: dict[int, _Entry] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock. A forked child needs it: a lock that another thread held at the fork is never released."""
        self._lock = allocate_lock()

    @property
    def is_bare(self) -> bool:
        """Whether the resource has no settings, so that it limits nothing."""
        return all(each is None for each in (self.breaker, self.budget, self.max_concurrency, self.limiter))

    @property
    def is_open(self) -> bool:
        """Whether the circuit breaker refuses calls now."""
        breaker = self.breaker
        return breaker is not None and breaker.state == "open" and clock.monotonic() < breaker.until

    def wait(self, current: "Call | CallState | None") -> bool:
        """Wait until the rate limit allows the next call; with an open breaker, it is refused without a wait.

        Returns:
            Whether there was a wait.

        Raises:
            LocalRateLimitError: If that is after the deadline of the current call.
        """
        turn = None if self.limiter is None or self.is_open else self.limiter.reserve(self.name, current)
        if turn is None:
            return False
        try:
            clock.sleep(turn.seconds_left())
        except BaseException:
            turn.give_back()
            raise
        return True

    async def wait_async(self, current: "Call | CallState | None") -> bool:
        """Do the same without blocking the event loop."""
        turn = None if self.limiter is None or self.is_open else self.limiter.reserve(self.name, current)
        if turn is None:
            return False
        try:
            await clock.sleep_async(turn.seconds_left())
        except BaseException:
            turn.give_back()
            raise
        return True

    def enter(self) -> int:
        """Start a call; `wait` comes before it.

        Returns:
            A permit to return with the outcome.

        Raises:
            BreakerOpenError: If the circuit breaker is open.
            ConcurrencyLimitError: If too many calls are running.
        """
        breaker = self.breaker
        permit = 0 if breaker is None else breaker.passing or self._enter_guarded(breaker)
        if self.max_concurrency is not None:
            with self._lock:
                full = self.running >= self.max_concurrency
                self.running += not full
            if full:
                self.withdrawn(permit, entered=False)
                raise ConcurrencyLimitError(
                    f"{self.name}: not called, the limit of {self.max_concurrency} concurrent calls is reached"
                )
        return permit

    def succeeded(self, permit: int, seconds: float = 0.0) -> None:
        """Record that a call succeeded."""
        if self.max_concurrency is not None:
            self._leave()
        breaker = self.breaker
        if breaker is None:
            return
        settings = breaker.settings
        if permit and breaker.passing == permit and settings.slow_call is None:
            if breaker.failures:
                breaker.failures = 0
            if settings.failure_rate is not None:
                breaker.outcomes.append(True)  # a single append needs no lock
        else:
            self._changing(lambda: breaker.succeeded(clock.monotonic(), permit, seconds))

    def ended(self, error: BaseException, permit: int) -> None:
        """Record that a call raised an error; one that is not an Exception is neither success nor failure."""
        if issubclass(type(error), Exception):
            self.failed(error, permit)
        else:
            self.withdrawn(permit)

    def failed(self, error: BaseException, permit: int) -> None:
        """Record the error of a call. The settings of the breaker decide whether it counts as a failure."""
        if self.max_concurrency is not None:
            self._leave()
        breaker = self.breaker
        if breaker is None:
            return
        with HeldInterrupts():
            try:
                counts = breaker.settings.is_failure(error)
            except BaseException as mistake:  # noqa: BLE001  # a predicate of the user's, or code of the error at hand
                contain(mistake)
                counts = False
                logs.log_user_error("the breaker's predicate", self.name, mistake)
            self._changing(
                (lambda: breaker.failed(clock.monotonic(), permit)) if counts else lambda: breaker.withdrawn(permit)
            )

    def withdrawn(self, permit: int, *, entered: bool = True) -> None:
        """Record that a call was cancelled, which counts neither as success nor as failure."""
        if self.max_concurrency is not None and entered:
            self._leave()
        if self.breaker is not None:
            with self._lock:
                self.breaker.withdrawn(permit)

    def pay_for_retry(self) -> bool:
        """Take one retry from the budget; False if none is left."""
        if self.budget is None:
            return True
        with self._lock:
            paid = self.budget.take(clock.monotonic())
        if not paid and bus.subscribers:
            from outlast.record.events import BudgetExhausted  # noqa: PLC0415  # only subscribers need it

            publish(BudgetExhausted(self.name))
        return paid

    def open(self, seconds: float | None = None) -> None:
        """Open the circuit breaker by hand, for this many seconds or until `close`."""
        breaker = self._needed()
        self._changing(lambda: breaker.open(clock.monotonic(), seconds=float("inf") if seconds is None else seconds))

    def close(self) -> None:
        """Close the circuit breaker by hand."""
        self._changing(self._needed().close)

    def take_over(self, seconds: float, reason: str) -> bool:
        """Open the circuit breaker because that of another process is open. Returns whether it was opened.

        Nothing changes if the breaker is open or half-open. A breaker that has ever changed its state ignores failed
        probes of other processes, because it makes its own.

        Args:
            seconds: Seconds from now on for which the other breaker stays open.
            reason: The reason that the other process gives.
        """
        breaker = self._needed()

        def change() -> bool:
            now = clock.monotonic()
            if breaker.state == "half_open" or (breaker.state == "open" and now < breaker.until):
                return False
            if breaker.generation > 1 and reason.startswith(PROBE_FAILED):
                return False
            breaker.open(now, OPENED_ELSEWHERE + reason, seconds)
            return True

        return self._changing(change)

    def _needed(self) -> Breaker:
        if self.breaker is None:
            raise ConfigError(f"{self.name} has no breaker")
        return self.breaker

    def _leave(self) -> None:
        with self._lock:
            self.running = max(0, self.running - 1)  # a call may have begun before the limit was set

    def _enter_guarded(self, breaker: Breaker) -> int:
        now = clock.monotonic()
        permit = self._changing(lambda: breaker.permit(now))
        if not permit:
            wait = max(0.0, breaker.until - now)
            message = f"{self.name}: not called, the breaker is {breaker.state.replace('_', '-')}"
            known = breaker.state == "open" and wait < float("inf")
            raise BreakerOpenError(message, retry_after=wait if known else None)
        return permit

    def _changing(self, change: "Callable[[], T]") -> "T":
        """Change the breaker under the lock, and publish a change of its state."""
        breaker = self._needed()
        with self._lock:
            before = breaker.state
            result = change()
            after, reason, until = breaker.state, breaker.reason, breaker.until
        if before != after:
            if after == "open":
                _notify_watchers()
            if bus.subscribers:
                _publish_transition(self.name, after, reason, until - clock.monotonic())
        return result

    def __enter__(self) -> "Self":
        """Start a call, as `enter` does, after the wait of the rate limit."""
        if self.limiter is not None:
            if async_backends.in_event_loop():
                raise ConfigError(f"{self.name} has a rate limit, which would block the event loop; use 'async with'")
            self.wait(CURRENT.get())
        return self._entered()

    async def __aenter__(self) -> "Self":
        """Do the same without blocking the event loop."""
        await self.wait_async(CURRENT.get())
        return self._entered()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Report the outcome of the call."""
        self.__exit__(kind, error, traceback)

    def _entered(self) -> "Self":
        entry = (self, self.enter(), clock.monotonic())
        self._entries[id(entry)] = entry
        _open_permits.set((*(each for each in _open_permits.get() if each[0].holds(each)), entry))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Record the outcome; an error that is not an Exception is neither success nor failure."""
        entry = self._left()
        if entry is None:  # another exit has removed it
            return
        _, permit, started = entry
        if error is None:
            self.succeeded(permit, clock.monotonic() - started)
        else:
            self.ended(error, permit)

    def holds(self, entry: "_Entry") -> bool:
        """Return whether a block has entered the resource and not left it yet."""
        return id(entry) in self._entries

    def _left(self) -> "_Entry | None":
        """Remove the innermost entry of this context; if it has none, the last entry of any other context."""
        entries = _open_permits.get()
        for entry in reversed(entries):
            if entry[0] is self and self._entries.pop(id(entry), None) is not None:
                _open_permits.set(tuple(each for each in entries if each is not entry))
                return entry
        try:
            return self._entries.popitem()[1]
        except KeyError:
            return None


_open_permits: "ContextVar[tuple[_Entry, ...]]" = ContextVar("outlast_entered", default=())
"""The resources entered by hand, innermost last: one resource serves many threads and tasks at once."""


def _publish_transition(name: str, state: str, reason: str, seconds: float) -> None:
    from outlast.record import events  # noqa: PLC0415  # only subscribers need them

    if state == "open":
        publish(events.BreakerOpened(name, reason, seconds))
    elif state == "half_open":
        publish(events.BreakerHalfOpened(name))
    else:
        publish(events.BreakerClosed(name))


_resources: dict[str, Resource] = {}
_settings: "dict[str, Any]" = {}
_watchers: "list[Callable[[], object]]" = []
_registry_lock = allocate_lock()


def resource(
    name: str,
    *,
    breaker: BreakerSettings | None = None,
    budget: Budget | None = None,
    max_concurrency: int | None = None,
    rate: str | float | None = None,
) -> Resource:
    """Return the resource of a name. Its settings can be given once, before or after a policy uses it.

    Raises:
        ConfigError: If it already has other settings.
    """
    with _registry_lock:
        known = _resources.get(name)
        given = {"breaker": breaker, "budget": budget, "max_concurrency": max_concurrency, "rate": rate}
        is_bare = all(each is None for each in given.values())
        if known is None:
            known = _resources[name] = Resource(name, **given)  # type: ignore[arg-type]  # as they are above
        elif known.is_bare and not is_bare:  # named by a policy before its settings were given
            known.__init__(name, **given)  # type: ignore[misc]  # anew
        elif not is_bare and _settings.get(name) != given:
            raise ConfigError(f"resource {name!r} already has other settings; give them only once")
        if not is_bare:
            _settings[name] = given
    if breaker is not None:
        _notify_watchers()
    return known


def find_resource(name: str) -> Resource | None:
    """Return the resource of a name if there is one; it is not created, so thousands of names take no memory."""
    return _resources.get(name)


def _notify_watchers() -> None:
    for tell in tuple(_watchers):
        tell()


def resources_with_breakers() -> "list[tuple[Resource, Breaker]]":
    """Return the resources of this process that have a breaker, each with it."""
    with _registry_lock:
        known = list(_resources.values())
    return [(each, each.breaker) for each in known if each.breaker is not None]


def watch_breakers(tell: "Callable[[], object]") -> None:
    """Call a function, from any thread, whenever a resource of this process gets a breaker or one opens."""
    _watchers.append(tell)


def unwatch_breakers(tell: "Callable[[], object]") -> None:
    """Unregister a function of `watch_breakers`."""
    if tell in _watchers:
        _watchers.remove(tell)


def _after_fork_in_child() -> None:
    global _registry_lock  # noqa: PLW0603  # the old one may be held
    _registry_lock = allocate_lock()
    for each in _resources.values():
        each.renew_lock()


after_fork(_after_fork_in_child)
