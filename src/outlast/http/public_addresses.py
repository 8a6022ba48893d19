"""Which IP addresses are public, and a transport that follows redirects to public addresses only."""

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from typing import Any, Self

from outlast.errors import ContentError

_UNICAST = ipaddress.ip_network("2000::/3")  # all allocated IPv6 addresses; the others have special uses
# Azure serves each virtual machine its metadata at a public address, and Oracle at one that is reserved for protocols.
_CLOUD_HOSTS = (ipaddress.ip_network("168.63.129.16/32"), ipaddress.ip_network("192.0.0.0/24"))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Return whether an IP address is public. An IPv4 address embedded in an IPv6 address is checked too."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not (ip.is_multicast or ip.is_reserved or any(ip in each for each in _CLOUD_HOSTS))
    inner = ip.ipv4_mapped or ip.sixtofour
    if inner is None and ip in _NAT64:
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(str(inner))
    return ip in _UNICAST and ip.is_global


_FIRST_HOP = "outlast_first_hop"  # extension of a request; a redirect takes it over


@dataclass
class _FirstHop:
    """What is known of the request with which a call began.

    Attributes:
        is_redirected: Whether it was answered with a redirect.
        private_host: Its host, if the redirect came from an address that is not public.
    """

    is_redirected: bool = False
    private_host: str | None = None


async def mark_first_hop(request: Any) -> None:
    """Mark the first request of a call: the event hook for requests that a client with `PublicRedirects` needs."""
    request.extensions.setdefault(_FIRST_HOP, _FirstHop())


class PublicRedirects:
    """An async transport of httpx or httpx2 that refuses redirects to addresses that are not public.

    The first request of a call goes where the caller says. A redirect is the word of a server: all addresses of its
    host must be public, unless it leads to the host of the first request, and that one is private itself. The host is
    resolved once, and the connection goes to an address that was checked, so a name that resolves differently the
    second time gains nothing.

    Args:
        library: The module httpx or httpx2.
        limits: Limits of the connections, as the library has them.
    """

    def __init__(self, library: Any, limits: Any) -> None:
        self._library = library
        self._usual = library.AsyncHTTPTransport(limits=limits)
        # Without keep-alive: the pool knows a connection by its address, but the certificate was checked for one name.
        self._pinned = library.AsyncHTTPTransport(
            limits=library.Limits(max_connections=limits.max_connections, max_keepalive_connections=0)
        )

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request.

        Raises:
            ContentError: If it is a redirect to an address that is not public. Nothing is sent then.
            Exception: Any error of the library.
        """
        first = request.extensions.setdefault(_FIRST_HOP, _FirstHop())
        if first.is_redirected:
            return await self._send_pinned(request, await self._checked_addresses(request, first))
        response = await self._usual.handle_async_request(request)
        if response.has_redirect_location:
            first.is_redirected = True
            peer = response.extensions["network_stream"].get_extra_info("server_addr")
            if peer and not is_public(str(peer[0])):
                first.private_host = _host(request)
        return response

    async def _checked_addresses(self, request: Any, first: _FirstHop) -> list[str]:
        host = _host(request)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label that is empty or too long
            raise self._library.ConnectError(f"{host} cannot be resolved: {error}", request=request) from error
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        private = [each for each in addresses if not is_public(each)]
        if private and host != first.private_host:
            raise ContentError(
                f"the response is a redirect to {host}, which has the address {private[0]}; addresses that are not "
                "public are not followed, unless the monitor has allow_private=True"
            )
        return addresses

    async def _send_pinned(self, request: Any, addresses: list[str]) -> Any:
        """Send a request to the first address that accepts a connection. Each has an equal share of the time."""
        timeouts = dict(request.extensions.get("timeout", {}))
        if timeouts.get("connect"):
            timeouts["connect"] /= len(addresses)
        extensions = {**request.extensions, "timeout": timeouts, "sni_hostname": _host(request)}
        *others, last = (
            self._library.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # they have the host by its name
                stream=request.stream,
                extensions=extensions,
            )
            for address in addresses
        )
        for pinned in others:
            try:
                return await self._pinned.handle_async_request(pinned)
            except (self._library.ConnectError, self._library.ConnectTimeout):
                continue
        return await self._pinned.handle_async_request(last)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._usual.aclose()
        await self._pinned.aclose()

    async def __aenter__(self) -> Self:
        await self._usual.__aenter__()
        await self._pinned.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def _host(request: Any) -> str:
    """Return the host of a request, as the resolver and TLS need it."""
    return str(request.url.raw_host.decode("ascii"))
