"""Tasks in memory."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast import clock
from holdfast.errors import ConfigError, LeaseLostError
from holdfast.ports.read_rows import FlowEvent
from holdfast.ports.rows import Attempt, Enqueued, NewTask, Status, Task, TaskFilter, Turn, Turned
from holdfast.stores.books import counts_of, totals_of
from holdfast.stores.memory.book import Book, Row
from holdfast.stores.memory.turning import turn
from holdfast.stores.triaging import GROUPS_KEPT

__all__ = ["MemoryTasks", "add", "counts", "give_back"]

_LAST_PRIORITY = 9
_PRUNED = {
    Status.DONE: FlowEvent.PRUNED_DONE,
    Status.CANCELLED: FlowEvent.PRUNED_CANCELLED,
    Status.DISCARDED: FlowEvent.PRUNED_DISCARDED,
}


class MemoryTasks:
    """The duty `Tasks`."""

    book: Book

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks."""
        if connection is not None:
            message = "a store in memory has no connections; leave `connection` out"
            raise ConfigError(message)
        with self.book.lock:
            return add(self.book, tasks, clock.now())

    def turn(self, turn_: Turn) -> Turned:
        """Settle, start and claim for a worker."""
        with self.book.lock:
            if turn_.worker_id not in self.book.leases:
                raise LeaseLostError(turn_.worker_id)
            return turn(self.book, turn_, clock.now())

    def reconcile(self, worker_id: str, held: Sequence[int]) -> int:
        """Give back what a worker holds by the books but not in its hands."""
        with self.book.lock:
            return give_back(self.book, worker_id, held)

    def next_due(self, queues: Sequence[str]) -> float | None:
        """Return the seconds until a task can be claimed."""
        with self.book.lock:
            due = [row.next_run_after for row in self._waiting(queues)]
            return max(0.0, min(due) - clock.now()) if due else None

    def oldest_ready(self, queues: Sequence[str]) -> float | None:
        """Return the seconds for which the oldest ready task waits."""
        with self.book.lock:
            due = min((row.next_run_after for row in self._waiting(queues)), default=None)
            return None if due is None or due > clock.now() else clock.now() - due

    def suspects_due(self, queues: Sequence[str]) -> bool:
        """Tell whether a task waits that was running when a worker died, and a worker may run it alone now."""
        with self.book.lock:
            now = clock.now()
            due = {row.suspect for row in self._waiting(queues) if row.next_run_after <= now}
            if True not in due or False not in due:
                return True in due
            leases, looked_at = self.book.leases.values(), set(queues)
            workers = {each.worker.id for each in leases if each.expires_at > now and looked_at & {*each.worker.queues}}
            rows = self.book.tasks.values()
            alone = sum(row.alone and row.status is Status.RUNNING and row.worker_id in workers for row in rows)
            return alone < max(1, len(workers) // 2)

    def _waiting(self, queues: Sequence[str]) -> list[Row]:
        looked_at = {queue for queue in queues if not self.book.queues.get(queue)}
        return [row for row in self.book.tasks.values() if row.status is Status.QUEUED and row.queue in looked_at]

    def get(self, task_id: int) -> Task | None:
        """Return a task."""
        with self.book.lock:
            row = self.book.tasks.get(task_id)
            return None if row is None else row.seen()

    def find(self, which: TaskFilter) -> list[Task]:
        """Return tasks, newest first."""
        with self.book.lock:
            found = [
                row.seen()
                for row in reversed(self.book.tasks.values())
                if which.status in {None, row.status}
                and which.queue in {None, row.queue}
                and which.task_type in {None, row.task_type}
                and (which.before is None or row.id < which.before)
            ]
        return found[: which.limit]

    def attempts(self, task_id: int) -> list[Attempt]:
        """Return the failed attempts of a task."""
        with self.book.lock:
            return list(self.book.attempts.get(task_id, ()))

    def result(self, task_id: int) -> str | None:
        """Return a result that was kept."""
        with self.book.lock:
            text, expires_at = self.book.results.get(task_id, (None, 0.0))
            return text if expires_at > clock.now() else None

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel tasks that wait or are parked."""
        with self.book.lock:
            now = clock.now()
            rows = self._those(task_ids, Status.QUEUED, Status.PARKED)
            for row in rows:
                row.status, row.finished_at, row.updated_at = Status.CANCELLED, now, now
            self.book.books.add(FlowEvent.CANCELLED, len(rows), now)
            return [row.id for row in rows]

    def hurry(self, task_ids: Sequence[int]) -> list[int]:
        """Make waiting tasks due now."""
        with self.book.lock:
            rows = self._those(task_ids, Status.QUEUED)
            for row in rows:
                row.updated_at = clock.now()
                row.next_run_after = min(row.next_run_after, row.updated_at)
            return [row.id for row in rows]

    def _those(self, task_ids: Sequence[int], *statuses: Status) -> list[Row]:
        wanted = set(task_ids)
        return [row for row in self.book.tasks.values() if row.id in wanted and row.status in statuses]

    def unpark(self, task_types: Sequence[str]) -> int:
        """Queue parked tasks of these names."""
        with self.book.lock:
            rows = [
                row for row in self.book.tasks.values() if row.status is Status.PARKED and row.task_type in task_types
            ]
            for row in rows:
                row.status, row.updated_at = Status.QUEUED, clock.now()
            return len(rows)

    def counts(self) -> dict[str, int]:
        """Return how many tasks there are of each status."""
        with self.book.lock:
            return counts(self.book)

    def prune(self, *, done_before: float) -> int:
        """Delete old successes and expired results."""
        with self.book.lock:
            now, book = clock.now(), self.book
            old = [
                row.id
                for row in book.tasks.values()
                if row.status in {Status.DONE, Status.CANCELLED, Status.DISCARDED}
                and (row.finished_at or now) < now - done_before
            ]
            for task_id in old:
                ended = book.tasks.pop(task_id)
                book.books.add(_PRUNED[ended.status], 1, now)
                book.attempts.pop(task_id, None)
            book.edits = [each for each in book.edits if each.task_id in book.tasks]
            expired = [task_id for task_id, (_, expires_at) in book.results.items() if expires_at <= now]
            for task_id in expired:
                del book.results[task_id]
            _prune_groups(book, now)
            return len(old) + len(expired)


def _prune_groups(book: Book, now: float) -> None:
    """Drop groups of long ago that nothing is left of."""
    dead = {letter.fingerprint for letter in book.letters.values()}
    for fingerprint, group in list(book.books.groups.items()):
        if fingerprint not in dead and not group.note and group.last_seen < now - GROUPS_KEPT:
            book.books.forget_group(fingerprint)
            for key in (f"group:{fingerprint}", f"growth:{fingerprint}"):
                gone = [
                    number for number, row in book.alerts.items() if row.alert.key == key and row.alert.delivered_at
                ]
                for number in gone:
                    del book.alerts[number]
                if all(row.alert.key != key for row in book.alerts.values()):
                    book.told.pop(key, None)


def add(book: Book, tasks: Sequence[NewTask], now: float) -> list[Enqueued]:
    """Add all tasks or none."""
    for task in tasks:
        if not 0 <= task.priority <= _LAST_PRIORITY:
            message = f"priority is {task.priority}; it goes from 0 (first) to {_LAST_PRIORITY}"
            raise ConfigError(message)
    return [_add_one(book, task, now) for task in tasks]


def _add_one(book: Book, task: NewTask, now: float) -> Enqueued:
    live = book.live_by_key(task.task_type, task.unique_key)
    if live is not None:
        return Enqueued(live.id, created=False)
    due = now + task.delay if task.run_at is None else task.run_at
    row = Row(
        id=next(book.task_ids),
        task_type=task.task_type,
        queue=task.queue,
        priority=task.priority,
        parameters=task.parameters,
        resource=task.resource,
        unique_key=task.unique_key,
        next_run_after=due if due > now else max(due, book.cool_until(task.resource)),
        expires_at=None if task.expires is None else now + task.expires,
        created_at=now,
        updated_at=now,
    )
    book.tasks[row.id], book.newest_task = row, row.id
    book.books.add(FlowEvent.ENQUEUED, 1, now)
    return Enqueued(row.id, created=True)


def counts(book: Book) -> dict[str, int]:
    """Return how many tasks there are of each status, by the books."""
    statuses = Counter(row.status for row in book.tasks.values())
    totals = totals_of((key.event, number) for key, number in book.books.ever.items())
    return counts_of(totals, statuses[Status.RUNNING], statuses[Status.PARKED])


def give_back(book: Book, worker_id: str, held: Sequence[int]) -> int:
    """Queue what a worker holds by the books, other than these, as if it had never been claimed."""
    rows = [
        row
        for row in book.tasks.values()
        if row.status is Status.RUNNING and row.worker_id == worker_id and row.id not in held
    ]
    for row in rows:
        row.uncount_start()
        row.status, row.alone, row.updated_at = Status.QUEUED, False, clock.now()
        row.lease_epoch += 1
    return len(rows)
