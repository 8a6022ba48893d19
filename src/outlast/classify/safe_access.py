"""Reads foreign objects safely: an attribute may raise or lie, and nothing with side effects is called.

The only method that is called is ``items`` of headers, with a limit.

An Exception that an error's own code raises counts as a missing value. Any other BaseException ends the classification:
the failure is `unreadable`. Code that records an attempt calls `contain` with what it caught.
"""

import re
from contextvars import ContextVar
from itertools import islice

from outlast.failure import Evidence, Origin
from outlast.patterns import word_set

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")


_held_interrupts: "ContextVar[list[BaseException] | None]" = ContextVar("outlast_interrupts", default=None)


def contain(raised: BaseException) -> None:
    """Raise again what an error's own code raised if it may be Ctrl-C: a KeyboardInterrupt in the main thread.

    Anything else is dropped. Within `HeldInterrupts` and after `drop_interrupts` nothing is raised here.
    """
    if issubclass(type(raised), KeyboardInterrupt):
        held = _held_interrupts.get()
        if held is not None:
            held.append(raised)
            return
        import threading  # noqa: PLC0415  # takes time to import, and only this needs it

        if threading.current_thread() is threading.main_thread():
            raise raised


def contained(default: "T", read: "Callable[..., T]", *args: object) -> "T":
    """Return what a function that runs code of an error returns; the default if that code raises anything."""
    try:
        return read(*args)
    except BaseException as raised:  # an error may raise whatever it is asked
        contain(raised)
        return default


class HeldInterrupts:
    """Holds an interrupt while an attempt is recorded, and raises it at the end of the block.

    Args:
        drop: Whether to drop it instead.
    """

    def __init__(self, *, drop: bool = False) -> None:
        self._drop = drop

    def __enter__(self) -> None:
        """Begin to hold interrupts."""
        self._held: list[BaseException] = []
        self._token = _held_interrupts.set(self._held)

    def __exit__(self, *_: object) -> None:
        """Raise what was held, or leave it to the block around this one."""
        _held_interrupts.reset(self._token)
        if self._held and not self._drop:
            contain(self._held[0])


def drop_interrupts() -> None:
    """Drop interrupts from here on in this context: workers, jobs and monitors handle Ctrl-C as a signal."""
    _held_interrupts.set([])


_CREDENTIAL_HEADERS = word_set(
    "authorization proxy-authorization cookie x-api-key api-key apikey x-auth-token x-access-token "
    "x-amz-security-token x-goog-api-key x-rapidapi-key x-functions-key x-shopify-access-token "
    "ocp-apim-subscription-key private-token"
)
TEXT_LIMIT = 2048
"""Characters of a message that are read; the important part is at the start."""
BODY_LIMIT = 4096
"""Characters of a response body, or of a message that contains one, that are read."""
CHAIN_LIMIT = 64
"""Maximum number of causes of an error to follow."""
_URL_LIMIT = 8192
_MAX_HEADERS = 200
HEADER_LIMIT = 2048
"""Characters of a header; a longer one is ignored, since half of a number would be another number."""


_read_class_name = type.__dict__["__name__"].__get__
read_traceback = BaseException.__dict__["__traceback__"].__get__
"""Return the traceback of an error without running its code."""
_WAIT_HEADERS = frozenset({"retry-after", "date", "backoff"})
_CREDENTIAL_NAMES = (
    "api[_-]?key|key|access[_-]?key|access[_-]?token|auth[_-]?token|id[_-]?token|token|auth|application_?id|app_?id|"
    "client[_-]?secret|secret|password|passwd|pwd|signature|sig|x-amz-(?:signature|credential|security-token)|"
    "x-goog-(?:signature|credential)|awsaccesskeyid|hmac|session[_-]?id|sessionid"
)
_URL_WITH_SECRET = rf"(?i)\A[a-z][a-z0-9+.-]*://[^/?#]*@|[?&;](?:{_CREDENTIAL_NAMES})=[^&;#]"


def credentials_in(headers: object, url: object) -> bool | None:
    """Return whether a request contained credentials.

    Args:
        headers: Request headers of any client, or None.
        url: The requested URL, as a string or an object that converts to one.

    Returns:
        True or False, or None if neither could be read.
    """
    names = _header_names(headers)
    text = _url_text(url)
    if names & _CREDENTIAL_HEADERS or (text and re.search(_URL_WITH_SECRET, text)):
        return True
    return None if not names and not text else False


def _header_names(headers: object) -> set[str]:
    try:
        return {
            name.decode("ascii", "replace").lower() if isinstance(name, bytes) else str(name).lower()
            for name in islice(headers, _MAX_HEADERS)  # type: ignore[call-overload]  # any mapping; errors are caught
        }
    except Exception:  # headers of any library, or none
        return set()


def _url_text(url: object) -> str:
    if url is None:
        return ""
    try:
        return str(url)[:_URL_LIMIT]
    except Exception:  # a URL object of any library
        return ""


def safe_getattr(thing: object, *path: str) -> object:
    """Return the value at the end of a path of attributes; None if one is missing or raises."""
    for name in path:
        try:
            thing = getattr(thing, name, None)
        except Exception:  # a property may raise anything
            return None
        if thing is None:
            return None
    return thing


def safe_int(thing: object, *path: str) -> int | None:
    """Return the integer at the end of a path of attributes; None for anything else, including a bool."""
    value = safe_getattr(thing, *path)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def safe_str(thing: object, *path: str) -> str | None:
    """Return the string at the end of a path of attributes; None for anything else."""
    value = safe_getattr(thing, *path)
    return value if isinstance(value, str) else None


