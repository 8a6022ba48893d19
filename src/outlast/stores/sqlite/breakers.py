"""Breakers in SQLite, as processes tell of them and as people order them."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import cast

from outlast.decide.breaker import BY_HAND, ELSEWHERE
from outlast.ports.read_rows import BreakerOpening, BreakerOrder, BreakerRow
from outlast.ports.reads import SILENT_AFTER
from outlast.sql_files import load_statements
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.times import milliseconds, moment, now_ms

__all__ = ["SqliteBreakers"]

SQL = load_statements(__package__)


class SqliteBreakers:
    """The duty `Breakers`."""

    db: Database

    def tell_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Write how the breakers of a process stand."""
        if not rows:
            return
        now = now_ms()
        values = [
            {
                "resource": resource,
                "process": process,
                "state": state,
                "until": None if seconds is None else now + milliseconds(seconds),
                "reason": reason,
                "leased": int(leased),
                "now": now,
            }
            for resource, state, seconds, reason in rows
        ]
        self.db.write(lambda connection: connection.executemany(SQL["report_breaker"], values))

    def forget_breakers(self, process: str) -> None:
        """Forget a process that ends."""
        self.db.write(lambda connection: connection.execute(SQL["delete_breakers"], (process,)))

    def breakers(self) -> list[BreakerRow]:
        """Return them by resource and process."""
        now = now_ms()
        values = {"now": now, "heard": now - milliseconds(SILENT_AFTER)}
        rows = self.db.read(lambda connection: connection.execute(SQL["breakers"], values).fetchall())
        return [
            BreakerRow(resource, process, state, moment(until), reason, order, cast(datetime, moment(updated_at)))
            for resource, process, state, until, reason, order, updated_at in rows
        ]

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Have the breakers of a resource opened or closed in all processes."""
        now = now_ms()
        until = None if seconds is None else now + milliseconds(seconds)
        values = {"resource": resource, "state": state, "until": until, "now": now}
        number = self.db.write(lambda connection: connection.execute(SQL["order_breaker"], values).fetchone()[0])
        return BreakerOrder(number, resource, state, seconds)

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders whose number is larger."""
        values = {"after": after, "now": now_ms()}
        rows = self.db.read(lambda connection: connection.execute(SQL["breaker_orders"], values).fetchall())
        return [BreakerOrder._make(row) for row in rows]

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of some resources other processes leave alone by their own judgement."""
        values = {
            "process": process,
            "resources": json.dumps(list(resources)),
            "by_hand": BY_HAND,
            "elsewhere": ELSEWHERE,
            "now": now_ms(),
        }
        rows = self.db.read(lambda connection: connection.execute(SQL["opened_breakers"], values).fetchall())
        return [BreakerOpening._make(row) for row in rows]
