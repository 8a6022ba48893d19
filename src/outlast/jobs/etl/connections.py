"""Connections to the user's database: the one that was given, or one for each thread that needs it."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, Protocol, TypeVar

__all__ = ["Connections"]


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)
_abandoned: list[object] = []  # connections of a parent process: closing them here would end them there too


class Connections(Generic[C]):
    """Hands out connections.

    Args:
        given: The user's own; None to open them here.
        opens: Opens one; not needed beside one that is given.
        is_fit: Tells whether one can be used again: whole, and within no transaction.
    """

    def __init__(self, given: C | None, opens: Callable[[], C] | None, is_fit: Callable[[C], bool]) -> None:
        """Open nothing yet."""
        self._given = given
        self._opens = opens
        self._is_fit = is_fit
        self._lock = threading.RLock()
        self._idle: list[C] = []
        self._pid = os.getpid()

    @contextmanager
    def one(self) -> Iterator[C]:
        """Have a connection for the block."""
        if self._given is not None:
            with self._lock:  # two transactions on one connection would be one
                yield self._given
            return
        connection = self._taken()
        try:
            yield connection
        finally:
            if self._is_fit(connection):
                self._idle.append(connection)
            else:  # the others may have lost the server with it
                _close(connection)
                self.close()

    def close(self) -> None:
        """Close those that nobody uses; the user's own stays open."""
        self._check_process()
        while self._idle:
            with suppress(IndexError):  # another thread was quicker
                _close(self._idle.pop())

    def _taken(self) -> C:
        self._check_process()
        while self._idle:
            with suppress(IndexError):  # another thread was quicker
                return self._idle.pop()
        assert self._opens is not None  # noqa: S101  # for type checkers: the one that is given is never taken
        return self._opens()

    def _check_process(self) -> None:
        """Forget in a child process what is the parent's."""
        if self._pid != os.getpid():
            _abandoned.extend(self._idle)
            self._idle, self._pid, self._lock = [], os.getpid(), threading.RLock()


def _close(connection: _Closable) -> None:
    with suppress(Exception):  # it may be broken, which the error at hand tells better
        connection.close()
