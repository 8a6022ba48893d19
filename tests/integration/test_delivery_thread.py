"""The courier's thread: it delivers by itself, nothing ends it but stop(), and that is prompt."""

import asyncio
import threading

import pytest

from integration.delivery_scenes import DAY, Failing, Noting, Waiting, done, errors_in, new_store, news, waiting
from outlast.decide.decision import AlertKind
from outlast.errors import NetworkError
from outlast.observe import alert_delivery as couriers
from outlast.observe.alert_delivery import Deliverer
from outlast.observe.channels import channel
from outlast.testing import fake_clock


@pytest.fixture
def store(tmp_path):
    made = new_store(tmp_path)
    yield made
    made.close()


def started(courier):
    courier.start()
    courier.start()  # changes nothing
    assert courier.running
    return courier


def test_the_thread_delivers_what_is_raised_and_follows_up_at_once(store):
    there = Waiting()
    courier = started(Deliverer(store, [there], every=600))
    try:
        store.raise_alerts([news()])
        store.raise_alerts([news(state=None)])
        courier.wake()
        assert there.arrived.acquire(timeout=30)
        assert there.arrived.acquire(timeout=30), "the next alert of the same matter does not wait for the next look"
    finally:
        courier.stop()
    assert not courier.running
    assert there.got == ["source:1 is disabled", "recovered: source:1 is well"]


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit])
def test_whatever_a_channel_raises_the_thread_goes_on(error, store):
    there = Waiting(error())
    store.raise_alerts([news("a")])
    store.raise_alerts([news("b")])
    courier = started(Deliverer(store, [there], every=0.01))
    try:
        assert there.arrived.acquire(timeout=30)
    finally:
        courier.stop()
    assert there.got == ["b is disabled"]
    (alert,) = waiting(store)
    assert error.__name__ in alert.last_error


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
def test_whatever_the_store_raises_the_thread_goes_on(error, store):
    there = Waiting()
    store.raise_alerts([news()])
    courier = started(Deliverer(Failing(store, claim_alerts=[error()]), [there], every=0.01))
    try:
        assert there.arrived.acquire(timeout=30)
    finally:
        courier.stop()


def test_the_thread_looks_by_itself(store):
    there = Waiting()
    courier = started(Deliverer(store, [there], every=0.01))
    try:
        store.raise_alerts([news()])
        assert there.arrived.acquire(timeout=30)
    finally:
        courier.stop()


def test_a_store_that_is_down_is_told_of_once_and_asked_again(store, caplog):
    there = Waiting()
    store.raise_alerts([news()])
    broken = Failing(store, claim_alerts=[ConnectionError("down: password=hunter2")] * 20)
    courier = started(Deliverer(broken, [there], every=0.001))
    try:
        assert there.arrived.acquire(timeout=30)
    finally:
        courier.stop()
    (line,) = errors_in(caplog)
    assert "could not read alerts from the store" in line.getMessage()
    assert "hunter2" not in caplog.text


def test_the_thread_reminds_and_tidies_up(store):
    """Pitfall 64: what is still not well is told again; what is old and well is forgotten."""
    with fake_clock() as moving:
        courier = Deliverer(store, [Noting()])
        store.raise_alerts([news("gone"), news("ill")])
        courier.deliver()
        store.raise_alerts([news("gone", None)])
        courier.deliver()
        moving.advance(31 * DAY)
        there = Waiting()
        running = started(Deliverer(store, [there], every=0.001))
        try:
            assert there.arrived.acquire(timeout=30)
        finally:
            running.stop()
    assert there.got == ["still: ill is disabled"]
    assert {alert.key for alert in store.alerts(limit=100)} == {"ill"}
    assert AlertKind.REMINDER in {alert.kind for alert in done(store)}


def test_stopping_finishes_what_is_being_sent(store):
    sending, go_on = threading.Event(), threading.Event()
    got = []

    def slow(message):
        sending.set()
        assert go_on.wait(30)
        got.append(message.title)

    late = Noting("late")
    courier = started(Deliverer(store, [channel(slow), late], every=0.01))
    store.raise_alerts([news()])
    assert sending.wait(30)
    threading.Timer(0.1, go_on.set).start()
    courier.stop()
    assert (got, late.got) == (["source:1 is disabled"], [])
    (alert,) = waiting(store)
    assert (len(alert.delivered_to), alert.last_error) == (1, None)
    assert Deliverer(store, [late]).deliver() == 1, "what had no turn is due at once"


def test_stopping_waits_for_no_retry(store):
    ill = Waiting(*[NetworkError("later", retry_after=29)] * 3)
    tried = threading.Event()
    ill.send = lambda message, send=ill.send: (tried.set(), send(message))
    courier = started(Deliverer(store, [ill], every=0.01))
    store.raise_alerts([news()])
    assert tried.wait(30)
    courier.stop()
    (alert,) = waiting(store)
    assert (len(ill.tried), alert.last_error is None) == (1, False), "tried once, noted, and kept"


def test_a_channel_that_hangs_does_not_hold_up_the_end(store, monkeypatch, caplog):
    monkeypatch.setattr(couriers, "_STOP", 0.1)
    sending, go_on = threading.Event(), threading.Event()
    courier = started(Deliverer(store, [channel(lambda _: (sending.set(), go_on.wait(30)))], every=0.01))
    store.raise_alerts([news()])
    assert sending.wait(30)
    thread = courier._thread
    courier.stop()
    assert "still being sent" in caplog.text
    go_on.set()
    thread.join(30)
    assert not thread.is_alive()


def test_it_can_be_started_again(store):
    there = Waiting()
    courier = Deliverer(store, [there], every=0.01)
    for number in range(2):
        started(courier)
        store.raise_alerts([news(f"source:{number}")])
        assert there.arrived.acquire(timeout=30)
        courier.stop()
    assert len(there.got) == 2
