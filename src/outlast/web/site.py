"""The site: the table of routes, the gate before it, and what is said where something is wrong."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from outlast.web.access.callers import Access
from outlast.web.access.hosts import LOOPBACK, allowed_names
from outlast.web.access.middleware import AccessMiddleware
from outlast.web.access.sign_in import SignInPages
from outlast.web.access.token_access import TokenAccess
from outlast.web.endpoints import API_PREFIX, Endpoints
from outlast.web.error_pages import ErrorResponder
from outlast.web.live import LiveHub
from outlast.web.pages import (
    audit,
    dead_letters,
    failures,
    health,
    jobs,
    overview,
    queues,
    replays,
    sources,
    tasks,
    waits,
)
from outlast.web.pages import failures as suggestions
from outlast.web.rendering import EVENTS, METRICS, STATIC, Assets, Renderer
from outlast.web.routing import APP_PLACEHOLDER, ActionRoute, PageRoute

if TYPE_CHECKING:
    from outlast.app import App


# All pages and actions, in the order in which they are tried.

PAGES: tuple[PageRoute, ...] = (
    *overview.PAGES,
    *failures.PAGES,
    *suggestions.SUGGESTION_PAGES,
    *dead_letters.PAGES,
    *dead_letters.DETAIL_PAGES,
    *replays.PAGES,
    *tasks.PAGES,
    *queues.PAGES,
    *sources.PAGES,
    *jobs.PAGES,
    *waits.PAGES,
    *health.PAGES,
    *audit.PAGES,
)
"""What there is to see."""
ACTIONS: tuple[ActionRoute, ...] = (
    *overview.ACTIONS,
    *failures.ACTIONS,
    *suggestions.SUGGESTION_ACTIONS,
    *dead_letters.ACTIONS,
    *dead_letters.DETAIL_ACTIONS,
    *replays.ACTIONS,
    *tasks.ACTIONS,
    *queues.ACTIONS,
    *sources.ACTIONS,
    *jobs.ACTIONS,
    *waits.ACTIONS,
    *health.ACTIONS,
    *audit.ACTIONS,
)
"""What there is to do."""


def build_site(  # its settings
    app: "App",
    access: Access,
    *,
    hosts: Sequence[str] = LOOPBACK,
    title: str = "Outlast",
    reference: str = APP_PLACEHOLDER,
    pages: Sequence[PageRoute] = PAGES,
    actions: Sequence[ActionRoute] = ACTIONS,
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
    hub = LiveHub(app, renderer.render)
    answering = Endpoints(app, renderer, assets, hub, pages, reference)
    telling = ErrorResponder(answering, renderer)
    seen = [Route(page.path, answering.page(page), methods=["GET"], name=page.name) for page in pages]
    routes = [
        *seen,
        *(Route(_api_path(page), answering.twin(page), methods=["GET"], name=f"api:{page.name}") for page in pages),
        *(Route(each.path, answering.action(each), methods=["POST"], name=each.name) for each in actions),
        *(
            Route(_api_path(each), answering.json_action(each), methods=["POST"], name=f"api:{each.name}")
            for each in actions
        ),
        Route(EVENTS, answering.events, methods=["GET"], name="events"),
        Route(METRICS, answering.metrics, methods=["GET"], name="metrics"),
        Route(STATIC, answering.asset, methods=["GET"], name="static"),
    ]
    gate: dict[str, Any] = {"is_open": lambda _path: False, "ask_in": telling.deny_access}
    if isinstance(access, TokenAccess):
        signing_in = SignInPages(access, answering, renderer, seen)
        routes += signing_in.routes()
        gate = {"is_open": signing_in.is_open, "ask_in": signing_in.ask_in}
    middleware = Middleware(AccessMiddleware, access=access, names=names, tell=telling.tell, **gate)
    site = Starlette(routes=routes, middleware=[middleware], exception_handlers={HTTPException: telling.tell_of})
    site.router.redirect_slashes = False
    site.state.hub = hub
    return site


def _api_path(what: PageRoute | ActionRoute) -> str:
    return API_PREFIX + what.path.rstrip("/")
