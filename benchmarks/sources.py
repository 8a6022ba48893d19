"""A cycle of the monitor over 2,000 sources, a hundred at a time, beside a plain gather of GETs over the same URLs.

The gather keeps nothing: no validators, no states, no history, no lease. What the monitor takes longer is what that
costs, with the sources in `memory://` and in a SQLite file. All sources are on one host, so its limit per host is that
of the whole.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

import outlast
from benchmarks.http_server import Server
from benchmarks.measure import Result, interleaved, rate
from outlast.ports.source_rows import NewSource
from outlast.sources.fetchers import Fetched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from outlast.ports.source_rows import Source
    from outlast.sources.monitor import Monitor

ROUNDS = 5
SOURCES = 2_000
TOGETHER = 100
GATHER = "gather of httpx2 GETs"


def run() -> list[Result]:
    """Return the results."""
    with Server() as server, ExitStack() as stack, _quiet():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        urls = [f"{server.url}/source/{number}" for number in range(SOURCES)]
        name, contenders = "", {GATHER: partial(_timed, partial(_gathered, urls))}
        for store, place in (("memory", "memory://"), ("SQLite", f"sqlite:///{folder / 'sources.db'}")):
            app = stack.enter_context(closing(outlast.App(place)))
            app.sources.add_many([NewSource(url, "feed") for url in urls])
            monitor = app.monitor("feed", fetch=_fetch, concurrency=TOGETHER, per_host=TOGETHER)
            name = f"monitor, {store}"
            contenders[name] = partial(_timed, partial(_cycle, monitor))
        times = interleaved(contenders, ROUNDS)
        before = server.seen()
        last = contenders[name]()
        after = server.seen()
    if after.requests - before.requests != SOURCES:
        raise RuntimeError(f"{after.requests - before.requests} requests were made, {SOURCES} were expected")
    what = f"{SOURCES:,} sources, {TOGETHER} at a time"
    return [
        *(rate(times, f"{what}: {name}", (name, GATHER), None) for name in times),
        Result(f"{what}: {name}, connections", after.most, "at once", TOGETHER, last, unit="open"),
    ]


async def _fetch(source: Source, client: Any) -> Fetched:
    """Fetch with as little as can be: what a feed or a page is made of is not measured."""
    response = (await client.get(source.url)).raise_for_status()
    return Fetched(response.content, http_status=response.status_code)


async def _cycle(monitor: Monitor) -> None:
    summary = await monitor.cycle_async()
    if summary is None or summary.cycle.polled != SOURCES or summary.cycle.failed:
        raise RuntimeError(f"not all sources were polled: {summary}")


async def _gathered(urls: list[str]) -> None:
    limits = httpx2.Limits(max_connections=TOGETHER, max_keepalive_connections=TOGETHER)
    turn = asyncio.Semaphore(TOGETHER)
    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(limits=limits)) as client:

        async def get(url: str) -> bytes:
            async with turn:
                return (await client.get(url)).raise_for_status().content

        await asyncio.gather(*map(get, urls))


def _timed(work: Any) -> float:
    start = time.perf_counter()
    asyncio.run(work())
    return (time.perf_counter() - start) / SOURCES


@contextmanager
def _quiet() -> Iterator[None]:
    log = logging.getLogger("outlast")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
