"""Alerts in memory."""

from collections.abc import Iterable, Sequence
from itertools import islice

from holdfast import clock
from holdfast.decide.alerting import AlertKind, next_kind
from holdfast.ports.source_rows import Alert, AlertResult, NewAlert
from holdfast.stores.memory.book import Book, Outgoing, moment
from holdfast.stores.memory.reads import group_of

__all__ = ["MemoryAlerts", "raise_alerts"]


class MemoryAlerts:
    """The duty `Alerts`."""

    book: Book

    def raise_alerts(self, alerts: Sequence[NewAlert]) -> list[Alert]:
        """Add those that are news."""
        with self.book.lock:
            return raise_alerts(self.book, alerts, clock.now())

    def remind_alerts(self, after: float) -> list[Alert]:
        """Add a reminder for each matter that is not well."""
        with self.book.lock:
            now = clock.now()
            return [
                _add(self.book, NewAlert(last.key, last.state, last.title, last.text), AlertKind.REMINDER, now)
                for last in _newest(self.book).values()
                if last.state is not None
                and last.delivered_at
                and last.delivered_at <= moment(now - after)
                and not _is_seen_to(self.book, last.key, now)
            ]

    def claim_alerts(self, limit: int, lease: float) -> list[Alert]:
        """Take alerts that are due, oldest first."""
        with self.book.lock:
            now = clock.now()
            waiting = [row for row in self.book.alerts.values() if row.alert.delivered_at is None]
            unsent: dict[str, int] = {}
            for row in waiting:
                if not row.alert.delivered_to:
                    unsent.setdefault(row.alert.key, row.alert.id)
            free = (
                row
                for row in waiting
                if row.due_at <= now
                and row.leased_until <= now
                and row.alert.id <= unsent.get(row.alert.key, row.alert.id)
            )
            return [_take(row, now + lease) for row in islice(free, limit)]

    def settle_alerts(self, results: Sequence[AlertResult]) -> int:
        """Write what became of deliveries."""
        with self.book.lock:
            return sum(_settle(self.book.alerts.get(result.id), result, clock.now()) for result in results)

    def alerts(self, *, waiting: bool | None = None, limit: int = 50) -> list[Alert]:
        """Return alerts, newest first."""
        with self.book.lock:
            known = [row.alert for row in reversed(self.book.alerts.values())]
            return [each for each in known if waiting in {None, each.delivered_at is None}][:limit]

    def last_alerts(self, keys: Sequence[str]) -> dict[str, Alert]:
        """Return the last alert of each key."""
        with self.book.lock:
            newest = _newest(self.book)
            return {key: newest[key] for key in keys if key in newest}

    def prune_alerts(self, older_than: float) -> int:
        """Delete alerts done with long ago."""
        with self.book.lock:
            before, newest = moment(clock.now() - older_than), _newest(self.book)
            old, staying = [], set()
            for alert in (row.alert for row in self.book.alerts.values()):
                if alert.delivered_at is not None and alert.delivered_at < before:
                    old.append(alert)
                else:
                    staying.add(alert.key)
            gone = [
                alert.id
                for alert in old
                if alert.id != newest[alert.key].id or (alert.state is None and alert.key not in staying)
            ]
            for number in gone:
                del self.book.alerts[number]
            return len(gone)


def raise_alerts(book: Book, alerts: Iterable[NewAlert], now: float) -> list[Alert]:
    """Add those that are news."""
    raised = []
    for alert in alerts:
        kind = next_kind(book.told.get(alert.key), alert.state)
        if kind is not None:
            raised.append(_add(book, alert, kind, now))
    return raised


def _newest(book: Book) -> dict[str, Alert]:
    """Return the last alert of each key."""
    return {row.alert.key: row.alert for row in book.alerts.values()}


def _is_seen_to(book: Book, key: str, now: float) -> bool:
    """Tell whether an alert is of a group that is snoozed or acknowledged now."""
    kind, _, fingerprint = key.partition(":")
    if kind not in {"group", "growth"} or fingerprint not in book.books.groups:
        return False
    return group_of(book.books, fingerprint).standing(moment(now)) != "open"


def _add(book: Book, alert: NewAlert, kind: AlertKind, now: float) -> Alert:
    number = next(book.alert_ids)
    added = Alert(number, alert.key, kind, alert.state, alert.title, alert.text, 0, 0, (), None, None, moment(now))
    book.alerts[number] = Outgoing(added, now)
    book.told[alert.key] = alert.state
    return added


def _take(row: Outgoing, until: float) -> Alert:
    row.alert = row.alert._replace(epoch=row.alert.epoch + 1, deliveries=row.alert.deliveries + 1)
    row.leased_until = until
    return row.alert


def _settle(row: Outgoing | None, result: AlertResult, now: float) -> bool:
    """Write what became of one delivery; tell whether it was still the caller's."""
    if row is None or row.alert.epoch != result.epoch or row.alert.delivered_at is not None:
        return False
    done = moment(now) if result.again is None else None
    row.alert = row.alert._replace(delivered_to=tuple(result.delivered_to), last_error=result.error, delivered_at=done)
    row.due_at, row.leased_until = now + (result.again or 0.0), 0.0
    return True
