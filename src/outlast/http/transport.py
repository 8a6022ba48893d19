"""Transports for httpx and httpx2 with retries, server hints and cooldowns.

They wrap the transport of a client, so that no call site changes.
"""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Unpack

from outlast import async_backends, clock
from outlast.classify import Classifier, default_classifier
from outlast.errors import ConfigError
from outlast.http.bodies import (
    CappedBody,
    FileBody,
    OneShotBody,
    PeekedBody,
    body_counter,
    body_too_large,
    decompress_beginning,
    is_replayable,
    is_seekable,
)
from outlast.http.request_attempts import (
    FIRST_ERROR_STATUS,
    PEEK_LIMIT,
    ClientAdapter,
    RequestAttempts,
    prepare_headers,
    request_plan,
    sender,
)
from outlast.http.settings import KEY_HEADER, Settings, TransportSettings
from outlast.run.loops import retry_async

HTTPX_LIBRARIES = ("httpx2", "httpx")
IDEMPOTENT_EXTENSION = "outlast_idempotent"
"""Extension by which a request says that it may be sent twice: ``extensions={"outlast_idempotent": True}``."""
FAILURE_EXTENSION = "outlast_failure"
"""Extension in which a returned response with an error status carries its failure, so that it is classified once."""
_TIMEOUTS = ("connect", "read", "write", "pool")
_UNSENT_ERRORS = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
_MIN_TIMEOUT = 0.001  # seconds; 0 would mean: do not block
_MAX_LENGTH_DIGITS = 18
_KEPT_EXTENSIONS = ("http_version", "reason_phrase")  # the other extensions hold the connection
_WITHOUT_BODY = frozenset({204, 304})
_BODY_HEADERS = frozenset({b"content-encoding", b"content-length"})  # not true of one that was unpacked


