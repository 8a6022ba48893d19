"""From a template and what a page read to HTML: everything is escaped, and a name that is not there is an error."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from outlast.web.addresses import address
from outlast.web.assets import Assets
from outlast.web.look import FILTERS, visible
from outlast.web.routing import Action, Page

__all__ = ["EVENTS", "METRICS", "SIGN_IN", "SIGN_OUT", "STATIC", "Renderer"]

EVENTS, METRICS, STATIC = "/events", "/metrics", "/static/{name}"
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
"""Paths that the site itself answers."""


class Renderer:
    """Renders templates.

    Args:
        pages: That can be linked to.
        actions: That can be posted to.
        assets: That pages load.
        title: Of the dashboard.
    """

    def __init__(self, pages: Sequence[Page], actions: Sequence[Action], assets: Assets, title: str) -> None:
        """Prepare the templates; each is compiled when it is first used."""
        self._environment = Environment(
            loader=PackageLoader("outlast.web"),
            autoescape=True,
            finalize=visible,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(FILTERS)
        self._pages = {page.name: page.path for page in pages} | {"events": EVENTS}
        self._actions = {action.name: action.path for action in actions} | {"sign_in": SIGN_IN, "sign_out": SIGN_OUT}
        self._assets, self._title = assets, title

    def render(self, template: str, prefix: str, values: Mapping[str, Any]) -> str:
        """Return a page, or a part of one.

        Args:
            template: Its file.
            prefix: Where the dashboard is mounted; empty for nowhere.
            values: What it shows.
        """
        return self._environment.get_template(template).render(
            **values,
            url=_addressing(prefix, self._pages, "page"),
            post=_addressing(prefix, self._actions, "action"),
            asset=lambda file: address(prefix, STATIC, {"name": self._assets.name(file)}),
            site_title=self._title,
            now=datetime.now(UTC),
        )


def _addressing(prefix: str, paths: Mapping[str, str], kind: str) -> Callable[..., str]:
    def addressing(name: str, /, **params: Any) -> str:
        if name not in paths:
            message = f"there is no {kind} {name!r}"
            raise LookupError(message)
        return address(prefix, paths[name], params)

    return addressing
