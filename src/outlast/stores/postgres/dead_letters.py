"""Dead letters in PostgreSQL."""

import json
from collections.abc import Sequence
from typing import Any

from outlast.ports.rows import DeadLetter, DeadLetterFilter, Group, Reason
from outlast.stores.postgres.connection import Database, Rows
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.times import in_utc
from outlast.stores.postgres.walking import has_nul, meant

__all__ = ["PostgresDeadLetters"]

_BATCH = 500


class PostgresDeadLetters:
    """The duty `DeadLetters`."""

    db: Database

    def check_dead_letters(self) -> None:
        """Write a dead letter and take it back."""
        with self.db.connection() as connection, connection.transaction(force_rollback=True):
            connection.execute(self.db.sql["check_dead_letter_insert"])

    def dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Return dead letters, newest first."""
        return [_letter(row) for row in self._read("dead_letters", which)]

    def count_dead_letters(self, which: DeadLetterFilter) -> int:
        """Return how many there are."""
        return sum(count for (count,) in self._read("count_dead_letters", which))

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return one."""
        rows = self.db.fetch("dead_letter", {"id": number})
        return _letter(rows[0]) if rows else None

    def groups(self, which: DeadLetterFilter) -> list[Group]:
        """Return them grouped by cause; the sample is the newest one."""
        return [Group._make(in_utc(row)) for row in self._read("group_dead_letters", which)]

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again."""
        try:
            return "replayed" if self.db.fetch("replay_dead_letter", {"id": number}) else "gone"
        except psycopg.errors.UniqueViolation:
            return "conflict"

    def discard(self, number: int) -> str:
        """Remove a dead letter for good."""
        return "discarded" if self.db.fetch("discard_dead_letters", {"ids": [number]})[0][0] else "gone"

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard old ones."""
        values, pruned = {"seconds": float(older_than), "batch": _BATCH}, 0
        while True:
            with self.db.connection() as connection, connection.transaction():
                rows = connection.execute(self.db.sql["expired_dead_letters"], values).fetchall()
                connection.execute(self.db.sql["discard_dead_letters"], {"ids": [row[0] for row in rows]})
            pruned += len(rows)
            if len(rows) < _BATCH:
                return pruned

    def _read(self, name: str, which: DeadLetterFilter) -> Rows:
        """Read by a filter; planned each time, for what is not given makes another query of it."""
        values = meant(which)
        return [] if has_nul(values) else self.db.fetch(name, values, prepare=False)


def _letter(row: Sequence[Any]) -> DeadLetter:
    letter = DeadLetter._make(in_utc(row))
    return letter._replace(reason=Reason(letter.reason), failure=json.loads(str(letter.failure)))
