"""Counters in PostgreSQL: roll-up and repair."""

import json
from typing import NamedTuple

from outlast.stores.counters import count_errors, missing_events, read_audit
from outlast.stores.postgres.connection import PostgresDatabase

_BATCH = 10_000
_HOUR, _DAY = 3600, 86400
_BREAKER_RETENTION = float(_DAY)
"""Seconds for which breaker states of processes that report nothing are kept."""


class _PostgresRollup(NamedTuple):
    """Rows of a span in seconds that are older than `age` seconds move to another span, or are deleted."""

    query: str
    span: int
    age: int
    into: int
    keep: bool


_ROLLUPS = (
    _PostgresRollup("rollup_deltas", 0, 10, 10, keep=True),
    _PostgresRollup("rollup_flow", 10, 2 * _HOUR, 600, keep=True),
    _PostgresRollup("rollup_flow", 600, 8 * _DAY, _DAY, keep=True),
    _PostgresRollup("rollup_flow", _DAY, 90 * _DAY, _DAY, keep=False),  # the all-time totals already contain it
    _PostgresRollup("rollup_failure_flow", 10, 2 * _HOUR, 600, keep=True),
    _PostgresRollup("rollup_failure_flow", 600, 8 * _DAY, 600, keep=False),
)


class PostgresCounters:
    """Implements `Reads.roll_up` and `Reads.recount`."""

    db: PostgresDatabase

    def roll_up(self) -> int:
        """Roll up finished time steps, unless another process is doing it."""
        moved = sum(map(self._roll, _ROLLUPS))
        self.db.change("prune_breakers", {"seconds": _BREAKER_RETENTION})
        return moved

    def _roll(self, step: _PostgresRollup) -> int:
        moved: int = 0
        since = None
        while True:
            values = step._asdict() | {"batch": _BATCH, "since": since}
            ((count, since),) = self.db.fetch(step.query, values)
            moved += count
            if count < _BATCH:
                return moved

    def recount(self) -> dict[str, int]:
        """Repair the counters. Only the roll-up waits for it: its transaction sees one moment."""
        with self.db.transaction() as cursor:
            cursor.change("lock_rollup")
            rebuilt = cursor.change("repair_dead_letters")
            found = read_audit(cursor.fetch("repair_compare"))
            more = missing_events(found)
            rows = [key._asdict() | {"n": count} for key, count in more.items()]
            cursor.change("repair_totals", {"rows": json.dumps(rows)})
            cursor.change("repair_missing_groups")
            cursor.change("repair_groups")
        return count_errors(found, more, rebuilt)
