"""A service that begins while its store cannot be reached waits for it, unless waiting changes nothing."""

import asyncio
import sqlite3
import threading

import psycopg
import pytest

from outlast.errors import ConfigError, SchemaError
from outlast.run import store_wait
from outlast.run.store_wait import is_store_outage, wait_for_store, wait_for_store_async
from outlast.testing import fake_clock

REFUSED = ConnectionRefusedError("nobody listens")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(store_wait, "_PAUSES", (0.001, 0.004))
    monkeypatch.setattr(store_wait, "_TICK", 0.001)


class Store:
    """Fails so often, and is there then."""

    def __init__(self, *errors):
        self.errors, self.asked = list(errors), 0

    def check(self):
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)

    async def check_async(self):
        self.check()


def wait_for(way, store, stopping=None, tell=lambda *_: None):
    stopping = stopping or threading.Event()
    if way == "sync":
        return wait_for_store(store.check, stopping, tell)
    return asyncio.run(wait_for_store_async(store.check_async, stopping, tell))


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"),
        psycopg.OperationalError("failed to resolve host 'db.example': [Errno -2] Name or service not known"),
        psycopg.OperationalError(
            'connection is bad: connection to server on socket "/run/db/.s.PGSQL.5432" failed: No such file or directory'
        ),
        psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
        psycopg.errors.TooManyConnections("sorry, too many clients already"),
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("database or disk is full"),
    ],
)
def test_what_may_pass(error):
    assert is_store_outage(error)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "shop"'),
        psycopg.OperationalError('connection failed: FATAL:  database "shop" does not exist'),
        psycopg.OperationalError("connection failed: FATAL:  no such database: shop"),
        psycopg.OperationalError("connection failed: FATAL:  unsupported startup parameter: options"),
        psycopg.OperationalError("connection failed: server does not support SSL, but SSL was required"),
        psycopg.OperationalError('connection failed: root certificate file "/ca.pem" does not exist'),
        SchemaError(0, 5),
        ConfigError("no such thing"),
        ValueError("a bug"),
    ],
)
def test_what_waiting_does_not_help_against(error):
    assert not is_store_outage(error)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_it_is_tried_until_it_succeeds_and_told_of_each_time(way):
    told, store = [], Store(*[REFUSED] * 4)
    assert wait_for(way, store, tell=lambda error, pause: told.append((error, pause)))
    assert store.asked == 5
    assert told == [(REFUSED, pause) for pause in (0.001, 0.002, 0.004, 0.004)]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_stop_ends_it(way):
    stopping, store = threading.Event(), Store(*[REFUSED] * 1000)

    def tell(*_):
        if store.asked == 3:
            stopping.set()

    assert not wait_for(way, store, stopping, tell)
    assert store.asked == 3


@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_does_not_pass_is_raised(way):
    store = Store(REFUSED, SchemaError(0, 5))
    with pytest.raises(SchemaError):
        wait_for(way, store)
    assert store.asked == 2


@pytest.mark.parametrize("way", ["sync", "async"])
def test_after_a_minute_it_says_once_what_else_may_be_wrong(way, caplog):
    said = []
    with fake_clock() as clock:

        def tell(*_):
            said.append(caplog.text.count("check the URL"))
            clock.advance(25)

        assert wait_for(way, Store(*[REFUSED] * 6), tell=tell)
    assert said == [0, 0, 0, 1, 1, 1]
