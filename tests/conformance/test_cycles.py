"""Cycles: begun once, shared by all monitors, and ended once."""

from datetime import timedelta

import pytest

from conformance.acting import ids
from conformance.polling import (
    EVERYTHING,
    FAILURE,
    add_feeds,
    at_once,
    change,
    end,
    fail,
    later,
    opened,
    record,
    run_cycle,
)
from outlast.decide.source_health import SourceRules, SourceState
from outlast.ports.source_rows import Closing, NewAlert, SourceFilter


def disable(store, number, by, **changes):
    change(store, number, health={"state": SourceState.DISABLED, "disabled_by": by}, **changes)


def outcomes(store):
    return [(source.id, source.outcome) for source in store.sources(EVERYTHING)]


def test_a_cycle_has_what_is_due(store):
    assert store.open_cycle("feed") is None
    due, over, scheduled, cooling, cooled = add_feeds(store, 5)
    (other,) = add_feeds(store, profile="blog")
    change(store, over, next_poll_at=later(store, -60))
    change(store, scheduled, next_poll_at=later(store))
    change(store, cooling, not_before=later(store))
    change(store, cooled, not_before=later(store, -60))
    before = store.now()
    cycle = store.open_cycle("feed")
    assert (cycle.profile, cycle.sources, cycle.ended_at, cycle.outage_since) == ("feed", 3, None, None)
    assert (cycle.polled, cycle.changed, cycle.failed, cycle.deferred) == (0, 0, 0, 0)
    assert before <= cycle.started_at <= store.now()
    assert store.cycles("feed", 10) == [cycle]
    assert [store.source(number).cycle for number in (due, over, scheduled, cooling, cooled, other)] == [
        cycle.id, cycle.id, 0, 0, cycle.id, 0,
    ]  # fmt: skip


def test_nothing_due_is_no_cycle(store):
    (number,) = add_feeds(store)
    change(store, number, next_poll_at=later(store))
    assert store.open_cycle("feed") is None
    assert store.open_cycle("nobody") is None
    assert store.cycles(None, 10) == []


def test_everything_means_whatever_its_schedule(store):
    scheduled, cooling, by_hand, probed, later_probed = add_feeds(store, 5)
    change(store, scheduled, probed, by_hand, next_poll_at=later(store))
    change(store, cooling, not_before=later(store))
    disable(store, by_hand, "hand")
    disable(store, probed, "rule", not_before=later(store, -1))
    disable(store, later_probed, "rule", not_before=later(store))
    cycle = store.open_cycle("feed", everything=True)
    assert cycle.sources == 2
    assert ids(store.claim_sources(cycle.id, "m1", 10, 60)) == [scheduled, probed]


def test_what_is_disabled(store):
    by_hand, over_by_hand, by_rule, over_by_rule = add_feeds(store, 4)
    disable(store, by_hand, "hand")
    disable(store, over_by_hand, "hand", not_before=later(store, -60))
    disable(store, by_rule, "rule", not_before=later(store))
    assert ids(_taken(store)) == [over_by_rule]
    disable(store, over_by_rule, "rule", not_before=later(store, -1), next_poll_at=later(store))
    assert ids(_taken(store)) == [over_by_rule], "it is probed, whatever its schedule"


def _taken(store):
    cycle = store.open_cycle("feed")
    taken = store.claim_sources(cycle.id, "m1", 10, 60)
    record(store, *taken)
    store.close_cycle(cycle.id, end)
    return taken


