"""Fetchers of sources: the built-in ones, your own functions, and the HTTP GET that they share."""

import asyncio
import codecs
import contextlib
import contextvars
import inspect
import threading
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from outlast.errors import BodyTooLargeError, ConfigError, ContentError, NetworkError
from outlast.ports.source_rows import Source
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
"""Bytes that a body may have when it is unpacked."""
_ERROR_LIMIT = 64 * 1024  # of an answer that is raised; enough to find a reason in
_CHUNK_BYTES = 256 * 1024  # unpacked at once
_MAX_VALIDATOR = 1024
_MAX_LENGTH_DIGITS = 19  # of a length; more are nonsense
_NOT_MODIFIED = 304

# Encodings that can be decompressed in pieces. With others, a few kilobytes could expand to gigabytes at once.
_CODINGS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_ACCEPTED = "gzip, deflate"
_GZIP_START = b"\x1f"  # how each part begins
_RAW_DEFLATE = -zlib.MAX_WBITS  # what some servers call deflate

# Python's names for the charsets of the web, as browsers read them. Others are not used: some of Python's codecs take
# hours for a megabyte.
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
    """What a source answered.

    Attributes:
        status: Of the answer.
        body: Unpacked.
        headers: Names in any case.
        url: Where it came from in the end, after redirects.
        etag: Validator to send next time.
        last_modified: The other one.
        not_modified: Nothing changed since the validators that were sent.
        encoding: Charset that the headers name, as Python calls it; None where they name none that is known.
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
    """Ask for a source's URL.

    Args:
        client: An httpx or httpx2 AsyncClient; whether redirects are followed is its own matter.
        source: Its URL is asked for; its validators are sent along.
        limit: Bytes that the body may have when it is unpacked.

    Raises:
        BodyTooLargeError: If it has more; the rest is not read.
        ContentError: If it cannot be unpacked.
        NetworkError: If what was packed ends in the middle.
        Exception: Whatever the client raises, its own error for a status that is no success included.
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
    """Return Python's name of a charset as the web calls it, or None if it is none that pages are written in."""
    for name in (label, label.lower().removeprefix("x-")) if label else ():
        with contextlib.suppress(LookupError, ValueError):  # unknown, or no text at all
            return _CHARSETS.get(codecs.lookup(name.strip()).name)
    return None


def _valid_validator(value: str | None) -> str | None:
    """Return what can be sent as a header again; clients refuse anything but ASCII."""
    if value and value.isascii() and value.isprintable() and len(value) <= _MAX_VALIDATOR:
        return value
    return None


async def _raise_status(response: Any) -> None:
    """Raise the library's own error, with as much of the body as may hold a reason."""
    read_so_far = bytearray()
    with contextlib.suppress(Exception):  # the status tells more than a body that breaks off
        async with contextlib.aclosing(_decompressed(response)) as pieces:
            async for piece in pieces:
                read_so_far += piece
                if len(read_so_far) >= _ERROR_LIMIT:
                    break
    # As bytes: text that is not ASCII is refused on the way back.
    kept = [(name, value) for name, value in response.headers.raw if name.lower() not in _BODY_HEADERS]
    type(response)(
        response.status_code,
        headers=kept,
        content=bytes(read_so_far[:_ERROR_LIMIT]),
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    ).raise_for_status()


_BODY_HEADERS = frozenset(
    {b"content-encoding", b"content-length", b"transfer-encoding"}
)  # not true of what we kept of it


async def _read_body(response: Any, limit: int) -> bytes:
    announced = response.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and len(announced) <= _MAX_LENGTH_DIGITS and int(announced) > limit:
        _raise_too_large(limit)
    body = bytearray()
    async with contextlib.aclosing(_decompressed(response)) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > limit:
                _raise_too_large(limit)
    return bytes(body)


def _raise_too_large(limit: int) -> None:
    message = f"the response is longer than {limit:,} bytes; the rest was not read"
    raise BodyTooLargeError(message)


async def _decompressed(response: Any) -> AsyncGenerator[bytes, None]:
    """Yield the body in pieces of a bounded size."""
    if response.is_stream_consumed:  # a hook or a transport has read and unpacked it already
        yield response.content
        return
    unpackers = [_Decompressor(name) for name in reversed(_content_codings(response))]
    async with contextlib.aclosing(response.aiter_raw()) as parts:
        async for part in parts:
            for piece in _decompress_chain(unpackers, part):
                yield piece
    if any(unpacker.is_cut for unpacker in unpackers):
        message = "the compressed response is incomplete"
        raise NetworkError(message)


