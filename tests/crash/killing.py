"""Where the program kills itself. The points are put around functions of Outlast by name, so it needs no hooks.

``claimed``    after a claim of which some tasks are only held
``started``    after the start of held tasks was marked, before they are called
``effect``     after a task's side effect
``settling``   before outcomes are written
``buffered``   the same, after more outcomes have been gathered
``settled``    after outcomes were committed, before the worker has seen the answer
``done sql``   inside a transaction that settles, after tasks are DONE in it
``dead sql``   inside a transaction that fails a task, after it is FAILED in it; on SQLite before its dead letter is there,
               on PostgreSQL one statement does both
``replayed``   after a dead letter was replayed
``replay sql`` inside a transaction that replays, after the task is queued again; on SQLite before its dead letter is gone
``stepping``   before a step of a replay that workers carry on
``stepped``    after it was committed, before the worker has seen the answer
``ending``     before such a replay is ended

``name:3`` means at the third pass.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from pathlib import Path

_SQL = {
    "done sql": {"sqlite": "settle_done", "postgres": "settle_and_claim"},
    "dead sql": {"sqlite": "settle_fail", "postgres": "settle_fail"},
    "replay sql": {"sqlite": "replay_dead_letter", "postgres": "replay_dead_letter"},
}
"""Names of the statements after which it happens, where the transaction has not ended with them."""
_armed = {"point": "", "left": 1}


def passed(point):
    """Die if this is the point, and the pass."""
    if point == _armed["point"]:
        _armed["left"] -= 1
        if _armed["left"] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal is on its way


def arm(app, where, hold):
    """Put the points where they belong.

    Args:
        app: Its store is watched.
        where: The point, and its pass.
        hold: So many tasks are held in reserve and none is started ahead; as measured if below 0.
    """
    name, _, number = where.partition(":")
    _armed.update(point=name, left=int(number or 1))
    if hold >= 0:
        from outlast.queue.admission import ClaimPace

        ClaimPace.ahead = property(lambda self: 0)
        ClaimPace.held = property(lambda self: hold)
    if name in _SQL:
        _watch_statements(app.store, name)
    elif name in {"stepping", "stepped", "ending"}:
        _watch_replays(app.store)
    elif name:
        _watch_turns(app.store)


def limit(flag):
    """Let no database grow while a file is there; then SQLite says that the disk is full."""
    connect = sqlite3.connect

    class Limited(sqlite3.Connection):
        def execute(self, sql, *values):
            if sql.startswith("BEGIN"):
                pages = 1 if Path(flag).exists() else 1_000_000_000  # below its size means: no larger than it is
                super().execute(f"PRAGMA max_page_count = {pages}")
            return super().execute(sql, *values)

    sqlite3.connect = lambda *args, **kwargs: connect(*args, **({"factory": Limited} | kwargs))


def cut_off(store, flag):
    """Let nothing of the store be reached while a file is there."""

    def cut(method):
        def call(*args, **kwargs):
            if Path(flag).exists():
                raise sqlite3.OperationalError("database or disk is full")
            return method(*args, **kwargs)

        return call

    for name in (
        "settle_and_claim",
        "reconcile",
        "next_due",
        "suspects_due",
        "register",
        "heartbeat",
        "rescue",
        "prune",
    ):
        setattr(store, name, cut(getattr(store, name)))


def _watch_turns(store):
    turn = store.settle_and_claim

    def watched(asked):
        outcomes = len(asked.done) + len(asked.settlements)
        if outcomes:
            passed("settling")
            if _armed["point"] == "buffered":
                time.sleep(0.3)
                passed("buffered")
        turned = turn(asked)
        if any(not each.started for each in turned.claimed):
            passed("claimed")
        if asked.start:
            passed("started")
        if outcomes:
            passed("settled")
        return turned

    store.settle_and_claim = watched


def _watch_replays(store):
    step, end = store.replay_step, store.end_replay

    def watched(*args, **kwargs):
        passed("stepping")
        found = step(*args, **kwargs)
        passed("stepped")
        return found

    def ended(*args, **kwargs):
        passed("ending")
        return end(*args, **kwargs)

    store.replay_step, store.end_replay = watched, ended


def _watch_statements(store, name):
    kind = type(store).__module__.split(".")[2]
    if kind == "sqlite":
        _watch_sqlite(_SQL[name][kind], name)
    else:
        _watch_postgres(store.db.sql[_SQL[name][kind]], name)


def _watch_sqlite(statement, name):
    from outlast.sql_files import load_statements

    text = load_statements("outlast.stores.sqlite")[statement]

    class Watched(sqlite3.Connection):
        def execute(self, sql, *values):
            cursor = super().execute(sql, *values)
            if sql == text and self.in_transaction:
                passed(name)
            return cursor

    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: connect(*args, **({"factory": Watched} | kwargs))


def _watch_postgres(text, name):
    import psycopg

    execute = psycopg.Cursor.execute

    def watched(self, query, *args, **kwargs):
        cursor = execute(self, query, *args, **kwargs)
        if query == text and self.connection.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS:
            passed(name)
        return cursor

    psycopg.Cursor.execute = watched
