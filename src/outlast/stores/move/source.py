"""The SQLite file that is moved: who still uses it, how it is frozen, and its rows."""

import sqlite3
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outlast.errors import ConfigError, SchemaError
from outlast.stores.move.plan import MOVED_TABLES, MoveError
from outlast.stores.sqlite.connection import BUSY_TIMEOUT, SqliteDatabase, now_ms
from outlast.stores.sqlite.counters import count_new_tasks
from outlast.stores.sqlite.move_mark import (
    OWN_TABLES,
    MoveMark,
    freeze_file,
    mark_ended,
    read_mark,
    set_target,
    unfreeze_file,
)
from outlast.stores.sqlite.schema import LATEST, migrate, schema_version
from outlast.stores.sqlite.store import SqliteStore

_MAX_NAMED = 5
_OWN_TABLES = {*OWN_TABLES, "schema_version", "outlast_move"}


class SourceFile:
    """A SQLite file.

    Args:
        path: Of it.
        spool: The folder of outcomes that could not be stored.

    Raises:
        ConfigError: If it is not there or not one of Outlast's.
        SchemaError: If its tables are newer than this version of Outlast, and nobody has begun to move it.
    """

    def __init__(self, path: Path, spool: Path) -> None:
        """Open the file; nothing in it is changed."""
        if not path.is_file():
            message = f"there is no file {path}; is the URL right?"
            raise ConfigError(message)
        self.path, self._spool = path, spool
        self.connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            if self.version == 0:
                message = f"{path} has no tables of Outlast; is the URL right?"
                raise ConfigError(message)
            if self.version > LATEST and self.mark() is None:
                raise SchemaError(self.version, LATEST)
        except BaseException:
            self.connection.close()
            raise
        self.store = SqliteStore(path)
        self.store.db = SqliteDatabase(
            path, lambda _: None
        )  # the file may be frozen, which others are told when they open it

    @property
    def version(self) -> int:
        """The version of the tables."""
        return schema_version(self.connection)

    def mark(self) -> MoveMark | None:
        """Return what the file knows of its move."""
        return read_mark(self.connection)

    def bring_up_to_date(self) -> None:
        """Bring the tables up to date. A worker of an older version would lose its lease by it, so none may be alive.

        Raises:
            MoveError: If somebody uses the file.
        """
        if self.version < LATEST:
            with self._writing() as connection:
                self.check_quiet()
                migrate(connection)

    def rescue(self) -> int:
        """Give back what dead workers held; return how many tasks that were.

        None becomes a dead letter for the workers it took down. How many it may take down only the app knows, so the
        next worker judges.
        """
        return len(self.store.rescue(sys.maxsize))

    def strangers(self) -> list[str]:
        """Return the tables in the file that are not Outlast's: they stay where they are."""
        rows = self.connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
        )
        return [name for (name,) in rows if name not in _OWN_TABLES]

    def users(self) -> list[str]:
        """Return who still uses the file, for people, whatever the version of its tables; nothing if nobody does."""
        now = now_ms()
        workers = self._ask(
            "workers", "SELECT id, name, host, pid FROM workers WHERE expires_at > ? ORDER BY started_at, id", now
        )
        found = [
            f"worker {name} ({host}, process {pid})"
            for number, name, host, pid in workers
            if not self.store.is_dead(number)
        ]
        polled = (
            "SELECT lease_owner, count(*) FROM sources WHERE leased_until > ? AND outcome IS NULL GROUP BY lease_owner"
        )
        found += [f"monitor {owner} ({count} sources)" for owner, count in self._ask("sources", polled, now)]
        jobs = self._ask("job_runs", "SELECT DISTINCT job FROM job_runs WHERE ended_at IS NULL ORDER BY job")
        holders = [(job, self.store.job_holder(job)) for (job,) in jobs]
        found += [f"job {job} ({holder or 'running'})" for job, holder in holders if holder is not None]
        told = "SELECT count(*) FROM alerts WHERE delivered_at IS NULL AND leased_until > ?"
        found += [f"somebody who delivers alerts ({count})" for (count,) in self._ask("alerts", told, now) if count]
        return found

    def check_quiet(self) -> None:
        """See that nobody uses the file.

        Raises:
            MoveError: If somebody does, or left outcomes that only a worker on this file can store.
        """
        users = self.users()
        if users:
            more = len(users) - _MAX_NAMED
            named = ", ".join(users[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
            message = f"the file is in use by {named}; stop them and run this again; who was killed is gone in seconds"
            raise MoveError(message)
        left = len([*self._spool.glob("*.jsonl")])
        if left:
            message = (
                f"outcomes that could not be stored lie in {self._spool} (files: {left}); start a worker on the file "
                "once, which stores them, stop it, and run this again"
            )
            raise MoveError(message)

    def freeze(self, target: str) -> MoveMark:
        """Have nobody write to the file any more; what is not in the books yet is written into them before."""
        with self._writing() as connection:
            if read_mark(connection) is not None:
                message = "somebody else has begun to move the file; run this again to go on with it"
                raise MoveError(message)
            self.check_quiet()
            (running,) = connection.execute("SELECT count(*) FROM task_queue WHERE status = 'RUNNING'").fetchone()
            if running:
                message = f"{running} tasks are running, and no worker is known that holds them; run this again"
                raise MoveError(message)
            count_new_tasks(connection, connection.execute("SELECT coalesce(max(id), 0) FROM task_queue").fetchone()[0])
            freeze_file(connection, uuid.uuid4().hex, target)
            mark = read_mark(connection)
        assert mark is not None  # noqa: S101  # for the type checker
        return mark

    def pin(self, move_id: str, receipt: str, target: str) -> None:
        """Write down by what the target is known again: from here on there is no other.

        Raises:
            MoveError: If there is another one already, or the move was given up.
        """
        with self._writing() as connection:
            mark = read_mark(connection)
            if mark is None or mark.id != move_id or mark.receipt not in {None, receipt}:
                message = "the move was given up or taken to another target meanwhile; run this again to see"
                raise MoveError(message)
            if mark.receipt is None:
                set_target(connection, receipt, target)

    def give_up(self, move_id: str) -> None:
        """See that nobody can pin or end the move any more.

        Raises:
            MoveError: If it is over.
        """
        with self._writing() as connection:
            mark = read_mark(connection)
            if mark is None or mark.id != move_id:
                message = "somebody else has given up the move meanwhile; run this again to see"
                raise MoveError(message)
            if mark.ended_at is not None:
                message = "the move is over; there is nothing to give up: run it once more if the target is still shut"
                raise MoveError(message)
            connection.execute("UPDATE outlast_move SET receipt = ''")

    def thaw(self, move_id: str, *, unless_pinned: bool = False) -> None:
        """Have the file used again.

        Args:
            move_id: Of the move that is given up.
            unless_pinned: Whether to leave it frozen where a target has begun to receive it.
        """
        with self._writing() as connection:
            mark = read_mark(connection)
            if mark is not None and mark.id == move_id and not (unless_pinned and mark.receipt is not None):
                unfreeze_file(connection)

    def end(self, receipt: str) -> None:
        """Write down that the move is over.

        Raises:
            MoveError: If it was given up meanwhile.
        """
        with self._writing() as connection:
            mark = read_mark(connection)
            if mark is None or mark.receipt != receipt:
                message = "the move was given up meanwhile; run it again from its beginning"
                raise MoveError(message)
            if mark.ended_at is None:
                mark_ended(connection)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
            self.connection.execute("COMMIT")
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has that is moved; a file that was moved by an older version lacks some."""
        asked = {table: self._ask(table, f"SELECT count(*) FROM {table}") for table in MOVED_TABLES}  # noqa: S608  # our own names
        return {table: rows[0][0] for table, rows in asked.items() if rows}

    def numbers(self) -> dict[str, int]:
        """Return the largest number that was ever given, by table: none is given twice."""
        return dict(self.connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())

    def columns(self, table: str) -> tuple[list[str], list[str]]:
        """Return the columns of a table, and those of its primary key."""
        rows = self.connection.execute("SELECT name, pk FROM pragma_table_info(?)", (table,)).fetchall()
        return [name for name, _ in rows], [name for name, place in sorted(rows, key=lambda row: row[1]) if place]

    def lines(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[bytes, list[Any]]]:
        """Yield rows of `select_lines`: a line and the key of its row. They are read as they are asked for."""
        for line, *key in self.connection.execute(sql, values):
            yield line, key

    def _ask(self, table: str, sql: str, *values: object) -> list[Any]:
        """Return rows of a table; none where the file is so old that it has no such table."""
        known = self.connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        return self.connection.execute(sql, values).fetchall() if known.fetchone() else []

    def close(self) -> None:
        """Close the file."""
        self.store.close()
        self.connection.close()
