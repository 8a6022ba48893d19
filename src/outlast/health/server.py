"""A tiny HTTP server for the health endpoint, for programs that have none. It trusts no client."""

import logging
import re
import selectors
import socket
import threading
import time
from contextlib import closing, suppress
from http import HTTPStatus
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from outlast.errors import ConfigError
from outlast.health.checker import HealthChecker
from outlast.health.endpoints import (
    METRICS_PATH,
    Exposition,
    HealthResponse,
    check_token,
    error_response,
    health_response,
    metrics_response,
    request_error,
)

CONNECTIONS = 8
"""Clients that are served at once; others wait until one is done, or one that is silent is sent away for them."""
HEAD_TIMEOUT = 1.0
"""Seconds in which a client has to send its question."""
CLIENT_TIMEOUT = 5.0
"""Seconds in which a client has to take the answer."""
HEAD_LIMIT = 8192
"""Bytes of request line and headers."""
_BACKLOG = 64
_GRACE = 0.1  # seconds after which who has not asked yet makes room for others; whoever means well asks at once
_ROOM_POLL = 0.01  # seconds between two looks for room
_MAX_PORT = 65535
_LINGER = 0.5  # seconds for which what a client sends on is read away, so that it sees the answer and no reset
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~]{1,2048}) HTTP/1\.[0-9]")
log = logging.getLogger("outlast.health")


class _Request(NamedTuple):
    method: str
    path: str
    authorization: bytes | None


