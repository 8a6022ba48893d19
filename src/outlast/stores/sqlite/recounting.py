"""Putting the books of a SQLite file right by what is there."""

import sqlite3

from outlast.stores.queries import queries
from outlast.stores.recounting import found_of, missing, shown_wrong
from outlast.stores.sqlite.booking import count_tasks
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.times import now_ms

__all__ = ["SqliteRecounting"]

SQL = queries(__package__)


class SqliteRecounting:
    """The part of `Reads` that counts."""

    db: Database

    def recount(self) -> dict[str, int]:
        """Put the books right. All who write wait for it."""
        now = now_ms()
        return self.db.write(lambda connection: _recount(connection, now))


def _recount(connection: sqlite3.Connection, now: int) -> dict[str, int]:
    count_tasks(connection, connection.execute("SELECT coalesce(max(id), 0) FROM task_queue").fetchone()[0])
    rebuilt = connection.execute(SQL["recount_orphans"], {"now": now}).rowcount
    found = found_of(connection.execute(SQL["recount"]))
    more = missing(found)
    rows = [key._asdict() | {"n": count, "now": now} for key, count in more.items()]
    connection.executemany(SQL["recount_add"], rows)
    connection.execute(SQL["recount_new_groups"])
    connection.execute(SQL["recount_groups"])
    return shown_wrong(found, more, rebuilt)
