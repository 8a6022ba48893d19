"""The faults an HTTP client can meet, each with the request that runs into it and what it means.

`cases_http_faults` makes a case of every fault and client; `test_clients_agree` compares the clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from corpus.http_clients import CLIENTS, Ask
from outlast import Category

if TYPE_CHECKING:
    from collections.abc import Callable

TEMPORARY = frozenset({Category.NETWORK, Category.RATE_LIMIT, Category.API_TEMPORARY})
"""What may pass by itself, of the categories an HTTP client can meet."""

STALLED = 0.2
"""Seconds that a client waits for a server that says nothing."""

EVERY = tuple(CLIENTS)
LIBRARIES = tuple(name for name in EVERY if name not in {"urllib", "http.client"})
STRICT = tuple(name for name in LIBRARIES if "httpx" in name or name == "aiohttp")  # whose parsers accept least


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: What is wrong.
        ask: Makes the request, given the server.
        category: What it means.
        clients: Which clients notice it at all.
    """

    name: str
    ask: Callable[[Any], Ask]
    category: Category
    clients: tuple[str, ...] = EVERY


def _without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in EVERY if name not in names)


def _at(name: str, category: Category, clients: tuple[str, ...] = EVERY, **how: Any) -> Fault:
    """Make a fault of the server's of that name; `how` goes to the request."""
    return Fault(name, lambda server: Ask(server.fault(name), **how), category, clients)


def _tls(name: str, **how: Any) -> Fault:
    """Make a fault of TLS that a client meets although it trusts the server's authority."""
    return Fault(f"tls-{name}", lambda server: Ask(server.tls(name), trust=server.ca_file, **how), Category.NETWORK)


_FOLLOWS = _without("http.client")  # which leaves redirects and proxies to its caller

NETWORK = [
    Fault("refused", lambda server: Ask(server.refused_url), Category.NETWORK),
    Fault("unresolvable", lambda server: Ask(server.unresolvable_url), Category.NETWORK),
    Fault("proxy-refused", lambda s: Ask(s.url(), proxy=s.refused_url), Category.NETWORK, _FOLLOWS),
    Fault("proxy-unresolvable", lambda s: Ask(s.url(), proxy=s.unresolvable_url), Category.NETWORK, _FOLLOWS),
    _at("reset", Category.NETWORK),
    _at("reset-body", Category.NETWORK),
    _at("close", Category.NETWORK),
    _at("stall", Category.NETWORK, timeout=STALLED),
    _at("stall-body", Category.NETWORK, timeout=STALLED),
    _at("garbage-status", Category.NETWORK),
    _at("garbage-chunk", Category.NETWORK),
    _at("garbage-length", Category.NETWORK, STRICT),
    _at("truncated", Category.NETWORK),
    _at("truncated-chunk", Category.NETWORK),
    _at("truncated-headers", Category.NETWORK, STRICT),
    Fault("tls-untrusted", lambda server: Ask(server.tls("untrusted")), Category.NETWORK),
    *(_tls(name) for name in ("wrong-host", "expired", "handshake-reset", "handshake-close", "plain")),
    _tls("handshake-stall", timeout=STALLED),
]

DATA = [
    _at("redirect-loop", Category.DATA, _FOLLOWS),
    _at("broken-gzip", Category.DATA, LIBRARIES),
    _at("broken-deflate", Category.DATA, LIBRARIES),
    _at("bad-json", Category.DATA, parse=True),
    _at("wrong-type", Category.DATA, parse=True),
    _at("empty", Category.DATA, _without("aiohttp"), parse=True),
    _at("bad-utf8", Category.DATA, _without("requests"), parse=True),
]


def _mistakes() -> list[Fault]:
    """Mistakes in the request itself; http.client is given a host, so it sees few of them."""
    urls = {
        "scheme-unsupported": ("htp://example.test/", _FOLLOWS),
        "scheme-missing": ("/example.test/feed", _FOLLOWS),
        "url-empty": ("", _FOLLOWS),
        "host-missing": ("http://", _FOLLOWS),
        "host-malformed": ("http://[::1/", EVERY),
        "port-malformed": ("http://127.0.0.1:port/", EVERY),
        "host-label-too-long": (f"http://{'a' * 70}.invalid/", _without("httpx-async")),
    }
    faults = [Fault(name, lambda _, url=url: Ask(url), Category.CONFIGURATION, to) for name, (url, to) in urls.items()]
    bad_header = {"X-Note": "two\r\nlines"}
    faults.append(
        Fault("header-malformed", lambda s: Ask(s.url(), bad_header), Category.INVALID_PARAMETERS, _without("aiohttp"))
    )
    faults.append(
        Fault(
            "proxy-wants-login",
            lambda server: Ask("https://example.test/", proxy=server.url()),
            Category.AUTHENTICATION,
            _FOLLOWS,
        )
    )
    return faults


FAULTS = [*NETWORK, *DATA, *_mistakes()]

STATUSES: dict[int, Category] = {
    400: Category.INVALID_PARAMETERS,
    401: Category.AUTHENTICATION,
    402: Category.QUOTA_EXHAUSTED,
    403: Category.ACCESS_DENIED,
    404: Category.NOT_FOUND,
    405: Category.INVALID_PARAMETERS,
    408: Category.API_TEMPORARY,
    409: Category.INVALID_PARAMETERS,
    410: Category.NOT_FOUND,
    418: Category.INVALID_PARAMETERS,
    422: Category.INVALID_PARAMETERS,
    425: Category.API_TEMPORARY,
    429: Category.RATE_LIMIT,
    500: Category.API_TEMPORARY,
    501: Category.INVALID_PARAMETERS,
    502: Category.API_TEMPORARY,
    503: Category.API_TEMPORARY,
    504: Category.API_TEMPORARY,
    505: Category.INVALID_PARAMETERS,
    507: Category.API_TEMPORARY,
    529: Category.API_TEMPORARY,
}
"""What a status means where nothing else was said; no credentials were sent."""
