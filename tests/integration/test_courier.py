"""The courier: alerts reach every channel, once where all goes well, and trouble on the way disturbs nothing."""

import logging
import signal
import subprocess
import sys
import threading

import pytest

from holdfast import RetryPolicy, clock
from holdfast.decide.alerting import AlertKind
from holdfast.errors import ConfigError, NetworkError, PermanentError, ResourceNotFoundError
from holdfast.observe import courier as couriers
from holdfast.observe.channels import channel
from holdfast.observe.courier import Courier
from holdfast.ports.source_rows import NewAlert
from holdfast.stores.memory.store import MemoryStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing import fake_clock
from servers.webhooks import Reply, WebhookServer

SECRET = "/services/T0/B0/uVxYz12345secret"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "holdfast.db", synchronous="NORMAL")
    made.create_schema()
    yield made
    made.close()


@pytest.fixture
def server():
    with WebhookServer() as running:
        yield running


@pytest.fixture
def time():
    with fake_clock() as moving:
        yield moving


@pytest.fixture
def slack(server):
    return channel(f"slack+{server.url(SECRET)}", allow_private=True)


class Noting:
    """A channel that notes what it gets, and when; it fails as it is told."""

    def __init__(self, name="noting", *errors):
        self.name, self.errors = name, list(errors)
        self.tried, self.got = [], []

    def send(self, message):
        self.tried.append(clock.monotonic() - 1000.0)  # where a fake clock begins
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.got.append(message.title)


class Dead(Noting):
    """A channel that never works."""

    def __init__(self, name="dead", error=None):
        super().__init__(name)
        self.error = error or NetworkError("gone")

    def send(self, message):
        super().send(message)
        self.got.clear()
        raise self.error


def news(key="source:1", state="disabled", title=None):
    return NewAlert(key, state, title or f"{key} is {state or 'well'}", "403 Forbidden")


def waiting(store):
    return store.alerts(waiting=True, limit=1000)


def done(store):
    return store.alerts(waiting=False, limit=1000)


def errors_in(caplog):
    return [record for record in caplog.records if record.name == "holdfast.notify" and record.levelno == logging.ERROR]


def test_an_alert_reaches_every_channel_once(store, time):
    one, other = Noting("one"), Noting("other")
    courier = Courier(store, [one, other])
    store.raise_alerts([news()])
    assert courier.deliver() == 1
    assert courier.deliver() == 0
    assert one.got == other.got == ["source:1 is disabled"]
    (alert,) = done(store)
    assert (alert.delivered_to, alert.last_error, alert.deliveries) == (("one", "other"), None, 1)
    assert waiting(store) == []


def test_a_real_webhook_gets_it(store, server, slack):
    store.raise_alerts([news()])
    Courier(store, [slack]).deliver()
    assert [(each.path, b"source:1 is disabled" in each.body) for each in server.requests] == [(SECRET, True)]
    assert done(store)[0].delivered_to == (slack.name,)


def test_a_failed_notification_is_tried_twice_more_and_then_waits(store, server, slack, time, caplog):
    """B5."""
    server.script(Reply(500), Reply(503), Reply(500))
    store.raise_alerts([news()])
    began = time.monotonic()
    courier = Courier(store, [slack])
    assert courier.deliver() == 1
    assert len(server.requests) == 3
    assert time.monotonic() - began == pytest.approx(1 + 2)
    (alert,) = waiting(store)
    assert alert.delivered_to == ()
    assert "500" in alert.last_error
    (error,) = errors_in(caplog)
    assert (error.channel, error.error_category, error.http_status) == (slack.name, "api_temporary", 500)
    assert courier.deliver() == 0, "not before a minute is over"
    time.advance(MINUTE + 1)
    assert courier.deliver() == 1
    assert len(server.requests) == 4
    assert waiting(store) == []
    assert "secret" not in caplog.text + alert.last_error


