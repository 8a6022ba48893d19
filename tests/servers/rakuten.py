"""The two sides of an ETL on loopback, with faults for each record: the Rakuten API, and a front before S3.

with RakutenServer() as api, S3Front(moto.endpoint) as front:
    api.documents["shop:1"] = {"itemCode": "shop:1"}
    api.fail("shop:1", 503, 503)            # the next two requests for it get 503
    api.fail("shop:2", 429, forever=True)   # all of them get 429
    front.refuse("shop:3", 503)             # puts of its raw object get 503, for ever
    api.requests, front.puts                # how often each record was asked for, and put
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

from servers.s3_stub import error_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SEARCH = "/services/api/IchibaItem/Search/20220601"
APPLICATION = "1000000000000000001"
"""The applicationId that every request carries, as those of the API do."""
_NAMES = {
    401: "wrong_parameter",
    404: "not_found",
    429: "too_many_requests",
    500: "system_error",
    503: "service_unavailable",
}
_CODES = {403: "AccessDenied", 500: "InternalError", 503: "ServiceUnavailable"}


class Fault(NamedTuple):
    """What an answer is instead of the document; None as the status resets the connection."""

    status: int | None
    headers: Mapping[str, str] = {}
    latency: float = 0.0


RESET = Fault(None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client may go away."""


class _Serving:
    """A server in a thread, for as long as a block runs."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class RakutenServer(_Serving):
    """The API: one document for each record, with the faults it was told of first.

    Attributes:
        documents: By record; what has none gets 404.
        requests: How often each record was asked for, whatever the answer was.
        application: The only applicationId that is let in; others get 401. None lets all in.
    """

    def __init__(self, documents: Mapping[str, Any] | None = None) -> None:
        self.documents: dict[str, Any] = dict(documents or {})
        self.requests: Counter[str] = Counter()
        self.application: str | None = None
        self._faults: dict[str, list[Fault]] = {}
        self._forever: dict[str, Fault] = {}
        self._lock = threading.Lock()
        super().__init__(self._handler())

    def fail(self, source_id: str, *faults: int | Fault, forever: bool = False) -> None:
        """Have the next requests for a record fail, one fault each; `forever` repeats the last."""
        found = [each if isinstance(each, Fault) else Fault(each) for each in faults]
        with self._lock:
            if forever:
                self._forever[source_id] = found.pop()
            self._faults[source_id] = found

    def heal(self, source_ids: Iterable[str]) -> None:
        """Have records answer well again."""
        with self._lock:
            for each in source_ids:
                self._faults.pop(each, None)
                self._forever.pop(each, None)

    def _reply(self, source_id: str, application: str) -> Fault | None:
        """Count a request; return the fault that it meets with, if it does."""
        with self._lock:
            self.requests[source_id] += 1
            faults = self._faults.get(source_id)
            if self.application not in {None, application}:
                return Fault(401)
            if faults or source_id in self._forever:
                return faults.pop(0) if faults else self._forever[source_id]
            return None if source_id in self.documents else Fault(404)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                source_id = query.get("itemCode", "")
                fault = api._reply(source_id, query.get("applicationId", ""))
                if fault is None:
                    self._answer(200, api.documents[source_id], {})
                    return
                time.sleep(fault.latency)
                if fault.status is None:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                else:
                    name = _NAMES.get(fault.status, "wrong_parameter")
                    self._answer(fault.status, {"error": name, "error_description": "by plan"}, fault.headers)

            def _answer(self, status: int, document: Any, headers: Mapping[str, str]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def fetching(url: str, application: str = APPLICATION, timeout: float = 10.0) -> Callable[[str], Any]:
    """Return a client of the API as a program would write it with the standard library: it swallows nothing (E4)."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def fetch(source_id: str) -> Any:
        query = f"applicationId={application}&itemCode={quote(source_id)}"
        with opener.open(f"{url}{SEARCH}?{query}", timeout=timeout) as response:
            return json.load(response)

    return fetch


class S3Front(_Serving):
    """Stands before an S3 server: passes everything on, but the puts that it was told to refuse.

    Args:
        upstream: Address of the server.

    Attributes:
        puts: Requests to put the raw object of a record, whatever became of them.
        stored: Those that were passed on.
    """

    def __init__(self, upstream: str) -> None:
        self.puts: Counter[str] = Counter()
        self.stored: Counter[str] = Counter()
        self._upstream = urlsplit(upstream).netloc
        self._refusals: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()
        super().__init__(self._handler())

    def refuse(self, source_id: str, status: int, times: float = float("inf")) -> None:
        """Refuse puts of a record's raw object, for ever or so many times."""
        with self._lock:
            self._refusals[source_id] = (status, times)

    def heal(self, source_ids: Iterable[str]) -> None:
        """Let puts of records pass again."""
        with self._lock:
            for each in source_ids:
                self._refusals.pop(each, None)

    def _put(self, key: str) -> int | None:
        """Count a put; return the status with which it is refused, if it is."""
        source_id = unquote(key.split("/")[-2])
        with self._lock:
            self.puts[source_id] += 1
            status, times = self._refusals.get(source_id, (0, 0))
            if times > 0:
                self._refusals[source_id] = (status, times - 1)
                return status
            self.stored[source_id] += 1
            return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                self._connection = http.client.HTTPConnection(front._upstream, timeout=30)

            def finish(self) -> None:
                self._connection.close()
                super().finish()

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = unquote(urlsplit(self.path).path)
                refused = front._put(path) if self.command == "PUT" and path.count("/") > 2 else None
                if refused is not None:
                    self._answer(refused, {"Content-Type": "application/xml"}, error_document(_CODES[refused]))
                    return
                headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
                self._connection.request(self.command, self.path, body, headers)
                response = self._connection.getresponse()
                content = response.read()
                dropped = {"connection", "transfer-encoding", "content-length", "date", "server"}
                kept = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
                if self.command == "HEAD":
                    kept["Content-Length"] = response.headers.get("Content-Length", "0")
                self._answer(response.status, kept, content)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

            def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
