"""Looking at foreign objects without trusting them: an attribute may raise or lie, and nothing with effects is called.

The one method that is called is ``items`` of headers, to as many as there may sensibly be.
"""

from itertools import islice

from outlast.classify.credentials import credentials_in
from outlast.failure import Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "errno_in_chain",
    "header_of",
    "peek",
    "peek_error",
    "peek_int",
    "peek_text",
    "read_response",
    "status_of",
    "text_of",
]

BODY_LIMIT = 4096
"""Characters of a response body in which reasons are looked for."""
CHAIN_LIMIT = 64
"""How many causes of an error are looked at."""
_HEADER_LIMIT = 200
_HEADER_VALUE_LIMIT = 256


def peek(thing: object, *path: str) -> object:
    """Follow attributes; None where one is missing or raises."""
    for name in path:
        try:
            thing = getattr(thing, name, None)
        except Exception:  # a property may raise anything
            return None
        if thing is None:
            return None
    return thing


def peek_int(thing: object, *path: str) -> int | None:
    """Follow attributes to a whole number; None for anything else, a bool included."""
    value = peek(thing, *path)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def peek_text(thing: object, *path: str) -> str | None:
    """Follow attributes to a text; None for anything else."""
    value = peek(thing, *path)
    return value if isinstance(value, str) else None


def peek_error(thing: object, *names: str) -> BaseException | None:
    """Return the first of these attributes that holds another error; None where none does."""
    for name in names:
        inner = peek(thing, name)
        if isinstance(inner, BaseException) and inner is not thing:
            return inner
    return None


def text_of(error: object) -> str:
    """Return what an error says, also where its `__str__` raises or returns no text."""
    try:
        return str.__str__(str(error))  # a text of its own kind becomes a plain one
    except Exception:  # __str__ is the user's
        return f"<{type(error).__name__} without a readable text>"


def status_of(value: object) -> int | None:
    """Return an HTTP status, or None for what cannot be one."""
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:  # noqa: PLR2004
        return int(value)
    return None


def read_headers(headers: object) -> dict[str, str]:
    """Return the headers that say something about waiting, names in lower case; the rest may hold secrets."""
    found: dict[str, str] = {}
    try:
        for name, value in _items(headers):
            low = _decoded(name).lower()
            if low in {"retry-after", "date"} or "limit" in low or "retry-after" in low:
                found[low] = _decoded(value)[:_HEADER_VALUE_LIMIT]
    except Exception:  # any mapping-like object of any library
        return found
    return found


def header_of(headers: object, name: str) -> str | None:
    """Return one header, its name given in lower case; None where there is none."""
    try:
        return next((_decoded(value) for key, value in _items(headers) if _decoded(key).lower() == name), None)
    except Exception:  # any mapping-like object of any library
        return None


def _items(headers: object) -> "Iterable[tuple[object, object]]":
    items = getattr(headers, "items", None)
    return islice(items(), _HEADER_LIMIT) if callable(items) else ()


def _decoded(value: object) -> str:
    if isinstance(value, bytes):
        return value[:BODY_LIMIT].decode("utf-8", "replace")
    return value if isinstance(value, str) else str(value)


def read_body(response: object) -> str:
    """Return the beginning of a body that was read already; a stream is never touched."""
    for name in ("_content", "_body", "data", "content", "body"):
        body = _own(response, name)
        if isinstance(body, bytes | str) and body:
            return _decoded(body[:BODY_LIMIT])
    return ""


def _own(thing: object, name: str) -> object:
    """Read an attribute from the object itself, so that no property runs (and starts to download)."""
    try:
        return vars(thing).get(name)
    except Exception:  # slots, or an object that hides its attributes
        return None


def read_response(response: object, request: object = None) -> Evidence | None:
    """Read a response of any of the usual HTTP clients; None if it has no status.

    Args:
        response: An object with `status_code` or `status`, and `headers`.
        request: What was sent, if the response does not know.
    """
    status = status_of(peek(response, "status_code")) or status_of(peek(response, "status"))
    if status is None:
        return None
    sent = None
    if status == 403:  # noqa: PLR2004  # the one status that turns on it
        request = request or peek(response, "request") or peek(response, "request_info")
        sent = credentials_in(peek(request, "headers"), peek(request, "url") or peek(response, "url"))
    return Evidence(
        origin=Origin.HTTP,
        http_status=status,
        headers=read_headers(peek(response, "headers")),
        body=read_body(response),
        credentials_sent=sent,
    )


def errno_in_chain(error: BaseException) -> int | None:
    """Return the operating system's error number from the error or whatever caused it."""
    seen: set[int] = set()
    link: object = error
    while isinstance(link, BaseException) and id(link) not in seen and len(seen) < CHAIN_LIMIT:
        seen.add(id(link))
        if isinstance(link, OSError) and not _own_numbers(link):
            number = peek_int(link, "errno")
            if number is not None:
                return number
        link = peek(link, "__cause__") or peek(link, "__context__")
    return None


def _own_numbers(error: OSError) -> bool:
    """Tell whether the class counts its errors in a way of its own, as TLS and name resolution do."""
    return any(each.__name__ in {"SSLError", "gaierror", "herror"} for each in type(error).__mro__)
