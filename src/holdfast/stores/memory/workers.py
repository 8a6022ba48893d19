"""Workers in memory, and what becomes of what a dead one held."""

from holdfast import clock
from holdfast.errors import LeaseLostError
from holdfast.ports.read_rows import FlowEvent
from holdfast.ports.rows import Reason, Rescued, Status, Worker
from holdfast.stores.books import Tally
from holdfast.stores.memory.book import Book, Lease, Row, moment
from holdfast.stores.memory.tasks import give_back
from holdfast.stores.worker_lost import worker_lost

__all__ = ["MemoryWorkers"]


class MemoryWorkers:
    """The duty `Workers`."""

    book: Book

    def register(self, worker: Worker, lease: float) -> None:
        """Add a worker, alive for so many seconds."""
        with self.book.lock:
            now = clock.now()
            known = worker._replace(started_at=moment(now), heartbeat_at=moment(now))
            self.book.leases[worker.id] = Lease(known, now + lease)

    def heartbeat(self, worker_id: str, lease: float, state: str) -> None:
        """Renew a worker's lease."""
        with self.book.lock:
            found = self.book.leases.get(worker_id)
            if found is None:
                raise LeaseLostError(worker_id)
            now = clock.now()
            found.worker = found.worker._replace(heartbeat_at=moment(now), state=state)
            found.expires_at = now + lease

    def leave(self, worker_id: str) -> int:
        """Remove a worker and give back what it holds."""
        with self.book.lock:
            self.book.leases.pop(worker_id, None)
            return give_back(self.book, worker_id, ())

    def rescue(self, crash_limit: int) -> list[Rescued]:
        """Take tasks from workers whose lease ran out, and from those that nobody knows."""
        with self.book.lock:
            now, book = clock.now(), self.book
            book.leases = {name: lease for name, lease in book.leases.items() if lease.expires_at > now}
            orphans = [
                row for row in book.tasks.values() if row.status is Status.RUNNING and row.worker_id not in book.leases
            ]
            return [Rescued(row.id, row.worker_id or "", _rescue(book, row, crash_limit, now)) for row in orphans]

    def workers(self) -> list[Worker]:
        """Return the known workers."""
        with self.book.lock:
            now = clock.now()
            held = [row.worker_id for row in self.book.tasks.values() if row.status is Status.RUNNING]
            known = [
                lease.worker._replace(tasks=held.count(name), alive=lease.expires_at > now)
                for name, lease in self.book.leases.items()
            ]
        return sorted(known, key=lambda worker: (worker.started_at, worker.id))


def _rescue(book: Book, row: Row, crash_limit: int, now: float) -> str:
    """Give back one task of a dead worker; return what became of it."""
    row.lease_epoch += 1  # a worker that only seemed dead is refused
    row.updated_at = now
    row.status = Status.QUEUED
    if row.started_at is None:
        row.alone = False
        return "unspent"
    note = worker_lost()
    book.note_attempt(row, "lost", note, now)
    counted = row.suspect and row.alone
    row.crash_count += counted
    row.last_error, row.alone = note.error_message, False
    row.suspect = row.crash_count < crash_limit and not (counted and row.canary)  # a canary gets one attempt
    tally = Tally()
    tally.failure(FlowEvent.LOST if row.suspect else FlowEvent.FAILED, row.task_type, note)
    book.books.write(tally, now)
    if row.suspect:
        return "suspect"
    row.status, row.failed_at = Status.FAILED, now
    book.add_letter(row, Reason.CANARY if row.canary else Reason.CRASH, note, now)
    return "dead"
