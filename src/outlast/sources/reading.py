"""One GET of a source: its validators sent along, and its body unpacked to so many bytes and never more."""

import codecs
import contextlib
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, NamedTuple

from outlast.errors import BodyTooLargeError, ContentError, NetworkError
from outlast.ports.source_rows import Source

__all__ = ["BODY_LIMIT", "Answer", "charset", "read"]

BODY_LIMIT = 10 * 1024 * 1024
"""Bytes that a body may have when it is unpacked."""
_ERROR_LIMIT = 64 * 1024  # of an answer that is raised; enough to find a reason in
_PIECE = 256 * 1024  # unpacked at once
_LONGEST_VALIDATOR = 1024
_DIGITS = 19  # of a length; more are nonsense
_NOT_MODIFIED = 304

# What we can unpack in pieces. Others are not asked for: a few kilobytes of them may become gigabytes at one stroke.
_PACKINGS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_ACCEPTED = "gzip, deflate"
_GZIP = b"\x1f"  # how each part begins
_RAW_DEFLATE = -zlib.MAX_WBITS  # what some servers call deflate

# Python's name to the one that is meant on the web, as browsers read it. What is not here is no charset of a page:
# some of Python's take hours for a megabyte.
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


class Answer(NamedTuple):
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


async def read(client: Any, source: Source, *, limit: int = BODY_LIMIT) -> Answer:
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
    if etag := _validator(source.etag):
        headers["If-None-Match"] = etag
    if last_modified := _validator(source.last_modified):
        headers["If-Modified-Since"] = last_modified
    async with client.stream("GET", source.url, headers=headers) as response:
        not_modified = response.status_code == _NOT_MODIFIED
        if not not_modified and not response.is_success:
            await _refuse(response)
        return Answer(
            status=response.status_code,
            body=b"" if not_modified else await _body(response, limit),
            headers=response.headers,
            url=str(response.url),
            etag=_validator(response.headers.get("etag")),
            last_modified=_validator(response.headers.get("last-modified")),
            not_modified=not_modified,
            encoding=charset(response.charset_encoding),
        )


def charset(label: str | None) -> str | None:
    """Return Python's name of a charset as the web calls it, or None if it is none that pages are written in."""
    for name in (label, label.lower().removeprefix("x-")) if label else ():
        with contextlib.suppress(LookupError, ValueError):  # unknown, or no text at all
            return _CHARSETS.get(codecs.lookup(name.strip()).name)
    return None


def _validator(value: str | None) -> str | None:
    """Return what can be sent as a header again; clients refuse anything but ASCII."""
    if value and value.isascii() and value.isprintable() and len(value) <= _LONGEST_VALIDATOR:
        return value
    return None


async def _refuse(response: Any) -> None:
    """Raise the library's own error, with as much of the body as may hold a reason."""
    read_so_far = bytearray()
    with contextlib.suppress(Exception):  # the status tells more than a body that breaks off
        async with contextlib.aclosing(_unpacked(response)) as pieces:
            async for piece in pieces:
                read_so_far += piece
                if len(read_so_far) >= _ERROR_LIMIT:
                    break
    # As bytes: text that is not ASCII is refused on the way back.
    kept = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_BODY]
    type(response)(
        response.status_code,
        headers=kept,
        content=bytes(read_so_far[:_ERROR_LIMIT]),
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    ).raise_for_status()


_OF_THE_BODY = frozenset(
    {b"content-encoding", b"content-length", b"transfer-encoding"}
)  # not true of what we kept of it


async def _body(response: Any, limit: int) -> bytes:
    announced = response.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and len(announced) <= _DIGITS and int(announced) > limit:
        _too_large(limit)
    body = bytearray()
    async with contextlib.aclosing(_unpacked(response)) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > limit:
                _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> None:
    message = f"the answer is longer than {limit:,} bytes; the rest was not read"
    raise BodyTooLargeError(message)


async def _unpacked(response: Any) -> AsyncGenerator[bytes, None]:
    """Yield the body in pieces of a bounded size."""
    if response.is_stream_consumed:  # a hook or a transport has read and unpacked it already
        yield response.content
        return
    unpackers = [_Unpacker(name) for name in reversed(_packings(response))]
    async with contextlib.aclosing(response.aiter_raw()) as parts:
        async for part in parts:
            for piece in _through(unpackers, part):
                yield piece
    if any(unpacker.is_cut for unpacker in unpackers):
        message = "the packed answer ends in the middle"
        raise NetworkError(message)


def _packings(response: Any) -> list[str]:
    """Return how a body is packed, in the order in which it was done."""
    stated = response.headers.get("content-encoding", "").lower().split(",")
    names = [name.strip() for name in stated if name.strip() not in {"", "identity"}]
    unknown = [name for name in names if name not in _PACKINGS]
    if unknown or len(names) > len(_PACKINGS):
        message = f"the answer is packed as {', '.join(names)[:100]!r}, which was not asked for"
        raise ContentError(message)
    return names


def _through(unpackers: "list[_Unpacker]", part: bytes) -> Iterator[bytes]:
    if not unpackers:
        yield part
        return
    for piece in unpackers[0].unpack(part):
        yield from _through(unpackers[1:], piece)


class _Unpacker:
    """Unpacks gzip or deflate piece by piece, so that a few bytes cannot fill the memory."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bits = _PACKINGS[name]
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
                if self._name == "deflate" or not packed.startswith(_GZIP):
                    return
                self._zlib = zlib.decompressobj(self._bits)
            piece = self._piece(packed)
            self._begun = True
            packed = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            more = bool(packed) or (len(piece) == _PIECE and not self._zlib.eof)  # zlib may hold some back
            if piece:
                yield piece

    def _piece(self, packed: bytes) -> bytes:
        try:
            return self._zlib.decompress(packed, _PIECE)
        except zlib.error as error:
            if self._name == "deflate" and not self._begun:
                self._begun, self._bits = True, _RAW_DEFLATE
                self._zlib = zlib.decompressobj(self._bits)
                return self._piece(packed)
            message = f"the answer is not packed as it says ({self._name}): {error}"
            raise ContentError(message) from error
