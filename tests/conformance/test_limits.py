"""Limits of resources, kept by the store across all who ask."""

import threading
import time

import pytest

from conformance.acting import LATER, NAMES, NOTE, add, claim, die, fail, hold, ids, register, retry, settle, task
from outlast.decide.limits import Candidate, ResourceLimit
from outlast.ports.rows import Kind, Status
from outlast.ports.store import LimitRequest

SLOW = 0.001  # per second: nothing more within a test


def started(store, count, resource="api", worker_id="w1"):
    """Enqueue and claim tasks of a resource."""
    numbers = add(store, *(task(resource=resource) for _ in range(count)))
    found = claim(store, worker_id, count)
    assert sorted(ids(found)) == sorted(numbers)
    return found


def ask(store, limit, claimed, mean=None):
    """Return the waits of those that may not start."""
    candidates = tuple(Candidate(each.id, each.epoch, each.retry_count > 0) for each in claimed)
    return store.admit([LimitRequest(limit, candidates, mean)])


def refused(store, limit, claimed):
    return [each.id for each in claimed if each.id in ask(store, limit, [each])]


class TestRate:
    def test_a_burst_starts_and_the_others_get_places(self, store):
        register(store)
        claimed = started(store, 6)
        waits = ask(store, ResourceLimit("api", SLOW, 3), claimed)
        assert list(waits) == ids(claimed)[3:]
        assert [round(wait) for wait in waits.values()] == [1000, 2050, 3100], "however far that is"

    def test_places_are_given_once(self, store, another):
        register(store)
        claimed = started(store, 7)
        limit = ResourceLimit("api", 0.5)
        waits = [*ask(store, limit, claimed[:4]).values(), *ask(another, limit, claimed[4:]).values()]
        assert len(waits) == 6
        assert [round((wait - waits[0]) / 2.1) for wait in waits] == [0, 1, 2, 3, 4, 5]

    def test_time_brings_room_again(self, store):
        register(store)
        claimed = started(store, 3)
        limit = ResourceLimit("api", 20.0)
        (wait,) = ask(store, limit, claimed[:2]).values()
        assert 0 < wait <= 0.06
        time.sleep(wait + 0.01)
        assert ask(store, limit, claimed[1:2]) == {}

    def test_resources_have_nothing_to_do_with_each_other(self, store):
        register(store)
        one, other = started(store, 2, "a"), started(store, 2, "b")
        asks = [
            LimitRequest(ResourceLimit(name, SLOW), tuple(Candidate(each.id, each.epoch) for each in claimed))
            for name, claimed in (("b", other), ("a", one))
        ]
        assert set(store.admit(asks)) == {one[1].id, other[1].id}

    @pytest.mark.parametrize("name", NAMES)
    def test_whatever_it_is_called(self, store, name):
        register(store)
        claimed = started(store, 2, name)
        assert len(ask(store, ResourceLimit(name, SLOW, concurrency=5), claimed)) == 1
        assert store.reserve_retries(ResourceLimit(name, retries=1.0), 1) == [0.0]
        assert [row.resource for row in store.limits()] == [name]

    def test_nothing_is_asked_for(self, store):
        assert store.admit([]) == {}
        assert store.limits() == []


ENDS = {
    "done": lambda store, each: settle(store, each, Kind.DONE),
    "retry": retry,
    "defer": lambda store, each: settle(store, each, Kind.DEFER, delay=LATER),
    "fail": fail,
    "release": lambda store, each: settle(store, each, Kind.RELEASE),
    "park": lambda store, each: settle(store, each, Kind.PARK),
    "reconcile": lambda store, _: store.reconcile("w1", []),
    "leave": lambda store, _: store.leave("w1"),
    "rescue": lambda store, _: (die(store), store.rescue(3)),
}


class TestConcurrency:
    LIMIT = ResourceLimit("api", concurrency=2)

    def test_so_many_run_and_no_more(self, store, another):
        register(store)
        claimed = started(store, 5)
        waits = ask(store, self.LIMIT, claimed[:3], mean=1.0)
        assert list(waits) == [claimed[2].id]
        assert 0.5 < waits[claimed[2].id] < 0.6, "a slot is free twice a second"
        assert set(ask(another, self.LIMIT, claimed[3:])) == {claimed[3].id, claimed[4].id}

    @pytest.mark.parametrize("end", ENDS)
    def test_what_has_ended_holds_no_slot(self, store, end):
        register(store)
        first, second, third = started(store, 3)
        assert ask(store, self.LIMIT, [first, second]) == {}
        assert refused(store, self.LIMIT, [third]) == [third.id]
        ENDS[end](store, first)
        assert refused(store, self.LIMIT, [third]) == []

    def test_a_task_that_was_taken_over_has_another_slot(self, store):
        register(store)
        (first,) = started(store, 1)
        assert ask(store, self.LIMIT, [first]) == {}
        settle(store, first, Kind.RELEASE)
        (again,) = claim(store)
        assert again.epoch == first.epoch + 1
        others = started(store, 2)
        assert ask(store, self.LIMIT, [again]) == {}
        assert refused(store, self.LIMIT, others) == [others[1].id], "the old one is not counted"

    def test_an_answer_that_got_lost_takes_no_second_slot(self, store):
        register(store)
        first, second = started(store, 2)
        for _ in range(3):
            assert ask(store, self.LIMIT, [first]) == {}
        assert ask(store, self.LIMIT, [second]) == {}

    def test_slots_are_cleared_away(self, database, store):
        register(store)
        for _ in range(5):
            for each in started(store, 2):
                assert ask(store, self.LIMIT, [each]) == {}
                settle(store, each, Kind.DONE)
        connection = database.connect()
        (count,) = connection.execute("SELECT count(*) FROM resource_slots").fetchone()
        connection.close()
        assert count <= 1


