"""Runs of batch jobs, their targets and their locks in SQLite."""

from collections.abc import Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from outlast.ports.job_rows import JobLock, Run, RunState, TargetDone
from outlast.ports.source_rows import NewAlert
from outlast.stores.rules import latest_results
from outlast.stores.shared_methods import SharedJobs
from outlast.stores.sqlite.alerts import raise_alerts
from outlast.stores.sqlite.connection import SQL, SqliteDatabase, bind, execute, milliseconds, ms_ago, now_ms
from outlast.stores.sqlite.file_locks import FileLock, lock_file, lock_holder

_BATCH = 2000


class SqliteJobs(SharedJobs):
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

    def end_run(
        self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any], alerts: Sequence[NewAlert] = ()
    ) -> None:
        """End a run, and raise alerts about it."""
        values = {"id": run_id, "state": state, "exit_code": exit_code, "summary": summary}
        values["total"] = summary.get("total_targets", 0)

        def work(connection: Connection) -> None:
            execute(connection, "end_run", bind(values))
            raise_alerts(connection, alerts)

        self.db.write(work)

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first."""
        name = "list_runs" if job is None else "list_job_runs"
        name += "" if before is None else "_before"
        return self.db.select(Run, name, {"job": job, "limit": limit, "before": before})

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Save results of targets, all in one transaction."""
        latest = latest_results(targets)

        def work(connection: Connection) -> int:
            now = now_ms()
            rows = [_target_values(run_id, each, now) for each in latest]
            added = connection.executemany(SQL["add_target"], rows).rowcount if rows else 0
            if added < len(rows):
                connection.executemany(SQL["upsert_target"], rows)
            return added

        return self.db.write(work)

    def prune_runs(self, older_than: float) -> int:
        """Delete old runs and their targets in batches. A run is deleted once it has no targets left."""
        before, pruned = ms_ago(older_than), 0
        for (run_id,) in self.db.fetch("expired_runs", {"before": before}):
            values = {"id": run_id, "before": before, "batch": _BATCH}
            while self.db.change("prune_targets", values) == _BATCH:
                pass
            pruned += self.db.change("prune_run", values)
        return pruned

    def _lock_folder(self) -> Path:
        path = self.db.path.resolve()  # a database has one folder, even if it is opened through a link
        return path.with_name(f"{path.name}-jobs")


def _target_values(run_id: str, target: TargetDone, now: int) -> tuple[Any, ...]:
    source_id, status, *rest, retry_in = target
    return run_id, source_id, status.value, *rest, None if retry_in is None else now + milliseconds(retry_in), now
