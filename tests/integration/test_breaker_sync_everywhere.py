"""Orders for breakers reach whoever runs in a process, also where no command started it; and the books are rolled up."""

import asyncio
import itertools
import threading
import time

import pytest

import outlast
from outlast import BreakerSettings, breaker_sync
from outlast.breaker_sync import process_name, sync_breakers
from outlast.errors import BreakerOpenError
from outlast.worker import BaseWorker

_names = (f"everywhere-{number}" for number in itertools.count())
LONGEST = 30.0


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Other tests have breakers too, in this process."""
    monkeypatch.setattr("outlast.run.resources._resources", {})
    monkeypatch.setattr(breaker_sync, "SYNC_EVERY", 0.02)


@pytest.fixture
def app(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}", spool=tmp_path / "spool")
    app.create_schema()
    yield app
    app.close()


def make():
    return outlast.resource(next(_names), breaker=BreakerSettings(consecutive=3))


def refused(guard):
    try:
        with guard:
            return False
    except BreakerOpenError:
        return True


def until(what):
    end = time.monotonic() + LONGEST
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def sync_threads():
    return [each for each in threading.enumerate() if each.name == "outlast-breaker-sync"]


def ordered(app, guard):
    """Have a breaker opened, and see that it is; then closed, and see that too."""
    app.store.order_breaker(guard.name, "open")
    until(lambda: refused(guard))
    until(lambda: [(row.state, row.reason) for row in app.store.breakers()] == [("open", "by hand")])
    app.store.order_breaker(guard.name, "closed")
    until(lambda: not refused(guard))
    return [row.process for row in app.store.breakers()]


def test_a_base_worker(app):
    class Own(BaseWorker):
        def process_task(self, task):
            return None

    guard, rolled = make(), threading.Event()
    app.store.roll_up, roll_up = (lambda: rolled.set() or roll_up()), app.store.roll_up
    worker = Own("w1", app, {"poll_interval": 0.02})
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(app.store.workers)
        assert ordered(app, guard) == [app.store.workers()[0].id]
        assert rolled.wait(LONGEST), "nobody else may be there to add up the books"
    finally:
        worker.stop()
        thread.join(LONGEST)
    assert (app.store.breakers()[0].process, sync_threads()) == ("", [])


def test_a_monitor_that_a_program_runs(app):
    guard = make()
    app.sources.add("https://feeds.test/1")

    def fetch(source):
        return "as ever"

    monitor = app.monitor("feed", fetch=fetch, every=604_800)
    thread = threading.Thread(target=monitor.run)
    thread.start()
    try:
        assert ordered(app, guard) == [process_name()]
    finally:
        monitor.stop()
        thread.join(LONGEST)
    assert (app.store.breakers()[0].process, sync_threads()) == ("", [])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_job_that_a_program_runs(app, is_async):
    guard, seen = make(), []

    @app.job("items", max_failure_rate=0.0, targets=lambda: [1])
    def items(context, target):
        seen.append(ordered(app, guard))

    summary = asyncio.run(items.run_async()) if is_async else items.run()
    assert (summary.to_dict()["exit_code"], seen) == (0, [[process_name()]])
    assert (app.store.breakers()[0].process, sync_threads()) == ("", [])


def test_without_a_breaker_there_is_no_thread_until_there_is_one(app):
    with sync_breakers(app.store, process_name, leased=False):
        assert sync_threads() == []
        guard = make()
        until(lambda: [row.state for row in app.store.breakers()] == ["closed"])
        ordered(app, guard)
    assert sync_threads() == []
    make()
    assert sync_threads() == [], "nobody watches any more"


def test_a_job_within_a_worker_does_not_tell_the_same_twice(app):
    guard, seen = make(), []

    @app.job("items", max_failure_rate=0.0, targets=lambda: [1])
    def items(context, target):
        seen.append(ordered(app, guard))

    @app.task
    def run():
        items.run()

    run.enqueue()
    worker = app.worker()
    worker.drain()
    assert seen == [[worker.id]]
