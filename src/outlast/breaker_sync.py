"""The beacon: a process tells how its breakers stand, and takes what people order of them and what others have found.

Breakers belong to a process and are read without a lock. Nothing here is on the way of a call: every so often somebody
looks at them, tells the store what has changed, and asks it for new orders and for what other processes leave alone. A
process without a breaker asks nothing.
"""

import asyncio
import logging
import math
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import NamedTuple, Protocol, cast

from outlast import clock
from outlast.classify import classify
from outlast.decide.breaker import BREAKER_OPEN, OPENED_BY_HAND, Breaker
from outlast.forks import after_fork
from outlast.ports.read_rows import BreakerOrder, Breakers
from outlast.ports.store import Cooldowns
from outlast.run.resources import Resource, resources_with_breakers, unwatch_breakers, watch_breakers

log = logging.getLogger("outlast.breaker_sync")
SYNC_EVERY = 1.0
"""Seconds between two looks."""
_RESEND_EVERY = 20.0  # seconds after which a process that has no lease tells all of it again, as its sign of life
_MIN_PAUSE = 0.1  # seconds between two looks at least, however often breakers open
_SAME_OPENING_SECONDS = 1.0  # seconds by which the ends of one opening may differ, as it was told of at different times
_ROUNDS_AFTER_CLOSE = 2  # after a close: what was refused a moment before it may begin another cooldown


class BreakerStore(Breakers, Cooldowns, Protocol):
    """What a beacon asks of a store."""


class _BreakerStatus(NamedTuple):
    """How a breaker stands; `until` is on the monotonic clock."""

    state: str
    reason: str
    until: float


class _ActiveOrder(NamedTuple):
    """An order that holds; `until` is on the monotonic clock."""

    number: int
    state: str
    until: float


class _RemoteOpening(NamedTuple):
    """What was found open elsewhere; `until` is on the monotonic clock."""

    process: str
    until: float

    def is_same(self, other: "_RemoteOpening | None") -> bool:
        """Tell whether it is one opening, seen twice."""
        return (
            other is not None
            and other.process == self.process
            and abs(other.until - self.until) < _SAME_OPENING_SECONDS
        )


