"""Putting the books right by what is there, in memory."""

import json
from collections import Counter

from holdfast import clock
from holdfast.failure import Category
from holdfast.ports.rows import Note, Reason, Status
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
            rebuilt = _rebuild_letters(book)
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
            return shown_wrong(found, more, rebuilt)


def _rebuild_letters(book: Book) -> int:
    """Give a task that failed and has no dead letter one anew, from itself and its last attempt; return how many."""
    known = {each.original_task_id for each in book.letters.values()}
    orphans = [row for row in book.tasks.values() if row.status is Status.FAILED and row.id not in known]
    for row in orphans:
        note = Note("", "", Category.UNKNOWN.value, fingerprint="", failure="{}", traceback="")
        for last in book.attempts.get(row.id, [])[-1:]:
            note = Note(
                error_type=last.error_type,
                error_message=last.error_message,
                error_category=last.error_category,
                fingerprint=last.fingerprint,
                failure=json.dumps(last.failure),
                traceback=last.traceback,
            )
        book.add_letter(row, Reason.EXHAUSTED, note, clock.now())
    return len(orphans)
