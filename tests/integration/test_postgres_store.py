"""What only PostgreSQL has: schemas, sessions, callers' transactions, locks that wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import UTC

import psycopg
import pytest
from psycopg.rows import dict_row

from conformance.acting import NOTE, add, claim, register, settle, task, turn
from outlast.errors import ConfigError, LeaseLostError, SchemaError
from outlast.ports.rows import Claim, DeadLetterFilter, Kind, Settlement, TaskFilter
from outlast.stores.postgres.schema import LATEST
from outlast.stores.postgres.store import PostgresStore

TABLES = (
    "task_queue",
    "task_attempts",
    "dead_letter_queue",
    "workers",
    "cooldowns",
    "queues",
    "periodic",
    "sources",
    "source_polls",
    "cycles",
    "alerts",
    "task_flow",
    "failure_groups",
    "failure_flow",
)


@pytest.fixture(scope="module")
def server(postgres_server):
    postgres_server.execute("DROP SCHEMA IF EXISTS own CASCADE")
    first = PostgresStore(postgres_server.url, schema="own")
    first.create_schema()
    first.close()
    yield postgres_server
    postgres_server.execute("DROP SCHEMA own CASCADE")


@pytest.fixture
def store(server):
    server.execute(*(f"DELETE FROM own.{table}" for table in TABLES))
    store = PostgresStore(server.url, schema="own")
    register(store)
    yield store
    store.close()


@pytest.fixture
def blank(server):
    """A schema that does not exist."""
    server.execute("DROP SCHEMA IF EXISTS blank CASCADE")
    yield lambda: PostgresStore(server.url, schema="blank")
    server.execute("DROP SCHEMA IF EXISTS blank CASCADE")


def _together(*works):
    """Run functions at the same moment; return what each returned or raised."""
    barrier, results = threading.Barrier(len(works)), [None] * len(works)

    def run(place, work):
        barrier.wait()
        try:
            results[place] = work()
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_missing_tables_are_named_and_not_made(blank):
    store = blank()
    for _ in range(2):
        with pytest.raises(SchemaError, match="outlast db init") as caught:
            store.check_schema()
        assert (caught.value.found, caught.value.known) == (0, LATEST)
    store.close()


def test_two_create_the_tables_at_once(blank):
    stores = [blank() for _ in range(4)]
    assert _together(*(store.create_schema for store in stores)) == [LATEST] * 4
    for store in stores:
        store.check_schema()
        store.close()


def test_newer_and_older_tables_stop(blank, server):
    store = blank()
    store.create_schema()
    for version, words in ((LATEST + 1, "upgrade this one"), (1, "outlast db migrate"), (0, "outlast db init")):
        server.execute(
            "DELETE FROM blank.schema_version", f"INSERT INTO blank.schema_version VALUES ({version}, now())"
        )
        with pytest.raises(SchemaError, match=words) as caught:
            store.check_schema()
        assert (caught.value.found, caught.value.known) == (version, LATEST)
    store.close()


@pytest.mark.parametrize("schema", ["", "Own", "a b", 'a"b', "a.b", "1a", "x" * 64])
def test_a_schema_has_a_plain_name(schema):
    with pytest.raises(ConfigError, match="schema"):
        PostgresStore("postgresql://127.0.0.1/x", schema=schema)


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@host/x?nonsense=1", "nonsense s3cret", "postgresql://[s3cret"])
def test_a_wrong_url_is_refused_without_being_repeated(url):
    """Pitfall 35."""
    with pytest.raises(ConfigError) as caught:
        PostgresStore(url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_wrong_password_is_an_error_at_once_and_stays_unsaid(server):
    store = PostgresStore(server.url.replace(server.password, "not-the-s3cret"))
    with pytest.raises(psycopg.OperationalError, match="password authentication failed") as caught:
        store.counts()
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(store)


def test_without_psycopg_it_says_what_to_install():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from outlast.errors import ConfigError\n"
        "try:\n    import outlast.stores.postgres.store\n"
        "except ConfigError as error:\n    print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'outlast[postgres]'" in answer.stdout


class TestCallersConnection:
    def test_nothing_is_committed(self, store, server):
        for tasks in ([task()], [task(), task()], [task(unique_key="a"), task(unique_key="b", resource="r")]):
            with server.connect() as connection:
                added = store.enqueue(tasks, connection)
                assert store.get(added[0].id) is None
                assert connection.info.transaction_status.name == "INTRANS"
                connection.rollback()
            assert store.counts()["QUEUED"] == 0

    def test_it_comes_with_the_callers_commit(self, store, server):
        with server.connect(row_factory=dict_row, cursor_factory=psycopg.ClientCursor) as connection:
            first = store.enqueue([task()], connection)
            rest = store.enqueue([task(), task()], connection)
            keyed = store.enqueue([task(unique_key="a"), task(unique_key="a")], connection)
        assert [each.id for each in first + rest] == [each.id for each in claim(store)[:3]]
        assert [each.created for each in keyed] == [True, False]

    def test_one_that_commits_by_itself_adds_all_or_nothing(self, store, server):
        with server.connect(autocommit=True) as connection:
            with pytest.raises(psycopg.DataError):
                store.enqueue([task(unique_key="a"), task(parameters="\x00", unique_key="b")], connection)
            assert store.counts()["QUEUED"] == 0
            store.enqueue([task(unique_key="a"), task(unique_key="b")], connection)
        assert store.counts()["QUEUED"] == 2

    def test_in_a_pipeline(self, store, server):
        with server.connect() as connection, connection.pipeline():
            assert len(store.enqueue([task(), task()], connection)) == 2
            connection.commit()
        assert store.counts()["QUEUED"] == 2

    def test_another_kind_is_refused(self, store):
        with pytest.raises(ConfigError, match=r"psycopg\.Connection"):
            store.enqueue([task()], object())


def test_times_are_utc_whatever_the_session_thinks(server, store):
    url = f"{server.url}?options=-c%20TimeZone%3DAsia/Tokyo"
    tokyo = PostgresStore(url, schema="own")
    (number,) = add(tokyo)
    found = tokyo.get(number)
    assert found.created_at.tzinfo is UTC
    assert found == store.get(number)
    assert [each.started_at.tzinfo for each in tokyo.workers()] == [UTC]
    tokyo.close()


def test_without_prepared_statements(server, store):
    """Pitfall 48: what a pooler hands out may be another session each time."""
    plain = PostgresStore(server.url, schema="own", prepare_threshold=None)
    add(plain, *(task() for _ in range(20)))
    for _ in range(20):
        (claimed,) = claim(plain, limit=1)
        turn(plain, done=[(claimed.id, claimed.epoch)])
        plain.find(TaskFilter())
    with plain.db.connection() as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    assert plain.counts()["DONE"] == 20
    plain.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_has_connections_of_its_own(store):
    (number,) = add(store)
    child = os.fork()
    if child == 0:
        try:
            found = store.get(number) is not None and len(add(store)) == 1
        except BaseException:
            found = False
        os._exit(0 if found else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert store.counts()["QUEUED"] == 2


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_text_that_postgres_refuses_leaves_nothing_behind(store, text):
    add(store, task(), task())
    first, second = claim(store)
    bad = NOTE._replace(error_message=text)
    settlements = [
        Settlement(first.id, first.epoch, Kind.FAIL, note=NOTE, reason="exhausted"),
        Settlement(second.id, second.epoch, Kind.RETRY, note=bad),
    ]
    with pytest.raises(psycopg.DataError):
        turn(store, settlements=settlements, claim=Claim(("default",), 1, 1))
    assert store.counts()["RUNNING"] == 2
    assert store.count_dead_letters(DeadLetterFilter()) == 0
    assert turn(store, settlements=[settlements[0]]).refused == []


def test_a_broken_turn_is_rolled_back_and_the_connection_goes_on(store, server):
    add(store)
    (claimed,) = claim(store)
    server.execute("ALTER TABLE own.dead_letter_queue RENAME TO away")
    try:
        with pytest.raises(psycopg.errors.UndefinedTable):
            settle(store, claimed, Kind.FAIL, note=NOTE, reason="exhausted")
        with pytest.raises(psycopg.errors.UndefinedTable):
            store.check_dead_letters()
    finally:
        server.execute("ALTER TABLE own.away RENAME TO dead_letter_queue")
    assert store.get(claimed.id).status == "RUNNING"
    assert store.attempts(claimed.id) == []
    store.check_dead_letters()
    assert settle(store, claimed, Kind.FAIL, note=NOTE, reason="exhausted") == []


def test_a_turn_and_the_strike_off_of_its_worker_come_one_after_the_other(store, server):
    add(store)
    with server.connect() as other:
        other.execute("DELETE FROM own.workers WHERE id = 'w1'")
        waiting = threading.Thread(target=other.commit)
        timer = threading.Timer(0.3, waiting.start)
        timer.start()
        with pytest.raises(LeaseLostError):
            claim(store)
        waiting.join()
    assert store.counts()["QUEUED"] == 1
    register(store)
    with server.connect() as other:
        other.execute("SELECT FROM own.workers WHERE id = 'w1' FOR KEY SHARE")  # as a turn under way holds it
        with server.connect() as rescuer, pytest.raises(psycopg.errors.LockNotAvailable):
            rescuer.execute("SET lock_timeout = '200ms'")
            rescuer.execute("DELETE FROM own.workers WHERE id = 'w1'")
        store.heartbeat("w1", 60, "running")


def test_keys_in_opposite_order_do_not_deadlock(store):
    names = [f"key{number}" for number in range(300)]
    forth, back = [[task(unique_key=name) for name in order] for order in (names, names[::-1])]
    for _ in range(5):
        results = _together(*(lambda tasks=tasks: store.enqueue(tasks) for tasks in (forth, back, forth, back)))
        assert all(isinstance(result, list) for result in results), results
        numbers = [{each.id for each in result} for result in results]
        assert numbers.count(numbers[0]) == 4
        assert sum(each.created for result in results for each in result) in {0, 300}
        claimed = claim(store, limit=300)
        turn(store, done=[(each.id, each.epoch) for each in claimed])
        assert sorted(each.id for each in claimed) == sorted(numbers[0])


def test_many_workers_get_every_task_once(store):
    numbers = add(store, *(task() for _ in range(4000)))
    for name in "abcd":
        register(store, name)

    def work(name):
        mine, done = [], []
        while True:
            claimed = turn(store, name, done=done, claim=Claim(("default",), 70, 35)).claimed
            if not claimed and not done:
                return mine
            mine += [each.id for each in claimed]
            done = [(each.id, each.epoch) for each in claimed]

    results = _together(*(lambda name=name: work(name) for name in "abcd"))
    assert sorted(number for result in results for number in result) == numbers
    assert store.counts()["DONE"] == 4000


def test_cooling_tasks_are_passed_over_before_they_are_moved(store, server):
    (cold, free) = add(store, task(resource="r"), task())
    server.execute("INSERT INTO own.cooldowns VALUES (now() + interval '1 hour', 'r', 'quiet')")
    assert [each.id for each in claim(store)] == [free]
    assert store.get(cold).next_run_after == store.cooldowns()[0].until
