"""Claiming: in which order, how much, and what is only held."""

import threading

import pytest

from conformance.acting import (
    LATER,
    add,
    bury,
    claim,
    die,
    hold,
    ids,
    live_counts,
    register,
    retry,
    settle,
    task,
    turn,
)
from outlast.errors import LeaseLostError
from outlast.ports.rows import Claim, Claimed, Kind, Settlement, Status, TaskFilter


@pytest.fixture(autouse=True)
def _workers(store):
    register(store, "w1")
    register(store, "w2")


def test_first_in_first_out(store):
    numbers = add(store) + add(store, *(task() for _ in range(5))) + add(store)
    assert ids(claim(store, limit=3)) == numbers[:3]
    assert ids(claim(store, "w2", limit=3)) == numbers[3:6]
    assert ids(claim(store, limit=3)) == numbers[6:]
    assert claim(store) == []


def test_priority_0_first(store):
    by_priority = {priority: add(store, task(priority=priority))[0] for priority in (9, 5, 0, 7, 1, 8, 2, 6, 3, 4)}
    second = {priority: add(store, task(priority=priority))[0] for priority in (9, 0, 5)}
    expected = []
    for priority in range(10):
        expected += [by_priority[priority], *([second[priority]] if priority in second else [])]
    assert ids(claim(store, limit=50)) == expected


def test_queues_in_the_given_order_within_a_priority(store):
    numbers = {
        (queue, priority): add(store, task(queue=queue, priority=priority))[0]
        for priority in (5, 0)
        for queue in ("b", "a", "c")
    }
    expected = [numbers["a", 0], numbers["b", 0], numbers["a", 5], numbers["b", 5]]
    assert ids(claim(store, queues=("a", "b"), limit=10)) == expected
    assert ids(claim(store, queues=("c", "a"), limit=1)) == [numbers["c", 0]]
    assert claim(store, queues=("nobody", "a")) == []


def test_a_queue_named_twice_gives_a_task_once(store):
    numbers = add(store, task(), task())
    assert ids(claim(store, queues=("default", "default"), limit=10)) == numbers


def test_no_more_than_the_limit(store):
    add(store, *(task() for _ in range(20)))
    assert len(claim(store, limit=7)) == 7
    assert turn(store, claim=Claim(("default",), 0, 0)).claimed == []
    assert live_counts(store) == {"RUNNING": 7, "QUEUED": 13}


def test_what_is_scheduled_is_not_claimed_early(store):
    late, now = add(store, task(delay=LATER, priority=0), task())
    assert ids(claim(store)) == [now]
    assert claim(store) == []
    assert store.get(late).status is Status.QUEUED


def test_hurry_makes_it_due(store):
    late, running, parked = add(store, task(delay=LATER), task(), task())
    first, second = claim(store)
    settle(store, second, Kind.PARK)
    assert store.run_now([late, running, parked, 4242]) == [late]
    assert first.id == running
    assert ids(claim(store)) == [late]


def test_next_due(store):
    assert store.next_due(["default"]) is None
    assert store.next_due([]) is None
    (late,) = add(store, task(delay=LATER))
    assert LATER - 30 < store.next_due(["default"]) <= LATER
    assert store.next_due(["other"]) is None
    add(store, task(queue="other", priority=9))
    assert store.next_due(["default", "other"]) == 0
    store.pause("other")
    assert LATER - 30 < store.next_due(["other", "default"]) <= LATER
    store.run_now([late])
    assert store.next_due(["default"]) == 0
    claim(store)
    assert store.next_due(["default"]) is None


def test_the_oldest_ready_task(store):
    assert store.oldest_ready(["default"]) is None
    add(store, task(delay=LATER))
    assert store.oldest_ready(["default"]) is None
    add(store, task(run_at=1_000_000.0, priority=9), task(queue="other"))
    assert store.oldest_ready(["default"]) > 86400 * 365
    assert 0 <= store.oldest_ready(["other"]) < 60
    store.pause("other")
    assert store.oldest_ready(["other"]) is None
    claim(store)
    assert store.oldest_ready(["default"]) is None


def test_a_started_task(store):
    (number,) = add(store, task("t", '{"a":1}', resource="r", queue="q"))
    (claimed,) = claim(store, queues=("q",))
    expected = Claimed(
        number,
        claimed.epoch,
        "t",
        '{"a":1}',
        attempt=1,
        retry_count=0,
        resource="r",
        expires_in=None,
        deferred_for=0,
        started=True,
        suspect=False,
    )
    assert claimed == expected
    found = store.get(number)
    assert (found.status, found.worker_id, found.attempt) == (Status.RUNNING, "w1", 1)
    assert found.lease_epoch == claimed.epoch > 0
    assert found.started_at is not None
    assert found.updated_at >= found.created_at


