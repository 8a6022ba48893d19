"""The one way in: every request passes here before anything answers it.

In this order: the name under which the dashboard was asked for; where a request that changes something comes from; who
asks; what they may do. Only then the path is looked up.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from outlast.web.access.callers import Access, Role, keep_caller
from outlast.web.access.hosts import is_same_origin, only, split_host
from outlast.web.addresses import PREFIX, mount_of, path_below, query_of
from outlast.web.headers import fresh_nonce, guarded, keep_nonce
from outlast.web.troubles import Trouble, trouble_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Gate"]

_READS = {"GET", "HEAD"}
_NO_HOST = (
    "The dashboard does not answer under this name.\nAllow it where the dashboard is started: "
    "outlast web --allow-host NAME, or dashboard(app, hosts=[NAME]).\n"
)
_FOREIGN = Trouble(
    403,
    "Not from here",
    "Changes are accepted from the dashboard's own pages, and from programs that send a token. If you are on such a "
    "page, a proxy in between may have changed the headers Host or Origin.",
)
_READER = Trouble(403, "Not allowed", "You may look, but not change anything.")

Telling = Callable[[Request, Trouble], Awaitable[Response]]


class Gate:
    """Lets requests through to those who answer them, or answers that they are not.

    Args:
        app: Who answers.
        access: Knows who asks.
        names: Under which the dashboard answers.
        is_open: Tells whether a path is open to all.
        tell: Makes an answer of what is wrong.
        ask_in: Answers somebody who is not known.
    """

    def __init__(
        self,
        app: "ASGIApp",
        *,
        access: Access,
        names: frozenset[str],
        is_open: Callable[[str], bool],
        tell: Telling,
        ask_in: Callable[[Request], Awaitable[Response]],
    ) -> None:
        """Keep what it needs."""
        self._app, self._access, self._names, self._is_open = app, access, names, is_open
        self._tell, self._ask_in = tell, ask_in

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Take a request, or whatever else a server sends."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            nonce = fresh_nonce()
            keep_nonce(scope, nonce)
            await self._answer(scope, receive, guarded(scope, send, nonce))
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        began = False

        async def noting(message: "Message") -> None:
            nonlocal began
            began = True
            await send(message)

        inner = {**scope, "root_path": "", PREFIX: mount_of(scope), "path": "/"}
        request = Request(inner, receive)
        try:
            refused = await self._refused(scope, request)
            if refused is None:
                await self._app(inner, receive, noting)
                return
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  # whatever it is, nobody sees its inside
            if began:
                trouble_of(error)  # for the log; the answer is on its way already
                raise _HalfAnsweredError from None
            refused = await self._tell(request, trouble_of(error))
        await refused(inner, receive, send)

    async def _refused(self, scope: "Scope", request: Request) -> Response | None:
        """Return the answer to a request that does not get through; None for one that does."""
        host = only(scope["headers"], b"host")
        name = split_host(host)
        if name is None or name[0] not in self._names:
            return PlainTextResponse(_NO_HOST, 400)
        request.scope["path"] = path_below(scope)
        query_of(scope)  # refuses what cannot be read
        reads = request.method in _READS
        if not reads and not _may_change(scope, host):
            return await self._tell(request, _FOREIGN)
        caller = await self._access.caller(scope)
        keep_caller(request.scope, caller)
        if self._is_open(request.scope["path"]):
            return None
        if caller is None:
            return await self._ask_in(request)
        if not reads and caller.role is not Role.OPERATOR:
            return await self._tell(request, _READER)
        return None


class _HalfAnsweredError(Exception):
    """Ends a connection whose answer broke off; what broke it was logged already, without secrets."""


def _may_change(scope: "Scope", host: str | None) -> bool:
    """Tell whether a request that changes something comes from our pages, or from a program that shows its token.

    No browser adds such a token by itself, and none of our pages does.
    """
    headers = scope["headers"]
    if any(name.lower() == b"origin" for name, _ in headers):
        return is_same_origin(only(headers, b"origin"), host, scope.get("scheme", "http"))
    bearer = (only(headers, b"authorization") or "").lower().startswith("bearer ")
    return bearer and not any(name.lower() == b"cookie" for name, _ in headers)
