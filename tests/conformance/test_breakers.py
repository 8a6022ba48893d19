"""Breakers: what processes tell of theirs, and what people order."""

import time

from conformance.acting import NAMES, die, register


def states(store):
    return [(row.resource, row.process, row.state, row.order) for row in store.breakers()]


def test_what_processes_tell(store):
    before = store.now()
    store.report_breakers("p2", [("api", "open", 30.0, "5 failures"), ("mail", "half_open", None, "")])
    store.report_breakers("p1", [("api", "closed", None, "")])
    store.report_breakers("p3", [])
    assert states(store) == [
        ("api", "p1", "closed", None),
        ("api", "p2", "open", None),
        ("mail", "p2", "half_open", None),
    ]
    _, opened, _ = store.breakers()
    assert 25 < (opened.until - before).total_seconds() < 60
    assert opened.reason == "5 failures"
    assert before <= opened.updated_at <= store.now()
    assert store.pulse().open_breakers == 1


def test_the_last_word_of_a_process_counts(store):
    store.report_breakers("p1", [("api", "open", 30.0, "down")])
    store.report_breakers("p1", [("api", "closed", None, "")])
    (row,) = store.breakers()
    assert (row.state, row.until, row.reason) == ("closed", None, "")
    assert store.pulse().open_breakers == 0


def test_a_process_that_ends_is_forgotten(store):
    store.report_breakers("p1", [("api", "open", None, ""), ("mail", "open", None, "")])
    store.report_breakers("p2", [("api", "open", None, "")])
    store.forget_breakers("p1")
    store.forget_breakers("nobody")
    assert states(store) == [("api", "p2", "open", None)]


def test_a_worker_that_is_not_known_any_more_is_left_out(store):
    register(store, "w1")
    register(store, "w2")
    for name in ("w1", "w2", "host:42"):
        store.report_breakers(name, [("api", "open", None, "")], leased=name != "host:42")
    store.leave("w1")
    assert [row.process for row in store.breakers()] == ["host:42", "w2"]
    die(store, "w2")
    store.rescue(3)
    assert [row.process for row in store.breakers()] == ["host:42"]
    store.roll_up()
    assert [row.process for row in store.breakers()] == ["host:42"]
    store.forget_breakers("host:42")
    assert store.pulse().open_breakers == 0


def test_a_worker_that_has_left_tells_nothing_more(store):
    """A beacon that was slow, after its worker said goodbye."""
    register(store, "w1")
    store.leave("w1")
    store.report_breakers("w1", [("api", "open", None, "")], leased=True)
    assert store.breakers() == []
    assert (store.pulse().open_breakers, store.pulse().changes) == (0, ())


def test_a_process_that_fell_silent_is_left_out_but_not_its_order(store, place):
    """A worker says by its lease that it lives; others have to tell again."""
    register(store, "w1")
    store.report_breakers("w1", [("api", "closed", None, "")], leased=True)
    store.report_breakers("host:1", [("api", "open", None, ""), ("mail", "open", None, "")])
    store.order_breaker("mail", "open")
    assert store.pulse().open_breakers == 2
    place.age_breakers(61)
    assert states(store) == [("api", "w1", "closed", None), ("mail", "", "open", "open")]
    assert store.pulse().open_breakers == 0
    assert not [change for change in store.pulse().changes if change.kind == "breaker"]
    store.report_breakers("host:1", [("mail", "open", None, "")])
    assert store.pulse().open_breakers == 1


def test_an_open_one_whose_time_is_over_is_not_counted(store):
    """Nobody has called since; the next call is let through."""
    store.report_breakers("host:1", [("api", "open", 0.0, "5 failures"), ("mail", "open", None, "by hand")])
    assert store.pulse().open_breakers == 1
    now = store.now()
    assert [(row.resource, row.is_due(now)) for row in store.breakers()] == [("api", True), ("mail", False)]


def test_orders_are_numbered(store):
    first = store.order_breaker("api", "open")
    second = store.order_breaker("mail", "open", 60.0)
    third = store.order_breaker("api", "closed")
    assert first.number < second.number < third.number
    assert (first.resource, first.state, first.seconds) == ("api", "open", None)
    assert [each.number for each in store.breaker_orders(0)] == [second.number, third.number]
    assert store.breaker_orders(second.number) == [third]
    assert store.breaker_orders(third.number) == []
    (mail, _) = store.breaker_orders(0)
    assert 30 < mail.seconds <= 60
    assert store.order_breaker("mail", "closed").number > third.number


