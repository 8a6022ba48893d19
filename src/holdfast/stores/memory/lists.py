"""Lists of tasks and dead letters in memory, newest first."""

from collections import Counter

from holdfast.ports.read_rows import DeadLetterLine, Page, TaskLine
from holdfast.ports.reads import MOST_LOOKED_AT
from holdfast.ports.rows import DeadLetterFilter, TaskFilter
from holdfast.stores.books import DEAD, take
from holdfast.stores.memory.book import Book, Row
from holdfast.stores.memory.dead_letters import is_meant

__all__ = ["MemoryLists"]

_PAGE = 50


class MemoryLists:
    """The lists of the duty `Reads`."""

    book: Book

    def dead_letter_lines(self, which: DeadLetterFilter, *, look: int = MOST_LOOKED_AT) -> Page[DeadLetterLine]:
        """Return dead letters."""
        with self.book.lock:
            letters = sorted(self.book.letters.values(), key=lambda each: each.id, reverse=True)
        walk = [(each, is_meant(each, which)) for each in letters if which.before is None or each.id < which.before]
        rows, last, looked = take(walk, _PAGE if which.limit is None else which.limit, look)
        lines = [DeadLetterLine(*(getattr(each, name) for name in DeadLetterLine._fields)) for each in rows]
        return Page(lines, None if last is None else str(last.id), looked)

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return how many there are of each task and category."""
        sizes: Counter[tuple[str, str]] = Counter()
        with self.book.lock:
            for key, count in self.book.books.ever.items():
                sizes[key.task_type, key.category] += count * DEAD.get(key.event, 0)
        return {key: size for key, size in sizes.items() if size > 0}

    def task_lines(self, which: TaskFilter, *, look: int = MOST_LOOKED_AT) -> Page[TaskLine]:
        """Return tasks."""
        with self.book.lock:
            known = sorted(self.book.tasks.values(), key=lambda row: row.id, reverse=True)
            walk = [(row, _is_wanted(row, which)) for row in known if which.before is None or row.id < which.before]
            rows, last, looked = take(walk, which.limit, look)
            seen = [row.seen() for row in rows]
        lines = [TaskLine(*(getattr(task, name) for name in TaskLine._fields)) for task in seen]
        return Page(lines, None if last is None else str(last.id), looked)


def _is_wanted(row: Row, which: TaskFilter) -> bool:
    return (
        which.status in {None, row.status}
        and which.queue in {None, row.queue}
        and which.task_type in {None, row.task_type}
    )
