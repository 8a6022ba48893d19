"""The site: the table of routes, the gate before it, and what is said where something is wrong."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from outlast.web.access.callers import Access
from outlast.web.access.gate import Gate
from outlast.web.access.hosts import LOOPBACK, allowed_names
from outlast.web.access.own_access import OwnAccess
from outlast.web.access.signing_in import SigningIn
from outlast.web.answering import API, Answering
from outlast.web.assets import Assets
from outlast.web.live.hub import Hub
from outlast.web.rendering import EVENTS, METRICS, STATIC, Renderer
from outlast.web.routes import ACTIONS, PAGES
from outlast.web.routing import ANY_APP, Action, Page
from outlast.web.telling import Telling

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["build"]


def build(  # its settings
    app: "App",
    access: Access,
    *,
    hosts: Sequence[str] = LOOPBACK,
    title: str = "Outlast",
    reference: str = ANY_APP,
    pages: Sequence[Page] = PAGES,
    actions: Sequence[Action] = ACTIONS,
) -> Starlette:
    """Return the dashboard as an ASGI app.

    Args:
        app: Whose dashboard it is.
        access: Knows who asks.
        hosts: Names under which it answers.
        title: Shown on every page.
        reference: Where the app is, such as ``jobs:app``, for commands to be copied.
        pages: What there is to see.
        actions: What there is to do.

    Raises:
        ConfigError: If a name cannot be one.
    """
    names = allowed_names(hosts)
    assets = Assets()
    renderer = Renderer(pages, actions, assets, title)
    hub = Hub(app, renderer.render)
    answering = Answering(app, renderer, assets, hub, pages, reference)
    telling = Telling(answering, renderer)
    seen = [Route(page.path, answering.page(page), methods=["GET"], name=page.name) for page in pages]
    routes = [
        *seen,
        *(Route(_twin(page), answering.twin(page), methods=["GET"], name=f"api:{page.name}") for page in pages),
        *(Route(each.path, answering.action(each), methods=["POST"], name=each.name) for each in actions),
        *(
            Route(_twin(each), answering.action_twin(each), methods=["POST"], name=f"api:{each.name}")
            for each in actions
        ),
        Route(EVENTS, answering.events, methods=["GET"], name="events"),
        Route(METRICS, answering.metrics, methods=["GET"], name="metrics"),
        Route(STATIC, answering.asset, methods=["GET"], name="static"),
    ]
    gate: dict[str, Any] = {"is_open": lambda _path: False, "ask_in": telling.turn_away}
    if isinstance(access, OwnAccess):
        signing_in = SigningIn(access, answering, renderer, seen)
        routes += signing_in.routes()
        gate = {"is_open": signing_in.is_open, "ask_in": signing_in.ask_in}
    middleware = Middleware(Gate, access=access, names=names, tell=telling.tell, **gate)
    site = Starlette(routes=routes, middleware=[middleware], exception_handlers={HTTPException: telling.tell_of})
    site.router.redirect_slashes = False
    site.state.hub = hub
    return site


def _twin(what: Page | Action) -> str:
    return API + what.path.rstrip("/")