class HttpxAdapter(ClientAdapter):
    """httpx or httpx2, as `RequestAttempts` has to know it."""

    def __init__(self, name: str) -> None:
        self.module: Any = importlib.import_module(name)
        self._unsent: tuple[type[Exception], ...] = tuple(getattr(self.module, each) for each in _UNSENT_ERRORS)
        self._bytes: Any = self.module.ByteStream
        self._once, self._again, self._chained, self._capped = map(
            self._body, (OneShotBody, FileBody, PeekedBody, CappedBody)
        )
        self._known = (self._bytes, self._once, self._again)

    def _body(self, kind: type) -> Any:
        """Return a subclass that also derives from the base classes of the library, which it requires."""
        return type(kind.__name__, (kind, self.module.SyncByteStream, self.module.AsyncByteStream), {})

    def name(self, request: Any) -> str:
        """Return method and address for logs: no query, no credentials."""
        url = request.url  # `copy_with` would parse the whole address again
        path = url.raw_path.partition(b"?")[0]
        name = f"{request.method} {url.scheme}://{(url.netloc + path).decode('ascii', 'replace')}"
        return _redact_name(default_classifier(), name)  # the path of a webhook is its secret

    def marked(self, request: Any) -> bool:
        """Return whether the request says that it may be sent twice."""
        return KEY_HEADER in request.headers or bool(request.extensions.get(IDEMPOTENT_EXTENSION))

    def whole(self, request: Any) -> bool:
        """Return whether the body can be sent again."""
        return not getattr(request.stream, "begun", False)

    def unsent(self, request: Any, error: Exception) -> bool:
        """Return whether an error means that nothing of the request was sent, and its body was not read."""
        return issubclass(type(error), self._unsent) and self.whole(request)

    def status_error(self, request: Any, response: Any) -> Exception:
        """Return the library's own error for a response."""
        response.request = request
        reason = f" {response.reason_phrase}" if response.reason_phrase else ""
        message = f"HTTP {response.status_code}{reason} for {self.name(request)}"
        error: Exception = self.module.HTTPStatusError(message, request=request, response=response)
        return error

    def late_error(self, request: Any, seconds: float) -> Exception:
        """Return the library's own error for an attempt that reached its time limit."""
        error: Exception = self.module.ReadTimeout(f"cancelled after {seconds:.3g} s", request=request)
        return error

    def prepare(self, request: Any, settings: Settings) -> None:
        """Prepare a request to be sent more than once: headers, and a body that knows whether it was read."""
        prepare_headers(request, settings, lambda: getattr(request, "_content", None))
        stream = request.stream
        if not isinstance(stream, self._known) and not is_replayable(stream):
            file = getattr(stream, "_stream", None)
            request.stream = self._again(stream, file) if is_seekable(file) else self._once(stream)

    def limit(self, request: Any, given: dict[str, Any], left: float | None) -> None:
        """Shorten the timeouts of a request to the time that is left.

        Args:
            request: The request.
            given: The extensions that it came with.
            left: Seconds; None for no limit.
        """
        if left is None:
            return
        timeouts, left = given.get("timeout") or {}, max(left, _MIN_TIMEOUT)
        for name in _TIMEOUTS:
            value = timeouts.get(name)
            if value is None or value > left:
                shorter = {each: _shorter(timeouts.get(each), left) for each in _TIMEOUTS}
                request.extensions = {**given, "timeout": shorter}
                return

    def cap(self, request: Any, response: Any, limit: int) -> None:
        """Limit the body of a response: reading more of it raises an error.

        Raises:
            BodyTooLargeError: If its Content-Length is above the limit.
            ContentError: If it is compressed in a way that cannot be decompressed in pieces.
        """
        if request.method == "HEAD" or response.status_code in _WITHOUT_BODY:
            return
        length = response.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:_MAX_LENGTH_DIGITS]) > limit:
            raise body_too_large(limit)
        counter = body_counter(response.headers.get("content-encoding"), limit)
        response.stream = self._capped(response.stream, counter)

    def peek(self, request: Any, response: Any, seconds: float) -> Any:
        """Read the beginning of a response's body. The caller can still read all of it, unless it stalls.

        Args:
            request: The request.
            response: The response.
            seconds: Seconds for which its body may stall.

        Returns:
            A copy whose body is what was read, to classify it.
        """
        begun: list[bytes] = []
        rest = broken = None
        try:
            until = clock.monotonic() + seconds / 2  # the caller reads the rest of a slow body
            with _read_timeout(request.extensions, seconds):
                chunks = iter(response.stream)
                for chunk in chunks:
                    begun.append(chunk)
                    if _peeked_enough(begun, until):
                        rest = chunks
                        break
        except Exception as error:  # noqa: BLE001  # the body breaks off; the status stands
            broken = error
            with suppress(Exception):
                response.stream.close()
        except BaseException:
            response.close()
            raise
        try:
            return self._peeked(response, begun, rest, broken)
        finally:
            del broken  # its traceback holds this frame

    async def peek_async(self, request: Any, response: Any, seconds: float) -> Any:
        """Do the same as `peek` on an event loop."""
        begun: list[bytes] = []
        rest = broken = None
        try:
            until = clock.monotonic() + seconds / 2

            async def read() -> Any:
                chunks = aiter(response.stream)
                async for chunk in chunks:
                    begun.append(chunk)
                    if _peeked_enough(begun, until):
                        return chunks
                return None

            rest = await async_backends.run_with_timeout(seconds, read())
        except Exception as error:  # noqa: BLE001  # the body breaks off; the status stands
            broken = self.late_error(request, seconds) if isinstance(error, TimeoutError) else error
            with suppress(Exception):
                await response.stream.aclose()
        except BaseException:
            await response.aclose()
            raise
        try:
            return self._peeked(response, begun, rest, broken)
        finally:
            del broken  # its traceback holds this frame

    def _peeked(self, response: Any, begun: list[bytes], rest: Any, broken: Exception | None) -> Any:
        response.stream = self._chained(response.stream, begun, rest, broken)
        body, headers = b"".join(begun), response.headers
        kept = {name: value for name, value in response.extensions.items() if name in _KEPT_EXTENSIONS}
        if "content-encoding" in headers:
            plain = decompress_beginning(headers["content-encoding"], body, PEEK_LIMIT)
            body = body if plain is None else plain
            # as bytes, because text that is not ASCII would be refused
            headers = [(key, value) for key, value in headers.raw if key.lower() not in _BODY_HEADERS]
        stream = self._bytes(body[:PEEK_LIMIT])
        copy = self.module.Response(response.status_code, headers=headers, stream=stream, extensions=kept)
        copy.read()
        return copy


@lru_cache(512)
def _redact_name(classifier: Classifier, name: str) -> str:
    """Return a name without secrets; in an outage the same names are logged many times."""
    return classifier.redact(name)


@cache
def _adapter(name: str) -> HttpxAdapter:
    return HttpxAdapter(name)


@cache
def _adapter_of_type(kind: type) -> HttpxAdapter:
    packages = [each.__module__.partition(".")[0] for each in kind.__mro__]
    found = next((name for name in packages if name in HTTPX_LIBRARIES), None)
    if found is None:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not from httpx or httpx2")
    return _adapter(found)


def adapter_of(thing: Any) -> HttpxAdapter:
    """Return the adapter of the library that a request, a response or a client comes from.

    Raises:
        TypeError: If it is neither httpx nor httpx2.
    """
    kind: Any = type(thing)
    return _adapter_of_type(kind)


def _shorter(value: float | None, left: float) -> float:
    return left if value is None else min(value, left)


