"""What holds tasks back: cooldowns of resources, and paused queues."""

import time

import pytest

from conformance.acting import (
    LATER,
    NAMES,
    NOTE,
    add,
    bury,
    claim,
    die,
    ids,
    live_counts,
    register,
    retry,
    settle,
    task,
)
from outlast.ports.rows import Kind, QueueRow


@pytest.fixture(autouse=True)
def _worker(store):
    register(store)


def until(store):
    return {each.resource: each.until.timestamp() for each in store.cooldowns()}


def test_what_cools_is_not_claimed(store):
    cold, warm, free = add(store, task(resource="a"), task(resource="b"), task())
    store.start_cooldown("a", LATER, "429 from a")
    assert ids(claim(store)) == [warm, free]
    found = store.get(cold)
    assert (found.attempt, found.deferrals, found.status) == (0, 0, "QUEUED"), "no attempt is spent"
    (cooldown,) = store.cooldowns()
    assert (cooldown.resource, cooldown.reason) == ("a", "429 from a")
    assert LATER - 30 < cooldown.until.timestamp() - time.time() <= LATER + 30
    assert found.next_run_after == cooldown.until
    assert LATER - 30 < store.next_due(["default"]) <= LATER


def test_new_tasks_wait_too(store):
    store.start_cooldown("a", LATER, "busy")
    (one,) = add(store, task(resource="a"))
    many = add(store, task(resource="a"), task(resource="b"), task(), task(resource="a", unique_key="k"))
    assert ids(claim(store)) == many[1:3]
    assert store.get(one).next_run_after == store.cooldowns()[0].until
    assert LATER - 30 < store.next_due(["default"]) <= LATER


def test_what_comes_back_while_it_cools_waits(store):
    """By a retry, a release, a deferral, a rescue, a replay, from parking, and by hurrying."""
    add(store, *(task(resource="a") for _ in range(5)))
    retried, released, deferred, parked, held = claim(store, start=4)
    letter = bury(store, task(resource="a"))
    register(store, "w2")
    add(store, task(resource="a"))
    claim(store, "w2")
    store.start_cooldown("a", LATER, "busy")
    retry(store, retried)
    settle(store, released, Kind.RELEASE)
    settle(store, deferred, Kind.DEFER, note=NOTE)
    settle(store, parked, Kind.PARK)
    store.unpark(["scrape"])
    settle(store, held, Kind.RELEASE)
    store.replay(letter.id)
    die(store, "w2")
    store.rescue(3)
    assert claim(store) == []
    assert claim(store, suspect=True, limit=1) == []
    assert not store.suspects_due(["default"])
    store.run_now([retried.id])
    assert claim(store) == []
    assert live_counts(store) == {"QUEUED": 7}
    store.end_cooldown("a")
    assert len(claim(store)) == 6
    assert len(claim(store, suspect=True, limit=1)) == 1


def test_what_runs_goes_on(store):
    add(store, task(resource="a"))
    (claimed,) = claim(store)
    store.start_cooldown("a", LATER, "busy")
    assert settle(store, claimed, Kind.DONE) == []
    assert live_counts(store) == {"DONE": 1}


def test_a_longer_cooldown_stays(store):
    store.start_cooldown("a", LATER, "long")
    before = until(store)
    store.start_cooldown("a", 1, "short")
    assert until(store) == before
    assert store.cooldowns()[0].reason == "long"
    store.start_cooldown("a", 2 * LATER, "longer")
    assert until(store)["a"] > before["a"] + LATER - 30
    assert store.cooldowns()[0].reason == "longer"


def test_a_longer_one_holds_tasks_longer(store):
    (number,) = add(store, task(resource="a"))
    store.start_cooldown("a", LATER, "long")
    store.start_cooldown("a", 2 * LATER, "longer")
    store.run_now([number])
    assert claim(store) == []
    assert store.get(number).next_run_after == store.cooldowns()[0].until


def test_warming_brings_them_back(store):
    cold, other, late = add(store, task(resource="a"), task(resource="b"), task(resource="a", delay=2 * LATER))
    store.start_cooldown("a", LATER, "busy")
    store.start_cooldown("b", LATER, "busy")
    (new,) = add(store, task(resource="a"))
    store.end_cooldown("a")
    assert list(until(store)) == ["b"]
    assert ids(claim(store)) == [cold, new]
    assert store.get(other).next_run_after == store.cooldowns()[0].until
    assert store.get(late).next_run_after.timestamp() > time.time() + LATER, "its own time is later"
    store.end_cooldown("a")
    store.end_cooldown("nobody")


