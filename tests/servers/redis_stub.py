"""A server that speaks enough of Redis's protocol to answer GET as told and everything else with OK."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from servers.wire import exactly, talking, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def redis_answering(reply: bytes | None) -> Iterator[tuple[str, int]]:
    """Run the server and yield its address.

    Args:
        reply: What a GET is answered with, without the end of the line; empty closes the connection, None falls silent.
    """

    def talk(incoming: BinaryIO, outgoing: BinaryIO) -> None:
        while words := _command(incoming):
            if words[0].upper() != b"GET":
                outgoing.write(b"+OK\r\n")
            elif reply is None:
                wait_for_end(incoming)
            elif not reply:
                return
            else:
                outgoing.write(reply + b"\r\n")

    with talking(talk) as address:
        yield address


def _command(incoming: BinaryIO) -> list[bytes]:
    """Read an array of strings; empty at the end."""
    words = []
    for _ in range(int(incoming.readline()[1:] or 0)):
        length = int(incoming.readline()[1:])
        words.append(exactly(incoming, length))
        incoming.readline()
    return words
