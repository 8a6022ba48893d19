"""An adapter for requests with retries, server hints and cooldowns.

``session.mount("https://", HTTPAdapter(policy=…))`` does for requests what the transports do for httpx.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Unpack

import requests
import urllib3
from requests.adapters import DEFAULT_POOLBLOCK, DEFAULT_POOLSIZE
from requests.adapters import HTTPAdapter as _HTTPAdapter
from requests.utils import rewind_body

from outlast import clock
from outlast.errors import ConfigError
from outlast.http.bodies import body_counter, body_too_large, content_codings, is_seekable
from outlast.http.request_attempts import PEEK_LIMIT, ClientAdapter, RequestAttempts, prepare_headers, sender
from outlast.http.settings import KEY_HEADER, Settings, TransportSettings, redacted_url

_CHUNK = 8192
_MIN_TIMEOUT = 0.001  # seconds; urllib3 refuses 0


class HTTPAdapter(_HTTPAdapter):
    """An adapter for requests with the retries of a policy: ``session.mount("https://", HTTPAdapter(policy=…))``.

    A response that is given up is raised as ``requests.HTTPError``, with its attempts as notes; the beginning of its
    body can be read. A response that is not retryable, such as a 404, is returned. Each redirect is a separate request
    with the attempts of the policy.

    Args:
        pool_connections: As in requests: how many hosts have connections kept for them.
        pool_maxsize: As in requests: how many connections are kept for one host.
        max_retries: Must be 0, because the retries of urllib3 would multiply those of the policy.
        pool_block: As in requests: whether to wait for a free connection.
        policy: Attempts and waits; these and the others are described in `Settings`.
        cooling: Where to keep cooldowns: an `App`, its `cooling`, or None for this adapter alone.
        scope: What cools down: ``host``, ``url``, ``credential``, or a function of URL and headers.
        patience: Longest wait in seconds for a cooldown or a hint of the server.
        methods: Methods that are retried.
        keys: Whether to add an ``Idempotency-Key`` to requests with other methods.
        max_body: Maximum size of a response, in bytes.
        raises: Whether to raise a response that is given up; otherwise it is returned.
        rate: Requests per time, such as ``"10/s"``; further ones wait for their turn.
        per: What gets its own rate: ``host``, ``url``, ``credential``, or a function of URL and headers.

    Raises:
        ConfigError: If a setting cannot be used.
    """

    __attrs__ = [*_HTTPAdapter.__attrs__, "settings"]  # noqa: RUF012  # as requests names what is pickled

    def __init__(
        self,
        pool_connections: int = DEFAULT_POOLSIZE,
        pool_maxsize: int = DEFAULT_POOLSIZE,
        max_retries: int = 0,
        pool_block: bool = DEFAULT_POOLBLOCK,  # noqa: FBT001  # as requests has it
        **settings: Unpack[TransportSettings],
    ) -> None:
        if max_retries != 0:
            raise ConfigError(f"max_retries is {max_retries!r}; it must be 0, because the policy decides about retries")
        self.settings = Settings(**settings)
        super().__init__(pool_connections, pool_maxsize, 0, pool_block)

    def send(
        self,
        request: Any,
        stream: bool = False,  # noqa: FBT001, FBT002  # as requests has it
        timeout: Any = None,
        verify: Any = True,  # noqa: FBT002  # the same
        cert: Any = None,
        proxies: Any = None,
    ) -> Any:
        """Send a request, with retries as the policy says."""
        settings = self.settings
        prepare_headers(request, settings, lambda: _known_body(request))
        scope = settings.scope(request.url, request.headers)
        options = (stream, timeout, verify, cert, proxies)
        sending = _Sending(settings, _ADAPTER, request, scope, super().send, options)
        return self._cap(request, self._send(sending))

    @cached_property
    def _send(self) -> Any:
        return sender(self.settings)

    def _cap(self, request: Any, response: Any) -> Any:
        limit = self.settings.max_body
        if limit is None or request.method == "HEAD":
            return response
        length = response.headers.get("content-length", "")
        known = response._content if isinstance(response._content, bytes) else b""  # noqa: SLF001  # read by us
        if len(known) > limit or (length.isascii() and length.isdigit() and int(length[:18]) > limit):
            response.close()
            raise body_too_large(limit)
        if not response._content_consumed:  # noqa: SLF001  # the same
            try:
                body_counter(response.headers.get("content-encoding"), limit)  # refuses what cannot be counted
            except BaseException:
                response.close()
                raise
            response.raw = _PeekedRaw(response.raw, limit=limit)
        return response


class _Sending(RequestAttempts):
    """The attempts of one request of requests."""

    def __init__(  # the request and how it is sent
        self, settings: Settings, adapter: Any, request: Any, scope: str, send: Callable[..., Any], options: Any
    ) -> None:
        super().__init__(settings, adapter, request, scope)
        self.request, self._send, self._options, self._sent = request, send, options, False

    def send(self, limit: float | None) -> Any:
        """Send the request once; a body that is a file is sent from its beginning."""
        if self._sent and hasattr(self.request.body, "seek"):
            rewind_body(self.request)
        self._sent = True
        stream, timeout, verify, cert, proxies = self._options
        return self._send(self.request, stream, _shorten_timeout(timeout, limit), verify, cert, proxies)

    def peek(self, response: Any) -> Any:
        """Return a copy of a response with the beginning of its body."""
        return _peek(response, self.peek_seconds())


class _RequestsAdapter(ClientAdapter):
    """requests, as `RequestAttempts` has to know it."""

    def name(self, request: Any) -> str:
        """Return method and address for logs: no query, no credentials."""
        return f"{request.method} {redacted_url(request.url)}"

    def marked(self, request: Any) -> bool:
        """Return whether the request says that it may be sent twice."""
        return KEY_HEADER in request.headers

    def whole(self, request: Any) -> bool:
        """Return whether the body can be sent again: text, bytes, or a file that can be rewound."""
        body = request.body
        if body is None or isinstance(body, bytes | str):
            return True
        return isinstance(getattr(request, "_body_position", None), int) and is_seekable(body)

    def unsent(self, request: Any, error: Exception) -> bool:  # noqa: ARG002  # urllib3 connects before it reads a body
        """Return whether an error means that nothing of the request was sent."""
        if issubclass(type(error), requests.ConnectTimeout | requests.exceptions.ProxyError):
            return True
        inner = error.args[0] if issubclass(type(error), requests.ConnectionError) and error.args else None
        reason = inner.reason if isinstance(inner, urllib3.exceptions.MaxRetryError) else inner
        return isinstance(reason, urllib3.exceptions.NewConnectionError)

    def status_error(self, request: Any, response: Any) -> Exception:
        """Return the library's own error for a response."""
        reason = f" {response.reason}" if response.reason else ""
        message = f"HTTP {response.status_code}{reason} for {self.name(request)}"
        return requests.HTTPError(message, request=request, response=response)


