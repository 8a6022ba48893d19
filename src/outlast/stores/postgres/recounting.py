"""Putting the books right by what is there, in PostgreSQL."""

import json

from outlast.stores.postgres.connection import Database
from outlast.stores.recounting import found_of, missing, shown_wrong

__all__ = ["PostgresRecounting"]


class PostgresRecounting:
    """The part of `Reads` that counts."""

    db: Database

    def recount(self) -> dict[str, int]:
        """Put the books right. Nobody waits for it but the roll-up: what is looked at is of one moment."""
        sql = self.db.sql
        with self.db.connection() as connection, connection.transaction():
            connection.execute(sql["lock_rollup"])
            rebuilt = connection.execute(sql["repair_dead_letters"]).rowcount
            found = found_of(connection.execute(sql["repair_compare"]).fetchall())
            more = missing(found)
            rows = [key._asdict() | {"n": count} for key, count in more.items()]
            connection.execute(sql["repair_totals"], {"rows": json.dumps(rows)})
            connection.execute(sql["repair_missing_groups"])
            connection.execute(sql["repair_groups"])
        return shown_wrong(found, more, rebuilt)
