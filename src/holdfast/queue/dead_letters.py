"""Dead letters as a program handles them: look, replay, discard."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.failure import Category
from holdfast.ports.rows import Attempt, DeadLetter, DeadLetterFilter, Group, Reason
from holdfast.ports.store import Store
from holdfast.queue.words import chosen

__all__ = ["DeadLetterBox", "DeadLetterHistory", "Handled"]

_PAGE = 200


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


class DeadLetterBox:
    """The dead letters of an app, as ``app.dead_letters``.

    Everywhere ``which`` narrows: ``task_type``, ``queue``, ``category``, ``reason``, ``fingerprint``, ``since`` and
    ``until`` (aware datetimes), ``text`` and ``ids``.

    Args:
        store: Where they are.
    """

    def __init__(self, store: Store) -> None:
        """Keep the store."""
        self._store = store

    def list(self, limit: int | None = 50, **which: Any) -> list[DeadLetter]:
        """Return dead letters, newest first."""
        return self._store.dead_letters(_filter(which, limit=limit))

    def count(self, **which: Any) -> int:
        """Return how many there are."""
        return self._store.count_dead_letters(_filter(which))

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
        return self._store.groups(_filter(which, limit=limit))

    def replay(self, number: int | None = None, **which: Any) -> "Sequence[Handled]":
        """Queue one again, or all that are meant; each in a transaction of its own.

        Args:
            number: Of one dead letter; else ``which`` says which are meant.
            which: At least one narrowing, or ``all=True``; ``limit`` says how many at most, the newest first.
        """
        return [*self.replaying(number, **which)]

    def replaying(self, number: int | None = None, **which: Any) -> Iterator[Handled]:
        """Do the same one by one, as the result is read: for a progress bar."""
        for each in self._numbers(number, which):
            yield Handled(each, self._store.replay(each))

    def discard(self, number: int | None = None, **which: Any) -> "Sequence[Handled]":
        """Remove one, or all that are meant, for good; arguments as for `replay`."""
        return [*self.discarding(number, **which)]

    def discarding(self, number: int | None = None, **which: Any) -> Iterator[Handled]:
        """Do the same one by one, as the result is read."""
        for each in self._numbers(number, which):
            yield Handled(each, self._store.discard(each))

    def _numbers(self, number: int | None, which: dict[str, Any]) -> Iterator[int]:
        """Yield the numbers that are meant, newest first, a page at a time.

        Only what was there at the beginning: a task that fails again is a new dead letter, and is not taken twice.
        """
        if number is not None:
            yield number
            return
        limit: int | None = which.pop("limit", None)
        meant = which.pop("all", False) or any(value is not None for value in which.values())
        if not meant:
            message = "say which dead letters are meant, or all=True"
            raise ValueError(message)
        before: int | None = None
        while limit is None or limit > 0:
            most = _PAGE if limit is None else min(_PAGE, limit)
            page = self._store.dead_letters(_filter(which, limit=most, before=before))
            for letter in page:
                yield letter.id
            if len(page) < most:
                return
            before = page[-1].id
            limit = None if limit is None else limit - len(page)


def _filter(which: dict[str, Any], **more: Any) -> DeadLetterFilter:
    """Return what is meant, its words checked.

    Raises:
        ConfigError: If there is no such category or reason.
    """
    for name, kind in (("category", Category), ("reason", Reason)):
        if which.get(name) is not None:
            which = which | {name: chosen(kind, which[name])}
    return DeadLetterFilter(**which, **more)
