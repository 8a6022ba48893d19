"""The dashboard: what fails, what waits for what, and what changed, in a browser.

``outlast web MODULE:APP`` starts it by itself. In one's own site it is mounted:

    from outlast.web import dashboard

    site.mount("/outlast", dashboard(app, auth=role_of))

``auth`` is given the request and returns ``"operator"``, ``"reader"`` or None. Without it nobody is let in.
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
    """Return the dashboard as an ASGI app, to be mounted in one's own site.

    Args:
        app: Whose tasks, sources and jobs it shows.
        auth: Says who may do what: takes the request, returns ``"operator"``, ``"reader"`` or None. A coroutine
            function is awaited, any other is called in a thread. Without it nobody is let in.
        hosts: Names under which the site is reached; all others are refused. Any port.
        title: Shown on every page.

    Raises:
        ConfigError: If the extra ``web`` is not installed, or a name cannot be one.
    """
    try:
        from outlast.web.access.hook import HookAccess  # noqa: PLC0415  # needs the extra
        from outlast.web.site import build_site  # noqa: PLC0415  # needs the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"anyio", "jinja2", "starlette"}:
            raise
        raise ConfigError(_MISSING) from error
    return build_site(app, HookAccess(auth), hosts=hosts, title=title)