class TestRefused:
    def test_it_comes_back_later_with_nothing_spent(self, store):
        register(store)
        (claimed,) = started(store, 1)
        before = store.now()
        assert settle(store, claimed, Kind.RELEASE, delay=30.0) == []
        found = store.get(claimed.id)
        assert (found.status, found.attempt, found.retry_count, found.deferrals) == (Status.QUEUED, 0, 0, 0)
        assert 29 < (found.next_run_after - before).total_seconds() < 60
        assert store.attempts(claimed.id) == []
        assert claim(store) == []
        assert 0 < store.next_due(("default",)) <= 30
        assert store.counter_check()[1] == store.counts()

    def test_without_a_delay_its_time_stays_as_it_was(self, store):
        register(store)
        (number,) = add(store, task(delay=-100.0))
        due = store.get(number).next_run_after
        (claimed,) = hold(store)
        settle(store, claimed, Kind.RELEASE)
        assert store.get(number).next_run_after == due


class TestRetries:
    def test_places_go_on_from_call_to_call(self, store, another):
        limit = ResourceLimit("api", retries=1.0, retry_burst=2)
        waits = store.reserve_retries(limit, 4) + another.reserve_retries(limit, 2)
        assert waits[:2] == [0.0, 0.0]
        assert [round(wait / 1.05) for wait in waits] == [0, 0, 1, 2, 3, 4]
        assert store.reserve_retries(limit, 0) == []

    def test_who_has_no_budget_leaves_those_places_alone(self, store):
        """Two apps may name one resource, and only one of them a budget."""
        register(store)
        limit = ResourceLimit("api", retries=1.0)
        store.reserve_retries(limit, 100)
        other, claimed = ResourceLimit("api", 50.0, 50, 5), started(store, 2)
        assert ask(store, other, claimed) == {}
        assert [row.retries for row in store.limits()] == [None], "what is shown is what was asked with last"
        assert store.reserve_retries(limit, 1)[0] > 50
        assert ask(store, other, claimed) == {}
        assert store.reserve_retries(ResourceLimit("api", retries=2.0), 1) == [0.0], "a larger one begins anew"

    def test_one_that_is_refused_does_not_go_behind_those_who_fail_now(self, store):
        register(store)
        limit = ResourceLimit("api", retries=0.1)
        for each in started(store, 3):
            retry(store, each, note=NOTE)
        store.reserve_retries(limit, 1000)
        claimed = claim(store)
        waits = [ask(store, limit, [each]) for each in claimed]
        assert [round(wait / 10.5) for each in waits for wait in each.values()] == [1, 2]
        (row,) = store.limits()
        assert row.retries_until > row.asked_at

    def test_starts_keep_to_the_budget_whatever_their_time_was(self, store):
        """A cooldown that ends, and somebody who hurries tasks, bring them all at once."""
        register(store)
        limit = ResourceLimit("api", retries=SLOW, retry_burst=2)
        for each in started(store, 4):
            retry(store, each, note=NOTE)
        claimed = claim(store)
        assert [each.retry_count for each in claimed] == [1] * 4
        assert refused(store, limit, claimed) == ids(claimed)[2:]
        assert refused(store, limit, started(store, 3)) == [], "what has not failed is no retry"


class TestLooking:
    def test_a_limit_as_people_see_it(self, store):
        register(store)
        before = store.now()
        claimed = started(store, 3)
        ask(store, ResourceLimit("b", 0.01, 1, 5, 0.01, 1), claimed, mean=2.5)
        store.reserve_retries(ResourceLimit("a", retries=0.5), 3)
        first, second = store.limits()
        assert (first.resource, first.running, first.rate, first.retries) == ("a", None, None, 0.5)
        assert 1 < (first.retries_until - before).total_seconds() < 30
        assert (first.next_start, first.waiting_until) == (None, None)
        assert second[:7] == ("b", 0.01, 1, 5, 0.01, 1, 1)
        assert 90 < (second.next_start - before).total_seconds() < 130
        assert (second.waiting_until - second.next_start).total_seconds() > 50
        assert second.retries_until is None
        assert second.mean == 2.5
        assert abs((second.asked_at - before).total_seconds()) < 60
        settle(store, claimed[0], Kind.DONE)
        assert store.limits()[1].running == 0


def hammer(stores, limit, seconds, worker_id):
    """Have threads ask for room again and again, each with a store of its own; return the greatest number that ran."""
    lock, admitted, running, most = threading.Lock(), [], [0], [0]
    end = time.monotonic() + seconds

    def work(store):
        while time.monotonic() < end:
            claimed = claim(store, worker_id, 3)
            waits = ask(store, limit, claimed, mean=0.01)
            through = [each for each in claimed if each.id not in waits]
            with lock:
                admitted.extend(through)
                running[0] += len(through)
                most[0] = max(most[0], running[0])
            time.sleep(0.002)
            with lock:
                running[0] -= len(through)
            for each in claimed:
                assert settle(store, each, Kind.RELEASE, worker_id) == []

    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return len(admitted), most[0]


def test_all_who_ask_at_once_keep_to_it_together(place):
    stores = [place.open() for _ in range(3)]
    store = stores[0]
    register(store)
    add(store, *(task(resource="api") for _ in range(40)))
    limit = ResourceLimit("api", 60.0, 4, 3)
    began = store.now()
    admitted, most = hammer(stores, limit, 0.5, "w1")
    seconds = (store.now() - began).total_seconds()
    assert 1 <= admitted <= 4 + 60.0 * seconds
    assert 1 <= most <= 3
    assert store.counts()["QUEUED"] == 40
