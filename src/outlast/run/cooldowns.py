"""Cooldowns of resources, kept in this process and shared with others through a store."""

import atexit
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from outlast import clock
from outlast.forks import after_fork
from outlast.record.bus import has_subscribers, publish

if TYPE_CHECKING:
    from collections.abc import Sequence


class _CooldownRow(Protocol):
    @property
    def resource(self) -> str: ...
    @property
    def until(self) -> datetime: ...
    @property
    def capped(self) -> int: ...


class CooldownStore(Protocol):
    """What is asked of a store; every store of Outlast has it."""

    def now(self) -> datetime:
        """Return the time by the store's clock."""

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone; return how many capped answers came in a row."""

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries it."""

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown."""

    def cooldowns(self) -> "Sequence[_CooldownRow]":
        """Return those that run."""


class KnownCooldown(NamedTuple):
    """A cooldown as a process knows it."""

    until: float  # on the monotonic clock
    capped: int  # how many answers in a row asked for longer than the cap; 0 for a plain cooldown
    reason: str = ""
    shared: bool = False  # the store has it too
    probing: bool = False  # a request of this process tries it
    since: float = 0.0


class CooldownWrite(NamedTuple):
    """Something to be written.

    Attributes:
        kind: ``cool``, ``warm``, or ``give_back`` for a probe that was not made.
        own: Until when that is worth writing; for ``cool``, the cooldown.
    """

    kind: str
    own: KnownCooldown


class CooldownWrites:
    """What is to be written, in its order for each scope. One thread writes; any may add."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._pending: dict[str, list[CooldownWrite]] = {}

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self._pending)

    def start_cooldown(self, scope: str, own: KnownCooldown) -> None:
        """Have a cooldown written; of two that are not written yet, the longer one."""
        with self._lock:
            before = self._pending.setdefault(scope, [])
            if not before or before[-1].kind != "cool":
                before.append(CooldownWrite("cool", own))
            elif own.until > before[-1].own.until:
                before[-1] = CooldownWrite("cool", own)

    def end(self, scope: str, kind: str, until: float) -> None:
        """Have the end of a cooldown written; what was to be written before is over with it."""
        with self._lock:
            self._pending[scope] = [CooldownWrite(kind, KnownCooldown(until, 0))]

    def ends(self, scope: str) -> bool:
        """Tell whether the store still has a cooldown that is over."""
        return any(write.kind != "cool" for write in self._pending.get(scope, ()))

    def clear(self) -> None:
        """Forget it all."""
        with self._lock:
            self._pending.clear()

    def write(self, tell: Callable[[str, CooldownWrite], None]) -> None:
        """Write it all; what fails is tried again the next time, behind the others.

        Args:
            tell: Writes one.

        Raises:
            Exception: What that raises.
        """
        for scope in list(self._pending):
            while writes := self._pending.get(scope):
                write = writes[0]
                try:
                    if write.own.until > clock.monotonic():
                        tell(scope, write)
                except Exception:
                    with self._lock:
                        self._pending[scope] = self._pending.pop(scope, writes)
                    raise
                with self._lock:
                    left = self._pending.get(scope, [])
                    if left and left[0] is write:  # nothing else came to be known meanwhile
                        del left[0]
                    if not left:
                        self._pending.pop(scope, None)


# A check is a dictionary lookup. A background thread synchronizes the dictionary with the store and is the only writer,
# so callers never wait for a slow database. Writes for one scope keep their order.

EVERY = 0.5
"""Seconds between two looks at what other processes have learnt."""
FIRST_LOOK = 1.0
"""Seconds that the first question waits for the store's answer, at most."""
PROBE_HOLD = 60.0
"""Seconds for which everybody else waits while one request tries a host that had asked for too long."""
_WARN_EVERY = 60.0  # seconds between two warnings that the store is down
_IDLE_AFTER = 30.0  # seconds without a question after which the thread ends
_FORGET_ABOVE = 1024  # scopes that are kept before anybody looks which of them are over
_CAPPED_REMEMBERED = 3600.0  # seconds for which a capped cooldown that is over still lets a single probe through
_FLUSH_SECONDS = 2.0  # seconds that closing waits for what is not written yet
_RETURNED_PROBE_SECONDS = 2.0  # seconds; long enough for every process to see that it is not over, and that one may try
_RETURNED_PROBE_REASON = "a request that was to try it was not made"
log = logging.getLogger("outlast.cooling")


