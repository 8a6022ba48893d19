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
_ENDED_INSIDE = "the code in the transaction ended it, by COMMIT, ROLLBACK or psycopg.Rollback; leave it open"


class PostgresTransaction:
    """A `StagingTransaction` in PostgreSQL."""

    def __init__(self, connection: Connection, sql: dict[str, bytes]) -> None:
        self.connection = connection
        self._cursor = connection.cursor(row_factory=tuple_row)
        self._sql = sql

    def upsert(self, row: StagingRow) -> bool:
        """Write a row and return True; return False if a later fetch is stored."""
        return self._cursor.execute(self._sql["upsert"], row._asdict()).rowcount > 0

    def get(self, source: str, entity: str, source_id: str) -> StagingRow | None:
        """Return a row, locked until the end of the transaction; None if it does not exist."""
        found = self._cursor.execute(self._sql["get_locked"], record_key(source, entity, source_id)).fetchone()
        return None if found is None else _read_row(found)

    def mark_applied(self, row: StagingRow, apply_version: int) -> None:
        """Record that this version of a record was applied."""
        # It would be marked although apply may be lost.
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            raise ConfigError(_ENDED_INSIDE)
        values = {**row._asdict(), "applied_at": utc_now(), "apply_version": apply_version}
        self._cursor.execute(self._sql["mark_applied"], values)


class PostgresStaging(StagingTable):
    """The ledger of an ETL in a PostgreSQL database; see `StagingRepo`.

    Args:
        database: URL of the database, which also contains the user's tables; or a psycopg connection, which one thread
            at a time uses, and which is not replaced when it breaks; or a function that opens a connection.
        table: Name of the table, with an optional schema in front.
        policy: Retries `batch_upsert`; the transactions of an `Etl` are retried by its own policy.
    """

    def __init__(
        self,
        database: "str | Connection | Callable[[], Connection]",
        *,
        table: str = "staging",
        policy: RetryPolicy | None = None,
    ) -> None:
        self._table = table
        self._sql = {name: text.encode() for name, text in staging_statements("postgres", table).items()}
        if isinstance(database, str):
            database = partial(psycopg.connect, database, autocommit=True)
        super().__init__(_read_row, Connections(database, psycopg.Connection, _is_idle), policy)

    def create(self) -> None:
        """Create the table if it does not exist."""
        with self.transaction() as transaction:
            transaction.connection.execute(self._sql["create_lock"], {"table": self._table})
            transaction.connection.execute(self._sql["create"])

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Start a transaction; the end of the block commits it, an error rolls it back.

        Raises:
            ConfigError: If the connection is already in a transaction, or the block ended ours.
        """
        with self._connections.one() as connection:
            if connection.info.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
                raise ConfigError(
                    "the connection is already in a transaction; commit it first, or pass a connection with "
                    "autocommit=True"
                )
            with connection.transaction():
                try:
                    yield PostgresTransaction(connection, self._sql)
                except psycopg.Rollback as error:  # psycopg would roll back silently
                    raise ConfigError(_ENDED_INSIDE) from error

    def _read(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a named query; it leaves no transaction open."""
        with self._connections.one() as connection:
            needs_transaction = (
                not connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
            )
            with connection.transaction() if needs_transaction else nullcontext():  # psycopg would leave its own open
                cursor: psycopg.Cursor[tuple[Any, ...]] = connection.cursor(row_factory=tuple_row)
                return cursor.execute(self._sql[name], values).fetchall()


def _is_idle(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


def _read_row(found: tuple[Any, ...]) -> StagingRow:
    values: list[Any] = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in found]
    return StagingRow(*values)
