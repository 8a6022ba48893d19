"""The outbox of alerts in PostgreSQL. A lock per key orders the decisions about its alerts."""

from collections.abc import Sequence

from outlast.decide.decision import next_alert_kind
from outlast.ports.source_rows import Alert, NewAlert
from outlast.stores.postgres.connection import PostgresCursor, PostgresDatabase, dumps
from outlast.stores.shared_methods import SharedAlerts


class PostgresAlerts(SharedAlerts):
    """Implements `Alerts`."""

    db: PostgresDatabase

    def raise_alerts(self, alerts: Sequence[NewAlert]) -> list[Alert]:
        """Add the alerts that are news."""
        with self.db.transaction() as cursor:
            return raise_alerts_in(cursor, alerts)

    def remind_alerts(self, after: float) -> list[Alert]:
        """Add a reminder for each key that has not recovered and whose last alert was delivered long ago."""
        keys = self.db.column("overdue_alerts", {"after": float(after)})
        if not keys:
            return []
        with self.db.transaction() as cursor:
            cursor.fetch("lock_alerts", {"keys": keys})
            return cursor.select(Alert, "remind_alerts", {"after": float(after), "keys": keys})

    def alerts(self, *, waiting: bool | None = None, limit: int = 50) -> list[Alert]:
        """Return alerts, newest first."""
        return self.db.select(Alert, "list_alerts", {"waiting": waiting, "limit": limit})


def raise_alerts_in(cursor: PostgresCursor, alerts: Sequence[NewAlert]) -> list[Alert]:
    """Add the alerts that are news, in the caller's transaction, which must lock all other rows before."""
    if not alerts:
        return []
    keys = list({each.key for each in alerts})
    cursor.fetch("lock_alerts", {"keys": keys})
    last_states: dict[str, str | None] = dict(cursor.fetch("open_alerts", {"keys": keys}))
    news = []
    for each in alerts:
        kind = next_alert_kind(last_states.get(each.key), each.state)
        if kind is not None:
            last_states[each.key] = each.state
            news.append(each._asdict() | {"kind": kind})
    return cursor.select(Alert, "add_alerts", {"alerts": dumps(news)}) if news else []