def test_a_notification_that_works_on_the_third_try_is_delivered(store, server, slack, time, caplog):
    """B5."""
    server.script(Reply(500), "reset")
    store.raise_alerts([news()])
    Courier(store, [slack]).deliver()
    assert len(server.requests) == 3
    assert [alert.delivered_to for alert in done(store)] == [(slack.name,)]
    assert errors_in(caplog) == []


def test_what_a_channel_asks_to_wait_is_waited_for(store, server, slack, time):
    server.script(Reply(429, {"Retry-After": "20"}))
    store.raise_alerts([news()])
    began = time.monotonic()
    Courier(store, [slack]).deliver()
    assert time.monotonic() - began == pytest.approx(20)
    assert (len(server.requests), waiting(store)) == (2, [])


def test_who_asks_to_wait_for_long_is_asked_by_a_later_delivery(store, server, slack, time):
    server.script(Reply(429, {"Retry-After": "300"}))
    store.raise_alerts([news("a"), news("b")])
    courier, began = Courier(store, [slack]), time.monotonic()
    courier.deliver()
    assert (len(server.requests), time.monotonic()) == (1, began)
    time.advance(290)
    assert courier.deliver() == 0, "longer than the first minute, because it was asked for"
    time.advance(20)
    assert courier.deliver() == 2
    assert len(server.requests) == 3


@pytest.mark.parametrize(("hint", "requests"), [("30", 2), ("31", 1)])
def test_thirty_seconds_are_waited_for_and_no_more(hint, requests, store, server, slack, time):
    server.script(Reply(503, {"Retry-After": hint}))
    store.raise_alerts([news()])
    Courier(store, [slack]).deliver()
    assert len(server.requests) == requests


@pytest.mark.parametrize("status", [404, 410, 403, 400, 302])
def test_a_permanent_failure_is_not_tried_again_at_once_and_the_alert_is_kept(status, store, server, slack, time):
    server.script(Reply(status))
    store.raise_alerts([news()])
    courier = Courier(store, [slack])
    courier.deliver()
    assert (len(server.requests), len(waiting(store))) == (1, 1)
    time.advance(MINUTE + 1)
    courier.deliver()
    assert (len(server.requests), len(waiting(store))) == (2, 0)


def test_a_private_address_is_refused_and_nothing_is_sent(store, server, time, caplog):
    """Pitfall 68."""
    store.raise_alerts([news()])
    Courier(store, [channel(f"slack+https://127.0.0.1:{server.port}{SECRET}")]).deliver()
    assert server.connections == 0
    (alert,) = waiting(store)
    assert "not public" in alert.last_error
    assert errors_in(caplog)[0].error_category == "configuration"
    assert "secret" not in caplog.text + alert.last_error


