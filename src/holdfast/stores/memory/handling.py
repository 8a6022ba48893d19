"""Failed attempts reported by their number, in memory."""

from holdfast import clock
from holdfast.ports.handling import Standing
from holdfast.ports.rows import Settlement, Status
from holdfast.stores.memory.book import Book
from holdfast.stores.memory.turning import settle
from holdfast.stores.reporter import REPORTER

__all__ = ["MemoryHandling"]


class MemoryHandling:
    """The duty `Handling`.

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

    def settle_attempt(self, settlement: Settlement, attempt: int, *, epoch: int | None = None) -> bool:
        """Take the task up, if its attempt is the current one, and settle it."""
        with self.book.lock:
            row, now = self.book.tasks.get(settlement.task_id), clock.now()
            if row is None or row.retry_count != attempt - 1 or row.status not in {Status.QUEUED, Status.RUNNING}:
                return False
            if epoch not in {None, row.lease_epoch}:
                return False
            if row.status is Status.QUEUED or row.started_at is None:
                row.attempt, row.started_at = row.attempt + 1, now
            if row.status is Status.QUEUED:
                row.status, row.worker_id = Status.RUNNING, REPORTER
                row.lease_epoch += 1
            return settle(self.book, settlement._replace(epoch=row.lease_epoch), now)