def _content_codings(response: Any) -> list[str]:
    """Return how a body is packed, in the order in which it was done."""
    stated = response.headers.get("content-encoding", "").lower().split(",")
    names = [name.strip() for name in stated if name.strip() not in {"", "identity"}]
    unknown = [name for name in names if name not in _CODINGS]
    if unknown or len(names) > len(_CODINGS):
        message = f"the response is compressed as {', '.join(names)[:100]!r}, which was not requested"
        raise ContentError(message)
    return names


def _decompress_chain(unpackers: "list[_Decompressor]", part: bytes) -> Iterator[bytes]:
    if not unpackers:
        yield part
        return
    for piece in unpackers[0].unpack(part):
        yield from _decompress_chain(unpackers[1:], piece)


class _Decompressor:
    """Unpacks gzip or deflate piece by piece, so that a few bytes cannot fill the memory."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bits = _CODINGS[name]
        self._zlib = zlib.decompressobj(self._bits)
        self._begun = False

    @property
    def is_cut(self) -> bool:
        """Whether it has begun and not come to its end."""
        return self._begun and not self._zlib.eof

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        """Yield what is in it, in pieces.

        Raises:
            ContentError: If it is not packed in that way.
        """
        more = bool(packed)
        while more:
            if self._zlib.eof:  # gzip may consist of several parts; anything else behind the end is filling
                if self._name == "deflate" or not packed.startswith(_GZIP_START):
                    return
                self._zlib = zlib.decompressobj(self._bits)
            piece = self._piece(packed)
            self._begun = True
            packed = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            more = bool(packed) or (len(piece) == _CHUNK_BYTES and not self._zlib.eof)  # zlib may hold some back
            if piece:
                yield piece

    def _piece(self, packed: bytes) -> bytes:
        try:
            return self._zlib.decompress(packed, _CHUNK_BYTES)
        except zlib.error as error:
            if self._name == "deflate" and not self._begun:
                self._begun, self._bits = True, _RAW_DEFLATE
                self._zlib = zlib.decompressobj(self._bits)
                return self._piece(packed)
            message = f"the response is not compressed as its header says ({self._name}): {error}"
            raise ContentError(message) from error


_PACKAGES = {"feed": "feedparser", "page": "selectolax"}


def choose_fetcher(given: "str | Callable[..., Any] | None", usual: str) -> Fetcher:
    """Return what fetches sources.

    Args:
        given: ``feed``, ``page``, or a function of a source, or of a source and the monitor's client; None for what
            suits the profile, and a page where a source has a selector.
        usual: ``feed`` or ``page``, as the profile says.

    Raises:
        ConfigError: If it is none of them, or needs a package that is not installed.
    """
    if given is None:
        _check_installed(usual)
        return _default_fetcher(usual)
    if given in ("feed", "page"):
        _check_installed(str(given))
        return _builtin_fetcher(str(given))
    if isinstance(given, str) or not callable(given):
        message = f"fetch is {given!r}; choose feed or page, or give a function that takes a source"
        raise ConfigError(message)
    return _adapt_function(given)


def _check_installed(kind: str) -> None:
    """See now, not at the first poll, that what a fetcher needs is installed."""
    if find_spec(_PACKAGES[kind]) is None:
        message = f"fetching a {kind} needs {_PACKAGES[kind]}; run: pip install 'outlast[feeds]'"
        raise ConfigError(message)


def _builtin_fetcher(kind: str) -> Fetcher:
    if kind == "feed":
        from outlast.sources.feed import fetch_feed  # noqa: PLC0415  # needs an extra

        return fetch_feed
    from outlast.sources.page import fetch_page  # noqa: PLC0415  # needs an extra

    return fetch_page


def _default_fetcher(usual: str) -> Fetcher:
    """Return a fetcher that looks at each source: one with a selector is a page, whatever the others are."""
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
    except (TypeError, ValueError):  # a builtin that does not tell
        wanted = []
    alone = len(wanted) == 1

    async def fetch(source: Source, client: Any) -> Any:
        args = (source,) if alone else (source, client)
        if is_coroutine_function(function):
            return await function(*args)
        return await run_in_own_thread(function, *args)

    fetch.needs_client = not alone  # type: ignore[attr-defined]  # the monitor opens none for nothing
    return fetch


async def run_in_own_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's in a thread of its own.

    One that hangs takes no thread that others wait for, and does not keep the program from ending.

    Raises:
        Exception: What the function raises; RuntimeError for what would end the event loop, such as SystemExit.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if done.done():  # nobody waits any more
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = context.run(function, *args)
        except BaseException as raised:  # noqa: BLE001  # raised where it is awaited
            error = raised if isinstance(raised, Exception) else None
            if error is None or isinstance(raised, StopIteration):  # a future takes no StopIteration
                error = RuntimeError(f"{type(raised).__name__} was raised")
                error.__cause__ = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="outlast-fetch", daemon=True).start()
    return await done
