"""The outbox: each piece of news once, in its order, until it is delivered."""

import time
from datetime import timedelta

import pytest

from conformance.acting import NAMES, NOTE, bury
from conformance.polling import at_once, opened
from outlast.decide.decision import AlertKind
from outlast.ports.source_rows import AlertResult, NewAlert

LATER = 3600.0


def news(state, key="source:1", title="Title", text="Text"):
    return NewAlert(key, state, title, text)


def kinds(alerts):
    return [alert.kind for alert in alerts]


def deliver(store, limit=100):
    """Claim what is due and settle it; return it."""
    claimed = store.claim_alerts(limit, 60)
    assert store.settle_alerts([AlertResult(each.id, each.epoch, ("slack",), None) for each in claimed]) == len(claimed)
    return claimed


def claim_all(store):
    """Claim and settle until nothing is due; return all."""
    found = []
    while claimed := deliver(store):
        found += claimed
    return found


def test_a_new_alert(store):
    before = store.now()
    (alert,) = store.raise_alerts([news("disabled")])
    assert alert[1:] == (
        "source:1",
        AlertKind.FIRST,
        "disabled",
        "Title",
        "Text",
        0,
        0,
        (),
        None,
        None,
        alert.created_at,
        None,
    )
    assert type(alert.kind) is AlertKind
    assert before <= alert.created_at <= store.now()
    assert alert.created_at.utcoffset() == timedelta(0)
    assert store.alerts() == [alert]
    assert store.raise_alerts([]) == []


@pytest.mark.parametrize("delivered", [False, True])
def test_only_news_is_told(store, delivered):
    """Pitfall 64."""
    told = []
    for state in (None, "error", "error", "disabled", "disabled", None, None, "error", None):
        told += kinds(store.raise_alerts([news(state)]))
        if delivered:
            deliver(store)
    assert told == ["first", "changed", "recovered", "first", "recovered"]
    assert [(alert.kind, alert.state) for alert in store.alerts()] == [
        ("recovered", None),
        ("first", "error"),
        ("recovered", None),
        ("changed", "disabled"),
        ("first", "error"),
    ]


def test_several_at_once_are_decided_one_after_the_other(store):
    alerts = [news("a"), news("a"), news("b", key="other"), news("b"), news(None), news(None, key="third")]
    raised = store.raise_alerts(alerts)
    assert [(alert.key, alert.kind, alert.state) for alert in raised] == [
        ("source:1", "first", "a"),
        ("other", "first", "b"),
        ("source:1", "changed", "b"),
        ("source:1", "recovered", None),
    ]
    assert [alert._replace(since=None) for alert in store.alerts()] == raised[::-1]


def test_many_who_tell_the_same_tell_it_once(store, place):
    both = [news("a", key="one"), news("a", key="two")]
    given = at_once(lambda mine, told: mine.raise_alerts(told), opened(place, 8), [both, both[::-1]] * 4)
    assert sum(len(raised) for raised in given) == 2
    assert kinds(store.alerts()) == ["first", "first"]


def test_keys_by_any_name(store):
    """Pitfall 69."""
    raised = store.raise_alerts([NewAlert(name, name, name, name) for name in NAMES])
    assert [(alert.key, alert.state, alert.title, alert.text) for alert in raised] == [(name,) * 4 for name in NAMES]
    assert len(deliver(store)) == len(NAMES)
    assert kinds(store.raise_alerts([NewAlert(name, None, name) for name in NAMES])) == ["recovered"] * len(NAMES)


def test_alerts_are_taken_oldest_first(store, another):
    first, second, third = store.raise_alerts([news("a", key=key) for key in ("1", "2", "3")])
    taken = store.claim_alerts(2, 60)
    assert taken == [alert._replace(epoch=1, deliveries=1) for alert in (first, second)]
    assert another.claim_alerts(2, 60) == [third._replace(epoch=1, deliveries=1)]
    assert another.claim_alerts(2, 60) == []
    assert store.alerts(waiting=True)[::-1] == [*taken, third._replace(epoch=1, deliveries=1)]


def test_many_who_take_at_once_share(store, place):
    store.raise_alerts([news("a", key=str(number)) for number in range(40)])

    def take(mine):
        taken = []
        while batch := mine.claim_alerts(3, 60):
            taken += [alert.key for alert in batch]
        return taken

    given = at_once(take, opened(place, 4))
    assert sorted(key for taken in given for key in taken) == sorted(map(str, range(40)))


def test_a_delivery_that_was_lost_is_tried_again(store):
    (raised,) = store.raise_alerts([news("a")])
    (lost,) = store.claim_alerts(10, -1)
    (again,) = store.claim_alerts(10, 60)
    assert again == raised._replace(epoch=2, deliveries=2)
    assert store.settle_alerts([AlertResult(lost.id, lost.epoch, ("slack",), None)]) == 0
    assert store.alerts() == [again], "another has it by now"
    assert store.settle_alerts([AlertResult(again.id, again.epoch, ("slack",), None)]) == 1


