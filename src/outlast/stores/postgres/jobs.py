"""Runs of batch jobs in PostgreSQL."""

import json
from collections.abc import Sequence
from typing import Any

from outlast.ports.job_rows import Run, RunState, TargetDone, TargetRow, TargetStatus
from outlast.ports.jobs import JobLock
from outlast.stores.last_words import last_words
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.job_locks import SessionLock, lock_session
from outlast.stores.postgres.times import in_utc
from outlast.stores.run_taken import run_taken

__all__ = ["PostgresJobs"]

_LEFT = frozenset({TargetStatus.FAILED, TargetStatus.DEFERRED})
_BATCH = 2000
_dumps = json.JSONEncoder(separators=(",", ":")).encode


class PostgresJobs:
    """The duty `Jobs`. A lock is a session of its own, see `SessionLock`."""

    db: Database
    job_locks: list[SessionLock]

    def lock_job(self, job: str, holder: str) -> JobLock | None:
        """Keep a job to oneself; who has it is the name of the session, of which the server keeps 63 bytes."""
        lock = lock_session(self.db, self._key(job), holder)
        if lock is not None:
            self.job_locks = [*(each for each in self.job_locks if each.is_open), lock]
        return lock

    def job_holder(self, job: str) -> str | None:
        """Return who holds a job's lock."""
        rows = self.db.fetch("job_lock_holder", {"key": self._key(job)})
        return str(rows[0][0] or "") if rows else None

    def add_run(self, run_id: str, job: str, entity: str | None, env: str, parent: str | None) -> Run:
        """Begin a run."""
        values = {"id": run_id, "job": job, "entity": entity, "env": env, "parent": parent}
        rows = self.db.fetch("add_run", values)
        if not rows:
            raise run_taken(run_id)
        return _run(rows[0])

    def reopen_run(self, run_id: str) -> Run | None:
        """Have a run go on."""
        rows = self.db.fetch("reopen_run", {"id": run_id})
        return _run(rows[0]) if rows else None

    def end_run(self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any]) -> None:
        """End a run."""
        values = {"id": run_id, "state": str(state), "exit_code": exit_code, "summary": _dumps(summary)}
        self.db.change("end_run", values | {"total": summary.get("total_targets", 0)})

    def run(self, run_id: str) -> Run | None:
        """Return one."""
        rows = self.db.fetch("get_run", {"id": run_id})
        return _run(rows[0]) if rows else None

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first; planned each time, for what is not given makes another query of it."""
        values = {"job": job, "limit": limit, "before": before}
        return [_run(row) for row in self.db.fetch("list_runs", values, prepare=False)]

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Write what became of targets, by one statement."""
        given = _dumps([_record(each) for each in last_words(targets)])
        added: int = self.db.fetch("add_targets", {"run_id": run_id, "targets": given})[0][0]
        return added

    def done_targets(self, run_id: str, source_ids: Sequence[str]) -> set[str]:
        """Return which of these targets need no more."""
        return {row[0] for row in self.db.fetch("done_targets", {"run_id": run_id, "ids": list(source_ids)})}

    def targets(
        self,
        run_id: str,
        *,
        statuses: Sequence[TargetStatus] = (),
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TargetRow]:
        """Return targets of a run by their ids."""
        wanted = statuses or tuple(TargetStatus)
        which = "list_unfinished_targets" if _LEFT.issuperset(wanted) else "list_targets"
        values = {"run_id": run_id, "statuses": [str(each) for each in wanted], "after": after, "limit": limit}
        return [_target(row) for row in self.db.fetch(which, values, prepare=False)]

    def target_counts(self, run_id: str) -> dict[TargetStatus, int]:
        """Return how many there are of each status."""
        rows = self.db.fetch("count_targets", {"run_id": run_id})
        return dict.fromkeys(TargetStatus, 0) | {TargetStatus(status): count for status, count in rows}

    def failure_groups(self, run_id: str, limit: int = 5) -> list[tuple[str, int, TargetRow]]:
        """Return the largest groups of failures."""
        rows = self.db.fetch("group_failed_targets", {"run_id": run_id, "limit": limit}, prepare=False)
        return [(cause, size, _target(row)) for cause, size, *row in rows]

    def compare_runs(self, before: str, after: str) -> dict[str, int]:
        """Return how two runs differ."""
        ((fixed, broken, still),) = self.db.fetch("compare_runs", {"before": before, "after": after}, prepare=False)
        return {"fixed": fixed, "broken": broken, "still": still}

    def prune_runs(self, older_than: float) -> int:
        """Delete runs that ended long ago, in batches of their targets; a run goes when none of them is left."""
        values: dict[str, Any] = {"seconds": float(older_than), "batch": _BATCH}
        pruned = 0
        for (run_id,) in self.db.fetch("expired_runs", values, prepare=False):
            count, last = _BATCH, None
            while count == _BATCH:
                count, last = self.db.fetch("prune_targets", values | {"id": run_id, "after": last})[0]
            pruned += self.db.change("prune_run", values | {"id": run_id})
        return pruned

    def _key(self, job: str) -> int:
        key: int = self.db.fetch("job_lock_key", {"job": job})[0][0]
        return key


def _record(target: TargetDone) -> dict[str, Any]:
    """Return what a target has; most of a success is not there, and need not travel."""
    return {name: value for name, value in zip(TargetDone._fields, target, strict=True) if value is not None}


def _run(row: Sequence[Any]) -> Run:
    run = Run._make(in_utc(row))
    summary: Any = run.summary
    return run._replace(state=RunState(run.state), summary=None if summary is None else json.loads(summary))


def _target(row: Sequence[Any]) -> TargetRow:
    target = TargetRow._make(in_utc(row))
    return target._replace(status=TargetStatus(target.status))
