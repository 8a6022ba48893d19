"""A server that answers every S3 request with one prepared answer, for the errors that moto cannot make."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def error_document(code: str, message: str = "") -> bytes:
    """The XML with which S3 says what went wrong."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{message or code}</Message>"
        "<RequestId>4442587FB7D0A2F9</RequestId><HostId>eftixk72aD6Ap51T</HostId></Error>"
    ).encode()


@contextmanager
def answering(
    status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, promised: int | None = None
) -> Iterator[str]:
    """Run the server and yield its address.

    Args:
        status: Status of every answer.
        body: Body of every answer but one to HEAD.
        headers: More headers.
        promised: Length to announce in place of the true one; the connection closes after the body.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in {"Content-Type": "application/xml", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) if promised is None else promised))
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
