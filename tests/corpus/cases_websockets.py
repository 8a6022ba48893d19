"""websockets: real clients and servers on loopback, every close code, and handshakes that are refused."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught_async
from outlast import Category as C
from outlast import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

RETRIED = {C.NETWORK, C.API_TEMPORARY, C.RATE_LIMIT}


@asynccontextmanager
async def talking(handle: Callable[[Any], Any], **options: Any) -> AsyncIterator[Any]:
    """Serve with one handler and yield a client's connection to it."""
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve

    async with serve(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None, **options) as connection:
            yield connection


def closed(code: int, reason: str, _: World) -> BaseException:
    """The server closes with this code while the client waits for a message."""

    async def run() -> None:
        async with talking(lambda server: server.close(code, reason)) as connection:
            await connection.recv()

    return caught_async(run)


def _cut(server: Any) -> Any:
    server.transport.abort()
    return asyncio.sleep(0)


async def _send_nonsense(server: Any) -> None:
    server.transport.write(b"\xff\xff nonsense")
    await asyncio.sleep(0.2)


async def _wait(server: Any) -> None:
    await server.wait_closed()


async def _send_bad_text(server: Any) -> None:
    await server.send(b"\xff\xfe", text=True)
    await server.wait_closed()


def during(handle: Callable[[Any], Any], options: dict[str, Any], act: Callable[[Any], Any], _: World) -> BaseException:
    async def run() -> None:
        async with talking(handle, **options) as connection:
            await act(connection)

    return caught_async(run)


def connecting(url: Callable[[Any], str], options: dict[str, Any], world: World) -> BaseException:
    """Connect to an HTTP server that does not speak WebSocket."""
    from websockets.asyncio.client import connect, process_exception

    async def run() -> None:
        no_retry = {"process_exception": lambda error: error} if process_exception else {}
        await connect(url(world.faults), **{"proxy": None, **no_retry, **options})

    return caught_async(run)


def _ws(url: str) -> str:
    return url.replace("http", "ws", 1)


# Close code, reason, category.
CODES: dict[str, tuple[int, str, C]] = {
    "1000 normal": (1000, "", C.UNKNOWN),
    "1001 going away": (1001, "", C.NETWORK),
    "1002 protocol error": (1002, "", C.INVALID_PARAMETERS),
    "1003 unsupported data": (1003, "", C.INVALID_PARAMETERS),
    "1007 invalid payload": (1007, "", C.INVALID_PARAMETERS),
    "1008 policy": (1008, "", C.ACCESS_DENIED),
    "1008 bad token": (1008, "invalid token", C.AUTHENTICATION),
    "1008 too fast": (1008, "rate limit exceeded", C.RATE_LIMIT),
    "1009 too big": (1009, "", C.INVALID_PARAMETERS),
    "1011 internal error": (1011, "", C.API_TEMPORARY),
    "1012 service restart": (1012, "", C.API_TEMPORARY),
    "1013 try again later": (1013, "", C.API_TEMPORARY),
    "1014 bad gateway": (1014, "", C.API_TEMPORARY),
    "3000 unauthorized": (3000, "", C.AUTHENTICATION),
    "3008 timeout": (3008, "", C.API_TEMPORARY),
    "4000 without a reason": (4000, "", C.UNKNOWN),
    "4001 with a reason": (4001, "authentication failed", C.AUTHENTICATION),
    "4008 with a reason": (4008, "you are being rate limited", C.RATE_LIMIT),
    "4401": (4401, "", C.AUTHENTICATION),
    "4403": (4403, "", C.ACCESS_DENIED),
    "4429": (4429, "", C.RATE_LIMIT),
    "4500": (4500, "", C.API_TEMPORARY),
}

# What the server does, the client's options, what the client does, category, code.
MISHAPS: dict[str, tuple[Callable[[Any], Any], dict[str, Any], Callable[[Any], Any], C, str | None]] = {
    "lost without closing": (_cut, {}, lambda it: it.recv(), C.NETWORK, "1006"),
    "frames are nonsense": (_send_nonsense, {}, lambda it: it.recv(), C.DATA, "1002"),
    "text is not UTF-8": (_send_bad_text, {}, lambda it: it.recv(), C.DATA, "1007"),
    "message too big": (lambda it: it.send("x" * 999), {"max_size": 99}, lambda it: it.recv(), C.DATA, "1009"),
    "nothing in time": (_wait, {}, lambda it: asyncio.wait_for(it.recv(), 0.02), C.NETWORK, None),
    "two readers": (_wait, {}, lambda it: asyncio.gather(it.recv(), it.recv()), C.INVALID_PARAMETERS, None),
}

# Where the client connects to, its options, category, status, seconds to wait.
HANDSHAKES: dict[str, tuple[Callable[[Any], str], dict[str, Any], C, int | None, float | None]] = {
    **{
        f"handshake {status}": (lambda it, status=status: _ws(it.answer(status)), {}, category, status, None)
        for status, category in {
            200: C.DATA, 400: C.INVALID_PARAMETERS, 401: C.AUTHENTICATION, 403: C.ACCESS_DENIED, 404: C.NOT_FOUND,
            500: C.API_TEMPORARY, 502: C.API_TEMPORARY,
        }.items()
    },
    "handshake 429": (lambda it: _ws(it.answer(429, {"Retry-After": "9"})), {}, C.RATE_LIMIT, 429, 9),
    "handshake 503": (lambda it: _ws(it.answer(503, {"Retry-After": "7"})), {}, C.API_TEMPORARY, 503, 7),
    "refused": (lambda it: _ws(it.refused_url), {}, C.NETWORK, None, None),
    "name not resolved": (lambda it: _ws(it.unresolvable_url), {}, C.NETWORK, None, None),
    "handshake cut off": (lambda it: _ws(it.fault("close")), {}, C.NETWORK, None, None),
    "no HTTP": (lambda it: _ws(it.fault("garbage-status")), {}, C.NETWORK, None, None),
    "handshake stalls": (lambda it: _ws(it.fault("stall")), {"open_timeout": 0.05}, C.NETWORK, None, None),
    "untrusted certificate": (lambda it: _ws(it.tls("untrusted")), {}, C.NETWORK, None, None),
    "no WebSocket URL": (lambda it: it.url("/"), {}, C.CONFIGURATION, None, None),
}  # fmt: skip


def through_proxy(world: World) -> BaseException:
    return connecting(lambda it: "ws://elsewhere.test/", {"proxy": world.faults.url("").rstrip("/")}, world)


def _cases() -> list[Case]:
    cases = [
        Case(
            f"websockets/{name}", partial(closed, code, reason), category, category in RETRIED,
            code=str(code), origin=Origin.HTTP,
        )
        for name, (code, reason, category) in CODES.items()
    ]  # fmt: skip
    cases += [
        Case(f"websockets/{name}", partial(during, handle, options, act), category, category in RETRIED, code=code)
        for name, (handle, options, act, category, code) in MISHAPS.items()
    ]
    cases += [
        Case(
            f"websockets/{name}",
            partial(connecting, url, options),
            category,
            category in RETRIED,
            http_status=status,
            retry_after=wait,
        )
        for name, (url, options, category, status, wait) in HANDSHAKES.items()
    ]
    cases.append(Case("websockets/proxy refuses", through_proxy, C.AUTHENTICATION, False, http_status=407))
    return cases


CASES: list[Case] = _cases()
