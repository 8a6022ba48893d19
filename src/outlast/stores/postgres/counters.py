"""Counters in PostgreSQL: roll-up and repair."""

import json

from outlast.stores.counters import BREAKER_RETENTION, ROLLUPS, Rollup, count_errors, missing_events, read_audit
from outlast.stores.postgres.connection import PostgresDatabase

_BATCH = 10_000


class PostgresCounters:
    """Implements `Reads.roll_up` and `Reads.recount`."""

    db: PostgresDatabase

    def roll_up(self) -> int:
        """Roll up finished time steps, unless another process is doing it."""
        moved = sum(map(self._roll, ROLLUPS))
        self.db.change("prune_breakers", {"seconds": float(BREAKER_RETENTION)})
        return moved

    def _roll(self, step: Rollup) -> int:
        name, since = f"rollup_{step.flow if step.span else 'deltas'}", None
        moved: int = 0
        while True:
            values = step._asdict() | {"batch": _BATCH, "since": since}
            ((count, since),) = self.db.fetch(name, values)
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
