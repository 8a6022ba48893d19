"""Runs of batch jobs, their targets and their locks in SQLite."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from outlast.ports.job_rows import JobLock, Run, RunState, TargetDone, TargetRow, TargetStatus
from outlast.sql_files import load_statements
from outlast.stores.rules import latest_results, run_exists_error
from outlast.stores.sqlite.connection import SqliteDatabase, milliseconds, now_ms, to_datetime
from outlast.stores.sqlite.file_locks import FileLock, lock_file, lock_holder

SQL = load_statements(__package__)
_REMAINING_STATUSES = frozenset({TargetStatus.FAILED, TargetStatus.DEFERRED})
_BATCH = 2000
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class SqliteJobs:
    """Implements `Jobs`. The locks are files next to the database, see `FileLock`."""

    db: SqliteDatabase
    job_locks: list[FileLock]

    def lock_job(self, job: str, holder: str) -> JobLock | None:
        """Lock a job; return None if somebody else holds the lock."""
        lock = lock_file(self._lock_folder(), job, holder)
        if lock is not None:
            self.job_locks = [*(each for each in self.job_locks if each.is_open), lock]
        return lock

    def job_holder(self, job: str) -> str | None:
        """Return who holds the lock of a job."""
        return lock_holder(self._lock_folder(), job)

    def add_run(self, run_id: str, job: str, entity: str | None, env: str, parent: str | None) -> Run:
        """Start a run."""
        values = {"id": run_id, "job": job, "entity": entity, "env": env, "parent": parent}

        def work(connection: sqlite3.Connection) -> Run | None:
            added = connection.execute(SQL["add_run"], {**values, "now": now_ms()}).rowcount
            return _fetch_run(connection, run_id) if added else None

        run = self.db.write(work)
        if run is None:
            raise run_exists_error(run_id)
        return run

    def reopen_run(self, run_id: str) -> Run | None:
        """Continue a run."""

        def work(connection: sqlite3.Connection) -> Run | None:
            connection.execute(SQL["reopen_run"], {"id": run_id})
            return _fetch_run(connection, run_id)

        return self.db.write(work)

    def end_run(self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any]) -> None:
        """End a run."""
        values = {"id": run_id, "state": str(state), "exit_code": exit_code, "summary": _dumps(summary)}
        values["total"] = summary.get("total_targets", 0)
        self.db.write(lambda connection: connection.execute(SQL["end_run"], {**values, "now": now_ms()}))

    def run(self, run_id: str) -> Run | None:
        """Return a run, or None."""
        return self.db.read(lambda connection: _fetch_run(connection, run_id))

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first."""
        name = "list_runs" if job is None else "list_job_runs"
        sql = SQL[name if before is None else f"{name}_before"]
        return [_read_run(row) for row in _fetch_rows(self.db, sql, {"job": job, "limit": limit, "before": before})]

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Save results of targets, all in one transaction."""
        latest = latest_results(targets)

        def work(connection: sqlite3.Connection) -> int:
            now = now_ms()
            rows = [_target_values(run_id, each, now) for each in latest]
            added = connection.executemany(SQL["add_target"], rows).rowcount if rows else 0
            if added < len(rows):
                connection.executemany(SQL["upsert_target"], rows)
            return added

        return self.db.write(work)

    def done_targets(self, run_id: str, source_ids: Sequence[str]) -> set[str]:
        """Return which of these targets are finished."""
        return {
            row[0]
            for row in _fetch_rows(self.db, SQL["done_targets"], {"run_id": run_id, "ids": _dumps(list(source_ids))})
        }

    def targets(
        self,
        run_id: str,
        *,
        statuses: Sequence[TargetStatus] = (),
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TargetRow]:
        """Return targets of a run, ordered by id."""
        name = "list_unfinished_targets" if _REMAINING_STATUSES.issuperset(statuses) else "list_targets_by_status"
        most = -1 if limit is None else limit
        values = {"run_id": run_id, "statuses": _dumps(list(statuses)), "after": after, "limit": most}
        return [_read_target(row) for row in _fetch_rows(self.db, SQL[name if statuses else "list_targets"], values)]

    def target_counts(self, run_id: str) -> dict[TargetStatus, int]:
        """Return the number of targets by status."""
        rows = _fetch_rows(self.db, SQL["count_targets"], {"run_id": run_id})
        return dict.fromkeys(TargetStatus, 0) | {TargetStatus(status): count for status, count in rows}

    def failure_groups(self, run_id: str, limit: int = 5) -> list[tuple[str, int, TargetRow]]:
        """Return the largest groups of failures of a run."""
        rows = _fetch_rows(self.db, SQL["group_failed_targets"], {"run_id": run_id, "limit": limit})
        return [(cause, size, _read_target(row)) for cause, size, *row in rows]

    def compare_runs(self, before: str, after: str) -> dict[str, int]:
        """Compare two runs."""
        ((fixed, broken, still),) = _fetch_rows(self.db, SQL["compare_runs"], {"before": before, "after": after})
        return {"fixed": fixed, "broken": broken, "still": still}

    def prune_runs(self, older_than: float) -> int:
        """Delete old runs and their targets in batches. A run is deleted once it has no targets left."""
        before, pruned = now_ms() - milliseconds(older_than), 0
        for (run_id,) in _fetch_rows(self.db, SQL["expired_runs"], {"before": before}):
            values = {"id": run_id, "before": before, "batch": _BATCH}
            while _execute(self.db, "prune_targets", values) == _BATCH:
                pass
            pruned += _execute(self.db, "prune_run", values)
        return pruned

    def _lock_folder(self) -> Path:
        path = self.db.path.resolve()  # a database has one folder, even if it is opened through a link
        return path.with_name(f"{path.name}-jobs")


def _execute(db: SqliteDatabase, query: str, values: Mapping[str, Any]) -> int:
    return db.write(lambda connection: connection.execute(SQL[query], values).rowcount)


def _fetch_rows(db: SqliteDatabase, sql: str, values: Mapping[str, Any]) -> list[Any]:
    return db.read(lambda connection: connection.execute(sql, values).fetchall())


def _target_values(run_id: str, target: TargetDone, now: int) -> tuple[Any, ...]:
    source_id, status, *rest, retry_in = target
    return run_id, source_id, status.value, *rest, None if retry_in is None else now + milliseconds(retry_in), now


def _fetch_run(connection: sqlite3.Connection, run_id: str) -> Run | None:
    row = connection.execute(SQL["get_run"], (run_id,)).fetchone()
    return None if row is None else _read_run(row)


def _read_run(row: Sequence[Any]) -> Run:
    run = Run._make(row)
    summary = None if run.summary is None else json.loads(cast(str, run.summary))
    started, ended = (to_datetime(cast(int | None, each)) for each in (run.started_at, run.ended_at))
    return run._replace(state=RunState(run.state), summary=summary, started_at=cast(Any, started), ended_at=ended)


def _read_target(row: Sequence[Any]) -> TargetRow:
    *rest, retry_at, finished_at = row
    target = TargetRow._make([*rest, to_datetime(retry_at), to_datetime(finished_at)])
    return target._replace(status=TargetStatus(target.status))
