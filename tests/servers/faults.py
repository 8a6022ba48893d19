"""A server on loopback that fails in every way an HTTP server can: by status, by silence, by garbage, by TLS.

server = FaultServer()
server.start()
server.answer(503, {"Retry-After": "5"}, "later")   # a URL that answers so
server.base(503, {"Retry-After": "5"}, "later")     # a base URL: whatever lies beneath it answers so
server.fault("truncated")                           # a URL that misbehaves so; `FAULTS` lists the names
server.tls("expired")                               # a URL with this trouble in TLS; `TLS_FAULTS` lists the names
server.stop()
"""

from __future__ import annotations

import contextlib
import datetime as dt
import selectors
import shutil
import socket
import ssl
import struct
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import trustme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOST = "127.0.0.1"
_HEAD_LIMIT = 65536
_TLS_HANDSHAKE = b"\x16"
_SETTLE = 0.03  # seconds for what was sent to arrive before the connection is torn down
_JOIN = 2.0


class Request:
    """What was asked for: method, path and query, as far as a fault needs to know."""

    def __init__(self, head: bytes) -> None:
        line, _, fields = head.decode("latin-1").partition("\r\n")
        self.method, _, target = line.partition(" ")
        self.target = target.rpartition(" ")[0]
        parts = urlsplit(self.target)
        self.path, self.query = parts.path, parse_qs(parts.query, keep_blank_values=True)
        names = (field.partition(":") for field in fields.split("\r\n"))
        self.headers = {name.strip().lower(): value.strip() for name, _, value in names}


def _response(status: int, headers: Mapping[str, str], body: bytes = b"", *, length: int | None = None) -> bytes:
    """Write an answer that ends its connection; `length` is what it claims to be long."""
    fields = {"Connection": "close", "Content-Type": "text/plain", **headers}
    if "Transfer-Encoding" not in fields:
        fields.setdefault("Content-Length", str(len(body) if length is None else length))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Reason\r\n{lines}\r\n".encode("latin-1") + body


