"""A server on loopback whose paths follow a script: feeds, pages, statuses and faults, every request on record.

with FeedServer() as server:
    server.script("/feed", [503, Answer(body=rss(3)), Answer(body=rss(4), conditional=True)])
    server.url("/feed")              # the first request gets 503, the second three entries, all others four
    server.host_url(2, "/feed")      # the same path on 127.0.0.2, another host for whoever counts by host
    server.count("/feed"), server.requests
"""

from __future__ import annotations

import contextlib
import hashlib
import selectors
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Self
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FAULTS = ("reset", "close", "stall", "truncated")
"""What an answer may do in place of answering: reset or close the connection, say nothing, or break off in the body."""

_HEAD_LIMIT = 65536
_BACKLOG = 512
_SETTLE = 0.03  # seconds for what was sent to arrive before the connection is torn down
_JOIN = 2.0


@dataclass(frozen=True)
class Answer:
    """What a path answers.

    Attributes:
        conditional: Whether a request that shows the validators of this answer gets 304. With neither ETag nor
            Last-Modified among the headers, an ETag is made of the body.
        fault: One of `FAULTS`.
        gate: The answer waits until this is set; the request is on record before.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | str = b""
    conditional: bool = False
    fault: str | None = None
    gate: threading.Event | None = None

    def __post_init__(self) -> None:
        if self.fault is not None and self.fault not in FAULTS:
            raise KeyError(self.fault)


class Request(NamedTuple):
    """A request on record; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]


