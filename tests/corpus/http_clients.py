"""One function per HTTP client that fetches a URL as a program would, and raises what the client raises.

Each reads the whole body, raises for a bad status where the client knows how to, and decodes JSON where asked. No client
looks at the environment, so a proxy of the machine changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from corpus.case import caught

if TYPE_CHECKING:
    from collections.abc import Callable

_STATUSES = range(400, 600)


@dataclass(frozen=True)
class Ask:
    """What a client is to fetch and how.

    Attributes:
        url: What to fetch.
        headers: Request headers.
        timeout: Seconds for connecting and for every read.
        trust: File of the certificate authority to trust; the system's by default.
        proxy: URL of a proxy.
        parse: Whether the body is decoded as JSON.
        raises: Whether a bad status is raised.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float = 5.0
    trust: str | None = None
    proxy: str | None = None
    parse: bool = False
    raises: bool = True


@cache
def _trusting(authority: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


def _httpx_options(ask: Ask) -> dict[str, Any]:
    return {
        "verify": _trusting(ask.trust),
        "proxy": ask.proxy,
        "timeout": ask.timeout,
        "trust_env": False,
        "follow_redirects": True,
    }


def _finish(response: Any, ask: Ask) -> Any:
    if ask.raises:
        response.raise_for_status()
    if ask.parse:
        response.json()
    return response


def _httpx_like(library: Any, ask: Ask) -> Any:
    with library.Client(**_httpx_options(ask)) as client:
        return _finish(client.get(ask.url, headers=ask.headers), ask)


def with_httpx(ask: Ask) -> Any:
    import httpx

    return _httpx_like(httpx, ask)


def with_httpx2(ask: Ask) -> Any:
    import httpx2

    return _httpx_like(httpx2, ask)


def with_httpx_async(ask: Ask) -> Any:
    import httpx

    async def fetch() -> Any:
        async with httpx.AsyncClient(**_httpx_options(ask)) as client:
            return _finish(await client.get(ask.url, headers=ask.headers), ask)

    return asyncio.run(fetch())


def with_requests(ask: Ask) -> Any:
    import requests

    with requests.Session() as session:
        session.trust_env = False
        proxies = {"http": ask.proxy, "https": ask.proxy} if ask.proxy else None
        response = session.get(
            ask.url, headers=ask.headers, timeout=ask.timeout, verify=ask.trust or True, proxies=proxies
        )
        return _finish(response, ask)


def _urllib3(ask: Ask, retries: Any) -> Any:
    import urllib3

    options = {"ssl_context": _trusting(ask.trust), "timeout": ask.timeout, "retries": retries}
    with urllib3.ProxyManager(ask.proxy, **options) if ask.proxy else urllib3.PoolManager(**options) as pool:
        response = pool.request("GET", ask.url, headers=ask.headers)
        if ask.parse:
            response.json()
        return response


def with_urllib3(ask: Ask) -> Any:
    """Without retries, errors come as they are and a bad status is no error at all."""
    import urllib3

    return _urllib3(ask, urllib3.Retry(connect=False, read=False, other=False, status=False, redirect=3))


def with_urllib3_retry(ask: Ask) -> Any:
    """With retries of its own that give up, every error is a MaxRetryError, and a bad status becomes one."""
    import urllib3

    return _urllib3(ask, urllib3.Retry(0, status_forcelist=_STATUSES if ask.raises else ()))


def with_aiohttp(ask: Ask) -> Any:
    import aiohttp

    async def fetch() -> Any:
        limit = aiohttp.ClientTimeout(total=ask.timeout)
        connector = aiohttp.TCPConnector(ssl=_trusting(ask.trust))
        async with (
            aiohttp.ClientSession(connector=connector, timeout=limit) as session,
            session.get(ask.url, headers=ask.headers, proxy=ask.proxy) as response,
        ):
            if ask.raises:
                response.raise_for_status()
            await (response.json() if ask.parse else response.read())
            return response

    return asyncio.run(fetch())


def with_urllib(ask: Ask) -> Any:
    from urllib import request

    proxies = {"http": ask.proxy, "https": ask.proxy} if ask.proxy else {}
    opener = request.build_opener(request.ProxyHandler(proxies), request.HTTPSHandler(context=_trusting(ask.trust)))
    with opener.open(request.Request(ask.url, headers=ask.headers), timeout=ask.timeout) as response:
        body = response.read()
        if ask.parse:
            json.loads(body)
        return response


def with_http_client(ask: Ask) -> Any:
    from http.client import HTTPConnection, HTTPSConnection

    parts = urlsplit(ask.url)
    if parts.scheme == "https":
        connection = HTTPSConnection(parts.netloc, timeout=ask.timeout, context=_trusting(ask.trust))
    else:
        connection = HTTPConnection(parts.netloc, timeout=ask.timeout)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=ask.headers)
        with connection.getresponse() as response:
            body = response.read()
            if ask.parse:
                json.loads(body)
            return response
    finally:
        connection.close()


CLIENTS: dict[str, Callable[[Ask], Any]] = {
    "httpx": with_httpx,
    "httpx-async": with_httpx_async,
    "httpx2": with_httpx2,
    "requests": with_requests,
    "urllib3": with_urllib3,
    "urllib3-retry": with_urllib3_retry,
    "aiohttp": with_aiohttp,
    "urllib": with_urllib,
    "http.client": with_http_client,
}


def error_of(client: str, ask: Ask) -> BaseException:
    """Return the error that a client raises for a request."""
    error = caught(CLIENTS[client], ask)
    if not isinstance(error, Exception) or isinstance(error, AssertionError):
        raise error
    if closing := getattr(error, "close", None):
        closing()  # urllib's HTTPError holds its connection open
    return error
