"""The ledger of an ETL in a PostgreSQL database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any

from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.jobs.etl.staging import Connections, StagingRow, StagingTable, record_key, staging_statements, utc_now

try:
    import psycopg
    from psycopg.pq import TransactionStatus
    from psycopg.rows import tuple_row
except ImportError as error:
    _message = "PostgreSQL needs psycopg; run: pip install 'outlast[postgres]'"
    raise ConfigError(_message) from error


Connection = psycopg.Connection[Any]
_ENDED_INSIDE = "the transaction was ended from inside, by COMMIT, ROLLBACK or psycopg.Rollback"


class PostgresTransaction:
    """A transaction with the ledger and the user's own tables in it; see `StagingTransaction`."""

    def __init__(self, connection: Connection, sql: dict[str, bytes]) -> None:
        """Have begun."""
        self.connection = connection
        self._cursor = connection.cursor(row_factory=tuple_row)
        self._sql = sql

    def upsert(self, row: StagingRow) -> bool:
        """Write what was fetched; False if a later fetch is known already."""
        return self._cursor.execute(self._sql["upsert"], row._asdict()).rowcount > 0

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row that nobody else changes until the end of the transaction."""
        found = self._cursor.execute(self._sql["get_locked"], record_key(source, entity, source_id)).fetchone()
        return None if found is None else _read_row(found)

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Note that this version of a record was applied."""
        if self.connection.info.transaction_status == TransactionStatus.IDLE:  # else the rest may be lost, and this not
            raise ConfigError(_ENDED_INSIDE)
        values = {**row._asdict(), "applied_at": utc_now(), "apply_version": apply_version}
        self._cursor.execute(self._sql["mark_applied"], values)


class PostgresStaging(StagingTable):
    """The ledger of an ETL in a PostgreSQL database; see `StagingRepo`.

    Args:
        database: URL of the database, which holds the user's tables too; or a psycopg connection, which is then used by
            one thread at a time and not replaced when it breaks; or a function that opens one.
        table: Name of the table, if need be with a schema before it.
        policy: Retries what `batch_upsert` does; the transactions of an `Etl` have its own policy.
    """

    def __init__(
        self,
        database: "str | Connection | Callable[[], Connection]",
        *,
        table: str = "staging",
        policy: RetryPolicy | None = None,
    ) -> None:
        """Open nothing yet."""
        self._table = table
        self._sql = {name: text.encode() for name, text in staging_statements("postgres", table).items()}
        given: Connection | None = None
        opens: Callable[[], Connection] | None = None
        if isinstance(database, psycopg.Connection):
            given = database
        elif isinstance(database, str):
            opens = partial(psycopg.connect, database, autocommit=True)
        else:
            opens = database
        self._connections = Connections(given, opens, _is_idle)
        super().__init__(policy)

    def create(self) -> None:
        """Make the table where there is none."""
        with self.transaction() as transaction:
            transaction.connection.execute(self._sql["create_lock"], {"table": self._table})
            transaction.connection.execute(self._sql["create"])

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Begin a transaction; the end of the block commits it, an error rolls all of it back.

        Raises:
            ConfigError: If the connection is in a transaction already, or the block ended ours.
        """
        with self._connections.one() as connection:
            if connection.info.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
                message = (
                    "the connection is in a transaction already, whose end is not ours to decide; commit it before, "
                    "or give a connection with autocommit=True"
                )
                raise ConfigError(message)
            with connection.transaction():
                try:
                    yield PostgresTransaction(connection, self._sql)
                except psycopg.Rollback as error:  # psycopg would roll back and say nothing
                    raise ConfigError(_ENDED_INSIDE) from error

    def close(self) -> None:
        """Close the connections that were opened here."""
        self._connections.close()

    def _read(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Run a query; no transaction is left open by it."""
        with self._connections.one() as connection:
            own = not connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
            with connection.transaction() if own else nullcontext():  # psycopg would begin one, and leave it open
                return connection.cursor(row_factory=tuple_row).execute(self._sql[name], values).fetchall()

    def _row(self, found: tuple[Any, ...]) -> StagingRow:
        return _read_row(found)


def _is_idle(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


def _read_row(found: tuple[Any, ...]) -> StagingRow:
    values: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in found]
    return StagingRow(*values)
