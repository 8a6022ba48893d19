"""The access middleware, which every request passes before it is routed.

It checks in this order: the host name, the origin of a request that changes something, the caller, and the role.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.web.access.callers import Access, Role, set_caller
from outlast.web.access.hosts import is_same_origin, single_header, split_host
from outlast.web.endpoints import API_PREFIX
from outlast.web.error_pages import ErrorPage, error_page_for
from outlast.web.headers import with_security_headers
from outlast.web.routing import PREFIX_KEY, mount_path, query_params, relative_path

_SAFE_METHODS = {"GET", "HEAD"}
_UNKNOWN_HOST_TEXT = (
    "This host name is not allowed.\nAllow it when you start the dashboard: "
    "outlast web --allow-host NAME, or dashboard(app, hosts=[NAME]).\n"
)
_CROSS_ORIGIN_PAGE = ErrorPage(
    403,
    "Cross-origin request",
    "Changes are only accepted from the dashboard's own pages and from programs that send a token. If you are on a "
    "page of the dashboard, a proxy may have changed the headers Host or Origin.",
)
_READ_ONLY_PAGE = ErrorPage(403, "Not allowed", "You have read access only.")

RespondToError = Callable[[Request, ErrorPage], Awaitable[Response]]


class AccessMiddleware:
    """Passes allowed requests on, and rejects the others.

    Args:
        app: The next ASGI app.
        access: Identifies callers.
        names: Allowed host names.
        is_open: Returns whether a path needs no sign-in.
        respond: Makes the response of an error page.
        request_sign_in: Makes the response to an unknown caller.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        names: frozenset[str],
        is_open: Callable[[str], bool],
        respond: RespondToError,
        request_sign_in: Callable[[Request], Awaitable[Response]],
    ) -> None:
        self._app, self._access, self._names, self._is_open = app, access, names, is_open
        self._respond, self._request_sign_in = respond, request_sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; pass on any other scope, but reject WebSockets."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            await self._handle(scope, receive, with_security_headers(scope, send))
        else:
            await self._app(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def track_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        below = scope["path"].removeprefix(scope.get("root_path", ""))
        path = API_PREFIX if below.startswith(f"{API_PREFIX}/") else "/"  # until the path is known to be valid
        inner = {**scope, "root_path": "", PREFIX_KEY: mount_path(scope), "path": path}
        request = Request(inner, receive)
        try:
            rejection = await self._rejection(scope, request)
            if rejection is None:
                await self._app(inner, receive, track_start)
                return
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  # no internal detail may reach the client
            if started:
                error_page_for(error)  # for the log; the response is already being sent
                raise _PartialResponseError from None
            rejection = await self._respond(request, error_page_for(error))
        await rejection(inner, receive, send)

    async def _rejection(self, scope: Scope, request: Request) -> Response | None:
        """Return the response that rejects a request; None if it is allowed."""
        host = single_header(scope["headers"], b"host")
        name = split_host(host)
        if name is None or name[0] not in self._names:
            return PlainTextResponse(_UNKNOWN_HOST_TEXT, 400)
        request.scope["path"] = relative_path(scope)
        query_params(scope)  # raises if it is not valid
        is_read = request.method in _SAFE_METHODS
        if not is_read and not _is_trusted_origin(scope, host):
            return await self._respond(request, _CROSS_ORIGIN_PAGE)
        caller = await self._access.caller(scope)
        set_caller(request.scope, caller)
        if self._is_open(request.scope["path"]):
            return None
        if caller is None:
            return await self._request_sign_in(request)
        if not is_read and caller.role is not Role.OPERATOR:
            return await self._respond(request, _READ_ONLY_PAGE)
        return None


class _PartialResponseError(Exception):
    """Closes a connection whose response failed halfway; the cause was already logged, without secrets."""


def _is_trusted_origin(scope: Scope, host: str | None) -> bool:
    """Return whether a request that changes something comes from a page of the dashboard, or a program with a token.

    Browsers and the dashboard's pages never send such a token.
    """
    headers = scope["headers"]
    if any(name.lower() == b"origin" for name, _ in headers):
        return is_same_origin(single_header(headers, b"origin"), host, scope.get("scheme", "http"))
    bearer = (single_header(headers, b"authorization") or "").lower().startswith("bearer ")
    return bearer and not any(name.lower() == b"cookie" for name, _ in headers)
