"""Dead letters in SQLite."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import DeadLetter, DeadLetterFilter, Group, Reason
from outlast.sql_files import load_statements
from outlast.stores.books import Tally
from outlast.stores.sqlite.booking import book
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.times import milliseconds, moment, now_ms

__all__ = ["SqliteDeadLetters", "queue_again", "remove_letters"]

SQL = load_statements(__package__)
_BATCH = 500


class _TakenBackError(Exception):
    """Ends the trial of a dead letter."""


class SqliteDeadLetters:
    """The duty `DeadLetters`."""

    db: Database

    def check_dead_letters(self) -> None:
        """Write a dead letter and take it back."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["check_dead_letter_insert"], {"now": now_ms()})
            raise _TakenBackError

        try:
            self.db.write(work)
        except _TakenBackError:
            return

    def dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Return dead letters, newest first."""
        return [_letter(row) for row in self._read("dead_letters", which)]

    def count_dead_letters(self, which: DeadLetterFilter) -> int:
        """Return how many there are."""
        count: int = self._read("count_dead_letters", which)[0][0]
        return count

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return one."""
        row = self.db.read(lambda connection: connection.execute(SQL["dead_letter"], (number,)).fetchone())
        return None if row is None else _letter(row)

    def groups(self, which: DeadLetterFilter) -> list[Group]:
        """Return them grouped by cause; the sample is the newest one."""
        return [_group(row) for row in self._read("group_dead_letters", which)]

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again."""

        def work(connection: sqlite3.Connection) -> str:
            outcome = queue_again(connection, number, now_ms())
            if outcome == "replayed":
                remove_letters(connection, [number], FlowEvent.REPLAYED)
            return outcome

        return self.db.write(work)

    def discard(self, number: int) -> str:
        """Remove a dead letter for good."""
        return "discarded" if self.db.write(lambda connection: _discard(connection, [number])) else "gone"

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard old ones."""
        before, pruned = now_ms() - milliseconds(older_than), 0

        def work(connection: sqlite3.Connection) -> int:
            rows = connection.execute(SQL["expired_dead_letters"], (before, _BATCH))
            return _discard(connection, [row[0] for row in rows])

        while True:
            count = self.db.write(work)
            pruned += count
            if count < _BATCH:
                return pruned

    def _read(self, query: str, which: DeadLetterFilter) -> list[Any]:
        values = which._asdict()
        values["ids"] = None if which.ids is None else json.dumps(which.ids)
        for name in ("since", "until"):
            values[name] = None if values[name] is None else milliseconds(values[name].timestamp())
        return self.db.read(lambda connection: connection.execute(SQL[query], values).fetchall())


def _discard(connection: sqlite3.Connection, numbers: list[int]) -> int:
    values = {"ids": json.dumps(numbers), "now": now_ms()}
    connection.execute(SQL["discard_tasks"], values)
    return remove_letters(connection, numbers, FlowEvent.DISCARDED)


def queue_again(
    connection: sqlite3.Connection, number: int, now: int, replay_id: int | None = None, *, canary: bool = False
) -> str:
    """Queue the task of a dead letter, which is left to the caller; return what became of it."""
    values = {"id": number, "now": now, "replay_id": replay_id, "canary": int(canary)}
    try:
        return "replayed" if connection.execute(SQL["replay_dead_letter"], values).rowcount == 1 else "gone"
    except sqlite3.IntegrityError:
        return "conflict"


def remove_letters(connection: sqlite3.Connection, numbers: list[int], event: FlowEvent) -> int:
    """Delete dead letters and write down why; return how many there were."""
    rows = connection.execute(SQL["delete_dead_letters"], {"ids": json.dumps(numbers)}).fetchall()
    tally = Tally()
    for row in rows:
        tally.letter(event, *row)
    book(connection, tally, now_ms())
    return len(rows)


def _letter(row: Sequence[Any]) -> DeadLetter:
    values = dict(zip(DeadLetter._fields, row, strict=True))
    values.update(reason=Reason(values["reason"]), failure=json.loads(values["failure"]))
    values.update({name: moment(values[name]) for name in ("created_at", "moved_to_dlq_at")})
    return DeadLetter(**values)


def _group(row: Sequence[Any]) -> Group:
    values = dict(zip(Group._fields, row, strict=True))
    values.update(first_seen=moment(values["first_seen"]), last_seen=moment(values["last_seen"]))
    return Group(**values)
