"""Wrong secrets are slowed down: after a few from one place, the next has to wait, and longer each time."""

import ipaddress
import time
from collections.abc import Callable

from outlast.web.access.callers import TooOftenError

__all__ = ["FREE", "LONGEST", "Slowdown"]

FREE = 5
"""Wrong secrets before it begins."""
LONGEST = 60.0
"""Seconds that a place waits at most."""
_FORGOTTEN = 900.0  # seconds after which a place begins anew
_MOST_PLACES = 4096
_NETWORK = 64  # bits of an IPv6 address that one customer has


class Slowdown:
    """How often each place was wrong.

    Args:
        now: The clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Begin with none."""
        self._now = now
        self._places: dict[str, tuple[int, float]] = {}  # how often wrong, and when last; the latest at the end

    def check(self, client: str) -> None:
        """See that a place may be wrong once more.

        Raises:
            TooOftenError: If it has to wait. Right secrets are not asked about here, and never wait.
        """
        wrong, last = self._places.get(_place(client), (0, 0.0))
        if wrong >= FREE:
            left = last + min(LONGEST, 2.0 ** (wrong - FREE)) - self._now()
            if left > 0:
                raise TooOftenError(left)

    def failed(self, client: str) -> None:
        """Count a wrong secret."""
        now, place = self._now(), _place(client)
        wrong, last = self._places.pop(place, (0, now))
        if len(self._places) >= _MOST_PLACES:
            del self._places[next(iter(self._places))]
        self._places[place] = (1 if now - last > _FORGOTTEN else wrong + 1, now)


def _place(client: str) -> str:
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:  # as a socket for both kinds sees an IPv4 address
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _NETWORK), strict=False))
    return client
