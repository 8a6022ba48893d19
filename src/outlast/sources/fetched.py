"""What a poll brings home, and who may bring it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from outlast.ports.source_rows import Source

__all__ = ["Changed", "Entry", "Fetched", "Fetcher"]


class Entry(NamedTuple):
    """One entry of a feed.

    Attributes:
        id: What the feed calls it; its link or title where it has no name.
        published: As the feed says it, in ISO form where it can be read.
    """

    id: str
    title: str = ""
    link: str = ""
    published: str | None = None
    summary: str = ""


class Fetched(NamedTuple):
    """What a fetch gave.

    Attributes:
        content: What the user's `on_change` is to have; text, bytes or whatever a fetcher makes of it.
        hash: Tells one content from another; None for the monitor to make one of `content`.
        not_modified: The server says that nothing changed (304); everything else is then left as it was.
        etag: Validator to send next time.
        last_modified: The other one.
        entries: Entries of a feed that are new since `memory`.
        memory: What the fetcher wants to have back in the source next time, as JSON text.
        http_status: Of the answer.
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
    """What `on_change` is called with.

    Attributes:
        source: As it was before this poll.
        fetched: What is new.
        first: Whether it is the first content of this source: there was nothing to compare it with.
    """

    source: Source
    fetched: Fetched
    first: bool


Fetcher = Callable[[Source, Any], Awaitable[Fetched]]
"""Gets a source and the monitor's HTTP client (an httpx2 or httpx AsyncClient); raises what goes wrong."""
