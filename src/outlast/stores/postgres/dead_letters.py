"""Dead letters in PostgreSQL: lists, replays, payload edits, failure groups and the audit log.

Statements with optional filters use ``prepare=False``: a plan for other filters would be slow.
"""

import json
from collections.abc import Sequence
from typing import Any

from outlast.ports.read_rows import MAX_ROWS_SCANNED, FailureGroup
from outlast.ports.rows import DeadLetter, DeadLetterFilter, Group, Reason, Status
from outlast.ports.triage import AuditEntry, Canaries, NewReplay, PayloadEdit, Replay, ReplayState, ReplayStep
from outlast.stores.counters import counted_statuses
from outlast.stores.filters import MAX_CONFLICT_IDS, observed_delta, read_filter, write_filter
from outlast.stores.postgres.connection import Connection, PostgresDatabase, Rows, in_utc
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.reads import by_filter, filter_values, has_nul, read_group
from outlast.stores.postgres.settle_and_claim import count_failures

_BATCH = 500


class PostgresDeadLetters:
    """Implements `DeadLetters`."""

    db: PostgresDatabase

    def check_dead_letters(self) -> None:
        """Check that a dead letter can be written, and roll back."""
        with self.db.connection() as connection, connection.transaction(force_rollback=True):
            connection.execute(self.db.sql["check_dead_letter_insert"])

    def dead_letters(self, filters: DeadLetterFilter) -> list[DeadLetter]:
        """Return matching dead letters, newest first."""
        return [_read_dead_letter(row) for row in self._read("dead_letters", filters)]

    def count_dead_letters(self, filters: DeadLetterFilter) -> int:
        """Return the number of matching dead letters."""
        return sum(count for (count,) in self._read("count_dead_letters", filters))

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return a dead letter, or None."""
        rows = self.db.fetch("dead_letter", {"id": number})
        return _read_dead_letter(rows[0]) if rows else None

    def groups(self, filters: DeadLetterFilter) -> list[Group]:
        """Return dead letters grouped by cause; the sample is the newest one."""
        return [Group._make(in_utc(row)) for row in self._read("group_dead_letters", filters)]

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again."""
        try:
            return "replayed" if self.db.fetch("replay_dead_letter", {"id": number}) else "gone"
        except psycopg.errors.UniqueViolation:
            return "conflict"

    def discard(self, number: int) -> str:
        """Delete a dead letter for good."""
        return "discarded" if self.db.fetch("discard_dead_letters", {"ids": [number]})[0][0] else "gone"

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard old dead letters."""
        values, pruned = {"seconds": float(older_than), "batch": _BATCH}, 0
        while True:
            with self.db.connection() as connection, connection.transaction():
                rows = connection.execute(self.db.sql["expired_dead_letters"], values).fetchall()
                connection.execute(self.db.sql["discard_dead_letters"], {"ids": [row[0] for row in rows]})
            pruned += len(rows)
            if len(rows) < _BATCH:
                return pruned

    def _read(self, name: str, filters: DeadLetterFilter) -> Rows:

        values = filter_values(filters)
        return [] if has_nul(values) else self.db.fetch(name, values, prepare=False)


def _read_dead_letter(row: Sequence[Any]) -> DeadLetter:
    dead_letter = DeadLetter._make(in_utc(row))
    return dead_letter._replace(reason=Reason(dead_letter.reason), failure=json.loads(str(dead_letter.failure)))


_COUNT_SCAN = 10 * MAX_ROWS_SCANNED
"""Dead letters that one statement scans to count matches."""
_MAX_ID = 2**63 - 1


class PostgresReplays:
    """Implements the replays of `TriageStore`. A step locks the row of the replay and checks the epoch of the claim."""

    db: PostgresDatabase

    def add_replay(self, new: NewReplay) -> Replay:
        """Start a replay, from the oldest matching dead letter to the newest."""
        with self.db.connection() as connection, connection.transaction():
            total, oldest, newest = self._count_matches(connection, new.which)
            values = new._asdict() | {"which": write_filter(new.which), "total": total, "newest": newest}
            values |= {"cursor": max(oldest - 1, 0)}
            return _read_replay(connection.execute(self.db.sql["add_replay"], values).fetchall()[0])

    def _count_matches(self, connection: Connection, filters: DeadLetterFilter) -> tuple[int, int, int]:
        """Return how many dead letters match, and their smallest and largest id; reads along an index, part by part."""
        total = oldest = newest = 0
        values = filter_values(filters)
        if has_nul(values):
            return total, oldest, newest
        sql = self.db.sql[f"count_matching{by_filter(filters)}"]
        before = _MAX_ID if filters.before is None else filters.before
        left = _MAX_ID if filters.limit is None else filters.limit
        while left > 0:
            bounds = {"before": before, "limit": left, "look": _COUNT_SCAN}
            row = connection.execute(sql, values | bounds, prepare=False).fetchall()[0]
            count, least, largest, scanned, before = row
            if count:
                total, oldest, newest, left = total + count, least, max(newest, largest), left - count
            if scanned < _COUNT_SCAN:
                break
        return total, oldest, newest

    def replay_run(self, number: int) -> Replay | None:
        """Return a replay, or None."""
        rows = self.db.fetch("get_replay", {"id": number})
        return _read_replay(rows[0]) if rows else None

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first."""
        rows = self.db.fetch("list_replays", {"running": running, "limit": limit}, prepare=False)
        return [_read_replay(row) for row in rows]

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Claim a running replay without a lease, or your own."""
        rows = self.db.fetch("claim_replay", {"owner": owner, "lease": float(lease)})
        return _read_replay(rows[0]) if rows else None

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters again. Locks the replay first, then its dead letters, then their tasks."""
        sql = self.db.sql
        with self.db.connection() as connection, connection.transaction():
            rows = connection.execute(sql["lock_replay"], {"id": number, "epoch": epoch}).fetchall()
            if not rows:
                return None
            replay, bound = _read_replay(rows[0][:-1]), rows[0][-1]
            ids, cursor = self._next_matching(connection, replay, bound, limit)
            if cursor >= bound:
                failed, cursor = self._next_failed(connection, replay, cursor, limit - len(ids))
                ids += failed
            replayed, conflicts = self._requeue(connection, ids, {"replay_id": number, "canary": canary})
            values = {"id": number, "cursor": cursor, "stage": stage, "replayed": replayed}
            connection.execute(
                sql["save_replay_progress"],
                values | {"conflicts": len(conflicts), "conflict_ids": conflicts, "most": MAX_CONFLICT_IDS},
            )
        return ReplayStep(replayed, len(conflicts), more=cursor < replay.newest)

    def _next_matching(self, connection: Connection, replay: Replay, bound: int, limit: int) -> tuple[list[int], int]:
        """Return the next dead letters that matched when the replay started, and the new cursor."""
        if replay.cursor >= bound or limit <= 0:
            return [], replay.cursor
        bounds = {"cursor": replay.cursor, "newest": bound, "limit": limit, "look": max(MAX_ROWS_SCANNED, limit)}
        sql = self.db.sql[f"next_matching{by_filter(replay.which)}"]
        ids: list[int]
        ids, beyond = connection.execute(sql, filter_values(replay.which) | bounds, prepare=False).fetchall()[0]
        if len(ids) >= limit:
            return ids, max(ids)
        return ids, bound if beyond is None else beyond

    def _next_failed(self, connection: Connection, replay: Replay, cursor: int, limit: int) -> tuple[list[int], int]:
        """Return the next tasks that failed before the replay was resumed, and the new cursor. They come last."""
        if cursor >= replay.newest or limit <= 0:
            return [], cursor
        values = {"id": replay.id, "cursor": cursor, "newest": replay.newest, "limit": limit}
        ids = [row[0] for row in connection.execute(self.db.sql["failed_in_replay"], values).fetchall()]
        return ids, replay.newest if len(ids) < limit else max(ids)

    def _requeue(self, connection: Connection, ids: list[int], values: dict[str, Any]) -> tuple[int, list[int]]:
        """Queue tasks again; return how many, and the dead letters that stay because a live task has their key.

        A concurrent transaction may take a key until it commits. Then all are tried one by one, each with its own
        savepoint.
        """
        if not ids:
            return 0, []
        try:
            with connection.transaction():
                return self._requeue_all(connection, ids, values)
        except psycopg.errors.UniqueViolation:
            if len(ids) == 1:
                return 0, ids
        parts = [self._requeue(connection, [number], values) for number in ids]
        return sum(part[0] for part in parts), [number for part in parts for number in part[1]]

    def _requeue_all(self, connection: Connection, ids: list[int], values: dict[str, Any]) -> tuple[int, list[int]]:
        row = connection.execute(self.db.sql["replay_dead_letters"], values | {"ids": ids}, prepare=False).fetchall()[0]
        return row[0], row[1]

    def canaries(self, number: int) -> Canaries:
        """Return the outcome of the canaries of a replay."""
        live, done, dead, error = self.db.fetch("canaries", {"id": number})[0]
        return Canaries(live, done, dead, error or "")

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay, after a step that is in progress."""
        return self.db.change("end_replay", {"id": number, "state": str(state), "why": why, "epoch": epoch}) == 1

    def resume_replay(self, number: int) -> Replay | None:
        """Resume a replay from its first stage."""
        rows = self.db.fetch("resume_replay", {"id": number})
        return _read_replay(rows[0]) if rows else None


def _read_replay(row: Sequence[Any]) -> Replay:
    replay = Replay._make(in_utc(row))
    return replay._replace(
        which=read_filter(str(replay.which)), state=ReplayState(replay.state), conflict_ids=tuple(replay.conflict_ids)
    )


_OLDEST_SCAN = 100
"""Oldest dead letters that are searched for one of an open group, before all groups are searched."""
_ZERO_COUNTS = {str(status): 0 for status in Status} | {"dead_letters": 0}


class PostgresTriage(PostgresReplays):
    """Implements `TriageStore`."""

    db: PostgresDatabase

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task, in one statement."""
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
        """Change note, acknowledgement or snooze of a failure group."""
        values = {"fingerprint": fingerprint, "note": note, "acknowledged": acknowledged, "snooze": snooze, "who": who}
        with self.db.connection() as connection, connection.transaction():
            connection.execute(self.db.sql["mark_group"], values)
            rows = connection.execute(self.db.sql["failure_group"], {"fingerprint": fingerprint}).fetchall()
        return read_group(rows[0]) if rows else None

    def unannounced_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return groups that never had an alert. The statement is planned each time: there may be few or many."""
        values = {"limit": limit, "quiet": None if quiet is None else float(quiet)}
        return [read_group(row) for row in self.db.fetch("unannounced_groups", values, prepare=False)]

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Record a manual action."""
        values = {"who": who, "action": action, "subject": subject, "reason": reason}
        values["detail"] = json.dumps(detail or {})
        number: int = self.db.fetch("add_audit_entry", values)[0][0]
        return number

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return recorded manual actions, newest first."""
        values = {"subject": subject, "action": action, "before": before, "limit": limit}
        return [_read_audit_entry(row) for row in self.db.fetch("list_audit_entries", values, prepare=False)]

    def count_rows(self) -> dict[str, int]:
        """Count the rows. This reads all of them."""
        return _ZERO_COUNTS | dict(map(tuple, self.db.fetch("count_rows", prepare=False)))

    def counter_check(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts according to the counters and those of the rows, read by one statement."""
        ((counted, rows),) = self.db.fetch("counts_and_rows", prepare=False)
        return counted_statuses(counted), _ZERO_COUNTS | dict(rows)

    def oldest_dead_letter(self) -> float | None:
        """Return for how many seconds the oldest dead letter of an open group has waited."""
        seconds: float | None = self.db.fetch("oldest_dead_letter", {"look": _OLDEST_SCAN})[0][0]
        return seconds

    def record_observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Count decisions of a program in observe mode."""
        delta = observed_delta(rows)
        if delta.counts:
            with self.db.connection() as connection:
                count_failures(connection, self.db.sql, delta)


def _read_audit_entry(row: Sequence[Any]) -> AuditEntry:
    entry = AuditEntry._make(in_utc(row))
    return entry._replace(detail=json.loads(str(entry.detail)))
