"""Request and response bodies for httpx and httpx2 that track whether they were read, and limit their length.

Both libraries require instances of their own classes, which `ClientAdapter` derives from these.
"""

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from outlast.errors import BodyTooLargeError, ContentError

# Compressed bodies are decompressed in pieces, because a few bytes may expand to gigabytes.

_ACCEPTED = "gzip, deflate"
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_NOT_STREAMABLE = frozenset({"br", "zstd"})  # which client libraries unpack, and not in pieces
_CHUNK_BYTES = 64 * 1024
_GZIP_START = b"\x1f"  # how each part begins


def body_too_large(limit: int) -> BodyTooLargeError:
    """Return the error for an answer that is too long."""
    return BodyTooLargeError(f"the response is longer than {limit} bytes")


def streamable_encodings(accepted: str) -> str:
    """Return an Accept-Encoding without the codings that cannot be unpacked in pieces, where a body has a limit."""
    names = {name.partition(";")[0] for name in content_codings(accepted)}
    return accepted if _NOT_STREAMABLE.isdisjoint(names) else _ACCEPTED


def content_codings(header: str | None) -> list[str]:
    """Return what a Content-Encoding says, in the order in which it was done."""
    names = [name.strip() for name in (header or "").lower().split(",")]
    return [name for name in names if name not in {"", "identity"}]


def decompress_beginning(header: str | None, body: bytes, limit: int) -> bytes | None:
    """Return the beginning of a body that may be cut off; None if it cannot be unpacked, or was packed twice.

    Args:
        header: Its Content-Encoding.
        body: As it came.
        limit: Bytes that are returned at most.
    """
    codings = content_codings(header)
    if not codings:
        return body[:limit]
    if len(codings) > 1 or codings[0] not in _WINDOWS:
        return None
    return _inflate(_WINDOWS[codings[0]], body, limit)


def _inflate(window: int, body: bytes, limit: int) -> bytes | None:
    if limit <= 0:
        return b""  # for zlib, 0 means all of it
    try:
        return zlib.decompressobj(window).decompress(body, limit)
    except zlib.error:
        return _inflate(-zlib.MAX_WBITS, body, limit) if window == zlib.MAX_WBITS else None  # what some call deflate


def body_counter(header: str | None, limit: int) -> "BodyCounter":
    """Return what counts a body.

    Args:
        header: Its Content-Encoding.
        limit: Bytes that it may have once it is unpacked.

    Raises:
        ContentError: If its size cannot be determined piece by piece, because of how it is compressed.
    """
    codings = content_codings(header)
    if len(codings) > 1 or not _NOT_STREAMABLE.isdisjoint(codings):
        raise ContentError(
            f"the response is compressed as {', '.join(codings)[:100]!r}, so its length cannot be limited"
        )
    is_known = bool(codings) and codings[0] in _WINDOWS
    return BodyCounter(Decompressor(codings[0]) if is_known else None, limit)