class CooldownTracker:
    """What this process knows of cooldowns, shared through a store where there is one.

    Args:
        store: Shares them with other processes; None keeps them in this one.
    """

    def __init__(self, store: CooldownStore | None = None) -> None:
        """Begin without a thread; the first question starts it."""
        self._store = store
        self._known: dict[str, KnownCooldown] = {}
        self._many = _FORGET_ABOVE
        self._asked = 0.0
        self._warned: float | None = None
        self._down = False
        self._closed = threading.Event()
        self._begin()
        _trackers.add(self)
        after_fork(self._begin)  # a lock that another thread held would never be given back

    def _begin(self) -> None:
        """Have what belongs to this process alone; a child of it has none of its parent's threads."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._looked, self._wake = threading.Event(), threading.Event()
        self._learnt = -math.inf
        self._writes = CooldownWrites()  # the parent sees to its own

    def __reduce__(self) -> "tuple[type[CooldownTracker], tuple[()]]":
        """Have a copy in another process begin with nothing.

        Raises:
            TypeError: If they are shared through a store, of which no copy can be made.
        """
        if self._store is not None:
            message = "cooldowns that are shared through a store cannot be pickled; create them in each process"
            raise TypeError(message)
        return type(self), ()

    def __deepcopy__(self, _memo: object) -> "CooldownTracker":
        """Return the same: whoever is copied goes on sharing them."""
        return self

    @property
    def _is_shared(self) -> bool:
        return self._store is not None and not self._closed.is_set()

    def left(self, scope: str) -> float:
        """Return the seconds for which a scope is to be left alone; 0 where it is not."""
        if self._store is not None:
            self._keep_up()
        known = self._known.get(scope)
        if known is None:
            return 0.0
        left = known.until - clock.monotonic()
        if left <= 0 and not known.capped:
            self._forget(scope, known)
        return max(0.0, left)

    def admit(self, scope: str) -> float:
        """Ask to call a scope now; return 0 to go ahead, else the seconds to wait before asking again.

        After the end of a cooldown that was capped, one caller gets 0 and the others the time of its probe: whoever
        gets it has to call, and to tell with `answered` or `cool` how it went.
        """
        left = self.left(scope)
        if left > 0:
            return left
        return self._may_probe(scope) if scope in self._known else 0.0

    def is_quick(self, scope: str) -> bool:
        """Tell whether `left` and `admit` answer without waiting for the store, from within an event loop."""
        if self._store is None or self._closed.is_set():
            return True
        self._asked = clock.monotonic()
        thread, known = self._thread, self._known.get(scope)
        probing = known is not None and known.capped > 0 and known.until <= self._asked
        return not probing and self._looked.is_set() and thread is not None and thread.is_alive()

    def start_cooldown(self, scope: str, seconds: float, reason: str, capped: bool = False) -> int:  # noqa: FBT001, FBT002  # as a row says it
        """Leave a scope alone from now on, in this process at once, in the others within a second.

        It never waits for the store: the thread writes it through.

        Returns:
            How many answers in a row asked for longer than the cap, as far as this process knows.
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
        if has_subscribers():
            from outlast.record.events import CooledDown  # noqa: PLC0415  # only subscribers need it

            publish(CooledDown(scope, seconds, reason, capped))
        return own.capped

    def end_cooldown(self, scope: str) -> None:
        """Tell that a scope answers again; costs nothing where nobody waits for it."""
        if scope not in self._known:
            return
        with self._lock:
            self._known.pop(scope, None)
            if self._is_shared:
                self._writes.end(scope, "warm", clock.monotonic() + _CAPPED_REMEMBERED)
        self._keep_up(patient=False)

    def answered(self, scope: str) -> None:
        """Tell that a scope answered as it should: if that was the probe, nobody waits for it any more."""
        if self.is_probing(scope):
            self.end_cooldown(scope)

    def is_probing(self, scope: str) -> bool:
        """Tell whether a request of this process tries a scope: whoever asks when `admit` has just let it pass."""
        known = self._known.get(scope)
        return known is not None and known.probing

    def withdrawn(self, scope: str) -> None:
        """Give a probe back that was not made or was interrupted: the next one may try."""
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
        """Return what cools down, with the seconds left, as far as this process knows."""
        now = clock.monotonic()
        return {scope: known.until - now for scope, known in self._known.copy().items() if known.until > now}

    def close(self) -> None:
        """End the thread, once it has written what it has to, for a moment at most; what is known stays."""
        self._closed.set()
        self._wake.set()
        self._drain(_FLUSH_SECONDS)

    def _drain(self, seconds: float) -> None:
        thread = self._thread
        if self._writes and thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _capped_again(self, scope: str, times: int, reason: str) -> None:  # noqa: ARG002  # for those who override it
        """Tell that a scope asks for longer than the cap again; with a store, the thread calls it until it succeeds."""
        log.warning("%s asked %d times in a row for a cooldown of more than an hour", scope, times)

    def _calmed(self, scope: str, *, answers: bool) -> None:
        """Tell that a scope does so no longer: it answers, or asks for less; called by the thread, with a store."""

    def _forget(self, scope: str, known: KnownCooldown) -> None:
        with self._lock:
            if self._known.get(scope) is known:
                del self._known[scope]

    def _forget_many(self, now: float) -> None:
        """Drop what is over and was never asked for again: by URL, there is no end of scopes."""
        if len(self._known) < self._many:
            return
        self._forget_over(now)
        self._many = max(_FORGET_ABOVE, 2 * len(self._known))

    def _forget_over(self, now: float) -> None:
        for scope, known in list(self._known.items()):
            if known.until + (_CAPPED_REMEMBERED if known.capped else 0.0) <= now:
                del self._known[scope]

    def _write_all(self) -> None:
        self._writes.write(self._write)

    def _write(self, scope: str, write: CooldownWrite) -> None:
        store, own = self._store, write.own
        if store is None:
            return
        if write.kind == "warm":
            store.end_cooldown(scope)
            self._calmed(scope, answers=True)
        elif write.kind == "give_back":
            if not self.is_probing(scope):  # else somebody of ours tries it again
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
        """Let one caller through, of this process and, if the store can be asked, of all."""
        with self._lock:
            known, now = self._known.get(scope), clock.monotonic()
            if known is None or known.until > now or not known.capped:  # another thread was quicker
                return 0.0 if known is None else max(0.0, known.until - now)
            held = known._replace(until=now + PROBE_HOLD, probing=True, shared=False, since=now)
            self._known[scope] = held
        if self._store is None or self._down:
            return 0.0
        try:
            if self._store.probe(scope, PROBE_HOLD):
                return 0.0
        except Exception as error:  # noqa: BLE001  # whatever the database says: this process decides for itself
            self._warn(error)
            return 0.0
        with self._lock:
            if self._known.get(scope) is held:  # somebody else's probe
                self._known[scope] = held._replace(probing=False, until=now + EVERY, shared=True)
        return EVERY

    def _keep_up(self, *, patient: bool = True) -> None:
        """See that the thread runs and knows of news; the first time, wait a moment for what it learns."""
        if self._store is None or self._closed.is_set():
            return
        self._asked = clock.monotonic()
        if self._writes:
            self._wake.set()
        thread = self._thread
        if thread is None or not thread.is_alive():
            self._start()
        if patient and not self._looked.is_set():
            self._looked.wait(FIRST_LOOK)
            self._looked.set()  # nobody waits a second time

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._looked.clear()
            self._learnt = -math.inf
            thread = threading.Thread(target=self._follow, name="outlast-cooldowns", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there are too many: what is known holds, and the next question tries again
                self._looked.set()
            else:
                self._thread = thread

    def _follow(self) -> None:
        """Look at the store again and again, as long as somebody asks; write to it what is new."""
        while self._goes_on():
            self._wake.clear()
            self._turn()
            self._looked.set()
            (self._closed if self._down else self._wake).wait(EVERY)
        if self._closed.is_set():
            self._turn()  # what came last

    def _goes_on(self) -> bool:
        with self._lock:
            idle = clock.monotonic() - self._asked >= _IDLE_AFTER and not self._writes
            if idle:
                self._thread = None  # whoever asks from now on starts another
            return not idle and not self._closed.is_set()

    def _turn(self) -> None:
        down = False
        for step in (self._write_all, self._learn):  # one that fails does not hinder the other
            try:
                step()
            except Exception as error:  # noqa: BLE001  # whatever the database says: try again later
                down = True
                self._warn(error)
        self._down = down

    def _learn(self) -> None:
        """Look what the store knows, unless that was done a moment ago."""
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
                    continue  # it is over, and the store is still to be told
                begun_anew = own is not None and own.shared and not own.probing and own.since < began
                if own is None or known.until > own.until or begun_anew:  # a store never makes one shorter
                    self._known[scope] = known._replace(probing=own is not None and own.probing)
            for scope, own in list(self._known.items()):
                if own.shared and scope not in theirs and own.since < began and own.until > here + EVERY:
                    del self._known[scope]  # ended by hand; what ends now does so by itself, a moment earlier there
            self._forget_over(here)

    def _warn(self, error: Exception) -> None:
        """Note that the store is down, and say so from time to time."""
        now = clock.monotonic()
        with self._lock:
            self._down = True
            quiet = self._warned is not None and now - self._warned < _WARN_EVERY
            if quiet:
                return
            self._warned = now
        from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it

        log.warning("could not read cooldowns from the store, so each process keeps its own: %s", classify(error))


_trackers: "weakref.WeakSet[CooldownTracker]" = weakref.WeakSet()


@atexit.register
def _before_exit() -> None:
    until = time.monotonic() + _FLUSH_SECONDS
    for cooling in list(_trackers):
        cooling._closed.set()  # noqa: SLF001  # as `close` does, for all of them together
        cooling._wake.set()  # noqa: SLF001  # the same
    for cooling in list(_trackers):
        cooling._drain(max(0.0, until - time.monotonic()))  # noqa: SLF001  # the same


def _capped_in_a_row(known: KnownCooldown | None, now: float) -> int:
    """Return the number of a capped answer: what comes while a cooldown runs is no other, unless it is a probe's."""
    if known is None or not known.capped:
        return 1
    return known.capped + (known.probing or known.until <= now)
