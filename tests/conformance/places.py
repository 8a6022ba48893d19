"""Where the data of a store under test is: it can be opened more than once, and looked at from outside."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from outlast.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from outlast.ports.store import Store
    from servers.postgres import PostgresServer

_numbers = count(1)


@dataclass
class SqlitePlace:
    """A file."""

    path: Path
    opened: list[SqliteStore] = field(default_factory=list)
    kind: str = "sqlite"

    def open(self) -> Store:
        store = SqliteStore(self.path, synchronous="NORMAL")  # the power stays on while tests run
        self.opened.append(store)
        return store

    def connect(self) -> Any:
        return sqlite3.connect(self.path, timeout=5)

    def raise_ids(self, beyond: int) -> None:
        with self.connect() as connection:
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('task_queue', ?)", (beyond,))
        connection.close()

    def age_deltas(self) -> None:
        """Let twenty seconds pass for what is in the books one by one, or is not in them yet."""
        connection = self.connect()
        with connection:
            connection.execute("UPDATE task_flow SET at = at - 20000 WHERE span = 0")
            connection.execute(
                "UPDATE task_queue SET created_at = created_at - 20000 WHERE id > (SELECT up_to FROM counted_tasks)"
            )
        connection.close()

    def age_breakers(self, seconds: float) -> None:
        """Have been told of breakers so long ago."""
        connection = self.connect()
        with connection:
            connection.execute("UPDATE breakers SET updated_at = updated_at - ?", (seconds * 1000,))
        connection.close()

    def blank(self) -> SqlitePlace:
        return SqlitePlace(self.path.with_name(f"blank{next(_numbers)}.db"))

    def close(self) -> None:
        for store in self.opened:
            store.close()


@dataclass
class PostgresPlace:
    """A database of a server that all tests of this process share."""

    server: PostgresServer
    database: str
    opened: list[Any] = field(default_factory=list)
    clearing: Any = None
    kind: str = "postgres"

    @property
    def url(self) -> str:
        return self.server.url.rpartition("/")[0] + f"/{self.database}"

    def open(self) -> Store:
        from outlast.stores.postgres.store import PostgresStore

        store = PostgresStore(self.url)
        self.opened.append(store)
        return store

    def connect(self) -> Any:
        return psycopg.connect(self.url)

    def raise_ids(self, beyond: int) -> None:
        with self.connect() as connection:
            connection.execute("SELECT setval(pg_get_serial_sequence('task_queue', 'id'), %s)", (beyond,))

    def age_deltas(self) -> None:
        """Let twenty seconds pass for what is in the books one by one."""
        with self.connect() as connection:
            connection.execute("UPDATE task_flow SET at = at - interval '20 seconds' WHERE span = 0")

    def age_breakers(self, seconds: float) -> None:
        """Have been told of breakers so long ago."""
        with self.connect() as connection:
            connection.execute("UPDATE breakers SET updated_at = updated_at - make_interval(secs => %s)", (seconds,))

    def blank(self) -> PostgresPlace:
        name = f"blank{next(_numbers)}"
        self.server.execute(f"CREATE DATABASE {name}")
        return PostgresPlace(self.server, name)

    def clear(self) -> None:
        """Empty the tables, all in one statement; for a few rows that is quicker than a new database or TRUNCATE."""
        if self.clearing is None or self.clearing.closed:
            self.clearing = self.connect()
        with self.clearing.transaction():
            tables = self.clearing.execute(
                "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'outlast' AND tablename <> 'schema_version'"
            ).fetchall()
            self.clearing.execute("; ".join(f"DELETE FROM {table}" for (table,) in tables))

    def close(self) -> None:
        for store in self.opened:
            store.close()
        if self.clearing is not None:
            self.clearing.close()


def has_postgres() -> bool:
    """Tell whether the store for PostgreSQL is there."""
    return find_spec("outlast.stores.postgres") is not None and find_spec("outlast.stores.postgres.store") is not None


def need_postgres() -> None:
    """Skip where there is no such store, and fail in CI."""
    if not has_postgres():
        reason = "outlast.stores.postgres.store is not there yet"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def drop_table(place: Any, table: str) -> None:
    """Drop a table by hand, with what refers to it."""
    with place.connect() as connection:
        if place.kind == "postgres":
            connection.execute("SET search_path TO outlast, public")
            connection.execute(f"DROP TABLE {table} CASCADE")
        else:
            connection.execute(f"DROP TABLE {table}")
    connection.close()
