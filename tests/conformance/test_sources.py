"""Sources: kept once each, and changed under a lock, all or nothing."""

import sqlite3
from datetime import timedelta

import psycopg
import pytest

from conformance.acting import NAMES, ids
from conformance.polling import EVERYTHING, FAILURE, add_feeds, at_once, change, fail, later, opened, poll, record
from outlast.decide.source_health import SourceHealth, SourceRules, SourceState
from outlast.ports.source_rows import NewAlert, NewSource, Poll, SourceAdded, SourceChange, SourceFilter, Transition
from outlast.sources.registry import SourceRegistry

URL = "https://feeds.test/1"


def test_a_new_source_is_healthy_and_due(store):
    before = store.now()
    (added,) = store.add_sources([NewSource(URL, "feed", "One", "main > p")])
    assert added.created
    source = store.source(added.id)
    assert source[:6] == (added.id, URL, "feed", "One", "main > p", SourceHealth())
    assert (source.state, source.is_active, source.consecutive_errors) == (SourceState.HEALTHY, True, 0)
    assert (source.cycle, source.epoch, source.outcome, source.pending) == (0, 0, None, None)
    assert (source.last_error, source.last_failure, source.memory) == (None, None, None)
    assert (source.etag, source.last_modified, source.content_hash) == (None, None, None)
    assert (source.not_before, source.leased_until) == (None, None)
    assert before <= source.next_poll_at == source.created_at <= store.now()
    assert source.created_at.utcoffset() == timedelta(0)
    assert store.polls(added.id, 10) == []
    assert store.source(added.id + 1) is None


def test_a_known_source_is_answered_untouched(store):
    (first,) = store.add_sources([NewSource(URL, "feed", "One")])
    change(store, first.id, etag='"1"', next_poll_at=later(store))
    before = store.source(first.id)
    again = store.add_sources([NewSource(URL, "feed", "Other", "p"), NewSource(URL, "blog")])
    assert again[0] == SourceAdded(first.id, created=False)
    assert again[1].created, "another profile has its own"
    assert store.source(first.id) == before


def test_one_that_is_named_twice_is_added_once(store):
    first, second, third = store.add_sources(
        [NewSource(URL, "feed"), NewSource(URL, "feed", "2"), NewSource("b", "feed")]
    )
    assert (first.created, second.created, third.created) == (True, False, True)
    assert first.id == second.id != third.id
    assert store.source(first.id).name == ""
    assert store.add_sources([]) == []


def test_all_are_added_or_none(database, store):
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
        store.add_sources([NewSource(URL, "feed"), NewSource(None, "feed")])
    assert store.sources(EVERYTHING) == []


def test_many_who_add_the_same_add_it_once(store, place):
    new = [NewSource(f"https://feeds.test/{number}", "feed") for number in range(20)]
    orders = [new, new[::-1]] * 2
    given = at_once(lambda mine, order: mine.add_sources(order), opened(place, 4), orders)
    assert sum(each.created for added in given for each in added) == 20
    assert len(store.sources(EVERYTHING)) == 20
    by_url = {source.url: source.id for source in store.sources(EVERYTHING)}
    for order, added in zip(orders, given, strict=True):
        assert ids(added) == [by_url[each.url] for each in order]


def test_the_ends_of_many_histories_in_one_answer(store):
    first, second, third = add_feeds(store, 3)
    for outcome in ("changed", "failed", "unchanged"):
        store.change_sources(dict.fromkeys((first, third), (None, poll(outcome))))
    found = store.recent_polls([third, first, second, 10**9], 2)
    assert {number: [each.outcome for each in polls] for number, polls in found.items()} == {
        first: ["unchanged", "failed"],
        second: [],
        third: ["unchanged", "failed"],
        10**9: [],
    }
    assert found[first] == store.polls(first, 2)
    assert store.recent_polls([], 2) == {}


