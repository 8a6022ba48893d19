"""What the long run says of its figures: in the singular and the plural, and why something waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SHOWN = 4
_WHY = {
    "poison": "its process died, so it runs again alone after 1 s, then 10, then 60, until it is a dead letter",
    "replay": "it goes on when its canary has succeeded",
    "letter": "it was called before its gate was open, and is replayed again",
    "source": "it waits for the next cycle of a monitor",
    "database": "it is only just back",
}
_WHY_TASKS = {
    "QUEUED": "they wait for a worker, or for their next attempt",
    "RUNNING": "they run, or the lease of a worker that died is not over",
    "PARKED": "no worker has said yet that it knows them",
}


def counted(number: float, word: str) -> str:
    """Return a number with its word: ``1 minute``, ``2 minutes``."""
    return f"{number:,.12g} {word if number == 1 else f'{word}s'}"


def left_told(rows: Iterable[Sequence[object]]) -> str:
    """Tell what is still to do, and why it waits; a row is a kind, its state and how many."""
    told = []
    for kind, state, number in list(rows)[:_SHOWN]:
        why = _WHY.get(str(kind)) or _WHY_TASKS.get(str(state), "")
        told.append(f"{number} {kind} {str(state).lower()}{f' ({why})' if why else ''}")
    return "; ".join(told)