def test_waits_between_deliveries_double_up_to_an_hour_and_end_after_a_day(store, time, caplog):
    dead = Dead()
    courier = Courier(store, [dead], policy=RetryPolicy(max_attempts=1))
    (raised,) = store.raise_alerts([news()])
    for _ in range(3000):
        courier.deliver()
        if not waiting(store):
            break
        time.advance(30)
    gaps = [round((later - earlier) / 60) for earlier, later in zip(dead.tried, dead.tried[1:], strict=False)]
    assert gaps[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(gaps[6:]) == {60}
    assert DAY <= dead.tried[-1] < DAY + HOUR + MINUTE
    (alert,) = done(store)
    assert (alert.id, alert.delivered_to) == (raised.id, ())
    assert "gone" in alert.last_error
    assert "is given up" in errors_in(caplog)[-1].getMessage()


def test_an_old_alert_is_tried_before_it_is_given_up(store, time):
    """A program that was down for days still tells what it has."""
    store.raise_alerts([news()])
    time.advance(3 * DAY)
    noting = Noting()
    Courier(store, [noting]).deliver()
    assert noting.got == ["source:1 is disabled"]


def test_a_channel_that_has_it_does_not_get_it_again(store, time):
    well, ill = Noting("well"), Noting("ill", PermanentError("no"))
    courier = Courier(store, [well, ill])
    store.raise_alerts([news()])
    courier.deliver()
    (alert,) = waiting(store)
    assert alert.delivered_to == ("well",)
    assert alert.last_error.startswith("ill: PermanentError")
    time.advance(MINUTE + 1)
    courier.deliver()
    assert (len(well.tried), len(ill.tried)) == (1, 2)
    assert set(done(store)[0].delivered_to) == {"well", "ill"}


def test_a_channel_that_waits_holds_up_no_other(store, time):
    ill, well = Noting("ill", NetworkError("later", retry_after=25)), Noting("well")
    store.raise_alerts([news()])
    Courier(store, [ill, well]).deliver()
    assert (well.tried, ill.tried) == ([0], [0, pytest.approx(25)])


def test_many_alerts_are_one_digest_and_each_is_settled(store, time):
    noting = Noting()
    store.raise_alerts([news(f"source:{number}") for number in range(30)])
    assert Courier(store, [noting]).deliver() == 30
    assert noting.got == ["30 changes: 30 disabled"]
    assert {alert.delivered_to for alert in done(store)} == {("noting",)}
    assert len(done(store)) == 30


def test_a_digest_for_one_channel_may_be_single_messages_for_another(store, time):
    """Each channel is told what it does not have yet."""
    well, ill = Noting("well"), Noting("ill", ResourceNotFoundError("no"))
    courier = Courier(store, [well, ill])
    store.raise_alerts([news("a"), news("b")])
    courier.deliver()
    time.advance(MINUTE + 1)
    store.raise_alerts([news("c"), news("d")])
    courier.deliver()
    assert well.got == [f"{key} is disabled" for key in "abcd"]
    assert ill.got == ["4 changes: 4 disabled"]
    assert waiting(store) == []


def test_first_comes_before_recovered(store, time):
    """Pitfall 64: the alerts of one matter are told in their order, also through failures."""
    ill = Noting("ill", *[NetworkError("no")] * 3)
    courier = Courier(store, [ill])
    store.raise_alerts([news()])
    store.raise_alerts([news(state="error")])
    store.raise_alerts([news(state=None)])
    for _ in range(5):
        courier.deliver()
        time.advance(2 * MINUTE)
    assert ill.got == ["source:1 is disabled", "now: source:1 is error", "recovered: source:1 is well"]
    assert waiting(store) == []


def test_an_outage_of_a_channel_costs_three_tries_however_many_messages_wait(store, time):
    dead = Dead()
    store.raise_alerts([news("a"), news("b"), news("c")])
    Courier(store, [dead]).deliver()
    assert len(dead.tried) == 3
    assert len(waiting(store)) == 3


def test_a_message_that_is_refused_holds_up_no_other(store, time):
    picky = Noting("picky", ValueError("not this one"))
    store.raise_alerts([news("a"), news("b")])
    Courier(store, [picky]).deliver()
    assert picky.got == ["b is disabled"]
    assert [alert.key for alert in waiting(store)] == ["a"]


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(3), MemoryError(), NetworkError("no")])
def test_nothing_is_raised_when_everything_fails(error, store, time, caplog):
    """B5, pitfall 64."""
    caplog.set_level(logging.DEBUG)
    courier = Courier(store, [Dead("one", error), Dead("two", error)])
    store.raise_alerts([news()])
    assert courier.deliver() == 1
    assert {record.channel for record in errors_in(caplog)} == {"one", "two"}
    assert len(waiting(store)) == 1


def test_a_log_handler_that_raises_disturbs_nothing(store, time):
    class Broken(logging.Handler):
        def handle(self, record):
            raise RuntimeError("no log")

    log, handler = logging.getLogger("holdfast.notify"), Broken()
    log.addHandler(handler)
    try:
        store.raise_alerts([news()])
        Courier(store, [Dead()]).deliver()
    finally:
        log.removeHandler(handler)
    assert "gone" in waiting(store)[0].last_error


def test_without_channels_alerts_are_logged_and_done_with(store, time, caplog):
    store.raise_alerts([news(f"source:{number}") for number in range(6)])
    assert Courier(store, []).deliver() == 6
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [f"alert: source:{number} is disabled" for number in range(6)]
    assert waiting(store) == []
    assert {alert.delivered_to for alert in done(store)} == {()}


