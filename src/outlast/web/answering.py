"""What answers once somebody was let in: pages, their JSON twins, actions, files and the stream."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import anyio.to_thread
from starlette.responses import HTMLResponse, Response, StreamingResponse

from outlast.errors import ConfigError
from outlast.web.access.callers import Caller, Role, caller_of
from outlast.web.access.hosts import is_https
from outlast.web.addresses import decoded, prefix_of, query_of
from outlast.web.auditing import acted
from outlast.web.forms import read_form
from outlast.web.headers import nonce_of
from outlast.web.json_data import encoded
from outlast.web.notices import COOKIE, SECONDS, Notice, Signing
from outlast.web.rendering import SIGN_OUT
from outlast.web.routing import ANY_APP, Action, Asked, FormError, NotThereError, Page

if TYPE_CHECKING:
    from starlette.requests import Request

    from outlast.app import App
    from outlast.web.assets import Assets
    from outlast.web.live.hub import Hub
    from outlast.web.rendering import Renderer

__all__ = ["API", "Answering", "json_response"]

API = "/api"
"""Before the path of a JSON twin."""
_THREADS = 8
_FOR_EVER = "public, max-age=31536000, immutable"
T = TypeVar("T")
Endpoint = Callable[["Request"], Awaitable[Response]]


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return something as JSON."""
    return Response(encoded(value), status, headers, media_type="application/json")


