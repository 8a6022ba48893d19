"""A worker whose resources are limited, on every store: what is refused costs nothing and comes back by itself."""

import threading

import psycopg
import pytest

import outlast
from conformance.acting import claim, die, register
from conformance.test_worker_life import wait_for, working
from conformance.test_worker_troubles import Wrapped
from outlast.errors import NetworkError
from outlast.ports.rows import Kind, Status
from outlast.queue import admission

AWAY = psycopg.OperationalError("server closed the connection")
SLOW = "1/h"
NOW = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=0)


@pytest.fixture
def app(store, tmp_path):
    return outlast.App(store, policy=NOW, spool=tmp_path / "spool", grace=5, lease=2, heartbeat=0.2)


def calling(app, ran, **more):
    @app.task(resource="api", **more)
    def call(n: int):
        ran.append(n)

    return call


def test_a_drain_runs_what_may_start_and_does_not_wait_for_the_rest(app):
    ran = []
    app.limit("api", rate=SLOW, burst=3)
    numbers = [each.id for each in calling(app, ran).enqueue_many([{"n": n} for n in range(10)])]
    worker = app.worker()
    assert worker.drain() == 3, "to be refused is no outcome"
    assert sorted(ran) == [0, 1, 2]
    assert worker.outcomes == {Kind.DONE: 3}
    tasks = [app.tasks.show(each) for each in numbers[3:]]
    assert {each.task.status for each in tasks} == {Status.QUEUED}
    assert {(each.task.attempt, each.task.deferrals, len(each.attempts)) for each in tasks} == {(0, 0, 0)}
    assert app.worker().drain() == 0


def test_what_is_refused_comes_back_and_runs(app):
    ran = []
    app.limit("api", rate="50/s", burst=1, concurrency=2)
    calling(app, ran).enqueue_many([{"n": n} for n in range(15)])
    with working(app):
        wait_for(lambda: len(ran) == 15, 30)
    assert sorted(ran) == list(range(15))


def test_coroutines_are_limited_as_well(app):
    ran = []
    app.limit("api", rate=SLOW, burst=2)

    @app.task(resource="api")
    async def call(n: int):
        ran.append(n)

    call.enqueue_many([{"n": n} for n in range(5)])
    app.worker().drain()
    assert sorted(ran) == [0, 1]


def test_tasks_of_other_resources_ask_nobody(app, store):
    ran, asked = [], []
    wrapped = Wrapped(store)
    wrapped.admit = wrapped.reserve_retries = asked.append
    app = outlast.App(wrapped, spool=app.settings.spool)
    app.limit("elsewhere", rate=SLOW, retries=SLOW)
    calling(app, ran).enqueue_many([{"n": n} for n in range(10)])
    assert app.worker().drain() == 10
    assert asked == []


def test_a_limit_that_is_set_while_a_worker_runs_holds_from_then_on(app, store):
    ran, failed = [], []
    call = calling(app, ran)

    @app.task(resource="api", policy=NOW.replace(base_delay=600, max_delay=600, jitter="none"))
    def fail():
        failed.append(outlast.current_task().id)
        raise NetworkError("down")

    with working(app):
        call.enqueue(n=1)
        wait_for(lambda: ran == [1], 30)
        app.limit("api", rate=1000, burst=4, retries=SLOW, retry_burst=1)
        numbers = [fail.enqueue().id for _ in range(3)]
        wait_for(lambda: all(app.tasks.show(each).task.retry_count for each in numbers), 30)
    before = store.now()
    waits = sorted((app.tasks.show(each).task.next_run_after - before).total_seconds() for each in numbers)
    assert [round(wait / 3600) for wait in waits] == [0, 1, 2], "each has a place"


def test_a_limit_that_nobody_names_is_told_of(app, caplog):
    app.limit("apj", rate=1)
    calling(app, []).enqueue(n=1)
    app.worker().drain()
    assert "the limit of apj: no task" in caplog.text


