"""Tasks in PostgreSQL."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from outlast.ports.rows import Attempt, Enqueued, NewTask, Status, Task, TaskFilter, Turn, Turned
from outlast.stores.books import counts_of, totals_of
from outlast.stores.postgres.bell import Bell
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.enqueueing import add, callers
from outlast.stores.postgres.times import in_utc
from outlast.stores.postgres.turning import turn
from outlast.stores.triaging import GROUPS_KEPT

__all__ = ["PostgresTasks", "attempt_of"]

_BATCH = 1000


class PostgresTasks:
    """The duty `Tasks`."""

    db: Database
    bell: Bell

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks, in the caller's transaction if a connection is given."""
        if connection is not None:
            return add(callers(connection), self.db.sql, tasks)
        quiet = len(tasks) == 1 and not self.bell.is_first()
        with self.db.connection() as own:
            added = add(own, self.db.sql, tasks, quiet=quiet)
        if quiet:
            self.bell.owe()
        return added

    def turn(self, turn_: Turn) -> Turned:
        """Settle, start and claim for a worker."""
        with self.db.connection() as connection:
            turned, cooling = turn(connection, self.db.sql, turn_)
        if cooling:
            with suppress(psycopg.OperationalError):  # the turn counts; these are passed over until they are moved
                self.move_cooling()
        return turned

    def move_cooling(self) -> None:
        """Move tasks of cooling resources out of the claims' way."""
        while self.db.change("defer_cooling_tasks") > 0:
            pass

    def reconcile(self, worker_id: str, held: Sequence[int]) -> int:
        """Give back what a worker holds by the books but not in its hands."""
        return self.db.change("reconcile", {"worker_id": worker_id, "held": list(held)})

    def next_due(self, queues: Sequence[str]) -> float | None:
        """Return the seconds until a task can be claimed."""
        due = self._first_due(queues)
        return None if due is None else max(0.0, due)

    def oldest_ready(self, queues: Sequence[str]) -> float | None:
        """Return the seconds for which the oldest ready task waits."""
        due = self._first_due(queues)
        return None if due is None or due > 0 else -due

    def _first_due(self, queues: Sequence[str]) -> float | None:
        due: float | None = self.db.fetch("next_due", {"queues": list(queues)})[0][0]
        return due

    def suspects_due(self, queues: Sequence[str]) -> bool:
        """Tell whether a task waits that was running when a worker died, and a worker may run it alone now."""
        return bool(self.db.fetch("suspects_due", {"queues": list(queues)})[0][0])

    def get(self, task_id: int) -> Task | None:
        """Return a task."""
        rows = self.db.fetch("get_task", {"id": task_id})
        return _task(rows[0]) if rows else None

    def find(self, which: TaskFilter) -> list[Task]:
        """Return tasks, newest first."""
        values = which._asdict() | {"status": None if which.status is None else str(which.status)}
        return [_task(row) for row in self.db.fetch("find_tasks", values, prepare=False)]

    def attempts(self, task_id: int) -> list[Attempt]:
        """Return the failed attempts of a task."""
        return [attempt_of(row) for row in self.db.fetch("attempts", {"id": task_id})]

    def result(self, task_id: int) -> str | None:
        """Return a result that was kept."""
        rows = self.db.fetch("result", {"id": task_id})
        return str(rows[0][0]) if rows else None

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel tasks that wait or are parked."""
        return [row[0] for row in self.db.fetch("cancel", {"ids": list(task_ids)})]

    def hurry(self, task_ids: Sequence[int]) -> list[int]:
        """Make waiting tasks due now."""
        hurried = [row[0] for row in self.db.fetch("run_now", {"ids": list(task_ids)})]
        self.db.fetch("notify")
        return hurried

    def unpark(self, task_types: Sequence[str]) -> int:
        """Queue parked tasks of these names."""
        count = self._repeat("unpark", {"task_types": list(task_types), "batch": _BATCH})
        if count:
            self.db.fetch("notify")
        return count

    def counts(self) -> dict[str, int]:
        """Return how many tasks there are of each status, by the books."""
        found: dict[str, int] = dict(map(tuple, self.db.fetch("counts")))
        running, parked = found.pop("running"), found.pop("parked")
        return counts_of(totals_of(found.items()), running, parked)

    def prune(self, *, done_before: float) -> int:
        """Delete old successes and expired results, and forget old groups of failures."""
        pruned, after = 0, 0
        while True:
            values = {"seconds": float(done_before), "after": after, "batch": _BATCH}
            count: int
            count, last = self.db.fetch("prune_tasks", values, prepare=False)[0]
            pruned += count
            if count < _BATCH:
                break
            after = last
        self._repeat("prune_groups", {"seconds": GROUPS_KEPT, "batch": _BATCH})
        return pruned + self._repeat("prune_results", {"batch": _BATCH})

    def _repeat(self, query: str, values: dict[str, Any]) -> int:
        """Run a statement that changes at most a batch, until there is nothing left for it."""
        changed = 0
        while True:
            count = self.db.change(query, values)
            changed += count
            if count < _BATCH:
                return changed


def attempt_of(row: Sequence[Any]) -> Attempt:
    """Return a line of a task's history from its row."""
    attempt = Attempt._make(in_utc(row))
    return attempt._replace(failure=json.loads(row[-1]))


def _task(row: Sequence[Any]) -> Task:
    task = Task._make(in_utc(row))
    return task._replace(status=Status(task.status))
