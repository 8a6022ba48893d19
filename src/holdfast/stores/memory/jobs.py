"""Runs of batch jobs in memory."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from holdfast import clock
from holdfast.ports.job_rows import Run, RunState, TargetDone, TargetRow, TargetStatus
from holdfast.ports.jobs import JobLock
from holdfast.stores.last_words import replaces
from holdfast.stores.memory.book import Book, moment
from holdfast.stores.run_taken import run_taken

__all__ = ["MemoryJobs"]

_DONE = frozenset({TargetStatus.SUCCESS, TargetStatus.SKIPPED})
_LEFT = frozenset({TargetStatus.FAILED, TargetStatus.DEFERRED})


class MemoryJobs:
    """The duty `Jobs`."""

    book: Book

    def lock_job(self, job: str, holder: str) -> JobLock | None:
        """Keep a job to oneself, among the threads of this process."""
        with self.book.lock:
            if job in self.book.job_locks:
                return None
            lock = _Lock(self.book, job)
            self.book.job_locks[job] = (holder, lock)
            return lock

    def job_holder(self, job: str) -> str | None:
        """Return who holds a job's lock."""
        with self.book.lock:
            return self.book.job_locks.get(job, (None,))[0]

    def add_run(self, run_id: str, job: str, entity: str | None, env: str, parent: str | None) -> Run:
        """Begin a run."""
        with self.book.lock:
            if run_id in self.book.runs:
                raise run_taken(run_id)
            now = moment(clock.now())
            run = Run(run_id, job, entity, env, parent, RunState.RUNNING, 0, None, None, now, None)
            self.book.runs[run_id] = run
            self.book.targets[run_id] = {}
            return run

    def reopen_run(self, run_id: str) -> Run | None:
        """Have a run go on."""
        with self.book.lock:
            run = self.book.runs.get(run_id)
            if run is None:
                return None
            run = run._replace(state=RunState.RUNNING, total=0, exit_code=None, summary=None, ended_at=None)
            self.book.runs[run_id] = run
            return run

    def end_run(self, run_id: str, state: RunState, exit_code: int, summary: dict[str, Any]) -> None:
        """End a run."""
        kept = json.loads(json.dumps(summary))
        with self.book.lock:
            run = self.book.runs.get(run_id)
            if run is not None:
                ended = run._replace(state=state, total=kept.get("total_targets", 0), exit_code=exit_code, summary=kept)
                self.book.runs[run_id] = ended._replace(ended_at=moment(clock.now()))

    def run(self, run_id: str) -> Run | None:
        """Return one."""
        with self.book.lock:
            return self.book.runs.get(run_id)

    def runs(self, job: str | None = None, limit: int = 20, before: str | None = None) -> list[Run]:
        """Return runs, newest first."""
        with self.book.lock:
            found = [run for run in self.book.runs.values() if job in {None, run.job}]
            if before is not None:
                last = self.book.runs.get(before)
                found = [run for run in found if last is not None and _place(run) < _place(last)]
            return sorted(found, key=_place, reverse=True)[:limit]

    def add_targets(self, run_id: str, targets: Sequence[TargetDone]) -> int:
        """Write what became of targets."""
        with self.book.lock:
            now, known = clock.now(), self.book.targets.setdefault(run_id, {})
            before = len(known)
            for each in targets:
                old = known.get(each.source_id)
                if old is None or replaces(each.status, old.status):
                    retry_at = None if each.retry_in is None else moment(now + each.retry_in)
                    known[each.source_id] = TargetRow(run_id, *each[:-1], retry_at, moment(now))
            return len(known) - before

    def done_targets(self, run_id: str, source_ids: Sequence[str]) -> set[str]:
        """Return which of these targets need no more."""
        with self.book.lock:
            known = self.book.targets.get(run_id, {})
            return {each for each in source_ids if each in known and known[each].status in _DONE}

    def targets(
        self,
        run_id: str,
        *,
        statuses: Sequence[TargetStatus] = (),
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TargetRow]:
        """Return targets of a run by their ids."""
        with self.book.lock:
            meant = (
                row
                for row in self._targets(run_id)
                if (not statuses or row.status in statuses) and (after is None or row.source_id > after)
            )
            return list(islice(meant, limit))

    def target_counts(self, run_id: str) -> dict[TargetStatus, int]:
        """Return how many there are of each status."""
        with self.book.lock:
            return dict.fromkeys(TargetStatus, 0) | Counter(row.status for row in self._targets(run_id))

    def failure_groups(self, run_id: str, limit: int = 5) -> list[tuple[str, int, TargetRow]]:
        """Return the largest groups of failures."""
        with self.book.lock:
            groups: dict[str, list[TargetRow]] = {}
            for row in self._targets(run_id):
                if row.status is TargetStatus.FAILED:
                    groups.setdefault(row.fingerprint or "", []).append(row)
            ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
            return [(cause, len(rows), rows[0]) for cause, rows in ordered[:limit]]

    def compare_runs(self, before: str, after: str) -> dict[str, int]:
        """Return how two runs differ."""
        with self.book.lock:
            first, later = self.book.targets.get(before, {}), self.book.targets.get(after, {})
            pairs = [(first[each].status, later[each].status) for each in first.keys() & later.keys()]
        return {
            "fixed": _count(was in _LEFT and became is TargetStatus.SUCCESS for was, became in pairs),
            "broken": _count(was is TargetStatus.SUCCESS and became in _LEFT for was, became in pairs),
            "still": _count(was in _LEFT and became in _LEFT for was, became in pairs),
        }

    def prune_runs(self, older_than: float) -> int:
        """Delete runs that ended long ago."""
        with self.book.lock:
            before = moment(clock.now()) - timedelta(seconds=older_than)
            old = [run.id for run in self.book.runs.values() if run.ended_at is not None and run.ended_at < before]
            for run_id in old:
                del self.book.runs[run_id]
                self.book.targets.pop(run_id, None)
            return len(old)

    def _targets(self, run_id: str) -> list[TargetRow]:
        known = self.book.targets.get(run_id, {})
        return [known[source_id] for source_id in sorted(known)]


class _Lock:
    """A job that is in somebody's hands."""

    def __init__(self, book: Book, job: str) -> None:
        self._book, self._job = book, job

    def held(self) -> bool:
        """Tell whether it is still ours."""
        with self._book.lock:
            return self._job in self._book.job_locks and self._book.job_locks[self._job][1] is self

    def release(self) -> None:
        """Let others run it."""
        with self._book.lock:
            if self.held():
                del self._book.job_locks[self._job]


def _place(run: Run) -> tuple[datetime, str]:
    """Return what runs are sorted by."""
    return run.started_at, run.id


def _count(cases: Iterable[bool]) -> int:
    return sum(cases)