def test_those_that_were_put_off(store):
    first, second, third, fourth, fifth = add_feeds(store, 5)
    change(store, first, third, outcome="deferred", not_before=later(store))
    change(store, second, outcome="deferred", not_before=later(store, -1))
    change(store, fourth, outcome="failed", not_before=later(store))
    change(store, fifth, outcome="deferred", not_before=later(store), health={"state": SourceState.DISABLED})
    waiting = [(number, store.source(number).url) for number in (first, third)]
    assert [tuple(row) for row in store.waiting_sources(10)] == waiting
    assert [tuple(row) for row in store.waiting_sources(1)] == waiting[:1]


def test_removed_with_its_history(store):
    gone, stays = add_feeds(store, 2)
    store.change_sources(dict.fromkeys((gone, stays), (None, poll())))
    assert store.remove_sources([gone, gone + 1000]) == 1
    assert store.source(gone) is None
    assert store.polls(gone, 10) == []
    assert ids(store.sources(EVERYTHING)) == [stays]
    assert len(store.polls(stays, 10)) == 1
    (new,) = store.add_sources([NewSource(URL, "feed")])
    assert new.created
    assert new.id > stays, "a number is never used again: alerts are kept under it"
    assert store.remove_sources([]) == 0


def test_a_removal_is_told_of_what_was_removed(store):
    first, second, stays = add_feeds(store, 3)
    gone = stays + 1000
    keys = {number: f"source:{number}" for number in (first, second, stays, gone)}
    store.raise_alerts([NewAlert(key, "disabled", "Title") for key in keys.values()])
    settled = {number: NewAlert(key, None, "removed") for number, key in keys.items()}
    assert store.remove_sources([second, gone, first], settled) == 2
    told = [(alert.key, alert.kind, alert.title) for alert in store.alerts()[:2]]
    assert told == [(keys[number], "recovered", "removed") for number in (second, first)]
    assert len(store.alerts()) == 6, "nothing of one that is not asked for, or was gone before"
    assert store.remove_sources([first], settled) == 0
    assert len(store.alerts()) == 6


def test_a_removal_that_cannot_be_told_is_none(database, store):
    (number,) = add_feeds(store)
    store.change_sources({number: (None, poll())})
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
        store.remove_sources([number], {number: NewAlert("source:1", "removed", None)})
    assert store.source(number) is not None
    assert len(store.polls(number, 10)) == 1


def test_the_book_tells_of_a_removal_in_the_same_transaction(store, monkeypatch):
    (number,) = add_feeds(store)
    store.change_sources({number: (None, fail(SourceRules(threshold=1)))})
    book = SourceRegistry(store)

    def lost(*_):
        raise ConnectionError

    with monkeypatch.context() as patched, pytest.raises(ConnectionError):
        patched.setattr(store, "remove_sources", lost)
        book.remove(number)
    assert [alert.kind for alert in store.alerts()] == ["first"], "it is there, and in trouble"
    book.remove(number)
    assert [alert.kind for alert in store.alerts()] == ["recovered", "first"]


def test_sources_by_what_is_asked_for(store):
    one, two, three = ids(
        store.add_sources(
            [
                NewSource("https://a.test/x", "feed", "Apples"),
                NewSource("https://b.test/y", "feed", "100%_sure"),
                NewSource("https://a.test/x", "blog", "Cherries"),
            ]
        )
    )
    change(store, two, health={"state": SourceState.DISABLED})

    def found(**which):
        return ids(store.sources(SourceFilter(**which)))

    assert found() == [one, two, three]
    assert found(profile="feed") == [one, two]
    assert found(state=SourceState.DISABLED) == [two]
    assert found(profile="blog", state=SourceState.DISABLED) == []
    assert found(url="https://a.test/x") == [one, three]
    assert found(text="a.test") == [one, three]
    assert found(text="Cherr") == [three]
    assert found(text="%_") == [two], "no pattern"
    assert found(after=one) == [two, three]
    assert found(after=one, limit=1) == [two]
    assert found(limit=2) == [one, two]


