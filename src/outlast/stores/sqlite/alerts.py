"""The outbox of alerts in SQLite."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from outlast.decide.decision import AlertKind, next_alert_kind
from outlast.ports.source_rows import Alert, AlertResult, NewAlert
from outlast.sql_files import load_statements
from outlast.stores.sqlite.connection import SqliteDatabase, milliseconds, now_ms, to_datetime

SQL = load_statements(__package__)
_LISTS = {None: "list_alerts", True: "list_waiting_alerts", False: "list_delivered_alerts"}
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class SqliteAlerts:
    """Implements `Alerts`."""

    db: SqliteDatabase

    def raise_alerts(self, alerts: Sequence[NewAlert]) -> list[Alert]:
        """Add the alerts that are news."""
        return self.db.write(lambda connection: raise_alerts(connection, alerts, now_ms()))

    def remind_alerts(self, after: float) -> list[Alert]:
        """Add a reminder for each key that has not recovered."""

        def work(connection: sqlite3.Connection) -> list[Alert]:
            now = now_ms()
            values = {"before": now - milliseconds(after), "now": now}
            open_ones = connection.execute(SQL["overdue_alerts"], values).fetchall()
            return [_add_alert(connection, NewAlert._make(row), AlertKind.REMINDER, now) for row in open_ones]

        return self.db.write(work)

    def claim_alerts(self, limit: int, lease: float) -> list[Alert]:
        """Claim alerts that are due, oldest first. If none is due, the file is not locked."""
        if not self.db.read(lambda connection: _claimable_alerts(connection, 1, now_ms())):
            return []

        def work(connection: sqlite3.Connection) -> list[Alert]:
            now = now_ms()
            values = {"ids": _dumps(_claimable_alerts(connection, limit, now)), "until": now + milliseconds(lease)}
            rows = connection.execute(SQL["claim_alerts"], values).fetchall()
            return sorted(map(_read_alert, rows))

        return self.db.write(work)

    def settle_alerts(self, results: Sequence[AlertResult]) -> int:
        """Save results of deliveries."""

        def work(connection: sqlite3.Connection) -> int:
            now = now_ms()
            return sum(connection.execute(SQL["settle_alert"], _result_values(each, now)).rowcount for each in results)

        return self.db.write(work)

    def alerts(self, *, waiting: bool | None = None, limit: int = 50) -> list[Alert]:
        """Return alerts, newest first."""
        sql = SQL[_LISTS[waiting]]
        return [
            _read_alert(row) for row in self.db.read(lambda connection: connection.execute(sql, (limit,)).fetchall())
        ]

    def last_alerts(self, keys: Sequence[str]) -> dict[str, Alert]:
        """Return the last alert of each key."""
        values = {"keys": _dumps(list(keys))}
        rows = self.db.read(lambda connection: connection.execute(SQL["last_alerts"], values).fetchall())
        return {alert.key: alert for alert in map(_read_alert, rows)}

    def prune_alerts(self, older_than: float) -> int:
        """Delete alerts that were delivered long ago."""
        values = {"before": now_ms() - milliseconds(older_than)}
        return self.db.write(lambda connection: connection.execute(SQL["prune_alerts"], values).rowcount)


def raise_alerts(connection: sqlite3.Connection, alerts: Iterable[NewAlert], now: int) -> list[Alert]:
    """Add the alerts that are news, within a transaction."""
    raised = []
    for alert in alerts:
        last = connection.execute(SQL["last_alert_state"], {"key": alert.key}).fetchone()
        kind = next_alert_kind(None if last is None else last[0], alert.state)
        if kind is not None:
            raised.append(_add_alert(connection, alert, kind, now))
    return raised


def _add_alert(connection: sqlite3.Connection, alert: NewAlert, kind: AlertKind, now: int) -> Alert:
    values = {**alert._asdict(), "kind": kind, "now": now}
    return _read_alert(connection.execute(SQL["add_alert"], values).fetchone())


def _claimable_alerts(connection: sqlite3.Connection, limit: int, now: int) -> list[int]:
    return [row[0] for row in connection.execute(SQL["claimable_alerts"], {"limit": limit, "now": now})]


def _result_values(result: AlertResult, now: int) -> dict[str, Any]:
    due = None if result.again is None else now + milliseconds(result.again)
    return {**result._asdict(), "delivered_to": _dumps(result.delivered_to), "due": due, "now": now}


def _read_alert(row: Sequence[Any]) -> Alert:
    values = dict(zip(Alert._fields, row, strict=True))
    values.update(kind=AlertKind(values["kind"]), delivered_to=tuple(json.loads(values["delivered_to"])))
    values.update(delivered_at=to_datetime(values["delivered_at"]), created_at=to_datetime(values["created_at"]))
    return Alert(**values)
