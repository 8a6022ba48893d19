"""A server on a free port of 127.0.0.1 that talks as a function tells it to; the base of the database stubs."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Talk = Callable[[BinaryIO, BinaryIO], object]
    """What is done with a connection, given what to read from and what to write to; its return ends the connection."""


@contextmanager
def talking(talk: Talk) -> Iterator[tuple[str, int]]:
    """Run the server, each connection in a thread of its own, and yield its address."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            talk(self.rfile, self.wfile)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # the client hung up in the midst of it

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.server_address  # type: ignore[misc]
        finally:
            server.shutdown()
            thread.join()


def wait_for_end(incoming: BinaryIO) -> None:
    """Say nothing until the other side goes away."""
    while incoming.read(1):
        pass


def exactly(incoming: BinaryIO, count: int) -> bytes:
    """Read that many bytes.

    Raises:
        EOFError: If the other side ends before.
    """
    data = incoming.read(count)
    if len(data) < count:
        raise EOFError
    return data
