"""A server for the dashboard: uvicorn on its own address, in the foreground or in a thread."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from outlast.app import App
from outlast.errors import ConfigError
from outlast.health.server import check_port, listening_socket
from outlast.run.signals import restored_after, set_handlers
from outlast.web.access.hosts import LOOPBACK, is_loopback, parse_proxy
from outlast.web.access.sign_in import LINK_PATH
from outlast.web.access.token_access import READ_VARIABLE, VARIABLE, TokenAccess, Tokens
from outlast.web.routing import APP_PLACEHOLDER, build_url
from outlast.web.site import build_site

__all__ = ["PORT", "READ_VARIABLE", "VARIABLE", "Opening", "Server", "serve"]


_REDIRECT_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Outlast</title>
<p><a href="{link}">Open the dashboard</a></p>
"""


class Opening:
    """Opens a one-time link in a browser by way of a private file; as a context manager it removes the file.

    Every user of the machine can see the arguments of the browser in the list of processes. So the browser gets the
    path of a file that only this user can read and that redirects to the link.

    Args:
        start: Opens a file URL in a browser; returns whether that worked.
    """

    def __init__(self, start: Callable[[str], bool]) -> None:
        self._start = start
        self._folder: TemporaryDirectory[str] | None = None

    def open(self, link: str) -> bool:
        """Open a link; return whether a browser could be started.

        Args:
            link: The link to redirect to.
        """
        self.forget()
        try:
            self._folder = TemporaryDirectory(prefix="outlast-web-", ignore_cleanup_errors=True)  # for this user alone
            file = Path(self._folder.name, "open.html")
            file.touch(0o600)
            file.write_text(_REDIRECT_PAGE.format(link=escape(link)), "utf-8")
        except OSError:
            self.forget()
            return False
        return self._start(file.as_uri())

    def forget(self) -> None:
        """Remove the file: its link was used or has expired."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()


PORT = 8787
"""The default port."""
_ALL_INTERFACES = {"0.0.0.0", "::", ""}  # noqa: S104  # to recognise them
_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 100
_MAX_CONNECTIONS = 500
_CLIENT_SECONDS = 10.0  # for a client to send its request, and to take a part of the response
_SHUTDOWN_SECONDS = 2  # for responses that are being sent
_START_TIMEOUT = 30.0  # seconds for uvicorn to start


def serve(  # noqa: PLR0913  # its settings
    app: App,
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
    """Return a server for the dashboard of an app. Its port is bound already; it responds once it is started.

    Args:
        app: The app whose tasks, sources and jobs it shows.
        host: The address to listen on. By default only this machine can reach it.
        port: The port to listen on; 0 picks a free one.
        token: Token of operators. On any address but loopback, a token is required.
        read_token: Token of readers.
        hosts: Allowed host names, in addition to those of this machine and the address itself.
        read_only: Whether all changes are rejected.
        title: Shown on every page.
        reference: The app such as ``jobs:app``, for commands to copy.
        on_link: Called with a new one-time link whenever one was used, if links are enabled.
        proxy: The address of a trusted reverse proxy, whose X-Forwarded-For gives the client's address. It is only
            used to throttle wrong tokens and for the log.

    Raises:
        ConfigError: If it cannot listen there, would be open to everyone, or an argument is not valid.
    """
    tokens = Tokens(token, read_token)
    if not is_loopback(host) and not tokens:
        raise ConfigError(
            f"on {host or 'all addresses'} the dashboard would be open to everyone who can reach this machine; set "
            f"{VARIABLE} (may change things) or {READ_VARIABLE} (may only read), or listen on 127.0.0.1"
        )
    trusted_proxy = parse_proxy(proxy)
    bare = host.removeprefix("[").removesuffix("]")
    names = (*LOOPBACK, *hosts) if bare in _ALL_INTERFACES else (*LOOPBACK, bare, *hosts)
    listener = listening_socket("dashboard", bare or None, check_port(port), _BACKLOG)
    try:
        bound_port = listener.getsockname()[1]
        cookie = f"outlast-session-{bound_port}"
        access = TokenAccess(tokens, read_only=read_only, cookie=cookie, proxy=trusted_proxy)
        site = build_site(app, access, hosts=names, title=title, reference=reference or APP_PLACEHOLDER)
        server = Server(site, access, listener, bare, bound_port)
    except BaseException:
        listener.close()
        raise
    if on_link is not None and server.has_links:
        access.on_link_used = lambda: on_link(server.link())
    return server


class Server:
    """The dashboard on a port.

    Attributes:
        url: Its URL for a browser.
        port: Its port.
        is_local: Whether only this machine can reach it.
        has_links: Whether one-time links are enabled: on loopback, if there is no token.
    """

    def __init__(self, site: Starlette, access: TokenAccess, listener: socket.socket, host: str, port: int) -> None:
        url_host = f"[{host}]" if ":" in host else host
        self.url = f"http://{'127.0.0.1' if host in _ALL_INTERFACES else url_host}:{port}"
        self.port = port
        self.is_local = is_loopback(host)
        self.has_links = self.is_local and not access.tokens
        self._access, self._listener, self._hub = access, listener, site.state.hub
        connections = _Connections(site)
        config = uvicorn.Config(
            connections,
            log_config=None,
            access_log=False,  # it would contain one-time links
            server_header=False,
            proxy_headers=False,  # uvicorn would trust the proxy with more than the address
            ws="none",
            http=connections.protocol(),
            loop="asyncio",
            lifespan="off",
            limit_concurrency=_MAX_CONNECTIONS + 2 * _ACCEPTED_AT_ONCE,  # it also counts those that are being closed
            backlog=_ACCEPTED_AT_ONCE,  # asyncio accepts as many before it closes others, which also have open files
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self._server = _Uvicorn(config, self._end_streams)
        self._thread: threading.Thread | None = None

    def link(self) -> str:
        """Return a new link that signs one browser in, once.

        Raises:
            ConfigError: If one-time links are not enabled.
        """
        if not self.has_links:
            raise ConfigError(
                "one-time links are only for a dashboard on this machine without a token; sign in with the token"
            )
        return self.url + build_url("", LINK_PATH, {"once": self._access.links.new()})

    def start(self) -> Self:
        """Serve in a thread until `close`; return once it is ready.

        Raises:
            ConfigError: If it cannot be started.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="outlast-web", daemon=True)
            self._thread.start()
            if not self._server.ready.wait(_START_TIMEOUT) or self._server.failed:
                self.close()
                raise ConfigError("the dashboard could not be started; see the log for the reason")
        return self

    def run(self) -> None:
        """Serve in this thread until SIGINT or SIGTERM; a second signal ends it immediately."""
        try:
            self._run()
        finally:
            self._end_streams()
            self._listener.close()

    def close(self) -> None:
        """End all sessions and streams, and stop serving. May be called twice."""
        self._end_streams()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._listener.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except BaseException:
            self._server.failed = True
            raise
        finally:
            self._server.ready.set()

    def _end_streams(self) -> None:
        self._access.close()
        self._hub.close()


