"""A server that speaks enough of MongoDB's wire protocol to be found, and answers commands as told."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import bson

from servers.wire import exactly, talking, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_HELLO = frozenset({"hello", "ismaster", "isMaster"})
_SAYS_HELLO = {
    "isWritablePrimary": True,
    "ismaster": True,
    "helloOk": True,
    "maxBsonObjectSize": 16 * 1024 * 1024,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "minWireVersion": 0,
    "maxWireVersion": 25,
    "ok": 1.0,
}
CLOSE, STALL, GARBAGE = "close", "stall", "garbage"
"""What a command may meet in place of an answer."""


@contextmanager
def mongo(answers: Mapping[str, Any], hello: Mapping[str, Any] | None = None) -> Iterator[tuple[str, int]]:
    """Run the server and yield its address.

    Args:
        answers: Document, CLOSE, STALL or GARBAGE by command name; every other command succeeds.
        hello: What it says of itself beyond being a primary without a replica set.
    """

    def talk(incoming: BinaryIO, outgoing: BinaryIO) -> None:
        while head := incoming.read(16):
            length, request, _, kind = struct.unpack("<iiii", head)
            command = _command(kind, exactly(incoming, length - 16))
            name = next(iter(command))
            answer = {**_SAYS_HELLO, **(hello or {})} if name in _HELLO else answers.get(name, {"ok": 1.0})
            if answer == CLOSE:
                return
            if answer == STALL:
                wait_for_end(incoming)
            elif answer == GARBAGE:
                outgoing.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64))
                return
            else:
                outgoing.write(_reply(kind, request, bson.encode(answer)))

    with talking(talk) as address:
        yield address


def _command(kind: int, body: bytes) -> dict[str, Any]:
    """Return the command's document: after flags and a section's mark, or after the old query's name and counts."""
    start = 5 if kind == _OP_MSG else body.index(b"\0", 4) + 9
    (length,) = struct.unpack_from("<i", body, start)
    command: dict[str, Any] = bson.decode(body[start : start + length])
    return command


def _reply(kind: int, request: int, document: bytes) -> bytes:
    if kind == _OP_QUERY:
        body, answer = struct.pack("<iqii", 8, 0, 0, 1) + document, _OP_REPLY
    else:
        body, answer = struct.pack("<IB", 0, 0) + document, _OP_MSG
    return struct.pack("<iiii", 16 + len(body), 1, request, answer) + body
