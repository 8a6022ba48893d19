"""An AMQP 0-9-1 broker that gets as far as it is told and then closes the channel or the connection with a reply code."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

from servers.wire import exactly

if TYPE_CHECKING:
    from servers.wire import Talk

_METHOD, _END = 1, b"\xce"
_START, _START_OK, _TUNE, _TUNE_OK, _OPEN, _OPEN_OK = (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41)
_CLOSE, _CLOSE_OK = (10, 50), (10, 51)
_CHANNEL_OPEN, _CHANNEL_OPEN_OK, _CHANNEL_CLOSE, _CHANNEL_CLOSE_OK = (20, 10), (20, 11), (20, 40), (20, 41)


def _short(text: str) -> bytes:
    return struct.pack(">B", len(text)) + text.encode()


def _long(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


def _write(outgoing: BinaryIO, channel: int, method: tuple[int, int], arguments: bytes = b"") -> None:
    payload = struct.pack(">HH", *method) + arguments
    outgoing.write(struct.pack(">BHI", _METHOD, channel, len(payload)) + payload + _END)


def _read(incoming: BinaryIO) -> tuple[int, tuple[int, int]]:
    """Read frames up to the next method; return its channel and its class and method number."""
    while True:
        kind, channel, size = struct.unpack(">BHI", exactly(incoming, 7))
        payload = exactly(incoming, size + 1)
        if kind == _METHOD:
            numbers = struct.unpack(">HH", payload[:4])
            return channel, (numbers[0], numbers[1])


def broker(code: int, text: str, *, at: str) -> Talk:
    """Make a broker that refuses.

    Args:
        code: Reply code.
        text: Reply text.
        at: When: "login", "open" (the virtual host), "channel" (the first command on a channel closes that channel),
            "command" (the first command on a channel closes the connection), or "hang up" (no reply at all).
    """
    reason = struct.pack(">H", code) + _short(text) + struct.pack(">HH", 0, 0)
    close = (_CLOSE, reason)
    answers: dict[tuple[int, int], tuple[tuple[int, int], bytes] | None] = {
        _START_OK: close if at == "login" else (_TUNE, struct.pack(">HIH", 2047, 131072, 0)),
        _OPEN: close if at == "open" else (_OPEN_OK, _short("")),
        _CHANNEL_OPEN: (_CHANNEL_OPEN_OK, _long("")),
        _CHANNEL_CLOSE: (_CHANNEL_CLOSE_OK, b""),
        _CLOSE: (_CLOSE_OK, b""),
        **dict.fromkeys((_TUNE_OK, _CLOSE_OK, _CHANNEL_CLOSE_OK)),
    }

    def talk(incoming: BinaryIO, outgoing: BinaryIO) -> None:
        if exactly(incoming, 8)[:4] != b"AMQP" or at == "hang up":
            return
        _write(outgoing, 0, _START, b"\x00\x09" + struct.pack(">I", 0) + _long("PLAIN AMQPLAIN") + _long("en_US"))
        while True:
            channel, method = _read(incoming)
            if method not in answers:  # the first command
                on = channel if at == "channel" else 0
                _write(outgoing, on, _CHANNEL_CLOSE if on else _CLOSE, reason)
            elif (answer := answers[method]) is not None:
                _write(outgoing, channel, *answer)

    return talk
