"""NOTIFY and LISTEN for new tasks."""

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from outlast.decide.backoff import DoublingPause
from outlast.stores.postgres.connection import Connection, PostgresDatabase, keeps_sessions, wait_readable
from outlast.stores.postgres.driver import psycopg

_log = logging.getLogger("outlast")
_PAUSES = (0.1, 30.0)  # first and longest pause in seconds after a lost connection
_NOTIFY_INTERVAL = 0.005
"""Seconds between two notifications."""


class NotifyThrottle:
    """Throttles notifications: the first task notifies at once, tasks in quick succession share one notification.

    A notification takes a lock that all notifying commits share. If the process dies before it notifies, idle workers
    find the tasks by polling.

    Args:
        notify: Sends a notification.
    """

    def __init__(self, notify: Callable[[], object]) -> None:
        self._notify = notify
        self._notified_at = 0.0
        self._pending = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def may_notify_now(self) -> bool:
        """Return whether the transaction of a task should notify. If not, call `notify_later` after it is stored."""
        now = time.monotonic()
        if now - self._notified_at >= _NOTIFY_INTERVAL and not self._pending.is_set():
            self._notified_at = now
            return True
        return False

    def notify_later(self) -> None:
        """Schedule a notification for a task that was stored without one."""
        if not self._pending.is_set():
            self._pending.set()
        if self._thread is None or not self._thread.is_alive():  # threads do not survive a fork
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._notify_pending, name="outlast-notify", daemon=True)
                self._thread.start()

    def _notify_pending(self) -> None:
        while self._pending.wait():
            time.sleep(_NOTIFY_INTERVAL)
            self._pending.clear()
            self._notified_at = time.monotonic()
            with suppress(Exception):  # polling finds them
                self._notify()


class NotifyListener:
    """Calls a function for every notification, and after every new connection because some may have been missed.

    It uses a connection and a thread of its own. A dead connection may go unnoticed for a while, so workers also poll.
    Behind a pooler that switches sessions it does not listen: notifications would reach the next user of the session.

    Args:
        db: The database.
        wake: Called from the listener's thread.
    """

    def __init__(self, db: PostgresDatabase, wake: Callable[[], None]) -> None:
        self._db, self._wake = db, wake
        self._ended = threading.Event()
        self._stop_socket, self._stop_signal = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="outlast-listen", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._stop_socket.close()  # which makes the other end readable
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        with self._stop_signal:
            self._listen()

    def _listen(self) -> None:
        pause = DoublingPause(*_PAUSES)
        while not self._ended.is_set():
            try:
                with self._db.connect() as connection:
                    if self._db.is_pooled and not keeps_sessions(connection, self._db.connection()):
                        _log.info("a pooler switches sessions, so LISTEN does not work; idle workers poll instead")
                        return
                    self._subscribe(connection)
                    pause.reset()
                    self._wake()
                    self._wake_on_notify(connection)
            except Exception as error:  # noqa: BLE001  # the next connection may work, and workers also poll
                seconds = pause.grow()
                _log.debug("LISTEN failed: %s; retrying in %.1f s", type(error).__name__, seconds)
                self._ended.wait(seconds)

    def _subscribe(self, connection: Connection) -> None:
        channel = connection.execute(self._db.sql["notify_channel"]).fetchall()[0][0]
        connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))

    def _wake_on_notify(self, connection: Connection) -> None:
        """Call the function for notifications; several that arrive together are one call."""
        while not self._ended.is_set():
            if list(connection.notifies(timeout=0)):
                self._wake()
            wait_readable(connection.fileno(), self._stop_signal.fileno())