class FeedServer:
    """Every connection has a thread of its own and is kept alive; a path without a script answers 404.

    Attributes:
        dead_url: A name that no resolver knows.
        connections: How many were accepted.
        most_at_once: The largest number of requests that were being answered at one time.
    """

    dead_url = "http://nothing.invalid/"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scripts: dict[str, list[Answer | Callable[[Request], Answer]]] = {}
        self._requests: list[Request] = []
        self._counts: Counter[str] = Counter()
        self._ports: dict[int, int] = {}
        self._open: set[socket.socket] = set()
        self._workers: set[threading.Thread] = set()
        self._stopping = threading.Event()
        self._busy = 0
        self.connections = 0
        self.most_at_once = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Open the first port."""
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._listen(1)
        self._acceptor = threading.Thread(target=self._accept, name="feeds-accept", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Close every port and connection, and wait for the threads."""
        self._stopping.set()
        self._wake.close()
        self._acceptor.join(_JOIN)
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # closed already
                    connection.shutdown(socket.SHUT_RDWR)
            workers = list(self._workers)
        for worker in workers:
            worker.join(_JOIN)

    def script(
        self, path: str, answers: Iterable[Answer | int | Callable[[Request], Answer]] | Answer | int = 200
    ) -> str:
        """Say what a path answers, each request the next, the last one for ever; return its URL.

        A number is a status without a body; a function is asked anew for every request. A path with a query is looked
        up with it first, then without.
        """
        given = [answers] if isinstance(answers, Answer | int) else list(answers)
        listed = [Answer(status=each) if isinstance(each, int) else each for each in given]
        if not listed:
            message = "a script needs an answer"
            raise ValueError(message)
        with self._lock:
            self._scripts[path] = listed
        return self.url(path)

    def url(self, path: str = "/") -> str:
        """Return the address of a path."""
        return self.host_url(1, path)

    def host_url(self, number: int, path: str = "/") -> str:
        """Return the address of a path on 127.0.0.<number>; the same port wherever it is free."""
        with self._lock:
            if number not in self._ports:
                self._listen(number)
                self._wake.send(b"\0")  # the acceptor has one more to look at
            return f"http://127.0.0.{number}:{self._ports[number]}{path}"

    @property
    def requests(self) -> list[Request]:
        """What was asked for, in the order of arrival."""
        with self._lock:
            return list(self._requests)

    def count(self, path: str | None = None) -> int:
        """Return how often a path was asked for, with or without its query; all requests without a path."""
        with self._lock:
            return len(self._requests) if path is None else self._counts[path]

    @property
    def open_connections(self) -> int:
        """How many are open at the moment, as far as the other side has closed its end."""
        with self._lock:
            return len(self._open)

    def forget(self) -> None:
        """Begin to count anew; the scripts stay where they are."""
        with self._lock:
            self._requests.clear()
            self._counts.clear()
            self.most_at_once = self._busy

    def _listen(self, number: int) -> None:
        host = f"127.0.0.{number}"
        try:
            listener = socket.create_server((host, self._ports.get(1, 0)), backlog=_BACKLOG)
        except OSError:  # somebody else has the port on that address
            listener = socket.create_server((host, 0), backlog=_BACKLOG)
        listener.setblocking(False)
        self._ports[number] = listener.getsockname()[1]
        self._selector.register(listener, selectors.EVENT_READ, number)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select():
                if key.data is None:
                    self._woken.recv(_HEAD_LIMIT)
                else:
                    with contextlib.suppress(BlockingIOError):  # whoever knocked has gone
                        self._work(key.fileobj.accept()[0])
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _work(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        worker = threading.Thread(target=self._serve, args=(connection,), name="feeds-serve", daemon=True)
        with self._lock:
            self.connections += 1
            self._open.add(connection)
            self._workers.add(worker)
        worker.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            received = b""
            while not self._stopping.is_set():
                request, received = _next_request(connection, received)
                if request is None or not self._respond(connection, request):
                    return
        except OSError:  # the client went away
            pass
        finally:
            with self._lock:  # closed within the lock: `stop` must not meet a number that is somebody else's by now
                self._open.discard(connection)
                self._workers.discard(threading.current_thread())
                connection.close()

    def _respond(self, connection: socket.socket, request: Request) -> bool:
        """Answer a request; return whether the connection can be used again."""
        with self._lock:
            self._busy += 1
            self.most_at_once = max(self.most_at_once, self._busy)
            answer = self._take(request)
        try:
            written = self._prepare(connection, request, answer)
        finally:
            with self._lock:
                self._busy -= 1  # before the client has the answer: its next request is not at the same time
        if written is None:
            return False
        connection.sendall(written)
        return request.headers.get("connection", "").lower() != "close"

    def _prepare(
        self, connection: socket.socket, request: Request, answer: Answer | Callable[[Request], Answer]
    ) -> bytes | None:
        """Write an answer; None after a fault, which ends the connection."""
        if not isinstance(answer, Answer):
            answer = answer(request)
        if answer.gate is not None:
            while not answer.gate.wait(0.05) and not self._stopping.is_set():
                pass
        if answer.fault is not None:
            _misbehave(connection, answer)
            return None
        fields, body = _validated(answer)
        status = answer.status
        if answer.conditional and _is_known(request.headers, fields):
            status, body = HTTPStatus.NOT_MODIFIED, b""
        return _written(status, fields, body, head_only=request.method == "HEAD")

    def _take(self, request: Request) -> Answer | Callable[[Request], Answer]:
        """Put a request on record and return what it is to get; the lock is held."""
        bare = request.path.partition("?")[0]
        self._requests.append(request)
        self._counts.update({bare, request.path})
        path = request.path if request.path in self._scripts else bare
        answers = self._scripts.get(path)
        if answers is None:
            return Answer(status=404)
        return answers.pop(0) if len(answers) > 1 else answers[0]


def _next_request(connection: socket.socket, received: bytes) -> tuple[Request | None, bytes]:
    """Read a request to its end; return it and what came behind it. None where the other side has gone."""
    while b"\r\n\r\n" not in received:
        part = connection.recv(_HEAD_LIMIT)
        received += part
        if not part or len(received) > _HEAD_LIMIT:
            return None, b""
    head, _, rest = received.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    method, _, target = line.partition(" ")
    pairs = (each.partition(":") for each in fields)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length", 0))
    while len(rest) < length:
        part = connection.recv(_HEAD_LIMIT)
        if not part:
            return None, b""
        rest += part
    return Request(method, target.rpartition(" ")[0], headers), rest[length:]


def _validated(answer: Answer) -> tuple[dict[str, str], bytes]:
    """Return the headers, with a validator where one is needed, and the body."""
    body = answer.body.encode() if isinstance(answer.body, str) else answer.body
    fields = dict(answer.headers)
    if answer.conditional and not {"etag", "last-modified"} & {name.lower() for name in fields}:
        fields["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return fields, body


def _is_known(asked: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    low = {name.lower(): value for name, value in fields.items()}
    if "if-none-match" in asked:  # where both are sent, this one decides
        return asked["if-none-match"] == low.get("etag")
    return "last-modified" in low and asked.get("if-modified-since") == low["last-modified"]


def _written(status: int, fields: Mapping[str, str], body: bytes, *, head_only: bool = False) -> bytes:
    names = {name.lower() for name in fields}
    written = [f"{name}: {value}" for name, value in fields.items()]
    if "content-type" not in names and body:
        written.append(f"Content-Type: {_kind(body)}")
    if "content-length" not in names and status != HTTPStatus.NOT_MODIFIED:
        written.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([f"HTTP/1.1 {int(status)} Reason", *written, "", ""])
    return head.encode("latin-1") + (b"" if head_only else body)


def _kind(body: bytes) -> str:
    start = body[:200].lower()
    if b"<html" in start:
        return "text/html; charset=utf-8"
    return "application/xml" if start.startswith(b"<") else "text/plain"


def _misbehave(connection: socket.socket, answer: Answer) -> None:
    if answer.fault == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif answer.fault == "stall":
        while connection.recv(_HEAD_LIMIT):
            pass
    elif answer.fault == "truncated":
        fields, body = _validated(answer)
        body = body or b"the beginning"
        connection.sendall(_written(answer.status, {**fields, "Content-Length": str(len(body) * 2)}, body))
        time.sleep(_SETTLE)


def rss(entries: int = 3, *, title: str = "A feed", first: int = 1, built: str = "", more: str = "") -> bytes:
    """Write an RSS feed with entries `first`, … , the newest on top.

    Args:
        entries: How many.
        title: Of the feed.
        first: Number of the oldest.
        built: Time at which the feed says that it was made.
        more: Further items, as they are.
    """
    items = "".join(
        f"<item><title>Entry {n}</title><link>http://example.test/{n}</link><guid isPermaLink='false'>entry-{n}</guid>"
        f"<pubDate>Mon, 05 Jan 2026 {n // 60 % 24:02}:{n % 60:02}:00 GMT</pubDate><description>Text {n}</description></item>"
        for n in reversed(range(first, first + entries))
    )
    date = f"<lastBuildDate>{escape(built)}</lastBuildDate>" if built else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>{escape(title)}</title>'
        f"<link>http://example.test/</link>{date}{more}{items}</channel></rss>"
    ).encode()


def atom(entries: int = 3, *, title: str = "A feed", first: int = 1) -> bytes:
    """Write an Atom feed with entries `first`, … , the newest on top."""
    items = "".join(
        f'<entry><id>tag:example.test,2026:{n}</id><title>Entry {n}</title><link href="http://example.test/{n}"/>'
        f"<updated>2026-01-05T{n // 60 % 24:02}:{n % 60:02}:00Z</updated><summary>Text {n}</summary></entry>"
        for n in reversed(range(first, first + entries))
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom"><id>tag:example.test,2026:feed</id>'
        f"<title>{escape(title)}</title><updated>2026-01-05T00:00:00Z</updated>{items}</feed>"
    ).encode()


def page(content: str = "<h1>News</h1><p>Nothing yet.</p>", *, title: str = "A page") -> bytes:
    """Write an HTML page around a piece of HTML."""
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>p {{ color: red }}</style></head><body>{content}<script>var seen = 1;</script></body></html>"
    ).encode()
