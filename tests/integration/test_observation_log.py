"""What would have been done, in the books of real stores."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

import outlast
from integration.monitoring import KINDS, new_url, opened
from outlast import errors
from outlast.observe import observation_log as module
from outlast.observe.observation_log import recording
from outlast.ports.read_rows import FailureFilter


@pytest.fixture(params=KINDS)
def app(request, tmp_path):
    with opened(new_url(request, tmp_path)) as app:
        yield app


def fetching(error):
    @outlast.retry(mode="observe")
    def fetch():
        raise error

    def call(times=1):
        for _ in range(times):
            with pytest.raises(type(error)):
                fetch()

    return call


def booked(store):
    """Return how often each thing would have been done, by the books."""
    counts = Counter()
    for point in store.pulse().flow:
        if point.event.startswith("would_"):
            counts[str(point.event), point.category] += point.count
    return dict(counts)


def groups(store):
    return {each.error_type: each for each in store.failures(FailureFilter()).rows}


def test_the_books_have_it_and_failures_shows_the_group(app):
    refused, gone = fetching(ConnectionError("refused")), fetching(errors.ResourceNotFoundError("gone"))
    with recording(app.store):
        refused(3)
        gone()
    assert booked(app.store) == {("would_retry", "network"): 3, ("would_fail", "not_found"): 1}
    found = groups(app.store)
    assert {name: each.failures for name, each in found.items()} == {"ConnectionError": 3, "ResourceNotFoundError": 1}
    group = found["ConnectionError"]
    assert (group.task_type, str(group.error_category), group.error_message) == (
        "fetching.<locals>.fetch",
        "network",
        "refused",
    )
    assert group.dead == 0
    assert app.store.failure(group.fingerprint) == group


def test_it_ends_with_its_block(app):
    refused = fetching(ConnectionError("refused"))
    refused()
    with recording(app.store):
        refused()
    refused()
    assert booked(app.store) == {("would_retry", "network"): 1}
    assert "outlast-recording" not in {each.name for each in threading.enumerate()}


@pytest.mark.parametrize("number", [199, 200, 201, 405])
def test_none_is_lost_between_two_batches(app, number):
    refused = fetching(ConnectionError("refused"))
    with recording(app.store):
        refused(number)
    assert booked(app.store) == {("would_retry", "network"): number}


def test_many_threads(app):
    refused = fetching(ConnectionError("refused"))
    with recording(app.store):
        threads = [threading.Thread(target=refused, args=(50,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert booked(app.store) == {("would_retry", "network"): 200}


def test_a_job_and_a_monitor(app):
    @app.job("items", max_failure_rate=0, mode="observe")
    def items(context, target):
        if target == 2:
            message = "revoked"
            raise errors.AuthenticationError(message)

    def fetch(source):
        message = "gone"
        raise errors.ResourceNotFoundError(message)

    app.sources.add("https://example.com/feed")
    profile = outlast.profile("feed").replace(threshold=1, disables=True)
    with recording(app.store):
        assert items.run(range(4)).exit_code == 0
        app.monitor(profile, fetch=fetch, mode="observe").cycle()
    assert booked(app.store) == {("would_abort", "authentication"): 1, ("would_disable", "not_found"): 1}
    assert {each.task_type for each in groups(app.store).values()} == {"items", "feed"}
    assert app.store.counts()["dead_letters"] == 0


def test_an_error_that_raises_while_it_is_told_does_not_reach_the_program(app):
    """A text with characters that no store takes, and an endless one."""
    with recording(app.store):
        fetching(ConnectionError("nul \0 and \ud800"))()
        fetching(ValueError("x" * 100_000))()
    assert sum(booked(app.store).values()) == 2
    assert all(len(each.error_message) <= 5000 for each in groups(app.store).values())


class Down:
    """A store whose database is gone."""

    def __init__(self, store, times):
        self.store, self.times, self.asked = store, times, 0

    def record_observed(self, rows):
        self.asked += 1
        if self.asked <= self.times:
            message = "the database is gone"
            raise ConnectionError(message)
        self.store.record_observed(rows)


def test_a_store_that_is_down_loses_nothing_but_the_records(app, monkeypatch, caplog):
    monkeypatch.setattr(module, "_EVERY", 0.01)
    down, error = Down(app.store, 1), TimeoutError("slow")
    written = threading.Event()
    refused = fetching(error)
    with recording(down):
        refused(2)
        for _ in range(500):
            if down.asked:
                break
            written.wait(0.01)
        refused(3)
    told = [each.getMessage() for each in caplog.records if "could not write" in each.getMessage()]
    assert len(told) == 1
    assert "the database is gone" in told[0]
    lost = int(told[0].split()[3])
    assert 1 <= lost <= 2
    assert sum(booked(app.store).values()) == 5 - lost, "what came after is written"


def test_a_real_store_that_is_down(tmp_path, caplog):
    """Nobody listens there; the program goes on, and its end does not wait for ever."""
    app = outlast.App("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    with recording(app.store):
        fetching(ConnectionError("refused"))(3)
    app.close()
    assert any("could not write" in each.getMessage() for each in caplog.records)


class Stuck:
    """A store that does not answer until it is let go."""

    def __init__(self):
        self.free, self.asked = threading.Event(), 0

    def record_observed(self, rows):
        self.asked += 1
        self.free.wait(30)


def test_leaving_does_not_wait_for_ever(monkeypatch, caplog):
    monkeypatch.setattr(module, "_LEAVING", 0.2)
    stuck = Stuck()
    began = time.monotonic()
    with recording(stuck):
        fetching(ConnectionError("refused"))(450)
    assert time.monotonic() - began < 10
    (told,) = [each.getMessage() for each in caplog.records if "dropped" in each.getMessage()]
    assert 250 <= int(told.split()[1]) <= 449
    thread = next(each for each in threading.enumerate() if each.name == "outlast-recording")
    stuck.free.set()
    thread.join(10)
    assert not thread.is_alive()
    assert stuck.asked == 1, "what was dropped is not written later"
