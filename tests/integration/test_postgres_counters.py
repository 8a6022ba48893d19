"""The books in PostgreSQL: filled from what is there, and added up by one at a time."""

from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest

from conformance.acting import NOTE, add, bury, claim, register, task, turn
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import DeadLetterFilter, Kind, Reason, Settlement
from outlast.stores.postgres import counters
from outlast.stores.postgres.sql import scripts
from outlast.stores.postgres.store import PostgresStore

OLD = """
INSERT INTO old.task_queue (task_type, status, worker_id) VALUES
    ('a', 'QUEUED', NULL), ('a', 'QUEUED', NULL), ('a', 'RUNNING', 'w1'), ('a', 'PARKED', NULL), ('a', 'DONE', NULL),
    ('a', 'DONE', NULL), ('a', 'CANCELLED', NULL), ('a', 'DISCARDED', NULL), ('a', 'FAILED', NULL), ('a', 'FAILED', NULL),
    ('b', 'FAILED', NULL), ('b', 'FAILED', NULL);
INSERT INTO old.dead_letter_queue
    (original_task_id, created_at, moved_to_dlq_at, retry_count, crash_count, replays, priority, task_type, queue, parameters,
     error_type, error_message, error_category, reason, fingerprint, traceback, failure)
SELECT id, now(), now() - id * interval '1 hour', 1, 0, 0, 5, task_type, queue, parameters,
    'TimeoutError', 'message ' || id, 'network', 'exhausted', task_type || '1', '', '{}'
FROM old.task_queue WHERE status = 'FAILED' AND id < 12;
INSERT INTO old.task_attempts
    (task_id, finished_at, attempt, outcome, error_type, error_message, error_category, fingerprint, traceback, failure)
SELECT 9, now(), n, 'retry', 'TimeoutError', 'message', 'network', 'a1', '', '{}' FROM generate_series(1, 5) AS n;
"""


@pytest.fixture(scope="module")
def server(postgres_server):
    yield postgres_server
    postgres_server.execute(*(f"DROP SCHEMA IF EXISTS {name} CASCADE" for name in ("books", "old")))


@pytest.fixture
def store(server):
    server.execute("DROP SCHEMA IF EXISTS books CASCADE")
    store = PostgresStore(server.url, schema="books")
    store.create_schema()
    yield store
    store.close()


def _age(server, seconds):
    """Let time pass for what is in the books."""
    server.execute(
        *(
            f"UPDATE books.{table} SET at = at - interval '{seconds} seconds' WHERE span >= 0"
            for table in ("task_flow", "failure_flow")
        )
    )


def _age_deltas(server):
    """Let time pass for the deltas alone: steps have one row each, and an UPDATE would move one onto the next."""
    server.execute("UPDATE books.task_flow SET at = at - interval '20 seconds' WHERE span = 0")


def _spans(server, table="task_flow"):
    with server.connect() as connection:
        return dict(connection.execute(f"SELECT span, sum(n)::integer FROM books.{table} GROUP BY span").fetchall())