class HealthServer:
    """Answers ``/health`` and ``/ready`` in threads of its own.

    Args:
        checker: What is asked.
        port: Where to listen; 0 picks a free one.
        host: The address to listen on. By default only this machine can ask; ``0.0.0.0`` or ``::`` lets everybody.
        token: Whoever sends ``Authorization: Bearer`` with it gets the details; without one nobody does.
        metrics: Returns figures as a body and its content type; whoever shows the token gets them under ``/metrics``.

    Attributes:
        host: The address.
        port: The port; after `start` the one that was picked.

    Raises:
        ConfigError: If something given cannot be used.
    """

    def __init__(
        self,
        checker: HealthChecker,
        port: int,
        host: str = "127.0.0.1",
        token: str | None = None,
        metrics: Exposition | None = None,
    ) -> None:
        """Check what was given; nothing listens yet."""
        number: object = port
        if type(number) is not int or not 0 <= number <= _MAX_PORT:
            message = f"port is {port!r}; give a whole number from 0 (any that is free) to {_MAX_PORT}"
            raise ConfigError(message)
        self.host, self.port = host.removeprefix("[").removesuffix("]"), port
        self._checker, self._token, self._metrics = checker, check_token(token), metrics
        if metrics is not None and token is None:
            message = "metrics need a token, as they are not for everybody; give one"
            raise ConfigError(message)
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._silent: dict[socket.socket, float] = {}  # who has not asked yet, oldest first, and since when
        self._silent_lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._waker: socket.socket | None = None

    def start(self) -> Self:
        """Listen and answer until `stop`; does nothing where it listens already.

        Raises:
            ConfigError: If the address cannot be listened on; the message says why.
        """
        if self._thread is not None:
            return self
        listener = self._listener()
        self.port = listener.getsockname()[1]
        sleeper, self._waker = socket.socketpair()
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._serve, args=(listener, sleeper), name="outlast-health-server", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Listen no more; answers on their way have a second. May be called twice."""
        thread, waker = self._thread, self._waker
        if thread is None or waker is None:
            return
        self._stop.set()
        with suppress(OSError):
            waker.send(b"\0")
        thread.join()
        waker.close()
        self._thread = self._waker = None
        until, free = time.monotonic() + 1.0, 0
        while free < CONNECTIONS and self._slots.acquire(timeout=max(0.0, until - time.monotonic())):
            free += 1
        for _ in range(free):
            self._slots.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _listener(self) -> socket.socket:
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = found[0]
            both = self.host == "::" and socket.has_dualstack_ipv6()
            return socket.create_server(address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "no such address"
            message = f"the health server cannot listen on port {self.port} of {self.host}: {why}; choose another one"
            raise ConfigError(message) from error

    def _serve(self, listener: socket.socket, sleeper: socket.socket) -> None:
        with closing(listener), closing(sleeper), selectors.DefaultSelector() as selector:
            listener.settimeout(0)
            selector.register(listener, selectors.EVENT_READ)
            selector.register(sleeper, selectors.EVENT_READ)
            while selector.select() and not self._stop.is_set():
                if not self._slots.acquire(timeout=_ROOM_POLL):
                    self._make_room()  # all are busy; who came waits in the backlog
                elif not self._accept(listener):
                    self._slots.release()

    def _make_room(self) -> None:
        """Send away the client that has been silent for the longest time."""
        with self._silent_lock:
            client, since = next(iter(self._silent.items()), (None, 0.0))
            if client is None or time.monotonic() - since < _GRACE:
                return
            del self._silent[client]
        with suppress(OSError):
            client.shutdown(socket.SHUT_RD)  # wakes its thread, which closes it

    def _accept(self, listener: socket.socket) -> bool:
        """Have a client served; tell whether a thread has taken it on."""
        try:
            client, _ = listener.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError | ConnectionError):
                self._stop.wait(0.1)  # out of file handles, say: it would be ready again at once
            return False
        try:
            threading.Thread(
                target=self._serve_client, args=(client,), name="outlast-health-client", daemon=True
            ).start()
        except RuntimeError:  # no more threads
            client.close()
            return False
        return True

    def _serve_client(self, client: socket.socket) -> None:
        try:
            with closing(client), suppress(OSError):
                _send_response(client, self._answer(client))
        except Exception as error:  # noqa: BLE001  # one client's question never ends the server
            from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it

            log.error("a question could not be answered: %s", classify(error))  # noqa: TRY400  # a traceback may hold secrets
        finally:
            self._slots.release()

    def _answer(self, client: socket.socket) -> HealthResponse:
        with self._silent_lock:
            self._silent[client] = time.monotonic()
        try:
            asked = _read_request(client)
        finally:
            with self._silent_lock:
                sent_away = self._silent.pop(client, None) is None
        if isinstance(asked, HealthResponse):
            return error_response(408, "request timed out") if sent_away else asked
        refused = request_error(asked.method, asked.path, has_metrics=self._metrics is not None)
        if refused is not None:
            return refused
        if self._metrics is not None and asked.path == METRICS_PATH:
            return metrics_response(self._metrics, asked.method, asked.authorization, self._token)
        return health_response(
            self._checker, self._checker.report(), asked.method, asked.path, asked.authorization, self._token
        )


def _read_request(client: socket.socket) -> _Request | HealthResponse:
    """Read a request's head within its time and size, or return what is to be said about it."""
    until, head = time.monotonic() + HEAD_TIMEOUT, b""
    while (end := _HEAD_END.search(head)) is None:
        if len(head) > HEAD_LIMIT:
            return error_response(431, "request too large")
        left = until - time.monotonic()
        if left <= 0:
            return error_response(408, "request timed out")
        client.settimeout(left)
        try:
            more = client.recv(4096)
        except TimeoutError:
            return error_response(408, "request timed out")
        if not more:
            return error_response(400, "bad request")
        head += more
    if end.start() > HEAD_LIMIT:
        return error_response(431, "request too large")
    return _parse_request(head[: end.start()])


def _parse_request(head: bytes) -> _Request | HealthResponse:
    line, *headers = head.replace(b"\r\n", b"\n").split(b"\n")
    matched = _REQUEST_LINE.fullmatch(line)
    if matched is None:
        return error_response(400, "bad request")
    try:
        path = urlsplit(matched[2].decode("ascii")).path
    except ValueError:
        return error_response(400, "bad request")
    fields = [(name.lower(), value.strip()) for name, _, value in (each.partition(b":") for each in headers)]
    given = [value for name, value in fields if name == b"authorization"]
    return _Request(matched[1].decode("ascii"), path, given[0] if len(given) == 1 else None)


def _send_response(client: socket.socket, answer: HealthResponse) -> None:
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in (*answer.headers, ("Connection", "close"))]
    client.settimeout(CLIENT_TIMEOUT)
    client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + answer.body)
    client.shutdown(socket.SHUT_WR)
    until = time.monotonic() + _LINGER
    while (left := until - time.monotonic()) > 0:
        client.settimeout(left)
        if not client.recv(65536):
            return
