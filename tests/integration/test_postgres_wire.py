"""Single tasks that reach PostgreSQL by the short way: what goes wrong there is said and leaves nothing behind."""

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

from holdfast.errors import SchemaError
from holdfast.ports.rows import NewTask
from holdfast.stores.postgres import connection as lending
from holdfast.stores.postgres import wire
from holdfast.stores.postgres.store import PostgresStore

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%wired%task_queue%'"
LIMIT = 30.0
OURS = {lending.__file__, wire.__file__, contextlib.__file__}


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
    postgres_server.execute("DROP SCHEMA IF EXISTS wired CASCADE")
    first = PostgresStore(postgres_server.url, schema="wired")
    first.create_schema()
    first.close()
    yield postgres_server
    postgres_server.execute("DROP SCHEMA wired CASCADE")


@pytest.fixture
def store(server):
    server.execute("TRUNCATE wired.task_queue, wired.task_flow")
    store = PostgresStore(server.url, schema="wired")
    yield store
    store.close()


@pytest.fixture
def single(server):
    """A store that has one connection to lose."""
    store = PostgresStore(server.url, schema="wired", min_size=1, max_size=1)
    yield store
    store.close()


@pytest.fixture
def other(server):
    """A session beside the store's, which commits by hand."""
    with psycopg.connect(server.url) as connection:
        yield connection


def insert(store, parameters="{}", priority=5):
    return store.db.insert("add_due_task", ("noop", "default", priority, parameters))


def insert_first(store):
    """Insert as if by a connection that has prepared nothing yet."""
    with store.db.connection() as connection:
        connection.execute("DEALLOCATE ALL", prepare=False)
    store.db._wires.clear()
    for loan in store.db._spare:
        loan.wire = None
    insert(store)


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
    other.execute("LOCK TABLE wired.task_queue IN EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as threads:
        inserting = threads.submit(insert, store)
        try:
            server.execute(f"SELECT {function}({waiting(server)})")
            return inserting.exception(LIMIT)
        finally:
            other.rollback()


def assert_queued(store, count):
    with store.db.connection() as connection:
        assert connection.execute("SELECT count(*) FROM wired.task_queue").fetchone() == (count,)
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


@pytest.mark.parametrize("discard", ["DEALLOCATE ALL", "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"])
def test_prepared_statements_that_somebody_has_discarded(store, discard):
    """Also behind the back of psycopg, which then takes them for there."""
    insert(store)
    with store.db.connection() as connection:
        connection.execute(discard)
    insert(store)
    insert(store)
    with store.db.connection() as connection:
        names = connection.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'holdfast%'").fetchall()
    assert names == [("holdfast_due_task",)], "prepared again"
    assert_queued(store, 3)


def test_a_connection_that_went_back_to_the_pool_keeps_what_it_prepared(store):
    insert(store)
    for _ in range(3):
        loan = store.db._spare.pop()
        loan.pool.putconn(loan.connection)
        insert(store)
    with store.db.connection() as connection:
        names = connection.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'holdfast%'").fetchall()
    assert names == [("holdfast_due_task",)]


@pytest.mark.parametrize("settings", [{"prepare_threshold": None}, {"url": "?client_encoding=LATIN1"}])
def test_a_connection_that_cannot_go_the_short_way_goes_the_long_one(server, store, settings):
    plain = PostgresStore(server.url + settings.pop("url", ""), schema="wired", **settings)
    found = plain.get(insert(plain, '{"a":"ä"}'))
    with plain.db.connection() as connection:
        prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'holdfast%'")
        assert prepared.fetchone() == (0,)
    plain.close()
    assert found.parameters == '{"a":"ä"}'
    assert_queued(store, 1)


def test_missing_tables_are_named(server):
    nowhere = PostgresStore(server.url, schema="nowhere")
    with pytest.raises(SchemaError):
        insert(nowhere)
    nowhere.close()


def test_a_column_that_has_another_type_now(server, store):
    insert(store)
    server.execute("ALTER TABLE wired.task_queue ALTER COLUMN id TYPE integer")
    try:
        insert(store)
    finally:
        server.execute("ALTER TABLE wired.task_queue ALTER COLUMN id TYPE bigint")
    insert(store)
    assert_queued(store, 3)


@pytest.mark.parametrize(
    ("action", "error", "tries"),
    [
        ("RAISE 'no' USING ERRCODE = '57014'", psycopg.errors.QueryCanceled, 1),
        ("RAISE 'no' USING ERRCODE = '55P03'", psycopg.errors.LockNotAvailable, 1),
        ("RAISE 'no' USING ERRCODE = '40001'", psycopg.errors.SerializationFailure, 1),
        ("RAISE 'no' USING ERRCODE = 'ZZ999'", psycopg.DatabaseError, 1),
        ("RAISE 'no' USING ERRCODE = '26000'", psycopg.errors.InvalidSqlStatementName, 2),
        ("RAISE 'no' USING ERRCODE = '0A000'", psycopg.errors.FeatureNotSupported, 2),
        ("PERFORM pg_terminate_backend(pg_backend_pid())", psycopg.errors.AdminShutdown, 1),
    ],
)
def test_what_the_server_refuses_is_tried_once(server, store, action, error, tries):
    """Twice only what may mean that the prepared statement cannot be used."""
    insert(store)
    server.execute("CREATE SEQUENCE wired.tries")  # counts what is rolled back too
    body = f"BEGIN PERFORM nextval('wired.tries'); {action}; RETURN NEW; END"
    server.execute(f"CREATE FUNCTION wired.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    server.execute("CREATE TRIGGER refuse BEFORE INSERT ON wired.task_queue EXECUTE FUNCTION wired.refuse()")
    try:
        with pytest.raises(error):
            insert(store)
        with store.db.connection() as connection:
            assert connection.execute("SELECT last_value FROM wired.tries").fetchone() == (tries,)
    finally:
        server.execute("DROP FUNCTION wired.refuse CASCADE")
        server.execute("DROP SEQUENCE wired.tries")
    insert(store)
    assert_queued(store, 2)


def test_what_an_administrator_cancels_is_not_stored_later(server, store, other):
    insert(store)
    assert isinstance(error_while_it_waits(server, store, other, "pg_cancel_backend"), psycopg.errors.QueryCanceled)
    assert_queued(store, 1)


def test_a_session_that_the_server_ends_is_lost_whatever_it_calls_that(store, other):
    if other.info.server_version < 170000:
        pytest.skip("this server has no transaction_timeout")
    with store.db.connection() as connection:
        connection.execute("SET transaction_timeout = '300ms'")
    other.execute("LOCK TABLE wired.task_queue IN EXCLUSIVE MODE")
    with pytest.raises(psycopg.OperationalError, match="transaction timeout"):
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
    other.execute("LOCK TABLE wired.task_queue IN EXCLUSIVE MODE")
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
@pytest.mark.parametrize("use", [insert, insert_first, fetch])
@pytest.mark.parametrize("kept", [lending._SPARE, 0])
def test_ctrl_c_loses_no_connection_wherever_it_comes_in(single, monkeypatch, use, kept):
    monkeypatch.setattr(lending, "_SPARE", kept)
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
    late = single.db._lend()
    single.close()
    assert insert(single)
    single.db._spare.append(late)
    assert insert(single)
    assert late.connection.closed


def test_old_connections_go_back_to_their_pool(single):
    assert insert(single)
    single.db._spare[0].since -= lending._SPARE_LIFE
    before = single.db._spare[0]
    assert insert(single)
    assert single.db._spare[0] is not before
