"""The ledger on both databases: what counts as done, who may overwrite whom, and transactions that end as one."""

import os
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from crash.processes import until
from integration.etl_world import ENTITY, SOURCE, new_shop
from outlast import RetryPolicy, classify
from outlast.errors import ConfigError
from outlast.failure import RETRYABLE, Category
from outlast.jobs.etl import PostgresStaging, SqliteStaging, StagingRow, content_hash
from outlast.jobs.etl.staging import PAGE_SIZE
from outlast.testing import fake_clock

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
ONE, TWO = content_hash(1), content_hash(2)


def row(source_id="shop:1", found=ONE, at=NOON):
    return StagingRow(SOURCE, ENTITY, source_id, found, f"raw/{found}", at)


def applied(repo, what, version=1):
    with repo.transaction() as transaction:
        transaction.mark_applied(what, version)


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path):
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    shop = new_shop(request.param, tmp_path, server)
    yield shop
    shop.close()


@pytest.fixture
def repo(shop):
    return shop.staging()


def test_creating_it_again_keeps_what_is_there(shop, repo):
    repo.batch_upsert([row()])
    shop.staging().create()
    assert repo.get(SOURCE, ENTITY, "shop:1") == row()


def test_many_may_create_it_at_once(request, tmp_path):
    for kind in ("sqlite", "postgres"):
        shop = new_shop(kind, tmp_path, request.getfixturevalue("postgres_server"))
        repos = [shop.staging(table="others") for _ in range(6)]
        start, errors = threading.Barrier(6), []

        def create(repo, start=start, errors=errors):
            start.wait()
            try:
                repo.create()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=create, args=(repo,)) for repo in repos]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert repos[0].batch_upsert([row()]) == 1
        shop.close()


def test_a_record_has_one_row(shop, repo):
    """E8."""
    assert repo.batch_upsert([row(found=ONE), row(found=TWO)]) == 2
    assert shop.rows("SELECT source, entity, source_id, hash FROM staging") == [(SOURCE, ENTITY, "shop:1", TWO)]
    insert = "INSERT INTO staging (source, entity, source_id, hash, raw_key, fetched_at) SELECT source, entity, source_id, hash, raw_key, fetched_at FROM staging"
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.UniqueViolation)):
        shop.run(insert)


def test_a_hash_counts_as_there_when_it_was_applied(repo):
    """Defect of the seed: what was stored and not applied was skipped next time as 'same hash'."""
    name = (SOURCE, ENTITY, "shop:1")
    assert not repo.exists_hash(*name, ONE)
    repo.batch_upsert([row()])
    assert not repo.exists_hash(*name, ONE)
    applied(repo, row())
    assert repo.exists_hash(*name, ONE)
    assert not repo.exists_hash(*name, TWO)
    assert not repo.exists_hash(SOURCE, "tag", "shop:1", ONE)
    repo.batch_upsert([row(found=TWO)])
    assert not repo.exists_hash(*name, TWO)
    assert not repo.exists_hash(*name, ONE)


def test_a_hash_that_an_older_version_applied_is_still_to_be_done(repo):
    name = (SOURCE, ENTITY, "shop:1", ONE)
    repo.batch_upsert([row()])
    applied(repo, row(), version=2)
    assert [repo.exists_hash(*name, apply_version=version) for version in (1, 2, 3, None)] == [True, True, False, True]


def test_marking_a_version_that_is_no_longer_there_marks_nothing(repo):
    repo.batch_upsert([row(found=TWO)])
    applied(repo, row(found=ONE))
    assert repo.get(SOURCE, ENTITY, "shop:1").applied_hash is None


