"""Dead letters in PostgreSQL: lists, replays, payload edits, failure groups and the audit log."""

from collections.abc import Sequence
from typing import Any

from outlast.ports.read_rows import MAX_ROWS_SCANNED, FailureGroup
from outlast.ports.rows import DeadLetterFilter, Status
from outlast.ports.triage import AuditEntry, Canaries, Replay, ReplayStep
from outlast.stores.counters import raw_status_counts
from outlast.stores.filters import MAX_CONFLICT_IDS, by_filter, observed_delta
from outlast.stores.postgres.connection import PostgresCursor, PostgresDatabase, read_row
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.reads import filter_values, has_nul
from outlast.stores.postgres.settle_and_claim import count_failures
from outlast.stores.shared_methods import SharedDeadLetters

_BATCH = 500
_COUNT_SCAN = 10 * MAX_ROWS_SCANNED
"""Dead letters that one statement scans to count matches."""
_MAX_ID = 2**63 - 1
_ZERO_COUNTS = {str(status): 0 for status in Status} | {"dead_letters": 0}


class PostgresDeadLetters(SharedDeadLetters):
    """Implements `DeadLetters` and `TriageStore`.

    A step of a replay locks the row of the replay and checks the epoch of the claim.
    """

    db: PostgresDatabase

    def check_dead_letters(self) -> None:
        """Check that a dead letter can be written, and roll back."""
        with self.db.connection() as connection, connection.transaction(force_rollback=True):
            connection.execute(self.db.sql["check_dead_letter_insert"])

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again."""
        try:
            return "replayed" if self.db.fetch("replay_dead_letter", {"id": number}) else "gone"
        except psycopg.errors.UniqueViolation:
            return "conflict"

    def discard(self, number: int) -> str:
        """Delete a dead letter for good."""
        return "discarded" if self.db.value("discard_dead_letters", {"ids": [number]}) else "gone"

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard old dead letters."""
        values, pruned = {"seconds": float(older_than), "batch": _BATCH}, 0
        while True:
            with self.db.transaction() as cursor:
                rows = cursor.fetch("expired_dead_letters", values)
                cursor.fetch("discard_dead_letters", {"ids": [row[0] for row in rows]})
            pruned += len(rows)
            if len(rows) < _BATCH:
                return pruned

    def _fetch_matching(self, name: str, filters: DeadLetterFilter) -> list[Any]:
        values = filter_values(filters)
        return [] if has_nul(values) else self.db.fetch(name, values)

    def _count_matches(self, filters: DeadLetterFilter) -> tuple[int, int, int]:
        """Return how many dead letters match, the largest id, and an id below the smallest.

        Reads along an index, part by part.
        """
        total, oldest, newest = 0, 1, 0
        values = filter_values(filters)
        if has_nul(values):
            return 0, 0, 0
        before = _MAX_ID if filters.before is None else filters.before
        left = _MAX_ID if filters.limit is None else filters.limit
        while left > 0:
            bounds = {"before": before, "limit": left, "look": _COUNT_SCAN}
            (row,) = self.db.fetch(f"count_matching{by_filter(filters)}", values | bounds)
            count, least, largest, scanned, before = row
            if count:
                total, oldest, newest, left = total + count, least, max(newest, largest), left - count
            if scanned < _COUNT_SCAN:
                break
        return total, newest, oldest - 1

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters again. Locks the replay first, then its dead letters, then their tasks."""
        with self.db.transaction() as cursor:
            rows = cursor.fetch("lock_replay", {"id": number, "epoch": epoch})
            if not rows:
                return None
            replay, bound = read_row(Replay, rows[0][:-1]), rows[0][-1]
            ids, reached = _next_matching(cursor, replay, bound, limit)
            if reached >= bound:
                failed, reached = _next_failed(cursor, replay, reached, limit - len(ids))
                ids += failed
            replayed, conflicts = _requeue(cursor, ids, {"replay_id": number, "canary": canary})
            values = {"id": number, "cursor": reached, "stage": stage, "replayed": replayed}
            values |= {"conflicts": len(conflicts), "most": MAX_CONFLICT_IDS}
            cursor.change("save_replay_progress", {**values, "conflict_ids": conflicts})
        return ReplayStep(replayed, len(conflicts), more=reached < replay.newest)

    def canaries(self, number: int, most: int = 1) -> Canaries:
        """Return the outcome of the canaries of a replay, and its failures."""
        live, done, dead, error, failed = self.db.fetch("canaries", {"id": number, "most": most})[0]
        return Canaries(live, done, dead, error or "", failed)

    def resume_replay(self, number: int) -> Replay | None:
        """Resume a replay from its first stage."""
        return self.db.find(Replay, "resume_replay", {"id": number})

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task, in one statement."""
        values = {"id": number, "before": before, "after": after, "patch": patch, "who": who, "reason": reason}
        rows = self.db.fetch("edit_payload", values)
        return str(rows[0][0]) if rows else "gone"

    def unannounced_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return groups that never had an alert. The statement is planned each time: there may be few or many."""
        values = {"limit": limit, "quiet": None if quiet is None else float(quiet)}
        return self.db.select(FailureGroup, "unannounced_groups", values)

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return recorded manual actions, newest first."""
        values = {"subject": subject, "action": action, "before": before, "limit": limit}
        return self.db.select(AuditEntry, "list_audit_entries", values)

    def counter_check(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts according to the counters and those of the rows, read by one statement."""
        ((counted, rows),) = self.db.fetch("counts_and_rows")
        return raw_status_counts(counted), _ZERO_COUNTS | dict(rows)

    def record_observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Count decisions of a program in observe mode."""
        delta = observed_delta(rows)
        if delta.counts:
            count_failures(self.db, delta)


def _next_matching(cursor: PostgresCursor, replay: Replay, bound: int, limit: int) -> tuple[list[int], int]:
    """Return the next dead letters that matched when the replay started, and the last id that was scanned."""
    if replay.cursor >= bound or limit <= 0:
        return [], replay.cursor
    bounds = {"cursor": replay.cursor, "newest": bound, "limit": limit, "look": max(MAX_ROWS_SCANNED, limit)}
    name = f"next_matching{by_filter(replay.filters)}"
    ((ids, beyond),) = cursor.fetch(name, filter_values(replay.filters) | bounds)
    if len(ids) >= limit:
        return ids, max(ids)
    return ids, bound if beyond is None else beyond


def _next_failed(cursor: PostgresCursor, replay: Replay, after: int, limit: int) -> tuple[list[int], int]:
    """Return the next tasks that failed before the replay was resumed, and the last id. They come last."""
    if after >= replay.newest or limit <= 0:
        return [], after
    values = {"id": replay.id, "cursor": after, "newest": replay.newest, "limit": limit}
    ids = cursor.column("failed_in_replay", values)
    return ids, replay.newest if len(ids) < limit else max(ids)


def _requeue(cursor: PostgresCursor, ids: list[int], values: dict[str, Any]) -> tuple[int, list[int]]:
    """Queue tasks again; return how many, and the dead letters that stay because a live task has their key.

    A concurrent transaction may take a key until it commits. Then all are tried one by one, each with its own
    savepoint.
    """
    if not ids:
        return 0, []
    try:
        with cursor.connection.transaction():
            ((replayed, conflicts, *_),) = cursor.fetch("replay_dead_letters", values | {"ids": ids})
            return replayed, conflicts
    except psycopg.errors.UniqueViolation:
        if len(ids) == 1:
            return 0, ids
    parts = [_requeue(cursor, [number], values) for number in ids]
    return sum(part[0] for part in parts), [number for part in parts for number in part[1]]
