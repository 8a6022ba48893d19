"""Attempts of those who have no worker of ours, in memory."""

from collections.abc import Sequence

from holdfast import clock
from holdfast.errors import LeaseLostError
from holdfast.ports.handling import Standing
from holdfast.ports.rows import Settlement, Status
from holdfast.stores.memory.book import Book
from holdfast.stores.memory.turning import settle
from holdfast.stores.reporter import REPORTER

__all__ = ["MemoryHandling"]


class MemoryHandling:
    """The duty `Lending`.

    Args:
        book: The store's.
    """

    def __init__(self, book: Book) -> None:
        """Keep the book."""
        self.book = book

    def standing(self, task_id: int) -> Standing | None:
        """Return how a task stands."""
        with self.book.lock:
            row, now = self.book.tasks.get(task_id), clock.now()
            if row is None:
                return None
            expires_in = None if row.expires_at is None else row.expires_at - now
            deferred_for = 0.0 if row.deferred_at is None else now - row.deferred_at
            return Standing(
                row.task_type, row.status, row.retry_count, row.lease_epoch, expires_in, deferred_for, row.canary
            )

    def settle_attempt(
        self,
        settlement: Settlement,
        attempt: int,
        *,
        epoch: int | None = None,
        reporter: str | None = None,
        unbegun: bool = False,
    ) -> bool:
        """Take the task up, if its attempt is the current one, and settle it."""
        with self.book.lock:
            row, now = self.book.tasks.get(settlement.task_id), clock.now()
            if row is None or row.retry_count != attempt - 1 or row.status not in {Status.QUEUED, Status.RUNNING}:
                return False
            begun = row.status is Status.RUNNING and row.started_at is not None
            if epoch not in {None, row.lease_epoch} or (unbegun and begun):
                return False
            if not begun:
                row.attempt, row.started_at = row.attempt + 1, now
            if row.status is Status.QUEUED:
                row.status, row.worker_id = Status.RUNNING, reporter or REPORTER
                row.lease_epoch += 1
            return settle(self.book, settlement._replace(epoch=row.lease_epoch), now)

    def begin(self, task_id: int, attempt: int, worker_id: str) -> int | None:
        """Mark the start of an attempt, if it is the current one and has not begun."""
        with self.book.lock:
            if worker_id not in self.book.leases:
                raise LeaseLostError(worker_id)
            row, now = self.book.tasks.get(task_id), clock.now()
            if row is None or row.retry_count != attempt - 1:
                return None
            if row.status is not Status.QUEUED and (row.status is not Status.RUNNING or row.started_at is not None):
                return None
            row.status, row.worker_id, row.started_at, row.updated_at = Status.RUNNING, worker_id, now, now
            row.attempt, row.lease_epoch, row.alone = row.attempt + 1, row.lease_epoch + 1, row.suspect
            row.next_run_after = now  # should whoever runs it die, it is due at once
            return row.lease_epoch

    def lend(self, tasks: Sequence[tuple[int, int]], seconds: float) -> int:
        """Have tasks wait for their messages."""
        lent, now = 0, clock.now()
        with self.book.lock:
            for number, epoch in tasks:
                row = self.book.tasks.get(number)
                if row is not None and row.lease_epoch == epoch and row.status is Status.RUNNING:
                    row.uncount_start()
                    row.status, row.alone = Status.QUEUED, False
                    row.next_run_after, row.updated_at = now + seconds, now
                    lent += 1
        return lent

    def running(self, worker_id: str) -> list[tuple[int, int]]:
        """Return what a worker has in its hands."""
        with self.book.lock:
            return [
                (row.id, row.lease_epoch)
                for row in self.book.tasks.values()
                if row.status is Status.RUNNING and row.worker_id == worker_id
            ]

    def by_key(self, task_type: str, unique_key: str) -> int | None:
        """Return the latest task that has or had a key."""
        with self.book.lock:
            return max(
                (
                    row.id
                    for row in self.book.tasks.values()
                    if (row.task_type, row.unique_key) == (task_type, unique_key)
                ),
                default=None,
            )
