"""Breakers of many processes as one table: a resource, how many processes leave it alone, and what was ordered."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from outlast.ports.read_rows import BreakerRow

DUE = "due"
"""State of an open breaker whose time is over: nobody has called since, and the next call is let through."""
ORDERED = "ordered"
"""State of a breaker that was opened by hand and that no process has: nothing refuses calls."""
_PROCESS_STATES = ("open", "half_open", DUE, "closed")
_SORT_ORDER = ("open", "half_open", DUE, ORDERED, "closed")
_STATE_TEXTS = {"half_open": "half-open", DUE: "tried at the next call"}


class ResourceBreakers(NamedTuple):
    """The breakers of one resource.

    Attributes:
        state: The worst of them: ``open``, ``half_open``, ``due`` or ``closed``; ``ordered`` where one was opened by
            hand that no process has told of.
        order: What somebody ordered by hand that was not taken back; None for nothing.
        processes: One row for each process that has told of it.
        told: How many stand how, in words.
    """

    resource: str
    state: str
    order: str | None
    processes: tuple[BreakerRow, ...]
    told: str


def breakers_by_resource(rows: Iterable[BreakerRow], now: datetime) -> list[ResourceBreakers]:
    """Return breakers by resource: those that are open first, then by name.

    Args:
        rows: As processes told of them; of a resource that was ordered something and that no process has told of, one
            with an empty process.
        now: By the store's clock.
    """
    grouped: dict[str, list[BreakerRow]] = {}
    for row in rows:
        grouped.setdefault(row.resource, []).append(row._replace(state=DUE) if row.is_due(now) else row)
    found = [_resource_breakers(resource, kept) for resource, kept in grouped.items()]
    return sorted(found, key=lambda each: (_SORT_ORDER.index(each.state), each.resource))


def _resource_breakers(resource: str, rows: Sequence[BreakerRow]) -> ResourceBreakers:
    order = next((row.order for row in rows if row.order is not None), None)
    processes = tuple(row for row in rows if row.process)
    if not processes:
        state = ORDERED if order == "open" else "closed"
        return ResourceBreakers(resource, state, order, processes, "no process has such a breaker yet")
    states = [row.state if row.state in _PROCESS_STATES else "closed" for row in processes]
    return ResourceBreakers(resource, min(states, key=_PROCESS_STATES.index), order, processes, _states_text(states))


def _states_text(states: Sequence[str]) -> str:
    if len(set(states)) == 1:
        many = "one process" if len(states) == 1 else f"all {len(states)} processes"
        return f"{_STATE_TEXTS.get(states[0], states[0])} in {many}"
    return ", ".join(
        f"{states.count(each)} {_STATE_TEXTS.get(each, each)}" for each in _PROCESS_STATES if each in states
    )
