"""Callers of the dashboard and their roles."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from starlette.types import Scope

    from outlast.web.access.token_access import Session


_CALLER_KEY = "outlast.caller"


class Role(StrEnum):
    """What a caller may do: a reader only reads, an operator also changes things."""

    READER = "reader"
    OPERATOR = "operator"


class Caller(NamedTuple):
    """An authenticated caller.

    Attributes:
        role: What the caller may do.
        who: Name for people and the audit log.
        still_allowed: Returns whether the caller still has access; streams call it repeatedly.
        session: The session, if the caller signed in here and sent its cookie.
    """

    role: Role
    who: str
    still_allowed: Callable[[], bool]
    session: "Session | None" = None


class TooManyAttemptsError(Exception):
    """A client sent too many wrong tokens or links.

    Args:
        seconds: Seconds until the next attempt is allowed.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Access(Protocol):
    """A way to authenticate requests."""

    async def caller(self, scope: "Scope") -> Caller | None:
        """Return the caller; None if the request is not authenticated.

        Args:
            scope: Scope of the request, as it reached the dashboard.

        Raises:
            TooManyAttemptsError: If too many wrong tokens were sent.
        """


def set_caller(scope: "Scope", caller: Caller | None) -> None:
    """Store the caller in the scope, for the endpoints."""
    scope[_CALLER_KEY] = caller


def get_caller(scope: "Scope") -> Caller | None:
    """Return the caller; None if the request is not authenticated."""
    caller: Caller | None = scope.get(_CALLER_KEY)
    return caller
