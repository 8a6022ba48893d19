"""The courier: alerts reach every channel, once where all goes well, and what does not arrive is tried again."""

import logging

import pytest

from integration.delivery_scenes import (
    DAY,
    HOUR,
    MINUTE,
    SECRET,
    Dead,
    Noting,
    done,
    errors_in,
    news,
    waiting,
)
from outlast import RetryPolicy
from outlast.errors import ConfigError, NetworkError, PermanentError, ResourceNotFoundError
from outlast.observe.alert_delivery import GIVE_UP_DELIVERIES, Deliverer
from outlast.observe.channels import channel
from servers.webhooks import Reply


def test_an_alert_reaches_every_channel_once(store, time):
    one, other = Noting("one"), Noting("other")
    courier = Deliverer(store, [one, other])
    store.raise_alerts([news()])
    assert courier.deliver() == 1
    assert courier.deliver() == 0
    assert one.got == other.got == ["source:1 is disabled"]
    (alert,) = done(store)
    assert (alert.delivered_to, alert.last_error, alert.deliveries) == (("one", "other"), None, 1)
    assert waiting(store) == []


def test_a_real_webhook_gets_it(store, server, slack):
    store.raise_alerts([news()])
    Deliverer(store, [slack]).deliver()
    assert [(each.path, b"source:1 is disabled" in each.body) for each in server.requests] == [(SECRET, True)]
    assert done(store)[0].delivered_to == (slack.name,)


def test_a_failed_notification_is_tried_twice_more_and_then_waits(store, server, slack, time, caplog):
    """B5."""
    server.script(Reply(500), Reply(503), Reply(500))
    store.raise_alerts([news()])
    began = time.monotonic()
    courier = Deliverer(store, [slack])
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
    Deliverer(store, [slack]).deliver()
    assert len(server.requests) == 3
    assert [alert.delivered_to for alert in done(store)] == [(slack.name,)]
    assert errors_in(caplog) == []


def test_what_a_channel_asks_to_wait_is_waited_for(store, server, slack, time):
    server.script(Reply(429, {"Retry-After": "20"}))
    store.raise_alerts([news()])
    began = time.monotonic()
    Deliverer(store, [slack]).deliver()
    assert time.monotonic() - began == pytest.approx(20)
    assert (len(server.requests), waiting(store)) == (2, [])


def test_who_asks_to_wait_for_long_is_asked_by_a_later_delivery(store, server, slack, time):
    server.script(Reply(429, {"Retry-After": "300"}))
    store.raise_alerts([news("a"), news("b")])
    courier, began = Deliverer(store, [slack]), time.monotonic()
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
    Deliverer(store, [slack]).deliver()
    assert len(server.requests) == requests


@pytest.mark.parametrize("status", [404, 410, 403, 400, 302])
def test_a_permanent_failure_is_not_tried_again_at_once_and_the_alert_is_kept(status, store, server, slack, time):
    server.script(Reply(status))
    store.raise_alerts([news()])
    courier = Deliverer(store, [slack])
    courier.deliver()
    assert (len(server.requests), len(waiting(store))) == (1, 1)
    time.advance(MINUTE + 1)
    courier.deliver()
    assert (len(server.requests), len(waiting(store))) == (2, 0)


def test_a_private_address_is_refused_and_nothing_is_sent(store, server, time, caplog):
    """Pitfall 68."""
    store.raise_alerts([news()])
    Deliverer(store, [channel(f"slack+https://127.0.0.1:{server.port}{SECRET}")]).deliver()
    assert server.connections == 0
    (alert,) = waiting(store)
    assert "not public" in alert.last_error
    assert errors_in(caplog)[0].error_category == "configuration"
    assert "secret" not in caplog.text + alert.last_error


