"""Responses to failed requests, as pages or JSON. Internal details only go to the log."""

import logging
import math
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from outlast.errors import ConfigError, SchemaError
from outlast.operations import InvalidValueError
from outlast.queue.masking import masked_text
from outlast.web.access.callers import TooManyAttemptsError, get_caller
from outlast.web.endpoints import API_PREFIX, Endpoints, json_response
from outlast.web.rendering import Renderer
from outlast.web.routing import url_prefix

log = logging.getLogger("outlast.web")
_DRIVER_PACKAGES = {"sqlite3", "psycopg", "psycopg_pool"}
_MISSING_TABLE_ERRORS = {"UndefinedTable", "UndefinedColumn"}
_QUERY_ERRORS = {"DataError", "ProgrammingError", "IntegrityError", "NotSupportedError"}  # bugs, not outages
_STORE_DOWN_TEXT = (
    "The store does not answer. Check that the database is running and can be reached from here. The log of this "
    "process has the reason. This page works again as soon as the store does."
)
_HTTP_TEXTS = {
    404: ("Not found", "This page does not exist."),
    405: ("Method not allowed", "This path does not support the method of the request."),
    413: ("Too large", "The request body is too large."),
    415: ("Not accepted", "Send a form, or a JSON object to a path below /api."),
}


class ErrorPage(NamedTuple):
    """The response to a failed request.

    Attributes:
        status: HTTP status.
        heading: The problem in a few words.
        text: The problem in a sentence, and what to do.
        headers: Additional headers.
    """

    status: int
    heading: str
    text: str
    headers: tuple[tuple[str, str], ...] = ()


def error_page_for(error: Exception) -> ErrorPage:
    """Return the response to an error. Errors that the caller did not cause are logged."""
    match error:
        case LookupError() if type(error) is LookupError:  # a KeyError would be a bug
            return ErrorPage(404, "Not found", masked_text(str(error)))
        case InvalidValueError():
            return ErrorPage(400, "Not accepted", str(error))
        case TooManyAttemptsError():
            seconds = max(1, math.ceil(error.seconds))
            text = f"Too many wrong tokens or links came from your address. Try again in {seconds} s."
            return ErrorPage(429, "Too many attempts", text, (("Retry-After", str(seconds)),))
        case HTTPException():
            heading, text = _HTTP_TEXTS.get(error.status_code, ("Not accepted", error.detail))
            return ErrorPage(error.status_code, heading, text, tuple((error.headers or {}).items()))
    return _log_error(error)


def _log_error(error: Exception) -> ErrorPage:
    from outlast.failure import first_line  # noqa: PLC0415  # only for errors
    from outlast.record.log_text import traceback_of  # noqa: PLC0415  # only for errors

    summary = f"{type(error).__name__}: {first_line(masked_text(str(error)))}"
    if isinstance(error, SchemaError):
        log.error("the dashboard cannot read the store: %s", summary)
        return ErrorPage(503, "The tables are not ready", masked_text(str(error)))
    cause = error.__cause__ if isinstance(error, ConfigError) else None  # of a file that cannot be opened
    if _is_store_error(cause or error) or isinstance(cause, OSError):
        log.error("the store does not answer the dashboard: %s", summary)
        return ErrorPage(503, "The store does not answer", _STORE_DOWN_TEXT, (("Retry-After", "5"),))
    log.error("a page of the dashboard failed: %s\n%s", summary, traceback_of(error))
    return ErrorPage(500, "This page failed", "This is a bug in the page. The log of this process has the reason.")


def _is_store_error(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    drivers = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(drivers & _DRIVER_PACKAGES) and (bool(names & _MISSING_TABLE_ERRORS) or not names & _QUERY_ERRORS)


_ACCESS_DENIED = ErrorPage(403, "Access denied", "You do not have access to this dashboard.")


def is_api_request(request: Request) -> bool:
    """Return whether a request has a path below ``/api``, also one that does not exist."""
    path: str = request.scope["path"]
    return path == API_PREFIX or path.startswith(f"{API_PREFIX}/")


class ErrorResponder:
    """Makes the responses to failed requests.

    Args:
        endpoints: Provides the values that every template needs.
        renderer: Renders templates.
    """

    def __init__(self, endpoints: Endpoints, renderer: Renderer) -> None:
        self._endpoints, self._renderer = endpoints, renderer

    async def respond(self, request: Request, page: ErrorPage) -> Response:
        """Return an error page, or JSON for a path below ``/api``."""
        headers = dict(page.headers)
        if is_api_request(request):
            return json_response({"ok": False, "message": page.text}, page.status, headers)
        frame = "_bare.html" if get_caller(request.scope) is None else "_base.html"
        try:
            html = self._html(request, page, frame)
        except Exception as error:  # noqa: BLE001  # the menu may be what fails
            error_page_for(error)  # for the log
            html = self._html(request, page, "_bare.html")
        return HTMLResponse(html, page.status, headers)

    async def respond_to_error(self, request: Request, error: Exception) -> Response:
        """Return the response to an exception."""
        return await self.respond(request, error_page_for(error))

    async def deny_access(self, request: Request) -> Response:
        """Return the response to an unknown caller of a dashboard without a sign-in."""
        return await self.respond(request, _ACCESS_DENIED)

    def _html(self, request: Request, page: ErrorPage, frame: str) -> str:
        values = self._endpoints.common(request, "") | {"frame": frame, "trouble": page}
        return self._renderer.render("error.html", url_prefix(request), values)
