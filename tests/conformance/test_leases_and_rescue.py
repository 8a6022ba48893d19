"""Workers, their leases, and what becomes of the tasks of a dead one."""

import threading
import time

import pytest

from conformance.acting import (
    NAMES,
    add,
    claim,
    die,
    fail,
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
from outlast.ports.rows import Claim, DeadLetterFilter, Kind, Reason, Rescued, Status, TaskFilter

ALL = DeadLetterFilter()


def crash(store, worker_id, *, suspect=True):
    """Let a new worker die over one task; return what became of it."""
    register(store, worker_id)
    (claimed,) = claim(store, worker_id, 1, suspect=suspect)
    die(store, worker_id)
    (rescued,) = store.rescue(3)
    assert (rescued.task_id, rescued.worker_id) == (claimed.id, worker_id)
    return rescued.outcome


def test_a_worker_is_known(store):
    register(store, "w1", name="it's 🦊", host="h", pid=7, queues=("a", 'b"'), concurrency=3, state="starting")
    add(store, task(), task(), task())
    claim(store, limit=2, start=1)
    (worker,) = store.workers()
    assert (worker.id, worker.name, worker.host, worker.pid) == ("w1", "it's 🦊", "h", 7)
    assert (worker.queues, worker.concurrency, worker.state) == (("a", 'b"'), 3, "starting")
    assert (worker.tasks, worker.alive) == (2, True)
    assert abs(worker.started_at.timestamp() - time.time()) < 30, "by the store's clock"
    assert worker.heartbeat_at >= worker.started_at


def test_workers_in_the_order_of_their_start(store):
    for name in ("w2", "w1", "w3"):
        register(store, name)
        time.sleep(0.003)
    assert ids(store.workers()) == ["w2", "w1", "w3"]


def test_a_heartbeat_renews_the_lease(store):
    register(store, lease=-1)
    assert [worker.alive for worker in store.workers()] == [False]
    store.heartbeat("w1", 60, "stopping")
    (worker,) = store.workers()
    assert (worker.alive, worker.state) == (True, "stopping")
    assert store.rescue(3) == []
    assert ids(store.workers()) == ["w1"]


def test_a_heartbeat_of_the_struck_off(store):
    register(store)
    die(store)
    store.rescue(3)
    assert store.workers() == []
    with pytest.raises(LeaseLostError, match="w1"):
        store.heartbeat("w1", 60, "running")
    with pytest.raises(LeaseLostError, match="nobody"):
        store.heartbeat("nobody", 60, "running")
    assert store.workers() == []


def test_leaving_gives_back_what_is_held_at_no_cost(store):
    """Pitfall 41: a deploy does not spend an attempt."""
    (first, second, third, other) = add(store, *(task() for _ in range(4)))
    register(store, "w1")
    register(store, "w2")
    retry(store, claim(store, limit=1)[0])
    claim(store, limit=3, start=1)
    assert ids(claim(store, "w2")) == [first], "it had come back behind the others"
    assert store.leave("w1") == 3
    assert ids(store.workers()) == ["w2"]
    found = [store.get(number) for number in (second, third, other)]
    assert [(each.status, each.attempt, each.suspect) for each in found] == [(Status.QUEUED, 0, False)] * 3
    assert store.get(first).status is Status.RUNNING
    assert [store.attempts(number) for number in (second, third, other)] == [[]] * 3
    assert ids(claim(store, "w2")) == [second, third, other]
    assert store.leave("w1") == store.leave("nobody") == 0


def test_three_deploys_in_a_row(store):
    (number,) = add(store)
    for name in ("v1", "v2", "v3"):
        register(store, name)
        assert claim(store, name)[0].attempt == 1
        store.leave(name)
    assert (store.get(number).attempt, store.get(number).crash_count) == (0, 0)


def test_a_worker_that_left_settles_nothing(store):
    (number,) = add(store)
    register(store)
    (claimed,) = claim(store)
    store.leave("w1")
    with pytest.raises(LeaseLostError):
        settle(store, claimed, Kind.DONE)
    register(store, "w2")
    assert settle(store, claimed, Kind.DONE, "w2") == [number]
    assert store.get(number).status is Status.QUEUED


def test_reconcile_gives_back_what_never_arrived(store):
    numbers = add(store, *(task() for _ in range(4)))
    register(store, "w1")
    register(store, "w2")
    mine = claim(store, limit=3, start=2)
    claim(store, "w2")
    assert store.reconcile("w1", numbers) == 0
    assert store.reconcile("w1", [numbers[0]]) == 2
    found = [store.get(number) for number in numbers]
    assert [each.status for each in found] == ["RUNNING", "QUEUED", "QUEUED", "RUNNING"]
    assert [each.attempt for each in found] == [1, 0, 0, 1]
    assert settle(store, mine[1], Kind.DONE) == [numbers[1]], "what was given back is given back"
    assert settle(store, mine[0], Kind.DONE) == []
    assert ids(claim(store)) == numbers[1:3]
    assert store.reconcile("w1", []) == 2
    assert store.reconcile("nobody", []) == 0
    assert store.get(numbers[3]).worker_id == "w2"


def test_reconcile_keeps_a_suspect_a_suspect(store):
    (number,) = add(store)
    crash(store, "w1", suspect=False)
    register(store, "w2")
    claim(store, "w2", 1, suspect=True)
    assert store.reconcile("w2", []) == 1
    assert (store.get(number).suspect, store.get(number).attempt) == (True, 1)


def test_nobody_is_rescued_from_the_living(store):
    """Pitfall 70: however long it runs."""
    numbers = add(store, *(task() for _ in range(3)))
    register(store)
    claimed = claim(store, start=2)
    for _ in range(3):
        store.heartbeat("w1", 60, "running")
        assert store.rescue(3) == []
    assert turn(store, done=[(each.id, each.epoch) for each in claimed]).refused == []
    assert [store.get(number).attempt for number in numbers] == [1, 1, 0]


def test_what_had_not_begun_comes_back_as_it_was(store):
    (number,) = add(store)
    register(store)
    retry(store, claim(store)[0])
    before = store.get(number)
    (held,) = hold(store)
    die(store)
    assert store.rescue(3) == [Rescued(number, "w1", "unspent")]
    found = store.get(number)
    assert (found.status, found.attempt, found.retry_count) == (Status.QUEUED, 1, 1)
    assert (found.suspect, found.crash_count, found.last_error) == (False, 0, before.last_error)
    assert found.next_run_after == before.next_run_after
    assert len(store.attempts(number)) == 1
    register(store, "w2")
    assert settle(store, held, Kind.DONE, "w2") == [number]
    assert ids(claim(store, "w2")) == [number]


def test_what_had_begun_is_a_suspect_with_the_loss_in_its_history(store):
    """Pitfalls 37 and 40."""
    (number,) = add(store)
    register(store)
    (claimed,) = claim(store)
    die(store)
    assert store.rescue(3) == [Rescued(number, "w1", "suspect")]
    found = store.get(number)
    assert (found.status, found.suspect, found.attempt) == (Status.QUEUED, True, 1)
    assert (found.crash_count, found.retry_count) == (0, 0), "it did not run alone, and it did not fail"
    assert "worker lost" in found.last_error
    assert found.lease_epoch > claimed.epoch
    (attempt,) = store.attempts(number)
    assert (attempt.outcome, attempt.attempt, attempt.worker_id, attempt.delay) == ("lost", 1, "w1", None)
    assert "worker lost" in attempt.error_message
    assert attempt.started_at == found.started_at
    assert attempt.failure
    assert store.workers() == []
    with pytest.raises(LeaseLostError):
        settle(store, claimed, Kind.DONE)


def test_a_start_that_was_marked_later_had_begun(store):
    (first, second) = add(store, task(), task())
    register(store)
    held = hold(store)
    turn(store, start=[(held[0].id, held[0].epoch)])
    die(store)
    assert sorted(store.rescue(3)) == [Rescued(first, "w1", "suspect"), Rescued(second, "w1", "unspent")]


def test_a_task_that_kills_its_worker_every_time(store):
    """Pitfall 40: bystander at first, then alone three times."""
    (number,) = add(store, task("killer", '{"a":1}'))
    assert [crash(store, f"w{n}", suspect=n > 0) for n in range(4)] == ["suspect", "suspect", "suspect", "dead"]
    found = store.get(number)
    assert (found.status, found.crash_count, found.attempt, found.suspect) == (Status.FAILED, 3, 4, False)
    assert found.failed_at is not None
    (letter,) = store.dead_letters(ALL)
    assert (letter.original_task_id, letter.reason, letter.crash_count) == (number, Reason.CRASH, 3)
    assert (letter.task_type, letter.parameters, letter.worker_id) == ("killer", '{"a":1}', "w3")
    assert "worker lost" in letter.error_message
    history = store.attempts(number)
    assert [(each.outcome, each.attempt) for each in history] == [("lost", 1), ("lost", 2), ("lost", 3), ("lost", 4)]
    assert len({each.fingerprint for each in history} | {letter.fingerprint}) == 1
    assert not store.suspects_due(["default"])
    assert store.rescue(3) == []


def test_bystanders_are_never_counted(store):
    numbers = add(store, *(task() for _ in range(5)))
    for name in ("w1", "w2", "w3", "w4"):
        register(store, name)
        claim(store, name)
        for _ in numbers:
            claim(store, name, 1, 0, suspect=True)  # held, not begun
        die(store, name)
        store.rescue(1)
    assert {store.get(number).crash_count for number in numbers} == {0}
    assert live_counts(store) == {"QUEUED": 5}


def test_a_crash_limit_of_one(store):
    add(store)
    assert crash(store, "w1", suspect=False) == "suspect"
    register(store, "w2")
    claim(store, "w2", 1, suspect=True)
    die(store, "w2")
    assert [each.outcome for each in store.rescue(1)] == ["dead"]


def test_an_innocent_suspect_is_cleared(store):
    (number,) = add(store)
    crash(store, "w1", suspect=False)
    crash(store, "w2")
    register(store, "w3")
    (suspect,) = claim(store, "w3", 1, suspect=True)
    assert (suspect.attempt, suspect.retry_count) == (3, 0)
    assert settle(store, suspect, Kind.DONE, "w3") == []
    found = store.get(number)
    assert (found.status, found.suspect, found.crash_count) == (Status.DONE, False, 1)


def test_a_suspect_that_fails_is_a_dead_letter_like_any_other(store):
    add(store)
    crash(store, "w1", suspect=False)
    register(store, "w2")
    fail(store, claim(store, "w2", 1, suspect=True)[0], "w2", reason=Reason.PERMANENT)
    (letter,) = store.dead_letters(ALL)
    assert (letter.reason, letter.retry_count, letter.crash_count) == (Reason.PERMANENT, 1, 0)


def test_1200_tasks_of_one_dead_worker(store):
    """Pitfall 44: what cannot be rescued stands before them, and there are more than fit in a batch."""
    numbers = add(store, *(task() for _ in range(1800)))
    register(store, "living")
    register(store, "dead")
    claim(store, "living", limit=600)
    claim(store, "dead", limit=1200, start=600)
    die(store, "dead")
    rescued = store.rescue(3)
    assert sorted(each.task_id for each in rescued) == numbers[600:]
    assert {each.worker_id for each in rescued} == {"dead"}
    assert sorted(each.task_id for each in rescued if each.outcome == "suspect") == numbers[600:1200]
    assert live_counts(store) == {"RUNNING": 600, "QUEUED": 1200}
    assert {each.worker_id for each in store.find(TaskFilter(status=Status.RUNNING, limit=2000))} == {"living"}
    assert store.rescue(3) == []


def test_a_restart_under_the_same_name_hides_no_orphans(store):
    """Pitfall 41."""
    (number,) = add(store)
    register(store, "run 1", name="worker-a", pid=1)
    claim(store, "run 1")
    die(store, "run 1")
    register(store, "run 2", name="worker-a", pid=1)
    assert store.rescue(3) == [Rescued(number, "run 1", "suspect")]
    assert ids(store.workers()) == ["run 2"]


def test_rescuing_twice_is_harmless(store):
    (number,) = add(store)
    register(store)
    claim(store)
    die(store)
    assert len(store.rescue(3)) == 1
    before = store.get(number)
    assert store.rescue(3) == store.rescue(3) == []
    assert store.get(number) == before
    assert len(store.attempts(number)) == 1


def test_two_rescuers_at_once(store, another):
    numbers = add(store, *(task() for _ in range(1500)))
    register(store)
    claim(store, limit=1500, start=700)
    die(store)
    results: list[list[Rescued]] = []
    barrier = threading.Barrier(4)

    def rescue(mine):
        barrier.wait()
        results.append(mine.rescue(3))

    threads = [threading.Thread(target=rescue, args=(each,)) for each in (store, another, store, another)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 4
    assert sorted(each.task_id for result in results for each in result) == numbers
    assert sum(len(store.attempts(number)) for number in numbers[:20]) == 20
    assert live_counts(store) == {"QUEUED": 1500}


def test_a_stale_worker_cannot_claim(store):
    add(store, task(), task())
    register(store)
    claim(store, limit=1)
    die(store)
    store.rescue(3)
    with pytest.raises(LeaseLostError):
        turn(store, claim=Claim(("default",), 1, 1))
    assert store.counts()["RUNNING"] == 0


def test_names_of_workers_are_text(store):
    for n, name in enumerate(NAMES):
        register(store, f"w{n}", name=name, host=name, queues=(name,), state=name)
        store.heartbeat(f"w{n}", 60, name)
    found = {worker.id: worker for worker in store.workers()}
    for n, name in enumerate(NAMES):
        worker = found[f"w{n}"]
        assert (worker.name, worker.host, worker.queues, worker.state) == (name, name, (name,), name)