def test_what_cannot_be_asked_for_does_not_run(app, store, monkeypatch, caplog):
    monkeypatch.setattr(admission, "_LIMIT_RETRY_WAIT", 0.05)
    ran, failures = [], [AWAY, ValueError("a mistake of ours"), AWAY]
    wrapped = Wrapped(store)

    def admit(asks):
        if failures:
            assert ran == []
            raise failures.pop()
        return store.admit(asks)

    wrapped.admit = admit
    app = outlast.App(wrapped, spool=app.settings.spool)
    app.limit("api", rate=1000, burst=100)
    (number,) = [each.id for each in calling(app, ran).enqueue_many([{"n": 1}])]
    with working(app):
        wait_for(lambda: ran == [1], 30)
    assert failures == []
    assert "the store failed" in caplog.text
    assert app.tasks.show(number).task.attempt == 1, "what did not run has spent nothing"


def test_a_limit_that_could_not_be_asked_for_is_left_alone_for_a_while(app, store):
    """To ask may take seconds each time, and what has no limit would wait for them."""
    ran, asked = [], []
    wrapped = Wrapped(store)

    def admit(asks):
        asked.append(asks)
        raise AWAY

    wrapped.admit = admit
    app = outlast.App(wrapped, spool=app.settings.spool)
    app.limit("api", rate=1000)
    call = calling(app, ran)

    @app.task
    def other(n: int):
        ran.append(n)

    for n in range(20):
        call.enqueue(n=-1)
        other.enqueue(n=n)
    app.worker(concurrency=1).drain()
    assert sorted(ran) == list(range(20))
    assert len(asked) <= 3, "one, and more only where the machine needs five seconds for it"


@pytest.mark.parametrize("failure", [AWAY, ValueError("a mistake of ours")])
def test_a_budget_that_cannot_be_asked_for_loses_no_retry(app, store, failure, monkeypatch):
    monkeypatch.setattr(admission, "_LIMIT_RETRY_WAIT", 0.05)
    ran, failures = [], [failure]
    wrapped = Wrapped(store)

    def reserve_retries(limit, count):
        if failures:
            raise failures.pop()
        return store.reserve_retries(limit, count)

    wrapped.reserve_retries = reserve_retries
    app = outlast.App(wrapped, policy=NOW, spool=app.settings.spool)
    app.limit("api", retries=1000)

    @app.task(resource="api")
    def call():
        ran.append(outlast.current_task().retry_count)
        if len(ran) == 1:
            raise NetworkError("down")

    call.enqueue()
    with working(app):
        wait_for(lambda: ran == [0, 1], 30)
    assert failures == []


def test_a_retry_waits_for_its_place_beside_what_the_policy_asks_for(app, store):
    app.limit("api", retries=0.01, retry_burst=1)

    @app.task(resource="api", policy=NOW.replace(base_delay=30, jitter="none", max_delay=30))
    def call():
        raise NetworkError("down")

    numbers = [call.enqueue().id for _ in range(3)]
    before = store.now()
    app.worker(concurrency=1).drain()
    waits = sorted((app.tasks.show(each).task.next_run_after - before).total_seconds() for each in numbers)
    assert [round((wait - 30) / 105) for wait in waits] == [0, 1, 2]
    assert waits[0] >= 30
    recorded = sorted(app.tasks.show(each).attempts[0].delay for each in numbers)
    assert abs(recorded[2] - 240) < 5, "the history tells the wait that it really was"


def test_a_suspect_that_runs_alone_is_limited_too(app, store):
    ran, others = [], threading.Event()
    app.limit("api", rate=SLOW)
    call = calling(app, ran)

    @app.task
    def other():
        others.set()

    first = call.enqueue(n=1).id
    register(store, "doomed")
    assert [each.id for each in claim(store, "doomed")] == [first]
    die(store, "doomed")
    store.rescue(3)
    assert app.tasks.show(first).task.suspect
    call.enqueue(n=2, priority=0)
    used = call.enqueue(n=3).id
    other.enqueue()
    app.worker().drain()
    assert others.is_set()
    assert len(ran) == 1
    waiting = [each for each in (first, used) if app.tasks.show(each).task.status is Status.QUEUED]
    assert waiting
    assert all(app.tasks.show(each).task.crash_count == 0 for each in waiting)
