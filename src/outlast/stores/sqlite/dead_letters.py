"""Dead letters in SQLite: lists, replays, payload edits, failure groups and the audit log."""

import json
import sqlite3
from collections.abc import Sequence
from itertools import chain
from sqlite3 import Connection
from typing import Any

from outlast.ports.read_rows import FailureGroup, FlowEvent
from outlast.ports.rows import DeadLetterFilter, Status
from outlast.ports.triage import AuditEntry, Canaries, Replay, ReplayState, ReplayStep
from outlast.stores.counters import CounterDelta, raw_status_counts, status_counts, take_matching
from outlast.stores.filters import MAX_CONFLICT_IDS, by_filter, observed_delta
from outlast.stores.shared_methods import SharedDeadLetters
from outlast.stores.sqlite.connection import SQL, SqliteDatabase, bind, execute, find, ms_ago, now_ms
from outlast.stores.sqlite.counters import write_delta
from outlast.stores.sqlite.reads import MAX_ID, DeadLetterScan, scan_dead_letters, walk_values

_BATCH = 500


class _TrialRollbackError(Exception):
    """Rolls back the trial of `check_dead_letters`."""


_COUNTED = (*map(str, Status), "dead_letters")
_COUNT_BATCH = 5000  # dead letters that are counted before other threads may read
_STEP_SCAN = 5000  # dead letters that one step scans