def test_no_try_begins_when_the_lease_nears_its_end(store, time):
    slow = Noting("slow", NetworkError("no"))

    def taking_long(message, send=slow.send):
        time.advance(50)
        send(message)

    slow.send = taking_long
    late = Noting("late")
    store.raise_alerts([news()])
    Courier(store, [slow, late], lease=60.0).deliver()
    assert (len(slow.tried), late.tried) == (1, []), "40 s of 60 were over"
    (alert,) = waiting(store)
    assert alert.last_error.startswith("slow: ")


def test_two_channels_of_one_name_are_refused(store):
    with pytest.raises(ConfigError, match="two channels are called same"):
        Courier(store, [Noting("same"), Noting("same")])


@pytest.mark.parametrize("setting", ["every", "remind_after", "keep", "lease"])
def test_times_are_checked(setting, store):
    with pytest.raises(ConfigError, match=setting):
        Courier(store, [], **{setting: -1})


class Failing:
    """A store whose methods fail as told."""

    def __init__(self, store, **errors):
        self.store, self.errors = store, errors

    def __getattr__(self, name):
        if self.errors.get(name):
            raise self.errors[name].pop(0)
        return getattr(self.store, name)


def test_what_the_store_could_not_note_is_noted_by_the_next_delivery(store, time):
    """A short outage of the store leads to no second message."""
    noting = Noting()
    failing = Failing(store, settle_alerts=[ConnectionError("down")])
    courier = Courier(failing, [noting])
    store.raise_alerts([news()])
    with pytest.raises(ConnectionError):
        courier.deliver()
    time.advance(10)
    assert courier.deliver() == 0
    assert (noting.got, waiting(store)) == (["source:1 is disabled"], [])


def test_a_process_that_dies_before_it_could_note_leads_to_a_second_message(store, time):
    noting = Noting()
    store.raise_alerts([news()])
    with pytest.raises(ConnectionError):
        Courier(Failing(store, settle_alerts=[ConnectionError("killed")]), [noting]).deliver()
    heir = Courier(store, [noting])
    assert heir.deliver() == 0, "the lease of the dead one runs"
    time.advance(121)
    assert heir.deliver() == 1
    assert noting.got == ["source:1 is disabled"] * 2


def test_what_the_store_never_notes_stops_nothing(store, time):
    """When the lease is over the alert is due again, so the courier goes on instead of insisting."""
    noting = Noting()
    courier = Courier(Failing(store, settle_alerts=[ValueError("refused")] * 3), [noting])
    store.raise_alerts([news()])
    for _ in range(3):
        with pytest.raises(ValueError, match="refused"):
            courier.deliver()
        time.advance(100)
    assert courier.deliver() == 1
    assert (len(noting.got), waiting(store)) == (2, [])


_KILLED = """
import os, signal, sys
from holdfast.observe.channels import channel
from holdfast.observe.courier import Courier
from holdfast.stores.sqlite.store import SqliteStore

path, url, when = sys.argv[1:]
slack = channel(url, allow_private=True)

class Killed:
    name = slack.name
    def send(self, message):
        if when == "after":
            slack.send(message)
        os.kill(os.getpid(), signal.SIGKILL)

Courier(SqliteStore(path), [Killed()]).deliver()
"""


@pytest.mark.parametrize(("when", "messages"), [("before", 1), ("after", 2)])
def test_a_courier_that_is_killed_leads_to_a_second_message_never_to_none(when, messages, tmp_path, server, slack):
    """SIGKILL before or after sending: at least once."""
    store = SqliteStore(tmp_path / "holdfast.db")
    store.create_schema()
    store.raise_alerts([news()])
    arguments = [str(tmp_path / "holdfast.db"), f"slack+{server.url(SECRET)}", when]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with fake_clock() as moving:
        heir = Courier(store, [slack])
        assert heir.deliver() == 0, "the lease of the killed one runs"
        moving.advance(121)
        assert heir.deliver() == 1
        assert heir.deliver() == 0
    assert len(server.requests) == messages
    assert [alert.delivered_to for alert in done(store)] == [(slack.name,)]
    store.close()


