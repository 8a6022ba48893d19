"""A server that restarts, and how an idle worker is called (pitfall 47)."""

from __future__ import annotations

import logging
import threading
import time

import psycopg
import pytest

from conformance.acting import add, claim, register, task, turn
from outlast.stores.postgres.store import PostgresStore
from servers.postgres import PostgresServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = PostgresServer(
        tmp_path_factory.mktemp("outages"), durable=True
    )  # what was committed is there after a crash
    server.start()
    yield server
    server.stop()


@pytest.fixture
def store(server):
    store = PostgresStore(server.url)
    store.create_schema()
    server.execute("DELETE FROM task_queue", "DELETE FROM workers", "DELETE FROM task_flow")
    register(store)
    yield store
    store.close()


class Calls:
    def __init__(self):
        self._called = threading.Semaphore(0)

    def __call__(self):
        self._called.release()

    def wait(self, seconds=10.0):
        return self._called.acquire(timeout=seconds)

    def forget(self):
        while self._called.acquire(timeout=0.2):
            pass


@pytest.fixture
def calls(store):
    calls = Calls()
    end = store.listen(calls)
    assert calls.wait(), "one call for the new connection"
    yield calls
    end()


@pytest.mark.parametrize("hard", [False, True])
def test_after_a_restart_the_first_call_succeeds(store, server, hard):
    (number,) = add(store)
    if hard:
        server.stop_hard()
    server.restart()
    (claimed,) = claim(store)
    assert claimed.id == number
    server.restart()
    assert len(add(store, task(), task())) == 2
    assert turn(store, done=[(claimed.id, claimed.epoch)]).refused == []


def test_a_connection_that_dies_in_mid_turn_raises_and_is_not_lent_again(store, server):
    add(store)
    with server.connect() as other:
        other.execute("LOCK TABLE workers IN ACCESS EXCLUSIVE MODE")
        ended = threading.Timer(
            0.3,
            server.execute,
            ["SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"],
        )
        ended.start()
        with pytest.raises(psycopg.OperationalError):
            claim(store)
        ended.join()
    assert len(claim(store)) == 1


def test_while_the_server_is_away_the_error_says_so_and_then_it_goes_on(store, server):
    add(store)
    server.stop_hard()
    begun = time.monotonic()
    with pytest.raises(psycopg.OperationalError, match=r"refused|closed the connection"):
        store.counts()
    assert time.monotonic() - begun < 15
    server.restart()
    assert store.counts()["QUEUED"] == 1


@pytest.mark.parametrize("tasks", [[task()], [task()] * 3, [task(unique_key="a"), task(unique_key="b")]])
def test_enqueueing_calls(store, calls, tasks):
    store.enqueue(tasks)
    assert calls.wait()
    assert not calls.wait(0.3), "one transaction, one call"


def test_a_callers_transaction_calls_when_it_commits(store, server, calls):
    with server.connect() as connection:
        store.enqueue([task()], connection)
        store.enqueue([task()], connection)
        assert not calls.wait(0.3)
    assert calls.wait()
    assert not calls.wait(0.3)


def test_listening_goes_on_after_a_restart(store, server, calls):
    server.restart()
    assert calls.wait(), "what came in between is looked for"
    calls.forget()
    add(store)
    assert calls.wait()


def test_who_has_ended_is_not_called(store):
    calls = Calls()
    end = store.listen(calls)
    assert calls.wait()
    end()
    add(store)
    assert not calls.wait(0.5)


def test_tasks_that_become_ready_call(store, calls):
    number, *_ = add(store, task(delay=60), task())
    calls.forget()
    store.run_now([number])
    assert calls.wait()
    calls.forget()
    store.resume("default")
    assert calls.wait()
    claim(store)
    calls.forget()
    assert store.leave("w1") == 2
    assert calls.wait()


def test_the_lines_of_our_pool_are_dropped_while_the_outage_is_reported(server, store, caplog):
    """The callers of the store have the error and report it; the pool of somebody else's goes on."""
    caplog.set_level("WARNING", "psycopg.pool")

    def pool_lines():
        return [record.getMessage() for record in caplog.records if record.name == "psycopg.pool"]

    server.stop_hard()
    try:
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError):
                store.counts()
        caplog.clear()
        with pytest.raises(psycopg.OperationalError):
            store.counts()
        time.sleep(1.5)  # the pool tries to connect again, in threads of its own
        assert pool_lines() == []
        logging.getLogger("psycopg.pool").warning("error connecting in %r: %s", "theirs", "refused")
        assert pool_lines() == ["error connecting in 'theirs': refused"]
    finally:
        server.restart()
    store.counts()
    logging.getLogger("psycopg.pool").warning("error connecting in %r: %s", "outlast", "refused")
    assert pool_lines()[1:] == ["error connecting in 'outlast': refused"]
