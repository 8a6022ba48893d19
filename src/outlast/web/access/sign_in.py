"""Sign-in and sign-out: the one-time link, the form, and the session cookie."""

import logging
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from outlast.web.access.callers import Role, get_caller
from outlast.web.access.hosts import cookie_attributes
from outlast.web.access.token_access import READ_VARIABLE, VARIABLE, TokenAccess
from outlast.web.endpoints import Endpoints, json_response
from outlast.web.error_pages import is_api_request
from outlast.web.forms import read_form
from outlast.web.rendering import SIGN_IN, SIGN_OUT, STATIC, Renderer
from outlast.web.routing import MAX_PATH_BYTES, MAX_QUERY_BYTES, PageData, build_url, query_params, url_prefix

LINK_PATH = "/enter"
"""Path of one-time links."""
_OPEN_PATHS = frozenset([LINK_PATH, SIGN_IN, SIGN_OUT])
_STATIC_PREFIX = STATIC.partition("{")[0]
_MAX_FORM_BYTES = 16 * 1024
log = logging.getLogger("outlast.web")


class SignInPages:
    """The endpoints of sign-in and sign-out.

    Args:
        access: Tokens, links and sessions.
        endpoints: Provides the values that every template needs.
        renderer: Renders templates.
        pages: Routes to which a sign-in may redirect.
    """

    def __init__(self, access: TokenAccess, endpoints: Endpoints, renderer: Renderer, pages: Sequence[Route]) -> None:
        self._access, self._endpoints, self._renderer, self._pages = access, endpoints, renderer, pages

    def routes(self) -> list[Route]:
        """Return the routes of sign-in and sign-out."""
        return [
            Route(LINK_PATH, self.enter),
            Route(SIGN_IN, self.show, name="sign_in_page"),
            Route(SIGN_IN, self.sign_in, methods=["POST"]),
            Route(SIGN_OUT, self.sign_out, methods=["POST"]),
        ]

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no sign-in: sign-in and sign-out themselves, and static files."""
        return path in _OPEN_PATHS or path.startswith(_STATIC_PREFIX)

    async def enter(self, request: Request) -> Response:
        """Exchange a one-time link for a session, and redirect to the first page."""
        if request.method == "HEAD":  # a preview must not use the link up
            return Response()
        secret, where = query_params(request.scope).get("once", ""), self._access.client_of(request.scope)
        role = await self._access.role_of_link(secret, where)
        if role is None:
            return self._form(request, 401, "This link was already used, has expired, or is not valid.")
        return self._start_session(request, role, f"{role} by link", "/")

    async def show(self, request: Request) -> Response:
        """Show the sign-in form; redirect a caller who is already signed in."""
        to = query_params(request.scope).get("to", "")
        if get_caller(request.scope) is not None:
            return RedirectResponse(url_prefix(request) + self._safe_target(to), 303)
        return self._form(request, 200, to=to)

    async def sign_in(self, request: Request) -> Response:
        """Exchange a token or password for a session."""
        form = await read_form(request, most=_MAX_FORM_BYTES)
        secret, to = "".join(form.get("token", ())), "".join(form.get("to", ()))
        where = self._access.client_of(request.scope)
        role = await self._access.role_of_secret(secret.strip(), where) if self._access.tokens else None
        if role is None:
            return self._form(request, 401, "The token is wrong.", to)
        return self._start_session(request, role, f"{role} by token", self._safe_target(to))

    async def sign_out(self, request: Request) -> Response:
        """End the session and its streams."""
        caller = get_caller(request.scope)
        if caller is not None and caller.session is not None:
            caller.session.end()
            log.info("%s signed out of the dashboard", caller.who)
        response = RedirectResponse(f"{url_prefix(request)}{SIGN_IN}", 303)
        response.delete_cookie(self._access.cookie, **cookie_attributes(request.scope, url_prefix(request)))
        return response

    async def request_sign_in(self, request: Request) -> Response:
        """Return the response to a caller who is not signed in."""
        if is_api_request(request):
            return json_response(
                {"ok": False, "message": self._how_to_sign_in(request)}, 401, {"WWW-Authenticate": "Bearer"}
            )
        if request.method not in {"GET", "HEAD"}:
            return self._form(request, 401)
        wanted = _path_and_query(request)
        if request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
            # A browser does not send a strict cookie with a link from another site, but with a redirect of this page.
            to = build_url(url_prefix(request), SIGN_IN, {"to": self._safe_target(wanted)})
            return self._html(request, "again.html", {"to": to}, 401)
        return self._form(request, 401, to=wanted)

    def _how_to_sign_in(self, request: Request) -> str:
        """Return how a program can authenticate."""
        if not self._access.tokens:
            return f"no token is set; start the dashboard with {READ_VARIABLE} (read only) or {VARIABLE}, or sign in"
        if "authorization" in request.headers:
            return "the token is wrong"
        return "send the token: Authorization: Bearer TOKEN"

    def _start_session(self, request: Request, role: Role, who: str, to: str) -> Response:
        old = self._access.session_of(request.scope)
        if old is not None:
            old.end()
        log.info("%s signed in to the dashboard from %s", who, self._access.client_of(request.scope))
        response = RedirectResponse(url_prefix(request) + to, 303)
        response.set_cookie(
            self._access.cookie,
            self._access.sessions.begin(role, who),
            max_age=int(self._access.sessions.seconds),
            **cookie_attributes(request.scope, url_prefix(request)),
        )
        return response

    def _form(self, request: Request, status: int, error: str = "", to: str = "") -> Response:
        values = {"error": error, "to": self._safe_target(to), "has_tokens": bool(self._access.tokens)}
        return self._html(request, "signin.html", values, status)

    def _html(self, request: Request, template: str, values: PageData, status: int) -> Response:
        values = {**self._endpoints.common(request, ""), **values}
        return HTMLResponse(self._renderer.render(template, url_prefix(request), values), status)

    def _safe_target(self, to: str) -> str:
        """Return the redirect target after a sign-in: a page of this site, or the first page."""
        if not to.isascii() or not to.isprintable():
            return "/"
        path, _, query = to.partition("?")
        scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
        is_page = any(route.matches(scope)[0] is Match.FULL for route in self._pages)
        fits = len(path) <= MAX_PATH_BYTES and len(query) <= MAX_QUERY_BYTES
        return to if is_page and fits and "\\" not in to else "/"


def _path_and_query(request: Request) -> str:
    query = request.scope.get("query_string", b"").decode("ascii", "replace")
    path: str = request.scope["path"]
    return f"{path}?{query}" if query else path
