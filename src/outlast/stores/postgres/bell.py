"""NOTIFY for tasks that come in quick succession: the first one calls at once, the others are told of together.

A notification takes a lock that all commits with one share. Should the process die before it calls for the others, idle
workers find them by polling.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Bell"]

_PAUSE = 0.005
"""Seconds between two notifications."""


class Bell:
    """Says who calls, and calls for the others.

    Args:
        ring: Notifies.
    """

    def __init__(self, ring: Callable[[], object]) -> None:
        """Begin silent; the thread is started when it is needed."""
        self._ring = ring
        self._rung_at = 0.0
        self._owed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def is_first(self) -> bool:
        """Tell whether a task is to call itself; if not, it is called for a moment after it is stored."""
        now = time.monotonic()
        if now - self._rung_at >= _PAUSE and not self._owed.is_set():
            self._rung_at = now
            return True
        return False

    def owe(self) -> None:
        """Take in that a task was stored without a call."""
        if not self._owed.is_set():
            self._owed.set()
        if self._thread is None or not self._thread.is_alive():  # it did not follow into a child process
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._pay, name="outlast-bell", daemon=True)
                self._thread.start()

    def _pay(self) -> None:
        while self._owed.wait():
            time.sleep(_PAUSE)
            self._owed.clear()
            self._rung_at = time.monotonic()
            with suppress(Exception):  # polling finds them
                self._ring()
