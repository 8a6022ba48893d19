"""Dead letters in SQLite: lists, replays, payload edits, failure groups and the audit log."""

import json
import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

from outlast.ports.read_rows import FailureGroup, FlowEvent
from outlast.ports.rows import DeadLetter, DeadLetterFilter, Group, Reason, Status
from outlast.ports.triage import AuditEntry, Canaries, NewReplay, PayloadEdit, Replay, ReplayState, ReplayStep
from outlast.sql_files import load_statements
from outlast.stores.counters import CounterDelta, counted_statuses, event_totals, status_counts, take_matching
from outlast.stores.filters import MAX_CONFLICT_IDS, observed_delta, read_filter, write_filter
from outlast.stores.sqlite.connection import SqliteDatabase, milliseconds, now_ms, to_datetime
from outlast.stores.sqlite.counters import write_delta
from outlast.stores.sqlite.reads import MAX_ID, DeadLetterScan, by_filter, read_group, scan_dead_letters, walk_values

SQL = load_statements(__package__)
_BATCH = 500


class _TrialRollbackError(Exception):
    """Rolls back the trial of `check_dead_letters`."""


class SqliteDeadLetters:
    """Implements `DeadLetters`."""

    db: SqliteDatabase

    def check_dead_letters(self) -> None:
        """Check that a dead letter can be written, and roll back."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["check_dead_letter_insert"], {"now": now_ms()})
            raise _TrialRollbackError

        try:
            self.db.write(work)
        except _TrialRollbackError:
            return

    def dead_letters(self, filters: DeadLetterFilter) -> list[DeadLetter]:
        """Return matching dead letters, newest first."""
        return [_read_dead_letter(row) for row in self._read("dead_letters", filters)]

    def count_dead_letters(self, filters: DeadLetterFilter) -> int:
        """Return the number of matching dead letters."""
        count: int = self._read("count_dead_letters", filters)[0][0]
        return count

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return a dead letter, or None."""
        row = self.db.read(lambda connection: connection.execute(SQL["dead_letter"], (number,)).fetchone())
        return None if row is None else _read_dead_letter(row)

    def groups(self, filters: DeadLetterFilter) -> list[Group]:
        """Return dead letters grouped by cause; the sample is the newest one."""
        return [_read_dead_letter_group(row) for row in self._read("group_dead_letters", filters)]

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again."""

        def work(connection: sqlite3.Connection) -> str:
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
        before, pruned = now_ms() - milliseconds(older_than), 0

        def work(connection: sqlite3.Connection) -> int:
            rows = connection.execute(SQL["expired_dead_letters"], (before, _BATCH))
            return _discard_dead_letters(connection, [row[0] for row in rows])

        while True:
            count = self.db.write(work)
            pruned += count
            if count < _BATCH:
                return pruned

    def _read(self, query: str, filters: DeadLetterFilter) -> list[Any]:
        values = filters._asdict()
        values["ids"] = None if filters.ids is None else json.dumps(filters.ids)
        for name in ("since", "until"):
            values[name] = None if values[name] is None else milliseconds(values[name].timestamp())
        return self.db.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _discard_dead_letters(connection: sqlite3.Connection, numbers: list[int]) -> int:
    values = {"ids": json.dumps(numbers), "now": now_ms()}
    connection.execute(SQL["discard_tasks"], values)
    return remove_dead_letters(connection, numbers, FlowEvent.DISCARDED)


def requeue(
    connection: sqlite3.Connection, number: int, now: int, replay_id: int | None = None, *, canary: bool = False
) -> str:
    """Queue the task of a dead letter, which the caller deletes; return ``replayed``, ``conflict`` or ``gone``."""
    values = {"id": number, "now": now, "replay_id": replay_id, "canary": int(canary)}
    try:
        return "replayed" if connection.execute(SQL["replay_dead_letter"], values).rowcount == 1 else "gone"
    except sqlite3.IntegrityError:
        return "conflict"


def remove_dead_letters(connection: sqlite3.Connection, numbers: list[int], event: FlowEvent) -> int:
    """Delete dead letters and count the event; return how many existed."""
    rows = connection.execute(SQL["delete_dead_letters"], {"ids": json.dumps(numbers)}).fetchall()
    delta = CounterDelta()
    for row in rows:
        delta.dead_letters(event, *row)
    write_delta(connection, delta, now_ms())
    return len(rows)


def _read_dead_letter(row: Sequence[Any]) -> DeadLetter:
    values = dict(zip(DeadLetter._fields, row, strict=True))
    values.update(reason=Reason(values["reason"]), failure=json.loads(values["failure"]))
    values.update({name: to_datetime(values[name]) for name in ("created_at", "moved_to_dlq_at")})
    return DeadLetter(**values)


def _read_dead_letter_group(row: Sequence[Any]) -> Group:
    values = dict(zip(Group._fields, row, strict=True))
    values.update(first_seen=to_datetime(values["first_seen"]), last_seen=to_datetime(values["last_seen"]))
    return Group(**values)


_COUNT_BATCH = 5000  # dead letters that are counted before other threads may read
_STEP_SCAN = 5000  # dead letters that one step scans


class SqliteReplays:
    """Implements the replays of `TriageStore`."""

    db: SqliteDatabase

    def add_replay(self, new: NewReplay) -> Replay:
        """Start a replay. The matching dead letters are counted first, without blocking writers."""
        total, newest, cursor = self._count_matches(new.which)
        values = new._asdict() | {"which": write_filter(new.which), "canary": int(new.canary), "now": now_ms()}
        values |= {"total": total, "newest": newest, "cursor": cursor}
        return _read_replay(self.db.write(lambda connection: connection.execute(SQL["add_replay"], values).fetchone()))

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

    def replay_run(self, number: int) -> Replay | None:
        """Return a replay, or None."""
        row = self.db.read(lambda connection: connection.execute(SQL["get_replay"], {"id": number}).fetchone())
        return None if row is None else _read_replay(row)

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first."""
        sql = SQL["list_running_replays" if running else "list_replays"]
        return [
            _read_replay(row) for row in self.db.read(lambda connection: connection.execute(sql, (limit,)).fetchall())
        ]

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Claim a running replay. If there is none, the file is not locked."""
        if self.db.read(lambda connection: _claimable_replay(connection, owner)) is None:
            return None

        def work(connection: sqlite3.Connection) -> Replay | None:
            number = _claimable_replay(connection, owner)
            if number is None:
                return None
            values = {"id": number, "owner": owner, "until": now_ms() + milliseconds(lease)}
            return _read_replay(connection.execute(SQL["claim_replay"], values).fetchone())

        return self.db.write(work)

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters of a replay again."""

        def work(connection: sqlite3.Connection) -> ReplayStep | None:
            row = connection.execute(SQL["get_replay"], {"id": number}).fetchone()
            replay = None if row is None else _read_replay(row)
            if replay is None or replay.epoch != epoch or replay.state is not ReplayState.RUNNING:
                return None
            numbers, cursor = _next_dead_letters(connection, replay, limit)
            return _requeue_step(connection, replay, numbers, {"cursor": cursor, "stage": stage}, canary=canary)

        return self.db.write(work)

    def canaries(self, number: int) -> Canaries:
        """Return the outcome of the canaries of a replay."""
        values = {"id": number}
        live, done, dead, ended = self.db.read(
            lambda connection: connection.execute(SQL["canaries"], values).fetchone()
        )
        task_id, error = json.loads(dead or ended or '[null, ""]')
        return Canaries(live, done, task_id, error)

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay."""
        values = {"id": number, "state": str(state), "why": why, "epoch": epoch, "now": now_ms()}
        return self.db.write(lambda connection: connection.execute(SQL["end_replay"], values).rowcount) == 1

    def resume_replay(self, number: int) -> Replay | None:
        """Resume a replay from its first stage."""
        values = {"id": number, "now": now_ms()}

        def work(connection: sqlite3.Connection) -> Replay | None:
            row = connection.execute(SQL["resume_replay"], values).fetchone()
            if row is None:
                return None
            connection.execute(SQL["clear_finished_canaries"], values)
            return _read_replay(row)

        return self.db.write(work)


def _claimable_replay(connection: sqlite3.Connection, owner: str) -> int | None:
    row = connection.execute(SQL["claimable_replay"], {"owner": owner, "now": now_ms()}).fetchone()
    return None if row is None else row[0]


def _count_all(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Count all dead letters by the counters."""
    newest = connection.execute(SQL["newest_dead_letter_id"]).fetchone()[0]
    (_, running), (_, parked), *totals = connection.execute(SQL["counts"]).fetchall()
    return status_counts(event_totals(totals), running, parked)["dead_letters"], newest or 0, 0


