"""Synchronises the circuit breakers of this process with the store and, through it, with other processes.

Breakers belong to a process and are read without a lock. Calls never wait for this module: a background thread
publishes changed states to the store at regular intervals, applies orders given by hand, and opens breakers that other
processes have opened. A process without breakers sends no queries.
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
"""Seconds between two rounds."""
_RESEND_EVERY = 20.0  # seconds after which a process without a lease publishes all its breakers again, as a heartbeat
_MIN_PAUSE = 0.1  # minimum seconds between two rounds, however often breakers open
_SAME_OPENING_SECONDS = 1.0  # by which the end of one opening may differ, as processes publish it at different times
_ROUNDS_AFTER_CLOSE = 2  # a call refused just before the close may still start another cooldown


class BreakerStore(Breakers, Cooldowns, Protocol):
    """The store methods that a sync needs."""


class _BreakerStatus(NamedTuple):
    """The state of a breaker; `until` is on the monotonic clock."""

    state: str
    reason: str
    until: float


class _ActiveOrder(NamedTuple):
    """An order in effect; `until` is on the monotonic clock."""

    number: int
    state: str
    until: float


class _RemoteOpening(NamedTuple):
    """A breaker that another process opened; `until` is on the monotonic clock."""

    process: str
    until: float

    def is_same(self, other: "_RemoteOpening | None") -> bool:
        """Return whether both describe the same opening."""
        return (
            other is not None
            and other.process == self.process
            and abs(other.until - self.until) < _SAME_OPENING_SECONDS
        )


class BreakerSync:
    """Publishes the breakers of this process, applies orders to them, and opens those that are open elsewhere.

    Args:
        store: Holds the published states and the orders.
        process: Returns the name to publish under; a worker gets a new one after it lost its lease.
        leased: Whether the process has a lease; once the lease is over, its states are no longer published.
        resend_every: Seconds after which all states are published again; None for never, for a process with a lease.
    """

    def __init__(
        self,
        store: BreakerStore,
        process: Callable[[], str],
        *,
        leased: bool = False,
        resend_every: float | None = None,
    ) -> None:
        self._store, self._process, self._leased, self._resend_every = store, process, leased, resend_every
        self._name = ""
        self._published: dict[str, _BreakerStatus] = {}
        self._published_at = 0.0
        self._last_order: int | None = None
        self._orders: dict[str, _ActiveOrder] = {}
        self._applied: dict[str, tuple[Breaker, int]] = {}
        self._closed: dict[str, int] = {}
        self._remote_openings: dict[str, _RemoteOpening] = {}

    def sync(self) -> None:
        """Apply new orders, publish changed states, open breakers that are open elsewhere. Call it at intervals.

        Also ends the cooldowns of resources whose breaker was closed by hand.

        Raises:
            Exception: If the store fails; the next call does what this one left undone.
        """
        guards = resources_with_breakers()
        if not guards and not self._published:
            return
        self._apply_orders(guards)
        self._publish(guards)  # first, so that an old name of this process does not count as another process
        if guards:
            self._open_as_elsewhere(guards)
        self._end_cooldowns()

    def forget(self) -> None:
        """Remove the states of this process from the store."""
        if self._published:
            self._store.forget_breakers(self._name)
            self._published = {}

    def _apply_orders(self, guards: list[tuple[Resource, Breaker]]) -> None:
        orders = self._store.breaker_orders(self._last_order or 0)
        now = clock.monotonic()
        # The first read returns orders of any age.
        new_orders = set() if self._last_order is None else {order.resource for order in orders}
        for order in orders:
            self._orders[order.resource] = _active_order(order, now)
        self._last_order = max([self._last_order or 0, *(order.number for order in orders)])
        for guard, breaker in guards:
            active = self._orders.get(guard.name)
            seen, number = self._applied.get(guard.name, (None, 0))
            if active is not None and (seen is not breaker or number != active.number):
                self._apply_order(guard, breaker, active, fresh=guard.name in new_orders)
                self._applied[guard.name] = breaker, active.number

    def _apply_order(self, guard: Resource, breaker: Breaker, order: _ActiveOrder, *, fresh: bool) -> None:
        """Apply an order. An old order to close does not close a breaker that has opened by itself since."""
        if order.state == "open":
            left = order.until - clock.monotonic()
            if left > 0:
                guard.open(None if left == math.inf else left)
                log.warning("%s: breaker opened by hand, calls are refused from now on", guard.name)
        elif not breaker.closed and (fresh or breaker.reason == OPENED_BY_HAND):
            guard.close()
            self._closed[guard.name] = _ROUNDS_AFTER_CLOSE
            log.warning("%s: breaker closed by hand, calls are allowed from now on", guard.name)

    def _publish(self, guards: list[tuple[Resource, Breaker]]) -> None:
        name, now = self._process(), clock.monotonic()
        if name != self._name or (self._resend_every is not None and now - self._published_at >= self._resend_every):
            if name != self._name:
                self.forget()
            self._name, self._published, self._published_at = name, {}, now
        statuses = {guard.name: _breaker_status(breaker) for guard, breaker in guards}
        changed = {each: status for each, status in statuses.items() if self._published.get(each) != status}
        if changed:
            rows = [(each, status.state, _seconds_left(status, now), status.reason) for each, status in changed.items()]
            self._store.report_breakers(name, rows, leased=self._leased)
        for each, status in changed.items():
            if status.state == "closed" and each in self._published and self._published[each].reason == OPENED_BY_HAND:
                self._closed[each] = _ROUNDS_AFTER_CLOSE
        self._published.update(changed)

    def _open_as_elsewhere(self, guards: list[tuple[Resource, Breaker]]) -> None:
        """Open the breakers that other processes opened by themselves, for as long as theirs; each opening once."""
        known = {guard.name: guard for guard, _ in guards}
        openings = self._store.opened_breakers(self._name, list(known))
        now = clock.monotonic()
        for opening in openings:
            guard, fresh = known[opening.resource], _RemoteOpening(opening.process, now + opening.seconds)
            if guard.is_open or fresh.is_same(self._remote_openings.get(guard.name)):
                continue
            self._remote_openings[guard.name] = fresh
            if guard.take_over(opening.seconds, opening.reason):
                log.warning(
                    "%s: breaker opened for %.1f s, as in %s: %s",
                    guard.name,
                    opening.seconds,
                    opening.process,
                    opening.reason,
                )

    def _end_cooldowns(self) -> None:
        """End cooldowns that exist only because of a breaker that is closed now."""
        if not self._closed:
            return
        for cooldown in self._store.cooldowns():
            if cooldown.resource in self._closed and cooldown.reason == BREAKER_OPEN:
                self._store.end_cooldown(cooldown.resource)
        self._closed = {each: rounds - 1 for each, rounds in self._closed.items() if rounds > 1}


def _active_order(order: BreakerOrder, now: float) -> _ActiveOrder:
    return _ActiveOrder(order.number, order.state, math.inf if order.seconds is None else now + order.seconds)


def _breaker_status(breaker: Breaker) -> _BreakerStatus:
    """Return the state of a breaker. It is read without a lock; the next round corrects an inconsistent read."""
    state = breaker.state
    return _BreakerStatus(state, breaker.reason, breaker.until) if state != "closed" else _BreakerStatus(state, "", 0.0)


def _seconds_left(status: _BreakerStatus, now: float) -> float | None:
    return max(0.0, status.until - now) if status.state == "open" and status.until < math.inf else None


def process_name() -> str:
    """Return the name of a process without a lease: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def breaker_store_of(store: object) -> BreakerStore | None:
    """Return the store if it can hold breakers, else None."""
    return cast(BreakerStore, store) if hasattr(store, "report_breakers") and hasattr(store, "end_cooldown") else None


