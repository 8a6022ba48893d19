"""What people are told when a request comes to nothing; what happened inside is for the log alone."""

import logging
import math
from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from outlast.errors import SchemaError
from outlast.web.access.callers import TooManyAttemptsError, get_caller
from outlast.web.endpoints import API_PREFIX, json_response
from outlast.web.forms import FormMediaTypeError, FormTooLargeError
from outlast.web.routing import InvalidInputError, NotFoundError, url_prefix

if TYPE_CHECKING:
    from starlette.requests import Request

    from outlast.web.endpoints import Endpoints
    from outlast.web.rendering import Renderer


log = logging.getLogger("outlast.web")
_DRIVER_PACKAGES = {"sqlite3", "psycopg", "psycopg_pool"}
_MISSING_TABLE_ERRORS = {"UndefinedTable", "UndefinedColumn"}
_OWN_MISTAKES = {
    "DataError",
    "ProgrammingError",
    "IntegrityError",
    "NotSupportedError",
}  # a mistake of ours, not the store's
_STORE_DOWN_TEXT = (
    "The store does not answer. Is the database running, and can it be reached from here? The log of this process "
    "has the reason; this page works again as soon as the store does."
)
_HTTP_TEXTS = {
    404: ("Not found", "There is no such page."),
    405: ("Not like that", "This address cannot be asked for in this way."),
}


class ErrorPage(NamedTuple):
    """What is answered instead.

    Attributes:
        status: Of the answer.
        heading: In a word or two.
        text: What to do about it.
        headers: That belong to it.
    """

    status: int
    heading: str
    text: str
    headers: tuple[tuple[str, str], ...] = ()


def error_page_for(error: Exception) -> ErrorPage:
    """Return what is told of an error; one that is not the asker's is logged."""
    match error:
        case NotFoundError():
            return ErrorPage(404, "Not found", str(error))
        case InvalidInputError():
            return ErrorPage(400, "Not accepted", str(error))
        case TooManyAttemptsError():
            seconds = max(1, math.ceil(error.seconds))
            text = f"Too many wrong secrets came from where you are. Try again in {seconds} s."
            return ErrorPage(429, "Too many tries", text, (("Retry-After", str(seconds)),))
        case FormTooLargeError():
            return ErrorPage(413, "Too large", "More was sent than is read.", (("Connection", "close"),))
        case FormMediaTypeError():
            return ErrorPage(415, "Not accepted", "Send a form; programs may send a JSON object below /api.")
        case HTTPException():
            heading, text = _HTTP_TEXTS.get(error.status_code, ("Not accepted", error.detail))
            return ErrorPage(error.status_code, heading, text, tuple((error.headers or {}).items()))
    return _log_error(error)


def _log_error(error: Exception) -> ErrorPage:
    from outlast.queue.masking import masked_text  # noqa: PLC0415  # only trouble needs it
    from outlast.record.log_text import first_line, traceback_of  # noqa: PLC0415  # only trouble needs it

    told = f"{type(error).__name__}: {first_line(masked_text(str(error)))}"
    if isinstance(error, SchemaError):
        log.error("the dashboard cannot read the store: %s", told)
        return ErrorPage(503, "The tables are not ready", masked_text(str(error)))
    if _is_store_error(error):
        log.error("the store does not answer the dashboard: %s", told)
        return ErrorPage(503, "The store does not answer", _STORE_DOWN_TEXT, (("Retry-After", "5"),))
    log.error("a page of the dashboard failed: %s\n%s", told, traceback_of(error))
    return ErrorPage(500, "This page failed", "That is a mistake in the page. The log of this process has the reason.")


def _is_store_error(error: Exception) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    drivers = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(drivers & _DRIVER_PACKAGES) and (bool(names & _MISSING_TABLE_ERRORS) or not names & _OWN_MISTAKES)


# Saying what is wrong: as JSON to programs, as a page to people.

_ACCESS_DENIED = ErrorPage(403, "Closed", "You are not let in.")


def is_api_request(request: "Request") -> bool:
    """Tell whether a request is for a JSON twin, or would be if there were one."""
    path: str = request.scope["path"]
    return path == API_PREFIX or path.startswith(f"{API_PREFIX}/")


class ErrorResponder:
    """Makes answers of what is wrong.

    Args:
        answering: For what all templates get.
        renderer: For HTML.
    """

    def __init__(self, answering: "Endpoints", renderer: "Renderer") -> None:
        """Keep them."""
        self._answering, self._renderer = answering, renderer

    async def tell(self, request: "Request", trouble: ErrorPage) -> Response:
        """Return the answer."""
        headers = dict(trouble.headers)
        if is_api_request(request):
            return json_response({"ok": False, "message": trouble.text}, trouble.status, headers)
        frame = "_bare.html" if get_caller(request.scope) is None else "_base.html"
        try:
            html = self._html(request, trouble, frame)
        except Exception as error:  # noqa: BLE001  # what the whole page needs may be what fails
            error_page_for(error)  # for the log
            html = self._html(request, trouble, "_bare.html")
        return HTMLResponse(html, trouble.status, headers)

    async def tell_of(self, request: "Request", error: Exception) -> Response:
        """Return the answer to an error."""
        return await self.tell(request, error_page_for(error))

    async def deny_access(self, request: "Request") -> Response:
        """Return the answer to somebody who is not known, where the dashboard has nobody sign in."""
        return await self.tell(request, _ACCESS_DENIED)

    def _html(self, request: "Request", trouble: ErrorPage, frame: str) -> str:
        values = self._answering.common(request, "") | {"frame": frame, "trouble": trouble}
        return self._renderer.render("error.html", url_prefix(request), values)
