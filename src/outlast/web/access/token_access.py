"""Access to a dashboard with its own server: tokens, one-time links, sessions and the throttle for guesses."""

import hashlib
import hmac
import ipaddress
import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from outlast.errors import ConfigError
from outlast.web.access.callers import Caller, Role, TooManyAttemptsError
from outlast.web.access.hosts import IPAddress, client_address, parse_ip, single_header

if TYPE_CHECKING:
    from starlette.types import Scope


VARIABLE, READ_VARIABLE = "OUTLAST_WEB_TOKEN", "OUTLAST_WEB_READ_TOKEN"
"""Environment variables with the tokens of operators and of readers."""
MIN_TOKEN_CHARS = 32
"""Fewest characters of a token."""
LINK_SECONDS = 900.0
"""Seconds until a one-time link expires, because terminal logs may keep it much longer."""
_MAX_LINKS = 20
_TOKEN_COMMAND = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'  # noqa: S105  # not a token


class Tokens:
    """The tokens of operators and readers; only their hashes are kept.

    Args:
        operator: Token that allows changes; None for no such token.
        reader: Token that only allows reading; None for no such token.

    Raises:
        ConfigError: If a token is not valid. The message does not show it.
    """

    def __init__(self, operator: str | None = None, reader: str | None = None) -> None:
        given = {Role.OPERATOR: (VARIABLE, operator), Role.READER: (READ_VARIABLE, reader)}
        self._hashes = {role: _hash_secret(_check_token(*each)) for role, each in given.items() if each[1] is not None}
        if operator is not None and operator == reader:
            raise ConfigError(f"{VARIABLE} and {READ_VARIABLE} are the same; readers need a token of their own")

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def role_of(self, secret: str) -> Role | None:
        """Return the role of a token; None if it is wrong. The time this takes reveals nothing of the right tokens."""
        hashed, found = _hash_secret(secret), None
        for role, each in self._hashes.items():
            if hmac.compare_digest(hashed, each):
                found = role
        return found


class OneTimeLinks:
    """Secrets of links that work once and expire soon.

    Args:
        now: Returns the time in seconds; it must go on while the machine sleeps.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._hashes: dict[bytes, float] = {}  # with the time at which each expires
        self._lock = threading.Lock()

    def new(self) -> str:
        """Return a new secret; if there are too many, the oldest stops working."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._hashes) >= _MAX_LINKS:
                del self._hashes[next(iter(self._hashes))]
            self._hashes[_hash_secret(secret)] = self._now() + LINK_SECONDS
        return secret

    def use(self, secret: str) -> bool:
        """Return whether a secret is valid, and invalidate it."""
        with self._lock:
            until = self._hashes.pop(_hash_secret(secret), None)
        return until is not None and self._now() < until


def _check_token(name: str, secret: str | None) -> str:
    thing: object = secret
    if not isinstance(thing, str) or not thing.strip() or thing != thing.strip() or not thing.isprintable():
        raise ConfigError(f"{name} is empty, not a text, or has spaces around it; make one: {_TOKEN_COMMAND}")
    if len(thing) < MIN_TOKEN_CHARS:
        raise ConfigError(f"{name} is shorter than {MIN_TOKEN_CHARS} characters; make a longer one: {_TOKEN_COMMAND}")
    return thing


def _hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


SESSION_SECONDS = 12 * 3600.0
"""Seconds after which a session ends, also if it is in use."""
_MAX_SESSIONS = 1000


class Session:
    """The session of a browser.

    Attributes:
        role: What the caller may do.
        who: Name for people and the audit log.
    """

    def __init__(self, role: Role, who: str, until: float, now: Callable[[], float]) -> None:
        self.role, self.who = role, who
        self._until, self._now, self._ended = until, now, False

    def is_active(self) -> bool:
        """Return whether the session has not ended."""
        return not self._ended and self._now() < self._until

    def end(self) -> None:
        """End the session."""
        self._ended = True


class Sessions:
    """All sessions of a dashboard, in memory; only the hashes of their secrets are kept.

    Args:
        seconds: Seconds until a session ends.
        now: Returns the time in seconds; it must go on while the machine sleeps.
    """

    def __init__(self, seconds: float = SESSION_SECONDS, now: Callable[[], float] = time.time) -> None:
        self.seconds, self._now = seconds, now
        self._by_hash: dict[bytes, Session] = {}
        self._lock = threading.Lock()

    def begin(self, role: Role, who: str) -> str:
        """Start a session and return its secret; if there are too many sessions, the oldest ends."""
        secret = secrets.token_urlsafe(32)
        session = Session(role, who, self._now() + self.seconds, self._now)
        with self._lock:
            for key in [key for key, each in self._by_hash.items() if not each.is_active()]:
                del self._by_hash[key]
            while len(self._by_hash) >= _MAX_SESSIONS:
                self._by_hash.pop(next(iter(self._by_hash))).end()
            self._by_hash[_hash_secret(secret)] = session
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the active session of a secret; None if there is none."""
        session = self._by_hash.get(_hash_secret(secret))
        return session if session is not None and session.is_active() else None

    def end_all(self) -> None:
        """End all sessions and their streams."""
        with self._lock:
            for session in self._by_hash.values():
                session.end()
            self._by_hash.clear()


FREE_ATTEMPTS = 5
"""Wrong tokens and links from one network before it must wait."""
MAX_WAIT_SECONDS = 60.0
"""Longest wait in seconds; it doubles with each wrong token or link."""
_FORGET_SECONDS = 900.0  # without a wrong one, after which the count starts again
_MAX_CLIENTS = 4096
_IPV6_PREFIX_BITS = 64  # network that one customer usually has


class SignInThrottle:
    """Counts wrong tokens and links by network and slows them down.

    Args:
        now: Returns the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: dict[str, tuple[int, float]] = {}  # count and time of the last one; the latest at the end

    def check(self, client: str) -> None:
        """Raise if a client must wait before its next wrong token or link is counted.

        Raises:
            TooManyAttemptsError: If it must wait. Right tokens and links are not checked here and never wait.
        """
        wrong, last = self._failures.get(_client_network(client), (0, 0.0))
        if wrong >= FREE_ATTEMPTS:
            left = last + min(MAX_WAIT_SECONDS, 2.0 ** min(wrong - FREE_ATTEMPTS, 6)) - self._now()
            if left > 0:
                raise TooManyAttemptsError(left)

    def failed(self, client: str) -> None:
        """Count a wrong token or link."""
        now, network = self._now(), _client_network(client)
        wrong, last = self._failures.pop(network, (0, now))
        if len(self._failures) >= _MAX_CLIENTS:
            del self._failures[next(iter(self._failures))]
        self._failures[network] = (1 if now - last > _FORGET_SECONDS else wrong + 1, now)


