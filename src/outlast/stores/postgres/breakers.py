"""Breakers in PostgreSQL, as processes tell of them and as people order them."""

import json
from collections.abc import Sequence

from outlast.decide.breaker import BY_HAND, ELSEWHERE
from outlast.ports.read_rows import BreakerOpening, BreakerOrder, BreakerRow
from outlast.ports.reads import SILENT_AFTER
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.times import in_utc

__all__ = ["PostgresBreakers"]

_TOLD = ("resource", "state", "seconds", "reason")
_dumps = json.JSONEncoder(separators=(",", ":")).encode


class PostgresBreakers:
    """The duty `Breakers`."""

    db: Database

    def tell_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Write how the breakers of a process stand; of one that is named twice the last word counts."""
        if rows:
            told = {row[0]: dict(zip(_TOLD, row, strict=True)) for row in rows}
            values = {"process": process, "rows": _dumps([*told.values()]), "leased": leased}
            self.db.change("report_breakers", values)

    def forget_breakers(self, process: str) -> None:
        """Forget a process that ends."""
        self.db.change("delete_breakers", {"process": process})

    def breakers(self) -> list[BreakerRow]:
        """Return them by resource and process."""
        return [BreakerRow._make(in_utc(row)) for row in self.db.fetch("breakers", {"silent": SILENT_AFTER})]

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Have the breakers of a resource opened or closed in all processes."""
        values = {"resource": resource, "state": state, "seconds": None if seconds is None else float(seconds)}
        with self.db.connection() as connection, connection.transaction():
            connection.execute(self.db.sql["lock_breaker_orders"])
            number: int = connection.execute(self.db.sql["order_breaker"], values).fetchall()[0][0]
        return BreakerOrder(number, resource, state, seconds)

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders whose number is larger."""
        return [BreakerOrder._make(row) for row in self.db.fetch("breaker_orders", {"after": after})]

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of some resources other processes leave alone by their own judgement."""
        values = {"process": process, "resources": list(resources), "by_hand": BY_HAND, "elsewhere": ELSEWHERE}
        return [BreakerOpening._make(row) for row in self.db.fetch("opened_breakers", values)]
