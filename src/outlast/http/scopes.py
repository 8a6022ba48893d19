"""What is left alone when a server asks for it: its host, or something narrower."""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import parse_qsl, urlsplit

from outlast.classify import default_classifier
from outlast.classify.credentials import credentials_in
from outlast.errors import ConfigError

__all__ = ["SCOPES", "Scope", "host_of", "scope_named", "shown"]

Scope = Callable[[str, object], str]
"""Gets a URL and the headers that go with it; returns the name under which a cooldown is kept."""

_ROUNDS = 100_000  # a password may be a weak one; so nobody finds it by trying them against the name
_DEFAULT_PORTS = {"http": 80, "https": 443}


def host_of(url: str) -> str:
    """Return the host of a URL, with its port where it is not the usual one; never what stands before an ``@``."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        port = parts.port
    except ValueError:  # no number, or none that a port can have
        port = None
    return host if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f"{host}:{port}"


def shown(url: object) -> str:
    """Return an address for logs: no query, no credentials, no secrets in its path."""
    text = "" if url is None else str(url)
    try:
        parts = urlsplit(text)
        plain = f"{parts.scheme}://{host_of(text)}{parts.path}" if parts.netloc else parts.path
    except ValueError:  # brackets that do not match
        return "an address that cannot be read"
    return default_classifier().redact(plain)


def _by_host(url: str, _headers: object) -> str:
    return host_of(url)


def _by_url(url: str, _headers: object) -> str:
    """The host and the path; of one that holds a secret a digest, for scopes are stored and logged."""
    plain = f"{host_of(url)}{urlsplit(url).path}"
    masked = default_classifier().redact(plain)
    return plain if masked == plain else f"{masked}#{_digest(plain)}"


def _by_credential(url: str, headers: object) -> str:
    """The host and a digest of who asks: two keys have two allowances."""
    parts = urlsplit(url)
    found = [parts.username or "", parts.password or ""]
    found += [f"{name}={value}" for name, value in parse_qsl(parts.query) if credentials_in((), f"x:?{name}=x")]
    found += [f"{name}: {value}" for name, value in _items(headers) if credentials_in((name,), "")]
    if not any(found):
        return host_of(url)
    return f"{host_of(url)}#{_digest(*found)}"


@lru_cache(1024)  # it takes its time
def _digest(*parts: str) -> str:
    told = "\n".join(parts).encode("utf-8", "replace")
    return hashlib.pbkdf2_hmac("sha256", told, b"outlast scope", _ROUNDS).hex()[:12]


def _items(headers: object) -> list[tuple[str, object]]:
    items = getattr(headers, "items", None)
    return sorted((str(name).lower(), value) for name, value in items()) if callable(items) else []


SCOPES: dict[str, Scope] = {"host": _by_host, "url": _by_url, "credential": _by_credential}
"""By name: all of a host, one path of it, or one credential's share of it."""


def scope_named(scope: "str | Scope") -> Scope:
    """Return a scope by its name, or one's own function.

    Raises:
        ConfigError: If there is none of that name.
    """
    if isinstance(scope, str) and scope in SCOPES:
        return SCOPES[scope]
    if callable(scope):
        return scope
    message = f"scope is {scope!r}; choose one of: {', '.join(SCOPES)}, or give a function of URL and headers"
    raise ConfigError(message)
