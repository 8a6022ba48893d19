"""A loopback HTTP server that fails on purpose, for examples, experiments and tests.

``python -m outlast.testing.server`` starts it on port 8808 and lists its paths. In a test:

>>> with serve() as base:
...     httpx.Client(transport=RetryTransport()).get(f"{base}/items").json()  # 503 twice, then 200
[1, 2, 3]

Most paths have a list of answers and start over after the last one. Each path counts its own requests. You can add any
name, so every test can have paths of its own: ``/items/a`` and ``/items/b`` are two paths. Only this
machine can connect.
"""

import argparse
import html
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

PORT = 8808
"""The port of ``python -m outlast.testing.server`` unless ``--port`` says otherwise."""
_MAX_THREADS, _MAX_BODY, _MAX_PATHS, _MAX_ENTRIES = 500, 64 * 1024, 10_000, 100
_READ_TIMEOUT, _SLOW_SECONDS = 15.0, 5.0


class _Answer(NamedTuple):
    status: int = 200
    body: str = "fine"
    headers: dict[str, str] = {}  # noqa: RUF012  # never changed


_FINE, _DOWN, _DENIED = _Answer(), _Answer(503, ""), _Answer(403, "")
_PAGE = '<h1>Tea</h1> <p class="price">{}</p> <footer>You are visitor {}</footer>'
_PAGES = [_Answer(body=_PAGE.format(*each)) for each in (("4.20", 1), ("4.20", 2), ("3.90", 3))]
_PATHS = {
    "well": ("200", [_FINE]),
    "items": ("503, 503, then 200 with a JSON list", [_DOWN, _DOWN, _Answer(body="[1, 2, 3]")]),
    "orders": ("503, then 200; accepts POST, as all paths do", [_DOWN, _Answer(body='{"accepted": true}')]),
    "private": ("403, 403, then 200", [_DENIED, _DENIED, _FINE]),
    "limited": ("429 with Retry-After: 7, then 200", [_Answer(429, "", {"Retry-After": "7"}), _FINE]),
    "throttled": ("429 without Retry-After, then 200", [_Answer(429, ""), _FINE]),
    "busy": ("429 with Retry-After: 120", [_Answer(429, "", {"Retry-After": "120"})]),
    "gone": ("404", [_Answer(404, "")]),
    "error": ("500", [_Answer(500, "")]),
    "down": ("503", [_DOWN]),
    "slow": (f"200 after {_SLOW_SECONDS:g} seconds", [_FINE]),
    "prices": ("an HTML page; every third answer has another price", _PAGES),
    "feed.xml": ("an RSS feed with ETag and Last-Modified; POST a title to add an entry", []),
    "catalog": ('JSON ids, "1" to "20"; /catalog/7 is a record; 5, 10, 15, 20 answer 503 first, 13 answers 404', []),
}


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.base = f"http://127.0.0.1:{self.server_address[1]}"
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._requests: dict[str, int] = {}
        self._entries = [("Tea", time.time())]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; hang up if there are too many."""
        if threading.active_count() < _MAX_THREADS:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def answer(self, path: str, posted: str | None) -> _Answer:
        """Return the answer to a request, and count it."""
        kind, _, name = path.strip("/").partition("/")
        with self._lock:
            if len(self._requests) >= _MAX_PATHS:
                self._requests.clear()
            number = self._requests[path] = self._requests.get(path, 0) + 1
            if kind == "feed.xml" and posted is not None:
                self._entries = [*self._entries, (posted or "untitled", time.time())][-_MAX_ENTRIES:]
        if not kind:
            return _Answer(body=_list_paths(self.base))
        if kind == "feed.xml":
            return _feed(self._entries)
        if kind == "catalog":
            return _catalog(name, number)
        if kind == "slow":
            self.stopping.wait(_SLOW_SECONDS)
        _, answers = _PATHS.get(kind, _PATHS["gone"])
        return answers[(number - 1) % len(answers)]


class _Handler(BaseHTTPRequestHandler):
    timeout = _READ_TIMEOUT
    server: _Server

    def do_GET(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _MAX_BODY:
            self.send_error(413)
            return
        body = self.rfile.read(int(length)).decode("utf-8", "replace")
        answer = self.server.answer(self.path.partition("?")[0], body if self.command == "POST" else None)
        if self.headers.get("If-None-Match", "") == answer.headers.get("ETag"):
            answer = answer._replace(status=304, body="")
        content = answer.body.encode()
        self.send_response(answer.status)
        for header, value in {**answer.headers, "Content-Length": str(len(content))}.items():
            self.send_header(header, value)
        with suppress(ConnectionError):  # the client hung up
            self.end_headers()
            self.wfile.write(content)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  # the base class looks for these names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Print nothing: what you want to see is the output of your program."""


def _feed(entries: list[tuple[str, float]]) -> _Answer:
    titles = [html.escape(title) for title, _ in entries]
    items = "".join(f"<item><guid>{title}</guid><title>{title}</title></item>" for title in titles)
    body = f'<rss version="2.0"><channel><title>News</title>{items}</channel></rss>'
    changed = entries[-1][1]
    headers = {"ETag": f'"{changed}"', "Last-Modified": formatdate(changed, usegmt=True), "Content-Type": "text/xml"}
    return _Answer(200, body, headers)


def _catalog(name: str, number: int) -> _Answer:
    ids = [str(each) for each in range(1, 21)]
    if name in ids and name != "13":
        record = {"id": name, "name": f" Tea {name} ", "price": 100 * int(name)}
        return _DOWN if number == 1 and int(name) % 5 == 0 else _Answer(body=json.dumps(record))
    return _Answer(404, "") if name else _Answer(body=json.dumps(ids))


def _list_paths(base: str) -> str:
    return "".join(f"{base}/{path:9} {text}\n" for path, (text, _) in _PATHS.items())


@contextmanager
def serve(port: int = 0) -> Iterator[str]:
    """Run the server in a thread while the block runs; the value is its base URL, such as ``http://127.0.0.1:41234``.

    Args:
        port: The port on 127.0.0.1; 0 chooses a free one.

    Raises:
        OSError: If the port is in use.
    """
    server = _Server(port)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server.base
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()


def main() -> None:
    """Run the server until Ctrl-C."""
    name, text = "python -m outlast.testing.server", f"paths:\n{_list_paths(f'http://127.0.0.1:{PORT}')}"
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(name, description=__doc__, epilog=text, formatter_class=shape)
    parser.add_argument("--port", type=int, default=PORT, help="0 chooses a free port (default: %(default)s)")
    port = parser.parse_args().port
    try:
        with suppress(KeyboardInterrupt), serve(port) as base:
            print(f"{_list_paths(base)}Ctrl-C stops the server.", flush=True)  # noqa: T201  # a command
            threading.Event().wait()
    except (OSError, OverflowError) as error:  # it is in use, or above 65535
        parser.exit(1, f"--port {port} cannot be used ({error}); choose another one, or 0 for a free one\n")


if __name__ == "__main__":
    main()