def _count_newest(connection: sqlite3.Connection, filters: DeadLetterFilter) -> tuple[int, int, int]:
    """Count the newest ones, as many as the filter wants."""
    numbers, _, _ = take_matching(scan_dead_letters(connection, filters).rows(connection), filters.limit or 0, MAX_ID)
    return (len(numbers), numbers[0], numbers[-1] - 1) if numbers else (0, 0, 0)


def _count_batch(
    connection: sqlite3.Connection, filters: DeadLetterFilter, after: int
) -> tuple[int, int, int, int, int]:
    sql, values = SQL[f"count_matching{by_filter(filters)}"], walk_values(connection, filters, after)
    found: tuple[int, int, int, int, int] = connection.execute(sql, values | {"batch": _COUNT_BATCH}).fetchone()
    return found


def _requeue_step(
    connection: sqlite3.Connection, replay: Replay, numbers: list[int], reached: dict[str, int], *, canary: bool
) -> ReplayStep:
    """Queue dead letters again and save the progress of the replay."""
    now = now_ms()
    outcomes = [(each, requeue(connection, each, now, replay.id, canary=canary)) for each in numbers]
    replayed = [each for each, outcome in outcomes if outcome == "replayed"]
    conflicts = [each for each, outcome in outcomes if outcome == "conflict"]
    remove_dead_letters(connection, replayed, FlowEvent.REPLAYED)
    values = reached | {"id": replay.id, "now": now, "replayed": len(replayed), "conflicts": len(conflicts)}
    kept = json.dumps([*replay.conflict_ids, *conflicts][:MAX_CONFLICT_IDS])
    connection.execute(SQL["save_replay_progress"], values | {"conflict_ids": kept})
    return ReplayStep(len(replayed), len(conflicts), more=reached["cursor"] < replay.newest)