class Decompressor:
    """Decompresses gzip or deflate in pieces, so that a few bytes cannot fill the memory.

    Args:
        coding: The content coding.
    """

    def __init__(self, coding: str) -> None:
        self.coding = coding
        self._window = _WINDOWS[coding]
        self._zlib = zlib.decompressobj(self._window)
        self._started = False

    @property
    def is_cut(self) -> bool:
        """Whether it started but is incomplete."""
        return self._started and not self._zlib.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data in pieces.

        Raises:
            zlib.error: If the data is not compressed in that way.
        """
        more = bool(data)
        while more:
            if self._zlib.eof:  # gzip may have several members; anything else after the end is padding
                if self._window != _WINDOWS["gzip"] or not data.startswith(_GZIP_START):
                    return
                self._zlib = zlib.decompressobj(self._window)
            try:
                piece = self._zlib.decompress(data, _CHUNK_BYTES)
            except zlib.error:
                if self._started or self._window != zlib.MAX_WBITS:
                    raise
                self._started, self._window = True, -zlib.MAX_WBITS  # some servers send raw deflate
                self._zlib = zlib.decompressobj(self._window)
                continue
            self._started = True
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            more = bool(data) or (len(piece) == _CHUNK_BYTES and not self._zlib.eof)  # zlib may have buffered more
            if piece:
                yield piece


class BodyCounter:
    """Counts the decompressed bytes of a body as it arrives, and keeps nothing of it.

    Args:
        decompressor: Decompresses it; None for a body that is not compressed.
        limit: Maximum number of bytes.
    """

    def __init__(self, decompressor: Decompressor | None, limit: int) -> None:
        self._decompressor, self._limit, self._left = decompressor, limit, limit

    def count(self, data: bytes) -> None:
        """Count a part of it.

        Raises:
            BodyTooLargeError: If it is longer than the limit.
        """
        if self._decompressor is not None:
            try:
                for piece in self._decompressor.pieces(data):
                    self._take(len(piece))
            except zlib.error:
                self._decompressor = None  # the client library reports it; from here on, bytes count as they arrive
            else:
                return
        self._take(len(data))

    def _take(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise body_too_large(self._limit)


def is_seekable(file: Any) -> bool:
    """Tell whether a file can be read again from where it stands."""
    try:
        file.tell()
        return bool(file.seekable())
    except Exception:  # noqa: BLE001  # any object with a read()
        return False


def is_replayable(stream: Any) -> bool:
    """Tell whether a request's body gives the same each time it is read, without our help."""
    if type(stream).__name__ == "MultipartStream" and isinstance(fields := getattr(stream, "fields", None), list):
        files = [getattr(field, "file", b"") for field in fields]
        return all(isinstance(file, bytes | str) or is_seekable(file) for file in files)
    return isinstance(getattr(stream, "_stream", None), list | tuple)


class _WrappedBody:
    """What all of them share: closing closes what was wrapped."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()


class OneShotBody(_WrappedBody):
    """A request's body, and whether anybody has begun to read it."""

    begun = False

    def __iter__(self) -> Iterator[bytes]:
        self.begun = True
        yield from self._stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        async for chunk in self._stream:
            yield chunk


class FileBody(_WrappedBody):
    """A request's body that is a file: read from where it stood, each time."""

    def __init__(self, stream: Any, file: Any) -> None:
        super().__init__(stream)
        self._file, self._position = file, file.tell()

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(self._position)
        yield from self._stream


class PeekedBody(_WrappedBody):
    """An answer's body, the beginning of which was read already; where it broke off, it does so again."""

    def __init__(self, stream: Any, begun: list[bytes], rest: Any, broken: Exception | None) -> None:
        super().__init__(stream)
        self._begun, self._rest, self._broken = begun, rest, broken

    def __iter__(self) -> Iterator[bytes]:
        yield from self._begun
        self._break_off()
        if self._rest is not None:
            yield from self._rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._begun:
            yield chunk
        self._break_off()
        if self._rest is not None:
            async for chunk in self._rest:
                yield chunk

    def _break_off(self) -> None:
        broken, self._broken = self._broken, None
        try:
            if broken is not None:
                raise broken.with_traceback(None)
        finally:
            del broken  # its traceback holds this frame

    def close(self) -> None:
        """Close what was wrapped."""
        self._broken = None  # the frames behind it hold the answer
        super().close()

    async def aclose(self) -> None:
        """Close what was wrapped."""
        self._broken = None
        await super().aclose()


class CappedBody(_WrappedBody):
    """An answer's body that ends in an error when it is longer than it may be, before anybody unpacks so much.

    Args:
        stream: The body as it comes over the wire.
        counter: Counts it.
    """

    def __init__(self, stream: Any, counter: BodyCounter) -> None:
        super().__init__(stream)
        self._counter = counter

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            self._counter.count(chunk)
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._counter.count(chunk)
            yield chunk
