"""The outbox of alerts in SQLite."""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from outlast.decide.decision import AlertKind, next_alert_kind
from outlast.ports.source_rows import Alert, NewAlert
from outlast.stores.shared_methods import SharedAlerts
from outlast.stores.sqlite.connection import SqliteDatabase, bind, execute, ms_ago, read_row

_LISTS = {None: "list_alerts", True: "list_waiting_alerts", False: "list_delivered_alerts"}


class SqliteAlerts(SharedAlerts):
    """Implements `Alerts`."""

    db: SqliteDatabase

    def raise_alerts(self, alerts: Sequence[NewAlert]) -> list[Alert]:
        """Add the alerts that are news."""
        return self.db.write(lambda connection: raise_alerts(connection, alerts))

    def remind_alerts(self, after: float) -> list[Alert]:
        """Add a reminder for each key that has not recovered."""

        def work(connection: Connection) -> list[Alert]:
            values = bind({"before": ms_ago(after)})
            overdue = execute(connection, "overdue_alerts", values).fetchall()
            return [_add_alert(connection, NewAlert(*row), AlertKind.REMINDER) for row in overdue]

        return self.db.write(work)

    def claim_alerts(self, limit: int, lease: float) -> list[Alert]:
        """Claim alerts that are due, oldest first. If none is due, the file is not locked."""
        return super().claim_alerts(limit, lease) if self.db.fetch("claimable_alerts", {"limit": 1}) else []

    def alerts(self, *, waiting: bool | None = None, limit: int = 50) -> list[Alert]:
        """Return alerts, newest first."""
        return self.db.select(Alert, _LISTS[waiting], {"limit": limit})


def raise_alerts(connection: Connection, alerts: Iterable[NewAlert]) -> list[Alert]:
    """Add the alerts that are news, within a transaction."""
    raised = []
    for alert in alerts:
        last = execute(connection, "last_alert_state", {"key": alert.key}).fetchone()
        kind = next_alert_kind(None if last is None else last[0], alert.state)
        if kind is not None:
            raised.append(_add_alert(connection, alert, kind))
    return raised


def _add_alert(connection: Connection, alert: NewAlert, kind: AlertKind) -> Alert:
    values = bind(alert._asdict() | {"kind": kind})
    return read_row(Alert, execute(connection, "add_alert", values).fetchone())