class BreakerSync:
    """Tells of the breakers of this process, has them obey, and has them open where others have found a reason.

    Args:
        store: Where others see them, and where orders are.
        process: Tells under which name; a worker has another one after its lease was lost.
        leased: Whether a lease says that the process lives; without it nothing is told of it any more.
        again: Seconds after which all is told again; None for never, where a lease vouches for it.
    """

    def __init__(
        self, store: BreakerStore, process: Callable[[], str], *, leased: bool = False, again: float | None = None
    ) -> None:
        """Begin with nothing told."""
        self._store, self._process, self._leased, self._again = store, process, leased, again
        self._name = ""
        self._told: dict[str, _BreakerStatus] = {}
        self._told_at = 0.0
        self._newest: int | None = None
        self._orders: dict[str, _ActiveOrder] = {}
        self._obeyed: dict[str, tuple[Breaker, int]] = {}
        self._closed: dict[str, int] = {}
        self._taken: dict[str, _RemoteOpening] = {}

    def report_breakers(self) -> None:
        """Take new orders, tell what has changed, take over what others leave alone; to be called every so often.

        The cooldowns of what was closed by hand end with it.

        Raises:
            Exception: What the store says if it cannot be asked; what was left undone is done by the next call.
        """
        guards = resources_with_breakers()
        if not guards and not self._told:
            return
        self._take_orders(guards)
        self._tell(guards)  # before it looks at others: an old name of this process is none of them
        if guards:
            self._take_over(guards)
        self._end_cooldowns()

    def forget(self) -> None:
        """Have the process forgotten, for it ends."""
        if self._told:
            self._store.forget_breakers(self._name)
            self._told = {}

    def _take_orders(self, guards: list[tuple[Resource, Breaker]]) -> None:
        orders = self._store.breaker_orders(self._newest or 0)
        now = clock.monotonic()
        fresh = set() if self._newest is None else {order.resource for order in orders}  # else of any age
        for order in orders:
            self._orders[order.resource] = _active_order(order, now)
        self._newest = max([self._newest or 0, *(order.number for order in orders)])
        for guard, breaker in guards:
            standing = self._orders.get(guard.name)
            seen, number = self._obeyed.get(guard.name, (None, 0))
            if standing is not None and (seen is not breaker or number != standing.number):
                self._obey(guard, breaker, standing, fresh=guard.name in fresh)
                self._obeyed[guard.name] = breaker, standing.number

    def _obey(self, guard: Resource, breaker: Breaker, order: _ActiveOrder, *, fresh: bool) -> None:
        """Do what was ordered. An old order to close is none for a breaker that has opened by itself since."""
        if order.state == "open":
            left = order.until - clock.monotonic()
            if left > 0:
                guard.open(None if left == math.inf else left)
                log.warning("%s: left alone from now on, its breaker was opened by hand", guard.name)
        elif not breaker.closed and (fresh or breaker.reason == OPENED_BY_HAND):
            guard.close()
            self._closed[guard.name] = _ROUNDS_AFTER_CLOSE
            log.warning("%s: called again from now on, its breaker was closed by hand", guard.name)

    def _tell(self, guards: list[tuple[Resource, Breaker]]) -> None:
        name, now = self._process(), clock.monotonic()
        if name != self._name or (self._again is not None and now - self._told_at >= self._again):
            if name != self._name:
                self.forget()
            self._name, self._told, self._told_at = name, {}, now
        stands = {guard.name: _breaker_status(breaker) for guard, breaker in guards}
        changed = {each: stand for each, stand in stands.items() if self._told.get(each) != stand}
        if changed:
            rows = [(each, stand.state, _seconds_left(stand, now), stand.reason) for each, stand in changed.items()]
            self._store.report_breakers(name, rows, leased=self._leased)
        for each, stand in changed.items():
            if stand.state == "closed" and each in self._told and self._told[each].reason == OPENED_BY_HAND:
                self._closed[each] = _ROUNDS_AFTER_CLOSE
        self._told.update(changed)

    def _take_over(self, guards: list[tuple[Resource, Breaker]]) -> None:
        """Leave alone what others leave alone by their own judgement, as long as they do; each opening once."""
        known = {guard.name: guard for guard, _ in guards}
        openings = self._store.opened_breakers(self._name, list(known))
        now = clock.monotonic()
        for opening in openings:
            guard, fresh = known[opening.resource], _RemoteOpening(opening.process, now + opening.seconds)
            if guard.is_open or fresh.is_same(self._taken.get(guard.name)):
                continue
            self._taken[guard.name] = fresh
            if guard.take_over(opening.seconds, opening.reason):
                log.warning(
                    "%s: left alone for %.1f s, as %s does: %s",
                    guard.name,
                    opening.seconds,
                    opening.process,
                    opening.reason,
                )

    def _end_cooldowns(self) -> None:
        """Let tasks go on that wait for nothing but a breaker that is closed now."""
        if not self._closed:
            return
        for cooldown in self._store.cooldowns():
            if cooldown.resource in self._closed and cooldown.reason == BREAKER_OPEN:
                self._store.end_cooldown(cooldown.resource)
        self._closed = {each: looks - 1 for each, looks in self._closed.items() if looks > 1}


def _active_order(order: BreakerOrder, now: float) -> _ActiveOrder:
    return _ActiveOrder(order.number, order.state, math.inf if order.seconds is None else now + order.seconds)


def _breaker_status(breaker: Breaker) -> _BreakerStatus:
    """Return how a breaker stands; read without its lock, what is torn is told anew with the next look."""
    state = breaker.state
    return _BreakerStatus(state, breaker.reason, breaker.until) if state != "closed" else _BreakerStatus(state, "", 0.0)


def _seconds_left(stand: _BreakerStatus, now: float) -> float | None:
    return max(0.0, stand.until - now) if stand.state == "open" and stand.until < math.inf else None


def process_name() -> str:
    """Return the name of a process that no lease vouches for."""
    return f"{socket.gethostname()}:{os.getpid()}"


def breaker_store_of(store: object) -> BreakerStore | None:
    """Return a store that knows of breakers; None where it knows of something else alone."""
    return cast(BreakerStore, store) if hasattr(store, "report_breakers") and hasattr(store, "end_cooldown") else None


