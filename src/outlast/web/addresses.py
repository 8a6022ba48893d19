"""Paths: where a page or action is, and what a path that was asked for says.

The parts of a path are told apart before they are decoded, so that a name may have a slash in it.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from outlast.web.routing import RefusedError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

__all__ = ["PREFIX", "address", "checked_text", "decoded", "mount_of", "path_below", "prefix_of", "query_of"]

PREFIX = "outlast.prefix"
"""Where a request's scope has the mount."""
LONGEST_PATH = 2048
"""Bytes of a path, as it was sent."""
LONGEST_QUERY = 4096
"""Bytes of a query, as it was sent."""
_MOST_FIELDS = 100
_VARIABLE = re.compile(r"\{([a-z_]+)\}")


def address(prefix: str, path: str, params: Mapping[str, Any]) -> str:
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

    made = prefix + _VARIABLE.sub(filled, path)
    given = {name: value for name, value in left.items() if value is not None and value != ""}
    return f"{made}?{urlencode(given, doseq=True)}" if given else made


def mount_of(scope: "Scope") -> str:
    """Return where the dashboard is mounted, as it is written in an address; empty for nowhere."""
    parts = [part for part in scope.get("root_path", "").split("/") if part]
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def prefix_of(request: "Request") -> str:
    """Return where the dashboard is mounted, as the gate noted it; empty for nowhere."""
    prefix: str = request.scope[PREFIX]
    return prefix


def path_below(scope: "Scope") -> str:
    """Return the path that was asked for, below the mount and in one spelling, each part encoded.

    Raises:
        RefusedError: If it is too long or no text.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    raw = raw.partition(b"?")[0]
    if len(raw) > LONGEST_PATH:
        message = "the path is too long"
        raise RefusedError(message)
    path = "/".join(quote(decoded(part), safe="") for part in raw.split(b"/"))
    mount, outer = mount_of(scope), mount_of({"root_path": scope.get("app_root_path", "")})
    for taken in (mount, mount.removeprefix(outer)):  # a proxy may have taken the outer part away already
        if taken and (path == taken or path.startswith(f"{taken}/")):
            path = path[len(taken) :]
            break
    return path.rstrip("/") or "/"


def decoded(part: bytes | str) -> str:
    """Return one part of a path as the text that it means.

    Raises:
        RefusedError: If it means none.
    """
    try:
        return checked_text(unquote_to_bytes(part).decode("utf-8"))
    except UnicodeError:
        message = "the path is no valid UTF-8"
        raise RefusedError(message) from None


def query_of(scope: "Scope") -> dict[str, str]:
    """Return what stands behind the question mark, each name once, without what is empty.

    Raises:
        RefusedError: If it is too long or no text.
    """
    raw: bytes = scope.get("query_string", b"")
    if len(raw) > LONGEST_QUERY:
        message = "the query is too long"
        raise RefusedError(message)
    try:
        pairs = parse_qsl(raw.decode("ascii"), errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:  # UnicodeError is one
        message = "the query is no valid UTF-8, or has too many fields"
        raise RefusedError(message) from None
    return {checked_text(name): checked_text(value) for name, value in pairs}


def checked_text(text: str) -> str:
    """Return a text that both databases can be asked for.

    Raises:
        RefusedError: If it has a NUL or half a character in it.
    """
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        message = "a NUL or half a character was sent, which no name or text has"
        raise RefusedError(message)
    return text
