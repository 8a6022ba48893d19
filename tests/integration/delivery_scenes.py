"""What the tests of the courier share: channels that note and fail as they are told, and a store that does."""

from __future__ import annotations

import logging
import threading

from outlast import clock
from outlast.errors import NetworkError
from outlast.ports.source_rows import NewAlert
from outlast.stores.sqlite.store import SqliteStore

SECRET = "/services/T0/B0/uVxYz12345secret"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def new_store(folder):
    made = SqliteStore(folder / "outlast.db", synchronous="NORMAL")
    made.create_schema()
    return made


class Noting:
    """A channel that notes what it gets, and when; it fails as it is told."""

    def __init__(self, name="noting", *errors):
        self.name, self.errors = name, list(errors)
        self.tried, self.got = [], []

    def send(self, message):
        self.tried.append(clock.monotonic() - 1000.0)  # where a fake clock begins
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.got.append(message.title)


class Dead(Noting):
    """A channel that never works."""

    def __init__(self, name="dead", error=None):
        super().__init__(name)
        self.error = error or NetworkError("gone")

    def send(self, message):
        super().send(message)
        self.got.clear()
        raise self.error


class Waiting(Noting):
    """A channel that tells another thread that it got something."""

    def __init__(self, *errors):
        super().__init__("waiting", *errors)
        self.arrived = threading.Semaphore(0)

    def send(self, message):
        super().send(message)
        self.arrived.release()


class Failing:
    """A store whose methods fail as told."""

    def __init__(self, store, **errors):
        self.store, self.errors = store, errors

    def __getattr__(self, name):
        if self.errors.get(name):
            raise self.errors[name].pop(0)
        return getattr(self.store, name)


def news(key="source:1", state="disabled", title=None):
    return NewAlert(key, state, title or f"{key} is {state or 'well'}", "403 Forbidden")


def waiting(store):
    return store.alerts(waiting=True, limit=1000)


def done(store):
    return store.alerts(waiting=False, limit=1000)


def errors_in(caplog):
    return [record for record in caplog.records if record.name == "outlast.notify" and record.levelno == logging.ERROR]
