"""The PostgreSQL database of a move: its guard against other writers, its receipt and its progress."""

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, NamedTuple

from outlast.stores.move.plan import MOVED_TABLES, MoveError
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.store import PostgresStore

_CHUNK_BYTES = 1 << 17  # bytes of a COPY that are sent at a time
_GUARD = "outlast_moving"


class TableProgress(NamedTuple):
    """Progress of a table.

    Attributes:
        rows: Rows copied so far.
        after: Key of the last one.
        done: Whether all rows are copied.
    """

    rows: int = 0
    after: list[Any] | None = None
    done: bool = False


class ReceivedMove(NamedTuple):
    """What the target records about a move.

    Attributes:
        id: Id of the move, the same as in the file.
        receipt: Identifies this target for the file.
        source: Display name of the source.
        ended_at: When it ended; None while it runs.
        progress: Progress by table.
    """

    id: str
    receipt: str
    source: str
    ended_at: datetime | None
    progress: dict[str, TableProgress]


class TargetDatabase:
    """The PostgreSQL database that receives a file.

    Args:
        url: URL of the database.
    """

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url, max_size=2, prepare_threshold=None)
        self.connection = self.store.db.connect()

    def table(self, name: str) -> Any:
        """Return the qualified name of a table for a statement."""
        return psycopg.sql.Identifier(self.store.db.schema, name)

    def received_move(self) -> ReceivedMove | None:
        """Return the recorded move; None if no move has started."""
        try:
            rows = self._fetch_in("SELECT id, receipt, source, ended_at, progress FROM {}", "outlast_move")
        except psycopg.errors.UndefinedTable:
            return None
        if not rows:
            return None
        *fields, progress = rows[0]
        return ReceivedMove._make([*fields, _read_progress(progress)])

    def check_empty(self) -> None:
        """Check that no table has rows.

        Raises:
            MoveError: If one has.
        """
        names = (*MOVED_TABLES, "workers")
        filled = [name for name in names if self._fetch_in("SELECT EXISTS (SELECT FROM {})", name)[0][0]]
        if filled:
            raise MoveError(
                f"the target already has rows in {', '.join(filled)}; use a database without tables of Outlast, or "
                "with empty ones: two queues cannot be merged"
            )

    def begin(self, move_id: str, source: str) -> ReceivedMove:
        """Start to receive a file. Until the move ends, only its rows can be written.

        Raises:
            MoveError: If the target already has rows.
        """
        received = ReceivedMove(move_id, uuid.uuid4().hex, source, None, {})
        with self.connection.transaction():
            self._fetch("SELECT set_config('synchronous_commit', 'on', true)")  # the file relies on this commit
            self._run(_CREATE_MARK, "outlast_move")
            self._run(_CREATE_GUARD, _GUARD)
            for table in (*MOVED_TABLES, "workers"):  # waits for transactions that write now
                self.connection.execute(
                    psycopg.sql.SQL(_CREATE_TRIGGER).format(
                        psycopg.sql.Identifier(_GUARD), self.table(table), self.table(_GUARD)
                    )
                )
            self.check_empty()
            self._run("INSERT INTO {} (id, receipt, source) VALUES (%s, %s, %s)", "outlast_move", *received[:3])
        return received

    def columns(self, table: str) -> dict[str, str]:
        """Return the columns of a table with their types."""
        return dict(
            self._fetch(
                "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
                "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                self._text(table),
            )
        )

    @contextmanager
    def receiving(self, receipt: str) -> Iterator[dict[str, TableProgress]]:
        """Run a block in a transaction that may write, one process at a time; yield the progress by table.

        Raises:
            MoveError: If another process has cancelled or ended the move meanwhile.
        """
        with self.connection.transaction():
            self.connection.execute("SELECT set_config('outlast.moving', 'on', true)")
            rows = []
            with suppress(psycopg.errors.UndefinedTable):  # cancelling a move drops the table
                # Lock the table, not the row: cancelling drops the table, and a row lock could deadlock with that.
                self._run("LOCK TABLE {} IN EXCLUSIVE MODE", "outlast_move")
                sql = "SELECT progress FROM {} WHERE receipt = %s AND ended_at IS NULL"
                rows = self._fetch_in(sql, "outlast_move", receipt)
            if not rows:
                raise MoveError("another process has ended or cancelled the move meanwhile; run this again")
            yield _read_progress(rows[0][0])

    def write(self, table: str, columns: Iterable[str], lines: Iterable[bytes]) -> None:
        """Write lines; within `receiving`."""
        names = psycopg.sql.SQL(", ").join(map(psycopg.sql.Identifier, columns))
        statement = psycopg.sql.SQL("COPY {} ({}) FROM STDIN").format(self.table(table), names)
        with self.connection.cursor().copy(statement) as copy:
            chunk, size = [], 0
            for line in lines:
                chunk.append(line)
                size += len(line)
                if size > _CHUNK_BYTES:
                    copy.write(b"\n".join(chunk) + b"\n")
                    chunk, size = [], 0
            if chunk:
                copy.write(b"\n".join(chunk) + b"\n")

    def save_progress(self, progress: dict[str, TableProgress]) -> None:
        """Save the progress by table; within `receiving`."""
        text = json.dumps({table: each._asdict() for table, each in progress.items()})
        self._run("UPDATE {} SET progress = %s", "outlast_move", text)

    def continue_numbers(self, receipt: str, numbers: dict[str, int]) -> None:
        """Continue the id sequences after all ids that were ever assigned; only before others can draw from them."""
        sql = "SELECT setval(name, %s) FROM pg_get_serial_sequence(%s, 'id') AS name WHERE name IS NOT NULL"
        with self.receiving(receipt):
            for table, number in numbers.items():
                if table in MOVED_TABLES and number > 0 and "id" in self.columns(table):
                    self._fetch(sql, number, self._text(table))

    def analyze(self) -> None:
        """Update the planner statistics."""
        for table in MOVED_TABLES:
            self._run("ANALYZE {}", table)

    def counts(self) -> dict[str, int]:
        """Return the number of rows by table."""
        return {table: self._fetch_in("SELECT count(*) FROM {}", table)[0][0] for table in MOVED_TABLES}

    def end(self, receipt: str) -> None:
        """Allow all writes; the record of the move stays.

        Raises:
            MoveError: If another process has cancelled or ended the move meanwhile.
        """
        with self.receiving(receipt):
            self._unguard()
            self._run("UPDATE {} SET ended_at = now()", "outlast_move")
        self.store.db.notify()

    def empty(self, receipt: str) -> None:
        """Cancel a move that has not ended: delete all its rows, whatever version of Outlast started it.

        Raises:
            MoveError: If another process has cancelled or ended the move meanwhile, which means that the tables are in
                use.
        """
        guarded = (
            "SELECT relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE tgname = %s AND nspname = %s"
        )
        with self.receiving(receipt):
            names = [name for (name,) in self._fetch(guarded, _GUARD, self.store.db.schema)]
            tables = psycopg.sql.SQL(", ").join(map(self.table, names))
            self.connection.execute(psycopg.sql.SQL("TRUNCATE {} RESTART IDENTITY").format(tables))
            self._unguard()
            self._run("DROP TABLE {}", "outlast_move")

    def _unguard(self) -> None:
        """Drop the guard function, and with it the triggers that call it."""
        self._run("DROP FUNCTION IF EXISTS {} CASCADE", _GUARD)

    def _text(self, table: str) -> str:
        return str(self.table(table).as_string(self.connection))

    def _run(self, text: str, table: str, *values: object) -> None:
        self.connection.execute(psycopg.sql.SQL(text).format(self.table(table)), values or None)

    def _fetch_in(self, text: str, table: str, *values: object) -> list[Any]:
        return self.connection.execute(psycopg.sql.SQL(text).format(self.table(table)), values or None).fetchall()

    def _fetch(self, text: str, *values: object) -> list[Any]:
        return self.connection.execute(text.encode(), values or None).fetchall()

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()
        self.store.close()


_CREATE_MARK = """
CREATE TABLE {} (
    id       text        NOT NULL PRIMARY KEY,
    receipt  text        NOT NULL,
    source   text        NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    progress text        NOT NULL DEFAULT '{{}}'
)
"""
_CREATE_GUARD = """
CREATE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('outlast.moving', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION 'a SQLite file is being moved to these tables, and the move is not over'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END
$$
"""
_CREATE_TRIGGER = "CREATE TRIGGER {} BEFORE INSERT OR UPDATE OR DELETE ON {} FOR EACH STATEMENT EXECUTE FUNCTION {}()"


def _read_progress(text: str) -> dict[str, TableProgress]:
    return {table: TableProgress(**each) for table, each in json.loads(text).items()}
