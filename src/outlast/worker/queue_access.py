"""Finds the queue behind an app, a store or a database connection."""

import sys
from typing import Any, cast

from outlast.errors import ConfigError
from outlast.ports.external_attempts import AttemptReports
from outlast.ports.store import Store


def attempt_reports_of(queue_db: Any) -> AttemptReports:
    """Return the part of a queue that records failed attempts.

    Args:
        queue_db: An app, a store, or a connection of sqlite3 or psycopg.

    Raises:
        ConfigError: If `queue_db` is not one of these.
        SchemaError: If the tables of a connection have another version, or do not exist in PostgreSQL. In SQLite they
            are created.
    """
    if _is_connection_of("sqlite3", queue_db):
        from outlast.stores.sqlite import external_attempts as sqlite  # noqa: PLC0415  # only the library in use is imported

        return sqlite.SqliteEngineTasks(sqlite.SqliteCallerConnection(queue_db))
    if _is_connection_of("psycopg", queue_db):
        from outlast.stores.postgres import external_attempts as postgres  # noqa: PLC0415  # only the library in use is imported

        return postgres.PostgresEngineTasks(postgres.PostgresCallerConnection(queue_db))
    store: Any = getattr(queue_db, "store", queue_db)
    if isinstance(store, AttemptReports):
        return store
    raise _unusable_queue_error(queue_db)


def store_of(queue_db: Any) -> tuple[Store, bool]:
    """Return the store of a queue, and whether it was opened here and must be closed by the caller.

    For a connection, a separate store is opened on the same database: the heartbeats of a worker come from another
    thread and must not wait for the caller's transactions.

    Raises:
        ConfigError: If `queue_db` is not an app, a store or a connection, or is an in-memory database.
    """
    if _is_connection_of("sqlite3", queue_db):
        from outlast.stores.sqlite.external_attempts import connection_file  # noqa: PLC0415  # only the library in use is imported
        from outlast.stores.sqlite.store import SqliteStore  # noqa: PLC0415  # only the library in use is imported

        path = connection_file(queue_db)
        if not path:
            raise ConfigError(
                "queue_db is an in-memory database, which a second connection cannot open; give a file or an App"
            )
        return SqliteStore(path), True
    if _is_connection_of("psycopg", queue_db):
        from outlast.stores.postgres import external_attempts as postgres  # noqa: PLC0415  # only the library in use is imported
        from outlast.stores.postgres.store import PostgresStore  # noqa: PLC0415  # only the library in use is imported

        return PostgresStore(postgres.connection_url(queue_db), schema=postgres.connection_schema(queue_db)), True
    store = getattr(queue_db, "store", queue_db)
    if not all(hasattr(store, name) for name in ("settle_and_claim", "register", "heartbeat", "leave")):
        raise _unusable_queue_error(queue_db)
    return cast(Store, store), False


def _is_connection_of(library: str, value: object) -> bool:
    """Return whether a value is a connection of a library. A library that is not loaded has no connections."""
    loaded = sys.modules.get(library)
    return loaded is not None and isinstance(value, loaded.Connection)


def _unusable_queue_error(value: object) -> ConfigError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return ConfigError(f"queue_db is {kind}; give an App, a store, or a connection of sqlite3 or psycopg (not async)")
