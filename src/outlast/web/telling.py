"""Saying what is wrong: as JSON to programs, as a page to people."""

from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from outlast.web.access.callers import caller_of
from outlast.web.addresses import prefix_of
from outlast.web.answering import API, json_response
from outlast.web.troubles import Trouble, trouble_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from outlast.web.answering import Answering
    from outlast.web.rendering import Renderer

__all__ = ["Telling", "is_for_programs"]

_CLOSED = Trouble(403, "Closed", "You are not let in.")


def is_for_programs(request: "Request") -> bool:
    """Tell whether a request is for a JSON twin, or would be if there were one."""
    path: str = request.scope["path"]
    return path == API or path.startswith(f"{API}/")


class Telling:
    """Makes answers of what is wrong.

    Args:
        answering: For what all templates get.
        renderer: For HTML.
    """

    def __init__(self, answering: "Answering", renderer: "Renderer") -> None:
        """Keep them."""
        self._answering, self._renderer = answering, renderer

    async def tell(self, request: "Request", trouble: Trouble) -> Response:
        """Return the answer."""
        headers = dict(trouble.headers)
        if is_for_programs(request):
            return json_response({"ok": False, "message": trouble.text}, trouble.status, headers)
        frame = "_bare.html" if caller_of(request.scope) is None else "_base.html"
        try:
            html = self._html(request, trouble, frame)
        except Exception as error:  # noqa: BLE001  # what the whole page needs may be what fails
            trouble_of(error)  # for the log
            html = self._html(request, trouble, "_bare.html")
        return HTMLResponse(html, trouble.status, headers)

    async def tell_of(self, request: "Request", error: Exception) -> Response:
        """Return the answer to an error."""
        return await self.tell(request, trouble_of(error))

    async def turn_away(self, request: "Request") -> Response:
        """Return the answer to somebody who is not known, where the dashboard has nobody sign in."""
        return await self.tell(request, _CLOSED)

    def _html(self, request: "Request", trouble: Trouble, frame: str) -> str:
        values = self._answering.common(request, "") | {"frame": frame, "trouble": trouble}
        return self._renderer.render("error.html", prefix_of(request), values)
