"""An HTTP POST to a configured URL, with one timeout for everything and protection against SSRF.

A configured URL may point to a private network: by IP address, by host name, by a redirect, or by a host name that
resolves differently the second time. So the host is resolved once, every address is checked, and the connection goes
to one of the checked addresses. The proxy settings of the system are not used, because a proxy would resolve again.
"""

import http.client
import io
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from outlast.classify.safe_access import read_headers
from outlast.errors import ConfigError
from outlast.http.public_addresses import is_public


class ResolvedAddress(NamedTuple):
    """An address of a host, in the form that sockets use."""

    family: int
    address: tuple[Any, ...]


def resolve(host: str, port: int, timeout: float) -> list[ResolvedAddress]:
    """Return the addresses of a host, in the order to try them.

    The resolver of the system cannot be interrupted, so it runs in a thread of its own.

    Raises:
        OSError: If the host does not exist, or the resolver does not answer within `timeout` seconds.
    """
    answers: queue.SimpleQueue[list[ResolvedAddress] | BaseException] = queue.SimpleQueue()

    def run_resolver() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(ResolvedAddress(family, address) for family, _, _, _, address in found)))
        except BaseException as error:  # noqa: BLE001  # raised again by the caller
            answers.put(error)

    threading.Thread(target=run_resolver, name="outlast-resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=max(timeout, 0.001))
    except queue.Empty:
        raise TimeoutError(f"the host {host} was not resolved within {timeout:.3g} s") from None
    if isinstance(answer, UnicodeError):  # a label that is empty or too long
        raise ConfigError(f"{host} is not a valid host name") from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


RESPONSE_LIMIT = 4096
"""Bytes of a response that are read."""
_SAFE_CHARS = "/%:;=@&$+,!~*'()"  # in a path or query
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[\w.:%-]+", re.ASCII)
_PLAIN_REASON = re.compile(r"[a-z][a-z_]{2,59}")  # such as no_service; a longer text may contain the URL
_REDIRECTS = range(300, 400)
_SUCCESS = range(200, 300)
_ALLOW_HINT = "App(notify_private=True) or channel(…, allow_private=True)"


class WebhookTarget(NamedTuple):
    """A parsed URL. Only the host may be shown, because the path is often the secret."""

    secure: bool
    host: str
    port: int
    path: str


@dataclass(frozen=True)
class WebhookResponse:
    """The parts of a response that are used.

    Attributes:
        status: The HTTP status.
        headers: The headers that ask to wait.
        body: The beginning of the body.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str = field(default="", repr=False)


class WebhookError(Exception):
    """The server answered with a status that is not 2xx.

    Args:
        message: What happened. It shows the host, but no other part of the URL.
        response: The response, which is used to classify the failure.
    """

    def __init__(self, message: str, response: WebhookResponse) -> None:
        super().__init__(message, response)
        self.message, self.response = message, response

    def __str__(self) -> str:
        """Return the message."""
        return self.message

    @property
    def outlast_category(self) -> str | None:
        """``configuration`` for a redirect, because the URL must be changed; None for any other status."""
        return "configuration" if self.response.status in _REDIRECTS else None


def parse_webhook_url(url: str, *, allow_private: bool = False) -> WebhookTarget:
    """Parse and check the URL of a webhook.

    Args:
        url: The URL; https, or http with `allow_private`.
        allow_private: Whether http is allowed.

    Raises:
        ConfigError: If the URL is not valid. The message shows only its host.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError:
        raise ConfigError("the URL of a webhook is not valid") from None  # the error shows parts of the URL
    if parts.scheme not in {"https", "http"}:
        message = "the URL of a webhook must start with https://"
    elif "@" in parts.netloc:
        message = f"the URL of the webhook at {host} must not contain a user or password; remove them"
    elif not _HOST.fullmatch(host) or _UNSAFE.search(url):
        message = "the URL of a webhook has no host, or contains spaces or control characters"
    elif parts.scheme == "http" and not allow_private:
        message = f"the webhook at {host} uses http; use https, or {_ALLOW_HINT} in a private network"
    else:
        secure = parts.scheme == "https"
        path = quote(parts.path or "/", safe=_SAFE_CHARS)
        if parts.query:
            path += f"?{quote(parts.query, safe=f'{_SAFE_CHARS}?')}"
        return WebhookTarget(secure, host, port or (443 if secure else 80), path)
    raise ConfigError(message)


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool = False, timeout: float = 10.0
) -> None:
    """Send a POST request. Redirects are not followed.

    Args:
        url: The URL; https, or http with `allow_private`.
        body: The body of the request.
        headers: The headers of the request, such as Content-Type.
        allow_private: Whether the host may be in a private network. By default, all its addresses must be public.
        timeout: Seconds for everything together: resolving, connecting, TLS, sending and receiving.

    Raises:
        ConfigError: If the URL is not valid, or its host has an address that is not public.
        WebhookError: If the status of the response is not 2xx.
        OSError: If the server cannot be reached, closes the connection, or takes too long.
        http.client.HTTPException: If the response is not valid HTTP.
    """
    target = parse_webhook_url(url, allow_private=allow_private)
    until = time.monotonic() + timeout
    found = resolve(target.host, target.port, timeout)
    if not allow_private and not (found and all(is_public(str(each.address[0])) for each in found)):
        raise ConfigError(f"the webhook at {target.host} has an address that is not public; {_ALLOW_HINT} allows it")
    try:
        response = _send_request(target, found, body, headers, until)
    except TimeoutError:
        raise TimeoutError(f"the webhook at {target.host} did not answer within {timeout:.3g} s") from None
    if response.status not in _SUCCESS:
        raise WebhookError(_error_text(target, response), response)


