"""httpx or httpx2, as far as a transport has to know it: errors, bodies, timeouts."""

import contextlib
import importlib
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from outlast import backends, clock
from outlast.classify import Classifier, default_classifier
from outlast.http.bodies import Again, Capped, Chained, Once, can_be_read_again, is_seekable
from outlast.http.course import LOOK_LIMIT
from outlast.http.keys import KEY_HEADER, key_for
from outlast.http.scopes import host_of
from outlast.http.settings import Settings
from outlast.http.unpacking import counter_for, narrowed, too_large, unpacked

__all__ = ["LIBRARIES", "MARK", "Library", "library_of"]

LIBRARIES = ("httpx2", "httpx")
MARK = "outlast_idempotent"
"""Extension by which a request says that it may be sent twice: ``extensions={"outlast_idempotent": True}``."""
_TIMEOUTS = ("connect", "read", "write", "pool")
_UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
_SHORTEST = 0.001  # seconds; 0 would mean: do not block
_MOST_DIGITS = 18
_MOST_HOSTS = 4096  # names that are kept
_KEPT = ("http_version", "reason_phrase")  # the other extensions hold the connection
_WITHOUT_BODY = frozenset({204, 304})
_OF_THE_BODY = frozenset({b"content-encoding", b"content-length"})  # not true of one that was unpacked


class Library:
    """One of the two. It is the `Kit` of a course."""

    def __init__(self, name: str) -> None:
        """Import it; something of it exists, so it is there."""
        self.module: Any = importlib.import_module(name)
        self._unsent: tuple[type[Exception], ...] = tuple(getattr(self.module, each) for each in _UNSENT)
        self._bytes: Any = self.module.ByteStream
        self._once, self._again, self._chained, self._capped = map(self._body, (Once, Again, Chained, Capped))
        self._hosts: dict[bytes, str] = {}
        self._known = (self._bytes, self._once, self._again)

    def _body(self, kind: type) -> Any:
        """Make a class of ours one of the library's, which is what it asks for."""
        return type(kind.__name__, (kind, self.module.SyncByteStream, self.module.AsyncByteStream), {})

    def name(self, request: Any) -> str:
        """Return method and address for logs: no query, no credentials."""
        url = request.url  # put together here: `copy_with` reads the whole address again
        path = url.raw_path.partition(b"?")[0]
        name = f"{request.method} {url.scheme}://{(url.netloc + path).decode('ascii', 'replace')}"
        return _redacted(default_classifier(), name)  # the path of a webhook is its secret

    def host(self, request: Any) -> str:
        """Return the host of a request as `host_of` does; to look it up is much quicker than to read the address."""
        netloc = request.url.netloc  # without credentials, and without the usual port
        host = self._hosts.get(netloc)
        if host is None:
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts.clear()
            host = self._hosts[netloc] = host_of(str(request.url))
        return host

    def method(self, request: Any) -> str:
        """Return the method in capitals."""
        return str(request.method).upper()

    def marked(self, request: Any) -> bool:
        """Tell whether the request says of itself that it may be sent twice."""
        return KEY_HEADER in request.headers or bool(request.extensions.get(MARK))

    def whole(self, request: Any) -> bool:
        """Tell whether the body can be sent once more as it was."""
        return not getattr(request.stream, "begun", False)

    def unsent(self, request: Any, error: Exception) -> bool:
        """Tell whether an error means that nothing of the request has left; what a transport has read may be gone."""
        return isinstance(error, self._unsent) and self.whole(request)

    def status_error(self, request: Any, response: Any) -> Exception:
        """Return the library's own error for an answer."""
        response.request = request
        reason = f" {response.reason_phrase}" if response.reason_phrase else ""
        message = f"HTTP {response.status_code}{reason} for {self.name(request)}"
        error: Exception = self.module.HTTPStatusError(message, request=request, response=response)
        return error

    def late_error(self, request: Any, seconds: float) -> Exception:
        """Return the library's own error for an attempt whose time is over."""
        error: Exception = self.module.ReadTimeout(f"cancelled after {seconds:.3g} s", request=request)
        return error

    def prepare(self, request: Any, settings: Settings) -> None:
        """Make a request ready to be sent more than once: a key where it needs one, an eye on a body read only once."""
        if settings.keys and request.method not in settings.methods and KEY_HEADER not in request.headers:
            request.headers[KEY_HEADER] = key_for(request.method, request.url, getattr(request, "_content", None))
        if settings.max_body is not None and "accept-encoding" in request.headers:
            request.headers["accept-encoding"] = narrowed(request.headers["accept-encoding"])
        stream = request.stream
        if not isinstance(stream, self._known) and not can_be_read_again(stream):
            file = getattr(stream, "_stream", None)
            request.stream = self._again(stream, file) if is_seekable(file) else self._once(stream)

    def limit(self, request: Any, given: dict[str, Any], left: float | None) -> None:
        """Cut a request's timeouts to the time that is left.

        Args:
            request: What is sent.
            given: The extensions that it came with.
            left: Seconds; None where there is no limit.
        """
        if left is None:
            return
        timeouts, left = given.get("timeout") or {}, max(left, _SHORTEST)
        for name in _TIMEOUTS:
            value = timeouts.get(name)
            if value is None or value > left:
                shorter = {each: _least(timeouts.get(each), left) for each in _TIMEOUTS}
                request.extensions = {**given, "timeout": shorter}
                return

    def cap(self, request: Any, response: Any, limit: int) -> None:
        """See that an answer's body ends in an error when it is longer than it may be.

        Raises:
            BodyTooLargeError: If it says so itself.
            ContentError: If it is packed so that this could not be seen in time.
        """
        if request.method == "HEAD" or response.status_code in _WITHOUT_BODY:
            return
        length = response.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:_MOST_DIGITS]) > limit:
            raise too_large(limit)
        counter = counter_for(response.headers.get("content-encoding"), limit)
        response.stream = self._capped(response.stream, counter)

    def look(self, request: Any, response: Any, seconds: float) -> Any:
        """Read the beginning of an answer's body; all of it can still be read, unless it stalls.

        Args:
            request: What was answered.
            response: The answer.
            seconds: How long its body may stall.

        Returns:
            A copy whose body is what was read, to be judged.
        """
        begun: list[bytes] = []
        rest = broken = None
        try:
            until = clock.monotonic() + seconds / 2  # if more comes then, the rest is left to who wants it
            with _reading_within(request.extensions, seconds):
                chunks = iter(response.stream)
                for chunk in chunks:
                    begun.append(chunk)
                    if _is_enough(begun, until):
                        rest = chunks
                        break
        except Exception as error:  # noqa: BLE001  # the body breaks off; the status stands
            broken = error
            with contextlib.suppress(Exception):
                response.stream.close()
        except BaseException:
            response.close()
            raise
        try:
            return self._looked_at(response, begun, rest, broken)
        finally:
            del broken  # its traceback holds this frame

    async def look_async(self, request: Any, response: Any, seconds: float) -> Any:
        """Read the beginning of an answer's body; the same as `look`."""
        begun: list[bytes] = []
        rest = broken = None
        try:
            until = clock.monotonic() + seconds / 2

            async def read() -> Any:
                chunks = aiter(response.stream)
                async for chunk in chunks:
                    begun.append(chunk)
                    if _is_enough(begun, until):
                        return chunks
                return None

            rest = await backends.run_within(seconds, read())
        except TimeoutError:
            broken = self.late_error(request, seconds)
            with contextlib.suppress(Exception):
                await response.stream.aclose()
        except Exception as error:  # noqa: BLE001  # the body breaks off; the status stands
            broken = error
            with contextlib.suppress(Exception):
                await response.stream.aclose()
        except BaseException:
            await response.aclose()
            raise
        try:
            return self._looked_at(response, begun, rest, broken)
        finally:
            del broken  # its traceback holds this frame

    def _looked_at(self, response: Any, begun: list[bytes], rest: Any, broken: Exception | None) -> Any:
        response.stream = self._chained(response.stream, begun, rest, broken)
        body, headers = b"".join(begun), response.headers
        kept = {name: value for name, value in response.extensions.items() if name in _KEPT}
        if "content-encoding" in headers:
            plain = unpacked(headers["content-encoding"], body, LOOK_LIMIT)
            body = body if plain is None else plain
            # As bytes: text that is not ASCII is refused on the way back.
            headers = [(key, value) for key, value in headers.raw if key.lower() not in _OF_THE_BODY]
        stream = self._bytes(body[:LOOK_LIMIT])
        copy = self.module.Response(response.status_code, headers=headers, stream=stream, extensions=kept)
        copy.read()
        return copy