def test_an_open_order_that_is_over_is_left_out(store):
    store.order_breaker("api", "open", -1.0)
    store.report_breakers("p1", [("mail", "closed", None, "")])
    store.order_breaker("mail", "open", -1.0)
    assert store.breaker_orders(0) == []
    assert states(store) == [("mail", "p1", "closed", None)]


def test_orders_stand_beside_what_is_told(store):
    store.order_breaker("api", "open", 600.0)
    store.order_breaker("mail", "closed")
    store.report_breakers("p1", [("api", "closed", None, "")])
    assert states(store) == [("api", "p1", "closed", "open"), ("mail", "", "closed", "closed")]
    store.forget_breakers("p1")
    api, _ = store.breakers()
    assert (api.process, api.state, api.order, api.reason) == ("", "open", "open", "")
    assert api.until > store.now()


def test_names_of_all_kinds(store):
    store.report_breakers("p", [(name, "open", None, name) for name in NAMES])
    assert {row.resource: row.reason for row in store.breakers()} == {name: name for name in NAMES}
    for name in NAMES:
        store.order_breaker(name, "closed")
    assert {each.resource for each in store.breaker_orders(0)} == set(NAMES)


def test_another_process_sees_it(store, another):
    store.report_breakers("p1", [("api", "open", None, "")])
    store.order_breaker("api", "closed")
    assert states(another) == [("api", "p1", "open", "closed")]
    assert len(another.breaker_orders(0)) == 1


def test_changes_are_told_by_the_pulse(store):
    store.report_breakers("p1", [("calm", "closed", None, "")])
    store.report_breakers("p1", [("api", "open", 30.0, "5 failures")])
    store.report_breakers("p2", [("api", "open", 30.0, "5 failures")])
    store.report_breakers("p3", [("mail", "open", 30.0, "down")])
    store.report_breakers("p3", [("mail", "half_open", None, "")])
    changes = {(each.subject, each.before, each.after) for each in store.pulse().changes if each.kind == "breaker"}
    assert changes == {("api", "", "open"), ("mail", "open", "half_open")}


def test_what_others_have_opened_by_their_own_judgement(store):
    store.report_breakers("p1", [("api", "open", 30.0, "5 failures"), ("mail", "open", 30.0, "down")])
    store.report_breakers("p2", [("api", "open", 60.0, "7 failures"), ("mail", "closed", None, "")])
    store.report_breakers("p3", [("api", "open", 90.0, "elsewhere: 5 failures"), ("web", "open", 90.0, "by hand")])
    store.report_breakers(
        "p4", [("web", "open", None, "by hand"), ("ftp", "half_open", None, ""), ("old", "open", 0.0, "x")]
    )
    everything = ["api", "mail", "web", "ftp", "old", "none"]
    api, mail = store.opened_breakers("me", everything)
    assert (api.resource, api.process, api.reason) == ("api", "p2", "7 failures")
    assert 30 < api.seconds <= 60
    assert (mail.resource, mail.process, mail.reason) == ("mail", "p1", "down")
    assert [each.process for each in store.opened_breakers("p2", everything)] == ["p1", "p1"]
    assert [each.resource for each in store.opened_breakers("me", ["mail"])] == ["mail"]
    assert store.opened_breakers("me", []) == []


def test_what_was_ordered_closed_is_nobodys_judgement_any_more(store, place):
    store.report_breakers("p1", [("api", "open", 300.0, "5 failures"), ("mail", "open", 300.0, "down")])
    place.age_breakers(1)
    store.order_breaker("api", "closed")
    store.order_breaker("mail", "open")
    assert [each.resource for each in store.opened_breakers("me", ["api", "mail"])] == ["mail"]
    time.sleep(0.01)  # SQLite counts milliseconds
    store.report_breakers("p1", [("api", "open", 300.0, "5 failures")])
    assert [each.resource for each in store.opened_breakers("me", ["api", "mail"])] == ["api", "mail"]


def test_names_of_all_kinds_are_found_open(store):
    store.report_breakers("p", [(name, "open", 60.0, name) for name in NAMES])
    assert {each.resource: each.reason for each in store.opened_breakers("me", NAMES)} == {name: name for name in NAMES}
