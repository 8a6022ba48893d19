"""Putting the books of a SQLite file right by what is there."""

import sqlite3

from outlast.sql_files import load_statements
from outlast.stores.recounting import found_of, missing, shown_wrong
from outlast.stores.sqlite.booking import count_tasks
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.times import now_ms

__all__ = ["SqliteRecounting"]

SQL = load_statements(__package__)


class SqliteRecounting:
    """The part of `Reads` that counts."""

    db: Database

    def recount(self) -> dict[str, int]:
        """Put the books right. All who write wait for it."""
        now = now_ms()
        return self.db.write(lambda connection: _recount(connection, now))


def _recount(connection: sqlite3.Connection, now: int) -> dict[str, int]:
    count_tasks(connection, connection.execute(SQL["newest_task_id"]).fetchone()[0])
    rebuilt = connection.execute(SQL["repair_dead_letters"], {"now": now}).rowcount
    found = found_of(connection.execute(SQL["repair_compare"]))
    more = missing(found)
    rows = [key._asdict() | {"n": count, "now": now} for key, count in more.items()]
    connection.executemany(SQL["repair_totals"], rows)
    connection.execute(SQL["repair_missing_groups"])
    connection.execute(SQL["repair_groups"])
    return shown_wrong(found, more, rebuilt)