def _next_dead_letters(connection: sqlite3.Connection, replay: Replay, limit: int) -> tuple[list[int], int]:
    """Return the next matching dead letters, and the last id that was scanned."""
    if limit < 1:
        return [], replay.cursor
    (bound,) = connection.execute(SQL["replay_bound"], (replay.id,)).fetchone()
    filters = replay.which._replace(before=bound + 1)
    own = {"replay_id": replay.id, "after": max(replay.cursor, bound), "newest": replay.newest}
    walk = chain(
        scan_dead_letters(connection, filters, after=replay.cursor).rows(connection),
        DeadLetterScan(SQL["failed_in_replay"], own).rows(connection),
    )
    numbers, last, _ = take_matching(walk, limit, _STEP_SCAN)
    return numbers, replay.newest if last is None else last


def _read_replay(row: Sequence[Any]) -> Replay:
    values = dict(zip(Replay._fields, row, strict=True))
    values.update(which=read_filter(values["which"]), canary=bool(values["canary"]), state=ReplayState(values["state"]))
    values.update(conflict_ids=tuple(json.loads(values["conflict_ids"])))
    values.update({name: to_datetime(values[name]) for name in ("created_at", "updated_at", "ended_at")})
    return Replay(**values)


class SqliteTriage:
    """Implements `TriageStore`, except replays."""

    db: SqliteDatabase

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
        return [PayloadEdit._make([*row[:-1], to_datetime(row[-1])]) for row in rows]

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
            return None if row is None else read_group(row)

        return self.db.write(work)

    def unannounced_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return groups that never had an alert. Groups that had one are marked, so that later calls skip them."""
        if self.db.read(lambda connection: connection.execute(SQL["has_announced_groups"]).fetchone()[0]):
            self.db.write(lambda connection: connection.execute(SQL["mark_announced_groups"]))
        now = now_ms()
        values = {"now": now, "limit": limit, "since": None if quiet is None else now - milliseconds(quiet)}
        rows = self.db.read(lambda connection: connection.execute(SQL["unannounced_groups"], values).fetchall())
        return [read_group(row) for row in rows]

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Record a manual action."""
        values = {"who": who, "action": action, "subject": subject, "reason": reason, "now": now_ms()}
        values["detail"] = json.dumps(detail or {}, ensure_ascii=False)
        return self.db.write(lambda connection: connection.execute(SQL["add_audit_entry"], values).lastrowid or 0)

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
        rows = self.db.read(lambda connection: connection.execute(SQL[name], values).fetchall())
        return [_read_audit_entry(row) for row in rows]

    def count_rows(self) -> dict[str, int]:
        """Count the tasks by status, and the dead letters."""
        return _name_counts(self.db.read(lambda connection: connection.execute(SQL["count_rows"]).fetchone()))

    def counter_check(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts according to the counters and those of the rows, read by one statement."""
        counted, *rows = self.db.read(lambda connection: connection.execute(SQL["counts_and_rows"]).fetchone())
        return counted_statuses(json.loads(counted)), _name_counts(rows)

    def oldest_dead_letter(self) -> float | None:
        """Return for how many seconds the oldest dead letter of an open group has waited."""
        now = now_ms()
        values = {"now": now}
        moved = self.db.read(lambda connection: connection.execute(SQL["oldest_dead_letter"], values).fetchone()[0])
        return None if moved is None else max(0.0, (now - moved) / 1000)

    def record_observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Count decisions of a program in observe mode."""
        delta = observed_delta(rows)
        self.db.write(lambda connection: write_delta(connection, delta, now_ms()))


def _name_counts(counts: Sequence[int]) -> dict[str, int]:
    return dict(zip([*map(str, Status), "dead_letters"], counts, strict=True))


def _read_audit_entry(row: Sequence[Any]) -> AuditEntry:
    values = dict(zip(AuditEntry._fields, row, strict=True))
    return AuditEntry(**values | {"at": to_datetime(values["at"]), "detail": json.loads(values["detail"])})