def test_alerts_that_wait_after_a_failure_are_made_due(store):
    store.raise_alerts([news("a", key=key) for key in ("1", "2", "3")])
    done, failed, _leased = store.claim_alerts(3, 60)
    store.settle_alerts([AlertResult(done.id, done.epoch, ("slack",), None)])
    store.settle_alerts([AlertResult(failed.id, failed.epoch, (), 3600.0, "down")])
    assert store.claim_alerts(3, 60) == []
    assert store.make_alerts_due() == 1
    assert [each.id for each in store.claim_alerts(3, 60)] == [failed.id]
    assert store.make_alerts_due() == 0, "another process is sending them"


def test_what_is_delivered_is_done_with(store):
    store.raise_alerts([news("a")])
    (claimed,) = store.claim_alerts(10, 60)
    before = store.now()
    assert store.settle_alerts([AlertResult(claimed.id, claimed.epoch, ("slack", "mail:ä"), None)]) == 1
    (alert,) = store.alerts()
    assert before <= alert.delivered_at <= store.now()
    assert alert == claimed._replace(delivered_to=("slack", "mail:ä"), delivered_at=alert.delivered_at)
    assert store.claim_alerts(10, 60) == []
    assert store.settle_alerts([AlertResult(claimed.id, claimed.epoch, (), None, "late")]) == 0
    assert store.alerts() == [alert]
    assert store.settle_alerts([AlertResult(claimed.id + 1000, 1, (), None)]) == 0
    assert store.settle_alerts([]) == 0


def test_what_is_given_up_says_why(store):
    store.raise_alerts([news("a")])
    (claimed,) = store.claim_alerts(10, 60)
    store.settle_alerts([AlertResult(claimed.id, claimed.epoch, (), None, "404 from Slack")])
    (alert,) = store.alerts(waiting=False)
    assert (alert.delivered_to, alert.last_error) == ((), "404 from Slack")


def test_what_could_not_be_delivered_waits(store):
    store.raise_alerts([news("a"), news("a", key="other")])
    now_due, not_due = store.claim_alerts(10, 60)
    results = [
        AlertResult(now_due.id, now_due.epoch, ("mail",), 0.0, "503"),
        AlertResult(not_due.id, not_due.epoch, (), LATER, "503"),
    ]
    assert store.settle_alerts(results) == 2
    (again,) = store.claim_alerts(10, 60)
    assert again == now_due._replace(epoch=2, deliveries=2, delivered_to=("mail",), last_error="503")
    assert store.alerts(waiting=False) == []


def test_recovered_never_overtakes_first(store):
    store.raise_alerts([news("a"), news("b"), news(None), news("a", key="other")])
    first, other = store.claim_alerts(10, 60)
    assert (first.kind, first.key, other.key) == ("first", "source:1", "other")
    assert store.claim_alerts(10, 60) == [], "the first is in somebody's hands"
    store.settle_alerts([AlertResult(first.id, first.epoch, (), LATER, "503")])
    assert store.claim_alerts(10, 60) == [], "the first is not due"


def test_one_that_some_channel_has_holds_nothing_up(store):
    """A channel that is down for a day keeps no news from the others."""
    store.raise_alerts([NewAlert("a", "down", "a is down")])
    (first,) = store.claim_alerts(10, 60)
    store.settle_alerts([AlertResult(first.id, first.epoch, ("slack",), again=3600, error="mail is down")])
    store.raise_alerts([NewAlert("a", None, "a is well")])

    assert [alert.kind for alert in store.claim_alerts(10, 60)] == ["recovered"]


def test_the_next_of_a_key_follows_the_one_before(store):
    store.raise_alerts([news("a"), news("b"), news(None)])
    assert [kinds(deliver(store)) for _ in range(4)] == [["first"], ["changed"], ["recovered"], []]


def test_alerts_by_what_is_asked_for(store):
    store.raise_alerts([news("a", key=str(number)) for number in range(60)])
    done = deliver(store, limit=3)
    assert [alert.key for alert in store.alerts(waiting=False)] == ["2", "1", "0"]
    assert len(store.alerts()) == 50
    assert [alert.key for alert in store.alerts(limit=2)] == ["59", "58"]
    assert len(store.alerts(waiting=True, limit=100)) == 57
    assert {alert.id for alert in store.alerts(waiting=False)} == {alert.id for alert in done}


def test_what_is_not_well_is_told_again(store):
    store.raise_alerts([news("a"), news("b"), news("a", key="well"), news(None, key="well")])
    assert store.remind_alerts(0) == [], "what was not told needs no reminder"
    for _ in range(2):
        deliver(store)
    store.raise_alerts([news("c", key="waiting")])
    assert store.remind_alerts(LATER) == [], "it was told just now"
    (reminder,) = store.remind_alerts(0)
    assert reminder[1:6] == ("source:1", AlertKind.REMINDER, "b", "Title", "Text")
    assert (reminder.epoch, reminder.deliveries, reminder.delivered_at) == (0, 0, None)
    assert store.remind_alerts(0) == [], "one at a time"
    assert [alert.key for alert in deliver(store)] == ["waiting", "source:1"]
    assert {alert.key for alert in store.remind_alerts(0)} == {"waiting", "source:1"}
    assert kinds(store.raise_alerts([news("b"), news(None)])) == ["recovered"], "a reminder is no news"


