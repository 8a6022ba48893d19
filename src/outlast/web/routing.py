"""Routes, requests and results of pages and actions, and the paths and URLs that lead to them."""

import hashlib
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from starlette.requests import Request
from starlette.types import Scope

from outlast.app import App
from outlast.queue.masking import masked_text

T = TypeVar("T")
PageData = Mapping[str, Any]
"""Data of a template or of JSON."""
Query = Mapping[str, str]
"""Query parameters, each name once."""
Form = Mapping[str, list[str]]
"""Form fields, each with all its values."""
APP_PLACEHOLDER = "MODULE:APP"
"""Placeholder for the location of the app in commands, if it is unknown."""
_MAX_ROW_NUMBER = 2**63 - 1  # largest integer of both databases
_MAX_DIGITS = 19  # of the largest row number


class PageRequest(NamedTuple):
    """A request as a page or an action sees it. Access was checked before.

    Attributes:
        app: The app that the dashboard shows.
        path: The variable parts of the path.
        query: The query parameters, each name once; empty values are left out.
        operator: Whether the caller may change things.
        form: The form fields, each with all its values; empty for a page.
        who: Name of the caller, for the audit log.
        site_state: Values that pages share between requests, by name.
        reference: The app as ``MODULE:APP``, for commands to copy.
    """

    app: App
    path: Query
    query: Query
    operator: bool
    form: Form
    who: str
    site_state: MutableMapping[str, object]
    reference: str = APP_PLACEHOLDER

    def field(self, name: str) -> str:
        """Return the first value of a form field without surrounding spaces; empty if it is missing."""
        return "".join(self.form.get(name, [])[:1]).strip()

    def text(self, name: str, longest: int = 500) -> str:
        """Return a form field as `field` does.

        Raises:
            InvalidInputError: If it is too long.
        """
        text = self.field(name)
        if len(text) > longest:
            raise InvalidInputError(f"{name} has {len(text)} characters; at most {longest} are allowed")
        return text

    def typed(self) -> dict[str, str]:
        """Return the first value of each form field that has one."""
        return {name: values[0] for name, values in self.form.items() if values}

    def row_number(self) -> int:
        """Return the row number in the path.

        Raises:
            NotFoundError: If it is not a number that a row can have.
        """
        return parse_row_number(self.path["number"])


class PageRoute(NamedTuple):
    """A page and its JSON endpoint under ``/api``.

    Attributes:
        name: Name by which templates link to it.
        path: Path such as ``/tasks/{number}``.
        template: Its file under ``templates/``.
        read: Returns the data of the template and of the JSON, masked; called in a thread.
    """

    name: str
    path: str
    template: str
    read: Callable[[PageRequest], PageData]


class ActionResult(NamedTuple):
    """The result of an action.

    Attributes:
        message: One line for the next page.
        to: Path of the next page, below the mount path.
        data: Data of the JSON response.
        ok: Whether the action did what was requested; if not, the message is shown as a warning.
    """

    message: str
    to: str
    data: PageData
    ok: bool = True


class ActionRoute(NamedTuple):
    """A change made by a POST, for operators only, and its JSON endpoint under ``/api``.

    Attributes:
        name: Name by which templates post to it.
        path: Path such as ``/queues/{name}/pause``.
        act: Performs the action; called in a thread.
    """

    name: str
    path: str
    act: Callable[[PageRequest], ActionResult]


class NotFoundError(Exception):
    """The requested thing does not exist: 404, with this message."""


def require(found: T | None, message: str) -> T:
    """Return what was found.

    Raises:
        NotFoundError: If it is None; with this message.
    """
    if found is None:
        raise NotFoundError(message)
    return found


class InvalidInputError(Exception):
    """The input is not valid: 400, with this message."""


class FormError(InvalidInputError):
    """The input of a form is not valid: 400, and the form again, with this message and the input.

    Args:
        message: What is wrong.
        page: Name of the page that has the form.
        query: Query parameters of that page.
    """

    def __init__(self, message: str, page: str, query: Query | None = None) -> None:
        super().__init__(message)
        self.page, self.query = page, query or {}


def parse_row_number(text: str) -> int:
    """Return the row number in a path.

    Raises:
        NotFoundError: If it is not a number that a row can have.
    """
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and 0 < int(text) <= _MAX_ROW_NUMBER:
        return int(text)
    raise NotFoundError(f"{text!r:.50} is not a row number")


# A path is split before its parts are decoded, so that a name may contain a slash.

