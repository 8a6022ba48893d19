"""Where in a load something is: on an error the step it comes from, in the log the target."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from outlast.run.logs import KEYS

if TYPE_CHECKING:
    from contextvars import Token

__all__ = ["Step", "step", "told"]

Step = Literal["fetch", "normalize", "put", "get", "db"]
"""``fetch`` and ``normalize`` are the user's; ``put`` and ``get`` the raw store's; ``db`` is all of the database, what
is applied included."""


class step:  # noqa: N801  # a context manager is named like a function
    """Have what is raised in the block say where it comes from: ``error.__outlast_step__``, and a note for people.

    Args:
        name: The step.
        of: The target, for the note.
        failed: Called when something is raised.
    """

    def __init__(self, name: Step, of: str, failed: Callable[[], Any] | None = None) -> None:
        """Keep what is to be said."""
        self._name = name
        self._of = of
        self._failed = failed

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Mark an error, which passes through."""
        if not isinstance(error, Exception):
            return
        with suppress(Exception):  # slots, or a class that guards its attributes; the error itself matters more
            error.__outlast_step__ = self._name  # type: ignore[attr-defined]  # an attribute of ours on a foreign object
            note = f"at the step {self._name!r} of {self._of}"
            if note not in getattr(error, "__notes__", ()):  # an object that is raised more than once
                error.add_note(note)
        if self._failed is not None:
            self._failed()


class told:  # noqa: N801  # the same
    """Have the log records of retries in the block carry the keys of the context's target.

    Args:
        context: Of the job's target, or None.
    """

    def __init__(self, context: Any) -> None:
        """Keep it."""
        self._keys = getattr(context, "keys", None)
        self._token: Token[dict[str, Any] | None] | None = None

    def __enter__(self) -> None:
        """Set them."""
        if callable(self._keys):
            self._token = KEYS.set(self._keys())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Put back what was there before."""
        if self._token is not None:
            KEYS.reset(self._token)
