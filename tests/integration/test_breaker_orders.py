"""Orders for breakers reach real processes: a worker refuses, waits and goes on, and tells of it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

import outlast
from conformance.places import PostgresPlace, need_postgres
from outlast.ports.rows import Status

JOBS = """
import os
import time
from pathlib import Path

import outlast

app = outlast.App(os.environ["OUTLAST_TEST_STORE"])
outlast.resource("api.test", breaker=outlast.BreakerSettings(consecutive=3))


@app.task(resource="api.test", queue=os.environ["OUTLAST_TEST_QUEUE"])
def call(number: int):
    pass


def fetch(source):
    with outlast.resource("api.test"):
        return "as ever"


monitor = app.monitor("feed", fetch=fetch, every=0.1)


@app.job("wait", max_failure_rate=0.0, policy=outlast.RetryPolicy(max_attempts=1), targets=lambda: [1])
def wait(context, target):
    end = time.monotonic() + 60
    while not Path("go").exists() and time.monotonic() < end:
        time.sleep(0.02)
    with outlast.resource("api.test"):
        pass
"""
LONGEST = 30.0  # seconds that anything may take


@pytest.fixture(params=["sqlite", "postgres"])
def app(request, tmp_path, monkeypatch):
    """An app in a folder of its own, and its store as this process sees it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'outlast.db'}"
    else:
        need_postgres()
        url = PostgresPlace(request.getfixturevalue("postgres_server"), "postgres").blank().url
    monkeypatch.setenv("OUTLAST_TEST_STORE", url)
    monkeypatch.setenv("OUTLAST_TEST_QUEUE", "orders")
    (tmp_path / "orders.py").write_text(JOBS, "utf-8")
    made = outlast.App(url)
    made.create_schema()
    yield made
    made.close()


@contextmanager
def process(folder, *words):
    """A command of ours in a process of its own, ended as a supervisor would."""
    command = [sys.executable, "-m", "outlast", *words]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(command, cwd=folder, stderr=log, stdout=log, env=os.environ.copy())
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(LONGEST)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def until(what, folder):
    """Wait for something; where it does not come, show the log."""
    end = time.monotonic() + LONGEST
    while not (found := what()):
        assert time.monotonic() < end, (folder / "log").read_text("utf-8")
        time.sleep(0.02)
    return found


def states(app):
    return {row.state for row in app.store.breakers() if row.resource == "api.test" and row.process}


def test_a_worker_refuses_after_the_order_and_runs_again_after_closing(app, tmp_path):
    @app.task(resource="api.test", queue="orders")
    def call(number: int):
        pytest.fail("the worker does it")

    def status(number):
        return app.tasks.show(number).task.status

    with process(tmp_path, "worker", "orders:app"):
        until(lambda: states(app) == {"closed"}, tmp_path)
        first = call.enqueue(1).id
        until(lambda: status(first) is Status.DONE, tmp_path)

        app.store.order_breaker("api.test", "open")
        until(lambda: states(app) == {"open"}, tmp_path)
        second = call.enqueue(2).id
        until(lambda: app.tasks.show(second).task.last_error, tmp_path)
        history = app.tasks.show(second)
        assert history.task.status is Status.QUEUED
        assert history.task.retry_count == 0, "it costs no attempt"
        assert "the breaker is open" in history.task.last_error
        third = call.enqueue(3).id
        until(lambda: [each.resource for each in app.store.cooldowns()] == ["api.test"], tmp_path)

        app.store.order_breaker("api.test", "closed")
        until(lambda: status(second) is status(third) is Status.DONE, tmp_path)
        assert states(app) == {"closed"}
        assert app.store.cooldowns() == []
    assert states(app) == set(), "a worker that leaves is forgotten"


def test_a_worker_that_starts_later_obeys_before_its_first_task(app, tmp_path):
    @app.task(resource="api.test", queue="orders")
    def call(number: int):
        pytest.fail("the worker does it")

    app.store.order_breaker("api.test", "open", 3600.0)
    number = call.enqueue(1).id
    with process(tmp_path, "worker", "orders:app"):
        until(lambda: app.tasks.show(number).task.last_error, tmp_path)
        assert app.tasks.show(number).task.status is Status.QUEUED
        app.store.order_breaker("api.test", "closed")
        until(lambda: app.tasks.show(number).task.status is Status.DONE, tmp_path)


def test_a_monitor_takes_orders_too(app, tmp_path):
    number = app.sources.add("https://feeds.test/1").id
    with process(tmp_path, "monitor", "orders:monitor"):
        until(lambda: app.sources.history(number, 1), tmp_path)
        app.store.order_breaker("api.test", "open")
        until(lambda: states(app) == {"open"}, tmp_path)
        until(lambda: "the breaker is open" in str(app.sources.history(number, 3)), tmp_path)
        app.store.order_breaker("api.test", "closed")
        until(lambda: states(app) == {"closed"}, tmp_path)
    assert states(app) == set()


def test_a_job_takes_orders_too(app, tmp_path):
    with process(tmp_path, "job", "run", "orders:wait", "--no-progress"):
        until(lambda: states(app) == {"closed"}, tmp_path)
        app.store.order_breaker("api.test", "open")
        until(lambda: states(app) == {"open"}, tmp_path)
        (tmp_path / "go").touch()
        run = until(lambda: [each for each in app.store.runs("wait") if each.ended_at], tmp_path)[0]
        (target,) = app.store.targets(run.id)
        assert "the breaker is open" in target.error_message
