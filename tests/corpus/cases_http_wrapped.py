"""Errors of HTTP clients inside other errors: wrapped, interrupted, hidden, grouped, or given up by the client's retries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from corpus.case import Case, caught, caught_async
from corpus.http_clients import CLIENTS, Ask
from outlast import Category

if TYPE_CHECKING:
    from collections.abc import Callable


class ScrapeError(Exception):
    """An exception of a program, which says nothing by its type."""


def _wrapped(client: str, ask: Ask) -> BaseException:
    def scrape() -> None:
        try:
            CLIENTS[client](ask)
        except Exception as error:
            raise ScrapeError("item 7 went wrong") from error

    return caught(scrape)


def _wrapped_twice(client: str, ask: Ask) -> BaseException:
    def run() -> None:
        try:
            raise _wrapped(client, ask)
        except ScrapeError as error:
            raise RuntimeError("the page went wrong") from error

    return caught(run)


def _interrupted(client: str, ask: Ask, by: Exception) -> BaseException:
    """Return an error raised while another was being handled."""

    def scrape() -> None:
        try:
            CLIENTS[client](ask)
        except Exception:
            raise by  # noqa: B904  # without 'from' is the point

    return caught(scrape)


def _hidden(client: str, ask: Ask) -> BaseException:
    def scrape() -> None:
        try:
            CLIENTS[client](ask)
        except Exception:
            raise ScrapeError("item 7 went wrong") from None

    return caught(scrape)


def _grouped(*asks: Ask) -> BaseException:
    import httpx

    async def fetch(ask: Ask) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.get(ask.url)).raise_for_status()

    async def run() -> None:
        errors = await asyncio.gather(*(fetch(ask) for ask in asks), return_exceptions=True)
        raise ExceptionGroup("several went wrong", errors)

    return caught_async(run)


def _given_up_by_adapter(url: str, status: int) -> BaseException:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", HTTPAdapter(max_retries=Retry(1, status_forcelist=[status], backoff_factor=0)))
        return caught(session.get, url, timeout=5)


def _timed_out_from_outside(url: str) -> BaseException:
    import aiohttp

    async def fetch() -> None:
        async with asyncio.timeout(0.1), aiohttp.ClientSession() as session, session.get(url) as response:
            await response.read()

    return caught_async(fetch)


def _pool_empty(server: Any) -> BaseException:
    import httpx

    limits, timeout = httpx.Limits(max_connections=1), httpx.Timeout(5, pool=0.05)
    with (
        httpx.Client(limits=limits, timeout=timeout, trust_env=False) as client,
        client.stream("GET", server.fault("stall-body")),
    ):
        return caught(client.get, server.url())


_LATER = {"Retry-After": "7"}


def _case(name: str, produce: Callable[[Any], Any], category: Category, retryable: bool, **more: Any) -> Case:
    return Case(f"http-wrapped/{name}", lambda world: produce(world.faults), category, retryable, **more)


CASES = [
    _case(
        "503-with-hint",
        lambda s: _wrapped("httpx", Ask(s.answer(503, _LATER))),
        Category.API_TEMPORARY,
        True,
        retry_after=7,
        http_status=503,
    ),
    _case(
        "twice-429-with-hint",
        lambda s: _wrapped_twice("requests", Ask(s.answer(429, _LATER))),
        Category.RATE_LIMIT,
        True,
        retry_after=7,
        http_status=429,
    ),
    _case("404", lambda s: _wrapped("aiohttp", Ask(s.answer(404))), Category.NOT_FOUND, False, http_status=404),
    _case("refused", lambda s: _wrapped("httpx2", Ask(s.refused_url)), Category.NETWORK, True),
    _case("truncated", lambda s: _wrapped_twice("urllib3", Ask(s.fault("truncated"))), Category.NETWORK, True),
    _case("bad-json", lambda s: _wrapped("requests", Ask(s.fault("bad-json"), parse=True)), Category.DATA, False),
    _case(
        "403-with-credentials",
        lambda s: _wrapped("requests", Ask(s.answer(403), {"Authorization": "Bearer s3cret"})),
        Category.AUTHENTICATION,
        False,
        http_status=403,
    ),
    _case(
        "interrupted-refused",
        lambda s: _interrupted("httpx", Ask(s.refused_url), ScrapeError("while cleaning up")),
        Category.NETWORK,
        True,
    ),
    _case(
        "interrupted-401",
        lambda s: _interrupted("requests", Ask(s.answer(401)), ScrapeError("while cleaning up")),
        Category.AUTHENTICATION,
        False,
        http_status=401,
    ),
    _case(
        "interrupted-by-something-known",
        lambda s: _interrupted("httpx", Ask(s.answer(503)), FileNotFoundError(2, "No such file", "cookies.txt")),
        Category.NOT_FOUND,
        False,
    ),
    _case("hidden-503", lambda s: _hidden("httpx", Ask(s.answer(503))), Category.UNKNOWN, False),
    _case("hidden-refused", lambda s: _hidden("urllib3", Ask(s.refused_url)), Category.UNKNOWN, False),
    _case(
        "group-worst-leaf",
        lambda s: _grouped(Ask(s.refused_url), Ask(s.answer(401)), Ask(s.answer(503))),
        Category.AUTHENTICATION,
        False,
        http_status=401,
    ),
    _case("group-all-refused", lambda s: _grouped(Ask(s.refused_url), Ask(s.refused_url)), Category.NETWORK, True),
    _case(
        "adapter-503", lambda s: _given_up_by_adapter(s.answer(503), 503), Category.API_TEMPORARY, True, http_status=503
    ),
    _case(
        "adapter-429", lambda s: _given_up_by_adapter(s.answer(429), 429), Category.RATE_LIMIT, True, http_status=429
    ),
    _case("timeout-from-outside", lambda s: _timed_out_from_outside(s.fault("stall")), Category.NETWORK, True),
    _case("pool-empty", _pool_empty, Category.NETWORK, True),
]