def _reset(connection: socket.socket) -> None:
    """Close with a reset in place of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _reset_handshake(connection: socket.socket) -> None:
    connection.recv(1)  # the client has begun to speak
    _reset(connection)


def _wait_for_end(connection: socket.socket) -> None:
    """Say nothing until the other side goes away or the server stops."""
    while connection.recv(4096):
        pass


def _sends(raw: bytes) -> Callable[[socket.socket, Request], None]:
    """Make a fault that consists of these bytes and the end of the connection."""

    def fault(connection: socket.socket, _: Request) -> None:
        connection.sendall(raw)

    return fault


def _close(_connection: socket.socket, _: Request) -> None:
    """Answer nothing; the end of the handler closes the connection."""


def _reset_at_once(connection: socket.socket, _: Request) -> None:
    _reset(connection)


def _reset_body(connection: socket.socket, _: Request) -> None:
    connection.sendall(_response(200, {}, b"the beginning", length=1000))
    time.sleep(_SETTLE)
    _reset(connection)


def _stall(connection: socket.socket, _: Request) -> None:
    _wait_for_end(connection)


def _stall_body(connection: socket.socket, _: Request) -> None:
    connection.sendall(_response(200, {}, b"the beginning", length=1000))
    _wait_for_end(connection)


def _redirect_loop(connection: socket.socket, request: Request) -> None:
    connection.sendall(_response(302, {"Location": request.target}))


_JSON = {"Content-Type": "application/json"}
_CHUNKED = {"Transfer-Encoding": "chunked"}

FAULTS: dict[str, Callable[[socket.socket, Request], None]] = {
    "reset": _reset_at_once,
    "reset-body": _reset_body,
    "close": _close,
    "stall": _stall,
    "stall-body": _stall_body,
    "garbage-status": _sends(b"%%% this is no HTTP at all\r\n\r\n"),
    "garbage-chunk": _sends(_response(200, _CHUNKED, b"zz\r\nnot a chunk\r\n0\r\n\r\n")),
    "garbage-length": _sends(_response(200, {"Content-Length": "many"}, b"body")),
    "truncated": _sends(_response(200, {}, b"the beginning", length=1000)),
    "truncated-chunk": _sends(_response(200, _CHUNKED, b"5\r\nhello\r\n40\r\nthe beginning")),
    "truncated-headers": _sends(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Le"),
    "broken-gzip": _sends(_response(200, {"Content-Encoding": "gzip"}, b"this was never compressed")),
    "broken-deflate": _sends(_response(200, {"Content-Encoding": "deflate"}, b"\x78\x9c this was never compressed")),
    "redirect-loop": _redirect_loop,
    "redirect-scheme": _sends(_response(302, {"Location": "gopher://nowhere.invalid/"})),
    "bad-json": _sends(_response(200, _JSON, b'{"items": [1, 2,')),
    "bad-utf8": _sends(_response(200, _JSON, b'{"name": "\xff\xfe\xfa"}')),
    "wrong-type": _sends(_response(200, {"Content-Type": "text/html"}, b"<html>Please log in</html>")),
    "empty": _sends(_response(200, _JSON)),
}
"""What happens after a request was read, by name."""

TLS_FAULTS = ("untrusted", "wrong-host", "expired", "handshake-reset", "handshake-close", "handshake-stall", "plain")
"""What goes wrong on the way to a TLS connection, by name. 'untrusted' is so for a client that does not know `ca_file`."""


@cache
def _authority() -> trustme.CA:
    return trustme.CA()


def _server_context(*identities: str, expired: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    today = dt.datetime.now(dt.UTC)
    ended = {"not_before": today - dt.timedelta(days=9), "not_after": today - dt.timedelta(days=2)}
    _authority().issue_cert(*identities, **(ended if expired else {})).configure_cert(context)
    return context


class FaultServer:
    """Listens on one port without TLS and one for each trouble with it; every connection has a thread of its own.

    Attributes:
        ca_file: Certificate of the authority that signed every certificate used here.
        unresolvable_url: A name that no resolver knows.
    """

    unresolvable_url = "http://nothing.invalid/"

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._workers: set[threading.Thread] = set()
        self._stopping = False
        self._bases: list[tuple[int, Mapping[str, str], bytes]] = []

    def start(self) -> None:
        """Open the ports."""
        self._folder = tempfile.mkdtemp(prefix="faults")
        self.ca_file = str(Path(self._folder, "ca.pem"))
        _authority().cert_pem.write_to_path(self.ca_file)
        good = _server_context(HOST, "localhost")
        self._selector = selectors.DefaultSelector()
        self._wake, waker = socket.socketpair()
        self._selector.register(waker, selectors.EVENT_READ, None)
        self._listen("http", self._serve)
        self._listen("untrusted", lambda plain: self._serve_tls(plain, good))
        wrong_host = _server_context("elsewhere.test")
        self._listen("wrong-host", lambda plain: self._serve_tls(plain, wrong_host))
        expired = _server_context(HOST, expired=True)
        self._listen("expired", lambda plain: self._serve_tls(plain, expired))
        self._listen("handshake-reset", _reset_handshake)
        self._listen("handshake-close", lambda connection: connection.recv(_HEAD_LIMIT))
        self._listen("handshake-stall", _wait_for_end)
        self._ports["plain"] = self._ports["http"]
        self._refusing = socket.socket()  # bound and never listening: nobody else can get the port
        self._refusing.bind((HOST, 0))
        self._acceptor = threading.Thread(target=self._accept, name="faults-accept", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Close every port and connection, and wait for the threads."""
        self._stopping = True
        self._wake.close()
        self._acceptor.join(_JOIN)
        with self._lock:
            for connection in self._connections:
                _shut(connection)
            workers = list(self._workers)
        for worker in workers:
            worker.join(_JOIN)
        self._refusing.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, path: str = "/") -> str:
        """Return the address of a path on the port without TLS."""
        return f"http://{HOST}:{self._ports['http']}{path}"

    def answer(
        self, status: int, headers: Mapping[str, str] | None = None, body: str = "", *, query: str = "", user: str = ""
    ) -> str:
        """Return a URL that answers with this status, these headers and this body.

        Args:
            status: Any status.
            headers: Headers of the answer.
            body: Text of the answer.
            query: More of the query string, as a client with credentials in it would send.
            user: User information for the URL, as ``name:password``.
        """
        fields = [("header", f"{name}: {value}") for name, value in (headers or {}).items()]
        script = urlencode([*fields, *([("body", body)] if body else [])], quote_via=quote)
        parts = "&".join(part for part in (script, query) if part)
        url = self.url(f"/status/{status}" + (f"?{parts}" if parts else ""))
        return url.replace("://", f"://{user}@") if user else url

    def base(self, status: int, headers: Mapping[str, str] | None = None, body: str = "") -> str:
        """Return a base URL for clients that add paths and queries of their own; all of them are answered so."""
        self._bases.append((status, headers or {}, body.encode()))
        return self.url(f"/base/{len(self._bases) - 1}")

    def fault(self, name: str) -> str:
        """Return a URL that misbehaves in the way of that name, one of `FAULTS`, and so do the paths below it."""
        if name not in FAULTS:
            raise KeyError(name)
        return self.url(f"/fault/{name}")

    def tls(self, name: str) -> str:
        """Return an https URL that misbehaves in the way of that name, one of `TLS_FAULTS`."""
        return f"https://{HOST}:{self._ports[name]}/"

    @property
    def refused_url(self) -> str:
        """A URL whose port refuses connections."""
        return f"http://{HOST}:{self._refusing.getsockname()[1]}/"

    def _listen(self, name: str, serve: Callable[[socket.socket], object]) -> None:
        listener = socket.create_server((HOST, 0), backlog=128)
        self._ports[name] = listener.getsockname()[1]
        self._selector.register(listener, selectors.EVENT_READ, serve)

    def _accept(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select():
                if key.data is not None and not self._stopping:
                    connection, _address = key.fileobj.accept()
                    self._work(key.data, connection)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _work(self, serve: Callable[[socket.socket], object], connection: socket.socket) -> None:
        worker = threading.Thread(target=self._handle, args=(serve, connection), name="faults-serve", daemon=True)
        with self._lock:
            self._connections.add(connection)
            self._workers.add(worker)
        worker.start()

    def _handle(self, serve: Callable[[socket.socket], object], connection: socket.socket) -> None:
        try:
            serve(connection)
        except OSError:  # the client went away or refused our certificate: often the very fault that was asked for
            pass
        finally:
            connection.close()
            with self._lock:
                self._connections.discard(connection)
                self._workers.discard(threading.current_thread())

    def _serve(self, connection: socket.socket) -> None:
        request = _read_request(connection)
        if request is None:  # a client that speaks TLS gets the answer that real servers give on the wrong port
            connection.sendall(_response(400, {}, b"plain HTTP is spoken here"))
            return
        kind, _, name = request.path.strip("/").partition("/")
        if request.method == "CONNECT":
            connection.sendall(_response(407, {"Proxy-Authenticate": 'Basic realm="faults"'}))
        elif kind == "status":
            fields = dict(header.split(": ", 1) for header in request.query.get("header", []))
            body = request.query.get("body", [""])[0].encode()
            connection.sendall(
                _response(int(name), fields, b"" if request.method == "HEAD" else body, length=len(body))
            )
        elif kind == "base":
            connection.sendall(_response(*self._bases[int(name.partition("/")[0])]))
        elif kind == "fault" and name.partition("/")[0] in FAULTS:
            FAULTS[name.partition("/")[0]](connection, request)
        else:
            connection.sendall(_response(200, {}, b"well"))

    def _serve_tls(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        with context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) as connection:
            with self._lock:
                self._connections.add(connection)  # the plain one is spent from here on
            try:
                connection.do_handshake()
                self._serve(connection)
            finally:
                with self._lock:
                    self._connections.discard(connection)


def _read_request(connection: socket.socket) -> Request | None:
    """Read a request to its end, so that closing afterwards is orderly; None for what is none."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(_HEAD_LIMIT)
        received += part
        if not part or len(received) > _HEAD_LIMIT or received.startswith(_TLS_HANDSHAKE):
            return None
    head, _, body = received.partition(b"\r\n\r\n")
    request = Request(head)
    missing = int(request.headers.get("content-length", 0)) - len(body)
    while missing > 0 and (part := connection.recv(_HEAD_LIMIT)):
        missing -= len(part)
    return request


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed already
        connection.shutdown(socket.SHUT_RDWR)