def _client_network(client: str) -> str:
    address = parse_ip(client)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _IPV6_PREFIX_BITS), strict=False))
    return client if address is None else str(address)


_GUESS_DELAY = 1.0  # seconds before a throttled guess is rejected
_MAX_DELAYED = 20  # delayed at the same time; further guesses are rejected at once, to keep connections free
log = logging.getLogger("outlast.web")


class TokenAccess:
    """Access by tokens, one-time links and session cookies.

    Args:
        tokens: Tokens of people and programs; None for links only.
        read_only: Whether all callers are readers.
        cookie: Name of the cookie. Cookies do not distinguish ports, so each dashboard on a host needs its own name.
        sessions: The sessions.
        on_link_used: Called when a one-time link was used, so that a new one can be shown.
        proxy: The trusted proxy, which gives the client's address; None for none.
    """

    def __init__(
        self,
        tokens: Tokens | None = None,
        *,
        read_only: bool = False,
        cookie: str = "outlast-session",
        sessions: Sessions | None = None,
        on_link_used: Callable[[], None] = lambda: None,
        proxy: IPAddress | None = None,
    ) -> None:
        self.tokens = Tokens() if tokens is None else tokens
        self.read_only, self.cookie, self.on_link_used = read_only, cookie, on_link_used
        self.sessions = Sessions() if sessions is None else sessions
        self.links, self.throttle = OneTimeLinks(), SignInThrottle()
        self._closed, self._proxy, self._delayed = False, proxy, 0

    async def caller(self, scope: "Scope") -> Caller | None:
        """Return the caller: by the token if there is one, otherwise by the session cookie."""
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if any(value.strip().lower().startswith(b"bearer") for value in given):
            return await self._by_token(scope)
        session = self.session_of(scope)
        if session is None:
            return None
        return Caller(session.role, session.who, lambda: not self._closed and session.is_active(), session)

    def session_of(self, scope: "Scope") -> Session | None:
        """Return the session of the cookie; None if there is none or the cookie is sent twice."""
        pairs = [
            part.partition("=")
            for name, value in scope["headers"]
            if name.lower() == b"cookie"
            for part in value.decode("latin-1").split(";")
        ]
        found = [value.strip() for name, _, value in pairs if name.strip() == self.cookie]
        return self.sessions.find(found[0]) if len(found) == 1 else None

    def client_of(self, scope: "Scope") -> str:
        """Return the client's address."""
        return client_address(scope, self._proxy)

    async def role_of_secret(self, secret: str, client: str) -> Role | None:
        """Return the role of a token; None if it is wrong.

        A right token is never throttled, so that an attacker cannot lock out others who share the address.

        Args:
            secret: The token.
            client: The client's address.

        Raises:
            TooManyAttemptsError: If it is wrong, and the client sent too many wrong tokens before.
        """
        role = self.tokens.role_of(secret)
        if role is None:
            await self._count_wrong("token", client)
            return None
        return self._limited(role)

    async def role_of_link(self, secret: str, client: str) -> Role | None:
        """Return the role of a one-time link, and use it up; None if it is not valid. A valid one is never throttled.

        Args:
            secret: The secret of the link.
            client: The client's address.

        Raises:
            TooManyAttemptsError: If it is not valid, and the client sent too many wrong links or tokens before.
        """
        if not self.links.use(secret):
            await self._count_wrong("one-time link", client)
            return None
        with suppress(OSError):  # nobody reads what it prints
            self.on_link_used()
        return self._limited(Role.OPERATOR)

    def close(self) -> None:
        """End all sessions and streams."""
        self._closed = True
        self.sessions.end_all()

    async def _count_wrong(self, what: str, client: str) -> None:
        try:
            self.throttle.check(client)
        except TooManyAttemptsError:
            await self._delay_guess()
            raise
        self.throttle.failed(client)
        log.warning("a wrong %s for the dashboard came from %s", what, client, extra={"client": client})

    async def _delay_guess(self) -> None:
        if self._delayed < _MAX_DELAYED:
            self._delayed += 1
            try:
                await anyio.sleep(_GUESS_DELAY)
            finally:
                self._delayed -= 1

    async def _by_token(self, scope: "Scope") -> Caller | None:
        scheme, _, secret = (single_header(scope["headers"], b"authorization") or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not self.tokens:
            return None
        role = await self.role_of_secret(secret.strip(), self.client_of(scope))
        if role is None:
            return None
        return Caller(role, f"{role} by token", lambda: not self._closed)

    def _limited(self, role: Role) -> Role:
        return Role.READER if self.read_only else role
