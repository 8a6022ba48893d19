"""The transports beside the bare clients and beside other retries: without faults, and with one answer in ten a 503.

The server is a process of its own. Nobody waits between attempts, and sleeping is replaced by nothing for those who
sleep for a wait of zero. Time is per answer that the caller gets, so a retry counts as time and not as a request. The
clock of the bounds is the wall's, as they are about requests per second; the client's own CPU time is shown beside it,
as it hardly notices what else a machine has to do.
"""

# ruff: noqa: A005  # sections are named after what they measure, and are imported as benchmarks.http

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import httpx
import httpx2
import httpx_retries
import requests
import requests.adapters
import tenacity
import urllib3

import outlast
from benchmarks import peers
from benchmarks.http_server import FAULTY, Server
from benchmarks.measure import Result, interleaved, rate
from outlast.http import AsyncRetryTransport, HTTPAdapter, RetryTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from typing import Any

    Get = Callable[[str], Any]
    Gets = dict[str, Get]

ROUNDS, ROUNDS_TOGETHER = 150, 12
ANSWERS = 27
"""Answers per contender and round; with faults, every retrying client meets three 503s on its way to them."""
TOGETHER = 50
LEAK_ANSWERS = 10_000

OURS, DEFAULT = "Outlast", "Outlast, default policy"
RETRIES, TENACITY, URLLIB3 = "httpx-retries", "tenacity", "urllib3 Retry"
POLICY = outlast.RetryPolicy(max_attempts=3, base_delay=0)

_OK = 200


class Spent(NamedTuple):
    """What one answer took: seconds by the clock, and of the client's processor."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Bound:
    """A promise: one contender's rate is at least so many times another's."""

    what: str
    against: str
    at_least: float


def bare(library: Any) -> str:
    """Return the name of a library's client as it comes, which the others are compared with."""
    return f"bare {library.__name__}"


FINE = (Bound(OURS, bare(httpx2), 0.95), Bound(DEFAULT, bare(httpx2), 0.95))
FAULTS = (Bound(OURS, RETRIES, 0.97),)


def run() -> list[Result]:
    """Return the results."""
    with Server() as server, _quiet():
        return [
            *(result for faults in (False, True) for result in _one_by_one(server, faults=faults)),
            *(result for faults in (False, True) for result in _async(server, faults=faults)),
            *_leaks(server),
        ]


def _one_by_one(server: Server, *, faults: bool) -> list[Result]:
    """Sync clients, a request after the other on one connection."""
    results = []
    with ExitStack() as stack:
        for library, gets in (
            (httpx2, _sync(httpx2, stack)),
            (httpx, _sync(httpx, stack)),
            (requests, _requests(stack)),
        ):
            chosen = _those_for(faults, gets)
            contenders = {
                name: partial(
                    _answers, get, _path(server, name, faults=faults), strict=faults and name != bare(library)
                )
                for name, get in chosen.items()
            }
            results += _compared(
                _title(faults, "sync", library), interleaved(contenders, ROUNDS), library, faults=faults
            )
    return results


def _async(server: Server, *, faults: bool) -> list[Result]:
    """Async clients: a request after the other, and fifty at a time."""
    results = []
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            for library in (httpx2, httpx):
                gets = _those_for(faults, runner.run(_opened(library, stack)))
                for what, together in (("async", 1), (f"async, {TOGETHER} at a time", TOGETHER)):
                    if together > 1 and library is httpx and not faults:
                        continue  # its pool makes it slow, and nothing is promised there
                    contenders = {}
                    for name, get in gets.items():
                        paths = [_path(server, f"{name}-{each}", faults=faults) for each in range(together)]
                        strict = faults and name != bare(library)
                        contenders[name] = _running(runner, get, paths, strict=strict)
                    rounds = ROUNDS if together == 1 else ROUNDS_TOGETHER
                    results += _compared(
                        _title(faults, what, library), interleaved(contenders, rounds), library, faults=faults
                    )
        finally:
            runner.run(stack.aclose())
    return results


