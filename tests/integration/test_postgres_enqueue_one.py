"""Single tasks in PostgreSQL: an enqueue that fails raises, leaves nothing behind and loses no connection."""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest

from outlast.errors import SchemaError
from outlast.ports.rows import NewTask
from outlast.stores.postgres import connection as lending
from outlast.stores.postgres.store import PostgresStore

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%singles%task_queue%'"
LIMIT = 30.0
OURS = {lending.__file__, contextlib.__file__}


class Interruption:
    """Ctrl-C at one of the places where Python lets a signal in: as a function begins, after a call of C, in a loop.

    The handler sends the signal anew whenever it is called, and so is called at each of these places and counts them.
    """

    def __init__(self, place):
        self.left = place
        self.has_come = False
        self._is_away = False
        self._again = iter(partial(_thread.interrupt_main, signal.SIGUSR1), 0)

    def __enter__(self):
        self._before = signal.signal(signal.SIGUSR1, self._handle)
        signal.raise_signal(signal.SIGUSR1)
        return self

    def __exit__(self, *_):
        self._is_away = True
        signal.signal(signal.SIGUSR1, self._before)

    def _handle(self, _, frame):
        if self._is_away:
            return
        if frame.f_code.co_filename in OURS:
            self.left -= 1
            if self.left < 0:
                self._is_away = self.has_come = True
                raise KeyboardInterrupt
        for _ in self._again:  # in a loop, for it would be let in here after a call
            return


@pytest.fixture(scope="module")
def server(postgres_server):
    postgres_server.execute("DROP SCHEMA IF EXISTS singles CASCADE")
    first = PostgresStore(postgres_server.url, schema="singles")
    first.create_schema()
    first.close()
    yield postgres_server
    postgres_server.execute("DROP SCHEMA singles CASCADE")


@pytest.fixture
def store(server):
    server.execute("TRUNCATE singles.task_queue, singles.task_flow")
    store = PostgresStore(server.url, schema="singles")
    yield store
    store.close()


@pytest.fixture
def single(server):
    """A store that has one connection to lose."""
    store = PostgresStore(server.url, schema="singles", min_size=1, max_size=1)
    yield store
    store.close()


@pytest.fixture
def other(server):
    """A session beside the store's, which commits by hand."""
    with psycopg.connect(server.url) as connection:
        yield connection


def insert(store, parameters="{}", priority=5):
    return store.enqueue([NewTask("noop", parameters, "default", priority)])[0].id


def fetch(store):
    store.db.fetch("counts")


def waiting(server):
    """Wait until somebody waits for the lock; return the number of its process."""
    end = time.monotonic() + LIMIT
    with psycopg.connect(server.url, autocommit=True) as connection:
        while time.monotonic() < end:
            found = connection.execute(WAITING).fetchone()
            if found:
                return found[0]
            time.sleep(0.01)
    raise AssertionError("nobody waits for the lock")


