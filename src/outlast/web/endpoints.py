"""The endpoints of the dashboard: pages, their JSON, actions with their audit entries and notices, files and events."""

import dataclasses
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from outlast.app import App
from outlast.errors import ConfigError, PayloadError
from outlast.operations import FILTERS, InvalidValueError
from outlast.operations.actions import OperationResult
from outlast.operations.table import Operation, perform_texts, record_refusal
from outlast.queue.masking import masked_text
from outlast.web.access.callers import Caller, Role, get_caller
from outlast.web.access.hosts import cookie_attributes
from outlast.web.forms import read_form
from outlast.web.headers import get_nonce
from outlast.web.live import LiveHub
from outlast.web.rendering import SIGN_OUT, Assets, Renderer
from outlast.web.routing import (
    APP_PLACEHOLDER,
    Form,
    FormPage,
    PageData,
    PageRequest,
    PageRoute,
    decode_segment,
    path_and_query,
    query_params,
    url_prefix,
)

MAX_EXACT_INTEGER = 2**53 - 1
"""Largest integer that every JSON parser holds exactly; larger ones are sent as text."""


def encode_json(value: object) -> bytes:
    """Return a value as JSON text.

    Raises:
        TypeError: If it contains a type that JSON cannot represent.
    """
    return json.dumps(plain_data(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def plain_data(value: object) -> Any:
    """Return a value as texts, numbers, lists and dicts.

    Rows become dicts, times ISO 8601 in UTC, durations seconds, enums their values. Keys that begin with an underscore
    are for templates only and are left out. Bytes are not supported.

    Raises:
        TypeError: If it contains a type that JSON cannot represent.
    """
    if isinstance(value, Enum):
        value = value.value
    match value:
        case str():
            return str(value)  # also of Markup
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) <= MAX_EXACT_INTEGER else str(int(value))
        case float():
            return value if math.isfinite(value) else None
        case timedelta():
            return value.total_seconds()
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case _:
            return _plain_collection(value)


def _plain_collection(value: object) -> Any:
    if isinstance(value, Mapping):
        return {name: plain_data(each) for key, each in value.items() if not (name := _plain_key(key)).startswith("_")}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain_data(each) for name, each in zip(value._fields, value, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [plain_data(each) for each in value]
    if isinstance(value, AbstractSet):
        return sorted((plain_data(each) for each in value), key=str)
    raise TypeError(f"JSON cannot represent a {type(value).__name__}")


def _plain_key(key: object) -> str:
    key = key.value if isinstance(key, Enum) else key
    if isinstance(key, str) or type(key) is int:
        return str(key)
    raise TypeError(f"a {type(key).__name__} cannot be a key in JSON")


# The browser keeps a random key of a notice in a cookie: no other site can make the dashboard show a text.

NOTICE_COOKIE = "outlast-notice"
"""Name of the cookie."""
NOTICE_SECONDS = 30
"""Seconds until the cookie expires."""
_MAX_NOTICES = 1000  # that no page has shown


class Notice(NamedTuple):
    """The result of the last action, for the page that the browser shows next.

    Attributes:
        text: One line.
        ok: Whether the action did what was requested.
    """

    text: str
    ok: bool


class Notices:
    """The notices of all browsers, each until a page has shown it."""

    def __init__(self) -> None:
        self._by_key: dict[str, Notice] = {}

    def add(self, notice: Notice) -> str:
        """Keep a notice and return its key; if there are too many, the oldest is dropped."""
        if len(self._by_key) >= _MAX_NOTICES:
            del self._by_key[next(iter(self._by_key))]
        key = secrets.token_urlsafe(32)
        self._by_key[key] = notice
        return key

    def take(self, key: str) -> Notice | None:
        """Return the notice of a key, once; None if there is none."""
        return self._by_key.pop(key, None)


_PARENT_QUERY_CHARS = 2000
_MAX_CONFLICTS = 50  # more ids would make the URL too long


API_PREFIX = "/api"
"""Path prefix of the JSON endpoints."""
_THREADS = 8
_CACHE_FOREVER = "public, max-age=31536000, immutable"
T = TypeVar("T")


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(encode_json(value), status, headers, media_type="application/json")


class Endpoints:
    """The endpoints of the site. The access middleware runs before all of them.

    Args:
        app: The app that the dashboard shows.
        renderer: Renders templates.
        assets: Files that pages load.
        hub: Source of the live updates.
        pages: All pages, to show a form again that has an error.
        forms: The pages with forms, by the name of the operation.
        reference: The app as ``MODULE:APP``, for commands to copy.
    """

    def __init__(
        self,
        app: App,
        renderer: Renderer,
        assets: Assets,
        hub: LiveHub,
        pages: Sequence[PageRoute] = (),
        forms: Mapping[str, FormPage] | None = None,
        reference: str = APP_PLACEHOLDER,
    ) -> None:
        self._reference = reference
        self._app, self._renderer, self._assets, self._hub = app, renderer, assets, hub
        self._pages, self._forms = {page.name: page for page in pages}, forms or {}
        self._site_state: dict[str, Any] = {}
        self._notices = Notices()
        self._limiter = anyio.CapacityLimiter(_THREADS)

    async def page(self, page: PageRoute, request: Request) -> Response:
        """Respond with a page."""
        page_request = self._page_request(request, {})
        notice, delete_cookie = self._take_notice(request)
        response = await self._page_response(request, page, page_request, {"notice": notice})
        if delete_cookie:
            response.delete_cookie(NOTICE_COOKIE, **cookie_attributes(request.scope, url_prefix(request)))
        return response

    async def json_page(self, page: PageRoute, request: Request) -> Response:
        """Respond with the JSON of a page."""
        page_request = self._page_request(request, {})
        body = await self._in_thread(lambda: encode_json(page.read(page.parse(page_request))))
        return Response(body, media_type="application/json")

    async def action(self, operation: Operation, request: Request) -> Response:
        """Perform an operation whose form was sent, and redirect to the next page."""
        page_request = self._page_request(request, await read_form(request))
        try:
            done = await self._in_thread(lambda: self._perform(operation, page_request))
        except InvalidValueError as error:
            form = self._forms.get(operation.name)
            if form is None:
                raise
            return await self._show_form_again(request, page_request, self._pages[form.page], error)
        path = _next_path(operation, done, page_request)
        path = quote(path.lstrip("/\\"), safe="/%?=&+:@!$'()*,;~-._#")  # always a path of this site
        response = Response(status_code=303, headers={"location": f"{url_prefix(request)}/{path}"})
        key = self._notices.add(Notice(done.message, done.ok))
        attributes = cookie_attributes(request.scope, url_prefix(request))
        response.set_cookie(NOTICE_COOKIE, key, max_age=NOTICE_SECONDS, **attributes)
        return response

    async def json_action(self, operation: Operation, request: Request) -> Response:
        """Perform an operation, and respond with its result as JSON."""
        page_request = self._page_request(request, await read_form(request, takes_json=True))
        done = await self._in_thread(lambda: self._perform(operation, page_request))
        return json_response({**done.data, "ok": done.ok, "message": done.message})

    def _perform(self, operation: Operation, page_request: PageRequest) -> OperationResult:
        app, given, who = page_request.app, page_request.form, page_request.who or "somebody"
        form, path = self._forms.get(operation.name), {name: [value] for name, value in page_request.path.items()}
        try:
            if form is not None and form.prepare is not None:
                try:
                    given = form.prepare(self._pages[form.page].parse(page_request))
                except (InvalidValueError, LookupError) as error:
                    record_refusal(app, operation, given, who, error)
                    raise
            return perform_texts(app, operation, {**given, **path}, who)
        except (ConfigError, PayloadError) as error:
            if error.__cause__ is not None:  # the store cannot be opened
                raise
            if isinstance(error, InvalidValueError) and error.parameter in path:
                raise LookupError(str(error)) from None
            raise InvalidValueError(masked_text(str(error))) from None

    async def asset(self, request: Request) -> Response:
        """Respond with a static file."""
        name = decode_segment(request.path_params["name"])
        asset = self._assets.find(name)
        if asset is None:
            raise LookupError(f"file {name:.100} does not exist")
        return Response(asset.body, headers={"Cache-Control": _CACHE_FOREVER, "Content-Type": asset.kind})

    async def metrics(self, request: Request) -> Response:
        """Respond to a Prometheus scrape."""
        _require_caller(request)
        from outlast.observe.prometheus import exposition  # noqa: PLC0415  # needs an extra

        try:
            body, kind = await self._in_thread(lambda: exposition(self._app))
        except ConfigError as error:
            return Response(f"{error}\n", 404, media_type="text/plain")
        return Response(body, headers={"Content-Type": kind})

    async def events(self, request: Request) -> Response:
        """Respond with a stream of events that ends when the caller loses access."""
        caller = _require_caller(request)
        view = query_params(request.scope).get("view", "")
        headers = {"X-Accel-Buffering": "no"}  # otherwise nginx buffers events
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        stream = self._hub.stream(view, url_prefix(request), caller.still_allowed)
        return StreamingResponse(stream, headers=headers, media_type="text/event-stream")

    def common(self, request: Request, active: str) -> dict[str, Any]:
        """Return the values that every template needs.

        Args:
            request: The request.
            active: Name of the page; empty for none.
        """
        caller, prefix = get_caller(request.scope), url_prefix(request)
        return {
            "nonce": get_nonce(request.scope),
            "role_operator": caller is not None and caller.role is Role.OPERATOR,
            "who": "" if caller is None else caller.who,
            "sign_out": f"{prefix}{SIGN_OUT}" if caller is not None and caller.session is not None else "",
            "active": active,
            "reference": self._reference,
            "pulse_badges": None if caller is None else self._hub.badges(),
            "is_live": bool(active),
            "newest": {} if caller is None else self._hub.newest(),
            "twin": f"{prefix}{API_PREFIX}{path_and_query(request)}",
            "notice": None,
            "typed": {},
            "form_error": "",
        }

    async def _show_form_again(
        self, request: Request, page_request: PageRequest, page: PageRoute, error: InvalidValueError
    ) -> Response:
        """Respond with the page of a form, with the input and its error."""
        typed = page_request.typed()
        query = {each.name: typed[each.name] for each in page.parameters if typed.get(each.name)}
        page_request = page_request._replace(query=query)
        more = {"typed": typed, "form_error": str(error)}
        return await self._page_response(request, page, page_request, more, 400)

    async def _page_response(
        self, request: Request, page: PageRoute, page_request: PageRequest, more: PageData, status: int = 200
    ) -> Response:
        common = {**self.common(request, page.name), "query": page_request.query, **more}
        prefix = url_prefix(request)

        def render() -> str:
            return self._renderer.render(page.template, prefix, {**common, **page.read(page.parse(page_request))})

        return HTMLResponse(await self._in_thread(render), status)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function, limiter=self._limiter)

    def _page_request(self, request: Request, form: Form) -> PageRequest:
        caller = _require_caller(request)
        path = {name: decode_segment(value) for name, value in request.path_params.items()}
        is_operator = caller.role is Role.OPERATOR
        query = query_params(request.scope)
        return PageRequest(self._app, path, query, is_operator, form, caller.who, self._site_state, self._reference)

    def _take_notice(self, request: Request) -> tuple[Notice | None, bool]:
        """Return the notice of the last action, and whether its cookie must be deleted."""
        key = None if request.method == "HEAD" else request.cookies.get(NOTICE_COOKIE)  # nobody sees that of a HEAD
        return (None, False) if key is None else (self._notices.take(key), True)


def _next_path(operation: Operation, done: OperationResult, page_request: PageRequest) -> str:
    """Return the path of the page that follows an operation: that of its result, or the list that it came from.

    A form that was sent from a list has the field ``back`` with the query of that list.
    """
    if "back" not in page_request.form:
        values = {name: quote(str(value), safe="") for name, value in {**page_request.path, **done.data}.items()}
        return (done.page or operation.page or operation.path.rpartition("/")[0]).format_map(values)
    known = {"status", *(each.name for each in FILTERS)}
    query = dict(parse_qsl(page_request.typed().get("back", "")[:_PARENT_QUERY_CHARS]))
    query = {name: value for name, value in query.items() if name in known}
    if conflicts := done.data.get("conflict"):
        query["stayed"] = ",".join(map(str, conflicts[:_MAX_CONFLICTS]))
    path = f"/{operation.path.split('/')[1]}"
    return f"{path}?{urlencode(query)}" if query else path


def _require_caller(request: Request) -> Caller:
    caller = get_caller(request.scope)
    if caller is None:  # a safeguard: the middleware runs before every endpoint
        raise RuntimeError("the request has no caller; the access middleware is missing")
    return caller
