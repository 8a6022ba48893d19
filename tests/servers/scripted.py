"""A server on loopback that answers as told, each request the next answer, and keeps what it was sent: body and all.

with ScriptedServer([503, (200, {}, b"well")]) as server:
    server.url                     # the first request gets 503, all others 200
    server.requests                # method, path, headers and body of each
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class Got(NamedTuple):
    """A request on record; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        body = self._chunks() if "chunked" in self.headers.get("Transfer-Encoding", "") else self._counted()
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            self.server.got.append(Got(self.command, self.path, headers, body))
            answers = self.server.answers
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        status, fields, content = (answer, {}, b"") if isinstance(answer, int) else answer
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if "Content-Length" not in fields:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = _serve

    def _counted(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: list
    got: list[Got]
    lock: threading.Lock

    def handle_error(self, *_args: object) -> None:
        """A client that went away."""


class ScriptedServer:
    """Answers are statuses, or tuples of status, headers and body; the last one is for ever."""

    def __init__(self, answers) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.answers, self._server.got, self._server.lock = list(answers), [], threading.Lock()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def requests(self) -> list[Got]:
        """What was asked for, in the order of arrival."""
        with self._server.lock:
            return list(self._server.got)
