"""Transactions of an ETL that meet with others: deadlocks, busy files, constraints, and fetches that come late."""

import sqlite3
import threading
from contextlib import closing

import psycopg
import pytest

from integration.etl_world import NOTHING, ONE, Context, document, make_etl, new_shop, normalize
from outlast import classify
from outlast.errors import (
    ConfigError,
    DatabaseBusyError,
)
from outlast.failure import Category
from outlast.jobs.etl import content_hash
from outlast.testing import failing, fake_clock


def test_a_constraint_that_is_broken_is_not_tried_again(shop, raw, api, clock):
    """E2, E11: the classifier calls it integrity, which ends a job."""
    api.documents[ONE] = document(1, price=-1)
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)) as caught:
        make_etl(shop, raw, api).load(ONE)
    assert classify(caught.value).category is Category.INTEGRITY
    assert caught.value.__outlast_step__ == "db"
    assert clock.waits == []
    assert shop.contents() == NOTHING


def test_a_constraint_that_is_looked_at_by_commit_fails_the_load(shop, raw, api):
    """A deferred one: the error comes out of COMMIT itself."""
    shop.run("CREATE TABLE makers (id TEXT PRIMARY KEY)")
    shop.run("CREATE TABLE made (maker TEXT REFERENCES makers (id) DEFERRABLE INITIALLY DEFERRED)")

    def apply(connection, record):
        shop.apply(connection, record)
        connection.execute("INSERT INTO made (maker) VALUES ('nobody')")

    def connect():
        connection = sqlite3.connect(shop.address, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    staging = shop.staging(connect) if shop.kind == "sqlite" else shop.staging()
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.ForeignKeyViolation)) as caught:
        make_etl(shop, raw, api, apply=apply, staging=staging).load(ONE)
    assert caught.value.__outlast_step__ == "db"
    assert shop.contents() == NOTHING


def test_a_real_deadlock_repeats_the_whole_transaction(postgres_server, tmp_path, raw, api):
    """E2.

    The clock is not waited for, so the one that is rolled back waits for the other itself before it comes again. It
    could else lock its row before the other has woken up, and both would be in a circle once more.
    """
    shop = new_shop("postgres", tmp_path, postgres_server)
    shop.run("INSERT INTO items (id, name, price) VALUES ('a', 'a', 1), ('b', 'b', 1)")
    meet, calls, through = threading.Barrier(2), {"a": 0, "b": 0}, threading.Event()

    def loader(first, second):
        def apply(connection, record):
            calls[first] += 1
            assert calls[first] == 1 or through.wait(20), "the other one goes through"
            connection.execute("UPDATE items SET price = price + 1 WHERE id = %s", (first,))
            if calls[first] == 1:
                meet.wait(20)
            connection.execute("UPDATE items SET price = price + 1 WHERE id = %s", (second,))

        return make_etl(shop, raw, api, apply=apply)

    jobs = [(loader("a", "b"), "shop:1"), (loader("b", "a"), "shop:2")]
    results = []

    def load(etl, name):
        results.append(etl.load(name))
        through.set()

    threads = [threading.Thread(target=load, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.outcome for each in results] == ["new", "new"]
    assert sorted(calls.values()) == [1, 2]
    assert shop.rows("SELECT price FROM items ORDER BY id") == [(3,), (3,)]
    assert len(raw.puts) == 2
    shop.close()


def test_a_real_serialization_failure_repeats_the_whole_transaction(postgres_server, tmp_path, raw, api):
    """E2."""
    shop = new_shop("postgres", tmp_path, postgres_server)
    shop.run("INSERT INTO items (id, name, price) VALUES ('a', 'a', 1)")
    calls = []

    def apply(connection, record):
        calls.append(connection.execute("SELECT price FROM items WHERE id = 'a'").fetchone()[0])
        if len(calls) == 1:
            shop.run("UPDATE items SET price = 10 WHERE id = 'a'")
        connection.execute("UPDATE items SET price = price + 1 WHERE id = 'a'")

    def connect():
        return psycopg.connect(shop.address, options="-c default_transaction_isolation=serializable")

    etl = make_etl(shop, raw, api, apply=apply, staging=shop.staging(connect))
    assert etl.load(ONE).outcome == "new"
    assert calls == [1, 10]
    assert shop.rows("SELECT price FROM items") == [(11,)]
    shop.close()


def test_a_busy_file_fails_the_target_when_the_attempts_are_over(tmp_path, raw, api, clock):
    shop = new_shop("sqlite", tmp_path)
    etl, context = make_etl(shop, raw, api, staging=shop.staging(timeout=0.0)), Context()
    with closing(sqlite3.connect(shop.address, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked") as caught:
            etl.load(ONE, context)
    assert classify(caught.value).category is Category.DATABASE_BUSY
    assert clock.waits == [1.0, 2.0, 4.0, 8.0]
    assert context.counts == {"diff_new_hash": 1, "s3_put_success": 1, "db_upsert_fail": 1}
    assert etl.load(ONE).outcome == "new"
    assert list(raw.keys()) == [raw.puts[0]]  # E8: the second put has changed nothing
    shop.close()


def test_a_look_into_the_ledger_is_tried_again(shop, raw, api, clock):
    etl = make_etl(shop, raw, api)
    etl.staging.get = failing(etl.staging.get, [DatabaseBusyError("busy")])
    assert etl.load(ONE).outcome == "new"
    assert clock.waits == [1.0]


def test_an_older_fetch_that_comes_late_changes_nothing(shop, raw):
    """Defect of the seed: it overwrote the newer row."""
    asked, go_on = threading.Event(), threading.Event()

    def slow(source_id):
        asked.set()
        assert go_on.wait(20)
        return document(1, 1)

    real = threading.Thread(target=lambda: results.append(late.load(ONE, context)))
    results, context = [], Context()
    with fake_clock() as clock:
        late, quick = make_etl(shop, raw, slow), make_etl(shop, raw, lambda source_id: document(1, 2))
        real.start()
        assert asked.wait(20)
        clock.advance(0.001)
        newer = quick.load(ONE)
        before = shop.contents()
        go_on.set()
        real.join()
    [older] = results
    assert (older.outcome, older.put, older.upserted) == ("superseded", True, False)
    assert newer.outcome == "new"
    assert "db_upsert_success" not in context.counts
    assert shop.contents() == before
    assert before["items"] == [(ONE, "Item 1", 200)]


def test_many_threads_on_one_record_leave_the_newest(shop, raw):
    """Staging and the user's tables always agree, whoever comes last."""
    versions = iter(range(1, 31))
    lock = threading.Lock()

    def fetch(source_id):
        return document(1, price=next(versions))

    def work():
        for _ in range(5):
            with lock:
                clock_now.advance(1.0)
            etl.load(ONE)

    with fake_clock() as clock_now:
        etl = make_etl(shop, raw, fetch)
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [(_, found, key, applied_hash, _)] = shop.contents()["staging"]
    [(_, name, price)] = shop.contents()["items"]
    record = normalize(document(1, price=price))
    assert name == "Item 1"
    assert content_hash(record) == found == applied_hash
    assert raw.exists(key)


def test_an_apply_that_commits_is_told_so_and_applied_again(tmp_path, raw, api):
    shop = new_shop("sqlite", tmp_path)

    def apply(connection, record):
        with connection:  # which commits at its end
            shop.apply(connection, record)

    with pytest.raises(ConfigError, match="in the transaction ended it"):
        make_etl(shop, raw, api, apply=apply).load(ONE)
    assert make_etl(shop, raw, api).load(ONE).outcome == "reapplied"
    shop.close()
