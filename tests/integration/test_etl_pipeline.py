"""The order of an ETL on real databases and raw stores: E4, E6, E7, E8, E12, and what a failure in each step leaves."""

import logging
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
import pytest

import holdfast as hf
from holdfast import RetryPolicy, classify
from holdfast.errors import (
    ConfigError,
    DatabaseBusyError,
    NetworkError,
    PayloadError,
    ResourceNotFoundError,
    TemporaryAPIError,
)
from holdfast.failure import RETRYABLE, Category
from holdfast.jobs.etl import FileRawStore, Loaded, StagingRow, content_hash, raw_key
from holdfast.testing import failing, fake_clock
from integration.etl_world import ENTITY, SOURCE, Api, Context, Counting, document, make_etl, new_shop, normalize

ONE = "shop:1"
NOTHING = {"staging": [], "items": [], "tags": []}


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path):
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    shop = new_shop(request.param, tmp_path, server)
    yield shop
    shop.close()


@pytest.fixture
def raw(tmp_path):
    return Counting(FileRawStore(tmp_path / "raw"))


@pytest.fixture
def api():
    return Api(**{f"shop:{number}": document(number) for number in range(1, 4)})


def key_of(answer):
    record = normalize(answer)
    return raw_key(SOURCE, ENTITY, record["id"], content_hash(record))


def test_a_record_is_loaded_once_and_then_known(shop, raw, api):
    etl, context = make_etl(shop, raw, api), Context()
    record = normalize(document(1))
    key = key_of(document(1))
    assert etl.load(ONE, context) == Loaded("new", content_hash(record), key, put=True, upserted=True)
    assert context.counts == {"diff_new_hash": 1, "s3_put_success": 1, "db_upsert_success": 1}
    assert shop.contents() == {
        "staging": [(ONE, content_hash(record), key, content_hash(record), 1)],
        "items": [(ONE, "Item 1", 100)],
        "tags": [(ONE, "tag1")],
    }
    context = Context()
    assert etl.load(ONE, context) == Loaded("unchanged", content_hash(record), key)
    assert context.counts == {}
    assert raw.puts == [key]


def test_a_changed_record_replaces_the_old_one_and_its_raw_object_is_kept_beside_it(shop, raw, api):
    etl = make_etl(shop, raw, api)
    first = etl.load(ONE)
    api.documents[ONE] = document(1, 3)
    second = etl.load(ONE)
    assert second.outcome == "new"
    assert shop.contents()["items"] == [(ONE, "Item 1", 300)]
    assert [tag for _, tag in shop.contents()["tags"]] == ["tag1", "tag2", "tag3"]
    assert set(raw.keys()) == {first.raw_key, second.raw_key}
    api.documents[ONE] = document(1, 1)
    assert etl.load(ONE).outcome == "new"
    assert shop.contents()["tags"] == [(ONE, "tag1")]


def test_the_steps_come_in_their_order(shop, api, tmp_path):
    """E7: the put comes before the transaction, staging and apply are inside it."""
    told, files, repo = [], FileRawStore(tmp_path / "raw"), shop.staging()

    class Told:
        def __init__(self, inner, names):
            self._inner, self._names = inner, names

        def __getattr__(self, name):
            found = getattr(self._inner, name)
            if name not in self._names:
                return found

            def call(*args, **kwargs):
                told.append(name)
                return found(*args, **kwargs)

            return call

    class Repo(Told):
        def transaction(self):
            from contextlib import contextmanager

            @contextmanager
            def run():
                told.append("BEGIN")
                with repo.transaction() as transaction:
                    yield Told(transaction, {"upsert", "mark_applied"})
                told.append("COMMIT")

            return run()

    def noted(name, function):
        def call(*args):
            told.append(name)
            return function(*args)

        return call

    etl = make_etl(
        shop,
        Told(files, {"put", "get"}),
        noted("fetch", api.fetch),
        normalize=noted("normalize", normalize),
        staging=Repo(repo, {"exists_hash", "get"}),
        apply=noted("apply", shop.apply),
    )
    etl.load(ONE)
    assert told == [
        "fetch",
        "normalize",
        "exists_hash",
        "get",
        "put",
        "BEGIN",
        "upsert",
        "apply",
        "mark_applied",
        "COMMIT",
    ]
    told.clear()
    etl.load(ONE)
    assert told == ["fetch", "normalize", "exists_hash"]


def test_an_error_of_the_fetch_passes_through_and_leaves_nothing(shop, raw, api):
    """E4."""
    error = api.documents[ONE] = TemporaryAPIError("503")
    etl, context = make_etl(shop, raw, api), Context()
    with pytest.raises(TemporaryAPIError) as caught:
        etl.load(ONE, context)
    assert caught.value is error
    assert error.__holdfast_step__ == "fetch"
    assert "at the step 'fetch' of rakuten item shop:1" in error.__notes__
    assert api.asked == [ONE]  # the job around it asks again
    assert (shop.contents(), raw.puts, context.counts) == (NOTHING, [], {})


