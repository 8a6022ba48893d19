"""Fetchers of sources: the built-in ones, your own functions, and the HTTP GET that they share."""

import asyncio
import codecs
import contextvars
import inspect
import threading
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from outlast.classify import attach_failure, default_classifier
from outlast.errors import BodyTooLargeError, ConfigError, ContentError, NetworkError
from outlast.http.bodies import Decompressor, content_codings
from outlast.http.transport import FAILURE_EXTENSION
from outlast.ports.source_rows import Source
from outlast.run.loops import checked_result_type, name_of
from outlast.run.retry import is_coroutine_function


class Entry(NamedTuple):
    """One entry of a feed.

    Attributes:
        id: The id in the feed; its link or title if it has no id.
        published: The date in the feed, in ISO format if it is valid.
    """

    id: str
    title: str = ""
    link: str = ""
    published: str | None = None
    summary: str = ""


class Fetched(NamedTuple):
    """The result of a fetch.

    Attributes:
        content: The content for `on_change`: text, bytes or any other value.
        hash: A value that changes with the content; None to compute it from `content`.
        not_modified: Whether the server answered 304 (not modified). The other fields are then ignored.
        etag: The ETag to send with the next request.
        last_modified: The Last-Modified to send with the next request.
        entries: The entries of a feed that are new since `memory`.
        memory: JSON text that the fetcher gets back in the source at the next poll.
        http_status: The status of the response.
    """

    content: Any = None
    hash: str | None = None
    not_modified: bool = False
    etag: str | None = None
    last_modified: str | None = None
    entries: tuple[Entry, ...] = ()
    memory: str | None = None
    http_status: int | None = None


class Changed(NamedTuple):
    """The argument of `on_change`.

    Attributes:
        source: The source before this poll.
        fetched: The new content.
        first: Whether this is the first content of the source.
    """

    source: Source
    fetched: Fetched
    first: bool


Fetcher = Callable[[Source, Any], Awaitable[Fetched]]
"""Gets a source and the monitor's HTTP client (an httpx2 or httpx AsyncClient); raises what goes wrong."""


BODY_LIMIT = 10 * 1024 * 1024
"""Maximum size of a decompressed body, in bytes."""
_ERROR_LIMIT = 64 * 1024  # bytes of an error response; enough to find a reason in it
_MAX_VALIDATOR = 1024
_MAX_LENGTH_DIGITS = 19  # digits of a Content-Length; a longer one is not valid
_NOT_MODIFIED = 304

# Encodings that can be decompressed in pieces. With others, a few kilobytes could expand to gigabytes at once.
_CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_ACCEPTED = "gzip, deflate"

# Python's names for the charsets of web pages, as browsers decode them. Other charsets are ignored: some codecs of
# Python take hours for a megabyte.
_CHARSETS = {
    **{name: name for name in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "mac-roman", "cp866")},
    **{f"iso8859-{number}": f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"cp{number}": f"cp{number}" for number in (874, 932, 949, *range(1250, 1259))},
    **{name: name for name in ("euc_jp", "iso2022_jp", "gb18030", "big5", "big5hkscs")},
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
}