def test_so_many_are_started_and_the_others_held(store):
    numbers = add(store, *(task() for _ in range(5)))
    claimed = claim(store, limit=5, start=2)
    assert ids(claimed) == numbers
    assert [each.started for each in claimed] == [True, True, False, False, False]
    assert [each.attempt for each in claimed] == [1] * 5, "for one that is held, the number it will have"
    found = [store.get(number) for number in numbers]
    assert [each.attempt for each in found] == [1, 1, 0, 0, 0]
    assert [each.started_at is None for each in found] == [False, False, True, True, True]
    assert {each.status for each in found} == {Status.RUNNING}


def test_a_start_is_marked_later(store):
    add(store, task(), task())
    first, second = hold(store)
    turned = turn(store, start=[(first.id, first.epoch)])
    assert turned.refused == []
    assert (store.get(first.id).attempt, store.get(second.id).attempt) == (1, 0)
    assert store.get(first.id).started_at is not None
    assert store.get(second.id).started_at is None
    assert store.get(first.id).lease_epoch == first.epoch


def test_a_start_is_marked_once(store):
    """An answer that got lost is asked for again."""
    add(store)
    (held,) = hold(store)
    pair = (held.id, held.epoch)
    assert turn(store, start=[pair]).refused == []
    assert turn(store, start=[pair]).refused == []
    assert turn(store, start=[pair, pair]).refused == []
    assert store.get(held.id).attempt == 1


def test_a_start_with_a_stale_epoch_is_refused(store):
    add(store, task(), task())
    mine, lost = hold(store)
    turned = turn(store, start=[(mine.id, mine.epoch), (lost.id, lost.epoch - 1), (4242, 1)])
    assert sorted(turned.refused) == sorted([lost.id, 4242])
    assert (store.get(mine.id).attempt, store.get(lost.id).attempt) == (1, 0)


def test_attempts_count_starts(store):
    (number,) = add(store)
    for attempt in (1, 2, 3):
        (claimed,) = claim(store)
        assert (claimed.attempt, claimed.retry_count) == (attempt, attempt - 1)
        retry(store, claimed)
    assert (store.get(number).attempt, store.get(number).retry_count) == (3, 3)


def test_every_claim_has_a_higher_epoch(store):
    add(store)
    epochs = []
    for worker_id, kind in (("w1", Kind.RETRY), ("w2", Kind.RELEASE), ("w1", Kind.DEFER), ("w2", Kind.RELEASE)):
        (claimed,) = claim(store, worker_id)
        epochs.append(claimed.epoch)
        settle(store, claimed, kind, worker_id)
    (last,) = claim(store)
    assert [*epochs, last.epoch] == sorted({*epochs, last.epoch})


def test_how_long_it_is_worth_starting(store):
    add(store, task(expires=100), task(expires=-5), task())
    soon, over, never = claim(store)
    assert 60 < soon.expires_in <= 100
    assert -60 < over.expires_in <= -5
    assert never.expires_in is None


def test_a_turn_settles_starts_and_claims(store):
    numbers = add(store, *(task() for _ in range(6)))
    done, failed, kept, held = claim(store, limit=4, start=3)
    turned = turn(
        store,
        done=[(done.id, done.epoch)],
        settlements=[Settlement(failed.id, failed.epoch, Kind.RELEASE)],
        start=[(held.id, held.epoch)],
        claim=Claim(("default",), 2, 1),
    )
    assert turned.refused == []
    assert ids(turned.claimed) == [failed.id, numbers[4]], "what is given back can be claimed in the same turn"
    assert [each.started for each in turned.claimed] == [True, False]
    assert live_counts(store) == {"DONE": 1, "RUNNING": 4, "QUEUED": 1}
    assert store.get(kept.id).attempt == store.get(held.id).attempt == 1


def test_an_empty_turn(store):
    assert turn(store) == ([], [])