def test_a_fetch_may_have_a_policy_of_its_own(shop, raw, api, clock):
    fetch = failing(api.fetch, [TemporaryAPIError("503"), TemporaryAPIError("503")])
    etl, began = make_etl(shop, raw, fetch, fetch_policy=hf.preset("etl")), clock.now()
    assert etl.load(ONE).outcome == "new"
    assert clock.waits == [1.0, 2.0]
    age = etl.staging.get(SOURCE, ENTITY, ONE).fetched_at.timestamp() - began
    assert age == pytest.approx(3.0, abs=1e-3)  # the attempt that succeeded counts


def test_a_put_is_tried_again(shop, raw, api, clock):
    raw.errors = [NetworkError("reset"), TemporaryAPIError("503"), None]
    context = Context()
    assert make_etl(shop, raw, api).load(ONE, context).outcome == "new"
    assert (len(raw.puts), len(api.asked), clock.waits) == (3, 1, [1.0, 2.0])
    assert context.counts == {"diff_new_hash": 1, "s3_put_success": 1, "db_upsert_success": 1}


def test_nothing_is_written_to_the_database_unless_the_put_has_succeeded(shop, raw, api, clock):
    """E6, and E12: the next run does what is missing. C3: four waits for five attempts."""
    etl, context = make_etl(shop, raw, api), Context()
    raw.errors = [TemporaryAPIError("503")] * 5
    with pytest.raises(TemporaryAPIError) as caught:
        etl.load(ONE, context)
    assert caught.value.__holdfast_step__ == "put"
    assert hf.report_of(caught.value).reason == "exhausted"
    assert clock.waits == [1.0, 2.0, 4.0, 8.0]
    assert context.counts == {"diff_new_hash": 1, "s3_put_fail": 1}
    assert shop.contents() == NOTHING
    assert etl.load(ONE).outcome == "new"
    assert shop.contents()["items"] == [(ONE, "Item 1", 100)]


def test_a_job_around_it_does_not_multiply_what_a_step_has_tried(shop, raw, api):
    raw.errors = [TemporaryAPIError("503")] * 50
    with pytest.raises(TemporaryAPIError):
        hf.call(make_etl(shop, raw, api).load, ONE, policy=hf.preset("etl"))
    assert (len(raw.puts), len(api.asked)) == (5, 1)


def test_a_failed_apply_is_rolled_back_with_its_row_and_done_next_time(shop, raw, api):
    calls = []

    def apply(connection, record):
        shop.apply(connection, record)
        calls.append(record["id"])
        if len(calls) == 2:
            raise ZeroDivisionError("a mistake of the program")

    etl = make_etl(shop, raw, api, apply=apply)
    etl.load(ONE)
    before = shop.contents()
    api.documents[ONE], context = document(1, 4), Context()
    with pytest.raises(ZeroDivisionError) as caught:
        etl.load(ONE, context)
    assert caught.value.__holdfast_step__ == "db"
    assert context.counts == {"diff_new_hash": 1, "s3_put_success": 1, "db_upsert_fail": 1}
    assert shop.contents() == before
    assert etl.load(ONE).outcome == "new"
    assert shop.contents()["items"] == [(ONE, "Item 1", 400)]


def test_a_row_that_was_stored_and_not_applied_is_applied_although_its_hash_is_the_same(shop, raw, api):
    """Defect of the seed: it was skipped as 'same hash'."""
    etl, found, key = make_etl(shop, raw, api), content_hash(normalize(document(1))), key_of(document(1))
    raw.inner.put(key, b"{}")
    etl.staging.batch_upsert([StagingRow(SOURCE, ENTITY, ONE, found, key, datetime(2026, 1, 1, tzinfo=UTC))])
    context = Context()
    assert etl.load(ONE, context) == Loaded("reapplied", found, key, put=False, upserted=True)
    assert context.counts == {"db_upsert_success": 1}
    assert shop.contents()["items"] == [(ONE, "Item 1", 100)]
    assert etl.load(ONE).outcome == "unchanged"


def test_a_constraint_that_is_broken_is_not_tried_again(shop, raw, api, clock):
    """E2, E11: the classifier calls it integrity, which ends a job."""
    api.documents[ONE] = document(1, price=-1)
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)) as caught:
        make_etl(shop, raw, api).load(ONE)
    assert classify(caught.value).category is Category.INTEGRITY
    assert caught.value.__holdfast_step__ == "db"
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
    assert caught.value.__holdfast_step__ == "db"
    assert shop.contents() == NOTHING


