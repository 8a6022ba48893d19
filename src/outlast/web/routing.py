"""What a page and an action are: the tables of routes are made of these, and nothing else answers."""

import hashlib
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from outlast.queue.masking import masked_text

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

    from outlast.app import App


APP_PLACEHOLDER = "MODULE:APP"
"""Stands for where the app is, while nobody has told."""
_MAX_ROW_NUMBER = 2**63 - 1  # what both databases hold
_MAX_DIGITS = 19  # digits of it


class PageRequest(NamedTuple):
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
    reference: str = APP_PLACEHOLDER


class PageRoute(NamedTuple):
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
    read: "Callable[[PageRequest], Mapping[str, Any]]"


class ActionResult(NamedTuple):
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


class ActionRoute(NamedTuple):
    """Something that a POST changes; for operators alone. Its JSON twin stands under ``/api`` too.

    Attributes:
        name: By which templates address it.
        path: Such as ``/queues/{name}/pause``.
        act: Does it; called in a thread.
    """

    name: str
    path: str
    act: "Callable[[PageRequest], ActionResult]"


class NotFoundError(Exception):
    """What was asked for is not there (any more): 404, with this line."""


class InvalidInputError(Exception):
    """What was sent cannot be used: 400, with this line."""


class FormError(InvalidInputError):
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


def parse_row_number(text: str) -> int:
    """Return the number of a row, as a path gives it.

    Raises:
        NotThereError: If no row has such a number, because it is none or larger than any.
    """
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and 0 < int(text) <= _MAX_ROW_NUMBER:
        return int(text)
    message = "there is nothing of that number"
    raise NotFoundError(message)


# Paths: where a page or action is, and what a path that was asked for says.
#
# The parts of a path are told apart before they are decoded, so that a name may have a slash in it.

PREFIX_KEY = "outlast.prefix"
"""Where a request's scope has the mount."""
MAX_PATH_BYTES = 2048
"""Bytes of a path, as it was sent."""
MAX_QUERY_BYTES = 4096
"""Bytes of a query, as it was sent."""
_MAX_QUERY_FIELDS = 100
_PATH_VARIABLE = re.compile(r"\{([a-z_]+)\}")


def build_url(prefix: str, path: str, params: Mapping[str, Any]) -> str:
    """Return the address of something that the site has.

    Args:
        prefix: Where the dashboard is mounted; empty for nowhere.
        path: As the table of routes has it.
        params: For its variable parts; the others go behind the question mark, except None and empty text.

    Raises:
        LookupError: If a variable part is missing.
    """
    left = dict(params)

    def filled(found: re.Match[str]) -> str:
        if found[1] not in left:
            message = f"{path} needs {found[1]}"
            raise LookupError(message)
        return quote(str(left.pop(found[1])), safe="")

    made = prefix + _PATH_VARIABLE.sub(filled, path)
    given = {name: value for name, value in left.items() if value is not None and value != ""}
    return f"{made}?{urlencode(given, doseq=True)}" if given else made


def mount_path(scope: "Scope") -> str:
    """Return where the dashboard is mounted, as it is written in an address; empty for nowhere."""
    parts = [part for part in scope.get("root_path", "").split("/") if part]
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def url_prefix(request: "Request") -> str:
    """Return where the dashboard is mounted, as the gate noted it; empty for nowhere."""
    prefix: str = request.scope[PREFIX_KEY]
    return prefix


def relative_path(scope: "Scope") -> str:
    """Return the path that was asked for, below the mount and in one spelling, each part encoded.

    Raises:
        RefusedError: If it is too long or no text.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    raw = raw.partition(b"?")[0]
    if len(raw) > MAX_PATH_BYTES:
        message = "the path is too long"
        raise InvalidInputError(message)
    path = "/".join(quote(decode_segment(part), safe="") for part in raw.split(b"/"))
    mount, outer = mount_path(scope), mount_path({"root_path": scope.get("app_root_path", "")})
    for taken in (mount, mount.removeprefix(outer)):  # a proxy may have taken the outer part away already
        if taken and (path == taken or path.startswith(f"{taken}/")):
            path = path[len(taken) :]
            break
    return path.rstrip("/") or "/"


def decode_segment(part: bytes | str) -> str:
    """Return one part of a path as the text that it means.

    Raises:
        RefusedError: If it means none.
    """
    try:
        return check_text(unquote_to_bytes(part).decode("utf-8"))
    except UnicodeError:
        message = "the path is no valid UTF-8"
        raise InvalidInputError(message) from None


def query_params(scope: "Scope") -> dict[str, str]:
    """Return what stands behind the question mark, each name once, without what is empty.

    Raises:
        RefusedError: If it is too long or no text.
    """
    raw: bytes = scope.get("query_string", b"")
    if len(raw) > MAX_QUERY_BYTES:
        message = "the query is too long"
        raise InvalidInputError(message)
    try:
        pairs = parse_qsl(raw.decode("ascii"), errors="strict", max_num_fields=_MAX_QUERY_FIELDS)
    except ValueError:  # UnicodeError is one
        message = "the query is no valid UTF-8, or has too many fields"
        raise InvalidInputError(message) from None
    return {check_text(name): check_text(value) for name, value in pairs}


def check_text(text: str) -> str:
    """Return a text that both databases can be asked for.

    Raises:
        RefusedError: If it has a NUL or half a character in it.
    """
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        message = "a NUL or half a character was sent, which no name or text has"
        raise InvalidInputError(message)
    return text


# What stands for a name in a form or an address: the name, or a digest of one that holds a secret.

DIGEST_MARK = "#"
"""A digest begins with it."""
MAX_NAME_CHARS = 500
"""Characters of a name that stands for itself."""


def name_key(name: str) -> str:
    """Return what stands for a name: itself where it can be shown as it is, otherwise a digest."""
    plain = name.isprintable() and name == name.strip() and not name.startswith(DIGEST_MARK)
    if plain and len(name) <= MAX_NAME_CHARS and masked_text(name) == name:
        return name
    return DIGEST_MARK + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