def test_an_unknown_worker_does_nothing(store):
    add(store, task(), task(), task())
    done, retried, held = claim(store, start=2)
    with pytest.raises(LeaseLostError) as caught:
        turn(
            store,
            "nobody",
            done=[(done.id, done.epoch)],
            settlements=[Settlement(retried.id, retried.epoch, Kind.RELEASE)],
            start=[(held.id, held.epoch)],
            claim=Claim(("default",), 1, 1),
        )
    assert caught.value.worker_id == "nobody"
    assert live_counts(store) == {"RUNNING": 3}
    assert store.get(held.id).attempt == 0


def test_nothing_finished_is_claimed(store):
    (cancelled, _) = add(store, task(), task())
    store.cancel([cancelled])
    (claimed,) = claim(store)
    settle(store, claimed, Kind.DONE)
    bury(store)
    assert claim(store) == []


def test_suspects_are_claimed_only_when_asked_for(store):
    first, second, third = add(store, task(), task(queue="other"), task(delay=LATER))
    claim(store, queues=("default", "other"))
    assert not store.suspects_due(["default", "other"])
    die(store)
    store.rescue(3)
    register(store, "w3")
    (fresh,) = add(store)
    assert store.suspects_due(["default"])
    assert store.suspects_due(["nobody", "other"])
    assert not store.suspects_due(["nobody"])
    assert store.next_due(["other"]) == 0
    assert ids(claim(store, "w3")) == [fresh]
    (suspect,) = claim(store, "w3", 1, suspect=True)
    assert (suspect.id, suspect.suspect, suspect.started, suspect.attempt) == (first, True, True, 2)
    assert claim(store, "w3", 1, suspect=True) == []
    assert not store.suspects_due(["default"])
    assert ids(claim(store, "w3", 1, suspect=True, queues=("default", "other"))) == [second]
    assert store.get(third).attempt == 0


def test_a_suspect_waits_for_its_time_and_its_queue(store):
    (number,) = add(store)
    claim(store)
    die(store)
    store.rescue(3)
    store.pause("default")
    assert not store.suspects_due(["default"])
    assert claim(store, "w2", 1, suspect=True) == []
    store.resume("default")
    (suspect,) = claim(store, "w2", 1, suspect=True)
    settle(store, suspect, Kind.RELEASE, "w2")
    assert store.get(number).suspect, "it did not run, so nothing is known of it"
    (suspect,) = claim(store, "w2", 1, suspect=True)
    retry(store, suspect, "w2", delay=LATER)
    assert not store.get(number).suspect, "it ran and came back"
    store.run_now([number])
    assert ids(claim(store, "w2")) == [number]


def test_find_shows_the_newest_first(store):
    first, second, third = add(store, task("a"), task("b", queue="q"), task("a", queue="q"))
    claim(store, queues=("default",))
    assert ids(store.find(TaskFilter())) == [third, second, first]
    assert ids(store.find(TaskFilter(limit=2))) == [third, second]
    assert ids(store.find(TaskFilter(before=second))) == [first]
    assert ids(store.find(TaskFilter(queue="q"))) == [third, second]
    assert ids(store.find(TaskFilter(task_type="a"))) == [third, first]
    assert ids(store.find(TaskFilter(task_type="a", queue="q"))) == [third]
    assert ids(store.find(TaskFilter(status=Status.RUNNING))) == [first]
    assert ids(store.find(TaskFilter(status=Status.DONE))) == []
    assert store.find(TaskFilter(limit=1))[0] == store.get(third)


def test_eight_threads_do_every_task_once(store, place):
    """2,000 tasks; nothing is lost, nothing is in two hands."""
    threads, each = 8, 250
    stores = [store, place.open()]
    seen: list[list[int]] = [[] for _ in range(threads)]
    errors: list[BaseException] = []

    def work(number):
        mine, worker_id = stores[number % 2], f"thread {number}"
        try:
            register(mine, worker_id, lease=600)
            for _ in range(each // 50):
                add(mine, *(task(unique_key=None, resource="r" if n % 5 == 0 else None) for n in range(50)))
            done: list[tuple[int, int]] = []
            while True:
                turned = turn(mine, worker_id, done=done, claim=Claim(("default",), 10, 10))
                assert turned.refused == []
                done = [(claimed.id, claimed.epoch) for claimed in turned.claimed]
                seen[number] += ids(turned.claimed)
                if not done and mine.counts()["DONE"] == threads * each:
                    return
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert errors == []
    everything = [number for part in seen for number in part]
    assert len(everything) == len(set(everything)) == threads * each
    assert live_counts(store) == {"DONE": threads * each}
    assert {found.attempt for found in store.find(TaskFilter(limit=5000))} == {1}
