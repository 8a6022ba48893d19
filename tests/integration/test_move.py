"""All that a SQLite file holds goes to PostgreSQL, is the same there, and everything goes on."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.places import need_postgres
from crash.processes import until
from integration.moving_world import build, check_same, execute, here, poll, run_move, there, used_file  # noqa: F401  # fixtures
from outlast.cli import cli
from outlast.ports.rows import NewTask, Status, TaskFilter
from outlast.ports.triage import ReplayState
from outlast.stores.move.plan import COLUMN_EXPRESSIONS, GENERATED_COLUMNS, MOVED_TABLES, NOT_MOVED
from outlast.stores.move.row_copy import Column, select_lines
from outlast.stores.postgres.store import PostgresStore
from outlast.stores.sqlite.connection import now_ms
from outlast.stores.sqlite.store import SqliteStore

need_postgres()

DROPPED_COLUMNS = {"task_flow": {"seen"}, "replays": {"forgiven"}}
"""SQLite columns that PostgreSQL does not need."""


def test_everything_is_the_same_there(here, there):  # noqa: F811  # fixtures
    moved = run_move(here, there, batch=20)
    assert (moved.already, moved.resumed, moved.rescued, moved.strangers) == (False, False, 2, [])
    assert moved.copied == sum(moved.tables.values())
    assert all(moved.tables.values()), "the file is to have something of everything"

    told = check_same(here, there)

    assert {each.status for each in told["tasks"]} == set(Status) - {Status.RUNNING}
    assert any(each.suspect for each in told["tasks"])
    assert any(each.consecutive_failures for each in (source.health for source in told["sources"]))
    assert {alert.delivered_at is None for alert in told["alerts"]} == {True, False}
    again = run_move(here, there)
    assert (again.already, again.copied) == (True, 0)
    check_same(here, there)


@contextmanager
def working(app):
    """Within the block, a worker works."""
    worker = app.worker(["default", "lost"])
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(30)


def test_everything_goes_on(here, there, tmp_path, monkeypatch):  # noqa: F811  # fixtures
    monkeypatch.setattr("outlast.queue.heartbeat.REPLAY_EVERY", 0.05)
    due = now_ms() + 1500
    execute(tmp_path / "outlast.db", "UPDATE task_queue SET next_run_after = ? WHERE task_type = 'flaky'", due)
    run_move(here, there)
    app = build(there, tmp_path)
    known = {each.id: each for each in app.store.find(TaskFilter(limit=1000))}
    before = ran(tmp_path)
    (tmp_path / "fixed").touch()

    # what was told is not told again; unique keys hold, numbers go on
    waiting = {each.id for each in app.store.alerts(limit=100) if each.delivered_at is None}
    assert {each.id for each in app.store.claim_alerts(100, 0.0)} < waiting
    fine = app.tasks_by_name["fine"]
    assert not fine.enqueue(51, unique_key="live").created
    assert not app.store.enqueue([NewTask("nobody.knows", "{}", unique_key="parked")])[0].created
    assert fine.enqueue(100).id > max(known)

    # a retry runs at its time, a replay goes on from its canary, a dead letter is replayed by hand
    (retry,) = [each for each in known.values() if each.task_type == "flaky"]
    (replay,) = app.dead_letters.replays()
    (dead,) = [each for each in app.dead_letters.list() if each.unique_key == "dead"]
    assert round(retry.next_run_after.timestamp() * 1000) == due
    assert (replay.state, replay.stage) == (ReplayState.RUNNING, 0)
    assert app.dead_letters.replay(dead.id)[0].outcome == "replayed"
    with working(app):
        until(lambda: app.dead_letters.replay_run(replay.id).state is not ReplayState.RUNNING, 30, "replayed")
        until(lambda: not app.store.find(TaskFilter(status=Status.RUNNING)) and runs_no_more(app), 30, "all ran")
    assert app.store.get(retry.id).finished_at >= retry.next_run_after
    ended = app.dead_letters.replay_run(replay.id)
    assert (ended.state, ended.replayed, ended.conflicts) == (ReplayState.DONE, 5, 0)
    assert app.store.get(dead.original_task_id).status is Status.DONE
    more = ran(tmp_path) - before
    assert {name: more[name] for name in ("flaky 1", "fine 60", "fine 61", "fine 100", "fine 51", "fine 1")} == {
        "flaky 1": 1, "fine 60": 1, "fine 61": 1, "fine 100": 1, "fine 51": 0, "fine 1": 0,
    }  # fmt: skip

    _job_and_sources(app, tmp_path, before)
    app.store.roll_up()
    app.close()
    told = CliRunner().invoke(cli, ["doctor", "--url", there, "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["ok"] is True


def runs_no_more(app):
    """Tell whether all is over but what is to run in an hour, or by whom nobody knows."""
    live = app.store.find(TaskFilter(status=Status.QUEUED, limit=1000))
    soon = app.store.now() + timedelta(minutes=10)
    return all(each.next_run_after > soon for each in live)


def _job_and_sources(app, folder, before):
    (run,) = app.store.runs()
    app.items.run(range(8), resume=run.id)
    assert {name: count for name, count in (ran(folder) - before).items() if name.startswith("items")} == {
        "items 3": 1,
        "items 7": 1,
    }
    streaks = {each.id: each.health.consecutive_failures for each in app.sources.list() if each.profile == "feed"}
    assert set(streaks.values()) == {0, 3}
    poll(app, 2)
    for number, streak in streaks.items():
        assert (app.store.source(number).state == "disabled") == (streak == 3)
        assert len(app.store.polls(number, 100)) >= 5


def ran(folder):
    return Counter((folder / "ran").read_text().splitlines())


class TestPlan:
    """A table or a column that is added later is moved, or it is said why not."""

    @pytest.fixture(scope="class")
    def schemas(self, tmp_path_factory, postgres_server):
        path = tmp_path_factory.mktemp("plan") / "outlast.db"
        SqliteStore(path).create_schema()
        connection = sqlite3.connect(path)
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        lite = {
            name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
            for name in tables
            if not name.startswith("sqlite_") and name != "schema_version"
        }
        connection.close()
        postgres_server.execute("CREATE DATABASE planned")
        url = f"{postgres_server.url.rpartition('/')[0]}/planned"
        store = PostgresStore(url)
        store.create_schema()
        store.close()
        columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'outlast'"
        full = {}
        with psycopg.connect(url) as own:
            for table, column in own.execute(columns):
                if table != "schema_version":
                    full.setdefault(table, set()).add(column)
        return lite, full

    def test_every_table_is_moved_or_named(self, schemas):
        lite, full = schemas
        assert set(MOVED_TABLES) == lite.keys() - NOT_MOVED.keys() == full.keys() - NOT_MOVED.keys()
        assert NOT_MOVED.keys() <= lite.keys()
        assert all(NOT_MOVED.values())

    @pytest.mark.parametrize("table", MOVED_TABLES)
    def test_every_column_is_moved_or_named(self, schemas, table):
        lite, full = schemas[0][table], schemas[1][table]
        given, left, drawn = (
            set(COLUMN_EXPRESSIONS.get(table, {})),
            DROPPED_COLUMNS.get(table, set()),
            GENERATED_COLUMNS.get(table, set()),
        )
        assert full - given - drawn <= lite, "each has a column that it comes from"
        assert lite - full == left, "nothing of the file is forgotten"
        assert given | drawn <= full


KINDS = {
    "id": "bigint",
    "t": "timestamp with time zone",
    "n": "bigint",
    "b": "boolean",
    "f": "double precision",
    "s": "text",
    "a": "text[]",
}


class TestLines:
    """What SQLite makes of a row is what PostgreSQL reads."""

    @pytest.fixture(scope="class")
    def both(self, postgres_server):
        lite = sqlite3.connect(":memory:", check_same_thread=False)
        lite.execute(
            "CREATE TABLE odd (id INTEGER PRIMARY KEY, t INTEGER, n INTEGER, b INTEGER, f REAL, s TEXT, a TEXT)"
        )
        with psycopg.connect(postgres_server.url, autocommit=True) as full:
            full.execute(f"CREATE TEMP TABLE odd ({', '.join(f'{name} {kind}' for name, kind in KINDS.items())})")
            yield lite, full
        lite.close()

    texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))

    @settings(max_examples=50)
    @given(
        st.lists(
            st.tuples(
                st.none() | st.integers(0, 253_402_300_799_000),
                st.none() | st.integers(-(2**63), 2**63 - 1),
                st.none() | st.booleans(),
                st.none() | st.floats(-1e15, 1e15),
                st.none() | texts,
                st.lists(texts),
            ),
            max_size=5,
        )
    )
    def test_all_values(self, both, rows):
        lite, full = both
        lite.execute("DELETE FROM odd")
        full.execute("DELETE FROM odd")
        stored = [(number, *row[:5], json.dumps(row[5])) for number, row in enumerate(rows)]
        lite.executemany("INSERT INTO odd VALUES (?, ?, ?, ?, ?, ?, ?)", stored)
        columns = [Column(name, kind, name) for name, kind in KINDS.items()]
        lines = lite.execute(select_lines("odd", columns, ["id"], after=False), (10,)).fetchall()
        with full.cursor().copy("COPY odd FROM STDIN") as copy:
            copy.write(b"".join(line + b"\n" for line, _ in lines))

        found = full.execute("SELECT (extract(epoch FROM t) * 1000)::bigint, n, b, f, s, a FROM odd ORDER BY id")

        assert found.fetchall() == rows

    def test_a_time_that_no_datetime_can_hold(self, both):
        lite, _ = both
        lite.execute("DELETE FROM odd")
        lite.executemany("INSERT INTO odd (t) VALUES (?)", [(-5,), (2**62,)])
        sql = select_lines("odd", [Column("t", KINDS["t"], "t")], ["id"], after=False)

        assert [line for line, _ in lite.execute(sql, (10,))] == [
            b"1970-01-01 00:00:00.000+00",
            b"9999-12-31 23:59:59.000+00",
        ]


def test_how_often_a_task_may_take_a_worker_down_is_not_judged(here, there, tmp_path):  # noqa: F811  # fixtures
    execute(tmp_path / "outlast.db", "UPDATE task_queue SET crash_count = 50 WHERE status = 'RUNNING'")
    assert run_move(here, there).rescued == 2
    app = build(there, tmp_path)

    lost = app.store.find(TaskFilter(queue="lost"))

    assert [(each.status, each.crash_count) for each in lost] == [(Status.QUEUED, 50)] * 2
    app.close()


def test_numbers_that_are_gone_are_not_given_again(here, there, tmp_path):  # noqa: F811  # fixtures
    app = build(here, tmp_path)
    number = app.tasks_by_name["fine"].enqueue(1).id
    execute(tmp_path / "outlast.db", "DELETE FROM task_queue WHERE id = ?", number)
    app.store.recount()
    app.close()
    run_move(here, there)
    app = build(there, tmp_path)

    assert app.tasks_by_name["fine"].enqueue(1).id == number + 1
    app.close()
