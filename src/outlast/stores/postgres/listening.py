"""How an idle worker is called: LISTEN on a connection of its own, in a thread of its own.

It may miss something: a connection may be dead for a while without a sign of it. Behind a pooler that changes sessions
nobody listens: the calls would go to whoever has that session next. Polling is what is relied on.
"""

import logging
import select
import socket
import threading
from collections.abc import Callable

from outlast.decide.backoff import DoublingPause
from outlast.stores.postgres.connection import Connection, Database
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.pooling import keeps_sessions

__all__ = ["Listener"]

_log = logging.getLogger("outlast")
_PAUSES = (0.1, 30.0)  # seconds after the first failure, and at most


class Listener:
    """Calls a function for every notification, and after every new connection, for what came in between.

    Args:
        db: Where to listen.
        wake: Is called from the listener's thread.
    """

    def __init__(self, db: Database, wake: Callable[[], None]) -> None:
        """Start listening."""
        self._db, self._wake = db, wake
        self._ended = threading.Event()
        self._bell, self._heard = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="outlast-listen", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._bell.close()  # which the other end hears
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
