"""Routes, requests and results of pages and actions, and the paths and URLs that lead to them."""

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from starlette.requests import Request
from starlette.types import Scope

from outlast.app import App
from outlast.operations import PAGE, ROW, InvalidValueError, Parameter, Values, parse_values

T = TypeVar("T")
PageData = Mapping[str, Any]
"""Data of a template or of JSON."""
Query = Mapping[str, str]
"""Query parameters, each name once."""
Form = Mapping[str, list[str]]
"""Form fields, each with all its values."""
APP_PLACEHOLDER = "MODULE:APP"
"""Placeholder for the location of the app in commands, if it is unknown."""


class PageRequest(NamedTuple):
    """A request as a page or an action sees it. Access was checked before.

    Attributes:
        app: The app that the dashboard shows.
        path: The variable parts of the path, as text.
        query: The query parameters as text, each name once; empty values are left out.
        operator: Whether the caller may change things.
        form: The form fields, each with all its values; empty for a page.
        who: Name of the caller, for the audit log.
        site_state: Values that pages share between requests, by name.
        reference: The app as ``MODULE:APP``, for commands to copy.
        values: The values of the page's parameters, from path and query.
    """

    app: App
    path: Query
    query: Query
    operator: bool
    form: Form
    who: str
    site_state: MutableMapping[str, Any]
    reference: str = APP_PLACEHOLDER
    values: Values = MappingProxyType({})

    def typed(self) -> dict[str, str]:
        """Return the first value of each form field that has one."""
        return {name: values[0] for name, values in self.form.items() if values}


class PageRoute(NamedTuple):
    """A page and its JSON endpoint under ``/api``.

    Attributes:
        name: Name by which templates link to it.
        path: Path such as ``/tasks/{task_id}``.
        template: Its file under ``templates/``.
        read: Returns the data of the template and of the JSON, masked; called in a thread.
        parameters: The variables of its path and its query parameters.
        returns: Names and types of the data, for OpenAPI.
    """

    name: str
    path: str
    template: str
    read: Callable[[PageRequest], PageData]
    parameters: tuple[Parameter, ...] = ()
    returns: Mapping[str, Any] = MappingProxyType({})

    def parse(self, request: PageRequest) -> PageRequest:
        """Return the request with the values of the parameters.

        A time that was given as an age is rounded to a minute, so that all pages of a list have the same filter.

        Raises:
            InvalidValueError: If a value of the query is not valid.
            LookupError: If a variable of the path is not valid.
        """
        given = {name: [text] for name, text in {**request.query, **request.path}.items()}
        try:
            values = parse_values(request.app, self.parameters, given)
        except InvalidValueError as error:
            if error.parameter in request.path:
                raise LookupError(str(error)) from None
            raise
        ages = {name: at for name, at in values.items() if isinstance(at, datetime) and at.microsecond}
        return request._replace(
            values=values | {name: at.replace(second=0, microsecond=0) for name, at in ages.items()}
        )


class FormPage(NamedTuple):
    """The page that has the form of an operation, to be shown again with what is wrong.

    Attributes:
        page: Name of the page.
        prepare: Returns the parameters of the operation from the fields of the form, if they differ.
    """

    page: str
    prepare: "Callable[[PageRequest], Form] | None" = None


def require(found: T | None, message: str) -> T:
    """Return what was found.

    Raises:
        LookupError: If it is None; with this message, which the error page shows.
    """
    if found is None:
        raise LookupError(message)
    return found


BEFORE = Parameter("before", ROW, "Only rows with smaller ids: `next` of the previous page.")
"""The cursor of lists by id."""


class PagePosition(NamedTuple):
    """Which page of a list is shown.

    Attributes:
        number: Number of the page, from 1.
        last: Number of the last page.
        shown: Rows on this page.
        whole: Rows on all pages.
        more: Rows on later pages.
    """

    number: int
    last: int
    shown: int
    whole: int
    more: int


def page_parameter(name: str) -> Parameter:
    """Return the parameter with the number of a page."""
    return Parameter(name, PAGE, "Number of the page; beyond the last one, it is the last one.", default="1")


def paginate(rows: Sequence[T], page: int, size: int) -> tuple[Sequence[T], PagePosition]:
    """Return the rows of a page and its position. A number beyond the last page gives the last page.

    Args:
        rows: All rows.
        page: Number of the page.
        size: Rows per page.
    """
    last = max(1, -(-len(rows) // size))
    number = min(page, last)
    shown = rows[(number - 1) * size : number * size]
    return shown, PagePosition(number, last, len(shown), len(rows), max(0, len(rows) - number * size))


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
        KeyError: If a variable part is missing.
    """
    unused = dict(params)

    def variable_value(found: re.Match[str]) -> str:
        if found[1] not in unused:
            raise KeyError(f"{path} needs {found[1]}")
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


def path_and_query(request: Request) -> str:
    """Return what was requested, below the mount path."""
    query = request.scope.get("query_string", b"").decode("ascii", "replace")
    path: str = request.scope["path"]
    return f"{path}?{query}" if query else path


def relative_path(scope: Scope) -> str:
    """Return the requested path below the mount path, in a canonical encoding.

    Raises:
        InvalidValueError: If it is too long or not valid text.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    raw = raw.partition(b"?")[0]
    if len(raw) > MAX_PATH_BYTES:
        raise InvalidValueError(f"the path has {len(raw)} bytes; at most {MAX_PATH_BYTES} are allowed")
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
        InvalidValueError: If it is not valid text.
    """
    try:
        return check_text(unquote_to_bytes(part).decode("utf-8"))
    except UnicodeError:
        raise InvalidValueError("the path is not valid UTF-8") from None


def query_params(scope: Scope) -> dict[str, str]:
    """Return the query parameters, each name once, without empty values.

    Raises:
        InvalidValueError: If the query is too long or not valid text.
    """
    raw: bytes = scope.get("query_string", b"")
    if len(raw) > MAX_QUERY_BYTES:
        raise InvalidValueError(f"the query has {len(raw)} bytes; at most {MAX_QUERY_BYTES} are allowed")
    return dict(parse_pairs(raw, "query", _MAX_QUERY_FIELDS))


def parse_pairs(raw: bytes, what: str, most: int, *, keep_blank: bool = False) -> list[tuple[str, str]]:
    """Return the names and values of a query or a form.

    Raises:
        InvalidValueError: If it has too many fields, or is not valid text.
    """
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank, errors="strict", max_num_fields=most)
    except ValueError:  # UnicodeError is one
        raise InvalidValueError(f"the {what} is not valid UTF-8, or has too many fields") from None
    return [(check_text(name), check_text(value)) for name, value in pairs]


def check_text(text: str) -> str:
    """Return a text that both databases accept.

    Raises:
        InvalidValueError: If it contains a NUL or a lone surrogate.
    """
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidValueError(
            "the request contains a NUL or a lone surrogate, which is not allowed in names and texts"
        )
    return text
