"""The one way in: every request passes here before anything answers it.

In this order: the name under which the dashboard was asked for; where a request that changes something comes from; who
asks; what they may do. Only then the path is looked up.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from outlast.web.access.callers import Access, Role, set_caller
from outlast.web.access.hosts import is_same_origin, single_header, split_host
from outlast.web.error_pages import ErrorPage, error_page_for
from outlast.web.headers import new_nonce, set_nonce, with_security_headers
from outlast.web.routing import PREFIX_KEY, mount_path, query_params, relative_path

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_SAFE_METHODS = {"GET", "HEAD"}
_UNKNOWN_HOST_TEXT = (
    "The dashboard does not answer under this name.\nAllow it where the dashboard is started: "
    "outlast web --allow-host NAME, or dashboard(app, hosts=[NAME]).\n"
)
_CROSS_ORIGIN_PAGE = ErrorPage(
    403,
    "Not from here",
    "Changes are accepted from the dashboard's own pages, and from programs that send a token. If you are on such a "
    "page, a proxy in between may have changed the headers Host or Origin.",
)
_READ_ONLY_PAGE = ErrorPage(403, "Not allowed", "You may look, but not change anything.")

RespondToError = Callable[[Request, ErrorPage], Awaitable[Response]]


class AccessMiddleware:
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
        tell: RespondToError,
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
            nonce = new_nonce()
            set_nonce(scope, nonce)
            await self._answer(scope, receive, with_security_headers(scope, send, nonce))
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        began = False

        async def noting(message: "Message") -> None:
            nonlocal began
            began = True
            await send(message)

        inner = {**scope, "root_path": "", PREFIX_KEY: mount_path(scope), "path": "/"}
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
                error_page_for(error)  # for the log; the answer is on its way already
                raise _PartialResponseError from None
            refused = await self._tell(request, error_page_for(error))
        await refused(inner, receive, send)

    async def _refused(self, scope: "Scope", request: Request) -> Response | None:
        """Return the answer to a request that does not get through; None for one that does."""
        host = single_header(scope["headers"], b"host")
        name = split_host(host)
        if name is None or name[0] not in self._names:
            return PlainTextResponse(_UNKNOWN_HOST_TEXT, 400)
        request.scope["path"] = relative_path(scope)
        query_params(scope)  # refuses what cannot be read
        reads = request.method in _SAFE_METHODS
        if not reads and not _is_trusted_origin(scope, host):
            return await self._tell(request, _CROSS_ORIGIN_PAGE)
        caller = await self._access.caller(scope)
        set_caller(request.scope, caller)
        if self._is_open(request.scope["path"]):
            return None
        if caller is None:
            return await self._ask_in(request)
        if not reads and caller.role is not Role.OPERATOR:
            return await self._tell(request, _READ_ONLY_PAGE)
        return None


class _PartialResponseError(Exception):
    """Ends a connection whose answer broke off; what broke it was logged already, without secrets."""


def _is_trusted_origin(scope: "Scope", host: str | None) -> bool:
    """Tell whether a request that changes something comes from our pages, or from a program that shows its token.

    No browser adds such a token by itself, and none of our pages does.
    """
    headers = scope["headers"]
    if any(name.lower() == b"origin" for name, _ in headers):
        return is_same_origin(single_header(headers, b"origin"), host, scope.get("scheme", "http"))
    bearer = (single_header(headers, b"authorization") or "").lower().startswith("bearer ")
    return bearer and not any(name.lower() == b"cookie" for name, _ in headers)
