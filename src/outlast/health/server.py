"""A small HTTP server for the health endpoints. Slow or hostile clients cannot block it."""

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
"""Clients served at the same time. Others wait until one is done, or take the place of a silent one."""
HEAD_TIMEOUT = 1.0
"""Seconds for a client to send its request."""
CLIENT_TIMEOUT = 5.0
"""Seconds for a client to receive the response."""
HEAD_LIMIT = 8192
"""Maximum size of request line and headers, in bytes."""
_BACKLOG = 64
_GRACE = 0.1  # seconds after which a client without a request may lose its place; normal clients send it at once
_ROOM_POLL = 0.01  # seconds between two checks for a free place
_MAX_PORT = 65535
_LINGER = 0.5  # seconds to discard further input, so that the client sees the response and not a reset
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~]{1,2048}) HTTP/1\.[0-9]")
log = logging.getLogger("outlast.health")


class _Request(NamedTuple):
    method: str
    path: str
    authorization: bytes | None


class HealthServer:
    """Serves ``/health`` and ``/ready`` in background threads.

    Args:
        checker: The checker.
        port: The port to listen on; 0 picks a free port.
        host: The address to listen on. The default accepts clients on this machine only; use ``0.0.0.0`` or ``::`` to
            accept all.
        token: Clients that send it as ``Authorization: Bearer`` get the details. If None, no client does.
        metrics: A function that returns metrics as a body and its content type. Clients with the token get them at
            ``/metrics``.

    Attributes:
        host: The address.
        port: The port. After `start` it is the port that was picked.

    Raises:
        ConfigError: If an argument is not valid.
    """

    def __init__(
        self,
        checker: HealthChecker,
        port: int,
        host: str = "127.0.0.1",
        token: str | None = None,
        metrics: Exposition | None = None,
    ) -> None:
        self.host, self.port = host.removeprefix("[").removesuffix("]"), check_port(port)
        self._checker, self._token, self._metrics = checker, check_token(token), metrics
        if metrics is not None and token is None:
            raise ConfigError("metrics need a token, because they are not public; set token")
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._silent: dict[socket.socket, float] = {}  # clients without a request, oldest first, and since when
        self._silent_lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._waker: socket.socket | None = None

    def start(self) -> Self:
        """Start to serve until `stop`. Does nothing if the server runs.

        Raises:
            ConfigError: If the server cannot listen on the address. The message says why.
        """
        if self._thread is not None:
            return self
        listener = listening_socket("health server", self.host, self.port, _BACKLOG)
        self.port = listener.getsockname()[1]
        sleeper, self._waker = socket.socketpair()
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._serve, args=(listener, sleeper), name="outlast-health-server", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the server. Waits up to 1 s for responses under way. May be called twice."""
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

    def _serve(self, listener: socket.socket, sleeper: socket.socket) -> None:
        with closing(listener), closing(sleeper), selectors.DefaultSelector() as selector:
            listener.settimeout(0)
            selector.register(listener, selectors.EVENT_READ)
            selector.register(sleeper, selectors.EVENT_READ)
            while selector.select() and not self._stop.is_set():
                if not self._slots.acquire(timeout=_ROOM_POLL):
                    self._make_room()  # all places are taken; the client waits in the backlog
                elif not self._accept(listener):
                    self._slots.release()

    def _make_room(self) -> None:
        """Disconnect the client that has been silent for the longest time."""
        with self._silent_lock:
            client, since = next(iter(self._silent.items()), (None, 0.0))
            if client is None or time.monotonic() - since < _GRACE:
                return
            del self._silent[client]
        with suppress(OSError):
            client.shutdown(socket.SHUT_RD)  # wakes its thread, which closes it

    def _accept(self, listener: socket.socket) -> bool:
        """Accept a client. Returns whether a thread serves it."""
        try:
            client, _ = listener.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError | ConnectionError):
                self._stop.wait(0.1)  # out of file descriptors, for example: select would return again at once
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
                _send_response(client, self._response(client))
        except Exception as error:  # noqa: BLE001  # one request must not end the server
            from outlast.classify import classify  # noqa: PLC0415  # only needed for errors

            log.error("a request failed: %s", classify(error))  # noqa: TRY400  # a traceback may contain secrets
        finally:
            self._slots.release()

    def _response(self, client: socket.socket) -> HealthResponse:
        with self._silent_lock:
            self._silent[client] = time.monotonic()
        try:
            request = _read_request(client)
        finally:
            with self._silent_lock:
                was_disconnected = self._silent.pop(client, None) is None
        if isinstance(request, HealthResponse):
            return error_response(408, "request timed out") if was_disconnected else request
        error = request_error(request.method, request.path, has_metrics=self._metrics is not None)
        if error is not None:
            return error
        if self._metrics is not None and request.path == METRICS_PATH:
            return metrics_response(self._metrics, request.method, request.authorization, self._token)
        return health_response(
            self._checker, self._checker.report(), request.method, request.path, request.authorization, self._token
        )


def check_port(port: object) -> int:
    """Return the number of a port.

    Raises:
        ConfigError: If it is not one.
    """
    if type(port) is not int or not 0 <= port <= _MAX_PORT:
        raise ConfigError(f"port is {port!r}; give a whole number from 0 (any free port) to {_MAX_PORT}")
    return port


def listening_socket(what: str, host: str | None, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens on an address.

    Args:
        what: Name of the server, for the error.
        host: The address; None for all.
        port: The port; 0 picks a free one.
        backlog: How many clients may wait to be accepted.

    Raises:
        ConfigError: If it cannot listen there. The message says why.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(address[:2], family=family, backlog=backlog, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "the address is not valid"
        raise ConfigError(
            f"the {what} cannot listen on port {port} of {host or 'all addresses'}: {why}; choose another port"
        ) from error


def _read_request(client: socket.socket) -> _Request | HealthResponse:
    """Return the request of a client, or an error response if its head is too slow, too large or not valid."""
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
    values = [value for name, value in fields if name == b"authorization"]
    return _Request(matched[1].decode("ascii"), path, values[0] if len(values) == 1 else None)


def _send_response(client: socket.socket, response: HealthResponse) -> None:
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in (*response.headers, ("Connection", "close"))]
    client.settimeout(CLIENT_TIMEOUT)
    client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + response.body)
    client.shutdown(socket.SHUT_WR)
    until = time.monotonic() + _LINGER
    while (left := until - time.monotonic()) > 0:
        client.settimeout(left)
        if not client.recv(65536):
            return
