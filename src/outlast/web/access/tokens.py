"""The secrets that let people and programs in, and the links that do so once."""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

from outlast.errors import ConfigError
from outlast.web.access.callers import Role

__all__ = ["LINK_SECONDS", "READ_VARIABLE", "SHORTEST", "VARIABLE", "Links", "Tokens"]

VARIABLE, READ_VARIABLE = "OUTLAST_WEB_TOKEN", "OUTLAST_WEB_READ_TOKEN"
"""Variables of the environment with the secret of operators and that of readers."""
SHORTEST = 12
"""Characters that a secret has at least."""
LINK_SECONDS = 900.0
"""How long a one-time link is good; a log of the terminal keeps it for longer."""
_MOST_LINKS = 20
_MAKE_ONE = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'


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
        self._hashes = {role: _hash(_checked(*each)) for role, each in given.items() if each[1] is not None}
        if operator is not None and operator == reader:
            message = f"{VARIABLE} and {READ_VARIABLE} are the same; a reader would be an operator"
            raise ConfigError(message)

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def role_of(self, secret: str) -> Role | None:
        """Return what a secret allows; None for a wrong one. How long it takes tells nothing about the right ones."""
        hashed, found = _hash(secret), None
        for role, each in self._hashes.items():
            if hmac.compare_digest(hashed, each):
                found = role
        return found


class Links:
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
            while len(self._hashes) >= _MOST_LINKS:
                del self._hashes[next(iter(self._hashes))]
            self._hashes[_hash(secret)] = self._now() + LINK_SECONDS
        return secret

    def use(self, secret: str) -> bool:
        """Tell whether one is good; from now on it is not."""
        with self._lock:
            until = self._hashes.pop(_hash(secret), None)
        return until is not None and self._now() < until


def _checked(name: str, secret: str | None) -> str:
    thing: object = secret
    if not isinstance(thing, str) or not thing.strip() or thing != thing.strip() or not thing.isprintable():
        message = f"{name} is empty, no text, or has blanks around it; make one: {_MAKE_ONE}"
        raise ConfigError(message)
    if len(thing) < SHORTEST:
        message = f"{name} is shorter than {SHORTEST} characters; make a longer one: {_MAKE_ONE}"
        raise ConfigError(message)
    return thing


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
