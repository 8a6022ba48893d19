"""The ways to send a request through a transport: httpx and httpx2, sync, under asyncio and under trio."""

from __future__ import annotations

import anyio
import httpx
import httpx2
import pytest

from outlast.http import AsyncRetryTransport, RetryTransport


class Way:
    """One of them.

    Args:
        library: httpx or httpx2.
        kind: ``sync``, ``asyncio`` or ``trio``.
    """

    def __init__(self, library, kind):
        self.library, self.kind = library, kind

    def __str__(self):
        return f"{self.library.__name__}-{self.kind}"

    @property
    def is_sync(self):
        return self.kind == "sync"

    def ask(self, url, method="GET", *, inner=None, client=None, stream=False, **given):
        """Send a request through a new client; return the answer, read unless it is streamed."""
        names = {"policy", "cooling", "scope", "patience", "methods", "keys", "max_body", "raises"}
        settings = {name: given.pop(name) for name in names & given.keys()}
        if self.is_sync:
            transport = RetryTransport(inner, **settings)
            with self.library.Client(transport=transport, **(client or {})) as opened:
                if stream:
                    with opened.stream(method, url, **given) as response:
                        return [response.status_code, b"".join(response.iter_bytes())]
                return opened.request(method, url, **given)

        async def ask():
            transport = AsyncRetryTransport(inner, **settings)
            async with self.library.AsyncClient(transport=transport, **(client or {})) as opened:
                if stream:
                    async with opened.stream(method, url, **given) as response:
                        return [response.status_code, b"".join([part async for part in response.aiter_bytes()])]
                return await opened.request(method, url, **given)

        return anyio.run(ask, backend=self.kind)

    def body(self, *parts):
        """Return a body that can be read once."""
        if self.is_sync:
            return iter(parts)

        async def give():
            for part in parts:
                yield part

        return give()


LIBRARIES = [pytest.param(library, id=library.__name__) for library in (httpx, httpx2)]
WAYS = [
    pytest.param(way, id=str(way))
    for way in (Way(library, kind) for library in (httpx, httpx2) for kind in ("sync", "asyncio", "trio"))
]