@pytest.mark.parametrize(
    ("later", "wins"), [(-timedelta(microseconds=1), False), (timedelta(0), True), (timedelta(microseconds=1), True)]
)
def test_an_older_fetch_never_overwrites_a_newer_one(repo, later, wins):
    repo.batch_upsert([row(found=ONE)])
    assert repo.batch_upsert([row(found=TWO, at=NOON + later)]) == wins
    kept = repo.get(SOURCE, ENTITY, "shop:1")
    assert (kept.hash, kept.raw_key) == ((TWO, f"raw/{TWO}") if wins else (ONE, f"raw/{ONE}"))
    assert kept.fetched_at == NOON + (later if wins else timedelta(0))


def test_times_of_other_zones_are_the_same_times(repo):
    from zoneinfo import ZoneInfo

    repo.batch_upsert([row(at=NOON.astimezone(ZoneInfo("Asia/Tokyo")))])
    assert repo.batch_upsert([row(found=TWO, at=NOON - timedelta(hours=1))]) == 0
    assert repo.get(SOURCE, ENTITY, "shop:1").fetched_at == NOON


def test_a_batch_is_written_whole_or_not_at_all(shop, repo):
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.NotNullViolation)) as caught:
        repo.batch_upsert([row("a"), row("b")._replace(raw_key=None), row("c")])
    assert classify(caught.value).category is Category.INTEGRITY
    assert shop.rows("SELECT * FROM staging") == []


def test_a_batch_of_thousands(shop, repo):
    assert repo.batch_upsert(row(f"shop:{number}") for number in range(2500)) == 2500
    assert shop.rows("SELECT count(*) FROM staging") == [(2500,)]


def test_what_is_outdated_is_told_page_by_page(repo):
    assert PAGE_SIZE < 2000
    rows = [row(f"{number:05}") for number in range(2300)]
    repo.batch_upsert([*rows, row("other")._replace(entity="tag")])
    with repo.transaction() as transaction:
        for number, each in enumerate(rows):
            if number % 3:
                transaction.mark_applied(each, number % 3)  # 0: never, 1 and 2: by that version
    told = list(repo.outdated(SOURCE, ENTITY, 2))
    assert told == [f"{number:05}" for number in range(2300) if number % 3 != 2]
    assert list(repo.outdated(SOURCE, "genre", 2)) == []


def test_an_error_in_the_block_rolls_all_of_it_back(shop, repo):
    with pytest.raises(ZeroDivisionError), repo.transaction() as transaction:
        transaction.upsert(row())
        shop.apply(transaction.connection, {"id": "shop:1", "name": "x", "price": 1, "tags": ["a"]})
        transaction.mark_applied(row(), 1)
        raise ZeroDivisionError
    assert shop.contents() == {"staging": [], "items": [], "tags": []}
    assert repo.batch_upsert([row()]) == 1


def test_ctrl_c_in_the_block_rolls_all_of_it_back(shop, repo):
    with pytest.raises(KeyboardInterrupt), repo.transaction() as transaction:
        transaction.upsert(row())
        raise KeyboardInterrupt
    assert shop.rows("SELECT * FROM staging") == []
    assert repo.batch_upsert([row()]) == 1


def test_the_users_own_connection_is_used_and_left_open(shop):
    with closing(shop.connect()) as connection:
        repo = shop.staging(connection)
        assert repo.batch_upsert([row()]) == 1
        assert repo.get(SOURCE, ENTITY, "shop:1") == row()
        with repo.transaction() as transaction:
            assert transaction.connection is connection
            transaction.mark_applied(row(), 1)
        assert repo.exists_hash(SOURCE, ENTITY, "shop:1", ONE)
        repo.close()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert len(shop.rows("SELECT applied_hash FROM staging")) == 1


def test_a_look_leaves_no_transaction_open_on_the_users_connection(shop):
    with closing(shop.connect()) as connection:
        repo = shop.staging(connection)
        repo.get(SOURCE, ENTITY, "shop:1")
        with repo.transaction() as transaction:
            assert transaction.upsert(row())