def test_sources_are_counted_by_state(store):
    assert store.source_counts() == dict.fromkeys(SourceState, 0)
    first, second, _ = add_feeds(store, 3)
    add_feeds(store, 2, profile="blog")
    change(store, first, health={"state": SourceState.WARNING})
    change(store, second, health={"state": SourceState.PROBATION})
    none = dict.fromkeys(SourceState, 0)
    assert store.source_counts() == none | {"healthy": 3, "warning": 1, "probation": 1}
    assert store.source_counts("blog") == none | {"healthy": 2}
    assert store.source_counts("nobody") == none


def test_all_that_is_changed_is_kept(store):
    (number,) = add_feeds(store)
    before = store.source(number)
    at = [later(store, seconds) for seconds in range(10)]
    changed = before._replace(
        name="ünï 🦊",
        selector="#main",
        health=SourceHealth(SourceState.DISABLED, 7, at[0], at[1], "rule", 3, 2, at[2], at[3]),
        last_error='it\'s "bad"',
        last_failure=FAILURE,
        next_poll_at=at[4],
        not_before=at[5],
        etag='W/"x"',
        last_modified="Thu, 01 Jan 1970 00:00:00 GMT",
        content_hash="abc",
        memory='{"ids": ["ä"]}',
        cycle=41,
        outcome="failed",
        pending={**FAILURE, "message": "日本語"},
        leased_until=at[6],
        epoch=9,
    )
    assert store.change_sources({number: (None, lambda source, now: SourceChange(changed))}) == []
    assert store.source(number) == changed
    assert store.sources(EVERYTHING) == [changed]
    assert store.change_sources({number: (None, lambda source, now: SourceChange(before))}) == []
    assert store.source(number) == before, "what was set can be unset"


def test_a_change_sees_the_row_and_the_stores_time(store):
    (number,) = add_feeds(store)
    seen = []

    def look(source, now):
        seen.append((source, now))

    before = store.now()
    assert store.change_sources({number: (None, look), number + 1000: (None, look), number + 1: (3, look)}) == []
    (source, now) = seen[-1]
    assert {each.id for each, _ in seen} == {number}, "one that is gone is left out"
    assert source == store.source(number)
    assert before <= now <= store.now()
    assert now.utcoffset() == timedelta(0)
    assert store.polls(number, 10) == []


