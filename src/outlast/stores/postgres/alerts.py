"""The outbox of alerts in PostgreSQL. A lock per key orders the decisions about its alerts."""

import json
from collections.abc import Sequence
from typing import Any

from outlast.decide.decision import AlertKind, next_alert_kind
from outlast.ports.source_rows import Alert, AlertResult, NewAlert
from outlast.stores.postgres.connection import PostgresDatabase, in_utc

_dumps = json.JSONEncoder(separators=(",", ":")).encode


class PostgresAlerts:
    """Implements `Alerts`."""

    db: PostgresDatabase

    def raise_alerts(self, alerts: Sequence[NewAlert]) -> list[Alert]:
        """Add the alerts that are news."""
        with self.db.connection() as connection, connection.transaction():
            return raise_alerts_in(connection.cursor(binary=True), self.db.sql, alerts)

    def remind_alerts(self, after: float) -> list[Alert]:
        """Add a reminder for each key that has not recovered and whose last alert was delivered long ago."""
        values: dict[str, Any] = {"after": float(after)}
        keys = [row[0] for row in self.db.fetch("overdue_alerts", values, prepare=False)]
        if not keys:
            return []
        with self.db.connection() as connection, connection.transaction():
            cursor = connection.cursor(binary=True)
            cursor.execute(self.db.sql["lock_alerts"], {"keys": keys})
            rows = cursor.execute(self.db.sql["remind_alerts"], values | {"keys": keys}).fetchall()
        return [_read_alert(row) for row in rows]

    def claim_alerts(self, limit: int, lease: float) -> list[Alert]:
        """Claim alerts that are due and have no lease, oldest first."""
        return [_read_alert(row) for row in self.db.fetch("claim_alerts", {"limit": limit, "lease": float(lease)})]

    def settle_alerts(self, results: Sequence[AlertResult]) -> int:
        """Save results of deliveries."""
        return self.db.change("settle_alerts", {"results": _dumps([each._asdict() for each in results])})

    def alerts(self, *, waiting: bool | None = None, limit: int = 50) -> list[Alert]:
        """Return alerts, newest first."""
        rows = self.db.fetch("list_alerts", {"waiting": waiting, "limit": limit}, prepare=False)
        return [_read_alert(row) for row in rows]

    def last_alerts(self, keys: Sequence[str]) -> dict[str, Alert]:
        """Return the last alert of each key."""
        alerts = [_read_alert(row) for row in self.db.fetch("last_alerts", {"keys": list(keys)})]
        return {alert.key: alert for alert in alerts}

    def prune_alerts(self, older_than: float) -> int:
        """Delete alerts that were delivered long ago."""
        return self.db.change("prune_alerts", {"seconds": float(older_than)})


def raise_alerts_in(cursor: Any, sql: dict[str, bytes], alerts: Sequence[NewAlert]) -> list[Alert]:
    """Add the alerts that are news, in the caller's transaction, which must lock all other rows before."""
    if not alerts:
        return []
    keys = list({each.key for each in alerts})
    cursor.execute(sql["lock_alerts"], {"keys": keys})
    last_states: dict[str, str | None] = dict(cursor.execute(sql["open_alerts"], {"keys": keys}).fetchall())
    news = []
    for each in alerts:
        kind = next_alert_kind(last_states.get(each.key), each.state)
        if kind is not None:
            last_states[each.key] = each.state
            news.append(each._asdict() | {"kind": kind})
    if not news:
        return []
    return [_read_alert(row) for row in cursor.execute(sql["add_alerts"], {"alerts": _dumps(news)}).fetchall()]


def _read_alert(row: Sequence[Any]) -> Alert:
    alert = Alert._make(in_utc(row))
    return alert._replace(kind=AlertKind(alert.kind), delivered_to=tuple(alert.delivered_to))
