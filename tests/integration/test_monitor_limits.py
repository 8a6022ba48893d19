"""What may not hold a profile up: code that hangs, a poll that vanishes, a result that the store refuses, one monitor."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import Counter

import psycopg
import pytest

from integration.monitoring import KINDS, QUICK, add, feed, new_url, opened, outcomes
from outlast.errors import ResourceNotFoundError
from outlast.http.settings import host_of
from outlast.sources import monitor as monitors
from outlast.sources.fetchers import Fetched
from outlast.sources.inflight import write_results
from outlast.sources.outcomes import deferral_change
from servers.feeds import Answer, FeedServer

LIMIT = 30.0


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    return new_url(request, tmp_path)


@pytest.fixture
def app(url):
    with opened(url) as app:
        yield app


@pytest.fixture
def local():
    with opened("memory://") as app:
        yield app


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(monitors, "_LOOK", 0.01)
    monkeypatch.setattr(monitors, "_PAUSE", 0.02)


@pytest.fixture
def gate():
    """Opened at the end whatever happens, so that nothing hangs on."""
    gate = threading.Event()
    yield gate
    gate.set()


class Running:
    """A monitor at work in a thread of its own."""

    def __init__(self, monitor, work=None):
        self.monitor, self.thread = monitor, threading.Thread(target=work or monitor.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.monitor.stop()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()

    def until(self, condition):
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, "it did not happen"
            assert self.thread.is_alive(), "it has ended"
            time.sleep(0.01)


def texts(caplog, part):
    return [each.getMessage() for each in caplog.records if part in each.getMessage()]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_on_change_that_hangs_is_broken_and_called_again_at_the_next_poll(local, way, caplog, gate):
    calls = []

    def hangs(changed):
        calls.append(changed.source.id)
        if len(calls) == 1:
            gate.wait(LIMIT * 2)

    async def hangs_later(changed):
        calls.append(changed.source.id)
        if len(calls) == 1:
            await asyncio.sleep(LIMIT * 2)

    add(local, ["http://one.example/"])
    on_change = hangs if way == "sync" else hangs_later
    monitor = local.monitor(QUICK, fetch=lambda source: "content", on_change=on_change, on_change_timeout=0.05)
    broken = []
    with Running(monitor, lambda: broken.extend(monitor.cycle().broken_callbacks for _ in range(3))) as running:
        running.thread.join(LIMIT)
        assert not running.thread.is_alive(), "it holds the cycle up"

    assert broken == [1, 0, 0]
    assert calls == [1, 1]
    assert len(texts(caplog, "on_change failed for source 1")) == 1
    assert len(texts(caplog, "its thread cannot be stopped and keeps running")) == (1 if way == "sync" else 0)


def test_callbacks_that_hang_keep_no_place_from_others(local, gate):
    """As many hang as may run at once; the others are called all the same."""
    called = []

    def on_change(changed):
        called.append(changed.source.id)
        if changed.source.id <= 16:
            gate.wait(LIMIT * 2)

    numbers = add(local, [f"http://h{each}.example/" for each in range(20)])
    monitor = local.monitor(QUICK, fetch=lambda source: "content", on_change=on_change, on_change_timeout=0.05)
    broken = []
    with Running(monitor, lambda: broken.append(monitor.cycle().broken_callbacks)) as running:
        running.thread.join(LIMIT)
        assert sorted(called) == numbers
    assert broken == [16]


@pytest.mark.usefixtures("quick")
def test_what_is_long_in_our_own_hands_is_told_once_in_a_cycle(local, caplog, gate):
    (stuck,) = add(local, ["http://one.example/?token=hunter2"])
    beats = []
    monitor = local.monitor(QUICK, fetch=lambda source: gate.wait(LIMIT) and "content", every=604_800, lease=0.1)
    with Running(monitor) as running:
        running.until(lambda: texts(caplog, "polled for more than 1 s"))
        monitor._beat = lambda: beats.append(1)
        running.until(lambda: len(beats) > 5)  # it comes round again and again
        gate.set()
        running.until(lambda: local.sources.get(stuck).outcome == "changed")
    (text,) = texts(caplog, "polled for more than 1 s")
    assert f"{stuck} (http://one.example/" in text
    assert "hunter2" not in text


@pytest.mark.usefixtures("quick")
def test_a_source_polled_twice_after_a_lost_lease_keeps_the_later_result(local, monkeypatch):
    """The first poll ends last. If its result won, the source would stay leased forever."""
    (number,) = add(local, ["http://one.example/"])
    renew, polls, twice = local.store.renew_sources, [], asyncio.Event()

    async def fetch(source):
        polls.append(source.epoch)
        if len(polls) == 1:
            await twice.wait()
        twice.set()
        return "content"

    monkeypatch.setattr(local.store, "renew_sources", lambda *args: renew(*args) if len(polls) > 1 else 0)
    with Running(local.monitor(QUICK, fetch=fetch, every=604_800, lease=0.1)) as running:
        running.until(lambda: local.sources.get(number).outcome == "changed")
    assert len(polls) > 1


@pytest.mark.parametrize("where", ["fetch", "on_change"])
def test_a_poll_that_somebody_cancels_is_put_off_and_the_cycle_ends(local, where, caplog):
    async def cancels(source):
        if source.id == 2:
            asyncio.current_task().cancel()
        await asyncio.sleep(0)
        return "content"

    async def well(given):
        return "content"

    async def on_change(changed):
        await cancels(changed.source)

    numbers = add(local, [f"http://h{each}.example/" for each in range(3)])
    monitor = local.monitor(QUICK, fetch=cancels if where == "fetch" else well, on_change=on_change)
    summaries = []
    with Running(monitor, lambda: summaries.append(monitor.cycle())) as running:
        running.thread.join(LIMIT)
        assert not running.thread.is_alive(), "it is waited for without end"
    assert [(each.cycle.changed, each.cycle.deferred) for each in summaries] == [(2, 1)]
    source = local.sources.get(numbers[1])
    assert (source.outcome, source.consecutive_failures, source.state) == ("deferred", 0, "healthy")
    assert 50 < (source.not_before - local.store.now()).total_seconds() <= 60
    assert len(texts(caplog, "the poll of source 2 (http://h1.example/) was cancelled")) == 1


def test_no_fetch_begins_after_stop_and_what_had_not_begun_is_given_back(local):
    """One runs, the next waits for its slot."""
    fetched = []

    async def fetch(source):
        fetched.append(source.id)
        await asyncio.sleep(0.05)  # the next stands in the queue by now
        monitor.stop()
        return "content"

    numbers = add(local, [f"http://h{each}.example/" for each in range(4)])
    monitor = local.monitor(QUICK, fetch=fetch, concurrency=1)
    assert monitor.cycle() is None
    assert fetched == numbers[:1]
    sources = [local.sources.get(number) for number in numbers]
    assert [each.outcome for each in sources] == ["changed", None, None, None]
    assert {each.leased_until for each in sources} == {None}
    assert [each.epoch for each in sources] == [1, 1, 0, 0], "the second was in its hands"


@pytest.mark.usefixtures("quick")
def test_one_monitor_does_not_take_all_sources_of_a_host(local, gate):
    """All but one wait for their host; another monitor finds some to poll."""
    numbers = add(local, [f"http://one.example/{each}" for each in range(100)])
    rounds = []
    monitor = local.monitor(QUICK, fetch=lambda source: gate.wait(LIMIT) and "content", concurrency=2, per_host=1, grace=0)  # fmt: skip
    monitor._beat = lambda: rounds.append(1)
    with Running(monitor) as running:
        running.until(lambda: len(rounds) > 60)
        held = [number for number in numbers if local.sources.get(number).leased_until is not None]
    assert len(held) == 20


class TestRefused:
    @pytest.fixture
    def app(self, url):
        """An app whose database takes no hash ``bad``."""
        with opened(url) as app:
            if url.startswith("sqlite"):
                with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
                    connection.execute(
                        "CREATE TRIGGER no_bad BEFORE UPDATE ON sources WHEN NEW.content_hash = 'bad' "
                        "BEGIN SELECT RAISE(ABORT, 'not that one'); END"
                    )
                connection.close()
            else:
                with psycopg.connect(url) as connection:
                    connection.execute("ALTER TABLE sources ADD CHECK (content_hash IS DISTINCT FROM 'bad')")
            yield app

    @pytest.mark.usefixtures("quick")
    @pytest.mark.parametrize("verb", ["cycle", "run"])
    def test_a_result_that_the_store_refuses_is_put_off_and_blocks_no_other(self, app, verb, caplog):
        numbers = add(app, [f"http://h{each}.example/" for each in range(20)])
        bad = numbers[7]
        fetched = Counter()

        def fetch(source):
            fetched[source.id] += 1
            return Fetched("x", hash="bad" if source.id == bad else "good")

        monitor = app.monitor(QUICK, fetch=fetch, every=604_800)
        with Running(monitor, monitor.run if verb == "run" else monitor.cycle) as running:
            if verb == "run":
                running.until(lambda: any(each.ended_at for each in app.sources.cycles()))
            else:
                running.thread.join(LIMIT)
        (cycle,) = app.sources.cycles()
        assert (cycle.changed, cycle.deferred, cycle.failed) == (19, 1, 0)
        assert [outcomes(app, number) for number in numbers] == [
            ["deferred" if number == bad else "changed"] for number in numbers
        ]
        assert set(fetched.values()) == {1}
        source = app.sources.get(bad)
        assert 50 < (source.not_before - app.store.now()).total_seconds() <= 60
        assert (source.consecutive_failures, source.content_hash) == (0, None)
        assert len(texts(caplog, f"the store refused the result of source {bad};")) == 1
        assert texts(caplog, "the store is not available") == []

    def test_what_was_written_one_by_one_is_done_with_when_the_store_goes_down(self, app):
        numbers = add(app, [f"http://h{each}.example/" for each in range(5)])
        cycle = app.store.open_cycle("feed")
        taken = app.store.claim_sources(cycle.id, "me", 5, 60.0)
        results = {each.id: (each.epoch, deferral_change(QUICK.rules, 60.0, None, 0)) for each in taken}
        works, alone = app.store.change_sources, []

        def broken(changes):
            if len(changes) > 1:
                raise sqlite3.IntegrityError("not that one")
            alone.extend(changes)
            if len(alone) == 3:
                raise sqlite3.OperationalError("the server has gone away")
            return works(changes)

        async def ask(function, *args):
            return function(*args)

        app.store.change_sources = broken
        with pytest.raises(sqlite3.OperationalError):
            asyncio.run(write_results(ask, app.store, QUICK.rules, results))
        assert list(results) == numbers[2:], "these are to be written yet"
        assert [outcomes(app, number) for number in numbers] == [["deferred"]] * 2 + [[]] * 3

    @pytest.mark.usefixtures("quick")
    def test_a_store_that_takes_nothing_at_all_is_waited_for_and_nothing_is_lost(self, app):
        works, left = app.store.change_sources, [True] * 6

        def broken(*args):
            if left:
                left.pop()
                raise sqlite3.OperationalError("unable to open database file")
            return works(*args)

        app.store.change_sources = broken
        numbers = add(app, [f"http://h{each}.example/" for each in range(20)])
        with Running(app.monitor(QUICK, fetch=lambda source: "content", every=604_800)) as running:
            running.until(lambda: any(each.ended_at for each in app.sources.cycles()))
        assert left == []
        assert [outcomes(app, number) for number in numbers] == [["changed"]] * 20


class TestEverything:
    def test_a_cycle_that_another_has_begun_is_ended_and_another_one_follows(self, app):
        early = add(app, [f"http://early{each}.example/" for each in range(3)])
        begun = app.store.open_cycle("feed", everything=True)
        late = add(app, [f"http://late{each}.example/" for each in range(3)])
        fetched = Counter()
        summary = app.monitor(QUICK, fetch=lambda source: fetched.update([source.id]) or "content").cycle()

        assert (summary.cycle.id, summary.cycle.sources, summary.cycle.polled) == (begun.id + 1, 6, 6)
        assert fetched == {**dict.fromkeys(early, 2), **dict.fromkeys(late, 1)}
        assert [each.ended_at is not None for each in app.sources.cycles()] == [True, True]

    def test_there_is_none_after_it_if_nothing_can_be_polled_then(self, app):
        add(app, ["http://one.example/"])
        begun = app.store.open_cycle("feed", everything=True)
        monitor = app.monitor(QUICK.replace(threshold=1), fetch=lambda source: gone())
        assert monitor.cycle().cycle.id == begun.id
        assert app.sources.health()["disabled"] == 1

    def test_what_is_due_by_its_schedule_is_one_cycle_alone(self, app):
        add(app, ["http://one.example/"])
        begun = app.store.open_cycle("feed", everything=True)
        add(app, ["http://two.example/"])
        monitor = app.monitor(QUICK, fetch=lambda source: "content")
        assert monitor.cycle(everything=False).cycle.id == begun.id
        assert len(app.sources.cycles()) == 1


def gone():
    raise ResourceNotFoundError("gone")


@pytest.mark.parametrize("hint", [{"Retry-After": "600"}, {}], ids=["hint", "none"])
def test_the_host_that_cools_is_the_one_that_answered_after_redirects(app, hint):
    """C7."""
    with FeedServer() as server:
        busy = server.host_url(2, "/busy")
        server.script("/moved", Answer(302, {"Location": busy}))
        server.script("/busy", Answer(429, hint))
        server.script("/near", feed())
        server.script("/far", feed())
        moved, near, far = add(app, [server.url("/moved"), server.url("/near"), server.host_url(2, "/far")])
        monitor = app.monitor(QUICK, every=604_800, allow_private=True)
        app.sources.disable(near)
        app.sources.disable(far)
        assert monitor.cycle().cycle.deferred == 1
        assert server.count("/busy") == 1
        assert app.cooling.left(host_of(busy)) > 0
        assert app.cooling.left(host_of(server.url())) == 0
        app.sources.enable(near)
        app.sources.enable(far)
        monitor.cycle()
        assert (server.count("/near"), server.count("/far")) == (1, 0)
    assert [app.sources.get(each).outcome for each in (moved, near, far)] == ["deferred", "changed", "deferred"]


def test_cookies_are_forgotten_between_two_cycles(local):
    with FeedServer() as server:
        server.script("/", feed(headers={"Set-Cookie": "seen=1; Path=/"}))
        add(local, [server.url("/")])
        with Running(local.monitor(QUICK, every=0.1)) as running:
            running.until(lambda: server.count("/") >= 3)
        assert [each.headers.get("cookie") for each in server.requests[:3]] == [None] * 3


class Calls:
    """Delivers nothing, and keeps what it was asked for."""

    def __init__(self):
        self.calls = []

    def start(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")

    def wake(self):
        self.calls.append("wake")

    def deliver(self):
        self.calls.append("deliver")
        return 0


def test_who_delivers_is_woken_when_a_cycle_ends(local):
    """Failures stand only then, and it is then that alerts are raised."""
    add(local, ["http://one.example/"])
    monitor = local.monitor(QUICK.replace(threshold=1), fetch=lambda source: gone())
    monitor.delivery = Calls()
    assert monitor.cycle().transitions == 1
    assert monitor.delivery.calls == ["wake", "deliver"]
