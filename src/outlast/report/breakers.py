"""Circuit breakers of all processes, grouped by resource: their states and what an operator ordered."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from outlast.ports.read_rows import BreakerRow

DUE = "due"
"""State of an open breaker whose time is over but that nobody has called since: it lets the next call through."""
ORDERED = "ordered"
"""State of a breaker that was opened by hand but that no process has: no call is refused."""
_PROCESS_STATES = ("open", "half_open", DUE, "closed")
_SORT_ORDER = ("open", "half_open", DUE, ORDERED, "closed")
_STATE_TEXTS = {"half_open": "half-open", DUE: "lets the next call through"}


class ResourceBreakers(NamedTuple):
    """The breakers of one resource.

    Attributes:
        state: The worst state: ``open``, ``half_open``, ``due`` or ``closed``; ``ordered`` for a breaker that was
            opened by hand and that no process has reported.
        order: The order that an operator gave and did not take back; None if there is none.
        processes: One row for each process that has reported the breaker.
        told: How many processes are in which state, in words.
    """

    resource: str
    state: str
    order: str | None
    processes: tuple[BreakerRow, ...]
    told: str


def breakers_by_resource(rows: Iterable[BreakerRow], now: datetime) -> list[ResourceBreakers]:
    """Return the breakers of each resource: open ones first, then by name.

    Args:
        rows: One for each process that reported a breaker. A resource with an order that no process has reported has
            one row with an empty process.
        now: The store's time.
    """
    grouped: dict[str, list[BreakerRow]] = {}
    for row in rows:
        grouped.setdefault(row.resource, []).append(row._replace(state=DUE) if row.is_due(now) else row)
    found = [_resource_breakers(resource, its_rows) for resource, its_rows in grouped.items()]
    return sorted(found, key=lambda each: (_SORT_ORDER.index(each.state), each.resource))


def _resource_breakers(resource: str, rows: Sequence[BreakerRow]) -> ResourceBreakers:
    order = next((row.order for row in rows if row.order is not None), None)
    processes = tuple(row for row in rows if row.process)
    if not processes:
        state = ORDERED if order == "open" else "closed"
        return ResourceBreakers(resource, state, order, processes, "no process has this breaker yet")
    states = [row.state if row.state in _PROCESS_STATES else "closed" for row in processes]
    return ResourceBreakers(resource, min(states, key=_PROCESS_STATES.index), order, processes, _states_text(states))


def _states_text(states: Sequence[str]) -> str:
    if len(set(states)) == 1:
        many = "one process" if len(states) == 1 else f"all {len(states)} processes"
        return f"{_STATE_TEXTS.get(states[0], states[0])} in {many}"
    return ", ".join(
        f"{states.count(each)} {_STATE_TEXTS.get(each, each)}" for each in _PROCESS_STATES if each in states
    )