def test_two_couriers_share_the_outbox(store):
    noting = Noting()
    store.raise_alerts([news(f"source:{number}") for number in range(3)])
    one, two = Courier(store, [noting]), Courier(store, [noting])
    threads = [threading.Thread(target=each.deliver) for each in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(noting.got) == [f"source:{number} is disabled" for number in range(3)]


class Waiting(Noting):
    """A channel that tells another thread that it got something."""

    def __init__(self, *errors):
        super().__init__("waiting", *errors)
        self.arrived = threading.Semaphore(0)

    def send(self, message):
        super().send(message)
        self.arrived.release()


def started(courier):
    courier.start()
    courier.start()  # changes nothing
    assert courier.running
    return courier


def test_the_thread_delivers_what_is_raised_and_follows_up_at_once(store):
    there = Waiting()
    courier = started(Courier(store, [there], every=600))
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


def test_the_thread_looks_by_itself(store):
    there = Waiting()
    courier = started(Courier(store, [there], every=0.01))
    try:
        store.raise_alerts([news()])
        assert there.arrived.acquire(timeout=30)
    finally:
        courier.stop()


def test_a_store_that_is_down_is_told_of_once_and_asked_again(store, caplog):
    there = Waiting()
    store.raise_alerts([news()])
    broken = Failing(store, claim_alerts=[ConnectionError("down: password=hunter2")] * 20)
    courier = started(Courier(broken, [there], every=0.001))
    try:
        assert there.arrived.acquire(timeout=30)
    finally:
        courier.stop()
    (line,) = errors_in(caplog)
    assert "the store cannot be asked" in line.getMessage()
    assert "hunter2" not in caplog.text


def test_the_thread_reminds_and_tidies_up(store):
    """Pitfall 64: what is still not well is told again; what is old and well is forgotten."""
    with fake_clock() as moving:
        courier = Courier(store, [Noting()])
        store.raise_alerts([news("gone"), news("ill")])
        courier.deliver()
        store.raise_alerts([news("gone", None)])
        courier.deliver()
        moving.advance(31 * DAY)
        there = Waiting()
        running = started(Courier(store, [there], every=0.001))
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
    courier = started(Courier(store, [channel(slow), late], every=0.01))
    store.raise_alerts([news()])
    assert sending.wait(30)
    threading.Timer(0.1, go_on.set).start()
    courier.stop()
    assert (got, late.got) == (["source:1 is disabled"], [])
    (alert,) = waiting(store)
    assert (len(alert.delivered_to), alert.last_error) == (1, None)
    assert Courier(store, [late]).deliver() == 1, "what had no turn is due at once"


def test_stopping_waits_for_no_retry(store):
    ill = Waiting(*[NetworkError("later", retry_after=29)] * 3)
    tried = threading.Event()
    ill.send = lambda message, send=ill.send: (tried.set(), send(message))
    courier = started(Courier(store, [ill], every=0.01))
    store.raise_alerts([news()])
    assert tried.wait(30)
    courier.stop()
    (alert,) = waiting(store)
    assert (len(ill.tried), alert.last_error is None) == (1, False), "tried once, noted, and kept"


def test_a_channel_that_hangs_does_not_hold_up_the_end(store, monkeypatch, caplog):
    monkeypatch.setattr(couriers, "_STOP", 0.1)
    sending, go_on = threading.Event(), threading.Event()
    courier = started(Courier(store, [channel(lambda _: (sending.set(), go_on.wait(30)))], every=0.01))
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
    courier = Courier(store, [there], every=0.01)
    for number in range(2):
        started(courier)
        store.raise_alerts([news(f"source:{number}")])
        assert there.arrived.acquire(timeout=30)
        courier.stop()
    assert len(there.got) == 2