@contextmanager
def _read_timeout(extensions: dict[str, Any], seconds: float) -> Iterator[None]:
    """Shorten the timeout of reads in the block; the connection uses the same extensions."""
    given = extensions.get("timeout")
    timeouts = given if isinstance(given, dict) else {}
    read = timeouts.get("read")
    extensions["timeout"] = {**timeouts, "read": _shorter(read, max(seconds, _MIN_TIMEOUT))}
    try:
        yield
    finally:
        if given is None:
            del extensions["timeout"]
        else:
            extensions["timeout"] = given


def _peeked_enough(begun: list[bytes], until: float) -> bool:
    return sum(map(len, begun)) > PEEK_LIMIT or clock.monotonic() >= until


if TYPE_CHECKING:
    from typing import Self

    from outlast.run.cooldowns import CooldownTracker

    _Base: Any
else:
    _Base = object


class _Transport(_Base):  # type: ignore[misc]  # the base class is that of either library
    """The common part of both transports."""

    _default = ""

    def __init__(self, transport: Any = None, **settings: Unpack[TransportSettings]) -> None:
        """Wrap a transport."""
        self.wrapped = transport
        self.settings = Settings(**settings)
        self._making = threading.Lock()
        self._made_of: HttpxAdapter | None = None

    def _prepare(self, request: Any) -> "_Sending":
        """Prepare a request for several attempts."""
        library, inner = adapter_of(request), self.wrapped
        if inner is None:  # the first request shows which library it is
            with self._making:
                if self.wrapped is None:
                    self.wrapped = getattr(library.module, self._default)()
                    self._made_of = library
                inner = self.wrapped
        if self._made_of is not None and self._made_of is not library:
            names = self._made_of.module.__name__, library.module.__name__
            raise ConfigError(f"this transport is used with {names[0]}; create another one for {names[1]}")
        library.prepare(request, self.settings)
        return _Sending(self.settings, library, request, inner)


class _Sending(RequestAttempts):
    """The attempts of one request of httpx or httpx2.

    Attributes:
        library: The library.
        request: The request.
        inner: The transport that sends it.
        extensions: The extensions that the request came with.
    """

    def __init__(self, settings: Settings, library: HttpxAdapter, request: Any, inner: Any) -> None:
        super().__init__(settings, library, request, settings.scope(str(request.url), request.headers))
        self.library, self.request, self.inner = library, request, inner
        self.extensions = request.extensions

    def begin(self) -> float | None:
        """Begin an attempt, and shorten the request's timeouts to the time that is left."""
        limit = super().begin()
        self.library.limit(self.request, self.extensions, limit)
        return limit

    def send(self, limit: float | None) -> Any:  # noqa: ARG002  # it is in the request's timeouts
        """Send the request once."""
        return self.inner.handle_request(self.request)

    def peek(self, response: Any) -> Any:
        """Return a copy of a response with the beginning of its body."""
        return self.library.peek(self.request, response, self.peek_seconds())

    def answer(self, response: Any, peeked: Any) -> Any:
        """Return a response, with its failure if it has an error status, or raise it."""
        answered = super().answer(response, peeked)
        if self.failure is not None:
            answered.extensions[FAILURE_EXTENSION] = self.failure.settled()
        return answered

    def end(self) -> None:
        """End the request."""
        self.request.extensions = self.extensions  # a redirect takes them over, and has its own time
        super().end()


