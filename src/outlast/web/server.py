"""A server for the dashboard alone: uvicorn on an address of one's own, in the foreground or in a thread."""

import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Self

import uvicorn

from outlast.errors import ConfigError
from outlast.web.access.hosts import LOOPBACK, is_loopback, parse_proxy
from outlast.web.access.sign_in import LINK_PATH
from outlast.web.access.token_access import READ_VARIABLE, VARIABLE, TokenAccess, Tokens
from outlast.web.routing import APP_PLACEHOLDER, build_url
from outlast.web.site import build_site

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from starlette.applications import Starlette

    from outlast.app import App

__all__ = ["PORT", "READ_VARIABLE", "VARIABLE", "Opening", "Server", "serve"]


# Opening a one-time link in a browser without showing it to others on the machine.
#
# Whatever a browser is started with can be read by every user in the list of processes. So it is started with a file
# that only this user can read, and that leads on.

_REDIRECT_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Outlast</title>
</head>
<body><p><a href="{link}">Open the dashboard</a></p></body>
</html>
"""


class Opening:
    """A file that leads to a link; as a context manager it removes it.

    Args:
        start: Has a browser open the address of a file; returns whether it could.
    """

    def __init__(self, start: Callable[[str], bool]) -> None:
        """Keep how; nothing is written yet."""
        self._start = start
        self._folder: Path | None = None

    def open(self, link: str) -> bool:
        """Open a link; tell whether a browser could be started.

        Args:
            link: Where to lead.
        """
        self.forget()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="outlast-web-"))  # for this user alone
            file = self._folder / "open.html"
            file.touch(0o600)
            file.write_text(_REDIRECT_PAGE.format(link=escape(link)), "utf-8")
        except OSError:
            self.forget()
            return False
        return self._start(file.as_uri())

    def forget(self) -> None:
        """Remove the file; what it leads to has been used, or is over."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()


PORT = 8787
"""Where it listens by default."""
_ALL_INTERFACES = {"0.0.0.0", "::", ""}  # noqa: S104  # to tell them apart from an address
_BACKLOG = 128
_MAX_CONNECTIONS = 500
_SHUTDOWN_SECONDS = 2  # seconds that answers on their way have when it closes
_START_TIMEOUT = 30.0  # seconds in which uvicorn begins
_MAX_PORT = 65_535


def serve(  # noqa: PLR0913  # its settings
    app: "App",
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    read_token: str | None = None,
    hosts: Sequence[str] = (),
    read_only: bool = False,
    title: str = "Outlast",
    reference: str | None = None,
    on_link: Callable[[str], None] | None = None,
    proxy: str | None = None,
) -> "Server":
    """Return a server for the dashboard of an app; it holds its port already, and answers once it is started.

    Args:
        app: Whose tasks, sources and jobs are shown.
        host: The address to listen on. By default only this machine can ask.
        port: Where to listen; 0 picks a free one.
        token: Lets operators in. Anywhere but on this machine a token is needed.
        read_token: Lets readers in.
        hosts: Names under which it answers, besides those of this machine and the address itself.
        read_only: Whether nobody may change anything.
        title: Shown on every page.
        reference: Where the app is, such as ``jobs:app``, for commands to be copied.
        on_link: Told a fresh one-time link whenever one was used, where links let people in.
        proxy: The address of a proxy before it, whose X-Forwarded-For says from where somebody asks; nobody else's
            does. Only the slowing down of wrong secrets and the log go by it.

    Raises:
        ConfigError: If it cannot listen there, would be open to everybody, or something given cannot be used.
    """
    tokens = Tokens(token, read_token)
    if not is_loopback(host) and not tokens:
        message = (
            f"on {host or 'all addresses'} everybody who reaches this machine could look in; set {VARIABLE} (may "
            f"change things) or {READ_VARIABLE} (may look), or listen on 127.0.0.1"
        )
        raise ConfigError(message)
    believed = parse_proxy(proxy)
    bare = host.removeprefix("[").removesuffix("]")
    names = (*LOOPBACK, *hosts) if bare in _ALL_INTERFACES else (*LOOPBACK, bare, *hosts)
    listener = _listening_socket(bare, port)
    try:
        chosen = listener.getsockname()[1]
        cookie = f"outlast-session-{chosen}"
        access = TokenAccess(tokens, read_only=read_only, cookie=cookie, proxy=believed)
        site = build_site(app, access, hosts=names, title=title, reference=reference or APP_PLACEHOLDER)
        server = Server(site, access, listener, bare, chosen)
    except BaseException:
        listener.close()
        raise
    if on_link is not None and server.has_links:
        access.on_link_used = lambda: on_link(server.link())
    return server