def test_warming_brings_back_those_that_met_the_answer(store):
    """The answer is written before what becomes of the task: it waits until a moment behind the end."""
    add(store, *(task(resource="a") for _ in range(3)))
    met, longer, failed = claim(store)
    store.start_cooldown("a", LATER, "429 from a")
    settle(store, met, Kind.DEFER, delay=LATER + 5, note=NOTE)
    settle(store, longer, Kind.DEFER, delay=3 * LATER, note=NOTE)
    retry(store, failed, delay=LATER / 2)
    assert store.get(met.id).next_run_after > store.cooldowns()[0].until
    store.end_cooldown("a")
    assert ids(claim(store)) == [met.id], "the others have a reason of their own"
    assert store.get(met.id).deferrals == 1


def test_a_task_with_a_time_of_its_own_is_never_early(store):
    (before,) = add(store, task(resource="a", delay=60))
    store.start_cooldown("a", LATER, "busy")
    (during,) = add(store, task(resource="a", delay=60))
    store.end_cooldown("a")
    assert claim(store) == []
    for number in (before, during):
        assert 50 < store.get(number).next_run_after.timestamp() - time.time() <= 61


def test_hurrying_what_is_due_keeps_its_place(store):
    numbers = add(store, task(), task())
    time.sleep(0.01)
    store.run_now(numbers[:1])
    assert ids(claim(store)) == numbers


def test_a_cooldown_ends_by_itself(store):
    (number,) = add(store, task(resource="a"))
    store.start_cooldown("a", 1.0, "busy")
    assert claim(store) == []
    limit = time.monotonic() + 10
    while store.cooldowns() and time.monotonic() < limit:
        time.sleep(0.01)
    assert store.cooldowns() == []
    assert ids(claim(store)) == [number]
    assert ids(claim(store)) == []
    (later,) = add(store, task(resource="a"))
    assert ids(claim(store)) == [later]


def test_a_cooldown_of_no_length_holds_nothing(store):
    (number,) = add(store, task(resource="a"))
    store.start_cooldown("a", 0, "none")
    assert store.cooldowns() == []
    assert ids(claim(store)) == [number]


def test_more_cool_than_fit_in_a_batch(store):
    add(store, *(task(resource="a") for _ in range(2300)), task())
    store.start_cooldown("a", LATER, "busy")
    assert len(claim(store, limit=5000)) == 1
    store.end_cooldown("a")
    assert len(claim(store, limit=5000)) == 2300


def test_resources_by_any_name(store):
    """Pitfall 69."""
    for name in NAMES:
        (number,) = add(store, task(resource=name))
        store.start_cooldown(name, LATER, name)
        assert claim(store) == []
        assert {each.reason for each in store.cooldowns()} == {name}
        store.end_cooldown(name)
        assert ids(claim(store)) == [number]
    assert store.cooldowns() == []


def test_a_paused_queue(store):
    paused, other = add(store, task(queue="a", priority=0), task(queue="b"))
    store.pause("a")
    store.pause("a")
    assert ids(claim(store, queues=("a", "b"))) == [other]
    assert claim(store, queues=("a",)) == []
    assert store.next_due(["a"]) is None
    assert store.get(paused).status == "QUEUED"
    (new,) = add(store, task(queue="a"))
    store.resume("a")
    assert store.next_due(["a"]) == 0
    assert ids(claim(store, queues=("a",))) == [paused, new]
    store.resume("a")
    store.resume("nobody")


def test_what_is_in_the_queues(store):
    assert store.queues() == []
    add(store, *(task(queue="a") for _ in range(6)), task(queue="a", delay=LATER), task(queue="b"))
    done, parked, _, failed = claim(store, queues=("a",), limit=4)
    settle(store, done, Kind.DONE)
    settle(store, parked, Kind.PARK)
    retry(store, failed, delay=LATER)
    store.pause("empty")
    store.pause("b")
    assert store.queues() == [
        QueueRow("a", paused=False, ready=2, scheduled=2, running=1, parked=1),
        QueueRow("b", paused=True, ready=1, scheduled=0, running=0, parked=0),
        QueueRow("empty", paused=True, ready=0, scheduled=0, running=0, parked=0),
    ]


def test_queues_by_any_name(store):
    """Pitfall 69."""
    add(store, *(task(queue=name) for name in NAMES))
    for name in NAMES:
        store.pause(name)
    assert claim(store, queues=NAMES) == []
    assert {row.name for row in store.queues() if row.paused} == set(NAMES)
    for name in NAMES:
        store.resume(name)
        assert len(claim(store, queues=(name,))) == 1
