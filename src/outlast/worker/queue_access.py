"""From what a program has at hand, an app, a store or a connection, to the queue behind it."""

import sys
from typing import Any, cast

from outlast.errors import ConfigError
from outlast.ports.engine import AttemptReports
from outlast.ports.store import Store


def handling_of(queue_db: Any) -> AttemptReports:
    """Return where failed attempts are written.

    Args:
        queue_db: An app, a store, or a connection of sqlite3 or psycopg.

    Raises:
        ConfigError: If it is none of these.
        SchemaError: If a connection's tables do not fit, or are missing in PostgreSQL. SQLite's are created.
    """
    if _is_connection_of("sqlite3", queue_db):
        from outlast.stores.sqlite import engine as sqlite  # noqa: PLC0415  # the one that is asked for

        return sqlite.SqliteEngineTasks(sqlite.SqliteCallerConnection(queue_db))
    if _is_connection_of("psycopg", queue_db):
        from outlast.stores.postgres import engine as postgres  # noqa: PLC0415  # the one that is asked for

        return postgres.PostgresEngineTasks(postgres.PostgresCallerConnection(queue_db))
    store: Any = getattr(queue_db, "store", queue_db)
    if isinstance(store, AttemptReports):
        return store
    for kind in type(store).__mro__:
        match kind.__module__, kind.__name__:
            case "outlast.stores.sqlite.store", "SqliteStore":
                from outlast.stores.sqlite.engine import SqliteEngineTasks  # noqa: PLC0415  # as above

                return SqliteEngineTasks(store.db)
            case "outlast.stores.postgres.store", "PostgresStore":
                from outlast.stores.postgres.engine import PostgresEngineTasks  # noqa: PLC0415  # as above

                return PostgresEngineTasks(store.db)
    raise _unusable_queue_error(queue_db)


def store_of(queue_db: Any) -> tuple[Store, bool]:
    """Return the store of a queue, and whether it was opened here and has to be closed here.

    For a connection, a store of its own is opened on the same database: a worker's signs of life come from another
    thread, and must not wait for the caller's transactions.

    Raises:
        ConfigError: If there is no way to it.
    """
    if _is_connection_of("sqlite3", queue_db):
        from outlast.stores.sqlite.engine import connection_file  # noqa: PLC0415  # the one that is asked for
        from outlast.stores.sqlite.store import SqliteStore  # noqa: PLC0415  # the one that is asked for

        path = connection_file(queue_db)
        if not path:
            message = "queue_db is a database in memory, which no second connection can reach; give a file, or an App"
            raise ConfigError(message)
        return SqliteStore(path), True
    if _is_connection_of("psycopg", queue_db):
        from outlast.stores.postgres.engine import connection_url  # noqa: PLC0415  # the one that is asked for
        from outlast.stores.postgres.store import PostgresStore  # noqa: PLC0415  # the one that is asked for

        return PostgresStore(connection_url(queue_db)), True
    store = getattr(queue_db, "store", queue_db)
    if not all(hasattr(store, name) for name in ("settle_and_claim", "register", "heartbeat", "leave")):
        raise _unusable_queue_error(queue_db)
    return cast(Store, store), False


def _is_connection_of(library: str, thing: object) -> bool:
    """Tell without importing a library: whoever has a connection of it has loaded it."""
    loaded = sys.modules.get(library)
    return loaded is not None and isinstance(thing, loaded.Connection)


def _unusable_queue_error(thing: object) -> ConfigError:
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    return ConfigError(f"queue_db is {kind}; give an App, a store, or a connection of sqlite3 or psycopg (not async)")