class Server:
    """The dashboard on a port.

    Attributes:
        url: Where a browser finds it.
        port: Its port.
        is_local: Whether only this machine can reach it.
        has_links: Whether one-time links let people in: on this machine, and where there is no token.
    """

    def __init__(self, site: "Starlette", access: TokenAccess, listener: socket.socket, host: str, port: int) -> None:
        """Keep what it is made of; nothing answers yet."""
        shown = "127.0.0.1" if host in _ALL_INTERFACES else f"[{host}]" if ":" in host else host
        self.url, self.port = f"http://{shown}:{port}", port
        self.is_local = is_loopback(host)
        self.has_links = self.is_local and not access.tokens
        self._access, self._listener, self._hub = access, listener, site.state.hub
        config = uvicorn.Config(
            site,
            log_config=None,
            access_log=False,  # it would write down one-time links
            server_header=False,
            proxy_headers=False,  # uvicorn would take the proxy's word for more than the address
            ws="none",
            http="h11",
            loop="asyncio",
            lifespan="off",
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self._server = _Uvicorn(config, self._end_streams)
        self._thread: threading.Thread | None = None

    def link(self) -> str:
        """Return a fresh link that lets one browser in, once.

        Raises:
            ConfigError: If people sign in by a token here.
        """
        if not self.has_links:
            message = "people sign in with the token here; one-time links are for this machine alone"
            raise ConfigError(message)
        return self.url + build_url("", LINK_PATH, {"once": self._access.links.fresh()})

    def start(self) -> Self:
        """Answer in a thread until `close`; return when it does."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="outlast-web", daemon=True)
            self._thread.start()
            if not self._server.begun.wait(_START_TIMEOUT) or self._server.failed:
                self.close()
                message = "the dashboard could not be started; the log has the reason"
                raise ConfigError(message)
        return self

    def run(self) -> None:
        """Answer in this thread until SIGINT or SIGTERM comes; a second one ends it at once."""
        try:
            self._run()
        finally:
            self._end_streams()
            self._listener.close()

    def close(self) -> None:
        """End all sessions and streams, and answer no more. May be called twice."""
        self._end_streams()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._listener.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: "TracebackType | None"
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except BaseException:
            self._server.failed = True
            raise
        finally:
            self._server.begun.set()

    def _end_streams(self) -> None:
        self._access.close()
        self._hub.close()


class _Uvicorn(uvicorn.Server):
    """Uvicorn, told what to end before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self.begun, self.failed, self._ending = threading.Event(), False, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and leave it at that: whoever started this goes on behind it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: "FrameType | None") -> None:  # noqa: ARG002  # as signals are handled
        self.force_exit = self.should_exit
        self.should_exit = True


def _listening_socket(host: str, port: int) -> socket.socket:
    number: object = port
    if type(number) is not int or not 0 <= number <= _MAX_PORT:
        message = f"port is {port!r}; give a whole number from 0 (any that is free) to {_MAX_PORT}"
        raise ConfigError(message)
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(where[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "no such address"
        message = f"the dashboard cannot listen on port {port} of {host or 'all addresses'}: {why}; choose another port"
        raise ConfigError(message) from error
