"""Somebody holds what is known of a resource and does not let go of it: only its tasks wait, and not for ever."""

import threading

import psycopg
import pytest

import outlast
from conformance.acting import register
from conformance.places import PostgresPlace, need_postgres
from conformance.test_worker_life import wait_for, working
from outlast.decide.limits import ResourceLimit
from outlast.errors import NetworkError
from outlast.ports.rows import Status
from outlast.queue import admission
from outlast.stores.postgres import flow_control


@pytest.fixture
def place(postgres_server):
    need_postgres()
    made = PostgresPlace(postgres_server, "postgres").blank()
    yield made
    made.close()


@pytest.fixture
def app(place, tmp_path):
    policy = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=0)
    made = outlast.App(place.open(), policy=policy, spool=tmp_path / "spool")
    made.create_schema()
    return made


def test_tasks_without_a_limit_go_on_and_so_do_outcomes(app, place, monkeypatch):
    monkeypatch.setattr(flow_control, "_LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr(admission, "_LIMIT_RETRY_WAIT", 0.5)
    app.limit("api", rate=1000, burst=100, retries=1000, retry_burst=100)
    began, held, ran = threading.Event(), threading.Event(), []

    @app.task(resource="api")
    def flaky():
        if outlast.current_task().retry_count == 0:
            began.set()
            assert held.wait(60)
            raise NetworkError("down")

    @app.task(resource="api")
    def call():
        ran.append("call")

    @app.task
    def other():
        ran.append("other")

    first = flaky.enqueue().id
    with working(app, concurrency=4):
        assert began.wait(60)
        with place.connect() as holder:
            holder.execute("SELECT FROM resource_limits FOR UPDATE")
            held.set()
            second = call.enqueue().id
            for _ in range(10):
                other.enqueue()
            wait_for(lambda: app.tasks.counts()[Status.DONE] == 10, 60)
            wait_for(lambda: app.tasks.show(first).task.retry_count == 1, 60)
            assert ran == ["other"] * 10, "what cannot be asked for does not start"
        wait_for(lambda: app.tasks.counts()[Status.DONE] == 12, 60)
    assert app.tasks.show(second).task.attempt == 1


def test_who_falls_silent_while_it_holds_it_is_hung_up_on(place, monkeypatch):
    """A process that was stopped, say: its session would keep the lock for as long as the machine is up."""
    store, another = place.open(), place.open()
    store.create_schema()
    register(store)
    limit = ResourceLimit("api", retries=1.0)
    store.reserve_retries(limit, 1)
    monkeypatch.setattr(flow_control, "_LOCK_TIMEOUT", "60s")
    monkeypatch.setattr(flow_control, "_IDLE_TIMEOUT", "200ms")
    silent, over, caught = threading.Event(), threading.Event(), []

    def fall_silent(cursor, _):
        silent.set()
        assert over.wait(60)
        cursor.connection.execute("SELECT 1")

    def ask():
        try:
            store._under_lock(["api"], fall_silent)
        except psycopg.Error as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert silent.wait(60)
        assert len(another.reserve_retries(limit, 1)) == 1
    finally:
        over.set()
        thread.join(60)
    assert [type(each) for each in caught] == [psycopg.errors.IdleInTransactionSessionTimeout]
    assert len(store.reserve_retries(limit, 1)) == 1, "the store goes on with another session"
