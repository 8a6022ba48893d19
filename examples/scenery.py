"""What the examples play against: servers on loopback that answer by a script, and the moment to stop. Not to copy."""

from __future__ import annotations

import argparse
import re
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

import outlast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

LIMIT = 60.0
"""Seconds after which an example ends, whatever the machine is like."""
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0}


class Request(NamedTuple):
    """What a site was asked.

    Attributes:
        number: Of the request, from 1 on.
    """

    number: int
    headers: Message
    body: bytes


class Answer(NamedTuple):
    """What a site answers; None as the status hangs up without a word."""

    status: int | None = 200
    body: str = ""
    headers: Mapping[str, str] = {}


class Site:
    """A server on a free port of loopback. Each site is a host of its own, as far as cooldowns go.

    Args:
        answer: Gets each request and says what is answered.

    Attributes:
        hits: Requests that came.
        shown: Body of the last answer that was a success.
    """

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        """Listen; `serving` answers."""
        self.hits, self.shown = 0, ""
        self._answer = answer
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    @contextmanager
    def serving(self) -> Iterator[Site]:
        """Answer for as long as the block runs."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def _answered(self, headers: Message, body: bytes) -> Answer:
        with self._lock:
            self.hits += 1
            answer = self._answer(Request(self.hits, headers, body))
            self.shown = answer.body if answer.status == 200 else self.shown
            return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                answer = site._answered(self.headers, self.rfile.read(length))  # the same thing
                if answer.status is None:
                    return
                body = answer.body.encode()
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815  # the base class looks for it

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
                """Say nothing; the example does the talking."""

        return Handler


def in_turn(*answers: Answer) -> Callable[[Request], Answer]:
    """Give answers one after the other, and the last one for ever."""
    return lambda request: answers[min(request.number, len(answers)) - 1]


def unless_known(answer: Answer) -> Callable[[Request], Answer]:
    """Give an answer with an ETag, and 304 to a request that sends it again."""
    tag = '"1"'
    tagged = answer._replace(headers={**answer.headers, "ETag": tag})
    return lambda request: Answer(304) if request.headers.get("If-None-Match") == tag else tagged


def ask(url: str) -> str:
    """Return status and body of what a program on this machine answers; no proxy is asked on the way."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as response:
            return f"{response.status} {response.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"


@contextmanager
def stopping(
    monitor: outlast.Monitor, told: Callable[[], bool], end: float | None, before: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Stop a monitor between two cycles, so that all that was asked is also written down.

    Args:
        monitor: What is stopped.
        told: Asked after each cycle: whether there is nothing more to see.
        end: On the monotonic clock, when to stop whatever there is to see; None for when all is told.
        before: Called first. It holds the monitor up, which does not matter any more.
    """
    latest = time.monotonic() + LIMIT if end is None else end

    def look(_: outlast.events.CycleEnded) -> None:
        if time.monotonic() >= latest or (end is None and told()):
            before()
            monitor.stop()

    unsubscribe = outlast.subscribe(look, outlast.events.CycleEnded)
    try:
        yield
    finally:
        unsubscribe()


def seconds(text: str) -> float:
    """Read a length of time such as 20, 20s or 2m."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([sm]?)", text)
    if match is None:
        message = f"{text!r} is no length of time; write 20s or 2m"
        raise argparse.ArgumentTypeError(message)
    return float(match[1]) * _UNITS[match[2]]
