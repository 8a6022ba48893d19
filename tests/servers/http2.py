"""A server on loopback that speaks just enough HTTP/2 to fail as proxies and dying servers do to a gRPC client.

server = Http2Server()
server.start()
server.target("503")        # an address where every call is answered with this HTTP status
server.target("rst-2")      # … is reset with this error code of HTTP/2
server.target("goaway")     # … loses its connection in an orderly way
server.target("close")      # … finds the connection closed
server.target("garbage")    # … is answered with what is no HTTP/2
server.stop()
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

HOST = "127.0.0.1"
_PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 1, 3, 4, 7
_END_STREAM_AND_HEADERS = 5
_STATUS_NAME = 8  # place of ':status' in HPACK's static table
_JOIN = 2.0


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError
        received += part
    return received


def _wait_for_call(connection: socket.socket) -> int:
    """Read frames until a call begins, and return the number of its stream."""
    _read(connection, _PREFACE)
    connection.sendall(_frame(_SETTINGS, 0, 0))
    while True:
        head = _read(connection, 9)
        _read(connection, int.from_bytes(head[:3], "big"))
        if head[3] == _HEADERS:
            return int.from_bytes(head[5:9], "big") & 0x7FFFFFFF


def _answer(fault: str, stream: int) -> bytes:
    if fault.isdigit():
        status = bytes([_STATUS_NAME, len(fault)]) + fault.encode()
        return _frame(_HEADERS, _END_STREAM_AND_HEADERS, stream, status)
    if fault.startswith("rst-"):
        return _frame(_RST_STREAM, 0, stream, struct.pack(">I", int(fault[4:])))
    return _frame(_GOAWAY, 0, 0, struct.pack(">II", 0, 0)) if fault == "goaway" else b""


class Http2Server:
    """Opens a port for each fault that is asked for; each serves one connection after the other."""

    def __init__(self) -> None:
        self._listeners: list[socket.socket] = []
        self._connections: list[socket.socket] = []
        self._workers: list[threading.Thread] = []

    def start(self) -> None:
        """Do nothing yet: ports are opened when they are asked for."""

    def stop(self) -> None:
        """Close every port and connection, and wait for the threads."""
        for each in (*self._listeners, *self._connections):
            with contextlib.suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for worker in self._workers:
            worker.join(_JOIN)

    def target(self, fault: str) -> str:
        """Return the address of a new port where calls fail so."""
        listener = socket.create_server((HOST, 0))
        self._listeners.append(listener)
        worker = threading.Thread(target=self._accept, args=(listener, fault), name="http2", daemon=True)
        self._workers.append(worker)
        worker.start()
        return f"{HOST}:{listener.getsockname()[1]}"

    def _accept(self, listener: socket.socket, fault: str) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the server stops
                return
            self._connections.append(connection)
            with contextlib.suppress(OSError), connection:
                self._serve(connection, fault)

    def _serve(self, connection: socket.socket, fault: str) -> None:
        if fault == "garbage":
            connection.sendall(b"220 mail.example.test ESMTP\r\n" * 4)
            _wait_for_end(connection)
            return
        connection.sendall(_answer(fault, _wait_for_call(connection)))
        if fault != "close":
            _wait_for_end(connection)


def _wait_for_end(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass
