"""One POST to an address that somebody configured: checked when it is called, and never longer than it may take.

An address in the settings may lead into the private network: by its number, by a name, by a redirect, or by a name
that answers differently the second time. So the name is resolved once, every address it has is checked, and the
connection goes to one of those that were. The system's proxy settings are not used: a proxy would resolve once more.
"""

import http.client
import io
import ipaddress
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

# Where a name leads, and whether everybody may be sent there: addresses of the public internet only.

_UNICAST = ipaddress.ip_network("2000::/3")  # all that is given out of IPv6; what lies outside serves some special use
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class ResolvedAddress(NamedTuple):
    """An address that a name leads to, as the socket wants it."""

    family: int
    where: tuple[Any, ...]


def is_public(address: str) -> bool:
    """Tell whether an address belongs to the public internet, also the one that is wrapped in an IPv6 address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not (ip.is_multicast or ip.is_reserved)
    inner = ip.ipv4_mapped or ip.sixtofour
    if inner is None and ip in _NAT64:
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(str(inner))
    return ip in _UNICAST and ip.is_global


def resolve(host: str, port: int, timeout: float) -> list[ResolvedAddress]:
    """Return the addresses of a name, in the order in which they are to be tried.

    The system's resolver cannot be interrupted, so it is asked in a thread of its own.

    Raises:
        OSError: If the name is not known, or no answer came in time.
    """
    answers: queue.SimpleQueue[list[ResolvedAddress] | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(ResolvedAddress(family, where) for family, _, _, _, where in found)))
        except BaseException as error:  # noqa: BLE001  # raised again by who asked
            answers.put(error)

    threading.Thread(target=ask, name="outlast-resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=max(timeout, 0.001))
    except queue.Empty:
        message = f"the name {host} was not resolved in {timeout:.3g} s"
        raise TimeoutError(message) from None
    if isinstance(answer, UnicodeError):  # a label that is empty or too long
        message = f"{host} is no name of a host"
        raise ConfigError(message) from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


RESPONSE_LIMIT = 4096
"""Bytes of an answer that are read."""
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[\w.:%-]+", re.ASCII)
_PLAIN_REASON = re.compile(r"[a-z][a-z_]{2,59}")  # such as no_service; a sentence may repeat the address
_REDIRECTS = range(300, 400)
_SUCCESS = range(200, 300)
_ALLOW_HINT = "App(notify_private=True) or channel(…, allow_private=True)"


class WebhookTarget(NamedTuple):
    """An address, taken apart. Only the host may be shown: the path is often the secret."""

    secure: bool
    host: str
    port: int
    path: str


@dataclass(frozen=True)
class WebhookResponse:
    """What the other side answered, as far as it is looked at.

    Attributes:
        status: The HTTP status.
        headers: Those that say something about waiting.
        body: Its beginning.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str = field(default="", repr=False)


class WebhookError(Exception):
    """The other side answered, and not that all is well.

    Args:
        message: What happened; it names the host and nothing else of the address.
        response: The answer, by which the failure is classified.
    """

    def __init__(self, message: str, response: WebhookResponse) -> None:
        """Keep the answer."""
        super().__init__(message, response)
        self.message, self.response = message, response

    def __str__(self) -> str:
        """Say what happened."""
        return self.message

    @property
    def outlast_category(self) -> str | None:
        """A redirect means that the address has to be changed; every other status speaks for itself."""
        return "configuration" if self.response.status in _REDIRECTS else None


def parse_webhook_url(url: str, *, allow_private: bool = False) -> WebhookTarget:
    """Take an address apart.

    Args:
        url: The address; https, or http with `allow_private`.
        allow_private: Whether it may be in a private network.

    Raises:
        ConfigError: If it cannot be used; the message shows nothing of it but the host.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        named = _to_ascii(host)
    except ValueError:
        message = "the address of a webhook cannot be read as a URL"
        raise ConfigError(message) from None  # the error shows parts of it
    if parts.scheme not in {"https", "http"}:
        message = "the address of a webhook begins with https://"
    elif "@" in parts.netloc:
        message = f"the address of the webhook at {named} holds a user or password; give it without"
    elif not _HOST.fullmatch(named) or _UNSAFE.search(url):
        message = "the address of a webhook has no host, or holds blanks or control characters"
    elif parts.scheme == "http" and not allow_private:
        message = f"the webhook at {named} is called with http; use https, or in your own network {_ALLOW_HINT}"
    else:
        secure = parts.scheme == "https"
        path = quote(parts.path or "/", safe="/%:;=@&$+,!~*'()") + (
            f"?{_quote_query(parts.query)}" if parts.query else ""
        )
        return WebhookTarget(secure, named, port or (443 if secure else 80), path)
    raise ConfigError(message)


def _to_ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _quote_query(text: str) -> str:
    return quote(text, safe="/%:;=@&$+,!~*'()?")


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool = False, timeout: float = 10.0
) -> None:
    """Send a body to an address. Redirects are not followed.

    Args:
        url: The address; https, or http with `allow_private`.
        body: What is sent.
        headers: Its headers, such as Content-Type.
        allow_private: Whether the address may lead into a private network. Without it every address that the name has
            must be public.
        timeout: Seconds for everything together: name, connection, TLS, sending and the answer.

    Raises:
        ConfigError: If the address cannot be used, or leads where it must not.
        WebhookError: If the answer is no 2xx; its `response` says what was answered.
        OSError: If the other side cannot be reached, breaks off, or takes too long.
        http.client.HTTPException: If what it answers is no HTTP.
    """
    target = parse_webhook_url(url, allow_private=allow_private)
    until = time.monotonic() + timeout
    found = resolve(target.host, target.port, timeout)
    if not allow_private and not (found and all(is_public(str(address.where[0])) for address in found)):
        message = f"the webhook at {target.host} leads to an address that is not public; {_ALLOW_HINT} lets it"
        raise ConfigError(message)
    try:
        answer = _send_request(target, found, body, headers, until)
    except TimeoutError:
        message = f"the webhook at {target.host} did not answer in {timeout:.3g} s"
        raise TimeoutError(message) from None
    if answer.status not in _SUCCESS:
        raise WebhookError(_error_text(target, answer), answer)


def _error_text(target: WebhookTarget, answer: WebhookResponse) -> str:
    if answer.status in _REDIRECTS:
        return f"the webhook at {target.host} answered with a redirect ({answer.status}), which is not followed"
    reason = answer.body.strip()
    known = _PLAIN_REASON.fullmatch(reason) and reason not in target.path
    return f"the webhook at {target.host} answered {answer.status}" + (f": {reason}" if known else "")


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
    """Read the beginning of an answer; the status has said what matters, so one that breaks off is taken as it is."""
    try:
        return response.read(RESPONSE_LIMIT).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""


def _connect(addresses: list[ResolvedAddress], until: float) -> socket.socket:
    """Connect to the first address that answers; each gets its share of the time, so that a dead one eats no more."""
    refused: OSError | None = None
    for tried, address in enumerate(addresses):
        sock = None
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
            sock.settimeout(_seconds_left(until) / (len(addresses) - tried))
            sock.connect(address.where)
        except OSError as error:
            refused = error
            if sock is not None:
                sock.close()
        else:
            return sock
    raise refused or TimeoutError


def _seconds_left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _TimedSocket:
    """What http.client needs of a socket, with one end for all that is sent and received."""

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
        """Leave it open: who made the connection closes it."""


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a moment; a server that sends a byte now and then gains nothing."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        super().__init__()
        self._sock, self._until = sock, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_seconds_left(self._until))
        return self._sock.recv_into(buffer)
