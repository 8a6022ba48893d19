"""Named resources: a circuit breaker, a retry budget and a concurrency limit that all calls of a resource share.

A resource never makes callers wait: a call that is not allowed is refused at once.
"""

from _thread import allocate_lock  # what threading hands out, without its import
from contextvars import ContextVar

from outlast import clock
from outlast.decide.breaker import OPENED_ELSEWHERE, PROBE_FAILED, Breaker, BreakerSettings, Budget
from outlast.errors import BreakerOpenError, ConcurrencyLimitError, ConfigError
from outlast.forks import after_fork
from outlast.record import bus
from outlast.record.bus import publish
from outlast.run import logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TypeVar

    T = TypeVar("T")
    _Entry = tuple["Resource", int, float]
    """A resource entered by hand: the permit, and when."""


class Resource:
    """The circuit breaker, retry budget and concurrency limit of one resource.

    Use it through a policy (``RetryPolicy(resource="api.example.com")``), or alone as a context manager around a call:
    ``with outlast.resource("api.example.com"): …``.

    Args:
        name: The name, usually the host.
        breaker: The circuit breaker.
        budget: The retry budget.
        max_concurrency: Calls that may run at the same time; further ones raise `ConcurrencyLimitError`.
    """

    def __init__(
        self,
        name: str,
        *,
        breaker: BreakerSettings | None = None,
        budget: Budget | None = None,
        max_concurrency: int | None = None,
    ) -> None:
        """Begin with a closed breaker and a full budget."""
        for what, value, kind in (("breaker", breaker, BreakerSettings), ("budget", budget, Budget)):
            if value is not None and not isinstance(value, kind):
                raise ConfigError(f"{what} is {value!r}; give a {kind.__name__}(…)")
        if max_concurrency is not None and (type(max_concurrency) is not int or max_concurrency < 1):
            raise ConfigError(f"max_concurrency is {max_concurrency!r}; give a whole number, 1 or more")
        self.name = name
        self.breaker = Breaker(breaker) if breaker is not None else None
        self.budget = budget
        self.max_concurrency = max_concurrency
        self.running = 0
        self._entries: dict[int, _Entry] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock. A forked child needs it: a lock that another thread held at the fork is never released."""
        self._lock = allocate_lock()

    @property
    def is_bare(self) -> bool:
        """Whether the resource has no settings, so that it limits nothing."""
        return self.breaker is None and self.budget is None and self.max_concurrency is None

    @property
    def is_open(self) -> bool:
        """Whether the circuit breaker refuses calls now."""
        breaker = self.breaker
        return breaker is not None and breaker.state == "open" and clock.monotonic() < breaker.until

    def enter(self) -> int:
        """Start a call.

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
        if isinstance(error, Exception):
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
        try:
            counts = breaker.settings.is_failure(error)
        except Exception as mistake:  # noqa: BLE001  # a predicate of the user's; the error at hand matters more
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
        """Start a call, as `enter` does."""
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
_watchers: "list[Callable[[], object]]" = []
_registry_lock = allocate_lock()


def resource(
    name: str,
    *,
    breaker: BreakerSettings | None = None,
    budget: Budget | None = None,
    max_concurrency: int | None = None,
) -> Resource:
    """Return the resource of a name. Its settings can be given once, before or after a policy uses it.

    Raises:
        ConfigError: If it already has settings and others are given.
    """
    with _registry_lock:
        known = _resources.get(name)
        given = breaker is not None or budget is not None or max_concurrency is not None
        if known is None:
            known = _resources[name] = Resource(name, breaker=breaker, budget=budget, max_concurrency=max_concurrency)
        elif given and known.is_bare:  # named by a policy before its settings were given
            known.__init__(name, breaker=breaker, budget=budget, max_concurrency=max_concurrency)  # type: ignore[misc]  # anew
        elif given:
            raise ConfigError(f"resource {name!r} already has settings; give them only once")
    if breaker is not None:
        _notify_watchers()
    return known


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
