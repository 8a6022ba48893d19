"""A queue is worked through in no time, on every store."""

import asyncio
import sys
import time
from datetime import timedelta

import pytest

import outlast
from outlast.errors import ConfigError, NetworkError, PermanentError
from outlast.testing import Drained, drain, drain_async, fake_clock, fresh_database, record_decisions

HOURLY = outlast.RetryPolicy(max_attempts=5, retry_on=outlast.RETRYABLE, base_delay=3600, max_delay=86400, jitter=None)
here = []


on_all_stores = pytest.mark.parametrize("app", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(params=["sqlite"])
def app(request, tmp_path):
    if request.param == "postgres":
        with fresh_database(request.getfixturevalue("postgres_server").url) as url:
            app = outlast.App(url, policy=HOURLY)
            app.create_schema()
            yield app
            app.close()
        return
    app = outlast.App(f"sqlite:///{tmp_path}/x.db", policy=HOURLY)
    yield app
    app.close()


def test_an_empty_queue_is_drained_at_once(app):
    assert drain(app) == Drained()
    assert repr(drain(app)) == "Drained(nothing)"


@on_all_stores
def test_retries_of_hours_take_no_time(app):
    left = [NetworkError("x")] * 3

    @app.task
    def fetch(n: int) -> None:
        if left:
            raise left.pop()

    fetch.enqueue(n=1)
    fetch.enqueue(n=2, delay=timedelta(days=3))
    drained = drain(app)

    assert drained[:7] == (2, 3, 0, 0, 0, 0, 0)
    assert drained.seconds >= 3 * 86400 - 60
    assert app.tasks.counts()["DONE"] == 2


@on_all_stores
def test_the_clock_in_use_moves_on(app):
    left = [NetworkError("x")] * 2

    @app.task
    def fetch() -> None:
        if left:
            raise left.pop()

    with fake_clock() as clock, record_decisions() as decisions:
        fetch.enqueue()
        before = clock.now()
        drained = drain(app)
        assert clock.now() - before == pytest.approx(drained.seconds)
    assert drained.retried == decisions.retries("fetch") == 2
    assert drained.seconds == pytest.approx(sum(decisions.waits("fetch")), rel=0.1)
    assert decisions.recoveries("fetch") == 1


@on_all_stores
def test_dead_letters_are_counted_and_told(app):
    @app.task
    def broken() -> None:
        raise PermanentError("no such thing")

    broken.enqueue()
    drain(app)
    broken.enqueue()
    drained = drain(app)

    assert drained.dead == 1
    assert drained.why == ("broken: permanent, no such thing",)
    assert repr(drained) == "Drained(dead=1, broken: permanent, no such thing)"


@on_all_stores
def test_what_a_server_asks_for_is_waited_for_on_the_clock(app):
    from outlast.testing import sample_error

    left = [sample_error("rate_limit", retry_after=1800)]

    @app.task(resource="api.example.com")
    def fetch(n: int) -> None:
        if left:
            raise left.pop()

    for n in range(3):
        fetch.enqueue(n=n)
    drained = drain(app, concurrency=1)

    assert (drained.done, drained.deferred, drained.retried) == (3, 1, 0)
    assert drained.seconds == pytest.approx(1800, abs=60)


def test_a_task_that_expires_while_the_clock_moves_is_a_dead_letter(app):
    @app.task(expires=1800)
    def fetch() -> None:
        raise NetworkError("x")

    fetch.enqueue()
    assert drain(app).why == ("fetch: expired, x",)


def test_tasks_that_enqueue_others_are_followed(app):
    @app.task
    def page(n: int) -> None:
        if n:
            page.enqueue(n=n - 1, delay=60)

    page.enqueue(n=5)
    assert drain(app).done == 6


@pytest.mark.parametrize("delay", [0, 60])
def test_a_task_that_never_ends_is_told(app, delay):
    @app.task
    def forever() -> None:
        forever.enqueue(delay=delay)

    forever.enqueue()
    with pytest.raises(AssertionError, match=r"still tasks after 20 attempts \(forever 2\d times\).*higher limit"):
        drain(app, limit=20)


def test_coroutine_functions(app):
    left = [NetworkError("x")]

    @app.task
    async def fetch() -> None:
        if left:
            raise left.pop()

    async def use():
        with pytest.raises(ConfigError, match="await drain_async"):
            drain(app)
        return await drain_async(app)

    fetch.enqueue()
    assert asyncio.run(use())[:2] == (1, 1)


def test_a_call_that_sleeps_for_longer_than_the_lease_loses_nothing(app):
    calls = []

    @outlast.retry(max_attempts=4, base_delay=600, max_delay=600, deadline=None)
    def ask():
        calls.append(1)
        if len(calls) < 4:
            raise NetworkError("x")
        time.sleep(0.2)  # so that the worker's heart beats on the moved clock

    @app.task
    def fetch() -> None:
        ask()

    fetch.enqueue()
    drained = drain(app)
    assert (drained.done, drained.rescued, len(calls)) == (1, 0, 4)


def test_what_nobody_knows_is_parked(app):
    from outlast.ports.rows import NewTask

    app.store.enqueue([NewTask("unheard_of", "{}")])
    assert drain(app).parked == 1


def test_a_periodic_task_runs_as_often_as_its_time_comes(app):
    ran = []

    @app.periodic(every=3600)
    def tidy() -> None:
        ran.append(1)

    @app.task
    def wait() -> None: ...

    drain(app)
    wait.enqueue(delay=0)
    drain(app)
    assert len(ran) <= 2, "the clock moves to what waits, not from one hour to the next without end"


def test_tasks_with_a_timeout_run_in_this_process(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path}/x.db")
    task = app.task(timeout=30)(note)
    here.clear()
    task.enqueue(n=1)
    assert drain(app).done == 1
    assert here == [1]
    assert task.target is not None, "put back"
    app.close()


def test_or_in_their_own_as_in_production(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "own_tasks.py").write_text("def note(n: int) -> None:\n    open(__file__ + '.seen', 'w').close()\n")
    import own_tasks

    app = outlast.App(f"sqlite:///{tmp_path}/x.db")
    app.task(timeout=30)(own_tasks.note).enqueue(n=1)
    assert drain(app, processes=True).done == 1
    assert (tmp_path / "own_tasks.py.seen").exists()
    app.close()


def note(n: int) -> None:
    here.append(n)


def test_the_store_is_as_it_was(app):
    before = app.store.poll, app.store.in_process
    drain(app)
    assert (app.store.poll, app.store.in_process) == before


def test_the_limit_itself_is_allowed(app):
    @app.task
    def fetch(n: int) -> None: ...

    for n in range(5):
        fetch.enqueue(n=n)
    assert drain(app, limit=5).done == 5, "exactly so many"


def test_a_limit_of_starts_is_kept_on_the_moved_clock(app):
    @app.task(resource="slow.example.com")
    def fetch(n: int) -> None: ...

    app.limit("slow.example.com", rate="1/m", burst=1)
    for n in range(4):
        fetch.enqueue(n=n)
    drained = drain(app)
    assert drained.done == 4
    assert drained.seconds >= 170


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
def test_a_limit_by_a_clock_of_the_stores_own_is_told(app, monkeypatch):
    monkeypatch.setattr("outlast.testing.queue_drain._IDLE", 3)

    @app.task(resource="slow.example.com")
    def fetch(n: int) -> None: ...

    app.limit("slow.example.com", rate="1/d", burst=1)
    for n in range(2):
        fetch.enqueue(n=n)
    with pytest.raises(AssertionError, match="a rate limit that uses the clock of PostgreSQL may be too slow"):
        drain(app)
