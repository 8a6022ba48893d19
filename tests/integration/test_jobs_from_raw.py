"""A job applied again from raw objects: nothing is fetched, and only what an older version has applied is done."""

import sqlite3

import pytest

import outlast
from outlast.errors import ConfigError
from outlast.jobs.etl import Etl, FileRawStore, SqliteStaging
from outlast.testing import fake_clock


def world(tmp_path, version, fetched):
    app = outlast.App(f"sqlite:///{tmp_path / 'ledger.db'}")
    staging = SqliteStaging(tmp_path / "app.db")
    staging.create()

    def fetch(source_id):
        fetched.append(source_id)
        return {"id": source_id, "price": 3}

    def apply(connection, record):
        connection.execute("CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, price INTEGER, version INTEGER)")
        connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", (record["id"], record["price"], version))

    etl = Etl(
        source="shop", entity="item", fetch=fetch, normalize=lambda document: document,
        raw=FileRawStore(tmp_path / "raw"), staging=staging, apply=apply, apply_version=version,
    )  # fmt: skip

    @app.job("items", entity="item", targets=lambda: ["a", "b", "c"], etl=etl)
    def items(context, source_id):
        etl.load(source_id, context)

    return app, items


def rows(tmp_path):
    connection = sqlite3.connect(tmp_path / "app.db")
    try:
        return connection.execute("SELECT id, version FROM items ORDER BY id").fetchall()
    finally:
        connection.close()


def test_a_new_version_is_applied_from_raw_objects_without_fetching(tmp_path):
    fetched = []
    app, items = world(tmp_path, 1, fetched)
    assert items.run(concurrency=1).success_targets == 3
    app.close()
    app, items = world(tmp_path, 2, fetched)

    summary = items.from_raw().run(concurrency=1)
    again = items.from_raw().run(concurrency=1)
    app.close()

    assert (summary.success_targets, summary.db_upsert_success, summary.exit_code) == (3, 3, 0)
    assert (again.total_targets, again.exit_code) == (0, 0)
    assert fetched == ["a", "b", "c"]
    assert rows(tmp_path) == [("a", 2), ("b", 2), ("c", 2)]


def test_a_job_without_an_etl_cannot():
    app = outlast.App("memory://")

    @app.job("plain", max_failure_rate=0.1)
    def plain(context, target):
        """Do nothing."""

    with pytest.raises(ConfigError, match="it has no etl"):
        plain.from_raw()


def test_runs_are_kept_for_so_long_and_no_longer():
    app = outlast.App("memory://", keep_runs=60)

    @app.job("plain", max_failure_rate=0.1)
    def plain(context, target):
        """Do nothing."""

    with fake_clock() as clock:
        first = plain.run([1])
        clock.advance(59)
        second = plain.run([1])
        clock.advance(2)
        third = plain.run([1])

    assert [run.id for run in app.store.runs("plain")] == [third.run_id, second.run_id]
    assert first.run_id not in {third.run_id, second.run_id}
