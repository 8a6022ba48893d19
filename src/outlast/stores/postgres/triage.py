"""Edits of arguments, what people say of groups, and the audit log, in PostgreSQL."""

import json
from collections.abc import Sequence
from typing import Any

from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import Status
from outlast.ports.triage_rows import AuditEntry, PayloadEdit
from outlast.stores.books import counts_by_books
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.reads import group_of
from outlast.stores.postgres.replaying import PostgresReplays
from outlast.stores.postgres.times import in_utc
from outlast.stores.postgres.turning import note_failures
from outlast.stores.triaging import observations

__all__ = ["PostgresTriage"]

_OLDEST = 100
"""Dead letters among which one of an open group is looked for, before every group is asked."""
_NO_ROWS = {str(status): 0 for status in Status} | {"dead_letters": 0}


class PostgresTriage(PostgresReplays):
    """The duty `Triage`."""

    db: Database

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task, by one statement."""
        values = {"id": number, "before": before, "after": after, "patch": patch, "who": who, "reason": reason}
        rows = self.db.fetch("edit_payload", values)
        return str(rows[0][0]) if rows else "gone"

    def edits(self, task_id: int) -> list[PayloadEdit]:
        """Return the edits of a task."""
        return [PayloadEdit._make(in_utc(row)) for row in self.db.fetch("payload_edits", {"task_id": task_id})]

    def mark_group(
        self,
        fingerprint: str,
        *,
        note: str | None = None,
        acknowledged: bool | None = None,
        snooze: float | None = None,
        who: str = "",
    ) -> FailureGroup | None:
        """Change what people say of a group."""
        values = {"fingerprint": fingerprint, "note": note, "acknowledged": acknowledged, "snooze": snooze, "who": who}
        with self.db.connection() as connection, connection.transaction():
            connection.execute(self.db.sql["mark_group"], values)
            rows = connection.execute(self.db.sql["failure_group"], {"fingerprint": fingerprint}).fetchall()
        return group_of(rows[0]) if rows else None

    def untold_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return groups of which no alert was ever written; planned each time, for there may be few or many."""
        values = {"limit": limit, "quiet": None if quiet is None else float(quiet)}
        return [group_of(row) for row in self.db.fetch("unannounced_groups", values, prepare=False)]

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Write down that somebody asked for something."""
        values = {"who": who, "action": action, "subject": subject, "reason": reason}
        values["detail"] = json.dumps(detail or {})
        number: int = self.db.fetch("add_audit_entry", values)[0][0]
        return number

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return what was asked for by hand; planned each time, for what is not given makes another query of it."""
        values = {"subject": subject, "action": action, "before": before, "limit": limit}
        return [_entry(row) for row in self.db.fetch("list_audit_entries", values, prepare=False)]

    def count_rows(self) -> dict[str, int]:
        """Count the rows; this reads all of them, and nothing else does."""
        return _NO_ROWS | dict(map(tuple, self.db.fetch("count_rows", prepare=False)))

    def ledger(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts by the books and the real ones, by one statement."""
        ((books, there),) = self.db.fetch("counts_and_rows", prepare=False)
        return counts_by_books(books), _NO_ROWS | dict(there)

    def oldest_dead_letter(self) -> float | None:
        """Return for how long the oldest dead letter of an open group waits."""
        seconds: float | None = self.db.fetch("oldest_dead_letter", {"look": _OLDEST})[0][0]
        return seconds

    def observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Tell the books what would have been done."""
        tally = observations(rows)
        if tally.counts:
            with self.db.connection() as connection:
                note_failures(connection, self.db.sql, tally)


def _entry(row: Sequence[Any]) -> AuditEntry:
    entry = AuditEntry._make(in_utc(row))
    return entry._replace(detail=json.loads(str(entry.detail)))