class RetryTransport(_Transport):
    """A transport for ``httpx.Client`` or ``httpx2.Client``: ``Client(transport=RetryTransport(policy=…))``.

    A response that is given up is raised as the library's ``HTTPStatusError``, with its attempts as notes; the
    beginning of its body can be read. A response that is not retryable, such as a 404, is returned. Redirects and the
    steps of an authentication are separate requests, each with the attempts of the policy.

    Connection settings of a client (``verify``, ``http2``, ``limits``, proxies) apply to its default transport only.
    Give them to the wrapped transport: ``RetryTransport(httpx.HTTPTransport(http2=True))``.

    Args:
        transport: The transport that sends; by default the library's ``HTTPTransport()``.
        policy: Attempts and waits; these and the others are described in `Settings`.
        cooling: Where to keep cooldowns: an `App`, its `cooling`, or None for this transport alone.
        scope: What cools down: ``host``, ``url``, ``credential``, or a function of URL and headers.
        patience: Longest wait in seconds for a cooldown or a hint of the server.
        methods: Methods that are retried.
        keys: Whether to add an ``Idempotency-Key`` to requests with other methods.
        max_body: Maximum size of a response, in bytes.
        raises: Whether to raise a response that is given up; otherwise it is returned.
        rate: Requests per time, such as ``"10/s"``; further ones wait for their turn.
        per: What gets its own rate: ``host``, ``url``, ``credential``, or a function of URL and headers.
    """

    _default = "HTTPTransport"

    @cached_property
    def _send(self) -> Any:
        return sender(self.settings)

    def handle_request(self, request: Any) -> Any:
        """Send a request, with retries as the policy says."""
        sending = self._prepare(request)
        return self._cap(sending.library, request, self._send(sending))

    def close(self) -> None:
        """Close the wrapped transport."""
        if self.wrapped is not None:
            self.wrapped.close()

    def __enter__(self) -> "Self":
        """Open what was wrapped; a default one is opened by its first request."""
        if self.wrapped is not None:
            self.wrapped.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Close the wrapped transport."""
        if self.wrapped is not None:
            self.wrapped.__exit__(*error)

    def _cap(self, library: HttpxAdapter, request: Any, response: Any) -> Any:
        if self.settings.max_body is not None:
            try:
                library.cap(request, response, self.settings.max_body)
            except BaseException:
                response.close()
                raise
        return response


class _AdmitQuestion:
    """Asks the cooldowns in a thread, which continues if the caller is cancelled."""

    def __init__(self, cooling: "CooldownTracker", scope: str) -> None:
        self._cooling, self._scope = cooling, scope
        self._lock = threading.Lock()
        self._cancelled = self._admitted = False

    def ask(self) -> float:
        left = self._cooling.admit(self._scope)
        with self._lock:
            self._admitted = left <= 0 and self._cooling.is_probing(self._scope)
            if self._admitted and self._cancelled:
                self._cooling.withdrawn(self._scope)
        return left

    def leave(self) -> None:
        """Give back a probe that will not be sent."""
        with self._lock:
            self._cancelled = True
            if self._admitted:
                self._cooling.withdrawn(self._scope)


class AsyncRetryTransport(_Transport):
    """The same for ``httpx.AsyncClient`` and ``httpx2.AsyncClient``, under asyncio and trio.

    An attempt is cancelled at its time limit, which is not possible for sync requests. The settings are those of
    `RetryTransport`; by default it wraps the library's ``AsyncHTTPTransport()``.
    """

    _default = "AsyncHTTPTransport"

    @cached_property
    def _send(self) -> Any:
        return retry_async(_attempt_async, request_plan(self.settings, _sleep_async))

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, with retries as the policy says."""
        sending = self._prepare(request)
        try:
            response = await self._send(sending)
        except Exception as error:
            response = sending.take_response(error)
            if response is None:
                raise
        finally:
            sending.end()
            await sending.close_response_async()
        return await self._cap(sending.library, request, response)

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        if self.wrapped is not None:
            await self.wrapped.aclose()

    async def __aenter__(self) -> "Self":
        """Open what was wrapped; a default one is opened by its first request."""
        if self.wrapped is not None:
            await self.wrapped.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the wrapped transport."""
        if self.wrapped is not None:
            await self.wrapped.__aexit__(*error)

    async def _cap(self, library: HttpxAdapter, request: Any, response: Any) -> Any:
        if self.settings.max_body is not None:
            try:
                library.cap(request, response, self.settings.max_body)
            except BaseException:
                await response.aclose()
                raise
        return response


async def _attempt_async(sending: _Sending) -> Any:
    """Send a request once, when its scope may be called, and cancel it when its time is up."""
    from outlast.run.time_limit import run_within  # noqa: PLC0415  # loads asyncio, which only async transports need

    await _wait_async(sending)
    library, request, send = sending.library, sending.request, sending.inner.handle_async_request
    limit, peeked = sending.begin(), None
    try:
        sending.enter()
        if limit is None:
            response = await send(request)
        else:
            response = await run_within(limit, send, (request,), {}, partial(library.late_error, request))
        sending.response = response
        if response.status_code >= FIRST_ERROR_STATUS:
            peeked = await library.peek_async(request, response, sending.peek_seconds())
    except BaseException as error:
        sending.broke(error)
        raise
    answered = sending.answer(response, peeked)
    sending.response = None  # it is returned; until here, an interrupt closes it
    return answered


async def _wait_async(sending: _Sending) -> None:
    cooling, scope = sending.settings.cooling, sending.scope
    while True:
        left = cooling.admit(scope) if cooling.is_quick(scope) else await _admit(cooling, scope)
        if (seconds := sending.pause(left)) is None:
            return
        await clock.sleep_async(seconds)


async def _admit(cooling: "CooldownTracker", scope: str) -> float:
    question = _AdmitQuestion(cooling, scope)
    try:
        return await async_backends.run_in_thread(question.ask)
    except BaseException:
        question.leave()
        raise


async def _sleep_async(state: Any, seconds: float) -> None:
    await state.sending.close_response_async()
    if seconds > 0:
        await clock.sleep_async(seconds)
