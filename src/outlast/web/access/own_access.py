"""Access where the dashboard stands by itself: one-time links, a token or password, sessions by cookie."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from outlast.web.access.callers import Caller, Role, TooOftenError
from outlast.web.access.hosts import only
from outlast.web.access.peers import Address, client_of
from outlast.web.access.sessions import Session, Sessions
from outlast.web.access.slowing import Slowdown
from outlast.web.access.tokens import Links, Tokens

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["OwnAccess"]

_LATE = 1.0  # seconds after which somebody who guesses is answered
_MOST_LATE = 20  # who wait for that at once; the others are refused at once, and hold no connection that people need
log = logging.getLogger("outlast.web")


class OwnAccess:
    """Knows who signed in.

    Args:
        tokens: Secrets that let people and programs in; none for links alone.
        read_only: Whether nobody may change anything, whatever they show.
        cookie: Name of the cookie. Browsers do not tell ports of one host apart, so each dashboard needs its own.
        sessions: Where sessions are kept.
        on_link_used: Called when a one-time link was used, so that a fresh one can be told.
        proxy: The one that is believed when it says from where somebody asks; None for none.
    """

    def __init__(
        self,
        tokens: Tokens | None = None,
        *,
        read_only: bool = False,
        cookie: str = "outlast-session",
        sessions: Sessions | None = None,
        on_link_used: Callable[[], None] = lambda: None,
        proxy: Address | None = None,
    ) -> None:
        """Begin with nobody signed in."""
        self.tokens = Tokens() if tokens is None else tokens
        self.read_only, self.cookie, self.on_link_used = read_only, cookie, on_link_used
        self.sessions = Sessions() if sessions is None else sessions
        self.links, self.slowdown = Links(), Slowdown()
        self._closed, self._proxy, self._late = False, proxy, 0

    async def caller(self, scope: "Scope") -> Caller | None:
        """Return who asks: by their token, or without one by their cookie, never by both."""
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if any(value.strip().lower().startswith(b"bearer") for value in given):
            return await self._by_token(scope)
        session = self.session_of(scope)
        if session is None:
            return None
        return Caller(session.role, session.who, lambda: not self._closed and session.lasts(), session)

    def session_of(self, scope: "Scope") -> Session | None:
        """Return the session that a browser shows; of two cookies of the name none counts."""
        pairs = [
            part.partition("=")
            for name, value in scope["headers"]
            if name.lower() == b"cookie"
            for part in value.decode("latin-1").split(";")
        ]
        found = [value.strip() for name, _, value in pairs if name.strip() == self.cookie]
        return self.sessions.find(found[0]) if len(found) == 1 else None

    def client_of(self, scope: "Scope") -> str:
        """Return from where somebody asks."""
        return client_of(scope, self._proxy)

    async def role_of_secret(self, secret: str, client: str) -> Role | None:
        """Return what a secret allows that somebody typed in or sent; None for a wrong one.

        A right one is never refused: whoever shares an address with somebody who guesses would be locked out.

        Args:
            secret: What they gave.
            client: From where.

        Raises:
            TooOftenError: If it is wrong, and too many wrong ones came from there before.
        """
        role = self.tokens.role_of(secret)
        if role is not None:
            return self._limited(role)
        try:
            self.slowdown.check(client)
        except TooOftenError:
            await self._be_late()
            raise
        self.slowdown.failed(client)
        log.warning("a wrong secret for the dashboard came from %s", client, extra={"client": client})
        return None

    def role_of_link(self, secret: str) -> Role | None:
        """Return what a one-time link allows; from now on it is dead."""
        if not self.links.use(secret):
            return None
        self.on_link_used()
        return self._limited(Role.OPERATOR)

    def close(self) -> None:
        """End all sessions and streams."""
        self._closed = True
        self.sessions.end_all()

    async def _be_late(self) -> None:
        if self._late < _MOST_LATE:
            self._late += 1
            try:
                await anyio.sleep(_LATE)
            finally:
                self._late -= 1

    async def _by_token(self, scope: "Scope") -> Caller | None:
        scheme, _, secret = (only(scope["headers"], b"authorization") or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not self.tokens:
            return None
        role = await self.role_of_secret(secret.strip(), self.client_of(scope))
        if role is None:
            return None
        return Caller(role, f"{role} by token", lambda: not self._closed)

    def _limited(self, role: Role) -> Role:
        return Role.READER if self.read_only else role
