"""What a transport is told once: the policy, whose cooldowns, which methods."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from outlast.decide.backoff import check_seconds
from outlast.decide.policy import DEFAULT_POLICY, RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE
from outlast.http.scopes import SCOPES, Scope, scope_named
from outlast.run.cooling import Cooling
from outlast.run.current import CURRENT
from outlast.run.resources import resource
from outlast.run.retry import checked

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["IDEMPOTENT", "Settings"]

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that may be sent twice by what HTTP says of them."""


class Settings:
    """What every request through a transport shares.

    Args:
        policy: Attempts and waits; by default those of a bare ``@outlast.retry``. One that does not say what it retries
            retries what the classifier calls retryable. Its time limits end with the head of an answer: each read of
            the body then has the attempt's timeout, all of it together has none.
        cooling: Where cooldowns are kept: an `App`, its `cooling`, or None for this transport alone.
        scope: What cools down: ``host``, ``url``, ``credential``, or a function of URL and headers.
        patience: Seconds that a request may wait for a cooldown or a server's hint; what asks for more is raised at
            once. None leaves it to the policy's deadline; within a task of a worker it is 0, for the worker can put
            the task off.
        methods: Methods that are sent again; others only if they are marked, or nothing was sent.
        keys: Whether requests of other methods get an ``Idempotency-Key``, which marks them.
        max_body: Bytes that an answer may have once it is decoded; None for any number.
        raises: Whether an answer that is given up is raised as the library's own error; otherwise it is returned.

    Raises:
        ConfigError: If one of them cannot be used.
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
    ) -> None:
        """Check them."""
        chosen = DEFAULT_POLICY if policy is None else checked(policy)
        self.policy = chosen.replace(retry_on=RETRYABLE) if chosen.retry_on is None else chosen
        self.cooling = _cooling(cooling)
        self.scope = scope_named(scope)
        self.by_host = self.scope is SCOPES["host"]  # which a library can tell more quickly
        self.patience = None if patience is None else check_seconds("patience", patience)
        self.methods = _methods(methods)
        self.keys = _flag("keys", keys)
        self.max_body = _bytes(max_body)
        self.raises = _flag("raises", raises)
        limits = [each for each in (self.policy.deadline, self.policy.attempt_timeout) if each is not None]
        self.timed = bool(limits)
        self.first_limit = min(limits) if limits else None
        self.guard = None if self.policy.resource is None else resource(self.policy.resource)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs; the resource is known by its name."""
        return {**self.__dict__, "guard": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take it, with the resource of that name in this process."""
        self.__dict__.update(state)
        self.guard = None if self.policy.resource is None else resource(self.policy.resource)

    @property
    def most_patience(self) -> float | None:
        """How long a request of the calling code may wait."""
        if self.patience is None and CURRENT.get() is not None:
            return 0.0
        return self.patience


def _cooling(given: Any) -> Cooling:
    if given is None:
        return Cooling()
    found = given if isinstance(given, Cooling) else getattr(given, "cooling", None)
    if isinstance(found, Cooling):
        return found
    message = f"cooling is {given!r}; give an App, or its cooling"
    raise ConfigError(message)


def _methods(given: Any) -> frozenset[str]:
    methods = [] if isinstance(given, str) else list(given)
    if isinstance(given, str) or not all(isinstance(method, str) for method in methods):
        message = f"methods is {given!r}; give a set such as {{'GET', 'POST'}}"
        raise ConfigError(message)
    return frozenset(method.upper() for method in methods)


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    message = f"{name} is {value!r}; give True or False"
    raise ConfigError(message)


def _bytes(value: object) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    message = f"max_body is {value!r}; give a whole number of bytes, 0 or more"
    raise ConfigError(message)
