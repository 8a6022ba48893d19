"""Edits, groups and the audit log in SQLite, and what is counted to check the books."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import Status
from outlast.ports.triage_rows import AuditEntry, PayloadEdit
from outlast.sql_files import load_statements
from outlast.stores.books import counts_by_books
from outlast.stores.sqlite.booking import book
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.letter_walks import BEYOND
from outlast.stores.sqlite.reads import failure_group
from outlast.stores.sqlite.times import milliseconds, moment, now_ms
from outlast.stores.triaging import observations

__all__ = ["SqliteTriage"]

SQL = load_statements(__package__)


class SqliteTriage:
    """The duty `Triage`, but for replays."""

    db: Database

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task."""
        values = {"id": number, "before": before, "after": after, "patch": patch, "who": who, "reason": reason}

        def work(connection: sqlite3.Connection) -> str:
            row = connection.execute(SQL["edit_dead_letter"], values).fetchone()
            if row is None:
                return "changed" if connection.execute(SQL["has_dead_letter"], values).fetchone()[0] else "gone"
            now = now_ms()
            connection.execute(SQL["edit_task"], (after, now, row[0]))
            connection.execute(SQL["add_payload_edit"], values | {"task_id": row[0], "now": now})
            return "edited"

        return self.db.write(work)

    def edits(self, task_id: int) -> list[PayloadEdit]:
        """Return the edits of a task."""
        rows = self.db.read(lambda connection: connection.execute(SQL["payload_edits"], (task_id,)).fetchall())
        return [PayloadEdit._make([*row[:-1], moment(row[-1])]) for row in rows]

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
        values = {
            "fingerprint": fingerprint,
            "note": note,
            "acknowledged": None if acknowledged is None else int(acknowledged),
            "snooze": None if snooze is None else milliseconds(snooze),
            "who": who,
            "now": now_ms(),
        }

        def work(connection: sqlite3.Connection) -> FailureGroup | None:
            connection.execute(SQL["mark_group"], values)
            row = connection.execute(SQL["failure_group"], values).fetchone()
            return None if row is None else failure_group(row)

        return self.db.write(work)

    def untold_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return groups that nobody was told of. Those that were are marked, so that they are not looked at again."""
        if self.db.read(lambda connection: connection.execute(SQL["has_announced_groups"]).fetchone()[0]):
            self.db.write(lambda connection: connection.execute(SQL["mark_announced_groups"]))
        now = now_ms()
        values = {"now": now, "limit": limit, "since": None if quiet is None else now - milliseconds(quiet)}
        rows = self.db.read(lambda connection: connection.execute(SQL["unannounced_groups"], values).fetchall())
        return [failure_group(row) for row in rows]

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Write down that somebody asked for something."""
        values = {"who": who, "action": action, "subject": subject, "reason": reason, "now": now_ms()}
        values["detail"] = json.dumps(detail or {}, ensure_ascii=False)
        return self.db.write(lambda connection: connection.execute(SQL["add_audit_entry"], values).lastrowid or 0)

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return what was asked for by hand, newest first."""
        name = "list_audit_entries"
        if subject is not None:
            name = "list_audit_entries_by_subject"
        elif action is not None:
            name = "list_audit_entries_by_action"
        values = {"subject": subject, "action": action, "before": BEYOND if before is None else before, "limit": limit}
        rows = self.db.read(lambda connection: connection.execute(SQL[name], values).fetchall())
        return [_entry(row) for row in rows]

    def count_rows(self) -> dict[str, int]:
        """Count the tasks of each status, and the dead letters."""
        return _named(self.db.read(lambda connection: connection.execute(SQL["count_rows"]).fetchone()))

    def ledger(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts by the books and the real ones, by one statement."""
        books, *there = self.db.read(lambda connection: connection.execute(SQL["counts_and_rows"]).fetchone())
        return counts_by_books(json.loads(books)), _named(there)

    def oldest_dead_letter(self) -> float | None:
        """Return for how many seconds the oldest dead letter of an open group waits."""
        now = now_ms()
        values = {"now": now}
        moved = self.db.read(lambda connection: connection.execute(SQL["oldest_dead_letter"], values).fetchone()[0])
        return None if moved is None else max(0.0, (now - moved) / 1000)

    def observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Write what would have been done."""
        tally = observations(rows)
        self.db.write(lambda connection: book(connection, tally, now_ms()))


def _named(counts: Sequence[int]) -> dict[str, int]:
    return dict(zip([*map(str, Status), "dead_letters"], counts, strict=True))


def _entry(row: Sequence[Any]) -> AuditEntry:
    values = dict(zip(AuditEntry._fields, row, strict=True))
    return AuditEntry(**values | {"at": moment(values["at"]), "detail": json.loads(values["detail"])})
