"""What a store of cooldowns is asked, and what it is still to be told."""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from outlast import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CooldownStore", "Known", "Write", "Writes"]


class _Row(Protocol):
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

    def cool(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone; return how many capped answers came in a row."""

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries it."""

    def warm(self, resource: str) -> None:
        """End a cooldown."""

    def cooldowns(self) -> "Sequence[_Row]":
        """Return those that run."""


class Known(NamedTuple):
    """A cooldown as a process knows it."""

    until: float  # on the monotonic clock
    capped: int  # how many answers in a row asked for longer than the cap; 0 for a plain cooldown
    reason: str = ""
    shared: bool = False  # the store has it too
    probing: bool = False  # a request of this process tries it
    since: float = 0.0


class Write(NamedTuple):
    """Something to be written.

    Attributes:
        kind: ``cool``, ``warm``, or ``give_back`` for a probe that was not made.
        own: Until when that is worth writing; for ``cool``, the cooldown.
    """

    kind: str
    own: Known


class Writes:
    """What is to be written, in its order for each scope. One thread writes; any may add."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._pending: dict[str, list[Write]] = {}

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self._pending)

    def cool(self, scope: str, own: Known) -> None:
        """Have a cooldown written; of two that are not written yet, the longer one."""
        with self._lock:
            before = self._pending.setdefault(scope, [])
            if not before or before[-1].kind != "cool":
                before.append(Write("cool", own))
            elif own.until > before[-1].own.until:
                before[-1] = Write("cool", own)

    def end(self, scope: str, kind: str, until: float) -> None:
        """Have the end of a cooldown written; what was to be written before is over with it."""
        with self._lock:
            self._pending[scope] = [Write(kind, Known(until, 0))]

    def ends(self, scope: str) -> bool:
        """Tell whether the store still has a cooldown that is over."""
        return any(write.kind != "cool" for write in self._pending.get(scope, ()))

    def clear(self) -> None:
        """Forget it all."""
        with self._lock:
            self._pending.clear()

    def write(self, tell: Callable[[str, Write], None]) -> None:
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
