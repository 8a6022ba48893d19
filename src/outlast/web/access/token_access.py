"""The secrets that let people and programs in, and the links that do so once."""

import hashlib
import hmac
import ipaddress
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from outlast.errors import ConfigError
from outlast.web.access.callers import Caller, Role, TooManyAttemptsError
from outlast.web.access.hosts import IPAddress, client_address, single_header

if TYPE_CHECKING:
    from starlette.types import Scope

    from outlast.web.endpoints import Notice


VARIABLE, READ_VARIABLE = "OUTLAST_WEB_TOKEN", "OUTLAST_WEB_READ_TOKEN"
"""Variables of the environment with the secret of operators and that of readers."""
MIN_TOKEN_CHARS = 12
"""Characters that a secret has at least."""
LINK_SECONDS = 900.0
"""How long a one-time link is good; a log of the terminal keeps it for longer."""
_MAX_LINKS = 20
_TOKEN_COMMAND = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'  # noqa: S105  # a command that makes one


class Tokens:
    """Secrets by what they allow; only their hashes are kept.

    Args:
        operator: Lets somebody change things; None for no such secret.
        reader: Lets somebody look; None for no such secret.

    Raises:
        ConfigError: If one cannot be used. The message does not show it.
    """

    def __init__(self, operator: str | None = None, reader: str | None = None) -> None:
        """Check the secrets."""
        given = {Role.OPERATOR: (VARIABLE, operator), Role.READER: (READ_VARIABLE, reader)}
        self._hashes = {role: _hash_secret(_check_token(*each)) for role, each in given.items() if each[1] is not None}
        if operator is not None and operator == reader:
            message = f"{VARIABLE} and {READ_VARIABLE} are the same; a reader would be an operator"
            raise ConfigError(message)

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def role_of(self, secret: str) -> Role | None:
        """Return what a secret allows; None for a wrong one. How long it takes tells nothing about the right ones."""
        hashed, found = _hash_secret(secret), None
        for role, each in self._hashes.items():
            if hmac.compare_digest(hashed, each):
                found = role
        return found


class OneTimeLinks:
    """Secrets that are good once each, and not for long.

    Args:
        now: The clock; one that goes on while the machine sleeps.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """Begin with none."""
        self._now = now
        self._hashes: dict[bytes, float] = {}  # and until when each is good
        self._lock = threading.Lock()

    def fresh(self) -> str:
        """Return a new one; when there are too many, the oldest is dead."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._hashes) >= _MAX_LINKS:
                del self._hashes[next(iter(self._hashes))]
            self._hashes[_hash_secret(secret)] = self._now() + LINK_SECONDS
        return secret

    def use(self, secret: str) -> bool:
        """Tell whether one is good; from now on it is not."""
        with self._lock:
            until = self._hashes.pop(_hash_secret(secret), None)
        return until is not None and self._now() < until


def _check_token(name: str, secret: str | None) -> str:
    thing: object = secret
    if not isinstance(thing, str) or not thing.strip() or thing != thing.strip() or not thing.isprintable():
        message = f"{name} is empty, no text, or has blanks around it; make one: {_TOKEN_COMMAND}"
        raise ConfigError(message)
    if len(thing) < MIN_TOKEN_CHARS:
        message = f"{name} is shorter than {MIN_TOKEN_CHARS} characters; make a longer one: {_TOKEN_COMMAND}"
        raise ConfigError(message)
    return thing


def _hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


# Who has signed in. Kept in memory; of what the browser holds only the hash is known here.

SESSION_SECONDS = 12 * 3600.0
"""How long a session lasts, whatever happens in it."""
_MAX_SESSIONS = 1000


class Session:
    """One browser that signed in.

    Attributes:
        role: What it may do.
        who: For people.
        notice: What its last action did, until a page has shown it.
    """

    def __init__(self, role: Role, who: str, until: float, now: Callable[[], float]) -> None:
        """Begin it."""
        self.role, self.who = role, who
        self.notice: "Notice | None" = None
        self._until, self._now, self._ended = until, now, False

    def lasts(self) -> bool:
        """Tell whether it goes on."""
        return not self._ended and self._now() < self._until

    def end(self) -> None:
        """End it."""
        self._ended = True


