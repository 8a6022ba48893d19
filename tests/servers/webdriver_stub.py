"""A WebDriver endpoint on loopback that opens a session and answers the first command with an error of the protocol."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def webdriver(error: str, message: str, *, status: int = 500) -> Iterator[str]:
    """Run the endpoint and yield its address.

    Args:
        error: Error code of the W3C protocol; "session not created" comes in place of the session.
        message: What the driver says.
        status: HTTP status of the error.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/session" and error != "session not created":
                self._answer(200, {"sessionId": "1", "capabilities": {}})
            else:
                self._answer(status, {"error": error, "message": message, "stacktrace": ""})

        def do_DELETE(self) -> None:
            self._answer(200, None)

        def _answer(self, code: int, value: Any) -> None:
            body = json.dumps({"value": value}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
