"""A quick HTTP/1.1 server on loopback, in a process of its own: python -m benchmarks.http_server.

It writes its port to standard output and ends when its standard input does. `/` is answered with a little JSON,
`/flaky/NAME` too, but for one request in ten of each name, which gets a 503: after it nine are answered, so whoever
tries again succeeds at once. `/seen` tells how many requests and connections there were.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["FAULTY", "Seen", "Server"]

FAULTY = 10
"""One request in so many is answered with a 503 where there are faults."""

_BODY = b'{"items": [{"id": 1, "title": "First"}, {"id": 2, "title": "Second"}], "next": null}'
_TROUBLE = b'{"error": "overloaded"}'


def _answer(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_FINE = _answer("200 OK", _BODY)
_UNWELL = _answer("503 Service Unavailable", _TROUBLE)


@dataclass
class Seen:
    """What the server has seen.

    Attributes:
        requests: Answered so far, without those that ask for this.
        opened: Connections opened so far, without theirs.
        open: Connections that are open, without theirs.
        most: The most that were open at once since the last question.
    """

    requests: int = 0
    opened: int = 0
    open: int = 0
    most: int = 0


class _Connection(asyncio.Protocol):
    """One connection: requests without a body, one after another."""

    def __init__(self, seen: Seen, turns: Counter[bytes]) -> None:
        self._seen, self._turns = seen, turns
        self._buffer = b""
        self._counted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # as asyncio calls it
        self._seen.open -= self._counted

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            path = buffer[4 : buffer.index(b" ", 4)]  # after "GET "
            buffer = buffer[end + 4 :]
            self._transport.write(self._answer(path))  # type: ignore[attr-defined]  # a transport that writes
        self._buffer = buffer

    def _answer(self, path: bytes) -> bytes:
        seen = self._seen
        if path == b"/seen":
            body = json.dumps(vars(seen)).encode()
            seen.most = seen.open
            return _answer("200 OK", body)
        if not self._counted:  # with its first request: who asks for /seen is not counted
            self._counted = True
            seen.opened += 1
            seen.open += 1
            seen.most = max(seen.most, seen.open)
        seen.requests += 1
        if path.startswith(b"/flaky/"):
            self._turns[path] += 1
            if self._turns[path] % FAULTY == 0:
                return _UNWELL
        return _FINE


class Server:
    """The server's process, from the benchmark's side.

    Attributes:
        url: Without a path.
    """

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.http_server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None  # for type checkers: asked for above
        port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{port}"
        self._asking = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._asking.close()
        assert self._process.stdin is not None  # for type checkers: asked for above
        self._process.stdin.close()
        self._process.wait(10)

    def seen(self) -> Seen:
        """Ask what the server has seen."""
        self._asking.request("GET", "/seen")
        return Seen(**json.loads(self._asking.getresponse().read()))


async def _serve() -> None:
    seen, turns = Seen(), Counter[bytes]()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(seen, turns), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve())