def test_a_real_deadlock_repeats_the_whole_transaction(postgres_server, tmp_path, raw, api):
    """E2."""
    shop = new_shop("postgres", tmp_path, postgres_server)
    shop.run("INSERT INTO items (id, name, price) VALUES ('a', 'a', 1), ('b', 'b', 1)")
    meet, calls = threading.Barrier(2), {"a": 0, "b": 0}

    def loader(first, second):
        def apply(connection, record):
            calls[first] += 1
            connection.execute("UPDATE items SET price = price + 1 WHERE id = %s", (first,))
            if calls[first] == 1:
                meet.wait(20)
            connection.execute("UPDATE items SET price = price + 1 WHERE id = %s", (second,))

        return make_etl(shop, raw, api, apply=apply)

    jobs = [(loader("a", "b"), "shop:1"), (loader("b", "a"), "shop:2")]
    results = []
    threads = [threading.Thread(target=lambda etl, name: results.append(etl.load(name)), args=job) for job in jobs]
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


def test_a_dry_run_tells_and_writes_nothing_anywhere(shop, raw, api, tmp_path):
    etl, context = make_etl(shop, raw, api), Context(dry_run=True)
    told = etl.load(ONE, context)
    assert told == Loaded("new", content_hash(normalize(document(1))), key_of(document(1)), True, True, True)
    assert context.counts == {"diff_new_hash": 1}
    assert (shop.contents(), raw.puts, (tmp_path / "raw").exists()) == (NOTHING, [], False)
    etl.load(ONE)
    before = shop.contents()
    assert etl.load(ONE, dry_run=True).outcome == "unchanged"
    assert make_etl(shop, raw, api, apply_version=2).load(ONE, dry_run=True)[3:] == (False, True, True)
    assert make_etl(shop, raw, api, apply_version=2).load_from_raw(ONE, dry_run=True).outcome == "reapplied"
    assert shop.contents() == before


def test_what_a_dry_run_asks_for_can_be_overruled(shop, raw, api):
    assert make_etl(shop, raw, api).load(ONE, Context(dry_run=True), dry_run=False).upserted
    assert len(shop.contents()["items"]) == 1


def test_a_newer_apply_is_applied_to_what_is_known_from_raw_without_fetching(shop, raw, api):
    etl = make_etl(shop, raw, api)
    for name in api.documents:
        etl.load(name)
    asked, puts = list(api.asked), list(raw.puts)

    def shout(connection, record):
        shop.apply(connection, {**record, "name": record["name"].upper()})

    newer = make_etl(shop, raw, api, apply=shout, apply_version=2)
    assert list(newer.outdated()) == ["shop:1", "shop:2", "shop:3"]
    context = Context()
    assert [newer.load_from_raw(name, context).outcome for name in ["shop:1", "shop:2"]] == ["reapplied"] * 2
    assert context.counts == {"db_upsert_success": 2}
    assert newer.load_from_raw(ONE).outcome == "unchanged"
    assert list(newer.outdated()) == ["shop:3"]
    assert [name for _, name, _ in shop.contents()["items"]] == ["ITEM 1", "ITEM 2", "Item 3"]
    assert (api.asked, raw.puts) == (asked, puts)
    assert newer.load(ONE).outcome == "unchanged"
    again = newer.load("shop:3")
    assert (again.outcome, again.put, again.upserted) == ("reapplied", False, True)
    assert list(newer.outdated()) == []


def test_an_older_apply_leaves_what_a_newer_one_has_applied(shop, raw, api):
    """While two versions of a program run, they do not undo each other's work for ever."""
    make_etl(shop, raw, api, apply_version=2).load(ONE)
    older = make_etl(shop, raw, api)
    assert older.load(ONE).outcome == "unchanged"
    assert older.load_from_raw(ONE).outcome == "unchanged"
    assert list(older.outdated()) == []


def test_normalize_gets_the_same_from_the_fetch_and_from_raw(shop, raw):
    seen = []

    def watched(answer):
        seen.append(answer)
        return normalize(answer)

    def fetch(source_id):
        return {**document(1), "at": datetime(2026, 3, 1, tzinfo=UTC), "pair": (1, 2)}

    make_etl(shop, raw, fetch, normalize=watched).load(ONE)
    make_etl(shop, raw, fetch, normalize=watched, apply_version=2).load_from_raw(ONE)
    assert seen[0] == seen[1]
    assert seen[0]["pair"] == [1, 2]


