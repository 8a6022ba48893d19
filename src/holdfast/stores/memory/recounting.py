"""Putting the books right by what is there, in memory."""

from collections import Counter

from holdfast import clock
from holdfast.ports.rows import Status
from holdfast.stores.memory.book import Book
from holdfast.stores.memory.booking import Group
from holdfast.stores.recounting import Found, missing, shown_wrong

__all__ = ["MemoryRecounting"]


class MemoryRecounting:
    """The part of `Reads` that counts."""

    book: Book

    def recount(self) -> dict[str, int]:
        """Put the books right."""
        with self.book.lock:
            book = self.book
            _discard_orphans(book)
            letters = Counter((each.task_type, each.error_category, each.fingerprint) for each in book.letters.values())
            tasks = Counter(str(row.status) for row in book.tasks.values())
            found = Found(Counter(book.books.ever), tasks, letters)
            more = missing(found)
            book.books.ever.update(more)
            for each in book.letters.values():
                at = each.moved_to_dlq_at.timestamp()
                fresh = Group(each.task_type, each.error_type, each.error_category, each.error_message, at, at)
                if each.fingerprint:
                    group = book.books.groups.setdefault(each.fingerprint, fresh)
                    group.last_seen = max(group.last_seen, at)
            return shown_wrong(found, more)


def _discard_orphans(book: Book) -> None:
    """Take a task that failed and has no dead letter for discarded."""
    known = {each.original_task_id for each in book.letters.values()}
    for row in book.tasks.values():
        if row.status is Status.FAILED and row.id not in known:
            row.status = Status.DISCARDED
            row.finished_at = row.updated_at = clock.now()