def test_the_epoch_fences(store):
    (number,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    (first,) = store.claim_sources(cycle.id, "m1", 10, -1)
    (second,) = store.claim_sources(cycle.id, "m2", 10, 60)
    assert second.epoch > first.epoch
    before = store.source(number)
    assert record(store, first, outcome="changed") == []
    assert store.source(number) == before
    assert store.polls(number, 10) == []
    record(store, second)
    assert (store.source(number).outcome, store.source(number).leased_until) == ("unchanged", None)
    assert [line.outcome for line in store.polls(number, 10)] == ["unchanged"]


def test_a_write_whose_answer_was_lost_is_applied_once(store):
    (number,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    (claimed,) = store.claim_sources(cycle.id, "m1", 10, 60)

    def judged(source, now):
        counted = fail(SourceRules(threshold=1))(source, now)
        return counted._replace(source=counted.source._replace(outcome="failed", leased_until=None))

    assert len(store.change_sources({number: (claimed.epoch, judged)})) == 1
    before = store.source(number)
    assert store.change_sources({number: (claimed.epoch, judged)}) == []
    assert store.source(number) == before
    assert len(store.polls(number, 10)) == 1
    assert before.consecutive_failures == 1
    change(store, number, name="by hand")
    assert store.source(number) == before._replace(name="by hand"), "without an epoch it is changed in any case"


def test_history_is_told_newest_first(store):
    (number,) = add_feeds(store)
    at = later(store, -60)
    full = Poll(number, 3, at, "failed", 4, 403, "access_denied", "403", SourceState.HEALTHY, SourceState.WARNING)
    bare = Poll(number, 0, at, "enabled")
    for line in (full, bare):
        store.change_sources({number: (None, lambda source, now, line=line: SourceChange(source, line))})
    assert store.polls(number, 10) == [bare, full]
    assert store.polls(number, 1) == [bare]
    assert type(store.polls(number, 2)[1].after) is SourceState


def test_history_does_not_grow_for_ever(store):
    busy, other = add_feeds(store, 2)
    store.change_sources({other: (None, poll("changed"))})
    at = store.now()
    for number in range(320):
        line = Poll(busy, number, at, "unchanged")
        store.change_sources({busy: (None, lambda source, now, line=line: SourceChange(source, line))})
    kept = [line.cycle for line in store.polls(busy, 1000)]
    assert 100 <= len(kept) <= 300
    assert kept == list(range(319, 319 - len(kept), -1))
    assert len(store.polls(other, 10)) == 1


def test_transitions_and_alerts_come_with_the_change(store):
    first, second = add_feeds(store, 2)
    transition = Transition(first, URL, SourceState.HEALTHY, SourceState.ERROR, 5, "404")

    def worse(source, now):
        changed = source._replace(health=source.health._replace(state=SourceState.ERROR))
        return SourceChange(changed, None, transition, (NewAlert("source:1", "error", "Title", "Text"),))

    moved = store.change_sources({second: (None, poll()), first: (None, worse)})
    assert moved == [transition]
    assert [(alert.key, alert.kind, alert.state) for alert in store.alerts()] == [("source:1", "first", "error")]
    assert store.change_sources({first: (99, worse)}) == [], "nothing is told of what was not written"
    assert len(store.alerts()) == 1


def test_changes_are_made_by_number(store):
    numbers = add_feeds(store, 3)
    order = []
    store.change_sources({number: (None, lambda source, now: order.append(source.id)) for number in numbers[::-1]})
    assert order[-3:] == numbers


def test_all_are_changed_or_none(store):
    first, second, third = add_feeds(store, 3)
    before = store.sources(EVERYTHING)
    rules = SourceRules(threshold=1)

    def raises(source, now):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.change_sources({first: (None, fail(rules)), second: (None, fail(rules)), third: (None, raises)})
    assert store.sources(EVERYTHING) == before
    assert store.polls(first, 10) == store.polls(second, 10) == []
    assert store.alerts() == []
    assert len(store.change_sources({first: (None, fail(rules)), second: (None, fail(rules))})) == 2


def test_eight_who_report_a_failure_at_once(store, place):
    """Pitfall 62."""
    (number,) = add_feeds(store)
    rules = SourceRules(threshold=5)
    given = at_once(lambda mine: mine.change_sources({number: (None, fail(rules))}), opened(place, 8))
    source = store.source(number)
    assert (source.state, source.consecutive_failures) == (SourceState.DISABLED, 8), "no increment is lost"
    moved = [each for transitions in given for each in transitions]
    assert sorted(each.after for each in moved) == ["disabled", "warning"]
    assert {each.consecutive_failures for each in moved} == {1, 5}
    assert [(alert.kind, alert.state) for alert in store.alerts()] == [("first", "disabled")]
    assert len(store.polls(number, 10)) == 8


def test_changes_of_many_in_any_order_wait_for_each_other(store, place):
    numbers = add_feeds(store, 10)

    def count(mine, order):
        for _ in range(5):
            mine.change_sources(dict.fromkeys(order, (None, fail(SourceRules(disables=False)))))

    orders = [numbers, numbers[::-1]] * 2
    at_once(count, opened(place, 4), orders)
    assert {source.consecutive_failures for source in store.sources(EVERYTHING)} == {20}


def test_urls_by_any_name(store):
    """Pitfall 69."""
    added = store.add_sources([NewSource(name, name, name, name) for name in NAMES])
    assert [each.created for each in added] == [True] * len(NAMES)
    for name, each in zip(NAMES, added, strict=True):
        assert store.source(each.id)[1:5] == (name, name, name, name)
        assert ids(store.sources(SourceFilter(profile=name, url=name, text=name))) == [each.id]
        assert store.open_cycle(name).profile == name
