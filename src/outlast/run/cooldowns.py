"""Cooldowns of resources, kept in this process and shared with others through a store."""

import atexit
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

from outlast import clock
from outlast.forks import after_fork
from outlast.record import bus
from outlast.record.bus import publish


class CooldownStore(Protocol):
    """The methods of a store that share cooldowns; every store of Outlast has them."""

    def now(self) -> datetime:
        """Return the time by the store's clock."""

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Start a cooldown; return how many capped responses came in a row."""

    def probe(self, resource: str, hold: float) -> bool:
        """Return whether this process may send the single probe request."""

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown."""

    def cooldowns(self) -> "Sequence[Any]":
        """Return the running cooldowns, with `resource`, `until` and `capped`."""


class KnownCooldown(NamedTuple):
    """A cooldown as this process knows it."""

    until: float  # on the monotonic clock
    capped: int  # responses in a row that asked for longer than the cap; 0 for a plain cooldown
    reason: str = ""
    shared: bool = False  # whether the store has it too
    probing: bool = False  # whether a request of this process probes the resource
    since: float = 0.0


class CooldownWrite(NamedTuple):
    """A change that is not in the store yet.

    Attributes:
        kind: ``cool``, ``warm``, or ``give_back`` for a probe that was not sent.
        own: The cooldown; for the other kinds, only `until` is set: when the change is no longer worth writing.
    """

    kind: str
    own: KnownCooldown


