"""Edits, groups and the audit log in memory, and what is counted to check the books."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast import clock
from holdfast.ports.read_rows import FailureGroup
from holdfast.ports.rows import Status
from holdfast.ports.triage_rows import AuditEntry, PayloadEdit
from holdfast.stores.memory.book import Book, moment
from holdfast.stores.memory.reads import group_of
from holdfast.stores.memory.tasks import counts
from holdfast.stores.triaging import observations

__all__ = ["MemoryTriage"]


class MemoryTriage:
    """The duty `Triage`, but for replays."""

    book: Book

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task."""
        with self.book.lock:
            letter = self.book.letters.get(number)
            row = None if letter is None else self.book.tasks.get(letter.original_task_id)
            if letter is None or row is None or row.status is not Status.FAILED:
                return "gone"
            if letter.parameters != before:
                return "changed"
            now = clock.now()
            self.book.letters[number] = letter._replace(parameters=after)
            row.parameters, row.updated_at = after, now
            edit = PayloadEdit(next(self.book.edit_ids), row.id, before, after, patch, who, reason, moment(now))
            self.book.edits.append(edit)
            return "edited"

    def edits(self, task_id: int) -> list[PayloadEdit]:
        """Return the edits of a task."""
        with self.book.lock:
            return [each for each in self.book.edits if each.task_id == task_id]

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
        with self.book.lock:
            group, now = self.book.books.groups.get(fingerprint), clock.now()
            if group is None:
                return None
            group.note = group.note if note is None else note
            if acknowledged is not None:
                group.acknowledged_at, group.acknowledged_by = (now, who) if acknowledged else (None, "")
            if snooze is not None:
                group.snoozed_until = now + snooze if snooze > 0 else None
            return group_of(self.book.books, fingerprint)

    def untold_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return groups that nobody was told of."""
        with self.book.lock:
            told = self.book.told
            since = None if quiet is None else moment(clock.now() - quiet)
            groups = [
                group
                for group in self._open_groups()
                if f"group:{group.fingerprint}" not in told
                and (since is None or group.last_seen >= since or group.dead > 0)
            ]
        return sorted(groups, key=lambda group: group.first_seen)[:limit]

    def _open_groups(self) -> list[FailureGroup]:
        now, books = moment(clock.now()), self.book.books
        return [group for each in books.groups if (group := group_of(books, each)).standing(now) == "open"]

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Write down that somebody asked for something."""
        kept = json.loads(json.dumps(detail or {}))
        with self.book.lock:
            number, now = next(self.book.audit_ids), moment(clock.now())
            self.book.audits.append(AuditEntry(number, now, who, action, subject, kept, reason))
            return number

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return what was asked for by hand, newest first."""
        with self.book.lock:
            found = [
                each
                for each in reversed(self.book.audits)
                if subject in {None, each.subject}
                and action in {None, each.action}
                and (before is None or each.id < before)
            ]
        return found[:limit]

    def count_rows(self) -> dict[str, int]:
        """Count the tasks of each status, and the dead letters."""
        with self.book.lock:
            statuses = Counter(row.status for row in self.book.tasks.values())
            return {str(status): statuses[status] for status in Status} | {"dead_letters": len(self.book.letters)}

    def ledger(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts by the books, and the real ones."""
        with self.book.lock:
            return counts(self.book), self.count_rows()

    def oldest_dead_letter(self) -> float | None:
        """Return for how many seconds the oldest dead letter of an open group waits."""
        with self.book.lock:
            causes = {group.fingerprint for group in self._open_groups()}
            moved = [each.moved_to_dlq_at for each in self.book.letters.values() if each.fingerprint in causes]
            return max(0.0, clock.now() - min(moved).timestamp()) if moved else None

    def observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Write what would have been done."""
        with self.book.lock:
            self.book.books.write(observations(rows), clock.now())