class _SyncThread:
    """A sync in its own thread, which starts when the process has a breaker."""

    def __init__(self, store: BreakerStore, process: Callable[[], str], *, leased: bool) -> None:
        self.store, self.leased = store, leased
        self._sync = BreakerSync(store, process, leased=leased, resend_every=None if leased else _RESEND_EVERY)
        self._stopped, self._is_failing = threading.Event(), False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_lock, self._pid = threading.Lock(), os.getpid()

    def start(self) -> None:
        """Apply the orders in effect, then keep syncing in the background."""
        with _running_lock:
            _running_syncs.append(self)
        if resources_with_breakers():
            self._sync_once()
            self._start_or_wake(at_once=False)
        watch_breakers(self._start_or_wake)
        if resources_with_breakers():  # one may have been added in between
            self._start_or_wake()

    def stop(self, *, fast: bool = False) -> None:
        """Stop syncing and remove the published states. With `fast`, leave them in the store, where they expire."""
        if os.getpid() != self._pid:  # a forked child has nothing to stop
            return
        self.stop_watching()
        self._stopped.set()
        self._wake.set()
        with _running_lock, suppress(ValueError):
            _running_syncs.remove(self)
        if self._thread is not None and not fast:
            self._thread.join(SYNC_EVERY)
            with suppress(Exception):  # states of a process that no longer exists expire anyway
                self._sync.forget()

    def stop_watching(self) -> None:
        """Stop reacting to new and opened breakers."""
        unwatch_breakers(self._start_or_wake)

    @property
    def has_started(self) -> bool:
        """Whether the thread was started."""
        return self._thread is not None

    def _start_or_wake(self, *, at_once: bool = True) -> None:
        """Start the thread, or wake it for a round at once: there is a new breaker, or one has opened."""
        self._wake.set()
        with self._start_lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(
                    target=self._run, args=(at_once,), name="outlast-breaker-sync", daemon=True
                )
                self._thread.start()

    def _run(self, at_once: bool) -> None:  # noqa: FBT001  # called only above
        if not at_once:
            self._wake.clear()
        while True:
            self._wake.wait(SYNC_EVERY)
            self._wake.clear()
            if self._stopped.is_set():
                return
            self._sync_once()
            self._stopped.wait(min(_MIN_PAUSE, SYNC_EVERY))

    def _sync_once(self) -> None:
        try:
            if self._is_needed():
                self._sync.sync()
            else:
                self._sync.forget()
            self._is_failing = False
        except Exception as error:  # noqa: BLE001  # the next round tries again
            if not self._is_failing and not self._stopped.is_set():
                log.error("cannot sync breakers with the store, retrying: %s", classify(error))  # noqa: TRY400  # one line
            self._is_failing = True

    def _is_needed(self) -> bool:
        """Return whether no other sync of this process covers the store: a worker's, or one that started earlier."""
        with _running_lock:
            same_store = [each for each in _running_syncs if each.store is self.store]
        return self.leased or (not any(each.leased for each in same_store) and same_store[:1] == [self])


