"""Bodies that are packed: unpacked to so many bytes and never more, for a few of them may stand for gigabytes."""

import zlib

from outlast.errors import BodyTooLargeError, ContentError

__all__ = ["Counter", "codings_of", "counter_for", "narrowed", "too_large", "unpacked"]

_ACCEPTED = "gzip, deflate"
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_AT_ONE_STROKE = frozenset({"br", "zstd"})  # which client libraries unpack, and not in pieces
_PIECE = 64 * 1024
_GZIP = b"\x1f"  # how each part begins


def too_large(limit: int) -> BodyTooLargeError:
    """Return the error for an answer that is too long."""
    return BodyTooLargeError(f"the answer is longer than {limit} bytes")


def narrowed(accepted: str) -> str:
    """Return an Accept-Encoding without the codings that cannot be unpacked in pieces, where a body has a limit."""
    names = {name.partition(";")[0] for name in codings_of(accepted)}
    return accepted if _AT_ONE_STROKE.isdisjoint(names) else _ACCEPTED


def codings_of(header: str | None) -> list[str]:
    """Return what a Content-Encoding says, in the order in which it was done."""
    names = [name.strip() for name in (header or "").lower().split(",")]
    return [name for name in names if name not in {"", "identity"}]


def unpacked(header: str | None, body: bytes, limit: int) -> bytes | None:
    """Return the beginning of a body that may be cut off; None if it cannot be unpacked, or was packed twice.

    Args:
        header: Its Content-Encoding.
        body: As it came.
        limit: Bytes that are returned at most.
    """
    codings = codings_of(header)
    if not codings:
        return body[:limit]
    if len(codings) > 1 or codings[0] not in _WINDOWS:
        return None
    return _beginning(_WINDOWS[codings[0]], body, limit)


def _beginning(window: int, body: bytes, limit: int) -> bytes | None:
    if limit <= 0:
        return b""  # for zlib, 0 means all of it
    try:
        return zlib.decompressobj(window).decompress(body, limit)
    except zlib.error:
        return _beginning(-zlib.MAX_WBITS, body, limit) if window == zlib.MAX_WBITS else None  # what some call deflate


def counter_for(header: str | None, limit: int) -> "Counter":
    """Return what counts a body.

    Args:
        header: Its Content-Encoding.
        limit: Bytes that it may have once it is unpacked.

    Raises:
        ContentError: If it is packed so that nobody can tell in pieces how long it is.
    """
    codings = codings_of(header)
    if len(codings) > 1 or not _AT_ONE_STROKE.isdisjoint(codings):
        message = f"the answer is packed as {', '.join(codings)[:100]!r}, so its length cannot be limited"
        raise ContentError(message)
    return Counter(_WINDOWS.get(codings[0]) if codings else None, limit)


class Counter:
    """Counts a body as it comes, unpacked, and keeps nothing of it.

    Args:
        window: How zlib is to unpack it; None for one that is not packed.
        limit: Bytes that it may have.
    """

    def __init__(self, window: int | None, limit: int) -> None:
        """Begin with none."""
        self._window, self._limit, self._left = window, limit, limit
        self._zlib = None if window is None else zlib.decompressobj(window)
        self._begun = False

    def count(self, data: bytes) -> None:
        """Count a piece of it.

        Raises:
            BodyTooLargeError: If there are more bytes than there may be.
        """
        if self._zlib is None:
            self._take(len(data))
            return
        more = bool(data)
        while more:
            if self._zlib.eof:  # gzip may consist of several parts; a library unpacks one or all of them
                if not data.startswith(_GZIP) or self._window != _WINDOWS["gzip"]:
                    return
                self._zlib = zlib.decompressobj(self._window)
            try:
                piece = self._zlib.decompress(data, _PIECE)
            except zlib.error:
                if self._window == zlib.MAX_WBITS and not self._begun:
                    self._window, self._begun = -zlib.MAX_WBITS, True
                    self._zlib = zlib.decompressobj(self._window)
                    continue
                self._zlib = None  # it is the library's part to say so; whatever it makes of it is counted as it came
                self._take(len(data))
                return
            self._begun = True
            self._take(len(piece))
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            more = bool(data) or (len(piece) == _PIECE and not self._zlib.eof)  # zlib may hold some back

    def _take(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise too_large(self._limit)