def error_while_it_waits(server, store, other, function):
    """Insert while the table is locked, call a function with the session that waits, and return what it raises."""
    other.execute("LOCK TABLE singles.task_queue IN EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as threads:
        inserting = threads.submit(insert, store)
        try:
            server.execute(f"SELECT {function}({waiting(server)})")
            return inserting.exception(LIMIT)
        finally:
            other.rollback()


def assert_queued(store, count):
    with store.db.connection() as connection:
        assert connection.execute("SELECT count(*) FROM singles.task_queue").fetchone() == (count,)
    assert store.counts()["QUEUED"] == count


def test_what_is_enqueued_in_quick_succession_is_there_and_in_the_books(store):
    texts = ['{"a":"ä€𝄞"}', '{"a":"\\\\ \\" \\n %s $1"}', "{}"] * 20
    numbers = [store.enqueue([NewTask("noop", text, "mails", 3)])[0].id for text in texts]
    assert len(set(numbers)) == len(texts)
    for number, text in zip(numbers, texts, strict=True):
        found = store.get(number)
        assert (found.task_type, found.parameters, found.queue, found.priority) == ("noop", text, "mails", 3)
        assert found.next_run_after == found.created_at
        assert found.expires_at is None
    assert_queued(store, len(texts))


def test_more_than_the_system_sends_at_once(store):
    text = '{"a":"' + "x" * 20_000_000 + '"}'
    assert store.get(insert(store, text)).parameters == text


@pytest.mark.parametrize(
    ("parameters", "priority", "error"),
    [("a\x00b", 5, psycopg.DataError), ("{}", 99, psycopg.errors.CheckViolation), ("a\ud800", 5, UnicodeEncodeError)],
)
def test_what_is_refused_is_said_and_leaves_nothing_behind(store, parameters, priority, error):
    for _ in range(3):
        with pytest.raises(error):
            insert(store, parameters, priority)
    assert_queued(store, 0)
    insert(store)
    assert_queued(store, 1)


def test_prepared_statements_that_were_discarded(store):
    insert(store)
    with store.db.connection() as connection:
        connection.execute("DEALLOCATE ALL")
    insert(store)
    insert(store)
    assert_queued(store, 3)


def test_a_connection_that_went_back_to_the_pool(store):
    insert(store)
    for _ in range(3):
        loan = store.db._spare.pop()
        loan.pool.putconn(loan.connection)
        insert(store)
    assert_queued(store, 4)


def test_another_encoding(server, store):
    latin = PostgresStore(f"{server.url}?client_encoding=LATIN1", schema="singles")
    found = latin.get(insert(latin, '{"a":"ä"}'))
    latin.close()
    assert found.parameters == '{"a":"ä"}'
    assert_queued(store, 1)


def test_without_a_threshold_nothing_is_prepared(server, store):
    plain = PostgresStore(server.url, schema="singles", prepare_threshold=None)
    for _ in range(10):
        insert(plain)
    with plain.db.connection() as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    plain.close()
    assert_queued(store, 10)


def test_a_duplicate_is_the_task_that_is_there(store):
    tasks = [store.enqueue([NewTask("noop", "{}", unique_key="a")])[0] for _ in range(3)]
    assert [each.created for each in tasks] == [True, False, False]
    assert len({each.id for each in tasks}) == 1
    assert_queued(store, 1)


def test_missing_tables_are_named(server):
    nowhere = PostgresStore(server.url, schema="nowhere")
    with pytest.raises(SchemaError):
        insert(nowhere)
    nowhere.close()


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("RAISE 'no' USING ERRCODE = '57014'", psycopg.errors.QueryCanceled),
        ("RAISE 'no' USING ERRCODE = '55P03'", psycopg.errors.LockNotAvailable),
        ("RAISE 'no' USING ERRCODE = '40001'", psycopg.errors.SerializationFailure),
        ("RAISE 'no' USING ERRCODE = 'ZZ999'", psycopg.DatabaseError),
        ("RAISE 'no' USING ERRCODE = '26000'", psycopg.errors.InvalidSqlStatementName),
        ("RAISE 'no' USING ERRCODE = '0A000'", psycopg.errors.FeatureNotSupported),
        ("PERFORM pg_terminate_backend(pg_backend_pid())", psycopg.errors.AdminShutdown),
    ],
)
def test_what_the_server_refuses_is_tried_once(server, store, action, error):
    insert(store)
    server.execute("CREATE SEQUENCE singles.tries")  # counts what is rolled back too
    body = f"BEGIN PERFORM nextval('singles.tries'); {action}; RETURN NEW; END"
    server.execute(f"CREATE FUNCTION singles.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    server.execute("CREATE TRIGGER refuse BEFORE INSERT ON singles.task_queue EXECUTE FUNCTION singles.refuse()")
    try:
        with pytest.raises(error):
            insert(store)
        with store.db.connection() as connection:
            assert connection.execute("SELECT last_value FROM singles.tries").fetchone() == (1,)
    finally:
        server.execute("DROP FUNCTION singles.refuse CASCADE")
        server.execute("DROP SEQUENCE singles.tries")
    insert(store)
    assert_queued(store, 2)


def test_what_an_administrator_cancels_is_not_stored_later(server, store, other):
    insert(store)
    assert isinstance(error_while_it_waits(server, store, other, "pg_cancel_backend"), psycopg.errors.QueryCanceled)
    assert_queued(store, 1)


def test_a_session_that_the_server_ends_stores_nothing(store, other):
    if other.info.server_version < 170000:
        pytest.skip("this server has no transaction_timeout")
    with store.db.connection() as connection:
        connection.execute("SET transaction_timeout = '300ms'")
    other.execute("LOCK TABLE singles.task_queue IN EXCLUSIVE MODE")
    with pytest.raises(psycopg.Error, match="transaction timeout"):
        insert(store)
    other.rollback()
    assert_queued(store, 0)


def test_a_session_that_is_ended_in_the_middle_is_an_error_and_is_not_tried_again(server, store, other):
    insert(store)
    assert isinstance(error_while_it_waits(server, store, other, "pg_terminate_backend"), psycopg.errors.AdminShutdown)
    assert_queued(store, 1)
    insert(store)
    assert_queued(store, 2)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system has no signals for threads")
def test_ctrl_c_cancels_what_waits_in_the_server(server, store, other):
    insert(store)
    other.execute("LOCK TABLE singles.task_queue IN EXCLUSIVE MODE")
    main = threading.main_thread().ident

    def interrupt():
        waiting(server)
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            insert(store)
    finally:
        thread.join(LIMIT)
        signal.signal(signal.SIGINT, before)
    other.rollback()
    assert_queued(store, 1)
    insert(store)
    assert_queued(store, 2)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no signals of users")
@pytest.mark.parametrize("use", [insert, fetch])
@pytest.mark.parametrize("kept", [lending._MAX_SPARE, 0])
def test_ctrl_c_loses_no_connection_wherever_it_comes_in(single, monkeypatch, use, kept):
    monkeypatch.setattr(lending, "_MAX_SPARE", kept)
    use(single)
    place, has_come = 0, True
    while has_come:
        with Interruption(place) as interruption:
            try:  # noqa: SIM105  # `suppress` has places of its own
                use(single)
            except KeyboardInterrupt:
                pass
        has_come = interruption.has_come
        assert insert(single), f"lost at place {place}"
        place += 1
    assert place > 10


def test_a_connection_of_a_pool_that_was_closed_meanwhile_goes_back_to_that(single):
    late = single.db._check_out()
    single.close()
    assert insert(single)
    single.db._spare.append(late)
    assert insert(single)
    assert late.connection.closed


def test_a_thread_that_waits_for_a_connection_gets_the_next_one(single):
    with ThreadPoolExecutor(1) as threads:
        with single.db.connection():
            inserting = threads.submit(insert, single)
            end = time.monotonic() + LIMIT
            while not single.db._waiting and time.monotonic() < end:
                time.sleep(0.01)
        assert inserting.result(lending._POOL_TIMEOUT / 2)
    assert not single.db._waiting


def test_old_connections_go_back_to_their_pool(single):
    assert insert(single)
    single.db._spare[0].since -= lending._SPARE_SECONDS
    before = single.db._spare[0]
    assert insert(single)
    assert single.db._spare[0] is not before