class Answering:
    """Makes the endpoints.

    Args:
        app: Whose dashboard it is.
        renderer: For HTML.
        assets: Files that pages load.
        hub: What streams come from.
        pages: All of them, for forms that are shown again.
        reference: Where the app is, for commands to be copied.
    """

    def __init__(  # what it is made of
        self,
        app: "App",
        renderer: "Renderer",
        assets: "Assets",
        hub: "Hub",
        pages: Sequence[Page] = (),
        reference: str = ANY_APP,
    ) -> None:
        """Keep them."""
        self._reference = reference
        self._app, self._renderer, self._assets, self._hub = app, renderer, assets, hub
        self._pages = {page.name: page for page in pages}
        self._kept: dict[str, object] = {}
        self._signing = Signing()
        self._limiter = anyio.CapacityLimiter(_THREADS)

    def page(self, page: Page) -> Endpoint:
        """Return what answers a page."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, {})
            notice, spent = self._notice(request)
            common = self.common(request, page.name) | {"notice": notice, "query": asked.query}
            html = await self._in_thread(partial(self._page_html, page, asked, common, prefix_of(request)))
            response = HTMLResponse(html)
            if spent:
                response.delete_cookie(COOKIE, prefix_of(request) or "/", httponly=True, samesite="strict")
            return response

        return answer

    def twin(self, page: Page) -> Endpoint:
        """Return what answers a page as JSON."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, {})
            return Response(await self._in_thread(lambda: encoded(page.read(asked))), media_type="application/json")

        return answer

    def action(self, action: Action) -> Endpoint:
        """Return what answers an action that a form asks for."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, await read_form(request))
            try:
                done = await self._in_thread(lambda: acted(action, asked))
            except FormError as error:
                return await self._form_again(request, asked, error)
            response = Response(status_code=303)
            response.headers["location"] = _below(prefix_of(request), done.to)
            self._keep(request, response, Notice(done.message, done.ok))
            return response

        return answer

    def action_twin(self, action: Action) -> Endpoint:
        """Return what answers an action that a program asks for."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, await read_form(request, takes_json=True))
            done = await self._in_thread(lambda: acted(action, asked))
            return json_response({**done.data, "ok": done.ok, "message": done.message})

        return answer

    async def asset(self, request: "Request") -> Response:
        """Answer with a file."""
        asset = self._assets.find(decoded(request.path_params["name"]))
        if asset is None:
            message = "there is no such file"
            raise NotThereError(message)
        return Response(asset.body, headers={"Cache-Control": _FOR_EVER, "Content-Type": asset.kind})

    async def metrics(self, request: "Request") -> Response:
        """Answer a scrape of Prometheus."""
        _let_in(request)
        from outlast.observe.prometheus import exposition  # noqa: PLC0415  # only who is scraped needs it

        try:
            body, kind = await self._in_thread(lambda: exposition(self._app))
        except ConfigError as error:
            return Response(f"{error}\n", 404, media_type="text/plain")
        return Response(body, headers={"Content-Type": kind})

    async def events(self, request: "Request") -> Response:
        """Answer with a stream that lasts as long as whoever asks may look."""
        caller = _let_in(request)
        view = query_of(request.scope).get("view", "")
        headers = {"X-Accel-Buffering": "no"}  # nginx would hold events back
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        stream = self._hub.stream(view, prefix_of(request), caller.still_allowed)
        return StreamingResponse(stream, headers=headers, media_type="text/event-stream")

    def common(self, request: "Request", active: str) -> dict[str, Any]:
        """Return what every template gets.

        Args:
            request: That is answered.
            active: Name of the page; empty for none.
        """
        caller, prefix = caller_of(request.scope), prefix_of(request)
        query = request.scope.get("query_string", b"").decode("ascii", "replace")
        path = request.scope["path"].rstrip("/")
        return {
            "nonce": nonce_of(request.scope),
            "role_operator": caller is not None and caller.role is Role.OPERATOR,
            "who": "" if caller is None else caller.who,
            "sign_out": f"{prefix}{SIGN_OUT}" if caller is not None and caller.session is not None else "",
            "active": active,
            "reference": self._reference,
            "pulse_badges": None if caller is None else self._hub.badges(),
            "is_live": bool(active),
            "newest": {} if caller is None else self._hub.newest(),
            "twin": f"{prefix}{API}{path}" + (f"?{query}" if query else ""),
            "notice": None,
            "typed": {},
            "form_error": "",
        }

    async def _form_again(self, request: "Request", asked: Asked, error: FormError) -> Response:
        """Answer with the page of a form, and in it what was typed and what is wrong with it."""
        page = self._pages[error.page]
        again = asked._replace(query=error.query)
        typed = {name: values[0] for name, values in asked.form.items() if values}
        common = self.common(request, page.name)
        common |= {"query": again.query, "typed": typed, "form_error": str(error)}
        html = await self._in_thread(partial(self._page_html, page, again, common, prefix_of(request)))
        return HTMLResponse(html, 400)

    def _page_html(self, page: Page, asked: Asked, common: Mapping[str, Any], prefix: str) -> str:
        return self._renderer.render(page.template, prefix, {**common, **page.read(asked)})

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function, limiter=self._limiter)

    def _asked(self, request: "Request", form: Mapping[str, list[str]]) -> Asked:
        caller = _let_in(request)
        path = {name: decoded(value) for name, value in request.path_params.items()}
        may = caller.role is Role.OPERATOR
        return Asked(self._app, path, query_of(request.scope), may, form, caller.who, self._kept, self._reference)

    def _notice(self, request: "Request") -> tuple[Notice | None, bool]:
        """Return what the last action did, and whether the cookie that told of it has done its duty."""
        session = _let_in(request).session
        if request.method == "HEAD":  # nobody sees it
            return None, False
        if session is not None:
            notice, session.notice = session.notice, None
            return notice, False
        value = request.cookies.get(COOKIE)
        return (None, False) if value is None else (self._signing.notice(value), True)

    def _keep(self, request: "Request", response: Response, notice: Notice) -> None:
        session = _let_in(request).session
        if session is not None:
            session.notice = notice
            return
        response.set_cookie(
            COOKIE,
            self._signing.value(notice),
            max_age=SECONDS,
            path=prefix_of(request) or "/",
            secure=is_https(request.scope),
            httponly=True,
            samesite="strict",
        )


def _let_in(request: "Request") -> Caller:
    caller = caller_of(request.scope)
    if caller is None:  # the gate is before every endpoint; this holds if somebody ever forgets it
        message = "nobody was let in"
        raise RuntimeError(message)
    return caller


def _below(prefix: str, path: str) -> str:
    """Return where a browser is sent, which is always a place of ours."""
    return prefix + "/" + quote(path.lstrip("/\\"), safe="/%?=&+:@!$'()*,;~-._#")