def test_waits_between_deliveries_double_up_to_an_hour_and_end_after_a_day(store, time, caplog):
    dead = Dead()
    courier = Deliverer(store, [dead], policy=RetryPolicy(max_attempts=1))
    (raised,) = store.raise_alerts([news()])
    for _ in range(3000):
        courier.deliver()
        if not waiting(store):
            break
        time.advance(30)
    gaps = [round((later - earlier) / 60) for earlier, later in zip(dead.tried, dead.tried[1:], strict=False)]
    assert gaps[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(gaps[6:]) == {60}
    assert len(dead.tried) == GIVE_UP_DELIVERIES
    assert DAY <= dead.tried[-1] < DAY + HOUR + MINUTE
    (alert,) = done(store)
    assert (alert.id, alert.delivered_to) == (raised.id, ())
    assert "gone" in alert.last_error
    assert "was given up" in errors_in(caplog)[-1].getMessage()


def test_an_old_alert_is_tried_before_it_is_given_up(store, time):
    """A program that was down for days still tells what it has."""
    store.raise_alerts([news()])
    time.advance(3 * DAY)
    noting = Noting()
    Deliverer(store, [noting]).deliver()
    assert noting.got == ["source:1 is disabled"]


def test_an_old_alert_is_tried_as_often_as_a_new_one(store, time):
    """What was raised before a weekend without the program is not given up because DNS is late on Monday."""
    store.raise_alerts([news()])
    time.advance(3 * DAY)
    slow = Noting("slow", *[NetworkError("no DNS yet")] * 3)
    courier = Deliverer(store, [slow])
    courier.deliver()
    assert [alert.deliveries for alert in waiting(store)] == [1]
    time.advance(MINUTE + 1)
    courier.deliver()
    assert slow.got == ["source:1 is disabled"]


def test_a_clock_that_jumps_gives_up_no_alert(store, time):
    store.raise_alerts([news()])
    time.jump(400 * DAY)
    Deliverer(store, [Dead()]).deliver()
    assert len(waiting(store)) == 1


def test_couriers_that_die_use_up_no_alert(store, time):
    """A program that crashes every two minutes has not tried for a day, however often it has begun."""
    store.raise_alerts([news()])
    for _ in range(2 * GIVE_UP_DELIVERIES):
        store.claim_alerts(10, 120.0)
        time.advance(121)
    Deliverer(store, [Dead()]).deliver()
    (alert,) = waiting(store)
    assert alert.deliveries > GIVE_UP_DELIVERIES


def test_the_first_delivery_reminds_and_tidies_up(store, time):
    """As cron makes it: a courier that lives for one delivery. Pitfall 64."""
    store.raise_alerts([news("gone"), news("ill")])
    Deliverer(store, [Noting()]).deliver()
    store.raise_alerts([news("gone", None)])
    Deliverer(store, [Noting()]).deliver()
    time.advance(31 * DAY)
    cron = Noting()
    assert Deliverer(store, [cron]).deliver() == 1
    assert cron.got == ["still: ill is disabled"]
    assert {alert.key for alert in store.alerts(limit=100)} == {"ill"}


def test_later_deliveries_remind_once_a_minute(store, time):
    noting = Noting()
    courier = Deliverer(store, [noting], remind_after=10)
    store.raise_alerts([news()])
    courier.deliver()
    time.advance(59)
    assert courier.deliver() == 0
    time.advance(1)
    assert courier.deliver() == 1
    assert noting.got == ["source:1 is disabled", "still: source:1 is disabled"]


def test_a_channel_that_has_it_does_not_get_it_again(store, time):
    well, ill = Noting("well"), Noting("ill", PermanentError("no"))
    courier = Deliverer(store, [well, ill])
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
    Deliverer(store, [ill, well]).deliver()
    assert (well.tried, ill.tried) == ([0], [0, pytest.approx(25)])


def test_many_alerts_are_one_digest_and_each_is_settled(store, time):
    noting = Noting()
    store.raise_alerts([news(f"source:{number}") for number in range(30)])
    assert Deliverer(store, [noting]).deliver() == 30
    assert noting.got == ["30 changes: 30 disabled"]
    assert {alert.delivered_to for alert in done(store)} == {("noting",)}
    assert len(done(store)) == 30


def test_a_digest_for_one_channel_may_be_single_messages_for_another(store, time):
    """Each channel is told what it does not have yet."""
    well, ill = Noting("well"), Noting("ill", ResourceNotFoundError("no"))
    courier = Deliverer(store, [well, ill])
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
    courier = Deliverer(store, [ill])
    store.raise_alerts([news()])
    store.raise_alerts([news(state="error")])
    store.raise_alerts([news(state=None)])
    for _ in range(5):
        courier.deliver()
        time.advance(2 * MINUTE)
    assert ill.got == ["source:1 is disabled", "now: source:1 is error", "recovered: source:1 is well"]
    assert waiting(store) == []


def test_without_channels_alerts_are_logged_and_done_with(store, time, caplog):
    store.raise_alerts([news(f"source:{number}") for number in range(6)])
    assert Deliverer(store, []).deliver() == 6
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [f"alert: source:{number} is disabled" for number in range(6)]
    assert waiting(store) == []
    assert {alert.delivered_to for alert in done(store)} == {("log",)}
    assert Deliverer(store, []).deliver() == 0, "they are logged once"


def test_no_try_begins_when_the_lease_nears_its_end(store, time):
    slow = Noting("slow", NetworkError("no"))

    def taking_long(message, send=slow.send):
        time.advance(50)
        send(message)

    slow.send = taking_long
    late = Noting("late")
    store.raise_alerts([news()])
    Deliverer(store, [slow, late], lease=60.0).deliver()
    assert (len(slow.tried), late.tried) == (1, []), "40 s of 60 were over"
    (alert,) = waiting(store)
    assert alert.last_error.startswith("slow: ")


def test_two_channels_of_one_name_are_refused(store):
    with pytest.raises(ConfigError, match="two channels are named same"):
        Deliverer(store, [Noting("same"), Noting("same")])


@pytest.mark.parametrize("setting", ["every", "remind_after", "keep", "lease"])
def test_times_are_checked(setting, store):
    with pytest.raises(ConfigError, match=setting):
        Deliverer(store, [], **{setting: -1})