_running_syncs: list[_SyncThread] = []
_running_lock = threading.Lock()


def _after_fork_in_child() -> None:
    """Drop the parent's syncs: their threads do not exist here, and a lock held at the fork stays locked.

    A sync that the child starts is then its only one.
    """
    global _running_lock  # noqa: PLW0603  # the old one may be held
    _running_lock = threading.Lock()
    for sync_thread in _running_syncs:
        sync_thread.stop_watching()
    _running_syncs.clear()


after_fork(_after_fork_in_child)


@contextmanager
def sync_breakers(store: BreakerStore | None, process: Callable[[], str], *, leased: bool) -> Iterator[None]:
    """Sync breakers within the block; orders in effect are applied before it starts.

    It has its own thread, apart from the heartbeat: a slow duty there, such as pruning, must not delay an order. A
    process without a breaker has no such thread.

    Args:
        store: Holds the states and orders; None to sync nothing.
        process: Returns the name to publish under.
        leased: Whether the process has a lease; once it is over, its states are no longer published.
    """
    if store is None:
        yield
        return
    sync_thread = _SyncThread(store, process, leased=leased)
    sync_thread.start()
    fast = False
    try:
        yield
    except KeyboardInterrupt:
        fast = True
        raise
    finally:
        sync_thread.stop(fast=fast)


@asynccontextmanager
async def sync_breakers_async(store: BreakerStore | None, process: Callable[[], str]) -> AsyncIterator[None]:
    """Do what `sync_breakers` does for a process without a lease, without blocking the event loop."""
    if store is None:
        yield
        return
    sync_thread = _SyncThread(store, process, leased=False)
    if resources_with_breakers():
        await asyncio.to_thread(sync_thread.start)
    else:
        sync_thread.start()
    fast = False
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        fast = True
        raise
    finally:
        if fast or not sync_thread.has_started:
            sync_thread.stop(fast=True)
        else:
            await asyncio.shield(asyncio.to_thread(sync_thread.stop))
