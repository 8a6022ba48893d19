"""Databases that an earlier version wrote: load a copy, list what is in it, and run what is live.

`tools/record_old_database.py` made the data in tests/data and uses this file as well. The name of this file and of the
task functions below is part of the fingerprints in the data: rename one, and a repeated failure starts a new group.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

import outlast
from cli_world import cli
from outlast.errors import PermanentError, RateLimitError, ResourceNotFoundError, SchemaError

DATA = Path(__file__).resolve().parent.parent / "data"
COUNTS = DATA / "old_databases.json"
DUMPS = {"sqlite": DATA / "old_sqlite.sql.gz", "postgres": DATA / "old_postgres.sql.gz"}
FAR = datetime(2100, 1, 1, tzinfo=UTC)
"""What must still be waiting when the test runs waits until then. Everything else is due when the data is recorded."""

# Nothing in the data may depend on its age: tasks, dead letters and runs are kept, old dead letters raise no alert.
_SETTINGS = {"keep_done": None, "keep_runs": None, "alert_age": None, "heartbeat": 0.2}
_QUICK = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=1.0, jitter="none")
_LIMIT = 60  # seconds until a worker that does not come to an end fails the test

_ROWS = {
    "tasks": "SELECT task_type || ' ' || status, count(*) FROM task_queue GROUP BY 1",
    "dead letters": (
        "SELECT task_type || ' ' || reason || ' ' || error_category, count(*) FROM dead_letter_queue GROUP BY 1"
    ),
    "failed attempts": (
        "SELECT task_type || ' ' || outcome || ' ' || error_type, count(*)"
        " FROM task_attempts JOIN task_queue ON task_queue.id = task_id GROUP BY 1"
    ),
    # Groups without dead letters are deleted after some months.
    "failure groups": (
        "SELECT task_type || ' ' || error_type, count(*) FROM failure_groups"
        " WHERE fingerprint IN (SELECT fingerprint FROM dead_letter_queue) GROUP BY 1"
    ),
    "replays": "SELECT state, count(*) FROM replays GROUP BY 1",
    "replayed tasks": "SELECT state, CAST(sum(replayed) AS integer) FROM replays GROUP BY 1",
    "replay conflicts": "SELECT state, CAST(sum(conflicts) AS integer) FROM replays GROUP BY 1",
}


def read_dump(kind):
    """Return the SQL that a database was recorded as."""
    return gzip.decompress(DUMPS[kind].read_bytes()).decode()


def build(url, *, newer=True):  # noqa: C901  # a list of tasks
    """Return the app. Without `newer`, as it was recorded: a bug is not fixed yet and a task is not known yet."""
    app = outlast.App(url, policy=_QUICK, **_SETTINGS)

    @app.task(keep_result=86400.0)
    def fetch_page(n: int) -> str:
        return f"page {n}"

    @app.task
    def sync_order(n: int) -> None:
        if outlast.current_task().retry_count < 1:
            raise ConnectionResetError("connection reset by peer")

    @app.task
    def import_feed(n: int) -> None:
        raise TimeoutError("the feed did not answer")

    @app.task
    def charge_card(n: int) -> None:
        raise PermanentError("card refused")

    @app.task
    def send_invoice(n: int) -> None:
        if not newer:
            raise ResourceNotFoundError("no such template")

    @app.task(queue="images")
    def resize_image(n: int) -> None:
        pass

    @app.task(queue="mail")
    def send_mail(n: int) -> None:
        pass

    @app.task(resource="api.test")
    def call_api(n: int) -> None:
        if not outlast.current_task().deferred_for:
            raise RateLimitError("slow down", retry_after=1.0)

    @app.task(resource="slow.test")
    def call_slow_api(n: int) -> None:
        pass

    @app.periodic(every=70 * 366 * 86400.0)
    def audit_accounts() -> None:
        pass

    @app.job("items", entity="item", policy=_QUICK, max_failure_rate=1.0, env="production")
    def items(context, target):
        if target % 4 == 3 and not newer:
            raise ResourceNotFoundError("no such item")

    if newer:

        @app.task
        def write_report(n: int) -> None:
            pass

    app.items = items
    return app


def fetch(source):
    """Feeds, of which those with an odd number are gone."""
    if int(source.url[-1]) % 2:
        raise ResourceNotFoundError("gone")
    return "entry"


def load(kind, *, path=None, server=None, name=None):
    """Make a copy of the recorded data; return its URL."""
    text = read_dump(kind)
    if kind == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(text)
        return f"sqlite:///{path}"
    server.execute(f"CREATE DATABASE {name}")
    url = f"{server.url.rpartition('/')[0]}/{name}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text)
        if connection.execute("SELECT to_regclass('public.task_queue')").fetchone()[0]:
            connection.execute(statements_to_move(url))
    app = outlast.App(url)
    app.create_schema()  # as `outlast db migrate` does; a SQLite file does it when it is opened
    app.close()
    return url


def statements_to_move(url):
    """Return the statements of the error for tables that are in the search path, as they were before schema outlast."""
    app = outlast.App(url)
    with pytest.raises(SchemaError) as caught:
        app.store.check_schema()
    app.close()
    return str(caught.value)[str(caught.value).index("BEGIN;") :]


def expected(kind):
    """Return the counts that were recorded with the data."""
    return json.loads(COUNTS.read_text("utf-8"))[kind]


def lists(world, url):
    """Return what the lists of the command line show, counted."""

    def read(*words):
        return world.json(*words, "--url", url)

    def count(rows, *names):
        return dict(sorted(Counter(" ".join(str(row[name]) for name in names) for row in rows).items()))

    runs = read("job", "list", "--limit", 1000)
    groups = read("dlq", "groups", "--limit", 1000)
    status = read("status")
    return {
        "tasks": count(read("tasks", "list", "--limit", 1000), "task_type", "status"),
        "dead letters": count(read("dlq", "list", "--limit", 1000), "task_type", "reason"),
        "dead letter groups": {"groups": len(groups), "dead letters": sum(group["size"] for group in groups)},
        "replays": count(read("dlq", "replays", "list"), "state"),
        "queues": {row["name"]: _queue(row) for row in read("queues", "list")},
        "cooldowns": count(status["cooldowns"], "resource"),
        "counts": {name: number for name, number in status["counts"].items() if number},
        "sources": count(read("sources", "list", "--limit", 1000), "profile", "state", "consecutive_failures"),
        "cycles": count(read("sources", "cycles", "--limit", 1000), "profile"),
        "job runs": count(runs, "job", "state"),
        "failed targets": {row["job"]: row["failed_targets"] for row in runs if row["state"] == "done"},
        "alerts": count(read("alerts", "list", "--limit", 1000), "key", "kind", "deliveries"),
        "alerts waiting": status["alerts_waiting"],
        "audit log": count(read("audit", "--limit", 1000), "who", "action"),
    }


def _queue(row):
    parts = [f"{row[name]} {name}" for name in ("ready", "scheduled", "running", "parked") if row[name]]
    return ", ".join([*parts, *(["paused"] if row["paused"] else [])])


def failing_checks(url):
    """Return the checks of `doctor` that find something wrong with the data."""
    found = json.loads(CliRunner().invoke(cli, ["doctor", "--json", "--url", url]).stdout)["findings"]
    assert len(found) > 3
    return sorted(each["check"] for each in found if each["ok"] is False and each["check"] != "disk")


def connect(url):
    """Open the database itself."""
    if url.startswith("sqlite"):
        return closing(sqlite3.connect(url.removeprefix("sqlite:///")))
    return psycopg.connect(url)


def tables(url):
    """Return how many rows each table has."""
    named = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        if url.startswith("sqlite")
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'outlast'"
    )
    with connect(url) as connection:
        names = sorted(name for (name,) in connection.execute(named).fetchall())
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def make_older(url, days):
    """Move every time of the data into the past, except those of the year 2100, as if it had been recorded earlier."""
    with connect(url) as connection:
        for table, column, kind in _columns(connection, url):
            if kind == "timestamp with time zone":
                shifted, first, last = f"{column} - interval '{days} days'", "'2020-01-01'", "'2099-01-01'"
            else:  # milliseconds, or seconds where they are not whole
                unit = 1000 if kind == "INTEGER" else 1
                shifted = f"{column} - {days * 86400 * unit}"
                first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * unit for year in (2020, 2099))
            connection.execute(f"UPDATE {table} SET {column} = {shifted} WHERE {column} BETWEEN {first} AND {last}")
        connection.commit()


def _columns(connection, url):
    """Return table, name and type of the columns that may hold a time."""
    if url.startswith("sqlite"):
        return connection.execute(
            "SELECT m.name, c.name, c.type FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
            " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND c.type IN ('INTEGER', 'REAL')"
        ).fetchall()
    return connection.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'outlast'"
        " AND (data_type = 'timestamp with time zone' OR (table_name = 'resource_limits' AND data_type LIKE 'double%'))"
    ).fetchall()


def rows(url):
    """Return what became of the tasks, counted in the tables themselves."""
    with connect(url) as connection:
        return {name: dict(sorted(connection.execute(sql).fetchall())) for name, sql in _ROWS.items()}


def work(app):
    """Run a worker until nothing is due before the year 2100 and no replay is left."""
    asyncio.run(_work(app))


async def _work(app):
    worker = app.worker(concurrency=4, name="new-worker")
    running = asyncio.create_task(worker.run_async())
    try:
        await asyncio.to_thread(_wait_until_idle, app, running)
    finally:
        worker.stop()
        await running


def _wait_until_idle(app, running):
    end = time.monotonic() + _LIMIT
    while not running.done() and _is_busy(app):
        assert time.monotonic() < end, app.tasks.list(status="QUEUED", limit=1000)
        time.sleep(0.05)


def _is_busy(app):
    if app.dead_letters.replays(running=True):
        return True
    paused = {queue.name for queue in app.tasks.queues() if queue.paused}
    return any(
        task.status == "RUNNING" or (task.next_run_after < FAR and task.queue not in paused)
        for status in ("QUEUED", "RUNNING")
        for task in app.tasks.list(status=status, limit=1000)
    ) or any(task.task_type in app.tasks_by_name for task in app.tasks.list(status="PARKED", limit=1000))


def release(app):
    """Let go what a worker leaves alone: a paused queue, a resource in cooldown, one task of the year 2100."""
    app.tasks.resume("mail")
    app.tasks.end_cooldown("slow.test")
    scheduled = [task.id for task in app.tasks.list(status="QUEUED", limit=1000) if task.unique_key == "order-7"]
    assert len(scheduled) == 1
    app.tasks.run_now(*scheduled)


def outcomes(url):
    """Run what is live, first what is due and then what was held back; return what became of it."""
    app = build(url)
    try:
        work(app)
        first = rows(url)
        release(app)
        work(app)
        return {"due": first, "released": rows(url)}
    finally:
        app.close()