_ADAPTER = _RequestsAdapter()


def _known_body(request: Any) -> bytes | str | None:
    """Return the body of a request; None for a file, and for a multipart body, which has a random boundary."""
    body = request.body or b""
    is_known = isinstance(body, bytes | str) and "multipart/" not in str(request.headers.get("Content-Type", ""))
    return body if is_known else None


def _shorten_timeout(timeout: Any, limit: float | None) -> Any:
    """Return the timeout, shortened to the time left for connecting and the head of the response."""
    if limit is None:
        return timeout
    left = max(limit, _MIN_TIMEOUT)
    if isinstance(timeout, urllib3.Timeout):
        total = min(left, timeout.total) if isinstance(timeout.total, int | float) else left
        return urllib3.Timeout(total=total, connect=timeout._connect, read=timeout._read)  # noqa: SLF001  # its copy does so
    connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    return urllib3.Timeout(total=left, connect=connect, read=read)


def _peek(response: Any, seconds: float) -> Any:
    """Read the beginning of a response's body. The caller can still read all of it, unless it stalls.

    Args:
        response: The response.
        seconds: Seconds for which its body may stall.

    Returns:
        A response whose body is what was read, to classify it; the same response if that was all.
    """
    raw, begun, ended, broken = response.raw, b"", False, None
    if len(content_codings(response.headers.get("content-encoding"))) > 1:  # a few bytes may decode to gigabytes
        return _beginning(response, b"")
    read = getattr(raw, "read1", raw.read)  # read1 returns what has arrived, and does not wait for more
    try:
        until = clock.monotonic() + seconds / 2  # the caller reads the rest of a slow body
        with _read_timeout(raw, seconds):
            while not ended and len(begun) <= PEEK_LIMIT and clock.monotonic() < until:
                chunk = read(_CHUNK, decode_content=True)
                begun, ended = begun + chunk, not chunk
    except Exception as error:  # noqa: BLE001  # the body is incomplete; the status is known
        broken = error.with_traceback(None)
        with suppress(Exception):
            raw.close()
    except BaseException:
        response.close()
        raise
    if ended:
        response._content, response._content_consumed = begun, True  # noqa: SLF001  # as if the caller had read it
        return response
    raw.decode_content = True  # the beginning was decoded too
    try:
        response.raw = _PeekedRaw(raw, begun, broken=broken)
    finally:
        del broken  # its traceback refers to this frame
    return _beginning(response, begun[:PEEK_LIMIT])