@lru_cache(512)
def _redacted(classifier: Classifier, name: str) -> str:
    """Return a name without secrets; in an outage the same one comes again and again."""
    return classifier.redact(name)


@cache
def _library(name: str) -> Library:
    return Library(name)


@cache
def _library_of_type(kind: type) -> Library:
    packages = [each.__module__.partition(".")[0] for each in kind.__mro__]
    found = next((name for name in packages if name in LIBRARIES), None)
    if found is None:
        message = f"{kind.__module__}.{kind.__qualname__} is neither of httpx nor of httpx2"
        raise TypeError(message)
    return _library(found)


def library_of(thing: Any) -> Library:
    """Return the library that a request, a response or a client belongs to, or what it is derived from.

    Raises:
        TypeError: If it belongs to neither.
    """
    kind: Any = type(thing)
    return _library_of_type(kind)


def _least(value: float | None, left: float) -> float:
    return left if value is None else min(value, left)


@contextlib.contextmanager
def _reading_within(extensions: dict[str, Any], seconds: float) -> Iterator[None]:
    """Have a body that is read from now on time out earlier: who reads it has been handed these extensions."""
    given = extensions.get("timeout")
    timeouts = given if isinstance(given, dict) else {}
    read = timeouts.get("read")
    extensions["timeout"] = {**timeouts, "read": _least(read, max(seconds, _SHORTEST))}
    try:
        yield
    finally:
        if given is None:
            del extensions["timeout"]
        else:
            extensions["timeout"] = given


def _is_enough(begun: list[bytes], until: float) -> bool:
    return sum(map(len, begun)) > LOOK_LIMIT or clock.monotonic() >= until
