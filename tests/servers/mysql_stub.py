"""A server that speaks enough of MySQL's protocol to greet a client, to accept its login, and to fail as told."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from servers.wire import exactly, talking, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILING = "FAIL"
"""The statement that is answered with the prepared error; every other one succeeds."""

_QUERY = 0x03
_PROTOCOL_41 = 0x0200
_TRANSACTIONS = 0x2000
_SECURE_CONNECTION = 0x8000
_PLUGIN_AUTH = 0x0008  # in the upper half
_UTF8MB4 = 45
_AUTOCOMMIT = 2
_OK = bytes([0, 0, 0]) + struct.pack("<HH", _AUTOCOMMIT, 0)


def _greeting() -> bytes:
    capabilities = _PROTOCOL_41 | _TRANSACTIONS | _SECURE_CONNECTION
    return (
        b"\x0a8.0.36-stub\x00"
        + struct.pack("<I", 7)
        + b"saltsalt\x00"
        + struct.pack("<HBHH", capabilities, _UTF8MB4, _AUTOCOMMIT, _PLUGIN_AUTH)
        + bytes([21])
        + bytes(10)
        + b"saltsaltsalt\x00"
        + b"mysql_native_password\x00"
    )


def _error(number: int, state: str, message: str) -> bytes:
    mark = b"#" + state.encode() if state else b""
    return b"\xff" + struct.pack("<H", number) + mark + message.encode()


class _Line:
    """Packets over a connection: length in three bytes, number in one."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._next = 0

    def send(self, payload: bytes) -> None:
        self._outgoing.write(struct.pack("<I", len(payload))[:3] + bytes([self._next]) + payload)
        self._next += 1

    def receive(self) -> bytes:
        head = exactly(self._incoming, 4)
        self._next = head[3] + 1
        return exactly(self._incoming, int.from_bytes(head[:3], "little"))


@contextmanager
def mysql(number: int = 0, message: str = "", state: str = "", *, at: str = "query") -> Iterator[tuple[str, int]]:
    """Run the server and yield its address.

    Args:
        number: MySQL's error number.
        message: Its text.
        state: Its SQLSTATE, empty where the server sends none.
        at: When it fails: "greeting", "login" or "query" with this error; "close" and "stall" end the connection or fall
            silent at a query; "no-greeting" does so at once; "garbage" answers what is no MySQL.
    """
    failure = _error(number, state, message)

    def talk(incoming: BinaryIO, outgoing: BinaryIO) -> None:
        line = _Line(incoming, outgoing)
        if at == "no-greeting":
            return
        line.send(failure if at == "greeting" else _greeting())
        line.receive()
        line.send(failure if at == "login" else _OK)
        while command := line.receive():
            if command[0] != _QUERY or not command[1:].startswith(FAILING.encode()):
                line.send(_OK)
            elif at == "close":
                return
            elif at == "stall":
                wait_for_end(incoming)
                return
            elif at == "garbage":
                outgoing.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64))
            else:
                line.send(failure)

    with talking(talk) as address:
        yield address