class _SyncThread:
    """A beacon in a thread of its own, which begins when the process has a breaker."""

    def __init__(self, store: BreakerStore, process: Callable[[], str], *, leased: bool) -> None:
        self.store, self.leased = store, leased
        self._sync = BreakerSync(store, process, leased=leased, again=None if leased else _RESEND_EVERY)
        self._ended, self._troubled = threading.Event(), False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_lock, self._pid = threading.Lock(), os.getpid()

    def begin(self) -> None:
        """Obey what stands; go on beside whatever is done."""
        with _running_lock:
            _running_syncs.append(self)
        if resources_with_breakers():
            self._look()
            self._wake_up(at_once=False)
        watch_breakers(self._wake_up)
        if resources_with_breakers():  # one may have come in between
            self._wake_up()

    def end(self, *, hurry: bool = False) -> None:
        """Have the process forgotten. In a hurry, what was told grows old by itself."""
        if os.getpid() != self._pid:  # in a fork of it, which has nothing to end
            return
        self.stop_watching()
        self._ended.set()
        self._wake.set()
        with _running_lock, suppress(ValueError):
            _running_syncs.remove(self)
        if self._thread is not None and not hurry:
            self._thread.join(SYNC_EVERY)
            with suppress(Exception):  # what was told is left out anyhow when its process is known no more
                self._sync.forget()

    def stop_watching(self) -> None:
        """Hear of no breaker any more."""
        unwatch_breakers(self._wake_up)

    @property
    def has_started(self) -> bool:
        """Whether there is anything to end."""
        return self._thread is not None

    def _wake_up(self, *, at_once: bool = True) -> None:
        """Begin, or look at once: there is another breaker, or one has opened."""
        self._wake.set()
        with self._start_lock:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, args=(at_once,), name="outlast-beacon", daemon=True)
                self._thread.start()

    def _run(self, at_once: bool) -> None:  # noqa: FBT001  # from here alone
        if not at_once:
            self._wake.clear()
        while True:
            self._wake.wait(SYNC_EVERY)
            self._wake.clear()
            if self._ended.is_set():
                return
            self._look()
            self._ended.wait(min(_MIN_PAUSE, SYNC_EVERY))

    def _look(self) -> None:
        try:
            if self._is_needed():
                self._sync.report_breakers()
            else:
                self._sync.forget()
            self._troubled = False
        except Exception as error:  # noqa: BLE001  # tried again with the next look
            if not self._troubled and not self._ended.is_set():
                log.error("breakers could not be told of, tried again: %s", classify(error))  # noqa: TRY400  # in a line
            self._troubled = True

    def _is_needed(self) -> bool:
        """Tell whether no other one of this process tells the store the same: a worker's, or one that began before."""
        with _running_lock:
            beside = [each for each in _running_syncs if each.store is self.store]
        return self.leased or (not any(each.leased for each in beside) and beside[:1] == [self])


_running_syncs: list[_SyncThread] = []
_running_lock = threading.Lock()


def _after_fork_in_child() -> None:
    """Leave the parent's beacons to it: their threads are not here, and a lock that one held is held for good.

    A beacon of the child's own is then the only one, and tells.
    """
    global _running_lock  # noqa: PLW0603  # the old one may be held
    _running_lock = threading.Lock()
    for light in _running_syncs:
        light.stop_watching()
    _running_syncs.clear()


after_fork(_after_fork_in_child)


@contextmanager
def sync_breakers(store: BreakerStore | None, process: Callable[[], str], *, leased: bool) -> Iterator[None]:
    """Have a beacon within the block; standing orders are obeyed before it begins.

    It has a thread of its own and is no chore of the heart: what takes long there, such as pruning, must not hold up an
    order. A process without a breaker has no such thread, until it gets one.

    Args:
        store: Where orders are; None for none.
        process: Tells under which name.
        leased: Whether a lease vouches for the process; whose is over is told of no more.
    """
    if store is None:
        yield
        return
    light = _SyncThread(store, process, leased=leased)
    light.begin()
    hurry = False
    try:
        yield
    except KeyboardInterrupt:  # somebody is in a hurry
        hurry = True
        raise
    finally:
        light.end(hurry=hurry)


@asynccontextmanager
async def sync_breakers_async(store: BreakerStore | None, process: Callable[[], str]) -> AsyncIterator[None]:
    """Do as `shining` does for a process without a lease, and never hold up the event loop."""
    if store is None:
        yield
        return
    light = _SyncThread(store, process, leased=False)
    if resources_with_breakers():
        await asyncio.to_thread(light.begin)
    else:
        light.begin()
    hurry = False
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        hurry = True
        raise
    finally:
        if hurry or not light.has_started:
            light.end(hurry=True)
        else:
            await asyncio.shield(asyncio.to_thread(light.end))
