"""Who has signed in. Kept in memory; of what the browser holds only the hash is known here."""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.web.access.callers import Role

if TYPE_CHECKING:
    from outlast.web.notices import Notice

__all__ = ["SECONDS", "Session", "Sessions"]

SECONDS = 12 * 3600.0
"""How long a session lasts, whatever happens in it."""
_MOST = 1000


class Session:
    """One browser that signed in.

    Attributes:
        role: What it may do.
        who: For people.
        notice: What its last action did, until a page has shown it.
    """

    def __init__(self, role: Role, who: str, until: float, now: Callable[[], float]) -> None:
        """Begin it."""
        self.role, self.who = role, who
        self.notice: "Notice | None" = None
        self._until, self._now, self._ended = until, now, False

    def lasts(self) -> bool:
        """Tell whether it goes on."""
        return not self._ended and self._now() < self._until

    def end(self) -> None:
        """End it."""
        self._ended = True


class Sessions:
    """All sessions of one dashboard.

    Args:
        seconds: How long one lasts.
        now: The clock; one that goes on while the machine sleeps.
    """

    def __init__(self, seconds: float = SECONDS, now: Callable[[], float] = time.time) -> None:
        """Begin with none."""
        self.seconds, self._now = seconds, now
        self._by_hash: dict[bytes, Session] = {}
        self._lock = threading.Lock()

    def begin(self, role: Role, who: str) -> str:
        """Return the secret of a new session; when there are too many, the oldest ends."""
        secret = secrets.token_urlsafe(32)
        session = Session(role, who, self._now() + self.seconds, self._now)
        with self._lock:
            for key in [key for key, each in self._by_hash.items() if not each.lasts()]:
                del self._by_hash[key]
            while len(self._by_hash) >= _MOST:
                self._by_hash.pop(next(iter(self._by_hash))).end()
            self._by_hash[_hash(secret)] = session
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a secret while it lasts."""
        session = self._by_hash.get(_hash(secret))
        return session if session is not None and session.lasts() else None

    def end_all(self) -> None:
        """End all, and their streams."""
        with self._lock:
            for session in self._by_hash.values():
                session.end()
            self._by_hash.clear()


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