class SourceResponse(NamedTuple):
    """The response of a source.

    Attributes:
        status: HTTP status.
        body: Decompressed body.
        headers: Headers; their names are not case-sensitive.
        url: Final URL, after redirects.
        etag: ETag to send with the next request.
        last_modified: Last-Modified to send with the next request.
        not_modified: Whether the content has not changed since the validators that were sent.
        encoding: Python's name of the charset in the headers; None if there is none, or it is not known.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    url: str
    etag: str | None = None
    last_modified: str | None = None
    not_modified: bool = False
    encoding: str | None = None


async def download(client: Any, source: Source, *, limit: int = BODY_LIMIT) -> SourceResponse:
    """Request the URL of a source.

    Args:
        client: An httpx or httpx2 AsyncClient; it decides whether redirects are followed.
        source: The source; its validators are sent with the request.
        limit: Maximum size of the decompressed body, in bytes.

    Raises:
        BodyTooLargeError: If the body is larger; the rest is not read.
        ContentError: If it cannot be decompressed.
        NetworkError: If a compressed body is incomplete.
        Exception: Any error of the client, including its own error for a status that is not a success.
    """
    headers = {"Accept-Encoding": _ACCEPTED}
    if etag := _valid_validator(source.etag):
        headers["If-None-Match"] = etag
    if last_modified := _valid_validator(source.last_modified):
        headers["If-Modified-Since"] = last_modified
    async with client.stream("GET", source.url, headers=headers) as response:
        not_modified = response.status_code == _NOT_MODIFIED
        if not not_modified and not response.is_success:
            await _raise_status(response)
        return SourceResponse(
            status=response.status_code,
            body=b"" if not_modified else await _read_body(response, limit),
            headers=response.headers,
            url=str(response.url),
            etag=_valid_validator(response.headers.get("etag")),
            last_modified=_valid_validator(response.headers.get("last-modified")),
            not_modified=not_modified,
            encoding=web_charset(response.charset_encoding),
        )


def web_charset(label: str | None) -> str | None:
    """Return Python's name of a charset label; None if web pages do not use that charset."""
    for name in (label, label.lower().removeprefix("x-")) if label else ():
        with suppress(LookupError, ValueError):  # unknown, or not a name
            return _CHARSETS.get(codecs.lookup(name.strip()).name)
    return None


def _valid_validator(value: str | None) -> str | None:
    """Return the validator if it can be sent as a header; clients accept only ASCII."""
    if value and value.isascii() and value.isprintable() and len(value) <= _MAX_VALIDATOR:
        return value
    return None


async def _raise_status(response: Any) -> None:
    """Raise the library's own error, with the start of the body, which may contain a reason."""
    read_so_far = bytearray()
    with suppress(Exception):  # the status matters more than an incomplete body
        async with aclosing(_decompressed(response)) as pieces:
            async for piece in pieces:
                read_so_far += piece
                if len(read_so_far) >= _ERROR_LIMIT:
                    break
    # As bytes, because httpx does not accept text that is not ASCII.
    kept = [(name, value) for name, value in response.headers.raw if name.lower() not in _BODY_HEADERS]
    answered = type(response)(
        response.status_code,
        headers=kept,
        content=bytes(read_so_far[:_ERROR_LIMIT]),
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    )
    try:
        answered.raise_for_status()
    except Exception as error:
        known = response.extensions.get(FAILURE_EXTENSION)
        if known is not None:  # the transport has classified the response
            message = default_classifier().redact(str(error))
            attach_failure(error, known.replace(exception_name=type(error).__name__, message=message))
        raise


_BODY_HEADERS = frozenset(
    {b"content-encoding", b"content-length", b"transfer-encoding"}
)  # they describe the body before it was decompressed and cut


async def _read_body(response: Any, limit: int) -> bytes:
    announced = response.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and len(announced) <= _MAX_LENGTH_DIGITS and int(announced) > limit:
        _raise_too_large(limit)
    body = bytearray()
    async with aclosing(_decompressed(response)) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > limit:
                _raise_too_large(limit)
    return bytes(body)


def _raise_too_large(limit: int) -> None:
    raise BodyTooLargeError(f"the response is longer than {limit:,} bytes; the rest was not read")


async def _decompressed(response: Any) -> AsyncGenerator[bytes, None]:
    """Yield the body in pieces of a bounded size."""
    if response.is_stream_consumed:  # a hook or a transport has already read and decompressed it
        yield response.content
        return
    decompressors = [Decompressor(name) for name in reversed(_content_codings(response))]
    async with aclosing(response.aiter_raw()) as parts:
        async for part in parts:
            for piece in _decompress_chain(decompressors, part):
                yield piece
    if any(decompressor.is_cut for decompressor in decompressors):
        raise NetworkError("the compressed response is incomplete")