class CooldownWrites:
    """The changes that are not in the store yet, in order for each scope. One thread writes; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[str, list[CooldownWrite]] = {}

    def __bool__(self) -> bool:
        """Return whether there are changes to write."""
        return bool(self._pending)

    def start_cooldown(self, scope: str, own: KnownCooldown) -> None:
        """Add a cooldown; of two that are not written yet, the longer one is kept."""
        with self._lock:
            writes = self._pending.setdefault(scope, [])
            if writes and writes[-1].kind == "cool":
                own = max(writes.pop().own, own, key=lambda each: each.until)
            writes.append(CooldownWrite("cool", own))

    def end(self, scope: str, kind: str, until: float) -> None:
        """Add the end of a cooldown; it replaces what was not written yet."""
        with self._lock:
            self._pending[scope] = [CooldownWrite(kind, KnownCooldown(until, 0))]

    def ends(self, scope: str) -> bool:
        """Return whether the store still has a cooldown that is over."""
        return any(write.kind != "cool" for write in self._pending.get(scope, ()))

    def write(self, write_one: Callable[[str, CooldownWrite], None]) -> None:
        """Write all changes. One that fails is retried the next time, after the others; its error is raised."""
        for scope in list(self._pending):
            while writes := self._pending.get(scope):
                write = writes[0]
                try:
                    if write.own.until > clock.monotonic():
                        write_one(scope, write)
                except Exception:
                    with self._lock:
                        self._pending[scope] = self._pending.pop(scope, writes)
                    raise
                with self._lock:
                    left = self._pending.get(scope, [])
                    if left and left[0] is write:  # nothing was added meanwhile
                        del left[0]
                    if not left:
                        self._pending.pop(scope, None)


# A check is a dictionary lookup. A background thread synchronizes the dictionary with the store and is the only writer,
# so callers never wait for a slow database. Writes for one scope keep their order.

EVERY = 0.5
"""Seconds between two reads of the store, for the cooldowns of other processes."""
FIRST_LOOK = 1.0
"""Maximum seconds for which the first call waits for the store."""
PROBE_HOLD = 60.0
"""Seconds for which other requests wait while one request probes a host that asked for more than the cap."""
_WARN_EVERY = 60.0  # seconds between two warnings that the store is down
_IDLE_AFTER = 30.0  # seconds without a call after which the thread ends
_FORGET_ABOVE = 1024  # number of scopes above which expired ones are dropped
_CAPPED_REMEMBERED = 3600.0  # seconds after its end for which a capped cooldown lets only a single probe through
_FLUSH_SECONDS = 2.0  # seconds for which closing waits for pending writes
_RETURNED_PROBE_SECONDS = 2.0  # seconds; long enough for every process to see that one of them may probe
_RETURNED_PROBE_REASON = "a request that was to try it was not made"
log = logging.getLogger("outlast.cooling")


class CooldownTracker:
    """The cooldowns that this process knows. The first call starts a thread that shares them through the store.

    Args:
        store: Shares them with other processes; None keeps them in this process.
    """

    def __init__(self, store: CooldownStore | None = None) -> None:
        self._store = store
        self._known: dict[str, KnownCooldown] = {}
        self._many = _FORGET_ABOVE
        self._asked = 0.0
        self._warned: float | None = None
        self._down = False
        self._closed = threading.Event()
        self._begin()
        _trackers.add(self)
        after_fork(self._begin)  # a lock that another thread holds is never released in the child

    def _begin(self) -> None:
        """Set what belongs to this process alone; a child process has no threads of its parent."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._looked, self._wake = threading.Event(), threading.Event()
        self._learnt = -math.inf
        self._writes = CooldownWrites()  # the parent writes its own

    def __reduce__(self) -> "tuple[type[CooldownTracker], tuple[()]]":
        """Pickle it without its cooldowns.

        Raises:
            TypeError: If it has a store, which cannot be pickled.
        """
        if self._store is not None:
            raise TypeError("cooldowns that are shared through a store cannot be pickled; create them in each process")
        return type(self), ()

    def __deepcopy__(self, _memo: object) -> "CooldownTracker":
        """Return itself, because copies of an adapter share their cooldowns."""
        return self

    @property
    def _is_shared(self) -> bool:
        return self._store is not None and not self._closed.is_set()

    def left(self, scope: str) -> float:
        """Return the seconds until the cooldown of a scope ends; 0 if it has none."""
        self._keep_up()
        known = self._known.get(scope)
        if known is None:
            return 0.0
        left = known.until - clock.monotonic()
        if left <= 0 and not known.capped:
            with self._lock:
                if self._known.get(scope) is known:
                    del self._known[scope]
        return max(0.0, left)

    def admit(self, scope: str) -> float:
        """Return 0 if a scope may be called now, otherwise the seconds to wait before asking again.

        After a capped cooldown, one caller gets 0 and the others wait for its probe. That caller must call the scope
        and report the result with `answered` or `start_cooldown`.
        """
        left = self.left(scope)
        if left > 0:
            return left
        return self._may_probe(scope) if scope in self._known else 0.0

    def is_quick(self, scope: str) -> bool:
        """Return whether `left` and `admit` do not wait for the store, so that an event loop may call them."""
        if not self._is_shared:
            return True
        self._asked = clock.monotonic()
        thread, known = self._thread, self._known.get(scope)
        probing = known is not None and known.capped > 0 and known.until <= self._asked
        return not probing and self._looked.is_set() and thread is not None and thread.is_alive()

    def start_cooldown(self, scope: str, seconds: float, reason: str, capped: bool = False) -> int:  # noqa: FBT001, FBT002  # as a row says it
        """Start a cooldown: in this process at once, in the others within a second.

        It never waits for the store, because the thread writes to it.

        Returns:
            How many responses in a row asked for longer than the cap, as far as this process knows.
        """
        if not seconds > 0:
            return 0
        now = clock.monotonic()
        with self._lock:
            known = self._known.get(scope)
            own = KnownCooldown(now + seconds, _capped_in_a_row(known, now) if capped else 0, reason, since=now)
            if known is None or own.until > known.until or known.probing:
                self._known[scope] = own
            self._forget_many(now)
            if self._is_shared:
                self._writes.start_cooldown(scope, own)
        self._keep_up(patient=False)
        log.info("%s cools down for %.1f s: %s", scope, seconds, reason, extra={"resource": scope, "seconds": seconds})
        if self._store is None and own.capped > 1:
            self._capped_again(scope, own.capped, reason)
        if bus.subscribers:
            from outlast.record.events import CooledDown  # noqa: PLC0415  # only subscribers need it

            publish(CooledDown(scope, seconds, reason, capped))
        return own.capped

    def end_cooldown(self, scope: str) -> None:
        """End the cooldown of a scope, which is available again; does nothing if it has none."""
        if scope not in self._known:
            return
        with self._lock:
            self._known.pop(scope, None)
            if self._is_shared:
                self._writes.end(scope, "warm", clock.monotonic() + _CAPPED_REMEMBERED)
        self._keep_up(patient=False)

    def answered(self, scope: str) -> None:
        """Record a good response of a scope: if it was that of the probe, the cooldown ends."""
        if self.is_probing(scope):
            self.end_cooldown(scope)

    def is_probing(self, scope: str) -> bool:
        """Return whether a request of this process probes a scope: the one that `admit` let through."""
        known = self._known.get(scope)
        return known is not None and known.probing

    def withdrawn(self, scope: str) -> None:
        """Record that a probe was not sent or was interrupted: the next request may probe."""
        now = clock.monotonic()
        with self._lock:
            known = self._known.get(scope)
            if known is None or not known.probing:
                return
            self._known[scope] = known._replace(until=now, probing=False, shared=False, since=now)
            if self._is_shared:
                self._writes.end(scope, "give_back", now + PROBE_HOLD)
        self._keep_up(patient=False)

    def waits(self) -> dict[str, float]:
        """Return the running cooldowns that this process knows: the seconds left by scope."""
        now = clock.monotonic()
        return {scope: known.until - now for scope, known in self._known.copy().items() if known.until > now}

    def close(self) -> None:
        """End the thread. Waits up to 2 seconds for pending writes; the known cooldowns stay."""
        self.stop()
        self.drain(_FLUSH_SECONDS)

    def stop(self) -> None:
        """Tell the thread to end, without waiting for it."""
        self._closed.set()
        self._wake.set()

    def drain(self, seconds: float) -> None:
        """Wait up to so many seconds for pending writes."""
        thread = self._thread
        if self._writes and thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _capped_again(self, scope: str, times: int, reason: str) -> None:  # noqa: ARG002  # for subclasses
        """Report that a scope asks for more than the cap again; with a store, the thread calls it until it succeeds."""
        log.warning("%s asked %d times in a row for a cooldown of more than an hour", scope, times)

    def _calmed(self, scope: str, *, answers: bool) -> None:
        """Report that a scope is available, or asks for less than the cap. With a store, its thread calls it."""

    def _forget_many(self, now: float) -> None:
        """Drop expired cooldowns from time to time: scopes that are URLs may be called only once."""
        if len(self._known) >= self._many:
            self._forget_over(now)
            self._many = max(_FORGET_ABOVE, 2 * len(self._known))

    def _forget_over(self, now: float) -> None:
        for scope, known in list(self._known.items()):
            if known.until + (_CAPPED_REMEMBERED if known.capped else 0.0) <= now:
                del self._known[scope]

    def _write(self, scope: str, write: CooldownWrite) -> None:
        store, own = self._store, write.own
        if store is None:
            return
        if write.kind == "warm":
            store.end_cooldown(scope)
            self._calmed(scope, answers=True)
        elif write.kind == "give_back":
            if not self.is_probing(scope):  # otherwise this process probes again
                store.end_cooldown(scope)
                store.start_cooldown(scope, _RETURNED_PROBE_SECONDS, _RETURNED_PROBE_REASON, capped=True)
        else:
            times = store.start_cooldown(scope, own.until - clock.monotonic(), own.reason, capped=own.capped > 0)
            with self._lock:
                if self._known.get(scope) is own:
                    self._known[scope] = own._replace(shared=True, capped=times, since=clock.monotonic())
            if times > 1:
                self._capped_again(scope, times, own.reason)
            elif not own.capped:
                self._calmed(scope, answers=False)

    def _may_probe(self, scope: str) -> float:
        """Return 0 for one caller, of all processes if the store is available, otherwise the seconds to wait."""
        with self._lock:
            known, now = self._known.get(scope), clock.monotonic()
            if known is None or known.until > now or not known.capped:  # another thread was faster
                return 0.0 if known is None else max(0.0, known.until - now)
            held = known._replace(until=now + PROBE_HOLD, probing=True, shared=False, since=now)
            self._known[scope] = held
        if self._store is None or self._down:
            return 0.0
        try:
            if self._store.probe(scope, PROBE_HOLD):
                return 0.0
        except Exception as error:  # noqa: BLE001  # any error of the database; this process decides alone
            self._warn(error)
            return 0.0
        with self._lock:
            if self._known.get(scope) is held:  # another process probes
                self._known[scope] = held._replace(probing=False, until=now + EVERY, shared=True)
        return EVERY

    def _keep_up(self, *, patient: bool = True) -> None:
        """Start or wake the thread. The first time, wait a moment for what it reads."""
        if not self._is_shared:
            return
        self._asked = clock.monotonic()
        if self._writes:
            self._wake.set()
        thread = self._thread
        if thread is None or not thread.is_alive():
            self._start()
        if patient and not self._looked.is_set():
            self._looked.wait(FIRST_LOOK)
            self._looked.set()  # no second wait

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._looked.clear()
            self._learnt = -math.inf
            thread = threading.Thread(target=self._follow, name="outlast-cooldowns", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads; the next call tries again
                self._looked.set()
            else:
                self._thread = thread

    def _follow(self) -> None:
        """Write to the store and read it periodically, until there are no calls any more."""
        while self._goes_on():
            self._wake.clear()
            self._turn()
            self._looked.set()
            (self._closed if self._down else self._wake).wait(EVERY)
        if self._closed.is_set():
            self._turn()  # the last changes

    def _goes_on(self) -> bool:
        with self._lock:
            idle = clock.monotonic() - self._asked >= _IDLE_AFTER and not self._writes
            if idle:
                self._thread = None  # the next call starts another
            return not idle and not self._closed.is_set()

    def _turn(self) -> None:
        down = False
        for step in (partial(self._writes.write, self._write), self._learn):  # each runs even if the other fails
            try:
                step()
            except Exception as error:  # noqa: BLE001  # any error of the database; retried later
                down = True
                self._warn(error)
        self._down = down

    def _learn(self) -> None:
        """Read the cooldowns of the store, unless that was done a moment ago."""
        store, began = self._store, time.monotonic()
        if store is None or self._closed.is_set() or began - self._learnt < EVERY / 2:
            return
        self._learnt, began = began, clock.monotonic()
        rows, now, here = store.cooldowns(), store.now(), clock.monotonic()
        theirs = {
            row.resource: KnownCooldown(here + (row.until - now).total_seconds(), row.capped, shared=True, since=here)
            for row in rows
        }
        with self._lock:
            for scope, known in theirs.items():
                own = self._known.get(scope)
                if self._writes.ends(scope):
                    continue  # it is over, but the store does not know yet
                begun_anew = own is not None and own.shared and not own.probing and own.since < began
                if own is None or known.until > own.until or begun_anew:  # the store never shortens one
                    self._known[scope] = known._replace(probing=own is not None and own.probing)
            for scope, own in list(self._known.items()):
                if own.shared and scope not in theirs and own.since < began and own.until > here + EVERY:
                    del self._known[scope]  # ended by hand; one that is about to end may be gone there earlier
            self._forget_over(here)

    def _warn(self, error: Exception) -> None:
        """Record that the store is down, and warn from time to time."""
        now = clock.monotonic()
        with self._lock:
            self._down = True
            if self._warned is not None and now - self._warned < _WARN_EVERY:
                return
            self._warned = now
        from outlast.classify import classify  # noqa: PLC0415  # only errors need it

        log.warning("could not read cooldowns from the store, so each process keeps its own: %s", classify(error))


_trackers: "weakref.WeakSet[CooldownTracker]" = weakref.WeakSet()


@atexit.register
def _before_exit() -> None:
    until = time.monotonic() + _FLUSH_SECONDS
    for cooling in list(_trackers):
        cooling.stop()
    for cooling in list(_trackers):
        cooling.drain(max(0.0, until - time.monotonic()))


def _capped_in_a_row(known: KnownCooldown | None, now: float) -> int:
    """Return the number of a capped response: during a cooldown, only the response to a probe is a further one."""
    if known is None or not known.capped:
        return 1
    return known.capped + (known.probing or known.until <= now)