PREFIX_KEY = "outlast.prefix"
"""Key of the mount path in the scope of a request."""
MAX_PATH_BYTES = 2048
"""Most bytes of a path, encoded."""
MAX_QUERY_BYTES = 4096
"""Most bytes of a query, encoded."""
_MAX_QUERY_FIELDS = 100
_PATH_VARIABLE = re.compile(r"\{([a-z_]+)\}")


def build_url(prefix: str, path: str, params: Mapping[str, Any]) -> str:
    """Return a URL of the site.

    Args:
        prefix: Mount path of the dashboard; may be empty.
        path: Path of a route.
        params: Values of its variable parts; the others become query parameters, except None and empty text.

    Raises:
        LookupError: If a variable part is missing.
    """
    unused = dict(params)

    def variable_value(found: re.Match[str]) -> str:
        if found[1] not in unused:
            raise LookupError(f"{path} needs {found[1]}")
        return quote(str(unused.pop(found[1])), safe="")

    url = prefix + _PATH_VARIABLE.sub(variable_value, path)
    query = {name: value for name, value in unused.items() if value is not None and value != ""}
    return f"{url}?{urlencode(query, doseq=True)}" if query else url


def mount_path(scope: Scope) -> str:
    """Return the mount path of the dashboard, encoded; empty if it is not mounted below a path."""
    parts = [part for part in scope.get("root_path", "").split("/") if part]
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def url_prefix(request: Request) -> str:
    """Return the mount path that the middleware stored in the request; may be empty."""
    prefix: str = request.scope[PREFIX_KEY]
    return prefix


def relative_path(scope: Scope) -> str:
    """Return the requested path below the mount path, in a canonical encoding.

    Raises:
        InvalidInputError: If it is too long or not valid text.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    raw = raw.partition(b"?")[0]
    if len(raw) > MAX_PATH_BYTES:
        raise InvalidInputError(f"the path has {len(raw)} bytes; at most {MAX_PATH_BYTES} are allowed")
    path = "/".join(quote(decode_segment(part), safe="") for part in raw.split(b"/"))
    mount, outer = mount_path(scope), mount_path({"root_path": scope.get("app_root_path", "")})
    for prefix in (mount, mount.removeprefix(outer)):  # a proxy may have removed the outer part already
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = path[len(prefix) :]
            break
    return path.rstrip("/") or "/"


def decode_segment(part: bytes | str) -> str:
    """Return one part of a path, decoded.

    Raises:
        InvalidInputError: If it is not valid text.
    """
    try:
        return check_text(unquote_to_bytes(part).decode("utf-8"))
    except UnicodeError:
        raise InvalidInputError("the path is not valid UTF-8") from None


def query_params(scope: Scope) -> dict[str, str]:
    """Return the query parameters, each name once, without empty values.

    Raises:
        InvalidInputError: If the query is too long or not valid text.
    """
    raw: bytes = scope.get("query_string", b"")
    if len(raw) > MAX_QUERY_BYTES:
        raise InvalidInputError(f"the query has {len(raw)} bytes; at most {MAX_QUERY_BYTES} are allowed")
    return dict(parse_pairs(raw, "query", _MAX_QUERY_FIELDS))


def parse_pairs(raw: bytes, what: str, most: int, *, keep_blank: bool = False) -> list[tuple[str, str]]:
    """Return the names and values of a query or a form.

    Raises:
        InvalidInputError: If it has too many fields, or is not valid text.
    """
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank, errors="strict", max_num_fields=most)
    except ValueError:  # UnicodeError is one
        raise InvalidInputError(f"the {what} is not valid UTF-8, or has too many fields") from None
    return [(check_text(name), check_text(value)) for name, value in pairs]


def check_text(text: str) -> str:
    """Return a text that both databases accept.

    Raises:
        InvalidInputError: If it contains a NUL or a lone surrogate.
    """
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidInputError(
            "the request contains a NUL or a lone surrogate, which is not allowed in names and texts"
        )
    return text


DIGEST_MARK = "#"
"""First character of a digest."""
MAX_NAME_CHARS = 500
"""Most characters of a name that is its own key."""


def name_key(name: str) -> str:
    """Return the key of a name in forms and URLs: the name itself, or a digest if it may contain a secret."""
    plain = name.isprintable() and name == name.strip() and not name.startswith(DIGEST_MARK)
    if plain and len(name) <= MAX_NAME_CHARS and masked_text(name) == name:
        return name
    return DIGEST_MARK + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