def safe_item(thing: object, *path: str) -> object:
    """Return the value at the end of a path of keys of dictionaries; None if one is missing."""
    for key in path:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing


def safe_list(thing: object) -> list[object]:
    """Return the first thousand items of a list; empty for anything else."""
    return thing[:1000] if isinstance(thing, list) else []


def safe_error(thing: object, *names: str) -> BaseException | None:
    """Return the first of these attributes that is another error; None if no attribute is an error."""
    for name in names:
        inner = safe_getattr(thing, name)
        if isinstance(inner, BaseException) and inner is not thing:
            return inner
    return None


def text_of(error: object) -> str:
    """Return the text of an error, even if its `__str__` raises an Exception or returns no string."""
    try:
        return str.__str__(str(error))  # a subclass of str becomes a plain str
    except Exception:  # __str__ may be user code
        return f"<{class_name(error)} without a readable text>"


def shown_text(error: object) -> str:
    """Return the text of an error for a record of it, without httpx's link to a page about the HTTP status.

    Nothing that the error raises escapes.
    """
    text = contained(f"<{class_name(error)} without a readable text>", text_of, error)
    words, _, address = text.rpartition("\nFor more information check: ")
    return words if words and " " not in address else text


def class_name(thing: object) -> str:
    """Return the real name of the class, whatever its metaclass says."""
    return str(_read_class_name(type(thing)))


def status_of(value: object) -> int | None:
    """Return the value if it is an HTTP status from 100 to 599, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:  # noqa: PLR2004
        return int(value)
    return None


def read_headers(headers: object) -> dict[str, str]:
    """Return the headers about waiting, with lowercase names; the others may contain secrets."""
    found: dict[str, str] = {}
    try:
        for name, value in _items(headers):
            low = _decode(name).lower()
            if low in _WAIT_HEADERS or "limit" in low or "retry-after" in low or low.endswith("should-retry"):
                text = _decode(value)
                if low == "ratelimit" and low in found:  # a field may be split into several lines
                    text = f"{found[low]}, {text}"
                found[low] = text if len(text) <= HEADER_LIMIT else ""
    except Exception:  # any mapping-like object of any library
        return found
    return found


def header_of(headers: object, name: str) -> str | None:
    """Return the value of one header, by its lowercase name; None if it is missing."""
    try:
        return next((_decode(value) for key, value in _items(headers) if _decode(key).lower() == name), None)
    except Exception:  # any mapping-like object of any library
        return None


def _items(headers: object) -> "Iterable[tuple[object, object]]":
    if isinstance(headers, list | tuple):  # pairs, as low-level clients have them
        return (pair for pair in headers[:_MAX_HEADERS] if isinstance(pair, tuple) and len(pair) == 2)  # noqa: PLR2004
    items = getattr(headers, "items", None)
    return islice(items(), _MAX_HEADERS) if callable(items) else ()


def _decode(value: object) -> str:
    if isinstance(value, bytes):
        return value[:BODY_LIMIT].decode("utf-8", "replace")
    return value if isinstance(value, str) else str(value)


def read_body(response: object) -> str:
    """Return the start of a body that was read already; a stream is never read."""
    for name in ("_content", "_body", "data", "content", "body"):
        body = instance_attribute(response, name)
        if isinstance(body, bytes | str) and body:
            return _decode(body[:BODY_LIMIT])
    return ""


def instance_attribute(thing: object, name: str) -> object:
    """Return an attribute of the instance itself, so that no property runs and starts a download."""
    try:
        return vars(thing).get(name)
    except Exception:  # slots, or an object that hides its attributes
        return None


def read_response(response: object, request: object = None) -> Evidence | None:
    """Return the evidence of a response of any common HTTP client; None if it has no status.

    Args:
        response: An object with `status_code` or `status`, or with `code` and `headers`.
        request: The request, if the response does not have it.
    """
    status = status_of(safe_getattr(response, "status_code")) or status_of(safe_getattr(response, "status"))
    if status is None and not isinstance(response, BaseException) and safe_getattr(response, "headers") is not None:
        status = status_of(safe_getattr(response, "code"))
    if status is None:
        return None
    sent = None
    if status == 403:  # noqa: PLR2004  # the only status that depends on it
        request = request or safe_getattr(response, "request") or safe_getattr(response, "request_info")
        sent = credentials_in(
            safe_getattr(request, "headers"), safe_getattr(request, "url") or safe_getattr(response, "url")
        )
    return Evidence(
        origin=Origin.HTTP,
        http_status=status,
        headers=read_headers(safe_getattr(response, "headers")),
        body=read_body(response),
        credentials_sent=sent,
    )


def errno_in_chain(error: BaseException) -> int | None:
    """Return the errno of an error or of one of its causes."""
    seen: set[int] = set()
    link: object = error
    while isinstance(link, BaseException) and id(link) not in seen and len(seen) < CHAIN_LIMIT:
        seen.add(id(link))
        if isinstance(link, OSError) and not _has_own_numbers(link):
            number = safe_int(link, "errno")
            if number is not None:
                return number
        link = safe_getattr(link, "__cause__") or safe_getattr(link, "__context__")
    return None


def _has_own_numbers(error: OSError) -> bool:
    """Return whether the class uses its own error numbers, as TLS and name resolution do."""
    return any(each.__name__ in {"SSLError", "gaierror", "herror"} for each in type(error).__mro__)
