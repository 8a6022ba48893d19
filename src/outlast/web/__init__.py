"""The dashboard: shows in a browser what fails, what waits and what changed.

``outlast web MODULE:APP`` starts it as a server. You can also mount it in your own site:

    from outlast.web import dashboard

    site.mount("/outlast", dashboard(app, auth=role_of))

``auth`` takes the request and returns ``"operator"``, ``"reader"`` or None. Without it, access is denied to everyone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outlast.errors import ConfigError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from outlast.app import App
    from outlast.web.access.hook import Hook

__all__ = ["dashboard"]

_MISSING = "the dashboard needs the extra web: pip install 'outlast[web]'"


def dashboard(
    app: "App",
    *,
    auth: "Hook | None" = None,
    hosts: Sequence[str] = ("localhost", "127.0.0.1", "::1"),
    title: str = "Outlast",
) -> "Starlette":
    """Return the dashboard as an ASGI app that you can mount in your own site.

    Args:
        app: The app whose tasks, sources and jobs it shows.
        auth: Decides who may do what: takes the request, returns ``"operator"``, ``"reader"`` or None. A coroutine
            function is awaited, any other function is called in a thread. Without it, access is denied to everyone.
        hosts: Host names of the site, with any port; requests to other names are rejected.
        title: Shown on every page.

    Raises:
        ConfigError: If the extra ``web`` is not installed, or a host name is not valid.
    """
    try:
        from outlast.web.access.hook import HookAccess  # noqa: PLC0415  # needs the extra
        from outlast.web.site import build_site  # noqa: PLC0415  # needs the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"anyio", "jinja2", "starlette"}:
            raise
        raise ConfigError(_MISSING) from error
    return build_site(app, HookAccess(auth), hosts=hosts, title=title)
