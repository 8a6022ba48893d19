"""Work within a transaction that is the caller's own."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["in_transaction_of"]

_BY_ISOLATION_LEVEL = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, from Python 3.12 on


@contextmanager
def in_transaction_of(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    """Have all that is done in the block stand in the caller's transaction, or none of it; nothing is committed.

    Where the caller's connection commits by itself, the block is a transaction of its own.

    Yields:
        A cursor whose rows are tuples, whatever the caller has made of rows.
    """
    cursor = connection.cursor()
    cursor.row_factory = None
    begins_itself = (
        connection.isolation_level is not None
        and getattr(connection, "autocommit", _BY_ISOLATION_LEVEL) == _BY_ISOLATION_LEVEL
    )
    if begins_itself and not connection.in_transaction:
        cursor.execute("BEGIN")  # by hand: Python begins none for CREATE TABLE
        try:
            yield cursor
        except BaseException:
            connection.rollback()
            raise
        return
    cursor.execute("SAVEPOINT outlast")
    try:
        yield cursor
    except BaseException:
        if connection.in_transaction:  # a full disk ends it by itself
            cursor.execute("ROLLBACK TO outlast")
            cursor.execute("RELEASE outlast")
        raise
    cursor.execute("RELEASE outlast")
