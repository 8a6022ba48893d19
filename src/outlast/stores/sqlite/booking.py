"""Deltas of the books in SQLite, written in the transaction of what they tell of."""

import sqlite3

from outlast.ports.read_rows import FlowEvent
from outlast.sql_files import load_statements
from outlast.stores.books import Tally

__all__ = ["book", "book_one", "count_tasks"]

SQL = load_statements(__package__)


def book(connection: sqlite3.Connection | sqlite3.Cursor, tally: Tally, now: int) -> None:
    """Write what a transaction adds to the books."""
    for key, count in tally.counts.items():
        connection.execute(SQL["add_delta"], (now, key.event.value, *key[1:], count))
    for fingerprint, (task_type, note) in tally.groups.items():
        values = (fingerprint, task_type, note.error_type, note.error_category, note.error_message, now)
        connection.execute(SQL["add_failure_group"], values)


def book_one(connection: sqlite3.Connection | sqlite3.Cursor, event: FlowEvent, count: int, now: int) -> None:
    """Write what needs no more than its name; nothing for none."""
    if count:
        connection.execute(SQL["add_delta"], (now, event.value, "", "", "", count))


def count_tasks(connection: sqlite3.Connection, up_to: int) -> None:
    """Write into the books which tasks are new, up to a number."""
    connection.execute(SQL["count_new_tasks"], {"up_to": up_to})
    connection.execute(SQL["advance_counted_tasks"], (up_to,))
