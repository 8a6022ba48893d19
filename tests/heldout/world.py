"""What the recorders share: how a case is written down, and servers on loopback that fail as real ones do."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import ssl
import struct
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CATEGORIES = (
    "network", "rate_limit", "api_temporary", "database_busy", "system", "access_denied", "not_found", "invalid_parameters",
    "authentication", "quota_exhausted", "configuration", "integrity", "data", "unknown",
)  # fmt: skip
BEGAN = int(time.time())


@dataclass(frozen=True)
class Label:
    """What an engineer who knows the service would say of the error."""

    category: str
    retry: bool
    reason: str
    retry_after: float | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    id: str
    provoke: Callable[[], object]
    label: Label


@dataclass
class Cases:
    """The cases of one subject."""

    cases: list[Case] = field(default_factory=list)

    def add(
        self,
        name: str, category: str, retry: bool, reason: str, provoke: Callable[[], object], *,
            retry_after: float | None = None, also: tuple[str, ...] = ()) -> None:  # fmt: skip
        """Note a case; `provoke` has to raise."""
        assert category in CATEGORIES, category
        assert all(other in CATEGORIES for other in also), also
        self.cases.append(Case(name, provoke, Label(category, retry, reason, retry_after, also)))


def epoch(seconds: int) -> int:
    """A time that many seconds ahead. The record says so relatively; `rebuild` counts from its own now."""
    return BEGAN + seconds


def date(seconds: int) -> str:
    """The same as a date of HTTP."""
    return formatdate(epoch(seconds), usegmt=True)


AHEAD = (30, 45, 60, 90, 120, 600, 900, 1800)
"""Seconds for which `epoch` and `date` are recorded relatively."""


_DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")


def _since(found: re.Match[str]) -> str:
    """The date of an answer, which was given while cases were recorded, becomes now."""
    seconds = parsedate_to_datetime(found[0]).timestamp() - BEGAN
    return "{{httpdate+0}}" if -5 < seconds < 1200 and found[0] not in map(date, AHEAD) else found[0]


def relative(value: Any) -> Any:
    """Replace the times of `epoch` and `date` in a record by what `rebuild` reads."""
    if isinstance(value, dict):
        return {key: relative(item) for key, item in value.items()}
    if isinstance(value, list):
        return [relative(item) for item in value]
    if isinstance(value, str):
        value = _DATE.sub(_since, value)
    for ahead in AHEAD:
        if isinstance(value, int) and value == epoch(ahead):
            return {"$epoch": ahead}
        if isinstance(value, str):
            value = value.replace(date(ahead), f"{{{{httpdate+{ahead}}}}}").replace(
                str(epoch(ahead)), f"{{{{epoch+{ahead}}}}}"
            )
    return value


Reply = tuple[int, "Mapping[str, str]", bytes]


def reply(status: int, body: object = b"", **headers: str) -> Reply:
    """An answer of HTTP; a body that is no text is sent as JSON. Header names are written with underscores."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, bytes | str):
        data = body if isinstance(body, bytes) else body.encode()
        fields.setdefault("Content-Type", "text/html" if data[:1] == b"<" else "text/plain")
    else:
        data = json.dumps(body).encode()
        fields.setdefault("Content-Type", "application/json")
    return status, fields, data


@contextmanager
def http(*answers: Reply, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server that gives these answers in turn, the last one again and again; yields its URL."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "nginx", ""

        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, fields, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_PROPFIND = do_MKCOL = _serve

        def log_message(self, *_args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_args: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@contextmanager
def talking(talk: Callable[[socket.socket], object], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that does `talk` with each connection; yields its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            talk(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_args: object) -> None:
            pass

        def get_request(self) -> Any:
            connection, address = self.socket.accept()
            return (tls.wrap_socket(connection, server_side=True) if tls else connection), address

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def silent() -> Any:
    """A server that accepts and never answers."""
    over = threading.Event()
    return talking(lambda _connection: over.wait(20))


def resetting(greeting: bytes = b"", *, after_request: bool = True) -> Any:
    """A server that breaks the connection off, with RST, once it was sent something."""

    def talk(connection: socket.socket) -> None:
        if greeting:
            connection.sendall(greeting)
        if after_request:
            connection.recv(65536)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return talking(talk)


def hanging_up() -> Any:
    """A server that ends the connection in good order after a request, without an answer."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.shutdown(socket.SHUT_RDWR)

    return talking(talk)


def lines(*script: bytes) -> Any:
    """A server of lines, as mail has: the first answer greets, each further one answers one line."""

    def talk(connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        for number, answer in enumerate(script):
            if number and not stream.readline():
                return
            connection.sendall(answer)
        while stream.readline():
            connection.sendall(script[-1])

    return talking(talk)


def refused() -> int:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


NO_HOST = "no-such-host.invalid"


def wrong_tls() -> ssl.SSLContext:
    """What a server needs to speak TLS with a certificate that nobody trusts."""
    import trustme

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("other.example").configure_cert(context)
    return context


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="heldout-"))


def file(name: str, content: bytes) -> str:
    path = folder() / name
    path.write_bytes(content)
    return str(path)


class Service:
    """The cases of one client of an HTTP service; `call` makes one request to the base URL it is given."""

    def __init__(self, cases: Cases, library: str, call: Callable[[str], object]) -> None:
        self.cases, self.library, self.call = cases, library, call

    def answers(
        self, name: str, answer: Reply | tuple[Reply, ...], category: str, retry: bool, reason: str, **label: Any
    ) -> None:
        """A case in which the service answers so."""
        several: Any = answer if isinstance(answer[0], tuple) else (answer,)

        def provoke() -> None:
            with http(*several) as url:
                self.call(url)

        self.cases.add(f"{self.library}/{name}", category, retry, reason, provoke, **label)

    def faults(self, *names: str) -> None:
        """Cases in which no answer comes, or one that is not the service's."""
        for name in names:
            category, reason, provoke = {
                "refused": ("network", "nobody listens on the port", self._refused),
                "reset": ("network", "the peer broke the connection off", self._reset),
                "hangup": ("network", "the peer ended the connection without an answer", self._hangup),
                "timeout": ("network", "no answer within the client's time limit", self._silent),
                "dns": ("network", "the host name does not resolve", self._unresolved),
                "tls": ("network", "the certificate is not trusted: TLS failures count as network", self._wrong_tls),
                "html": ("data", "an answer with status 200 that is not the promised JSON", self._html),
            }[name]
            also = {"tls": ("configuration",), "html": ("api_temporary",)}.get(name, ())
            self.cases.add(f"{self.library}/{name}", category, category == "network", reason, provoke, also=also)

    def _refused(self) -> None:
        self.call(f"http://127.0.0.1:{refused()}")

    def _reset(self) -> None:
        with resetting() as port:
            self.call(f"http://127.0.0.1:{port}")

    def _hangup(self) -> None:
        with hanging_up() as port:
            self.call(f"http://127.0.0.1:{port}")

    def _silent(self) -> None:
        with silent() as port:
            self.call(f"http://127.0.0.1:{port}")

    def _unresolved(self) -> None:
        self.call(f"http://{NO_HOST}")

    def _wrong_tls(self) -> None:
        with http(reply(200, {}), tls=wrong_tls()) as url:
            self.call(url)

    def _html(self) -> None:
        with http(
            reply(200, "<html><head><title>Welcome</title></head><body>Please sign in to the network</body></html>")
        ) as url:
            self.call(url)
