"""Sources and clients for the tests of what fetches."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import httpx
import httpx2

from outlast.decide.source_health import SourceHealth
from outlast.ports.source_rows import Source
from outlast.sources.fetchers import download

CLIENTS = [httpx, httpx2]
_THEN = datetime(2026, 1, 5, tzinfo=UTC)


def source_of(url, **more):
    """A source that was never polled, but for what is said of it."""
    plain = Source(
        1,
        url,
        "feed",
        "",
        None,
        SourceHealth(),
        None,
        None,
        _THEN,
        None,
        None,
        None,
        None,
        None,
        0,
        None,
        None,
        0,
        None,
        _THEN,
    )
    return plain._replace(**more)


def run(library, fetch, source, **settings):
    """Fetch a source once, with a client of that library."""

    async def once():
        async with library.AsyncClient(trust_env=False, **settings) as client:
            return await fetch(client, source) if fetch is download else await fetch(source, client)

    return asyncio.run(once())


def after(source, fetched):
    """The source as the monitor would keep it."""
    return source._replace(
        etag=fetched.etag, last_modified=fetched.last_modified, memory=fetched.memory, content_hash=fetched.hash
    )
