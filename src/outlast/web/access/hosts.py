"""Under which names the dashboard answers, and whether a request that changes something comes from its own pages.

A name that was not allowed gets nothing: a foreign site whose name is made to point at this machine would otherwise be
taken for ours by the browser.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv6Address
from typing import TYPE_CHECKING

from outlast.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["LOOPBACK", "allowed_names", "is_https", "is_loopback", "is_same_origin", "only", "split_host"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The names of this machine that are answered to by default."""
_HOST = re.compile(r"(?P<name>[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_LONGEST = 255
_PORTS = {"http": "80", "https": "443"}


def only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the value of a header that is there once; None where it is missing, twice there, or no ASCII text."""
    found = [value for key, value in headers if key.lower() == name]
    if len(found) != 1 or not found[0].isascii():
        return None
    return found[0].decode("ascii")


def split_host(given: str | None) -> tuple[str, str] | None:
    """Return the name, without brackets, and the port, which may be empty; None for what is no host.

    Args:
        given: As the header ``Host`` has it.
    """
    if given is None or len(given) > _LONGEST:
        return None
    found = _HOST.fullmatch(given.lower())
    if found is None:
        return None
    name = found["name"]
    if name.startswith("["):
        try:
            name = str(IPv6Address(name[1:-1]))
        except AddressValueError:
            return None
    return name, found["port"] or ""


def allowed_names(hosts: Sequence[str]) -> frozenset[str]:
    """Return the names that are answered to.

    Args:
        hosts: Names and addresses, without scheme and port.

    Raises:
        ConfigError: If one of them is none.
    """
    given: object = hosts
    if isinstance(given, str):
        hosts = [given]
    names = set()
    for host in hosts:
        bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
        split = split_host(bare)
        if split is None or split[1]:
            message = f"{host!r} is no name of a host; give it as the browser shows it, without https:// and port"
            raise ConfigError(message)
        names.add(split[0])
    return frozenset(names)


def is_loopback(host: str) -> bool:
    """Tell whether an address to listen on can be reached from this machine alone."""
    return host.removeprefix("[").removesuffix("]").lower() in LOOPBACK


def is_https(scope: "Scope") -> bool:
    """Tell whether the browser speaks https, also where a proxy in between does not."""
    origin = only(scope["headers"], b"origin") or ""
    return scope.get("scheme") == "https" or origin.startswith("https://")


def is_same_origin(origin: str | None, host: str | None, asked_by: str = "http") -> bool:
    """Tell whether a page of the dashboard sent a request.

    Args:
        origin: The header ``Origin``, which a browser sends with every POST.
        host: The header ``Host``.
        asked_by: How the request came. A page of http is none of ours where it came by https; the other way round it
            is a proxy that speaks https for us.
    """
    if origin is None:
        return False
    scheme, separator, rest = origin.partition("://")
    if not separator or scheme not in _PORTS or (asked_by == "https" and scheme != "https"):
        return False
    theirs, ours = split_host(rest), split_host(host)
    if theirs is None or ours is None:
        return False
    usual = _PORTS[scheme]
    return theirs[0] == ours[0] and (theirs[1] or usual) == (ours[1] or usual)
