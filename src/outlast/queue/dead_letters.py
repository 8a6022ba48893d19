"""Dead letters as a program handles them: look, replay, discard."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from outlast.ports.rows import Attempt, DeadLetter, Group
from outlast.queue.auditing import write_down
from outlast.queue.triage import Triage, check_meant, meant, pages, subject_of, told

__all__ = ["DeadLetterBox", "DeadLetterHistory", "Handled"]


class DeadLetterHistory(NamedTuple):
    """A dead letter and how it came about.

    Attributes:
        letter: The dead letter.
        attempts: Every failed attempt, oldest first, those before an earlier replay included.
    """

    letter: DeadLetter
    attempts: list[Attempt]


class Handled(NamedTuple):
    """What became of one dead letter: ``replayed``, ``discarded``, ``conflict`` or ``gone``."""

    id: int
    outcome: str


class DeadLetterBox(Triage):
    """The dead letters of an app, as ``app.dead_letters``.

    Everywhere ``which`` narrows: ``task_type``, ``queue``, ``category``, ``reason``, ``fingerprint``, ``since`` and
    ``until`` (aware datetimes), ``text`` and ``ids``. What changes something takes ``who`` asks for it, by default the
    user of this process, and ``why``, and is written to the audit log first.

    Args:
        store: Where they are.
    """

    def list(self, limit: int | None = 50, **which: Any) -> list[DeadLetter]:
        """Return dead letters, newest first."""
        return self._store.dead_letters(meant(which, limit=limit))

    def count(self, **which: Any) -> int:
        """Return how many there are."""
        return self._store.count_dead_letters(meant(which))

    def show(self, number: int) -> DeadLetterHistory:
        """Return one with its history.

        Raises:
            LookupError: If there is no such dead letter (any more).
        """
        letter = self._store.dead_letter(number)
        if letter is None:
            message = f"there is no dead letter {number}"
            raise LookupError(message)
        return DeadLetterHistory(letter, self._store.attempts(letter.original_task_id))

    def groups(self, limit: int | None = 50, **which: Any) -> "Sequence[Group]":
        """Return them grouped by cause, the largest group first."""
        return self._store.groups(meant(which, limit=limit))

    def replay(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> "Sequence[Handled]":
        """Queue one again, or all that are meant; each in a transaction of its own.

        Args:
            number: Of one dead letter; else ``which`` says which are meant.
            who: Who asks.
            why: Why.
            which: At least one narrowing, or ``all=True``; ``limit`` says how many at most, the newest first.
        """
        return [*self.replaying(number, who=who, why=why, **which)]

    def replaying(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> Iterator[Handled]:
        """Do the same one by one, as the result is read: for a progress bar."""
        for each in self._numbers("replay_dead_letter", number, which, who, why):
            yield Handled(each, self._store.replay(each))

    def discard(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> "Sequence[Handled]":
        """Remove one, or all that are meant, for good; arguments as for `replay`."""
        return [*self.discarding(number, who=who, why=why, **which)]

    def discarding(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> Iterator[Handled]:
        """Do the same one by one, as the result is read."""
        for each in self._numbers("discard_dead_letter", number, which, who, why):
            yield Handled(each, self._store.discard(each))

    def _numbers(
        self, action: str, number: int | None, which: dict[str, Any], who: str | None, why: str
    ) -> Iterator[int]:
        """Write down what is asked for, then yield the numbers that are meant, newest first."""
        if number is not None:
            write_down(self._store, action, f"dead_letter:{number}", who=who, why=why)
            yield number
            return
        limit: int | None = which.pop("limit", None)
        check_meant(which)
        wanted = meant(which)
        write_down(self._store, f"{action}s", subject_of(wanted), told(wanted) | {"limit": limit}, who=who, why=why)
        for letter in pages(self._store, wanted, limit):
            yield letter.id