@contextmanager
def _read_timeout(raw: Any, seconds: float) -> Iterator[None]:
    """Shorten the timeout of reads within the block, if the connection allows it."""
    try:
        connection = raw._fp.fp.raw._sock  # noqa: SLF001  # there is no public way after the head is read
        given = connection.gettimeout()
        connection.settimeout(max(_MIN_TIMEOUT, seconds if given is None else min(given, seconds)))
    except AttributeError:  # the body was read completely, or urllib3 has changed
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):  # closed in the meantime
            connection.settimeout(given)


def _beginning(response: Any, begun: bytes) -> Any:
    """Return a copy of a response that has only the beginning of its body."""
    copy = requests.Response()
    for name in ("status_code", "headers", "encoding", "reason", "url", "request", "cookies"):
        setattr(copy, name, getattr(response, name))
    copy._content, copy._content_consumed = begun, True  # noqa: SLF001  # this is its whole body
    return copy


class _PeekedRaw:
    """The body of a response, of which the beginning was read already, or whose size is limited, or both."""

    def __init__(
        self, raw: Any, begun: bytes = b"", *, broken: Exception | None = None, limit: int | None = None
    ) -> None:
        self._raw, self._begun, self._broken = raw, begun, broken
        self._limit = self._left = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    @property
    def decode_content(self) -> Any:
        """Whether reads decode the body by default; callers set it."""
        return self._raw.decode_content

    @decode_content.setter
    def decode_content(self, value: Any) -> None:
        self._raw.decode_content = value

    def read(self, amt: int | None = None, decode_content: Any = None, **more: Any) -> bytes:
        """Read `amt` bytes, or all."""
        if amt is None and self._left is not None:  # in pieces: all of it may be too much
            return b"".join(self.stream(_CHUNK, decode_content))
        begun = self._taken(amt)
        wanted = None if amt is None else amt - len(begun)
        rest = b"" if wanted == 0 or self._broken is not None else self._raw.read(wanted, decode_content, **more)
        return self._counted(begun + rest)

    def read1(self, amt: int | None = None, decode_content: Any = None) -> bytes:
        """Read what has arrived, at most `amt` bytes."""
        most = _CHUNK if amt is None or amt < 0 else amt
        begun = self._taken(most)
        return self._counted(begun or getattr(self._raw, "read1", self._raw.read)(most, decode_content=decode_content))

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _taken(self, amt: int | None) -> bytes:
        """Return bytes that were read already."""
        begun, self._begun = (self._begun, b"") if amt is None else (self._begun[:amt], self._begun[amt:])
        if self._broken is not None and not begun:
            self._break_off()
        return begun

    def _counted(self, data: bytes) -> bytes:
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._raw.close()
                raise body_too_large(self._limit or 0)
        return data

    def _break_off(self) -> None:
        broken, self._broken = self._broken, None
        try:
            if broken is not None:
                raise broken
        finally:
            del broken  # its traceback holds this frame

    def close(self) -> None:
        """Close what was wrapped."""
        self._broken = None  # the frames behind it hold the answer
        self._raw.close()

    def stream(self, amt: int | None = _CHUNK, decode_content: Any = None) -> Iterator[bytes]:
        """Read in pieces to the end."""
        while chunk := self.read(amt or _CHUNK, decode_content):
            yield chunk

    def __iter__(self) -> Iterator[bytes]:
        """Read line by line."""
        line = b""
        for chunk in self.stream(_CHUNK, decode_content=True):
            *lines, line = (line + chunk).split(b"\n")
            for each in lines:
                yield each + b"\n"
        if line:
            yield line