def _error_text(target: WebhookTarget, response: WebhookResponse) -> str:
    if response.status in _REDIRECTS:
        return f"the webhook at {target.host} answered with a redirect ({response.status}), which is not followed"
    reason = response.body.strip()
    is_safe = _PLAIN_REASON.fullmatch(reason) and reason not in target.path
    return f"the webhook at {target.host} answered {response.status}" + (f": {reason}" if is_safe else "")


def _send_request(
    target: WebhookTarget, addresses: list[ResolvedAddress], body: bytes, headers: Mapping[str, str], until: float
) -> WebhookResponse:
    sock = _connect(addresses, until)
    try:
        if target.secure:
            sock.settimeout(_seconds_left(until))
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=target.host)
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.default_port = 443 if target.secure else 80  # the Host header names any other
        connection.sock = _TimedSocket(sock, until)
        connection.request("POST", target.path, body, {**headers, "Connection": "close"})
        with connection.getresponse() as response:
            return WebhookResponse(response.status, read_headers(response.headers), _read_beginning(response))
    finally:
        sock.close()


def _read_beginning(response: http.client.HTTPResponse) -> str:
    """Return the beginning of a body; empty if the connection breaks, because the status is what matters."""
    try:
        return response.read(RESPONSE_LIMIT).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""


def _connect(addresses: list[ResolvedAddress], until: float) -> socket.socket:
    """Return a connection to the first address that accepts it. Each address gets an equal share of the time left."""
    last_error: OSError | None = None
    for tried, address in enumerate(addresses):
        sock = None
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
            sock.settimeout(_seconds_left(until) / (len(addresses) - tried))
            sock.connect(address.address)
        except OSError as error:
            last_error = error
            if sock is not None:
                sock.close()
        else:
            return sock
    raise last_error or TimeoutError


def _seconds_left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _TimedSocket:
    """The parts of a socket that http.client needs, with one deadline for sending and receiving."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(_seconds_left(self._until))
            view = view[self._sock.send(view) :]

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._sock, self._until))

    def close(self) -> None:
        """Do nothing: `_send_request` closes the socket."""


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline, so that a server cannot gain time by sending single bytes."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        super().__init__()
        self._sock, self._until = sock, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_seconds_left(self._until))
        return self._sock.recv_into(buffer)