def test_who_comes_later_joins_the_cycle_that_runs(store, another):
    (first,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    (late,) = add_feeds(store, begin=2)
    assert another.open_cycle("feed") == cycle
    assert another.open_cycle("feed", everything=True) == cycle
    assert ids(another.claim_sources(cycle.id, "m2", 10, 60)) == [first]
    assert store.source(late).cycle == 0, "what was added later waits for the next one"


def test_many_who_open_at_once_open_one(store, place):
    for turn in range(3):
        add_feeds(store, 5, begin=1 + 5 * turn)
        given = at_once(lambda mine: mine.open_cycle("feed"), opened(place, 4))
        assert len(set(given)) == 1
        cycle = given[0]
        assert cycle.sources == 5 * (turn + 1)
        record(store, *store.claim_sources(cycle.id, "m1", 100, 60))
        assert store.close_cycle(cycle.id, end) is not None
    assert len(store.cycles("feed", 10)) == 3


def test_profiles_have_cycles_of_their_own(store):
    add_feeds(store, 2)
    add_feeds(store, 1, profile="blog")
    feed, blog = store.open_cycle("feed"), store.open_cycle("blog")
    assert (feed.sources, blog.sources) == (2, 1)
    assert feed.id != blog.id
    record(store, *store.claim_sources(blog.id, "m1", 10, 60))
    assert store.close_cycle(blog.id, end).cycle.profile == "blog"
    assert store.cycles("feed", 10) == [feed]
    assert [cycle.id for cycle in store.cycles(None, 10)] == sorted((feed.id, blog.id), reverse=True)


def test_sources_are_taken_by_number(store, another):
    numbers = add_feeds(store, 5)
    cycle = store.open_cycle("feed")
    before = store.now()
    first = store.claim_sources(cycle.id, "m1", 2, 60)
    assert ids(first) == numbers[:2]
    for source in first:
        assert source == store.source(source.id)
        assert source.epoch == 1
        assert 60 <= (source.leased_until - before).total_seconds() < 120
    assert ids(another.claim_sources(cycle.id, "m2", 2, 60)) == numbers[2:4]
    assert ids(store.claim_sources(cycle.id, "m1", 2, 60)) == numbers[4:]
    assert store.claim_sources(cycle.id, "m1", 2, 60) == []
    assert store.claim_sources(cycle.id + 1, "m1", 2, 60) == []


def test_two_who_take_at_once_share(store, place):
    numbers = add_feeds(store, 40)
    cycle = store.open_cycle("feed")

    def take(mine, owner):
        taken = []
        while batch := mine.claim_sources(cycle.id, owner, 3, 60):
            taken += ids(batch)
        return taken

    given = at_once(take, opened(place, 4), ["m1", "m2", "m3", "m4"])
    assert sorted(number for taken in given for number in taken) == numbers


def test_what_has_an_outcome_is_not_taken_again(store):
    first, second = add_feeds(store, 2)
    cycle = store.open_cycle("feed")
    record(store, *store.claim_sources(cycle.id, "m1", 1, 60))
    assert ids(store.claim_sources(cycle.id, "m1", 10, 60)) == [second]
    assert outcomes(store) == [(first, "unchanged"), (second, None)]


def test_a_lease_that_ran_out_lets_others_take(store):
    (number,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    (lost,) = store.claim_sources(cycle.id, "m1", 1, -1)
    (taken,) = store.claim_sources(cycle.id, "m2", 1, 60)
    assert (taken.id, taken.epoch) == (number, lost.epoch + 1)
    assert store.renew_sources("m1", 60) == store.release_sources("m1") == 0
    record(store, lost, outcome="changed")
    assert store.source(number).outcome is None, "it is another's by now"
    assert store.claim_sources(cycle.id, "m3", 1, 60) == []


def test_leases_are_renewed_by_owner(store):
    done, held, other = add_feeds(store, 3)
    cycle = store.open_cycle("feed")
    first = store.claim_sources(cycle.id, "m1", 2, 60)
    (theirs,) = store.claim_sources(cycle.id, "m2", 1, 60)
    record(store, first[0])
    assert store.renew_sources("m1", 3600) == 1
    assert (store.source(held).leased_until - store.now()).total_seconds() > 1800
    assert store.source(other).leased_until == theirs.leased_until
    assert store.source(done).leased_until is None
    assert store.source(held).epoch == first[1].epoch
    assert store.renew_sources("nobody", 60) == 0


def test_leases_are_given_back_by_owner(store):
    done, held, other = add_feeds(store, 3)
    cycle = store.open_cycle("feed")
    first = store.claim_sources(cycle.id, "m1", 2, 60)
    store.claim_sources(cycle.id, "m2", 1, 60)
    record(store, first[0])
    assert store.release_sources("m1") == 1
    assert store.release_sources("m1") == 0
    (again,) = store.claim_sources(cycle.id, "m3", 10, 60)
    assert (again.id, again.epoch) == (held, first[1].epoch + 1)
    assert outcomes(store) == [(done, "unchanged"), (held, None), (other, None)]


def test_a_cycle_ends_when_all_have_an_outcome(store):
    add_feeds(store, 2)
    cycle = store.open_cycle("feed")
    assert store.close_cycle(cycle.id, end) is None
    first, second = store.claim_sources(cycle.id, "m1", 2, 60)
    record(store, first)
    assert store.close_cycle(cycle.id, end) is None
    record(store, second, outcome="deferred")
    before = store.now()
    closed = store.close_cycle(cycle.id, end)
    assert closed.transitions == []
    assert before <= closed.cycle.ended_at <= store.now()
    assert closed.cycle._replace(ended_at=None) == cycle
    assert store.close_cycle(cycle.id, end) is None
    assert store.close_cycle(cycle.id + 1000, end) is None


def test_what_the_end_is_decided_by(store):
    (gone,) = add_feeds(store)
    add_feeds(store, 2, begin=2)
    seen = []

    def close(cycle, last, sources, now):
        seen.append((cycle, last, list(sources), now))
        outage = last.outage_since if last else now - timedelta(hours=1)
        return Closing(
            cycle._replace(ended_at=now, polled=3, changed=1, failed=2, deferred=4, outage_since=outage), False, []
        )

    cycle = store.open_cycle("feed")
    record(store, *store.claim_sources(cycle.id, "m1", 10, 60))
    store.remove_sources([gone])
    before = store.now()
    first = store.close_cycle(cycle.id, close)
    given, last, sources, now = seen[-1]
    assert (given, last) == (cycle, None)
    assert sources == store.sources(EVERYTHING)
    assert before <= now <= store.now()
    assert first.cycle.ended_at == now
    assert first.cycle[4:9] == (3, 3, 1, 2, 4)
    assert store.cycles("feed", 10) == [first.cycle]
    add_feeds(store, 1, profile="blog")
    run_cycle(store, "blog")
    second = run_cycle(store, close=close)
    assert seen[-1][1] == first.cycle, "the last one of the profile"
    assert second.cycle.outage_since == first.cycle.outage_since
    run_cycle(store, close=close)
    assert seen[-1][1] == second.cycle


def test_one_of_many_ends_it(store, place):
    numbers = add_feeds(store, 3)
    for _ in range(3):
        cycle = store.open_cycle("feed")
        record(store, *store.claim_sources(cycle.id, "m1", 10, 60), outcome="failed", pending=FAILURE)

        def close(cycle, last, sources, now):
            changes = [fail(SourceRules(disables=False))(source, now) for source in sources]
            return Closing(cycle._replace(ended_at=now), False, changes)

        given = at_once(lambda mine, number: mine.close_cycle(number, close), opened(place, 4), [cycle.id] * 4)
        assert sum(each is not None for each in given) == 1
    assert {store.source(number).consecutive_failures for number in numbers} == {3}


def test_a_removed_source_is_not_waited_for(store):
    (number,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    assert store.close_cycle(cycle.id, end) is None
    store.remove_sources([number])
    assert store.close_cycle(cycle.id, end) is not None


def test_failures_stand(store):
    failed, fine = add_feeds(store, 2)
    cycle = store.open_cycle("feed")
    first, second = store.claim_sources(cycle.id, "m1", 10, 60)
    record(store, first, outcome="failed", pending=FAILURE)
    record(store, second)
    assert store.source(failed).pending == FAILURE

    def close(cycle, last, sources, now):
        changes = [fail(SourceRules(threshold=1))(source, now) for source in sources if source.pending]
        return Closing(
            cycle._replace(ended_at=now, failed=1), False, changes, (NewAlert("outage:feed", "outage", "Out"),)
        )

    closed = store.close_cycle(cycle.id, close)
    assert [(each.source_id, each.after) for each in closed.transitions] == [(failed, "disabled")]
    source = store.source(failed)
    assert (source.state, source.consecutive_failures, source.pending) == (SourceState.DISABLED, 1, None)
    assert (source.outcome, source.last_failure) == ("failed", FAILURE)
    assert [line.outcome for line in store.polls(failed, 10)] == ["failed", "failed"]
    assert [line.outcome for line in store.polls(fine, 10)] == ["unchanged"]
    told = [(alert.key, alert.kind) for alert in store.alerts()]
    assert sorted(told) == [("outage:feed", "first"), (f"source:{failed}", "first")]


def test_what_a_source_has_seen_is_neither_shown_to_the_end_nor_lost_by_it(store):
    numbers = add_feeds(store, 2)
    seen = {"etag": '"1"', "last_modified": "Thu", "content_hash": "abc", "memory": '{"ids": ["ä"]}'}
    cycle = store.open_cycle("feed")
    record(store, *store.claim_sources(cycle.id, "m1", 10, 60), outcome="failed", pending=FAILURE, **seen)
    before = [store.source(number) for number in numbers]
    shown = []

    def close(cycle, last, sources, now):
        shown[:] = sources
        changed = fail(SourceRules(threshold=1))(sources[0], now)
        other = changed.source._replace(
            not_before=now + timedelta(hours=1), name="x", selector="p", outcome="changed", next_poll_at=now, epoch=99
        )
        return Closing(cycle._replace(ended_at=now), False, [changed._replace(source=other)])

    closed = store.close_cycle(cycle.id, close)
    assert shown == [source._replace(**dict.fromkeys(seen)) for source in before]
    first, second = (store.source(number) for number in numbers)
    assert second == before[1]
    assert first.state is SourceState.DISABLED
    assert first == before[0]._replace(
        health=first.health,
        last_error="403 Forbidden",
        last_failure=FAILURE,
        not_before=closed.cycle.ended_at + timedelta(hours=1),
        pending=None,
    ), "what an end may change, and nothing else"


def test_failures_are_withdrawn(store):
    """Pitfall 60."""
    numbers = add_feeds(store, 3)
    (other,) = add_feeds(store, profile="blog")
    change(store, other, pending=FAILURE)
    cycle = store.open_cycle("feed")
    first, second, third = store.claim_sources(cycle.id, "m1", 10, 60)
    record(store, first, second, outcome="failed", pending=FAILURE)
    record(store, third, outcome="changed", etag='"1"')
    before = [store.source(number) for number in numbers]

    def close(cycle, last, sources, now):
        return Closing(
            cycle._replace(ended_at=now, outage_since=now), True, [], (NewAlert("outage:feed", "outage", "Out"),)
        )

    closed = store.close_cycle(cycle.id, close)
    assert closed.transitions == []
    assert [store.source(number) for number in numbers] == [source._replace(pending=None) for source in before]
    assert store.source(other).pending == FAILURE, "it is of another cycle"
    for number in numbers[:2]:
        line = store.polls(number, 10)[0]
        assert (line.source_id, line.cycle, line.outcome) == (number, cycle.id, "withdrawn")
        assert (line.http_status, line.category, line.error) == (403, "access_denied", "403 Forbidden")
        assert (line.before, line.after) == (None, None)
        assert line.at == closed.cycle.ended_at
    assert [line.outcome for line in store.polls(numbers[2], 10)] == ["changed"]
    assert store.polls(other, 10) == []
    assert [alert.key for alert in store.alerts()] == ["outage:feed"]


def test_an_end_that_cannot_be_decided_changes_nothing(store):
    (number,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    record(store, *store.claim_sources(cycle.id, "m1", 10, 60), outcome="failed", pending=FAILURE)

    def close(cycle, last, sources, now):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.close_cycle(cycle.id, close)
    assert store.cycles("feed", 10) == [cycle]
    assert store.source(number).pending == FAILURE
    assert store.close_cycle(cycle.id, end) is not None


def test_the_next_cycle_begins_anew(store):
    first, second = add_feeds(store, 2)
    one = run_cycle(store).cycle
    change(store, second, next_poll_at=later(store))
    two = store.open_cycle("feed")
    assert (two.id > one.id, two.sources) == (True, 1)
    assert outcomes(store) == [(first, None), (second, "unchanged")]
    assert [store.source(number).cycle for number in (first, second)] == [two.id, one.id]
    (taken,) = store.claim_sources(two.id, "m2", 10, 60)
    assert (taken.id, taken.epoch) == (first, 2), "epochs go on"


def test_a_lease_does_not_outlive_its_cycle(store):
    """A change may leave the lease; the next cycle does not wait for it."""
    (number,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    (source,) = store.claim_sources(cycle.id, "m1", 1, 3600)
    change(store, number, epoch=source.epoch, outcome="unchanged")
    assert store.renew_sources("m1", 60) == store.release_sources("m1") == 0
    assert store.source(number).leased_until == source.leased_until
    store.close_cycle(cycle.id, end)
    cycle = store.open_cycle("feed")
    assert store.source(number).leased_until is None
    assert store.renew_sources("m1", 60) == 0
    assert ids(store.claim_sources(cycle.id, "m2", 1, 60)) == [number]


def test_a_lease_that_a_change_has_ended_is_over(store):
    (number,) = add_feeds(store)
    cycle = store.open_cycle("feed")
    (source,) = store.claim_sources(cycle.id, "m1", 1, 3600)
    change(store, number, epoch=source.epoch, leased_until=None)
    assert store.renew_sources("m1", 60) == store.release_sources("m1") == 0
    assert ids(store.claim_sources(cycle.id, "m2", 1, 60)) == [number]


def test_cycles_are_listed_newest_first(store):
    add_feeds(store, 1)
    numbers = [run_cycle(store).cycle.id for _ in range(5)]
    assert [cycle.id for cycle in store.cycles("feed", 3)] == numbers[:1:-1]
    assert [cycle.id for cycle in store.cycles(None, 100)] == numbers[::-1]
    assert store.cycles("nobody", 10) == []
    assert store.sources(SourceFilter(profile="feed"))[0].cycle == numbers[-1]