def test_a_connection_within_a_transaction_is_refused(shop):
    with closing(shop.connect()) as connection:
        connection.execute("INSERT INTO items (id, name, price) VALUES ('a', 'a', 1)")
        repo = shop.staging(connection)
        with pytest.raises(ConfigError, match="already in a transaction"):
            repo.batch_upsert([row()])
        connection.commit()
        assert repo.batch_upsert([row()]) == 1


def test_threads_take_turns_on_the_users_connection(shop):
    made = sqlite3.connect(shop.address, check_same_thread=False) if shop.kind == "sqlite" else shop.connect()
    with closing(made) as connection:
        repo = shop.staging(connection)

        def write(name):
            for number in range(20):
                with repo.transaction() as transaction:
                    transaction.upsert(row(f"{name}-{number}"))
                    if number % 2:
                        transaction.connection.execute("SELECT 1")
                repo.exists_hash(SOURCE, ENTITY, f"{name}-{number}", ONE)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert shop.rows("SELECT count(*) FROM staging") == [(80,)]


@pytest.mark.parametrize("ending", ["commit", "rollback", "script"])
def test_a_block_that_ends_the_transaction_on_sqlite_is_told_so(tmp_path, ending):
    shop = new_shop("sqlite", tmp_path)
    for database in (None, sqlite3.connect(shop.address)):
        repo = shop.staging(database)
        with pytest.raises(ConfigError, match="in the transaction ended it"), repo.transaction() as transaction:
            transaction.upsert(row())
            if ending == "script":
                transaction.connection.executescript("SELECT 1;")
                transaction.connection.execute(
                    "INSERT INTO items (id, name, price) VALUES ('b', 'b', 1) ON CONFLICT DO NOTHING"
                )
            else:
                getattr(transaction.connection, ending)()
            transaction.mark_applied(row(), 1)
        assert not repo.exists_hash(SOURCE, ENTITY, "shop:1", ONE)
        if database is not None:
            database.close()
    shop.close()


def test_a_block_that_ends_the_transaction_on_postgres_is_told_so(postgres_server, tmp_path):
    shop = new_shop("postgres", tmp_path, postgres_server)
    repo = shop.staging()
    with pytest.raises(psycopg.ProgrammingError, match="commit"), repo.transaction() as transaction:
        transaction.connection.commit()
    with pytest.raises(ConfigError, match="in the transaction ended it"), repo.transaction() as transaction:
        transaction.upsert(row())
        raise psycopg.Rollback
    with pytest.raises(ConfigError, match="in the transaction ended it"), repo.transaction() as transaction:
        transaction.upsert(row())
        transaction.connection.execute("COMMIT")
        transaction.mark_applied(row(), 1)
    assert not repo.exists_hash(SOURCE, ENTITY, "shop:1", ONE)
    shop.close()


def test_a_busy_file_is_waited_for_by_the_policy(tmp_path):
    """E2."""
    shop = new_shop("sqlite", tmp_path)
    repo = shop.staging(timeout=0.0, policy=RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=7.0))
    with closing(sqlite3.connect(shop.address, isolation_level=None)) as other, fake_clock() as clock:
        other.execute("BEGIN IMMEDIATE")

        class Waits(list):
            def append(self, seconds):
                super().append(seconds)
                if len(self) == 2:
                    other.execute("ROLLBACK")

        clock.waits = waits = Waits()
        assert repo.batch_upsert([row()]) == 1
        assert waits == [7.0, 7.0]
    shop.close()


def test_connections_that_the_server_has_ended_are_replaced(postgres_server, tmp_path):
    shop = new_shop("postgres", tmp_path, postgres_server)
    repo = shop.staging()
    with repo.transaction(), repo.transaction(), repo.transaction():  # three are open from here on
        pass
    name = shop.address.rpartition("/")[2]
    postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    with fake_clock() as clock:
        assert repo.batch_upsert([row()]) == 1
        assert len(clock.waits) == 1
    shop.close()