_TRANSPORT_KEY = "outlast_transport"


class _Connections:
    """The connections of the dashboard. Those that wait for their client are closed after a time, or to make room.

    A connection waits for its client while the head or a part of the body of a request is missing, and while a
    response is not taken. While a page is made or a stream has nothing to send, it does not.

    Args:
        site: Responds to the requests.
    """

    def __init__(self, site: ASGIApp) -> None:
        self._site = site
        self._waiting: dict[asyncio.Transport, asyncio.TimerHandle] = {}  # the longest first

    def protocol(self) -> type[asyncio.Protocol]:
        """Return the class of connections for uvicorn."""
        ours = self

        class Connection(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
                super().connection_made(transport)
                self.app_state = {**self.app_state, _TRANSPORT_KEY: transport}  # uvicorn copies it to each request
                if len(self.connections) > _MAX_CONNECTIONS and ours._waiting:
                    idle_first = min(ours._waiting, key=lambda each: each.get_write_buffer_size() > 0)
                    ours._serve(idle_first)
                    idle_first.abort()
                ours._wait(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                ours._serve(self.transport)
                super().connection_lost(exc)

        return Connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request; its connection waits for the client while the site receives or sends."""
        transport: asyncio.Transport = scope["state"][_TRANSPORT_KEY]
        has_all, is_done = False, False

        async def receive_part() -> Message:
            nonlocal has_all
            if has_all:
                return await receive()  # returns when the client disconnects
            self._wait(transport)
            message = await receive()
            has_all = not message.get("more_body", False)
            if not is_done:
                self._serve(transport)
            return message

        async def send_part(message: Message) -> None:
            nonlocal is_done
            is_done = message["type"] == "http.response.body" and not message.get("more_body", False)
            self._wait(transport)
            await send(message)
            (self._wait if is_done else self._serve)(transport)

        self._serve(transport)
        try:
            await self._site(scope, receive_part, send_part)
        finally:
            if not is_done:
                self._wait(transport)

    def _wait(self, transport: asyncio.Transport) -> None:
        self._serve(transport)
        unsent = transport.get_write_buffer_size()
        if unsent or not transport.is_closing():
            timer = asyncio.get_running_loop().call_later(_CLIENT_SECONDS, self._expire, transport, unsent)
            self._waiting[transport] = timer

    def _serve(self, transport: asyncio.Transport) -> None:
        if timer := self._waiting.pop(transport, None):
            timer.cancel()

    def _expire(self, transport: asyncio.Transport, unsent: int) -> None:
        if 0 < transport.get_write_buffer_size() < unsent:
            self._wait(transport)  # the client is slow, but takes the response
        else:
            transport.abort()


class _Uvicorn(uvicorn.Server):
    """Uvicorn that ends the streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready, self.failed, self._end_streams = threading.Event(), False, end_streams

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal without raising it again, so that the caller can continue."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with restored_after(set_handlers((signal.SIGINT, signal.SIGTERM), self.handle_exit)):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as signals are handled
        self.force_exit = self.should_exit
        self.should_exit = True
