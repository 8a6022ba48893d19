"""Bodies of httpx and httpx2 with an eye on them: read once or again, begun already, or longer than they may be.

Both libraries ask for instances of their own classes; `Library` makes such classes of these.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from outlast.http.unpacking import Counter

__all__ = ["Again", "Capped", "Chained", "Once", "can_be_read_again", "is_seekable"]


def is_seekable(file: Any) -> bool:
    """Tell whether a file can be read again from where it stands."""
    try:
        file.tell()
        return bool(file.seekable())
    except Exception:  # noqa: BLE001  # any object with a read()
        return False


def can_be_read_again(stream: Any) -> bool:
    """Tell whether a request's body gives the same each time it is read, without our help."""
    if type(stream).__name__ == "MultipartStream" and isinstance(fields := getattr(stream, "fields", None), list):
        files = [getattr(field, "file", b"") for field in fields]
        return all(isinstance(file, bytes | str) or is_seekable(file) for file in files)
    return isinstance(getattr(stream, "_stream", None), list | tuple)


class _Body:
    """What all of them share: closing closes what was wrapped."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Once(_Body):
    """A request's body, and whether anybody has begun to read it."""

    begun = False

    def __iter__(self) -> Iterator[bytes]:
        self.begun = True
        yield from self._stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        async for chunk in self._stream:
            yield chunk


class Again(_Body):
    """A request's body that is a file: read from where it stood, each time."""

    def __init__(self, stream: Any, file: Any) -> None:
        super().__init__(stream)
        self._file, self._position = file, file.tell()

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(self._position)
        yield from self._stream


class Chained(_Body):
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


class Capped(_Body):
    """An answer's body that ends in an error when it is longer than it may be, before anybody unpacks so much.

    Args:
        stream: The body as it comes over the wire.
        counter: Counts it.
    """

    def __init__(self, stream: Any, counter: Counter) -> None:
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