@pytest.mark.parametrize("rolled_up", [False, True])
def test_nobody_is_reminded_of_groups_that_are_seen_to(store, rolled_up):
    names = ("open", "snoozed", "acknowledged", "again", "it's")
    for name in names:
        bury(store, note=NOTE._replace(fingerprint=name))
    kept = [news("new", key=f"{kind}:{name}") for name in names for kind in ("group", "growth")]
    store.raise_alerts(
        [*kept, news("a", key="group:unknown"), news("a", key="source:snoozed"), news("a", key="snoozed")]
    )
    deliver(store)
    store.mark_group("snoozed", snooze=60)
    for name in ("acknowledged", "again"):
        store.mark_group(name, acknowledged=True)
    time.sleep(0.003)
    bury(store, note=NOTE._replace(fingerprint="again"))
    if rolled_up:
        store.roll_up()
    expected = {f"{kind}:{name}" for name in ("open", "again", "it's") for kind in ("group", "growth")}
    expected |= {"group:unknown", "source:snoozed", "snoozed"}
    assert {alert.key for alert in store.remind_alerts(0)} == expected
    store.mark_group("snoozed", snooze=0)
    assert {alert.key for alert in store.remind_alerts(0)} == {"group:snoozed", "growth:snoozed"}


def test_the_last_of_each_key(store):
    assert store.last_alerts([]) == store.last_alerts(["a"]) == {}
    raised = store.raise_alerts([news("x", key="a"), news("y", key="a"), news("x", key="b"), news(None, key="b")])
    store.raise_alerts([news("x", key=str(number)) for number in range(60)])
    ended = raised[3]._replace(since=raised[2].created_at)
    assert store.last_alerts(["a", "b", "a", "c"]) == {"a": raised[1], "b": ended}
    named = store.raise_alerts([NewAlert(name, name, name) for name in NAMES])
    assert store.last_alerts(NAMES) == {alert.key: alert for alert in named}


def test_many_who_remind_at_once_remind_once(store, place):
    store.raise_alerts([news("a"), news("b", key="other")])
    deliver(store)
    given = at_once(lambda mine: mine.remind_alerts(0), opened(place, 4))
    assert sum(len(raised) for raised in given) == 2
    assert sorted(kinds(store.alerts())) == ["first", "first", "reminder", "reminder"]


def test_what_is_well_again_stays_the_last_word(store):
    """An older one is delivered later, for a channel was down: it is not what is known of the matter then."""
    store.raise_alerts([news("a")])
    (first,) = store.claim_alerts(10, 60)
    store.settle_alerts([AlertResult(first.id, first.epoch, ("slack",), 0.0, "mail is down")])
    store.raise_alerts([news(None)])
    first, well = store.claim_alerts(10, 60)
    store.settle_alerts([AlertResult(well.id, well.epoch, ("slack", "mail"), None)])
    assert store.prune_alerts(-1) == 0
    store.settle_alerts([AlertResult(first.id, first.epoch, ("slack", "mail"), None)])
    assert store.remind_alerts(-1) == []
    assert store.raise_alerts([news(None)]) == []
    assert store.prune_alerts(-1) == 2


def test_old_alerts_are_deleted_but_not_what_is_open(store):
    store.raise_alerts([news("a", key="well"), news(None, key="well"), news("a"), news("b"), news("c", key="waiting")])
    for _ in range(2):
        claimed = [alert for alert in store.claim_alerts(10, 60) if alert.key != "waiting"]
        store.settle_alerts([AlertResult(alert.id, alert.epoch, (), None) for alert in claimed])
    assert store.prune_alerts(LATER) == 0, "they are not old"
    assert store.prune_alerts(-1) == 2
    assert sorted((alert.key, alert.state) for alert in store.alerts()) == [
        ("source:1", "a"),  # since when it lasts
        ("source:1", "b"),
        ("waiting", "c"),
    ]
    assert store.prune_alerts(-1) == 0
    assert store.raise_alerts([news("b")]) == [], "it is known what was told last"
    assert kinds(store.raise_alerts([news("a", key="well")])) == ["first"]


def test_what_has_recovered_knows_since_when_it_lasted(store):
    """From the first alert of the same episode: neither from a change or reminder, nor from an earlier episode."""
    store.raise_alerts([news("a")])
    store.raise_alerts([news(None)])
    (first,) = store.raise_alerts([news("a")])
    store.raise_alerts([news("b")])
    claim_all(store)
    store.prune_alerts(-1)
    store.raise_alerts([news(None)])
    ended = store.last_alerts(["source:1"])["source:1"]
    assert (ended.kind, ended.since) == (AlertKind.RECOVERED, first.created_at)
    assert ended.lasted == (ended.created_at - first.created_at).total_seconds()
    assert [each.since for each in claim_all(store) if each.id == ended.id] == [first.created_at]
