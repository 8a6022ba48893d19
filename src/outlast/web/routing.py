"""What a page and an action are: the tables of routes are made of these, and nothing else answers."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["ANY_APP", "Action", "Asked", "Done", "FormError", "NotThereError", "Page", "RefusedError", "number"]

ANY_APP = "MODULE:APP"
"""Stands for where the app is, while nobody has told."""
_MOST = 2**63 - 1  # what both databases hold
_LONGEST = 19  # digits of it


class Asked(NamedTuple):
    """A request as a page or an action sees it. Who asks was let in before.

    Attributes:
        app: Whose dashboard it is; its store answers.
        path: The variable parts of the path.
        query: What stands behind the question mark, each name once; empty values are left out.
        operator: Whether whoever asks may change things.
        form: What was sent, each name with all its values; empty for a page.
        who: Who asks, for people.
        kept: What pages keep from one request to the next, by name; it ends with the site.
        reference: Where the app is, for commands to be copied.
    """

    app: "App"
    path: Mapping[str, str]
    query: Mapping[str, str]
    operator: bool
    form: Mapping[str, list[str]]
    who: str
    kept: MutableMapping[str, object]
    reference: str = ANY_APP


class Page(NamedTuple):
    """A page and its JSON twin under ``/api``.

    Attributes:
        name: By which templates link to it.
        path: Such as ``/tasks/{number}``.
        template: Its file under ``templates/``.
        read: Returns what the template shows and the twin tells; called in a thread. It masks what has to be masked.
    """

    name: str
    path: str
    template: str
    read: "Callable[[Asked], Mapping[str, Any]]"


class Done(NamedTuple):
    """What an action did.

    Attributes:
        message: One line for people.
        to: Path where the browser goes next, below where the dashboard is mounted.
        data: For the JSON twin.
        ok: Whether it did what was asked; otherwise the line is shown as a warning.
    """

    message: str
    to: str
    data: "Mapping[str, Any]"
    ok: bool = True


class Action(NamedTuple):
    """Something that a POST changes; for operators alone. Its JSON twin stands under ``/api`` too.

    Attributes:
        name: By which templates address it.
        path: Such as ``/queues/{name}/pause``.
        act: Does it; called in a thread.
    """

    name: str
    path: str
    act: "Callable[[Asked], Done]"


class NotThereError(Exception):
    """What was asked for is not there (any more): 404, with this line."""


class RefusedError(Exception):
    """What was sent cannot be used: 400, with this line."""


class FormError(RefusedError):
    """What was typed cannot be used: 400, and the page of the form again, with this line and what was typed.

    Args:
        message: What is wrong, for people.
        page: Name of the page that has the form.
        query: What that page is asked with.
    """

    def __init__(self, message: str, page: str, query: Mapping[str, str] | None = None) -> None:
        """Keep them."""
        super().__init__(message)
        self.page, self.query = page, query or {}


def number(text: str) -> int:
    """Return the number of a row, as a path gives it.

    Raises:
        NotThereError: If no row has such a number, because it is none or larger than any.
    """
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST and 0 < int(text) <= _MOST:
        return int(text)
    message = "there is nothing of that number"
    raise NotThereError(message)