class TestMigration:
    @pytest.fixture
    def migrated(self, server):
        server.execute("DROP SCHEMA IF EXISTS old CASCADE", "CREATE SCHEMA old")
        store = PostgresStore(server.url, schema="old")
        with server.connect() as connection:
            connection.execute(store.db.sql["create_version"])
            for number, script in scripts("old").items():
                if number <= 3:
                    connection.execute(script)
                    connection.execute(store.db.sql["add_version"], {"version": number})
            connection.execute(OLD)
        store.create_schema()
        yield store
        store.close()

    def test_the_books_are_those_of_what_is_there(self, migrated, server):
        """A task that failed and has no dead letter, which somebody has deleted by hand, is discarded."""
        with server.connect() as connection:
            rows = connection.execute("SELECT status, count(*) FROM old.task_queue GROUP BY status").fetchall()
        assert migrated.counts() == dict(rows) | {"dead_letters": 3}
        assert migrated.counts()["DISCARDED"] == 2
        assert migrated.dead_letter_counts() == {("a", "network"): 2, ("b", "network"): 1}

    def test_so_are_the_groups(self, migrated):
        a, b = sorted(migrated.failures(FailureFilter()).rows)
        assert (a.fingerprint, a.failures, a.dead, a.error_message) == ("a1", 5, 2, "message 9")
        assert (b.fingerprint, b.failures, b.dead, b.task_type) == ("b1", 1, 1, "b")
        assert a.last_seen - a.first_seen == timedelta(hours=1)

    def test_attempts_are_counted_once_for_all_groups(self, migrated, server):
        """Not once for each: that took half a minute for 2,000 groups, with every worker waiting."""
        script = scripts("old")[4].decode()
        (statement,) = re.findall(r'INSERT INTO "old"\.failure_groups\n.*?;', script, re.DOTALL)
        with server.connect() as connection:
            connection.execute("DELETE FROM old.failure_groups")
            plan = "\n".join(line for (line,) in connection.execute("EXPLAIN " + statement).fetchall())
            connection.rollback()
        assert plan.count("on task_attempts") == 1
        assert "SubPlan" not in plan

    def test_they_go_on_from_there(self, migrated, server):
        (first, *_) = migrated.dead_letters(DeadLetterFilter(task_type="a"))
        assert migrated.replay(first.id) == "replayed"
        assert migrated.prune_dead_letters(older_than=-100) == 2
        assert migrated.prune(done_before=-100) > 0
        with server.connect() as connection:
            rows = connection.execute("SELECT status, count(*) FROM old.task_queue GROUP BY status").fetchall()
        assert {name: number for name, number in migrated.counts().items() if number} == dict(rows)
        assert [group.dead for group in migrated.failures(FailureFilter()).rows] == [0, 0]

    def test_of_old_groups_nobody_is_told(self, migrated):
        """An upgrade is no storm of alerts."""
        assert migrated.unannounced_groups() == []
        migrated.record_observed([("a", "retry", "network", "new", "TimeoutError", "timed out")])
        assert [group.fingerprint for group in migrated.unannounced_groups()] == ["new"]
        assert {group.standing(group.last_seen) for group in migrated.failures(FailureFilter()).rows} == {"open"}


class TestRollingUp:
    def test_from_span_to_span_until_nobody_asks(self, store, server):
        bury(store)
        before = store.event_totals()
        assert _spans(server) == {0: 2}
        for age, spans, causes in (
            (30, {-1: 2, 10: 2}, {10: 1}),
            (3 * 3600, {-1: 2, 600: 2}, {600: 1}),
            (10 * 86400, {-1: 2, 86400: 2}, {}),
            (100 * 86400, {-1: 2}, {}),
        ):
            _age(server, age)
            assert store.roll_up() > 0
            assert store.roll_up() == 0
            assert (_spans(server), _spans(server, "failure_flow")) == (spans, causes)
            assert store.event_totals() == before
            (group,) = store.failures(FailureFilter()).rows
            assert (group.failures, group.dead) == (1, 1)
        assert store.dead_letter_counts() == {("scrape", "network"): 1}

    def test_in_batches(self, store, server, monkeypatch):
        monkeypatch.setattr(counters, "_BATCH", 3)
        for _ in range(10):
            add(store)
        _age(server, 30)
        assert store.roll_up() == 10
        assert store.event_totals()["enqueued"] == 10
        assert _spans(server) == {-1: 10, 10: 10}

    def test_who_finds_another_at_it_leaves_it_to_that_one(self, store, server):
        add(store)
        _age(server, 30)
        with server.connect() as other:
            other.execute(store.db.sql["rollup_deltas"], {"batch": 10, "since": None})
            assert store.roll_up() == 0
            other.rollback()
        assert store.event_totals()["enqueued"] == 1
        assert store.roll_up() == 1

    def test_a_delta_that_is_committed_late_is_counted_once(self, store, server):
        with server.connect() as mine:
            store.enqueue([task()], connection=mine)
            mine.execute("UPDATE books.task_flow SET at = at - interval '1 hour'")
            add(store)
            assert (store.roll_up(), store.event_totals()["enqueued"]) == (0, 1)
            mine.commit()
        assert store.event_totals()["enqueued"] == 2
        store.roll_up()
        assert store.event_totals()["enqueued"] == 2

    def test_many_at_once_beside_work(self, store, server):
        stop = threading.Event()
        errors = []

        def roll():
            while not stop.is_set():
                with suppress(
                    psycopg.errors.DeadlockDetected
                ):  # two who change the times of the same rows: our own doing
                    _age_deltas(server)
                try:
                    store.roll_up()
                except Exception as error:
                    errors.append(error)

        threads = [threading.Thread(target=roll) for _ in range(3)]
        for thread in threads:
            thread.start()
        for n in range(30):
            bury(store, note=NOTE._replace(fingerprint=f"f{n % 3}"))
        stop.set()
        for thread in threads:
            thread.join(30)
        assert errors == []
        _age_deltas(server)
        store.roll_up()
        assert store.counts()["dead_letters"] == 30
        assert sum(group.dead for group in store.failures(FailureFilter()).rows) == 30


