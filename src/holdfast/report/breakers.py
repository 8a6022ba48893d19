"""Breakers of many processes as one table: a resource, how many processes leave it alone, and what was ordered."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.ports.read_rows import BreakerRow

__all__ = ["SILENT_AFTER", "ResourceBreakers", "by_resource"]

SILENT_AFTER = 60.0
"""Seconds after which what a process without a lease has told is out of date."""
_WORST = ("open", "half_open", "closed")


class ResourceBreakers(NamedTuple):
    """The breakers of one resource.

    Attributes:
        state: The worst of them: ``open``, ``half_open`` or ``closed``.
        order: What somebody ordered by hand that was not taken back; None for nothing.
        processes: One row for each process that has told of it.
        told: How many stand how, in words.
    """

    resource: str
    state: str
    order: str | None
    processes: tuple[BreakerRow, ...]
    told: str


def by_resource(rows: Iterable[BreakerRow], now: datetime) -> list[ResourceBreakers]:
    """Return breakers by resource: those that are open first, then by name.

    Args:
        rows: As processes told of them; of a resource that was ordered something and that no process has told of, one
            with an empty process.
        now: By the store's clock.
    """
    grouped: dict[str, list[BreakerRow]] = {}
    for row in rows:
        grouped.setdefault(row.resource, [])
        if not _is_silent(row, now):
            grouped[row.resource].append(row)
    found = [_of(resource, kept) for resource, kept in grouped.items() if kept]
    return sorted(found, key=lambda each: (_WORST.index(each.state), each.resource))


def _is_silent(row: BreakerRow, now: datetime) -> bool:
    """Tell whether a process has not told anything for so long that it has died: one without a lease tells again."""
    return ":" in row.process and now - row.updated_at > timedelta(seconds=SILENT_AFTER)


def _of(resource: str, rows: Sequence[BreakerRow]) -> ResourceBreakers:
    order = next((row.order for row in rows if row.order is not None), None)
    processes = tuple(row for row in rows if row.process)
    states = [row.state if row.state in _WORST else "closed" for row in processes or rows]
    state = min(states, key=_WORST.index)
    return ResourceBreakers(resource, state, order, processes, _told(states if processes else []))


def _told(states: Sequence[str]) -> str:
    if not states:
        return "no process has told of it"
    if len(set(states)) == 1:
        many = "one process" if len(states) == 1 else f"all {len(states)} processes"
        return f"{states[0].replace('_', '-')} in {many}"
    return ", ".join(f"{states.count(each)} {each.replace('_', '-')}" for each in _WORST if each in states)
