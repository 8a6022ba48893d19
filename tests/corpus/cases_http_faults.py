"""Every fault of a connection, of TLS and of an answer, as each HTTP client reports it."""

from __future__ import annotations

from corpus.case import Case
from corpus.http_clients import error_of
from corpus.http_faults import FAULTS, LIBRARIES, TEMPORARY, Fault
from outlast import Category, Origin


def _origin(fault: Fault, client: str) -> Origin | None:
    """Name the origin where the client's own class carries it; a bare TimeoutError or JSON error cannot tell."""
    told = (
        fault.category is Category.NETWORK
        and client in LIBRARIES
        and not (client == "aiohttp" and "stall" in fault.name)
    )
    return Origin.HTTP if told else None


def _case(fault: Fault, client: str) -> Case:
    return Case(
        f"{client}/{fault.name}",
        lambda world: error_of(client, fault.ask(world.faults)),
        fault.category,
        fault.category in TEMPORARY,
        origin=_origin(fault, client),
    )


CASES = [_case(fault, client) for fault in FAULTS for client in fault.clients]
