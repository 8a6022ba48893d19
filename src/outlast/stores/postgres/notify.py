"""NOTIFY for tasks that come in quick succession: the first one calls at once, the others are told of together.

A notification takes a lock that all commits with one share. Should the process die before it calls for the others, idle
workers find them by polling.
"""

import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from outlast.decide.backoff import DoublingPause
from outlast.stores.postgres.connection import Connection, PostgresDatabase, keeps_sessions
from outlast.stores.postgres.driver import psycopg

_NOTIFY_INTERVAL = 0.005
"""Seconds between two notifications."""


class NotifyThrottle:
    """Says who calls, and calls for the others.

    Args:
        ring: Notifies.
    """

    def __init__(self, ring: Callable[[], object]) -> None:
        """Begin silent; the thread is started when it is needed."""
        self._notify = ring
        self._notified_at = 0.0
        self._pending = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def may_notify_now(self) -> bool:
        """Tell whether a task is to call itself; if not, it is called for a moment after it is stored."""
        now = time.monotonic()
        if now - self._notified_at >= _NOTIFY_INTERVAL and not self._pending.is_set():
            self._notified_at = now
            return True
        return False

    def notify_later(self) -> None:
        """Take in that a task was stored without a call."""
        if not self._pending.is_set():
            self._pending.set()
        if self._thread is None or not self._thread.is_alive():  # it did not follow into a child process
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._notify_pending, name="outlast-bell", daemon=True)
                self._thread.start()

    def _notify_pending(self) -> None:
        while self._pending.wait():
            time.sleep(_NOTIFY_INTERVAL)
            self._pending.clear()
            self._notified_at = time.monotonic()
            with suppress(Exception):  # polling finds them
                self._notify()


# How an idle worker is called: LISTEN on a connection of its own, in a thread of its own.
#
# It may miss something: a connection may be dead for a while without a sign of it. Behind a pooler that changes
# sessions nobody listens: the calls would go to whoever has that session next. Polling is what is relied on.

_log = logging.getLogger("outlast")
_PAUSES = (0.1, 30.0)  # seconds after the first failure, and at most


class NotifyListener:
    """Calls a function for every notification, and after every new connection, for what came in between.

    Args:
        db: Where to listen.
        wake: Is called from the listener's thread.
    """

    def __init__(self, db: PostgresDatabase, wake: Callable[[], None]) -> None:
        """Start listening."""
        self._db, self._wake = db, wake
        self._ended = threading.Event()
        self._stop_socket, self._heard = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="outlast-listen", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._stop_socket.close()  # which the other end hears
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        with self._heard:
            self._listen()

    def _listen(self) -> None:
        pause = DoublingPause(*_PAUSES)
        while not self._ended.is_set():
            try:
                with self._db.connect() as connection:
                    if self._db.is_pooled and not keeps_sessions(connection, self._db.connection()):
                        _log.info("a pooler changes sessions: an idle worker is not called, it looks by itself")
                        return
                    self._subscribe(connection)
                    pause.reset()
                    self._wake()
                    self._follow(connection)
            except Exception as error:  # noqa: BLE001  # whatever it was, the next connection may do; polling goes on
                seconds = pause.grow()
                _log.debug("not listening for tasks: %s; trying again in %.1f s", type(error).__name__, seconds)
                self._ended.wait(seconds)

    def _subscribe(self, connection: Connection) -> None:
        channel = connection.execute(self._db.sql["notify_channel"]).fetchall()[0][0]
        connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))

    def _follow(self, connection: Connection) -> None:
        """Wake for what arrives; many notifications that came together are one call."""
        while not self._ended.is_set():
            if list(connection.notifies(timeout=0)):
                self._wake()
            _wait_for(connection.fileno(), self._heard.fileno())


def _wait_for(*files: int) -> None:
    """Wait until one of them can be read."""
    if hasattr(select, "poll"):
        poll = select.poll()
        for file in files:
            poll.register(file, select.POLLIN)
        poll.poll()
    else:
        select.select(files, [], [])
