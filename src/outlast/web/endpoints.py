"""From what a page reads to JSON: plain values alone, and no number that a reader would round."""

import base64
import dataclasses
import hashlib
import hmac
import json
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import anyio.to_thread
from starlette.responses import HTMLResponse, Response, StreamingResponse

from outlast.errors import ConfigError
from outlast.queue.audit import audit_disabled, write_audit
from outlast.web.access.callers import Caller, Role, get_caller
from outlast.web.access.hosts import is_https
from outlast.web.filters import MAX_SELECTED
from outlast.web.forms import read_form
from outlast.web.headers import get_nonce
from outlast.web.rendering import SIGN_OUT
from outlast.web.routing import (
    APP_PLACEHOLDER,
    ActionResult,
    ActionRoute,
    FormError,
    NotFoundError,
    PageRequest,
    PageRoute,
    decode_segment,
    query_params,
    url_prefix,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from outlast.app import App
    from outlast.web.live import LiveHub
    from outlast.web.rendering import Assets, Renderer


MAX_EXACT_INTEGER = 2**53 - 1
"""The largest whole number that every reader of JSON holds exactly; those beyond are told as text."""


def encode_json(value: object) -> bytes:
    """Return something as JSON text.

    Raises:
        TypeError: If something in it has no form in JSON.
    """
    return json.dumps(plain_data(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def plain_data(value: object) -> Any:
    """Return something as texts, numbers, lists and objects.

    Rows become objects, times ISO 8601 in UTC, lengths of time seconds, enums their values. What begins with an
    underscore is for the template alone and is left out. Bytes have no place here.

    Raises:
        TypeError: If something in it has no form in JSON.
    """
    if isinstance(value, Enum):
        return plain_data(value.value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)  # a marked-up text too
    if isinstance(value, int | float):
        return _plain_number(value)
    if isinstance(value, datetime | date | timedelta):
        return _plain_time(value)
    return _plain_collection(value)


def _plain_number(value: Any) -> float | str | None:
    if isinstance(value, int):
        return int(value) if -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER else str(int(value))
    return value if math.isfinite(value) else None


def _plain_time(value: date | timedelta) -> str | float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return value.isoformat()


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
    message = f"a {type(value).__name__} has no form in JSON"
    raise TypeError(message)


def _plain_key(key: object) -> str:
    if isinstance(key, Enum):
        return _plain_key(key.value)
    if isinstance(key, str):
        return key
    if type(key) is int:
        return str(key)
    message = f"a {type(key).__name__} cannot name anything in JSON"
    raise TypeError(message)


# What an action did, kept for the one page that the browser goes to next.
#
# Where somebody signed in here, the session keeps it. Elsewhere the browser brings it along in a cookie that is signed,
# so that nobody can put words into our mouth, and that is good for a moment only.

NOTICE_COOKIE = "outlast-notice"
"""Name of the cookie."""
NOTICE_SECONDS = 30
"""How long the cookie is good."""
_MAX_NOTICE_CHARS = 600  # characters; a cookie has to stay below 4 KiB


class Notice(NamedTuple):
    """One line about what was done.

    Attributes:
        text: For people.
        ok: Whether it was done as it was asked for.
    """

    text: str
    ok: bool


class NoticeSigner:
    """Turns notices into the values of cookies and back, with a key that lives as long as the process.

    Args:
        now: The clock.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """Make a key."""
        self._key, self._now = secrets.token_bytes(32), now

    def value(self, notice: Notice) -> str:
        """Return a notice as a cookie has it."""
        told = json.dumps(
            [notice.text[:_MAX_NOTICE_CHARS], notice.ok, int(self._now()) + NOTICE_SECONDS], ensure_ascii=False
        )
        body = base64.urlsafe_b64encode(told.encode("utf-8", "replace"))
        return f"{body.decode('ascii')}.{self._signature(body)}"

    def notice(self, value: str) -> Notice | None:
        """Return the notice in a cookie; None where it is not ours or too old."""
        body, dot, signature = value.partition(".")
        if not dot or not value.isascii() or not hmac.compare_digest(signature, self._signature(body.encode("ascii"))):
            return None
        text, ok, until = json.loads(base64.urlsafe_b64decode(body))
        return Notice(text, ok) if self._now() < until else None

    def _signature(self, body: bytes) -> str:
        return hmac.new(self._key, body, hashlib.sha256).hexdigest()


# What is asked for on a page is written to the audit log before it is done; the one way to every action.

AUDITED_FIELDS = frozenset(
    [
        *("all", "before", "canary", "category", "for", "group", "minutes", "name", "number", "queue", "rate"),
        *("reason", "replay", "resource", "since", "state", "task", "text", "until"),
    ]
)
"""Fields of forms whose values are written; of all others, which may hold something of a payload, the names alone."""
_REASON_FIELD = "why"
_ROWS_FIELD = "number"  # has as many values as rows were chosen
_SUBJECT_KINDS = {
    "dead-letters": "dead_letter",
    "failures": "group",
    "queues": "queue",
    "replays": "replay",
    "sources": "source",
    "tasks": "task",
}
_AUDIT_NAMES = {"pause_named_queue": "pause_queue", "save_dead_letter": "edit_dead_letter"}  # as everywhere else
_SUBJECT_FIELDS = {"queues": ("queue", "name"), "waits": ("resource", "resource")}
_MAX_FIELD_NAMES = 50  # names of fields


def run_action(action: ActionRoute, asked: PageRequest) -> ActionResult:
    """Write down who asks for what, then have it done."""
    why = "".join(asked.form.get(_REASON_FIELD, [])[:1])
    name = _AUDIT_NAMES.get(action.name, action.name)
    write_audit(
        asked.app.store,
        name,
        _audit_subject(action, asked),
        _audit_detail(asked.form),
        who=asked.who or "somebody",
        why=why,
        most=MAX_SELECTED,
    )
    with audit_disabled():
        return action.act(asked)


def _audit_subject(action: ActionRoute, asked: PageRequest) -> str:
    """Return what it is about: ``task:7`` where the path or the form names it, else what the path is about."""
    first = action.path.split("/")[1]
    kind = _SUBJECT_KINDS.get(first, first)
    if asked.path:
        return f"{kind}:{next(iter(asked.path.values()))}"
    kind, field = _SUBJECT_FIELDS.get(first, (f"{kind}s", ""))
    values = asked.form.get(field, [])
    return f"{kind}:{values[0]}" if values else kind


def _audit_detail(form: Mapping[str, list[str]]) -> dict[str, Any]:
    shown = {name: _audited_value(name, values) for name, values in form.items() if name in AUDITED_FIELDS}
    others = sorted(name for name in form if name not in AUDITED_FIELDS and name != _REASON_FIELD)[:_MAX_FIELD_NAMES]
    given = {name: value for name, value in shown.items() if value not in ("", [])}
    return given | ({"fields": others} if others else {})


def _audited_value(name: str, values: list[str]) -> str | list[str]:
    """Return what counts of a field: each chosen row once, and of any other field the first value."""
    each = list(dict.fromkeys(values)) if name == _ROWS_FIELD else values[:1]
    return each[0] if len(each) == 1 else each


# What answers once somebody was let in: pages, their JSON twins, actions, files and the stream.

API_PREFIX = "/api"
"""Before the path of a JSON twin."""
_THREADS = 8
_CACHE_FOREVER = "public, max-age=31536000, immutable"
T = TypeVar("T")
Endpoint = Callable[["Request"], Awaitable[Response]]


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return something as JSON."""
    return Response(encode_json(value), status, headers, media_type="application/json")


class Endpoints:
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
        hub: "LiveHub",
        pages: Sequence[PageRoute] = (),
        reference: str = APP_PLACEHOLDER,
    ) -> None:
        """Keep them."""
        self._reference = reference
        self._app, self._renderer, self._assets, self._hub = app, renderer, assets, hub
        self._pages = {page.name: page for page in pages}
        self._kept: dict[str, object] = {}
        self._signing = NoticeSigner()
        self._limiter = anyio.CapacityLimiter(_THREADS)

    def page(self, page: PageRoute) -> Endpoint:
        """Return what answers a page."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, {})
            notice, spent = self._notice(request)
            common = self.common(request, page.name) | {"notice": notice, "query": asked.query}
            html = await self._in_thread(partial(self._page_html, page, asked, common, url_prefix(request)))
            response = HTMLResponse(html)
            if spent:
                response.delete_cookie(NOTICE_COOKIE, url_prefix(request) or "/", httponly=True, samesite="strict")
            return response

        return answer

    def twin(self, page: PageRoute) -> Endpoint:
        """Return what answers a page as JSON."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, {})
            return Response(await self._in_thread(lambda: encode_json(page.read(asked))), media_type="application/json")

        return answer

    def action(self, action: ActionRoute) -> Endpoint:
        """Return what answers an action that a form asks for."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, await read_form(request))
            try:
                done = await self._in_thread(lambda: run_action(action, asked))
            except FormError as error:
                return await self._show_form_again(request, asked, error)
            response = Response(status_code=303)
            response.headers["location"] = _redirect_location(url_prefix(request), done.to)
            self._keep(request, response, Notice(done.message, done.ok))
            return response

        return answer

    def json_action(self, action: ActionRoute) -> Endpoint:
        """Return what answers an action that a program asks for."""

        async def answer(request: "Request") -> Response:
            asked = self._asked(request, await read_form(request, takes_json=True))
            done = await self._in_thread(lambda: run_action(action, asked))
            return json_response({**done.data, "ok": done.ok, "message": done.message})

        return answer

    async def asset(self, request: "Request") -> Response:
        """Answer with a file."""
        asset = self._assets.find(decode_segment(request.path_params["name"]))
        if asset is None:
            message = "there is no such file"
            raise NotFoundError(message)
        return Response(asset.body, headers={"Cache-Control": _CACHE_FOREVER, "Content-Type": asset.kind})

    async def metrics(self, request: "Request") -> Response:
        """Answer a scrape of Prometheus."""
        _require_caller(request)
        from outlast.observe.prometheus import exposition  # noqa: PLC0415  # only who is scraped needs it

        try:
            body, kind = await self._in_thread(lambda: exposition(self._app))
        except ConfigError as error:
            return Response(f"{error}\n", 404, media_type="text/plain")
        return Response(body, headers={"Content-Type": kind})

    async def events(self, request: "Request") -> Response:
        """Answer with a stream that lasts as long as whoever asks may look."""
        caller = _require_caller(request)
        view = query_params(request.scope).get("view", "")
        headers = {"X-Accel-Buffering": "no"}  # nginx would hold events back
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        stream = self._hub.stream(view, url_prefix(request), caller.still_allowed)
        return StreamingResponse(stream, headers=headers, media_type="text/event-stream")

    def common(self, request: "Request", active: str) -> dict[str, Any]:
        """Return what every template gets.

        Args:
            request: That is answered.
            active: Name of the page; empty for none.
        """
        caller, prefix = get_caller(request.scope), url_prefix(request)
        query = request.scope.get("query_string", b"").decode("ascii", "replace")
        path = request.scope["path"].rstrip("/")
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
            "twin": f"{prefix}{API_PREFIX}{path}" + (f"?{query}" if query else ""),
            "notice": None,
            "typed": {},
            "form_error": "",
        }

    async def _show_form_again(self, request: "Request", asked: PageRequest, error: FormError) -> Response:
        """Answer with the page of a form, and in it what was typed and what is wrong with it."""
        page = self._pages[error.page]
        again = asked._replace(query=error.query)
        typed = {name: values[0] for name, values in asked.form.items() if values}
        common = self.common(request, page.name)
        common |= {"query": again.query, "typed": typed, "form_error": str(error)}
        html = await self._in_thread(partial(self._page_html, page, again, common, url_prefix(request)))
        return HTMLResponse(html, 400)

    def _page_html(self, page: PageRoute, asked: PageRequest, common: Mapping[str, Any], prefix: str) -> str:
        return self._renderer.render(page.template, prefix, {**common, **page.read(asked)})

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function, limiter=self._limiter)

    def _asked(self, request: "Request", form: Mapping[str, list[str]]) -> PageRequest:
        caller = _require_caller(request)
        path = {name: decode_segment(value) for name, value in request.path_params.items()}
        may = caller.role is Role.OPERATOR
        return PageRequest(
            self._app, path, query_params(request.scope), may, form, caller.who, self._kept, self._reference
        )

    def _notice(self, request: "Request") -> tuple[Notice | None, bool]:
        """Return what the last action did, and whether the cookie that told of it has done its duty."""
        session = _require_caller(request).session
        if request.method == "HEAD":  # nobody sees it
            return None, False
        if session is not None:
            notice, session.notice = session.notice, None
            return notice, False
        value = request.cookies.get(NOTICE_COOKIE)
        return (None, False) if value is None else (self._signing.notice(value), True)

    def _keep(self, request: "Request", response: Response, notice: Notice) -> None:
        session = _require_caller(request).session
        if session is not None:
            session.notice = notice
            return
        response.set_cookie(
            NOTICE_COOKIE,
            self._signing.value(notice),
            max_age=NOTICE_SECONDS,
            path=url_prefix(request) or "/",
            secure=is_https(request.scope),
            httponly=True,
            samesite="strict",
        )


def _require_caller(request: "Request") -> Caller:
    caller = get_caller(request.scope)
    if caller is None:  # the gate is before every endpoint; this holds if somebody ever forgets it
        message = "nobody was let in"
        raise RuntimeError(message)
    return caller


def _redirect_location(prefix: str, path: str) -> str:
    """Return where a browser is sent, which is always a place of ours."""
    return prefix + "/" + quote(path.lstrip("/\\"), safe="/%?=&+:@!$'()*,;~-._#")