def test_a_raw_object_that_is_gone_fails_the_reapply_alone(shop, raw, api):
    loaded = make_etl(shop, raw, api).load(ONE)
    before = shop.contents()
    (raw.folder / loaded.raw_key).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make_etl(shop, raw, api, apply_version=2).load_from_raw(ONE)
    assert caught.value.__holdfast_step__ == "get"
    assert shop.contents() == before


def test_a_record_that_was_never_loaded_cannot_come_from_raw(shop, raw, api):
    with pytest.raises(ResourceNotFoundError, match="never loaded"):
        make_etl(shop, raw, api).load_from_raw("shop:9")


def test_a_reapply_gives_way_to_a_load_in_between(shop, raw, api):
    make_etl(shop, raw, api).load(ONE)
    newer = make_etl(shop, raw, api, apply_version=2)

    def meanwhile(answer):
        api.documents[ONE] = document(1, 5)
        newer.load(ONE)
        return normalize(answer)

    slow = make_etl(shop, raw, api, apply_version=2, normalize=meanwhile)
    assert slow.load_from_raw(ONE).outcome == "superseded"
    assert shop.contents()["items"] == [(ONE, "Item 1", 500)]


def test_documents_that_are_no_json_are_kept_as_they_came(shop, raw):
    def read(page):
        name, price = page.decode().split(";")
        return {"id": ONE, "name": name, "price": int(price), "tags": []}

    etl = make_etl(shop, raw, lambda source_id: b"Item 1;5", normalize=read, encode=bytes, decode=bytes)
    loaded = etl.load(ONE)
    assert raw.get(loaded.raw_key) == b"Item 1;5"
    assert shop.contents()["items"] == [(ONE, "Item 1", 5)]


@pytest.mark.parametrize("answer", [b"bytes", {"price": float("nan")}, {1: 2}])
def test_what_cannot_be_kept_fails_before_anything_is_written(shop, raw, answer):
    with pytest.raises(PayloadError) as caught:
        make_etl(shop, raw, lambda source_id: answer).load(ONE)
    assert caught.value.__holdfast_step__ == "normalize"
    assert (shop.contents(), raw.puts) == (NOTHING, [])


def test_an_apply_that_commits_is_told_so_and_applied_again(tmp_path, raw, api):
    shop = new_shop("sqlite", tmp_path)

    def apply(connection, record):
        with connection:  # which commits at its end
            shop.apply(connection, record)

    with pytest.raises(ConfigError, match="ended from inside"):
        make_etl(shop, raw, api, apply=apply).load(ONE)
    assert make_etl(shop, raw, api).load(ONE).outcome == "reapplied"
    shop.close()


def test_retries_of_a_step_carry_the_keys_of_the_target(shop, raw, api, caplog):
    """E9."""
    raw.errors = [TemporaryAPIError("503")]
    with caplog.at_level(logging.WARNING, "holdfast.retry"):
        make_etl(shop, raw, api).load(ONE, Context())
    [record] = caplog.records
    assert (record.job_id, record.run_id, record.source_id) == ("items", "run-1", ONE)
    assert (record.attempt, record.max_attempts, record.error_category) == (1, 5, "api_temporary")
    assert record.call == "rakuten.item.put"


def test_an_error_that_takes_no_attributes_passes_through(shop, raw, api):
    @dataclass(frozen=True)
    class Closed(Exception):
        text: str

    api.documents[ONE] = Closed("no")
    with pytest.raises(Closed):
        make_etl(shop, raw, api).load(ONE)


def test_an_error_that_is_raised_again_and_again_has_one_note(shop, raw, api):
    error = api.documents[ONE] = ValueError("x")
    for _ in range(3):
        with pytest.raises(ValueError, match="x"):
            make_etl(shop, raw, api).load(ONE)
    assert sum("at the step" in note for note in error.__notes__) == 1


def test_parts_that_cannot_be_used_are_refused(tmp_path, raw, api):
    shop = new_shop("sqlite", tmp_path)

    async def fetch(source_id):
        return {}

    with pytest.raises(ConfigError, match="async"):
        make_etl(shop, raw, fetch)
    for version in (0, True, "1"):
        with pytest.raises(ConfigError, match="apply_version"):
            make_etl(shop, raw, api, apply_version=version)
    with pytest.raises(ConfigError, match="policy"):
        make_etl(shop, raw, api, policy="etl")
    with pytest.raises(ConfigError, match="source"):
        make_etl(shop, raw, api, source="")
    shop.close()


def test_the_policy_is_the_users(shop, raw, api, clock):
    raw.errors = [TemporaryAPIError("503")] * 3
    policy = RetryPolicy(max_attempts=2, retry_on=RETRYABLE, base_delay=3.0)
    with pytest.raises(TemporaryAPIError):
        make_etl(shop, raw, api, policy=policy).load(ONE)
    assert clock.waits == [3.0]
