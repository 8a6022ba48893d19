"""Under which names the dashboard answers, and whether a request that changes something comes from its own pages.

A name that was not allowed gets nothing: a foreign site whose name is made to point at this machine would otherwise be
taken for ours by the browser.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv6Address
from typing import TYPE_CHECKING

from outlast.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import Scope


LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The names of this machine that are answered to by default."""
_HOST_PATTERN = re.compile(r"(?P<name>[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_MAX_HOST_CHARS = 255
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def single_header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
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
    if given is None or len(given) > _MAX_HOST_CHARS:
        return None
    found = _HOST_PATTERN.fullmatch(given.lower())
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
    origin = single_header(scope["headers"], b"origin") or ""
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
    if not separator or scheme not in _DEFAULT_PORTS or (asked_by == "https" and scheme != "https"):
        return False
    theirs, ours = split_host(rest), split_host(host)
    if theirs is None or ours is None:
        return False
    usual = _DEFAULT_PORTS[scheme]
    return theirs[0] == ours[0] and (theirs[1] or usual) == (ours[1] or usual)


# From where somebody asks: who is connected or, behind a proxy that is known, whom that proxy names.

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_FORWARDED_FOR = b"x-forwarded-for"
_UNKNOWN_CLIENT = "an unknown place"


def parse_proxy(given: str | None) -> IPAddress | None:
    """Return the address of the proxy that is believed; None for none.

    Raises:
        ConfigError: If it is no address.
    """
    if given is None:
        return None
    found = parse_ip(given)
    if found is None:
        message = f"{given!r} is no address of a proxy; give the one it connects from, such as 127.0.0.1"
        raise ConfigError(message)
    return found


def parse_ip(text: str) -> IPAddress | None:
    """Return an address, also one with brackets or a port behind it; None for what is none."""
    bare = text.strip().strip('"')
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ipaddress.ip_address(bare)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped  # a socket for both kinds sees IPv4 addresses like that


def client_address(scope: "Scope", proxy: IPAddress | None = None) -> str:
    """Return from where somebody asks.

    Args:
        scope: Of the request.
        proxy: The one whose word is taken, and only for its last one: what stands before was sent to it by anybody.
    """
    client = scope.get("client")
    if not client:
        return _UNKNOWN_CLIENT
    peer = str(client[0])
    if proxy is None or parse_ip(peer) != proxy:
        return peer
    named = [value for name, value in scope["headers"] if name.lower() == _FORWARDED_FOR]
    last = parse_ip(named[-1].decode("latin-1").rpartition(",")[2]) if named else None
    return peer if last is None else str(last)
