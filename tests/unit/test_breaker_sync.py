"""The sync: breakers are told of when they change, obey what people order, and let waiting tasks go on."""

import itertools
import logging
import threading

import pytest

import outlast
from outlast import BreakerSettings
from outlast.breaker_sync import BreakerSync, sync_breakers
from outlast.decide.breaker import BREAKER_OPEN
from outlast.errors import BreakerOpenError, NetworkError
from outlast.record import bus
from outlast.testing import fake_clock

_names = (f"beacon-{number}" for number in itertools.count())
ONCE = BreakerSettings(consecutive=1, open_for=10)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Other tests have breakers too, in this process."""
    monkeypatch.setattr("outlast.run.resources._resources", {})


@pytest.fixture
def store(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    app.create_schema()
    yield app.store
    app.close()


@pytest.fixture
def told(store, monkeypatch):
    """What was told, call by call."""
    calls = []
    tell = store.report_breakers
    monkeypatch.setattr(
        store, "report_breakers", lambda process, rows, **more: (calls.append(list(rows)), tell(process, rows, **more))
    )
    return calls


def make(name=None):
    return outlast.resource(name or next(_names), breaker=ONCE)


def trip(guard):
    with pytest.raises(NetworkError), guard:
        raise NetworkError("down")


def refused(guard):
    try:
        with guard:
            return False
    except BreakerOpenError:
        return True


def states(store):
    return {(row.resource, row.process): row.state for row in store.breakers()}


class TestTelling:
    def test_what_changed_and_nothing_else(self, store, told):
        first, second = make(), make()
        outlast.resource(next(_names), max_concurrency=3)
        outlast.resource(next(_names))
        sync = BreakerSync(store, lambda: "here:1")
        sync.sync()
        assert told == [[(first.name, "closed", None, ""), (second.name, "closed", None, "")]]
        sync.sync()
        assert len(told) == 1
        trip(second)
        sync.sync()
        ((name, state, seconds, reason),) = told[1]
        assert (name, state, reason) == (second.name, "open", "1 failures in a row")
        assert 9 < seconds <= 10
        sync.sync()
        assert len(told) == 2
        assert states(store) == {(first.name, "here:1"): "closed", (second.name, "here:1"): "open"}

    def test_a_process_without_breakers_asks_nothing(self, monkeypatch, store):
        outlast.resource(next(_names), max_concurrency=3)
        monkeypatch.setattr(store, "breaker_orders", lambda after: pytest.fail("asked"))
        BreakerSync(store, lambda: "here:1").sync()

    def test_half_open_and_closed_again(self, store):
        with fake_clock() as clock:
            guard, sync = make(), BreakerSync(store, lambda: "here:1")
            trip(guard)
            sync.sync()
            clock.advance(10)
            permit = guard.enter()
            sync.sync()
            assert states(store) == {(guard.name, "here:1"): "half_open"}
            guard.succeeded(permit)
            sync.sync()
            assert states(store) == {(guard.name, "here:1"): "closed"}

    def test_another_name_tells_all_of_it_anew(self, store):
        guard, name = make(), ["here:1"]
        sync = BreakerSync(store, lambda: name[0])
        sync.sync()
        name[0] = "here:2"
        sync.sync()
        assert states(store) == {(guard.name, "here:2"): "closed"}

    def test_a_process_without_a_lease_tells_again(self, store, told):
        with fake_clock() as clock:
            make()
            sync = BreakerSync(store, lambda: "here:1", resend_every=20.0)
            sync.sync()
            clock.advance(19)
            sync.sync()
            assert len(told) == 1
            clock.advance(1)
            sync.sync()
            assert told[1] == told[0]

    def test_forgotten_at_its_end(self, store):
        make()
        sync = BreakerSync(store, lambda: "here:1")
        sync.sync()
        sync.forget()
        assert store.breakers() == []

    def test_a_store_that_fails_is_told_the_next_time(self, store, monkeypatch):
        guard, sync = make(), BreakerSync(store, lambda: "here:1")
        with monkeypatch.context() as down:
            down.setattr(store, "report_breakers", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                sync.sync()
        sync.sync()
        assert states(store) == {(guard.name, "here:1"): "closed"}

    def test_it_subscribes_to_nothing(self, store):
        make()
        with sync_breakers(store, lambda: "here:1", leased=False):
            assert not bus.subscribers


class TestObeying:
    def test_open_until_it_is_closed(self, store):
        guard, sync = make(), BreakerSync(store, lambda: "here:1")
        sync.sync()
        store.order_breaker(guard.name, "open")
        sync.sync()
        assert refused(guard)
        assert [(row.state, row.until, row.reason, row.order) for row in store.breakers()] == [
            ("open", None, "by hand", "open")
        ]
        store.order_breaker(guard.name, "closed")
        sync.sync()
        assert not refused(guard)
        assert states(store) == {(guard.name, "here:1"): "closed"}

    def test_open_for_a_while(self, store):
        with fake_clock() as clock:
            guard, sync = make(), BreakerSync(store, lambda: "here:1")
            store.order_breaker(guard.name, "open", 60.0)
            sync.sync()
            clock.advance(59)
            sync.sync()
            assert refused(guard)
            clock.advance(1.5)
            sync.sync()
            assert not refused(guard)

    def test_an_order_is_obeyed_once(self, store):
        guard, sync = make(), BreakerSync(store, lambda: "here:1")
        store.order_breaker(guard.name, "open")
        sync.sync()
        guard.close()
        sync.sync()
        assert not refused(guard), "the program knows better, until there is another order"
        store.order_breaker(guard.name, "open")
        sync.sync()
        assert refused(guard)

    def test_a_resource_that_comes_later_obeys_what_stands(self, store):
        with fake_clock() as clock:
            first, sync = make(), BreakerSync(store, lambda: "here:1")
            late, later = next(_names), next(_names)
            store.order_breaker(late, "open", 60.0)
            store.order_breaker(later, "open", 60.0)
            sync.sync()
            clock.advance(30)
            guard = make(late)
            sync.sync()
            assert refused(guard)
            assert not refused(first)
            clock.advance(31)
            guard = make(later)
            sync.sync()
            assert not refused(guard), "the order is over"

    def test_settings_that_come_later_too(self, store):
        make()
        sync = BreakerSync(store, lambda: "here:1")
        bare = outlast.resource(next(_names))
        store.order_breaker(bare.name, "open")
        sync.sync()
        assert not refused(bare)
        assert outlast.resource(bare.name, breaker=ONCE) is bare
        sync.sync()
        assert refused(bare)

    def test_an_old_order_to_close_is_none_for_what_opened_since(self, store):
        guard = make()
        store.order_breaker(guard.name, "closed")
        trip(guard)
        sync = BreakerSync(store, lambda: "here:1")
        sync.sync()
        assert refused(guard)
        store.order_breaker(guard.name, "closed")
        sync.sync()
        assert not refused(guard)

    def test_what_an_order_opened_is_closed_by_the_next_worker_of_the_process(self, store):
        guard, sync = make(), BreakerSync(store, lambda: "here:1")
        store.order_breaker(guard.name, "open")
        sync.sync()
        store.order_breaker(guard.name, "closed")
        BreakerSync(store, lambda: "here:1").sync()
        assert not refused(guard)


class TestCooldowns:
    def test_closing_ends_what_the_breaker_began(self, store):
        guard, sync = make(), BreakerSync(store, lambda: "here:1")
        trip(guard)
        sync.sync()
        store.start_cooldown(guard.name, 60.0, BREAKER_OPEN)
        store.order_breaker(guard.name, "closed")
        sync.sync()
        assert store.cooldowns() == []
        store.start_cooldown(guard.name, 60.0, BREAKER_OPEN)  # by a task that was refused just before
        sync.sync()
        assert store.cooldowns() == []

    def test_what_the_other_side_asked_for_stays(self, store):
        guard, sync = make(), BreakerSync(store, lambda: "here:1")
        sync.sync()
        store.order_breaker(guard.name, "open")
        sync.sync()
        store.start_cooldown(guard.name, 60.0, "rate_limit: 429")
        store.order_breaker(guard.name, "closed")
        sync.sync()
        assert [each.reason for each in store.cooldowns()] == ["rate_limit: 429"]

    def test_a_close_by_the_program_ends_it_too(self, store):
        guard, sync = make(), BreakerSync(store, lambda: "here:1")
        guard.open()
        sync.sync()
        store.start_cooldown(guard.name, 60.0, BREAKER_OPEN)
        guard.close()
        sync.sync()
        assert store.cooldowns() == []


class TestShining:
    def test_standing_orders_are_obeyed_before_it_begins(self, store):
        guard = make()
        store.order_breaker(guard.name, "open")
        with sync_breakers(store, lambda: "here:1", leased=False):
            assert refused(guard)
            assert states(store) == {(guard.name, "here:1"): "open"}
        assert states(store) == {(guard.name, ""): "open"}, "the order stays, the process is forgotten"

    def test_a_store_that_is_down_is_told_of_once_and_asked_again(self, store, monkeypatch, caplog):
        monkeypatch.setattr("outlast.breaker_sync.SYNC_EVERY", 0.01)
        guard, down, asked = make(), threading.Event(), threading.Semaphore(0)
        down.set()
        orders = store.breaker_orders

        def failing(after):
            asked.release()
            if down.is_set():
                raise ConnectionError("the store is down")
            return orders(after)

        monkeypatch.setattr(store, "breaker_orders", failing)
        with caplog.at_level(logging.ERROR), sync_breakers(store, lambda: "here:1", leased=False):
            for _ in range(5):
                assert asked.acquire(timeout=10)
            assert caplog.text.count("cannot sync breakers with the store") == 1
            store.order_breaker(guard.name, "open")
            down.clear()
            for _ in range(1000):
                if refused(guard):
                    break
                assert asked.acquire(timeout=10)
            assert refused(guard)
