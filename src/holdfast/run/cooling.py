"""Cooldowns that processes share: what the other side asked us to leave alone, and until when.

Asking costs a look at a dictionary. A thread of its own keeps that dictionary in step with the store, so a database
that is slow or down is not waited for: what this process has learnt itself holds then, and is shared later.
"""

import logging
import math
import threading
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast import clock
from holdfast.record.bus import has_subscribers, publish

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CooldownStore", "Cooling"]

EVERY = 0.5
"""Seconds between two looks at what other processes have learnt."""
FIRST_LOOK = 1.0
"""Seconds that the first question waits for the store's answer, at most."""
PROBE_HOLD = 60.0
"""Seconds for which everybody else waits while one request tries a host that had asked for too long."""
_QUIET = 60.0  # seconds between two warnings that the store is down
_IDLE = 30.0  # seconds without a question after which the thread ends
_MANY = 1024  # scopes that are kept before anybody looks which of them are over
_REMEMBERED = 3600.0  # seconds for which a capped cooldown that is over still lets a single probe through
log = logging.getLogger("holdfast.cooling")


class _Row(Protocol):
    @property
    def resource(self) -> str: ...
    @property
    def until(self) -> datetime: ...
    @property
    def capped(self) -> int: ...


class CooldownStore(Protocol):
    """What is asked of a store; every store of Holdfast has it."""

    def now(self) -> datetime:
        """Return the time by the store's clock."""

    def cool(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone; return how many capped answers came in a row."""

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries it."""

    def warm(self, resource: str) -> None:
        """End a cooldown."""

    def cooldowns(self) -> "Sequence[_Row]":
        """Return those that run."""


class _Known(NamedTuple):
    until: float  # on the monotonic clock
    capped: int  # how many answers in a row asked for longer than the cap; 0 for a plain cooldown
    reason: str = ""
    shared: bool = False  # the store has it too
    probing: bool = False  # a request of this process tries it
    since: float = 0.0


class Cooling:
    """What this process knows of cooldowns, shared through a store where there is one.

    Args:
        store: Shares them with other processes; None keeps them in this one.
    """

    def __init__(self, store: CooldownStore | None = None) -> None:
        """Begin without a thread; the first question starts it."""
        self._store = store
        self._known: dict[str, _Known] = {}
        self._warmed: dict[str, float] = {}
        self._many = _MANY
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._looked = threading.Event()
        self._asked = 0.0
        self._warned: float | None = None
        self._down = False
        self._closed = threading.Event()

    @property
    def is_shared(self) -> bool:
        """Whether a store is asked, so that `cool` may take a while."""
        return self._store is not None

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

    def cool(self, scope: str, seconds: float, reason: str, capped: bool = False) -> int:  # noqa: FBT001, FBT002  # as a row says it
        """Leave a scope alone from now on, in this process at once, in the others within a second.

        Returns:
            How many answers in a row asked for longer than the cap: all processes' by the store, else this one's.
        """
        if not seconds > 0:
            return 0
        now = clock.monotonic()
        with self._lock:
            known = self._known.get(scope)
            own = _Known(now + seconds, _in_a_row(known, now) if capped else 0, reason, since=now)
            self._warmed.pop(scope, None)
            if known is None or own.until > known.until or known.probing:
                self._known[scope] = own
            self._forget_many(now)
        times = own.capped
        if self._store is not None:
            self._keep_up(patient=False)
            times = self._share(self._store, scope, own, seconds)
        log.info("%s cools down for %.1f s: %s", scope, seconds, reason, extra={"resource": scope, "seconds": seconds})
        if times > 1:
            log.warning("%s asked %d times in a row to be left alone for longer than an hour", scope, times)
        if has_subscribers():
            from holdfast.record.events import CooledDown  # noqa: PLC0415  # only subscribers need it

            publish(CooledDown(scope, seconds, reason, capped))
        return times

    def warm(self, scope: str) -> None:
        """Tell that a scope answers again; costs nothing where nobody waits for it."""
        if scope not in self._known:
            return
        with self._lock:
            self._known.pop(scope, None)
            self._warmed[scope] = math.inf  # whatever a look that is under way has seen of it
        if self._store is not None and not self._down:
            try:
                self._store.warm(scope)
            except Exception as error:  # noqa: BLE001  # the cooldown ends by itself
                self._warn(error)
        with self._lock:
            self._warmed[scope] = clock.monotonic()

    def answered(self, scope: str) -> None:
        """Tell that a scope answered as it should: if that was the probe, nobody waits for it any more."""
        known = self._known.get(scope)
        if known is None or not known.probing:
            return
        if self._store is None:
            self.warm(scope)
        else:  # a store may be slow, and who got an answer should have it
            threading.Thread(target=self.warm, args=(scope,), name="holdfast-warm", daemon=True).start()

    def waits(self) -> dict[str, float]:
        """Return what cools down, with the seconds left, as far as this process knows."""
        now = clock.monotonic()
        return {scope: known.until - now for scope, known in self._known.copy().items() if known.until > now}

    def close(self) -> None:
        """End the thread; what is known stays."""
        self._closed.set()

    def _forget(self, scope: str, known: _Known) -> None:
        with self._lock:
            if self._known.get(scope) is known:
                del self._known[scope]

    def _forget_many(self, now: float) -> None:
        """Drop what is over and was never asked for again: by URL, there is no end of scopes."""
        if len(self._known) < self._many:
            return
        for scope, known in list(self._known.items()):
            if known.until + (_REMEMBERED if known.capped else 0.0) <= now:
                del self._known[scope]
        self._many = max(_MANY, 2 * len(self._known))

    def _share(self, store: CooldownStore, scope: str, own: _Known, seconds: float) -> int:
        """Write a cooldown through; while the store is down, the thread does it as soon as it can."""
        if self._down:
            return own.capped
        try:
            times = store.cool(scope, seconds, own.reason, capped=own.capped > 0)
        except Exception as error:  # noqa: BLE001  # whatever the database says: this process knows by itself
            self._warn(error)
            return own.capped
        with self._lock:
            if self._known.get(scope) is own:
                self._known[scope] = own._replace(shared=True, capped=times, since=clock.monotonic())
        return times

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
        """See that the thread runs; the first time, wait a moment for what it learns."""
        if self._closed.is_set():
            return
        self._asked = clock.monotonic()
        thread = self._thread
        if thread is None or not thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._looked.clear()
                    self._thread = threading.Thread(target=self._follow, name="holdfast-cooling", daemon=True)
                    self._thread.start()
        if patient and not self._looked.is_set():
            self._looked.wait(FIRST_LOOK)
            self._looked.set()  # nobody waits a second time

    def _follow(self) -> None:
        """Look at the store again and again, as long as somebody asks."""
        while not self._closed.is_set() and clock.monotonic() - self._asked < _IDLE:
            try:
                self._learn()
            except Exception as error:  # noqa: BLE001  # whatever the database says: look again later
                self._warn(error)
            self._looked.set()
            self._closed.wait(EVERY)

    def _learn(self) -> None:
        store = self._store
        if store is None:
            return
        began = clock.monotonic()
        rows, now, here = store.cooldowns(), store.now(), clock.monotonic()
        theirs = {
            row.resource: _Known(here + (row.until - now).total_seconds(), row.capped, shared=True, since=here)
            for row in rows
        }
        with self._lock:
            for scope, known in theirs.items():
                own = self._known.get(scope)
                if self._warmed.get(scope, -math.inf) >= began:
                    continue  # it was there when we began to look
                if own is None or known.until > own.until:
                    self._known[scope] = known._replace(probing=own is not None and own.probing)
            for scope, own in list(self._known.items()):
                if own.shared and scope not in theirs and own.since < began and own.until > here:
                    del self._known[scope]  # ended by hand
            self._warmed = {scope: when for scope, when in self._warmed.items() if when >= began}
            was_down, self._down = self._down, False
            missed = [each for each in self._known.items() if not each[1].shared and not each[1].probing]
        if was_down:  # what was learnt in the meantime
            for scope, own in missed:
                if own.until > here:
                    self._share(store, scope, own, own.until - here)

    def _warn(self, error: Exception) -> None:
        """Note that the store is down, and say so from time to time."""
        now = clock.monotonic()
        with self._lock:
            self._down = True
            quiet = self._warned is not None and now - self._warned < _QUIET
            if quiet:
                return
            self._warned = now
        from holdfast.classify import classify  # noqa: PLC0415  # only trouble needs it

        log.warning("the store cannot be asked about cooldowns, so each process keeps its own: %s", classify(error))


def _in_a_row(known: _Known | None, now: float) -> int:
    """Return the number of a capped answer: what comes while a cooldown runs is no other, unless it is a probe's."""
    if known is None or not known.capped:
        return 1
    return known.capped + (known.probing or known.until <= now)