class Sessions:
    """All sessions of one dashboard.

    Args:
        seconds: How long one lasts.
        now: The clock; one that goes on while the machine sleeps.
    """

    def __init__(self, seconds: float = SESSION_SECONDS, now: Callable[[], float] = time.time) -> None:
        """Begin with none."""
        self.seconds, self._now = seconds, now
        self._by_hash: dict[bytes, Session] = {}
        self._lock = threading.Lock()

    def begin(self, role: Role, who: str) -> str:
        """Return the secret of a new session; when there are too many, the oldest ends."""
        secret = secrets.token_urlsafe(32)
        session = Session(role, who, self._now() + self.seconds, self._now)
        with self._lock:
            for key in [key for key, each in self._by_hash.items() if not each.lasts()]:
                del self._by_hash[key]
            while len(self._by_hash) >= _MAX_SESSIONS:
                self._by_hash.pop(next(iter(self._by_hash))).end()
            self._by_hash[_hash_session_secret(secret)] = session
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a secret while it lasts."""
        session = self._by_hash.get(_hash_session_secret(secret))
        return session if session is not None and session.lasts() else None

    def end_all(self) -> None:
        """End all, and their streams."""
        with self._lock:
            for session in self._by_hash.values():
                session.end()
            self._by_hash.clear()


def _hash_session_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


# Wrong secrets are slowed down: after a few from one place, the next has to wait, and longer each time.

FREE_ATTEMPTS = 5
"""Wrong secrets before it begins."""
MAX_WAIT_SECONDS = 60.0
"""Seconds that a place waits at most."""
_FORGET_SECONDS = 900.0  # seconds after which a place begins anew
_MAX_CLIENTS = 4096
_IPV6_PREFIX_BITS = 64  # bits of an IPv6 address that one customer has


class SignInThrottle:
    """How often each place was wrong.

    Args:
        now: The clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Begin with none."""
        self._now = now
        self._places: dict[str, tuple[int, float]] = {}  # how often wrong, and when last; the latest at the end

    def check(self, client: str) -> None:
        """See that a place may be wrong once more.

        Raises:
            TooOftenError: If it has to wait. Right secrets are not asked about here, and never wait.
        """
        wrong, last = self._places.get(_client_network(client), (0, 0.0))
        if wrong >= FREE_ATTEMPTS:
            left = last + min(MAX_WAIT_SECONDS, 2.0 ** (wrong - FREE_ATTEMPTS)) - self._now()
            if left > 0:
                raise TooManyAttemptsError(left)

    def failed(self, client: str) -> None:
        """Count a wrong secret."""
        now, place = self._now(), _client_network(client)
        wrong, last = self._places.pop(place, (0, now))
        if len(self._places) >= _MAX_CLIENTS:
            del self._places[next(iter(self._places))]
        self._places[place] = (1 if now - last > _FORGET_SECONDS else wrong + 1, now)


def _client_network(client: str) -> str:
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:  # as a socket for both kinds sees an IPv4 address
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _IPV6_PREFIX_BITS), strict=False))
    return client


# Access where the dashboard stands by itself: one-time links, a token or password, sessions by cookie.

_GUESS_DELAY = 1.0  # seconds after which somebody who guesses is answered
_MAX_DELAYED = 20  # who wait for that at once; the others are refused at once, and hold no connection that people need
log = logging.getLogger("outlast.web")


class TokenAccess:
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
        proxy: IPAddress | None = None,
    ) -> None:
        """Begin with nobody signed in."""
        self.tokens = Tokens() if tokens is None else tokens
        self.read_only, self.cookie, self.on_link_used = read_only, cookie, on_link_used
        self.sessions = Sessions() if sessions is None else sessions
        self.links, self.throttle = OneTimeLinks(), SignInThrottle()
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
        return client_address(scope, self._proxy)

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
            self.throttle.check(client)
        except TooManyAttemptsError:
            await self._delay_guess()
            raise
        self.throttle.failed(client)
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

    async def _delay_guess(self) -> None:
        if self._late < _MAX_DELAYED:
            self._late += 1
            try:
                await anyio.sleep(_GUESS_DELAY)
            finally:
                self._late -= 1

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
