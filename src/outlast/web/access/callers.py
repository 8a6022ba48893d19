"""Who asks, and what they may do."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from starlette.types import Scope

    from outlast.web.access.token_access import Session


_CALLER_KEY = "outlast.caller"


class Role(StrEnum):
    """What somebody may do: a reader looks, an operator also changes things."""

    READER = "reader"
    OPERATOR = "operator"


class Caller(NamedTuple):
    """Somebody who was let in.

    Attributes:
        role: What they may do.
        who: For people.
        still_allowed: Tells whether they still may; a stream asks it again and again.
        session: Theirs, where they signed in by the dashboard's own means and come by cookie.
    """

    role: Role
    who: str
    still_allowed: Callable[[], bool]
    session: "Session | None" = None


class TooManyAttemptsError(Exception):
    """Somebody tried too many wrong secrets.

    Args:
        seconds: After which they may try again.
    """

    def __init__(self, seconds: float) -> None:
        """Keep how long."""
        super().__init__(seconds)
        self.seconds = seconds


class Access(Protocol):
    """A way of knowing who asks."""

    async def caller(self, scope: "Scope") -> Caller | None:
        """Return who asks; None for somebody who is not let in.

        Args:
            scope: Of the request, as it reached the dashboard.

        Raises:
            TooOftenError: If wrong secrets were tried too often.
        """


def set_caller(scope: "Scope", caller: Caller | None) -> None:
    """Note who asks, for those who answer."""
    scope[_CALLER_KEY] = caller


def get_caller(scope: "Scope") -> Caller | None:
    """Return who asks; None on a path that is open to all."""
    caller: Caller | None = scope.get(_CALLER_KEY)
    return caller
