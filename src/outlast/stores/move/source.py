"""The SQLite file of a move: its users, its freeze mark and its rows."""

import sqlite3
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outlast.errors import ConfigError, SchemaError
from outlast.stores.move.plan import MOVED_TABLES, MoveError
from outlast.stores.sqlite.connection import BUSY_TIMEOUT, SqliteDatabase, explained_errors, now_ms, write_transaction
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
    """The SQLite file that is moved.

    Args:
        path: Path of the file.
        spool: Folder of outcomes that could not be stored.

    Raises:
        ConfigError: If the file does not exist or has no tables of Outlast.
        SchemaError: If its tables are newer than this version of Outlast, and no move has started.
    """

    def __init__(self, path: Path, spool: Path) -> None:
        if not path.is_file():
            raise ConfigError(f"the file {path} does not exist; check the URL")
        self.path, self._spool = path, spool
        self.connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            with explained_errors(path):
                if self.version == 0:
                    raise ConfigError(f"{path} has no tables of Outlast; check the URL")
                if self.version > LATEST and self.mark() is None:
                    raise SchemaError(self.version, LATEST)
        except BaseException:
            self.connection.close()
            raise
        self.store = SqliteStore(path)
        self.store.db = SqliteDatabase(path, lambda _: None)  # skips the check that refuses a frozen file

    @property
    def version(self) -> int:
        """Version of the tables."""
        return schema_version(self.connection)

    def mark(self) -> MoveMark | None:
        """Return the mark of the move; None if no move has started."""
        return read_mark(self.connection)

    def migrate(self) -> None:
        """Migrate the tables. A worker of an older version would lose its lease, so none may be alive.

        Raises:
            MoveError: If somebody uses the file.
        """
        if self.version < LATEST:
            with write_transaction(self.connection):
                self.check_quiet()
                migrate(self.connection)

    def rescue(self) -> int:
        """Take tasks from dead workers; return how many.

        None becomes a dead letter because of its crashes: only the app knows the limit, so the next worker decides.
        """
        return len(self.store.rescue(sys.maxsize))

    def foreign_tables(self) -> list[str]:
        """Return the tables of other programs in the file, which are not moved."""
        rows = self.connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
        )
        return [name for (name,) in rows if name not in _OWN_TABLES]

    def users(self) -> list[str]:
        """Return descriptions of the processes that use the file. Works with tables of any version."""
        now = now_ms()
        workers = self._fetch(
            "workers", "SELECT id, name, host, pid FROM workers WHERE expires_at > ? ORDER BY started_at, id", now
        )
        found = [
            f"worker {name} ({host}, process {pid})"
            for number, name, host, pid in workers
            if not self.store.is_dead(number)
        ]
        leases = (
            "SELECT lease_owner, count(*) FROM sources WHERE leased_until > ? AND outcome IS NULL GROUP BY lease_owner"
        )
        found += [f"monitor {owner} ({count} sources)" for owner, count in self._fetch("sources", leases, now)]
        jobs = self._fetch("job_runs", "SELECT DISTINCT job FROM job_runs WHERE ended_at IS NULL ORDER BY job")
        holders = [(job, self.store.job_holder(job)) for (job,) in jobs]
        found += [f"job {job} ({holder or 'running'})" for job, holder in holders if holder is not None]
        deliveries = "SELECT count(*) FROM alerts WHERE delivered_at IS NULL AND leased_until > ?"
        found += [f"alert delivery ({count} alerts)" for (count,) in self._fetch("alerts", deliveries, now) if count]
        return found

    def check_quiet(self) -> None:
        """Check that nobody uses the file.

        Raises:
            MoveError: If somebody does, or if there are spooled outcomes that only a worker on this file can store.
        """
        users = self.users()
        if users:
            more = len(users) - _MAX_NAMED
            named = ", ".join(users[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
            raise MoveError(
                f"the file is in use by {named}; stop them and run this again; a killed process disappears from this "
                "list within seconds"
            )
        spooled = len([*self._spool.glob("*.jsonl")])
        if spooled:
            raise MoveError(
                f"{self._spool} contains outcomes that could not be stored (files: {spooled}); start a worker on the "
                "file once, which stores them, stop it, and run this again"
            )

    def freeze(self, target: str) -> MoveMark:
        """Reject all further writes to the file, after counting the tasks that are not counted yet.

        Raises:
            MoveError: If the file is in use, has running tasks or is already being moved.
        """
        with write_transaction(self.connection):
            if self.mark() is not None:
                raise MoveError("another process has started to move the file; run this again to continue that move")
            self.check_quiet()
            (running,) = self.connection.execute("SELECT count(*) FROM task_queue WHERE status = 'RUNNING'").fetchone()
            if running:
                raise MoveError(f"{running} tasks are running without a registered worker; run this again")
            (newest,) = self.connection.execute("SELECT coalesce(max(id), 0) FROM task_queue").fetchone()
            count_new_tasks(self.connection, newest)
            return freeze_file(self.connection, uuid.uuid4().hex, target)

    def pin(self, move_id: str, receipt: str, target: str) -> None:
        """Store the receipt of the target. From here on the file can only go to this target.

        Raises:
            MoveError: If the file already has another receipt, or the move was cancelled.
        """
        with write_transaction(self.connection):
            mark = self.mark()
            if mark is None or mark.id != move_id or mark.receipt not in {None, receipt}:
                raise MoveError("the move was meanwhile cancelled or pinned to another target; run this again")
            if mark.receipt is None:
                set_target(self.connection, receipt, target)

    def mark_cancelled(self, move_id: str) -> None:
        """Mark the move as cancelled, so that nobody can pin or end it any more.

        Raises:
            MoveError: If it has ended.
        """
        with write_transaction(self.connection):
            mark = self.mark()
            if mark is None or mark.id != move_id:
                raise MoveError("another process has cancelled the move meanwhile; run this again")
            if mark.ended_at is not None:
                raise MoveError(
                    "the move has ended and cannot be cancelled; run it again if the target still rejects writes"
                )
            self.connection.execute("UPDATE outlast_move SET receipt = ''")

    def unfreeze(self, move_id: str, *, unless_pinned: bool = False) -> None:
        """Make the file usable again.

        Args:
            move_id: Id of the cancelled move.
            unless_pinned: Whether to leave it frozen if a target has started to receive it.
        """
        with write_transaction(self.connection):
            mark = self.mark()
            if mark is not None and mark.id == move_id and not (unless_pinned and mark.receipt is not None):
                unfreeze_file(self.connection)

    def end(self, receipt: str) -> None:
        """Mark the move as ended.

        Raises:
            MoveError: If it was cancelled meanwhile.
        """
        with write_transaction(self.connection):
            mark = self.mark()
            if mark is None or mark.receipt != receipt:
                raise MoveError("the move was cancelled meanwhile; run it again from the start")
            if mark.ended_at is None:
                mark_ended(self.connection)

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each moved table; a file that an older version moved lacks some tables."""
        found = {table: self._fetch(table, f"SELECT count(*) FROM {table}") for table in MOVED_TABLES}  # noqa: S608  # our own names
        return {table: rows[0][0] for table, rows in found.items() if rows}

    def numbers(self) -> dict[str, int]:
        """Return the largest id that was ever assigned, by table."""
        return dict(self.connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())

    def columns(self, table: str) -> tuple[list[str], list[str]]:
        """Return the columns of a table, and those of its primary key."""
        rows = self.connection.execute("SELECT name, pk FROM pragma_table_info(?)", (table,)).fetchall()
        return [name for name, _ in rows], [name for name, place in sorted(rows, key=lambda row: row[1]) if place]

    def lines(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[bytes, list[Any]]]:
        """Yield the rows of `select_lines`: a line and the key of its row. Rows are read as needed."""
        for line, *key in self.connection.execute(sql, values):
            yield line, key

    def _fetch(self, table: str, sql: str, *values: object) -> list[Any]:
        """Return rows of a table; an empty list if the file is too old to have the table."""
        known = self.connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        return self.connection.execute(sql, values).fetchall() if known.fetchone() else []

    def close(self) -> None:
        """Close the file."""
        self.store.close()
        self.connection.close()
