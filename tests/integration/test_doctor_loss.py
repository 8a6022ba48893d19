"""A doctor finds one row that is lost among a million, and nothing where nothing is lost."""

import json
import os
import sqlite3
import subprocess
import sys
import time

import psycopg
import pytest
from click.testing import CliRunner

from outlast.cli import cli
from outlast.ports.rows import NewTask
from outlast.stores.postgres.store import PostgresStore
from outlast.stores.sqlite.store import SqliteStore

MILLION = 1_000_000
BATCH = 300
STATUSES = "CASE WHEN n % 1000 = 0 THEN 'QUEUED' WHEN n % 1001 = 0 THEN 'CANCELLED' ELSE 'DONE' END"
IN_SQLITE = f"""
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {MILLION})
INSERT INTO task_queue (task_type, status) SELECT 'scrape', {STATUSES} FROM counted
"""
IN_POSTGRES = f"""
ALTER TABLE task_queue DISABLE TRIGGER task_queue_booked;
INSERT INTO task_queue (task_type, status) SELECT 'scrape', {STATUSES} FROM generate_series(1, {MILLION}) AS n;
ALTER TABLE task_queue ENABLE TRIGGER task_queue_booked
"""
PROGRAM = """
import os

import outlast

app = outlast.App(os.environ["DOCTORED"])


@app.task(policy=outlast.RetryPolicy(max_attempts=2, base_delay=0.01, jitter="none"))
def step(n: int):
    if n % 10 == 0:
        raise ValueError("no good")
    if n % 10 == 1:
        raise ConnectionError("down")
"""


class Sqlite:
    def __init__(self, folder):
        self.url = f"sqlite:///{folder / 'outlast.db'}"
        self.file = folder / "outlast.db"

    def open(self):
        return SqliteStore(self.file, synchronous="NORMAL")

    def fill(self):
        assert self.execute(IN_SQLITE) == MILLION

    def execute(self, statement):
        connection = sqlite3.connect(self.file)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(statement)
        count = connection.total_changes
        connection.commit()
        connection.close()
        return count


class Postgres:
    def __init__(self, server):
        self.server = server
        server.execute("DROP DATABASE IF EXISTS doctored", "CREATE DATABASE doctored")
        self.url = server.url.rpartition("/")[0] + "/doctored"

    def open(self):
        return PostgresStore(self.url)

    def fill(self):
        self.execute(IN_POSTGRES)

    def execute(self, statement):
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement).rowcount


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variable in ("OUTLAST_URL", "OUTLAST_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    if request.param == "sqlite":
        yield Sqlite(tmp_path)
        return
    server = request.getfixturevalue("postgres_server")
    yield Postgres(server)
    server.execute("DROP DATABASE doctored WITH (FORCE)")


@pytest.fixture
def store(place):
    store = place.open()
    store.create_schema()
    yield store
    store.close()


def doctor(place):
    """Ask; return what it ends with, and what the ledger check says."""
    result = CliRunner().invoke(cli, ["doctor", "--json", "--url", place.url])
    findings = json.loads(result.stdout)["findings"]
    return result.exit_code, [(each["ok"], each["text"]) for each in findings if each["check"] in {"ledger", "pairs"}]


def test_one_row_among_a_million(place, store):
    place.fill()
    store.recount()
    code, ((ok, text),) = doctor(place)
    assert (code, ok) == (0, True)
    assert text.startswith("1,000,000 tasks = 998,001 done + 0 dead + 1,000 live + 999 cancelled")

    assert place.execute("DELETE FROM task_queue WHERE id = 654321") == 1
    assert doctor(place) == (
        1, [(False, "1 task DONE is missing: the counter says 998,001, the tables have 998,000")],
    )  # fmt: skip


def test_nothing_is_found_while_a_worker_works(place, store, tmp_path):
    """Ten times, while tasks are enqueued, succeed, are retried and die."""
    (tmp_path / "doctored.py").write_text(PROGRAM, "utf-8")
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(tmp_path)])
    environment = os.environ | {"DOCTORED": place.url, "PYTHONPATH": path}
    command = [sys.executable, "-m", "outlast", "worker", "doctored:app"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, env=environment, stderr=log) as worker:
        try:
            for _ in range(10):
                store.enqueue([NewTask("step", json.dumps({"n": n})) for n in range(BATCH)])
                code, found = doctor(place)
                assert (code, [ok for ok, _ in found]) == (0, [True]), found
                assert worker.poll() is None
            end = time.monotonic() + 60
            while store.counts()["DONE"] + store.counts()["FAILED"] < 10 * BATCH:
                assert time.monotonic() < end
                assert doctor(place)[0] == 0
        finally:
            worker.terminate()
            assert worker.wait(60) == 0
    _, ((ok, text),) = doctor(place)
    assert ok
    assert text.startswith(f"{10 * BATCH:,} tasks = {8 * BATCH:,} done + {2 * BATCH:,} dead + 0 live")
