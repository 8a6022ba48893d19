"""The site: all pages and operations, their routes, and the access middleware before them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from outlast.app import App
from outlast.operations.table import OPERATIONS, Operation
from outlast.web.access.callers import Access
from outlast.web.access.hosts import LOOPBACK, allowed_names
from outlast.web.access.middleware import AccessMiddleware
from outlast.web.access.sign_in import SignInPages
from outlast.web.access.token_access import TokenAccess
from outlast.web.endpoints import API_PREFIX, Endpoints
from outlast.web.error_pages import ErrorResponder
from outlast.web.live import LiveHub
from outlast.web.openapi import OPENAPI_PATH, openapi_document
from outlast.web.pages import (
    audit,
    dead_letters,
    failures,
    health,
    jobs,
    overview,
    queues,
    replays,
    simulate,
    sources,
    tasks,
    waits,
)
from outlast.web.rendering import EVENTS, METRICS, STATIC, Assets, Renderer
from outlast.web.routing import APP_PLACEHOLDER, PageRoute, url_prefix

_MODULES = (overview, failures, dead_letters, replays, tasks, queues, sources, jobs, waits, health, simulate, audit)
PAGES: tuple[PageRoute, ...] = tuple(page for module in _MODULES for page in module.PAGES)
"""All pages, in the order in which routes are matched."""
FORMS = {**dead_letters.FORMS, **replays.FORMS}
"""The pages with forms, by the name of the operation."""


def build_site(
    app: App,
    access: Access,
    *,
    hosts: Sequence[str] = LOOPBACK,
    title: str = "Outlast",
    reference: str = APP_PLACEHOLDER,
    pages: Sequence[PageRoute] = PAGES,
    operations: Sequence[Operation] = OPERATIONS,
) -> Starlette:
    """Return the dashboard as an ASGI app.

    Args:
        app: The app that the dashboard shows.
        access: Identifies callers.
        hosts: Allowed host names.
        title: Shown on every page.
        reference: The app such as ``jobs:app``, for commands to copy.
        pages: The pages.
        operations: The operations.

    Raises:
        ConfigError: If a host name is not valid.
    """
    names = allowed_names(hosts)
    assets = Assets()
    renderer = Renderer(pages, operations, assets, title)
    hub = LiveHub(app, renderer.render)
    endpoints = Endpoints(app, renderer, assets, hub, pages, FORMS, reference)
    errors = ErrorResponder(endpoints, renderer)

    def describe(request: Request) -> JSONResponse:
        cookie = access.cookie if isinstance(access, TokenAccess) else None
        return JSONResponse(openapi_document(pages, operations, prefix=url_prefix(request), cookie=cookie))

    page_routes = [Route(page.path, partial(endpoints.page, page), name=page.name) for page in pages]
    post, with_form_path = partial(Route, methods=["POST"]), [each for each in operations if each.form_path]
    routes = [
        *page_routes,
        *(Route(_api_path(page), partial(endpoints.json_page, page), name=f"api:{page.name}") for page in pages),
        *(post(each.path, partial(endpoints.action, each), name=each.name) for each in operations),
        *(post(_api_path(each), partial(endpoints.json_action, each), name=f"api:{each.name}") for each in operations),
        *(post(each.form_path, partial(endpoints.action, each), name=f"{each.name}:form") for each in with_form_path),
        Route(OPENAPI_PATH, describe, name="api:openapi"),
        Route(EVENTS, endpoints.events),
        Route(METRICS, endpoints.metrics),
        Route(STATIC, endpoints.asset, name="static"),
    ]
    sign_in: dict[str, Any] = {"is_open": lambda _path: False, "request_sign_in": errors.deny_access}
    if isinstance(access, TokenAccess):
        sign_in_pages = SignInPages(access, endpoints, renderer, page_routes)
        routes += sign_in_pages.routes()
        sign_in = {"is_open": sign_in_pages.is_open, "request_sign_in": sign_in_pages.request_sign_in}
    middleware = Middleware(AccessMiddleware, access=access, names=names, respond=errors.respond, **sign_in)
    site = Starlette(
        routes=routes, middleware=[middleware], exception_handlers={HTTPException: errors.respond_to_error}
    )
    site.router.redirect_slashes = False
    site.state.hub = hub
    return site


def _api_path(route: PageRoute | Operation) -> str:
    return API_PREFIX + route.path.rstrip("/")