class SqliteDeadLetters(SharedDeadLetters):
    """Implements `DeadLetters` and `TriageStore`."""

    db: SqliteDatabase

    def check_dead_letters(self) -> None:
        """Check that a dead letter can be written, and roll back."""

        def work(connection: Connection) -> None:
            execute(connection, "check_dead_letter_insert", bind(None))
            raise _TrialRollbackError

        try:
            self.db.write(work)
        except _TrialRollbackError:
            return

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again."""

        def work(connection: Connection) -> str:
            outcome = requeue(connection, number, now_ms())
            if outcome == "replayed":
                remove_dead_letters(connection, [number], FlowEvent.REPLAYED)
            return outcome

        return self.db.write(work)

    def discard(self, number: int) -> str:
        """Delete a dead letter for good."""
        return "discarded" if self.db.write(lambda connection: _discard_dead_letters(connection, [number])) else "gone"

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard old dead letters."""
        before, pruned = ms_ago(older_than), 0

        def work(connection: Connection) -> int:
            rows = execute(connection, "expired_dead_letters", (before, _BATCH))
            return _discard_dead_letters(connection, [row[0] for row in rows])

        while True:
            count = self.db.write(work)
            pruned += count
            if count < _BATCH:
                return pruned

    def _fetch_matching(self, name: str, filters: DeadLetterFilter) -> list[Any]:
        return self.db.fetch(name, filters._asdict())

    def _count_matches(self, filters: DeadLetterFilter) -> tuple[int, int, int]:
        """Return how many dead letters match, the largest id, and an id below the smallest."""
        if filters == DeadLetterFilter():
            return self.db.read(_count_all)
        if filters.limit is not None:
            return self.db.read(lambda connection: _count_newest(connection, filters))
        total, newest, cursor, after = 0, 0, 0, 0
        while True:
            found = self.db.read(lambda connection: _count_batch(connection, filters, after))  # noqa: B023  # called now
            scanned, matches, first, last, end = found
            if matches:
                total, newest, cursor = total + matches, last, cursor if total else first - 1
            if scanned < _COUNT_BATCH:
                return total, newest, cursor
            after = end

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Claim a running replay. If there is none, the file is not locked."""
        return super().claim_replay(owner, lease) if self.db.fetch("claimable_replay", {"owner": owner}) else None

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters of a replay again."""

        def work(connection: Connection) -> ReplayStep | None:
            replay = find(connection, Replay, "get_replay", {"id": number})
            if replay is None or replay.epoch != epoch or replay.state is not ReplayState.RUNNING:
                return None
            numbers, cursor = _next_dead_letters(connection, replay, limit)
            return _requeue_step(connection, replay, numbers, {"cursor": cursor, "stage": stage}, canary=canary)

        return self.db.write(work)

    def canaries(self, number: int, most: int = 1) -> Canaries:
        """Return the outcome of the canaries of a replay, and its failures."""
        ((live, done, dead, ended, failed),) = self.db.fetch("canaries", {"id": number, "most": most})
        task_id, error = json.loads(dead or ended or '[null, ""]')
        return Canaries(live, done, task_id, error, failed)

    def resume_replay(self, number: int) -> Replay | None:
        """Resume a replay from its first stage."""
        values = {"id": number, "now": now_ms()}

        def work(connection: Connection) -> Replay | None:
            replay = find(connection, Replay, "resume_replay", values)
            if replay is not None:
                execute(connection, "clear_finished_canaries", values)
            return replay

        return self.db.write(work)

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task."""
        values = {"id": number, "before": before, "after": after, "patch": patch, "who": who, "reason": reason}

        def work(connection: Connection) -> str:
            row = execute(connection, "edit_dead_letter", values).fetchone()
            if row is None:
                return "changed" if execute(connection, "has_dead_letter", values).fetchone()[0] else "gone"
            now = now_ms()
            execute(connection, "edit_task", (after, now, row[0]))
            execute(connection, "add_payload_edit", values | {"task_id": row[0], "now": now})
            return "edited"

        return self.db.write(work)

    def unannounced_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return groups that never had an alert. Groups that had one are marked, so that later calls skip them."""
        if self.db.value("has_announced_groups"):
            self.db.change("mark_announced_groups")
        values = {"limit": limit, "since": None if quiet is None else ms_ago(quiet)}
        return self.db.select(FailureGroup, "unannounced_groups", values)

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return recorded manual actions, newest first."""
        name = "list_audit_entries"
        if subject is not None:
            name = "list_audit_entries_by_subject"
        elif action is not None:
            name = "list_audit_entries_by_action"
        values = {"subject": subject, "action": action, "before": MAX_ID if before is None else before, "limit": limit}
        return self.db.select(AuditEntry, name, values)

    def counter_check(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts according to the counters and those of the rows, read by one statement."""
        ((counted, *rows),) = self.db.fetch("counts_and_rows")
        return raw_status_counts(json.loads(counted)), dict(zip(_COUNTED, rows, strict=True))

    def record_observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Count decisions of a program in observe mode."""
        delta = observed_delta(rows)
        self.db.write(lambda connection: write_delta(connection, delta, now_ms()))


def _discard_dead_letters(connection: Connection, numbers: list[int]) -> int:
    execute(connection, "discard_tasks", bind({"ids": numbers}))
    return remove_dead_letters(connection, numbers, FlowEvent.DISCARDED)


def requeue(
    connection: Connection, number: int, now: int, replay_id: int | None = None, *, canary: bool = False
) -> str:
    """Queue the task of a dead letter, which the caller deletes; return ``replayed``, ``conflict`` or ``gone``."""
    values = {"id": number, "now": now, "replay_id": replay_id, "canary": canary}
    try:
        return "replayed" if execute(connection, "replay_dead_letter", values).rowcount == 1 else "gone"
    except sqlite3.IntegrityError:
        return "conflict"


def remove_dead_letters(connection: Connection, numbers: list[int], event: FlowEvent) -> int:
    """Delete dead letters and count the event; return how many existed."""
    rows = execute(connection, "delete_dead_letters", bind({"ids": numbers})).fetchall()
    delta = CounterDelta()
    for row in rows:
        delta.dead_letters(event, *row)
    write_delta(connection, delta, now_ms())
    return len(rows)


def _count_all(connection: Connection) -> tuple[int, int, int]:
    """Count all dead letters by the counters."""
    newest = execute(connection, "newest_dead_letter_id").fetchone()[0]
    return status_counts(execute(connection, "counts"))["dead_letters"], newest or 0, 0


def _count_newest(connection: Connection, filters: DeadLetterFilter) -> tuple[int, int, int]:
    """Count the newest ones, as many as the filter wants."""
    numbers, _, _ = take_matching(scan_dead_letters(connection, filters).rows(connection), filters.limit or 0, MAX_ID)
    return (len(numbers), numbers[0], numbers[-1] - 1) if numbers else (0, 0, 0)


def _count_batch(connection: Connection, filters: DeadLetterFilter, after: int) -> tuple[int, int, int, int, int]:
    values = walk_values(connection, filters, after) | {"batch": _COUNT_BATCH}
    found: tuple[int, int, int, int, int]
    found = execute(connection, f"count_matching{by_filter(filters)}", values).fetchone()
    return found


def _requeue_step(
    connection: Connection, replay: Replay, numbers: list[int], reached: dict[str, int], *, canary: bool
) -> ReplayStep:
    """Queue dead letters again and save the progress of the replay."""
    now = now_ms()
    outcomes = [(each, requeue(connection, each, now, replay.id, canary=canary)) for each in numbers]
    replayed = [each for each, outcome in outcomes if outcome == "replayed"]
    conflicts = [each for each, outcome in outcomes if outcome == "conflict"]
    remove_dead_letters(connection, replayed, FlowEvent.REPLAYED)
    values = reached | {"id": replay.id, "now": now, "replayed": len(replayed), "conflicts": len(conflicts)}
    kept = json.dumps([*replay.conflict_ids, *conflicts][:MAX_CONFLICT_IDS])
    execute(connection, "save_replay_progress", values | {"conflict_ids": kept})
    return ReplayStep(len(replayed), len(conflicts), more=reached["cursor"] < replay.newest)


def _next_dead_letters(connection: Connection, replay: Replay, limit: int) -> tuple[list[int], int]:
    """Return the next matching dead letters, and the last id that was scanned."""
    if limit < 1:
        return [], replay.cursor
    (bound,) = execute(connection, "replay_bound", (replay.id,)).fetchone()
    filters = replay.filters._replace(before=bound + 1)
    own = {"replay_id": replay.id, "after": max(replay.cursor, bound), "newest": replay.newest}
    walk = chain(
        scan_dead_letters(connection, filters, after=replay.cursor).rows(connection),
        DeadLetterScan(SQL["failed_in_replay"], own).rows(connection),
    )
    numbers, last, _ = take_matching(walk, limit, _STEP_SCAN)
    return numbers, replay.newest if last is None else last
