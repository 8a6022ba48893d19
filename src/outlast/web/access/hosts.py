"""Checks of Host, Origin and client address.

Requests for other host names are rejected. Otherwise a foreign site could point its name at this machine, and the
browser would treat the dashboard as part of that site (DNS rebinding).
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv6Address
from typing import Any

from starlette.types import Scope

from outlast.errors import ConfigError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Host names of this machine, which are allowed by default."""
_HOST_PATTERN = re.compile(r"(?P<name>[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_MAX_HOST_CHARS = 255
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def single_header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the value of a header; None if it is missing, occurs more than once, or is not ASCII."""
    found = [value for key, value in headers if key.lower() == name]
    if len(found) != 1 or not found[0].isascii():
        return None
    return found[0].decode("ascii")


def split_host(host: str | None) -> tuple[str, str] | None:
    """Return the name without brackets, and the port, which may be empty; None if it is not a valid host.

    Args:
        host: Value of the header ``Host``.
    """
    if host is None or len(host) > _MAX_HOST_CHARS:
        return None
    found = _HOST_PATTERN.fullmatch(host.lower())
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
    """Return the allowed host names in canonical form.

    Args:
        hosts: Names and addresses, without scheme and port.

    Raises:
        ConfigError: If one of them is not valid.
    """
    given: object = hosts
    if isinstance(given, str):
        hosts = [given]
    names = set()
    for host in hosts:
        bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
        split = split_host(bare)
        if split is None or split[1]:
            raise ConfigError(
                f"{host!r} is not a valid host name; write it as the browser shows it, without https:// and port"
            )
        names.add(split[0])
    return frozenset(names)


def is_loopback(host: str) -> bool:
    """Return whether a listening address can only be reached from this machine."""
    return host.removeprefix("[").removesuffix("]").lower() in LOOPBACK


def cookie_attributes(scope: Scope, path: str) -> dict[str, Any]:
    """Return the attributes of all cookies: only this site gets them, and no script can read them."""
    origin = single_header(scope["headers"], b"origin") or ""
    secure = scope.get("scheme") == "https" or origin.startswith("https://")  # also if a proxy in between uses http
    return {"path": path or "/", "secure": secure, "httponly": True, "samesite": "strict"}


def is_same_origin(origin: str | None, host: str | None, request_scheme: str = "http") -> bool:
    """Return whether a page of the dashboard sent a request.

    Args:
        origin: The header ``Origin``, which a browser sends with every POST.
        host: The header ``Host``.
        request_scheme: Scheme of the request. An http origin does not match an https request. The other way round is
            fine: a proxy terminates https.
    """
    if origin is None:
        return False
    scheme, separator, rest = origin.partition("://")
    if not separator or scheme not in _DEFAULT_PORTS or (request_scheme == "https" and scheme != "https"):
        return False
    theirs, ours = split_host(rest), split_host(host)
    if theirs is None or ours is None:
        return False
    default_port = _DEFAULT_PORTS[scheme]
    return theirs[0] == ours[0] and (theirs[1] or default_port) == (ours[1] or default_port)


IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_FORWARDED_FOR = b"x-forwarded-for"
_UNKNOWN_CLIENT = "an unknown address"


def parse_proxy(address: str | None) -> IPAddress | None:
    """Return the address of the trusted proxy; None for none.

    Raises:
        ConfigError: If it is not an IP address.
    """
    if address is None:
        return None
    found = parse_ip(address)
    if found is None:
        raise ConfigError(
            f"{address!r} is not a valid proxy address; use the IP address it connects from, such as 127.0.0.1"
        )
    return found


def parse_ip(text: str) -> IPAddress | None:
    """Return an IP address, given with or without brackets and port; None if it is not valid."""
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
    return found if mapped is None else mapped  # a dual-stack socket reports IPv4 addresses that way


def client_address(scope: Scope, proxy: IPAddress | None = None) -> str:
    """Return the client's address.

    Args:
        scope: Scope of the request.
        proxy: The trusted proxy. Only the last address in its X-Forwarded-For counts; anyone can send the others.
    """
    client = scope.get("client")
    if not client:
        return _UNKNOWN_CLIENT
    peer = str(client[0])
    if proxy is None or parse_ip(peer) != proxy:
        return peer
    forwarded = [value for name, value in scope["headers"] if name.lower() == _FORWARDED_FOR]
    last = parse_ip(forwarded[-1].decode("latin-1").rpartition(",")[2]) if forwarded else None
    return peer if last is None else str(last)