def _leaks(server: Server) -> list[Result]:
    """What is open after thousands of requests, one in ten of which fails, while the client is still there."""
    results = []
    for library, name in ((httpx2, OURS), (httpx, RETRIES)):
        with ExitStack() as stack:
            get = _sync(library, stack)[name]
            work = partial(_answers, get, _path(server, f"leak-{name}", faults=True), True, LEAK_ANSWERS)  # noqa: FBT003
            results += _left_open(server, _title(True, "sync", library), name, 1, work)  # noqa: FBT003
        with asyncio.Runner() as runner:
            clients = AsyncExitStack()
            get = runner.run(_opened(library, clients))[name]
            paths = [_path(server, f"leak-{name}-{each}", faults=True) for each in range(TOGETHER)]
            many = partial(_together, get, paths, LEAK_ANSWERS // TOGETHER, strict=True)
            what = _title(True, f"async, {TOGETHER} at a time", library)  # noqa: FBT003
            results += _left_open(server, what, name, TOGETHER, partial(_run, runner, many))
            runner.run(clients.aclose())
    return results


def _left_open(server: Server, what: str, name: str, pool: int, work: Callable[[], Spent]) -> list[Result]:
    before = server.seen()
    spent = work()
    after = server.seen()
    sent, needed = after.requests - before.requests, LEAK_ANSWERS * FAULTY // (FAULTY - 1)
    if not needed - TOGETHER <= sent <= needed + TOGETHER:
        raise RuntimeError(f"{what}, {name}: {sent} requests were sent, {needed} were expected")
    bound = pool if name == OURS else None
    against = f"{after.opened - before.opened} opened in all"
    still = after.open - before.open
    title = f"{what}: {name}, open after {LEAK_ANSWERS:,} answers"
    return [Result(title, still, against, bound, spent.wall, unit="open")]


def _sync(library: Any, stack: ExitStack) -> Gets:
    """Return what gets a URL, by contender, for httpx or httpx2."""
    inner = partial(library.HTTPTransport, verify=False, trust_env=False)
    transports = {bare(library): inner(), OURS: RetryTransport(inner(), policy=POLICY)}
    if library is httpx:  # it knows no other: an answer of httpx2 it would not even close
        transports[RETRIES] = httpx_retries.RetryTransport(inner(), retry=httpx_retries.Retry(total=2))
    else:
        transports[DEFAULT] = RetryTransport(inner())
    gets: Gets = {
        name: stack.enter_context(library.Client(transport=transport, trust_env=False)).get
        for name, transport in transports.items()
    }
    if library is httpx:
        return gets
    plain = stack.enter_context(library.Client(transport=inner(), trust_env=False))
    return gets | {TENACITY: _with_tenacity(library, peers.no_sleep)(partial(_checked, plain.get))}


async def _opened(library: Any, stack: AsyncExitStack) -> dict[str, Callable[[str], Awaitable[Any]]]:
    """Return the same for async clients, whose pools hold as many connections as there are requests at a time."""
    limits = library.Limits(max_connections=TOGETHER, max_keepalive_connections=TOGETHER)
    inner = partial(library.AsyncHTTPTransport, verify=False, trust_env=False, limits=limits)
    transports = {bare(library): inner(), OURS: AsyncRetryTransport(inner(), policy=POLICY)}
    if library is httpx:
        transports[RETRIES] = httpx_retries.RetryTransport(inner(), retry=httpx_retries.Retry(total=2))
    else:
        transports[DEFAULT] = AsyncRetryTransport(inner())
    gets: Gets = {}
    for name, transport in transports.items():
        client = await stack.enter_async_context(library.AsyncClient(transport=transport, trust_env=False))
        gets[name] = client.get
    if library is httpx:
        return gets
    plain = await stack.enter_async_context(library.AsyncClient(transport=inner(), trust_env=False))

    async def checked(url: str) -> Any:
        return (await plain.get(url)).raise_for_status()

    return gets | {TENACITY: _with_tenacity(library, peers.no_sleep_async)(checked)}


def _requests(stack: ExitStack) -> Gets:
    """Return the same for requests."""
    retry = urllib3.Retry(total=2, backoff_factor=0, status_forcelist=(503,))
    adapters: dict[str, Any] = {
        bare(requests): requests.adapters.HTTPAdapter(),
        OURS: HTTPAdapter(policy=POLICY),
        DEFAULT: HTTPAdapter(),
        URLLIB3: requests.adapters.HTTPAdapter(max_retries=retry),
    }
    gets: Gets = {}
    for name, adapter in adapters.items():
        session = stack.enter_context(requests.Session())
        session.trust_env = False
        session.mount("http://", adapter)
        gets[name] = session.get
    return gets


def _with_tenacity(library: Any, sleep: Callable[[float], Any]) -> Callable[[Get], Get]:
    wrap: Callable[[Get], Get] = tenacity.retry(
        retry=tenacity.retry_if_exception_type((library.TransportError, library.HTTPStatusError)),
        stop=tenacity.stop_after_attempt(3),
        wait=tenacity.wait_none(),
        sleep=sleep,
        reraise=True,
    )
    return wrap


def _checked(get: Get, url: str) -> Any:
    return get(url).raise_for_status()


def _those_for(faults: bool, gets: Gets) -> Gets:  # noqa: FBT001
    """Leave those out that would wait: the default policy does after a 503."""
    return {name: get for name, get in gets.items() if not (faults and name == DEFAULT)}


def _answers(get: Get, url: str, strict: bool, number: int = ANSWERS) -> Spent:  # noqa: FBT001
    """Get a URL so many times."""
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(number):
        if get(url).status_code != _OK and strict:
            raise RuntimeError(f"{url}: a 503 came through")
    return Spent((time.perf_counter() - start) / number, (time.process_time() - cpu) / number)


async def _together(get: Get, urls: list[str], number: int, *, strict: bool) -> Spent:
    """Get several URLs at a time, each so many times."""

    async def one(url: str) -> None:
        for _ in range(number):
            if (await get(url)).status_code != _OK and strict:
                raise RuntimeError(f"{url}: a 503 came through")

    start, cpu = time.perf_counter(), time.process_time()
    if len(urls) == 1:
        await one(urls[0])
    else:
        await asyncio.gather(*map(one, urls))
    answers = number * len(urls)
    return Spent((time.perf_counter() - start) / answers, (time.process_time() - cpu) / answers)


def _run(runner: asyncio.Runner, function: Callable[[], Coroutine[Any, Any, Spent]]) -> Spent:
    return runner.run(function())


def _running(runner: asyncio.Runner, get: Get, urls: list[str], *, strict: bool) -> Callable[[], Spent]:
    number = ANSWERS if len(urls) == 1 else FAULTY - 1  # of each, so that each meets one 503
    return partial(_run, runner, partial(_together, get, urls, number, strict=strict))


def _compared(what: str, spent: dict[str, list[Spent]], library: Any, *, faults: bool) -> list[Result]:
    """Return the promises with the CPU time beside them, then everybody's rate against the bare client."""
    wall = {name: [each.wall for each in rounds] for name, rounds in spent.items()}
    cpu = {name: [each.cpu for each in rounds] for name, rounds in spent.items()}
    bounds = FAULTS if faults else FINE
    promised = [bound for bound in bounds if bound.what in wall and bound.against in wall]
    results = []
    for bound in promised:
        pair = (bound.what, bound.against)
        results += [rate(wall, f"{what}: {bound.what}", pair, bound.at_least), rate(cpu, f"{what}: {bound.what}, CPU", pair, None)]  # fmt: skip
    base = bare(library)
    told = {(base, base), *((bound.what, bound.against) for bound in promised)}
    results += [rate(wall, f"{what}: {name}", (name, base), None) for name in wall if (name, base) not in told]
    return results


def _title(faults: bool, what: str, library: Any) -> str:  # noqa: FBT001
    return f"{10 if faults else 0} % faults, {what}, {library.__name__}"


def _path(server: Server, name: str, *, faults: bool) -> str:
    return f"{server.url}/flaky/{name.replace(' ', '-').replace(',', '')}" if faults else f"{server.url}/"


@contextmanager
def _quiet() -> Iterator[None]:
    """Let nobody write logs, and httpx-retries not sleep for a wait of zero, which costs more than all it does."""
    log = logging.getLogger("outlast")
    before = log.level
    log.setLevel(logging.CRITICAL)
    asleep = mock.patch("httpx_retries.retry.asyncio", SimpleNamespace(sleep=peers.no_sleep_async))
    try:
        with mock.patch("httpx_retries.retry.time", SimpleNamespace(sleep=peers.no_sleep)), asleep:
            yield
    finally:
        log.setLevel(before)
