"""An API on loopback that keeps a record of who asked when, and answers as it is told to."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class Asked(NamedTuple):
    """A request: when it came on the monotonic clock, from which process, and how it was answered."""

    at: float
    pid: int
    status: int


class Api:
    """Answers 200 after a moment.

    Attributes:
        down: Processes that get 503.
        takes: Seconds that an answer takes.
    """

    def __init__(self, takes=0.01):
        self.takes, self.down = takes, set()
        self._asked, self._lock, self._limit = [], threading.Lock(), 0
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                api.answer(self)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                """A client that was killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def limit(self, seconds):
        """Answer the next request, and no other, with 429 and so many seconds."""
        with self._lock:
            self._limit = seconds

    def asked(self, *, pid=None, status=None):
        """Return the requests so far: of a process, with a status."""
        with self._lock:
            asked = list(self._asked)
        return [each for each in asked if pid in (None, each.pid) and status in (None, each.status)]

    def answer(self, request):
        pid = int(request.headers["X-Process"])
        with self._lock:
            limit, self._limit = self._limit, 0
            status = 429 if limit else 503 if pid in self.down else 200
            self._asked.append(Asked(time.monotonic(), pid, status))
        time.sleep(self.takes)
        request.send_response(status)
        if limit:
            request.send_header("Retry-After", str(limit))
        request.send_header("Content-Length", "0")
        request.end_headers()
