"""Where a name leads, and whether everybody may be sent there: addresses of the public internet only."""

import ipaddress
import queue
import socket
import threading
from typing import Any, NamedTuple

from outlast.errors import ConfigError

__all__ = ["Address", "is_public", "resolve"]

_UNICAST = ipaddress.ip_network("2000::/3")  # all that is given out of IPv6; what lies outside serves some special use
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Address(NamedTuple):
    """An address that a name leads to, as the socket wants it."""

    family: int
    where: tuple[Any, ...]


def is_public(address: str) -> bool:
    """Tell whether an address belongs to the public internet, also the one that is wrapped in an IPv6 address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not (ip.is_multicast or ip.is_reserved)
    inner = ip.ipv4_mapped or ip.sixtofour
    if inner is None and ip in _NAT64:
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(str(inner))
    return ip in _UNICAST and ip.is_global


def resolve(host: str, port: int, timeout: float) -> list[Address]:
    """Return the addresses of a name, in the order in which they are to be tried.

    The system's resolver cannot be interrupted, so it is asked in a thread of its own.

    Raises:
        OSError: If the name is not known, or no answer came in time.
    """
    answers: queue.SimpleQueue[list[Address] | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(Address(family, where) for family, _, _, _, where in found)))
        except BaseException as error:  # noqa: BLE001  # raised again by who asked
            answers.put(error)

    threading.Thread(target=ask, name="outlast-resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=max(timeout, 0.001))
    except queue.Empty:
        message = f"the name {host} was not resolved in {timeout:.3g} s"
        raise TimeoutError(message) from None
    if isinstance(answer, UnicodeError):  # a label that is empty or too long
        message = f"{host} is no name of a host"
        raise ConfigError(message) from None
    if isinstance(answer, BaseException):
        raise answer
    return answer
