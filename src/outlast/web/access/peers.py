"""From where somebody asks: who is connected or, behind a proxy that is known, whom that proxy names."""

import ipaddress
from typing import TYPE_CHECKING

from outlast.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["Address", "address_of", "client_of", "proxy_of"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAMED = b"x-forwarded-for"
_UNKNOWN = "an unknown place"


def proxy_of(given: str | None) -> Address | None:
    """Return the address of the proxy that is believed; None for none.

    Raises:
        ConfigError: If it is no address.
    """
    if given is None:
        return None
    found = address_of(given)
    if found is None:
        message = f"{given!r} is no address of a proxy; give the one it connects from, such as 127.0.0.1"
        raise ConfigError(message)
    return found


def address_of(text: str) -> Address | None:
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


def client_of(scope: "Scope", proxy: Address | None = None) -> str:
    """Return from where somebody asks.

    Args:
        scope: Of the request.
        proxy: The one whose word is taken, and only for its last one: what stands before was sent to it by anybody.
    """
    client = scope.get("client")
    if not client:
        return _UNKNOWN
    peer = str(client[0])
    if proxy is None or address_of(peer) != proxy:
        return peer
    named = [value for name, value in scope["headers"] if name.lower() == _NAMED]
    last = address_of(named[-1].decode("latin-1").rpartition(",")[2]) if named else None
    return peer if last is None else str(last)