def test_two_batches_take_their_rows_in_one_order(postgres_server, tmp_path):
    """Else they would deadlock."""
    shop = new_shop("postgres", tmp_path, postgres_server)
    repo = shop.staging()
    repo.batch_upsert([row("a"), row("b")])
    with closing(shop.connect()) as holder, closing(shop.connect()) as other:
        holder.execute("UPDATE staging SET hash = hash WHERE source_id = 'a'")
        batch = threading.Thread(target=repo.batch_upsert, args=([row("b"), row("a")],))
        batch.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        until(lambda: shop.rows(waiting) == [(1,)], 20, "the batch waits for the first row")
        other.execute("SET lock_timeout = '100ms'")
        other.execute("UPDATE staging SET hash = hash WHERE source_id = 'b'")
        other.rollback()
        holder.rollback()
        batch.join()
    shop.close()


def test_a_row_that_was_read_in_a_transaction_stays_as_it_is_until_its_end(shop, repo):
    repo.batch_upsert([row()])
    with closing(shop.connect()) as other, repo.transaction() as transaction:
        assert transaction.get(SOURCE, ENTITY, "shop:1") == row()
        assert transaction.get(SOURCE, ENTITY, "shop:2") is None
        other.execute("PRAGMA busy_timeout = 50" if shop.kind == "sqlite" else "SET lock_timeout = '50ms'")
        with pytest.raises((sqlite3.OperationalError, psycopg.errors.LockNotAvailable)):
            other.execute("UPDATE staging SET hash = 'x'")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_opens_connections_of_its_own(shop, repo):
    with repo.transaction() as transaction:
        parents = transaction.connection
        transaction.upsert(row("parent"))
    child = os.fork()
    if not child:
        try:
            with repo.transaction() as transaction:
                transaction.upsert(row("child"))
                os._exit(7) if transaction.connection is parents else None
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    repo.batch_upsert([row("parent again")])
    assert shop.rows("SELECT count(*) FROM staging") == [(3,)]


def test_a_look_does_not_make_a_file(tmp_path):
    repo = SqliteStaging(tmp_path / "none.db")
    with pytest.raises(sqlite3.OperationalError) as caught:
        repo.exists_hash(SOURCE, ENTITY, "shop:1", ONE)
    assert classify(caught.value).category is Category.CONFIGURATION
    assert list(tmp_path.iterdir()) == []


def test_a_missing_table_is_an_error_of_configuration(shop):
    with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable)) as caught:
        shop.staging(table="missing").get(SOURCE, ENTITY, "shop:1")
    assert classify(caught.value).category is Category.CONFIGURATION


@pytest.mark.parametrize("name", ["Staging", "a b", "a;drop table items", 'a"b', "", "a.b.c"])
def test_a_name_that_is_none_of_a_table_is_refused(name):
    """Pitfall 69: names are never spliced unchecked."""
    for kind in (SqliteStaging, PostgresStaging):
        with pytest.raises(ConfigError, match="table"):
            kind("x", table=name)


def test_a_table_may_stand_in_a_schema(postgres_server, tmp_path):
    shop = new_shop("postgres", tmp_path, postgres_server)
    shop.run("CREATE SCHEMA ledger")
    repo = shop.staging(table="ledger.items")
    repo.create()
    assert repo.batch_upsert([row(), row(found=TWO)]) == 2
    assert shop.rows("SELECT hash FROM ledger.items") == [(TWO,)]
    shop.close()


def test_a_function_may_open_the_connections(shop):
    opened = []

    def connect():
        opened.append(shop.connect())
        return opened[-1]

    repo = shop.staging(connect)
    assert repo.batch_upsert([row()]) == 1
    assert repo.get(SOURCE, ENTITY, "shop:1") == row()
    assert repo.batch_upsert([row(found=TWO)]) == 1
    assert len(opened) == 1


def test_memory_is_refused():
    with pytest.raises(ConfigError, match=":memory:"):
        SqliteStaging(":memory:")
