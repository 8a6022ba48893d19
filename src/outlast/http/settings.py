"""Settings of HTTP transports, idempotency keys, and the scopes of cooldowns."""

import hashlib
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import parse_qsl, urlsplit

from outlast.classify import default_classifier
from outlast.classify.safe_access import credentials_in
from outlast.decide.backoff import check_count, check_flag, check_seconds
from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy
from outlast.errors import ConfigError
from outlast.run.call_state import CURRENT_TASK
from outlast.run.cooldowns import CooldownTracker
from outlast.run.resources import RateLimiter, resource
from outlast.run.retry import check_policy

if TYPE_CHECKING:
    from datetime import timedelta


KEY_HEADER = "Idempotency-Key"
_KEY_NAMESPACE = uuid.UUID("6f5c2c9e-6a41-5d0f-9c8e-2f1f0f5a7b31")
_MAX_COUNTED = 10_000  # different requests that are counted at the same time
_request_counts: "OrderedDict[tuple[object, object, str], int]" = OrderedDict()
_counts_lock = threading.Lock()


def idempotency_key(*parts: object) -> str:
    """Return an idempotency key, by which a server recognizes a repeated request.

    Within a task, the key is the same for every attempt and replay of the task, and different for different parts.
    Outside of a task it depends on the parts only; without parts it is random.

    Args:
        parts: Values that distinguish this request from others of the same task, such as ``"charge", order_id``.
    """
    task = CURRENT_TASK.get()
    if task is None and not parts:
        return str(uuid.uuid4())
    owner = "" if task is None else f"task {task.id} {getattr(task, 'task_type', '')}"
    return str(uuid.uuid5(_KEY_NAMESPACE, _key_digest(*parts, owner)))


def request_key(method: str, url: object, body: bytes | str | None) -> str:
    """Return an idempotency key for a request that has none.

    Within a task it depends on the task, the request, and how many equal requests this attempt has sent before. So a
    retried attempt sends the same keys, and two equal requests of one attempt have different ones.

    Args:
        method: The method of the request.
        url: The URL of the request.
        body: The body; None if it is not known in advance, for a random key.
    """
    task = CURRENT_TASK.get()
    if task is None or body is None:
        return str(uuid.uuid4())
    request = _key_digest(method, url, body)
    kind = (task.id, getattr(task, "epoch", None), request)
    with _counts_lock:
        before = _request_counts.pop(kind, 0)
        _request_counts[kind] = before + 1
        while len(_request_counts) > _MAX_COUNTED:
            _request_counts.popitem(last=False)
    return idempotency_key(request, before)


