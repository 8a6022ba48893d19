"""A webhook on loopback: records what it is sent, and answers by a script.

with WebhookServer() as server:
    server.script(Reply(500), Reply(429, {"Retry-After": "5"}), "drip", "reset")   # then 200 for ever
    post(server.url("/services/T0/B0/secret"), ...)
    server.requests
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import struct
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

import trustme

HOST = "127.0.0.1"
_DRIP = 0.02  # seconds between two bytes


class Received(NamedTuple):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    """An answer; `length` is what it claims to be long."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b"ok"
    length: int | None = None

    def raw(self) -> bytes:
        fields = {"Content-Length": str(len(self.body) if self.length is None else self.length), **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {self.status} Reason\r\n{lines}\r\n".encode() + self.body


class WebhookServer:
    """Listens on one port of loopback, with TLS where names are given.

    Attributes:
        requests: What was received, in order.
        server_names: What TLS clients asked for, in order.
        ca_file: Certificate of the authority that signed the server's.
    """

    def __init__(self, *names: str) -> None:
        self.requests: list[Received] = []
        self.server_names: list[str | None] = []
        self.connections = 0
        self._script: list[Reply | str] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._context = self._tls(names) if names else None

    def _tls(self, names: tuple[str, ...]) -> ssl.SSLContext:
        authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        context.sni_callback = lambda _, name, __: self.server_names.append(name)
        self._folder = tempfile.TemporaryDirectory(prefix="webhooks")
        self.ca_file = str(Path(self._folder.name, "ca.pem"))
        authority.cert_pem.write_to_path(self.ca_file)
        return context

    def __enter__(self) -> Self:
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError):  # the client went away, or refused our certificate
                    outer._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server((HOST, 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self._context is not None:
            self._folder.cleanup()

    def url(self, path: str = "/") -> str:
        """Return the address of a path."""
        return f"{'https' if self._context else 'http'}://{HOST}:{self.port}{path}"

    def script(self, *replies: Reply | str) -> None:
        """Say how the next requests are answered: a `Reply`, or ``drip``, ``drip-body``, ``stall``, ``reset``."""
        self._script.extend(replies)

    def _serve(self, plain: socket.socket) -> None:
        with self._lock:
            self.connections += 1
        connection = self._context.wrap_socket(plain, server_side=True) if self._context else plain
        with connection:
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        received = _read(connection)
        with self._lock:
            self.requests.append(received)
            reply = self._script.pop(0) if self._script else Reply()
        match reply:
            case Reply():
                connection.sendall(reply.raw())
            case "drip":
                self._drip(connection, b"HTTP/1.1 200 OK\r\nX-Slow: ")
            case "drip-body":
                self._drip(connection, Reply(length=100_000).raw())
            case "stall":
                self._stopping.wait(60)
            case "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

    def _drip(self, connection: socket.socket, beginning: bytes) -> None:
        """Send one byte after the other, for ever: each comes in time, the whole never."""
        connection.sendall(beginning)
        while not self._stopping.is_set():
            connection.sendall(b"x")
            time.sleep(_DRIP)


def _read(connection: socket.socket) -> Received:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise ValueError("no request")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    method, path, _ = line.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return Received(method, path, headers, body)