def _content_codings(response: Any) -> list[str]:
    """Return the codings of a body, in the order in which they were applied."""
    names = content_codings(response.headers.get("content-encoding"))
    if len(names) > len(_CODINGS) or not _CODINGS.issuperset(names):
        raise ContentError(f"the response is compressed as {', '.join(names)[:100]!r}, which was not requested")
    return names


def _decompress_chain(decompressors: list[Decompressor], part: bytes) -> Iterator[bytes]:
    if not decompressors:
        yield part
        return
    first, *others = decompressors
    try:
        for piece in first.pieces(part):
            yield from _decompress_chain(others, piece)
    except zlib.error as error:
        raise ContentError(f"the response is not compressed as its header says ({first.coding}): {error}") from error


_PACKAGES = {"feed": "feedparser", "page": "selectolax"}


def choose_fetcher(given: "str | Callable[..., Any] | None", usual: str) -> Fetcher:
    """Return the fetcher of a monitor.

    Args:
        given: ``feed``, ``page``, or a function of a source, or of a source and the monitor's client. None for the
            fetcher of the profile, but for a page if a source has a selector.
        usual: The fetcher of the profile, ``feed`` or ``page``.

    Raises:
        ConfigError: If it is not valid, or needs a package that is not installed.
    """
    if given is None or given in ("feed", "page"):
        kind = usual if given is None else str(given)
        if find_spec(_PACKAGES[kind]) is None:  # now, and not only at the first poll
            raise ConfigError(f"fetching a {kind} needs {_PACKAGES[kind]}; run: pip install 'outlast[feeds]'")
        return _default_fetcher(kind) if given is None else _builtin_fetcher(kind)
    if isinstance(given, str) or not callable(given):
        raise ConfigError(f"fetch is {given!r}; choose feed or page, or give a function that takes a source")
    return _adapt_function(given)


def _builtin_fetcher(kind: str) -> Fetcher:
    fetcher: Fetcher = getattr(import_module(f"outlast.sources.{kind}"), f"fetch_{kind}")
    return fetcher


def _default_fetcher(usual: str) -> Fetcher:
    """Return a fetcher that fetches a source with a selector as a page, and others as the profile says."""
    plain = _builtin_fetcher(usual)

    async def fetch(source: Source, client: Any) -> Any:
        chosen = plain if source.selector is None else _builtin_fetcher("page")
        return await chosen(source, client)

    return fetch


def _adapt_function(function: Callable[..., Any]) -> Fetcher:
    try:
        wanted = [
            each
            for each in inspect.signature(function).parameters.values()
            if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD} and each.default is each.empty
        ]
    except (TypeError, ValueError):  # a builtin without a signature
        wanted = []
    alone = len(wanted) == 1

    async def fetch(source: Source, client: Any) -> Any:
        args = (source,) if alone else (source, client)
        if is_coroutine_function(function):
            return await function(*args)
        return await run_in_own_thread(function, *args)

    fetch.needs_client = not alone  # type: ignore[attr-defined]  # the monitor opens a client only if it is needed
    return fetch


async def run_in_own_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user in its own thread.

    If it hangs, it does not block a shared thread, and does not keep the program from ending.

    Raises:
        Exception: The error of the function; RuntimeError for one that would end the event loop, such as SystemExit.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():  # cancelled meanwhile
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function, *args)
            checked_result_type(name_of(function), result)
        except BaseException as raised:  # noqa: BLE001  # raised where it is awaited
            error, kind = raised, type(raised)
            if not issubclass(kind, Exception) or issubclass(kind, StopIteration):  # which a future does not accept
                error = RuntimeError(f"{kind.__name__} was raised")
                error.__cause__ = raised
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="outlast-fetch", daemon=True).start()
    return await done