def _key_digest(*parts: object) -> str:
    text = "\x1f".join(part.hex() if isinstance(part, bytes) else str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


Scope = Callable[[str, object], str]
"""Gets the URL and the headers of a request; returns the name of its cooldown."""

_HASH_ROUNDS = 100_000  # slow, so that a weak password cannot be guessed from the name
_DEFAULT_PORTS = {"http": 80, "https": 443}


def host_of(url: str) -> str:
    """Return the host of a URL, with its port if it is not the default one; never user name or password."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        port = parts.port
    except ValueError:  # not a valid port number
        port = None
    return host if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f"{host}:{port}"


def redacted_url(url: object) -> str:
    """Return an address for logs: no query, no credentials, no secrets in its path."""
    text = "" if url is None else str(url)
    try:
        parts = urlsplit(text)
        plain = f"{parts.scheme}://{host_of(text)}{parts.path}" if parts.netloc else parts.path
    except ValueError:  # brackets that do not match
        return "a URL that is not valid"
    return default_classifier().redact(plain)


def _by_host(url: str, _headers: object) -> str:
    return host_of(url)


def _by_url(url: str, _headers: object) -> str:
    """Return host and path. A path with a secret is masked and gets a digest, because scopes are stored and logged."""
    plain = f"{host_of(url)}{urlsplit(url).path}"
    masked = default_classifier().redact(plain)
    return plain if masked == plain else f"{masked}#{_scope_digest(plain)}"


def _by_credential(url: str, headers: object) -> str:
    """Return the host and a digest of the credentials: two API keys have separate rate limits."""
    parts = urlsplit(url)
    found = [parts.username or "", parts.password or ""]
    found += [f"{name}={value}" for name, value in parse_qsl(parts.query) if credentials_in((), f"x:?{name}=x")]
    found += [f"{name}: {value}" for name, value in _header_items(headers) if credentials_in((name,), "")]
    if not any(found):
        return host_of(url)
    return f"{host_of(url)}#{_scope_digest(*found)}"


@lru_cache(1024)  # it is slow on purpose
def _scope_digest(*parts: str) -> str:
    secret = "\n".join(parts).encode("utf-8", "replace")
    return hashlib.pbkdf2_hmac("sha256", secret, b"outlast scope", _HASH_ROUNDS).hex()[:12]


def _header_items(headers: object) -> list[tuple[str, object]]:
    items = getattr(headers, "items", None)
    return sorted((str(name).lower(), value) for name, value in items()) if callable(items) else []


SCOPES: dict[str, Scope] = {"host": _by_host, "url": _by_url, "credential": _by_credential}
"""The scopes by name: a whole host, one path of it, or one credential on it."""


def scope_function(scope: "str | Scope", setting: str = "scope") -> Scope:
    """Return the scope of a name; a function is returned as it is.

    Raises:
        ConfigError: If there is no scope of that name.
    """
    if isinstance(scope, str) and scope in SCOPES:
        return SCOPES[scope]
    if callable(scope):
        return scope
    raise ConfigError(
        f"{setting} is {scope!r}; choose one of: {', '.join(SCOPES)}, or give a function of URL and headers"
    )


IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that are idempotent according to HTTP."""


class TransportSettings(TypedDict, total=False):
    """The settings of a transport by name, which `Settings` describes."""

    policy: RetryPolicy | None
    cooling: Any
    scope: "str | Scope"
    patience: "float | timedelta | None"
    methods: Iterable[str]
    keys: bool
    max_body: int | None
    raises: bool
    rate: str | float | None
    per: "str | Scope"


class Settings:
    """The settings of a transport.

    Args:
        policy: Attempts and waits; by default those of ``@outlast.retry`` without arguments. Its time limits apply
            until the head of a response: then each read of the body has the timeout of an attempt, but the whole body
            has none.
        cooling: Where to keep cooldowns: an `App`, its `cooling`, or None for this transport alone.
        scope: What cools down: ``host``, ``url``, ``credential``, or a function of URL and headers.
        patience: Longest wait in seconds for a cooldown or a hint of the server. A longer wait is raised at
            once. None means the deadline of the policy; within a task of a worker it is 0, because the worker can defer
            the task.
        methods: Methods that are retried; others only with an ``Idempotency-Key``, or if nothing was sent.
        keys: Whether to add an ``Idempotency-Key`` to requests with other methods.
        max_body: Maximum size of a decoded response, in bytes; None for no limit.
        raises: Whether to raise a response that is given up as an error of the library; otherwise it is returned.
        rate: Requests per time, such as ``"10/s"``, of this transport. Further ones wait for their turn, or raise
            `LocalRateLimitError` at once if the deadline of the policy is earlier. Each attempt counts.
        per: What gets its own rate: ``host``, ``url``, ``credential``, or a function of URL and headers.

    Raises:
        ConfigError: If a setting is not valid.
    """

    def __init__(  # noqa: PLR0913  # its settings
        self,
        policy: RetryPolicy | None = None,
        *,
        cooling: Any = None,
        scope: "str | Scope" = "host",
        patience: "float | timedelta | None" = None,
        methods: Iterable[str] = IDEMPOTENT,
        keys: bool = False,
        max_body: int | None = None,
        raises: bool = True,
        rate: str | float | None = None,
        per: "str | Scope" = "host",
    ) -> None:
        self.policy = DEFAULT_POLICY if policy is None else check_policy(policy)
        self.cooling = _check_cooling(cooling)
        self.scope = scope_function(scope)
        self.patience = None if patience is None else check_seconds("patience", patience)
        self.methods = _check_methods(methods)
        self.keys = check_flag("keys", keys)
        self.max_body = None if max_body is None else check_count("max_body", max_body, 0)
        self.raises = check_flag("raises", raises)
        self.limiter = None if rate is None else RateLimiter(rate)
        self.per = scope_function(per, "per")
        limits = [each for each in (self.policy.deadline, self.policy.attempt_timeout) if each is not None]
        self.first_limit = min(limits) if limits else None
        self.guard = None if self.policy.resource is None else resource(self.policy.resource)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the resource and without the requests of the rate limit."""
        return {**self.__dict__, "guard": None, "limiter": None if self.limiter is None else self.limiter.rate}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, with the resource of that name in this process."""
        self.__dict__.update(state)
        self.limiter = None if state["limiter"] is None else RateLimiter(state["limiter"])
        self.guard = None if self.policy.resource is None else resource(self.policy.resource)

    @property
    def most_patience(self) -> float | None:
        """Return the longest wait of a request of the calling code, in seconds; None for no limit."""
        if self.patience is None and CURRENT_TASK.get() is not None:
            return 0.0
        return self.patience


def _check_cooling(given: Any) -> CooldownTracker:
    if given is None:
        return CooldownTracker()
    found = given if isinstance(given, CooldownTracker) else getattr(given, "cooling", None)
    if isinstance(found, CooldownTracker):
        return found
    raise ConfigError(f"cooling is {given!r}; give an App, or its cooling")


def _check_methods(given: Any) -> frozenset[str]:
    methods = [] if isinstance(given, str) else list(given)
    if isinstance(given, str) or not all(isinstance(method, str) for method in methods):
        raise ConfigError(f"methods is {given!r}; give a set such as {{'GET', 'POST'}}")
    return frozenset(method.upper() for method in methods)