def test_new_groups_in_any_order_do_not_wait_in_a_circle(store):
    """Each turn retries one cause and ends another, while its neighbour does it the other way round."""
    rounds = 20
    add(store, *(task() for _ in range(4 * rounds)))
    barrier = threading.Barrier(2)
    errors = []

    def work(name, flip):
        register(store, name)
        for n in range(rounds):
            one, two = claim(store, name, 2)
            notes = [NOTE._replace(fingerprint=f"{n}-{flip}"), NOTE._replace(fingerprint=f"{n}-{1 - flip}")]
            barrier.wait(30)
            try:
                turn(
                    store,
                    name,
                    settlements=[
                        Settlement(one.id, one.epoch, Kind.RETRY, 3600.0, notes[0]),
                        Settlement(two.id, two.epoch, Kind.FAIL, 0.0, notes[1], Reason.EXHAUSTED),
                    ],
                )
            except psycopg.Error as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(f"w{flip}", flip)) for flip in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    groups = store.failures(FailureFilter(limit=100)).rows
    assert Counter((group.failures, group.dead) for group in groups) == {(2, 1): 2 * rounds}


def test_a_task_by_sql_is_counted_whoever_adds_it(store, server):
    """One who may add tasks and nothing else, by another search path."""
    server.execute("DROP ROLE IF EXISTS adder", "CREATE ROLE adder")
    server.execute("GRANT USAGE ON SCHEMA books TO adder", "GRANT INSERT ON books.task_queue TO adder")
    with server.connect() as connection:
        connection.execute("SET ROLE adder")
        connection.execute("INSERT INTO books.task_queue (task_type) VALUES ('a'), ('b')")
    assert (store.counts()["QUEUED"], store.event_totals()["enqueued"]) == (2, 2)
    server.execute("DROP OWNED BY adder", "DROP ROLE adder")


def test_nobody_else_can_put_the_trigger_on_a_table_of_his_own(store, server):
    """It runs with the rights of its owner: a guest with a task_flow and a trigger of his own would be the owner."""
    server.execute("DROP SCHEMA IF EXISTS guest CASCADE", "DROP ROLE IF EXISTS guest", "CREATE ROLE guest")
    server.execute("CREATE SCHEMA guest AUTHORIZATION guest", "GRANT USAGE ON SCHEMA books TO guest")
    try:
        with server.connect() as connection:
            connection.execute("SET ROLE guest")
            connection.execute("CREATE TABLE guest.task_flow (event text, n bigint)")
            connection.execute("CREATE TABLE guest.mine (id bigint)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="book_task"):
                connection.execute(
                    "CREATE TRIGGER mine AFTER INSERT ON guest.mine FOR EACH ROW EXECUTE FUNCTION books.book_task()"
                )
    finally:
        server.execute("DROP SCHEMA guest CASCADE", "DROP OWNED BY guest", "DROP ROLE guest")


def test_the_rights_that_a_role_needs_to_enqueue_in_its_own_transaction(store, server):
    """As the how-to says; one right less is refused."""
    server.execute("DROP ROLE IF EXISTS caller", "CREATE ROLE caller", "GRANT USAGE ON SCHEMA books TO caller")
    server.execute("GRANT SELECT, INSERT ON books.task_queue TO caller")
    try:
        with server.connect() as connection:
            connection.execute("SET ROLE caller")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="task_flow"):
                store.enqueue([task()], connection=connection)
            connection.rollback()
        server.execute("GRANT INSERT ON books.task_flow TO caller", "GRANT SELECT ON books.cooldowns TO caller")
        server.execute("GRANT USAGE ON SEQUENCE books.task_queue_id_seq TO caller")
        for batch in ([task()], [task(unique_key="k")], [task(), task(resource="r")]):
            with server.connect() as connection:
                connection.execute("SET ROLE caller")
                store.enqueue(batch, connection=connection)
        assert store.event_totals()["enqueued"] == 4
    finally:
        server.execute("DROP OWNED BY caller", "DROP ROLE caller")


def test_health_checks_draw_no_numbers(store):
    bury(store)
    before = store.pulse().newest_dead_letter
    store.check_dead_letters()
    assert store.pulse().newest_dead_letter == before > 0
