"""A small server on loopback that fails in the ways servers do."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""

ANSWERS: dict[str, Answer] = {
    "/limited": (429, {"Retry-After": "30"}, b"slow down"),
    "/maintenance": (503, {"Retry-After": "120"}, b"back soon"),
    "/broken": (500, {}, b"oops"),
    "/gone": (410, {}, b"no longer here"),
    "/missing": (404, {}, b"never heard of it"),
    "/private": (403, {}, b"not for you"),
    "/spent": (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "42"}, b"API rate limit exceeded"),
    "/login": (401, {}, b"who are you?"),
}
"""Answers by path."""

_FINE: Answer = (200, {}, b"fine")
_UNWELL: Answer = (503, {}, b"not well")
_BROKEN: Answer = (500, {}, b"oops")
_PRICES: Answer = (200, {"Content-Type": "application/json"}, b'{"tea": 3}')
_HTML: Answer = (200, {"Content-Type": "text/html"}, b"<html>please accept our cookies</html>")
_SLOWER: Answer = (429, {"Retry-After": "8"}, b"eight seconds, please")
TURNS: dict[str, tuple[Answer, ...]] = {
    "/flaky": (_UNWELL, _UNWELL, _FINE),
    "/crowded": ((429, {"Retry-After": "1"}, b"one second, please"), _FINE),
    "/harbour": (_UNWELL, _FINE),
    "/depot": (_UNWELL, _UNWELL, _UNWELL, _UNWELL, _FINE),
    "/shop": (_UNWELL, _UNWELL, _UNWELL, _FINE),
    "/pages": (_FINE, _UNWELL, _FINE, _FINE, _FINE, _BROKEN, *[_FINE] * 6),
    "/prices": (_PRICES, _PRICES, _HTML, *[_PRICES] * 9),
    "/mail": (_FINE, _FINE, _SLOWER, *[_FINE] * 25),
    "/bank": (_FINE, *[_UNWELL] * 6, *[_FINE] * 40),
}
"""Answers by path that are given in turn, over and over."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif path == "/stall":
            time.sleep(1)
        else:
            status, headers, body = self.server.answer(path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Say nothing; the tour does the talking."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a connection that finds no room comes again after a second

    def __init__(self, address: tuple[str, int]) -> None:
        """Begin each path at its first answer."""
        super().__init__(address, _Handler)
        self._turns = {path: cycle(answers) for path, answers in TURNS.items()}

    def answer(self, path: str) -> Answer:
        """Return what a path answers this time."""
        return next(self._turns[path]) if path in self._turns else ANSWERS.get(path, _FINE)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the faults are made on purpose."""


@contextmanager
def flaky_server() -> Iterator[str]:
    """Serve on a free port of loopback for as long as the block runs; gives the base URL."""
    server = _Server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
