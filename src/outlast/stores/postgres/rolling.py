"""Adding up the books in PostgreSQL. What is moved is deleted and added by one statement."""

from typing import NamedTuple

from outlast.stores.postgres.connection import Database

__all__ = ["PostgresRolling"]

_BATCH = 10_000
_HOUR, _DAY = 3600, 86400
_BREAKERS = float(_DAY)
"""Seconds after which a process that is no worker and has told nothing is taken for gone."""


class _Step(NamedTuple):
    """A span, how old what is in it may become, and the span it goes into; where it is not kept, it goes for good."""

    query: str
    span: int
    age: int
    into: int
    keep: bool


_STEPS = (
    _Step("rollup_deltas", 0, 10, 10, keep=True),
    _Step("rollup_flow", 10, 2 * _HOUR, 600, keep=True),
    _Step("rollup_flow", 600, 8 * _DAY, _DAY, keep=True),
    _Step("rollup_flow", _DAY, 90 * _DAY, _DAY, keep=False),  # what was ever has it from the beginning
    _Step("rollup_failure_flow", 10, 2 * _HOUR, 600, keep=True),
    _Step("rollup_failure_flow", 600, 8 * _DAY, 600, keep=False),
)


class PostgresRolling:
    """The part of `Reads` that writes."""

    db: Database

    def roll_up(self) -> int:
        """Add up what is over; who finds another at it leaves it to that one."""
        moved = sum(map(self._roll, _STEPS))
        self.db.change("prune_breakers", {"seconds": _BREAKERS})
        return moved

    def _roll(self, step: _Step) -> int:
        moved: int = 0
        since = None
        while True:
            values = step._asdict() | {"batch": _BATCH, "since": since}
            ((count, since),) = self.db.fetch(step.query, values)
            moved += count
            if count < _BATCH:
                return moved
