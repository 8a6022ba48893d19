"""Dead letters in memory."""

from collections import defaultdict

from holdfast import clock
from holdfast.ports.read_rows import FlowEvent
from holdfast.ports.rows import DeadLetter, DeadLetterFilter, Group, Status
from holdfast.stores.books import Tally
from holdfast.stores.memory.book import Book, moment
from holdfast.stores.triaging import holds

__all__ = ["MemoryDeadLetters", "is_meant", "queue_again"]


class MemoryDeadLetters:
    """The duty `DeadLetters`."""

    book: Book

    def check_dead_letters(self) -> None:
        """Do nothing: what is kept in memory can be written."""

    def dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Return dead letters, newest first."""
        return self._meant(which)[: which.limit]

    def count_dead_letters(self, which: DeadLetterFilter) -> int:
        """Return how many there are, whatever the limit."""
        return len(self._meant(which))

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return one."""
        with self.book.lock:
            return self.book.letters.get(number)

    def groups(self, which: DeadLetterFilter) -> list[Group]:
        """Return them grouped by cause; the sample is the newest one."""
        causes: dict[str, list[DeadLetter]] = defaultdict(list)
        for letter in self._meant(which):
            causes[letter.fingerprint].append(letter)
        groups = [_group(letters) for letters in causes.values()]
        groups.sort(key=lambda group: (group.size, group.last_seen), reverse=True)
        return groups[: which.limit]

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again."""
        with self.book.lock:
            return queue_again(self.book, number)

    def discard(self, number: int) -> str:
        """Remove a dead letter for good."""
        with self.book.lock:
            letter = self.book.letters.get(number)
            if letter is None:
                return "gone"
            _remove(self.book, letter, FlowEvent.DISCARDED)
            row = self.book.tasks.get(letter.original_task_id)
            if row is not None and row.status is Status.FAILED:
                row.status = Status.DISCARDED
                row.finished_at = row.updated_at = clock.now()
            return "discarded"

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard old ones."""
        with self.book.lock:
            before = moment(clock.now() - older_than)
            old = [letter.id for letter in self.book.letters.values() if letter.moved_to_dlq_at < before]
            return sum(self.discard(number) == "discarded" for number in old)

    def _meant(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Return those that a filter means, newest first."""
        with self.book.lock:
            return [letter for letter in reversed(self.book.letters.values()) if is_meant(letter, which)]


def queue_again(book: Book, number: int, replay_id: int | None = None, *, canary: bool = False) -> str:
    """Queue the task of a dead letter; return what became of it."""
    letter = book.letters.get(number)
    row = None if letter is None else book.tasks.get(letter.original_task_id)
    if letter is None or row is None or row.status is not Status.FAILED:
        return "gone"
    if book.live_by_key(row.task_type, row.unique_key) is not None:
        return "conflict"
    _remove(book, letter, FlowEvent.REPLAYED)
    row.status, row.replays = Status.QUEUED, row.replays + 1
    row.retry_count, row.crash_count, row.suspect, row.alone = 0, 0, False, False
    row.deferred_at = row.expires_at = row.failed_at = None
    row.next_run_after = row.updated_at = clock.now()
    row.replay_id, row.canary = replay_id, canary
    return "replayed"


def _remove(book: Book, letter: DeadLetter, event: FlowEvent) -> None:
    """Delete a dead letter and write down why."""
    del book.letters[letter.id]
    book.replayed_by.pop(letter.id, None)
    tally = Tally()
    tally.letter(event, letter.task_type, letter.error_category, letter.fingerprint)
    book.books.write(tally, clock.now())


def is_meant(letter: DeadLetter, which: DeadLetterFilter) -> bool:
    """Tell whether a filter means a dead letter."""
    return (
        (which.ids is None or letter.id in which.ids)
        and which.task_type in {None, letter.task_type}
        and which.queue in {None, letter.queue}
        and which.category in {None, letter.error_category}
        and which.reason in {None, letter.reason}
        and which.fingerprint in {None, letter.fingerprint}
        and (which.since is None or letter.moved_to_dlq_at >= which.since)
        and (which.until is None or letter.moved_to_dlq_at < which.until)
        and (which.text is None or holds(which.text, letter.error_type, letter.error_message))
        and (which.before is None or letter.id < which.before)
    )


def _group(letters: list[DeadLetter]) -> Group:
    """Sum up the letters of one cause, which come newest first."""
    newest = letters[0]
    return Group(
        fingerprint=newest.fingerprint,
        size=len(letters),
        task_type=newest.task_type,
        error_type=newest.error_type,
        error_category=newest.error_category,
        error_message=newest.error_message,
        first_seen=min(letter.moved_to_dlq_at for letter in letters),
        last_seen=max(letter.moved_to_dlq_at for letter in letters),
    )
