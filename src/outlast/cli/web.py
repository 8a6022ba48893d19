"""``outlast web``: serve the dashboard."""

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import flag, option, resolve_app
from outlast.cli.logs import with_log_options
from outlast.errors import ConfigError
from outlast.run.signals import restored_after, set_handlers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from outlast.web.server import Opening, Server


_LOCAL_HOST, _DEFAULT_PORT, _MAX_PORT = "127.0.0.1", 8787, 65_535
_REQUIRED_PACKAGES = {"anyio", "jinja2", "starlette", "uvicorn"}


@click.command()
@click.argument("reference", metavar="[MODULE:APP]", required=False)
@option(
    "--url",
    "URL",
    "The store, such as sqlite:///outlast.db, instead of an app. Default: $OUTLAST_URL, "
    "then url under [app] in outlast.toml, then outlast.db if that file exists.",
)
@option(
    "--host", "ADDRESS", "Address to listen on. Any address but this machine's own needs a token.", default=_LOCAL_HOST
)
@option(
    "--port",
    "PORT",
    "Port to listen on; 0 picks a free port.",
    type=click.IntRange(0, _MAX_PORT),
    default=_DEFAULT_PORT,
)
@option(
    "--allow-host",
    "NAME",
    "A host name under which browsers reach it, besides localhost and the address itself; repeatable.",
    "hosts",
    multiple=True,
)
@option("--proxy", "ADDRESS", "Address of a trusted reverse proxy that sets X-Forwarded-For.")
@flag("--read-only", "Allow no changes, even with a token that allows them.")
@flag("--open", "Open it in a browser on this machine.", "opens")
@with_log_options("warning")
def web(reference: str | None, *, url: str | None, opens: bool, **settings: Any) -> None:
    """Serve the dashboard: failures, waits and changes in a browser.

    On this machine, the terminal shows a link that signs in one browser, once, within 15 minutes. When it was used, the
    next link is shown; the signal USR1 shows a new one at any time.

    If OUTLAST_WEB_TOKEN (full access) or OUTLAST_WEB_READ_TOKEN (read only) is set, people sign in with the token, and
    programs send it as Authorization: Bearer. Every page is also available as JSON under /api.

    Without MODULE:APP only the store is read; what only the app's code knows is not shown.

    \b
    Examples:
      outlast web jobs:app --open
      outlast web --url sqlite:///outlast.db --read-only
      export OUTLAST_WEB_TOKEN=…
      outlast web jobs:app --host 0.0.0.0 --allow-host jobs.example.com
    """  # noqa: D301  # click reads the control character, not a backslash
    web_server = _import_server()
    app = resolve_app(reference, url, may_create=reference is not None)
    try:
        app.store.check_schema()  # before the start is printed
        with web_server.Opening(lambda file: click.launch(file) == 0) as opening:
            server: Server = web_server.serve(
                app,
                token=os.environ.get(web_server.VARIABLE),
                read_token=os.environ.get(web_server.READ_VARIABLE),
                reference=reference,
                on_link=lambda link: _print_next_link(link, opening),
                **settings,
            )
            _print_start(server, opening if opens else None)
            with _links_on_demand(server):
                server.run()
    finally:
        app.close()


def _import_server() -> "ModuleType":
    """Return the module of the server; the error says which package is missing."""
    try:
        from outlast.web import server  # noqa: PLC0415  # needs the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _REQUIRED_PACKAGES:
            raise
        raise ConfigError(f"the dashboard needs {error.name} from the extra web: pip install 'outlast[web]'") from error
    return server


def _print_start(server: "Server", opening: "Opening | None") -> None:
    where = server.link() if server.has_links else server.url
    how = "This link signs in one browser, once." if server.has_links else "Sign in with the token."
    click.echo(f"Dashboard: {where}\n{how} Ctrl-C stops the dashboard.")
    if not server.is_local:
        click.echo("Without HTTPS the network can read the token: put an HTTPS proxy in front of it.", err=True)
    if opening is not None and not opening.open(where):
        click.echo("Could not open a browser; open the address yourself.", err=True)


def _print_next_link(link: str, opening: "Opening") -> None:
    opening.forget()
    click.echo(f"The link was used. The next link: {link}")


@contextmanager
def _links_on_demand(server: "Server") -> "Iterator[None]":
    """Within the block, print a new link on the signal USR1, if the server uses links."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None or not server.has_links:
        yield
        return
    with restored_after(set_handlers((number,), lambda *_: click.echo(f"A new link: {server.link()}"))):
        yield
