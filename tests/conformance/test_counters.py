"""The books: each change of a task is counted once, in the transaction of the change, and adding up changes nothing."""

import sqlite3

import psycopg
import pytest

from conformance.acting import (
    LATER,
    NOTE,
    add,
    bury,
    claim,
    die,
    fail,
    hold,
    live_counts,
    register,
    retry,
    settle,
    task,
    turn,
)
from outlast.errors import ConfigError
from outlast.ports.read_rows import FailureFilter, FlowEvent
from outlast.ports.rows import Kind, Reason, Settlement, TaskBatch
from outlast.stores.rules import worker_lost_note
from outlast.worker.queue_access import attempt_reports_of

OTHER = NOTE._replace(error_type="KeyError", error_message="'id'", error_category="schema", fingerprint="f2")


@pytest.fixture
def booked(place):
    """What was counted; adding it up, which moves all of it, does not change it."""

    def look(store):
        before = _look(store)
        place.age_deltas()
        store.roll_up()
        assert _look(store) == before
        assert store.pulse().not_rolled_up is None
        return _counted(before[0])

    return look


def _look(store):
    dead = {each.fingerprint: (each.failures, each.dead) for each in store.failures(FailureFilter()).rows}
    return store.event_totals(), store.counts(), store.dead_letter_counts(), dead


def _counted(books):
    assert books.keys() == set(FlowEvent)
    return {event: number for event, number in books.items() if number}


def group(store, fingerprint=NOTE.fingerprint):
    found = store.failure(fingerprint)
    return None if found is None else (found.failures, found.dead)


def test_nothing_has_happened(store, booked):
    assert booked(store) == {}
    assert set(store.counts().values()) == {0}
    assert store.dead_letter_counts() == {}


@pytest.mark.parametrize(
    "tasks",
    [
        [task()],
        [task(), task()],
        [task(unique_key="k")],
        [task(resource="r"), task()],
        [task(unique_key="k"), task(unique_key="k"), task(unique_key="k"), task()],
        TaskBatch(task(), [{}] * 2500, str),
        TaskBatch(task(resource="r"), [{}] * 3, str),
    ],
    ids=["one", "two", "a key", "a resource", "a key twice", "a batch", "a batch with a resource"],
)
def test_what_is_enqueued(store, tasks, booked):
    created = sum(each.created for each in store.enqueue(tasks))
    assert booked(store) == {"enqueued": created}
    assert live_counts(store) == {"QUEUED": created}


def test_a_key_that_is_taken_is_no_new_task(store, booked):
    add(store, task(unique_key="k"))
    add(store, task(unique_key="k"))
    add(store, task(unique_key="k"), task())
    assert booked(store) == {"enqueued": 2}


@pytest.mark.parametrize("batch", [[task()], [task(), task()], [task(unique_key="k")]])
def test_a_caller_who_rolls_back_has_counted_nothing(store, database, batch, booked):
    connection = database.connect()
    store.enqueue(batch, connection=connection)
    connection.rollback()
    assert booked(store) == {}
    store.enqueue(batch, connection=connection)
    connection.commit()
    connection.close()
    assert booked(store) == {"enqueued": len(batch)}


def test_a_row_that_was_added_by_hand_is_counted(store, database, booked):
    """As the how-to for the worker names has it."""
    connection = database.connect()
    for _ in range(3):
        connection.execute("INSERT INTO task_queue (task_type, parameters) VALUES ('scrape', '{}')")
    connection.execute(
        "INSERT INTO task_queue (task_type, parameters) SELECT task_type, parameters FROM task_queue WHERE id > 0"
    )
    connection.commit()
    connection.close()
    assert booked(store) == {"enqueued": 6}
    register(store)
    turn(store, done=[(each.id, each.epoch) for each in claim(store)])
    assert live_counts(store) == {"DONE": 6}


def test_a_periodic_task_is_counted_once(store, booked):
    store.set_periodic({"p": -1})
    ((name, due),) = store.due_periodic(["p"])
    assert store.run_periodic(name, due, LATER, task())
    assert not store.run_periodic(name, due, LATER, task())
    assert booked(store) == {"enqueued": 1}


def test_each_end_of_a_turn(store, booked):
    add(store, *[task()] * 7)
    register(store)
    done, kept, again, later, without, back, parked = claim(store)
    settlements = [
        Settlement(kept.id, kept.epoch, Kind.DONE, result="1", keep=60),
        Settlement(again.id, again.epoch, Kind.RETRY, note=NOTE, delay=LATER),
        Settlement(later.id, later.epoch, Kind.DEFER, note=NOTE, delay=LATER),
        Settlement(without.id, without.epoch, Kind.DEFER, delay=LATER),
        Settlement(back.id, back.epoch, Kind.RELEASE),
        Settlement(parked.id, parked.epoch, Kind.PARK),
    ]
    assert turn(store, done=[(done.id, done.epoch)], settlements=settlements).refused == []
    assert booked(store) == {"enqueued": 7, "done": 2, "retried": 1, "deferred": 2}
    assert live_counts(store) == {"DONE": 2, "QUEUED": 4, "PARKED": 1}
    assert group(store) == (2, 0)
    assert turn(store, done=[(done.id, done.epoch)], settlements=settlements).refused == []  # an answer got lost
    assert booked(store) == {"enqueued": 7, "done": 2, "retried": 1, "deferred": 2}
    assert store.unpark(["scrape"]) == 1
    assert live_counts(store) == {"DONE": 2, "QUEUED": 5}


def test_what_is_refused_is_not_counted(store, booked):
    add(store, task(), task())
    register(store)
    one, two = claim(store)
    die(store)
    store.rescue(3)
    before = booked(store)
    register(store, "w2")
    stale = [Settlement(two.id, two.epoch, kind, note=NOTE, reason=Reason.EXHAUSTED) for kind in Kind]
    assert turn(store, "w2", done=[(one.id, one.epoch)], settlements=stale).refused == [one.id] + [two.id] * len(stale)
    assert booked(store) == before
    assert group(store) is None


def test_an_end_as_a_dead_letter_is_one_failure(store, booked):
    bury(store)
    assert booked(store) == {"enqueued": 1, "failed": 1}
    assert live_counts(store) == {"FAILED": 1, "dead_letters": 1}
    assert group(store) == (1, 1)
    assert store.dead_letter_counts() == {("scrape", "network"): 1}


def test_an_end_without_a_note_makes_no_group(store, booked):
    add(store)
    register(store)
    (claimed,) = claim(store)
    assert fail(store, claimed, note=None, reason=Reason.EXPIRED) == []
    assert booked(store) == {"enqueued": 1, "failed": 1}
    assert store.dead_letter_counts() == {("scrape", "unknown"): 1}
    assert store.pulse().last_hour[FlowEvent.FAILED, "unknown"] == 1
    assert store.failure("") is None


def test_retries_before_the_end(store, booked):
    add(store)
    register(store)
    for _ in range(3):
        (claimed,) = claim(store)
        retry(store, claimed)
    (claimed,) = claim(store)
    fail(store, claimed, note=OTHER)
    assert booked(store) == {"enqueued": 1, "retried": 3, "failed": 1}
    assert (group(store), group(store, "f2")) == ((3, 0), (1, 1))
    assert store.dead_letter_counts() == {("scrape", "schema"): 1}


def test_the_first_failure_is_the_sample(store):
    bury(store, note=NOTE._replace(error_message="the first"))
    bury(store, task("other"), note=NOTE._replace(error_message="the second", error_category="server"))
    found = store.failure(NOTE.fingerprint)
    assert (found.task_type, found.error_message, found.error_category) == ("scrape", "the first", "network")
    assert (found.failures, found.dead) == (2, 2)
    assert found.first_seen <= found.last_seen <= store.now()
    assert store.dead_letter_counts() == {("scrape", "network"): 1, ("other", "server"): 1}


def test_fingerprints_that_begin_alike(store):
    assert store.fingerprints("a", 5) == []
    for name in ("ab2", "ab1", "a_b", "AB3", "b", "a%"):
        bury(store, task(name), note=NOTE._replace(fingerprint=name))
    assert sorted(store.fingerprints("a", 9)) == ["a%", "a_b", "ab1", "ab2"]
    assert store.fingerprints("ab", 9) == ["ab1", "ab2"]
    assert store.fingerprints("ab", 1) == ["ab1"]
    assert store.fingerprints("a%", 9) == ["a%"]
    assert store.fingerprints("ab1", 9) == ["ab1"]
    assert store.fingerprints("abx", 9) == []


def test_replays_and_discards(store, booked):
    letters = [bury(store, task(str(number))) for number in range(4)]
    assert store.replay(letters[0].id) == "replayed"
    assert store.discard(letters[1].id) == "discarded"
    assert (store.replay(letters[0].id), store.discard(letters[1].id)) == ("gone", "gone")
    assert booked(store) == {"enqueued": 4, "failed": 4, "replayed": 1, "discarded": 1}
    assert live_counts(store) == {"QUEUED": 1, "FAILED": 2, "DISCARDED": 1, "dead_letters": 2}
    assert group(store) == (4, 2)
    assert store.prune_dead_letters(older_than=-10) == 2
    assert booked(store) == {"enqueued": 4, "failed": 4, "replayed": 1, "discarded": 3}
    assert (group(store), store.dead_letter_counts()) == ((4, 0), {})


def test_a_replay_that_stays_because_of_its_key_is_not_counted(store, booked):
    letter = bury(store, task(unique_key="k"))
    add(store, task(unique_key="k"))
    assert store.replay(letter.id) == "conflict"
    assert booked(store) == {"enqueued": 2, "failed": 1}


def test_cancelled_tasks(store, booked):
    numbers = add(store, task(), task(), task())
    register(store)
    claim(store, limit=1)
    assert len(store.cancel([*numbers, 999])) == 2
    assert store.cancel(numbers) == []
    assert booked(store) == {"enqueued": 3, "cancelled": 2}
    assert live_counts(store) == {"RUNNING": 1, "CANCELLED": 2}


def test_tasks_of_a_dead_worker(store, booked):
    add(store, task(), task(), task())
    register(store)
    claim(store, limit=2)
    hold(store, limit=1)
    die(store)
    assert len(store.rescue(2)) == 3
    assert booked(store) == {"enqueued": 3, "lost": 2}
    lost = worker_lost_note().fingerprint
    assert group(store, lost) == (2, 0)
    for name in ("w2", "w3"):
        register(store, name)
        assert len(claim(store, name, 1, suspect=True)) == 1
        die(store, name)
        store.rescue(1)
    assert booked(store) == {"enqueued": 3, "lost": 2, "failed": 2}
    assert group(store, lost) == (4, 2)
    assert live_counts(store) == {"QUEUED": 1, "FAILED": 2, "dead_letters": 2}


def test_given_back_is_as_if_it_had_never_been_claimed(store, booked):
    add(store, task(), task())
    register(store)
    claim(store)
    assert store.reconcile("w1", []) == 2
    claim(store)
    assert store.leave("w1") == 2
    assert booked(store) == {"enqueued": 2}
    assert live_counts(store) == {"QUEUED": 2}


def test_pruned_tasks(store, booked):
    numbers = add(store, *[task()] * 3)
    register(store)
    (claimed,) = claim(store, limit=1)
    turn(store, done=[(claimed.id, claimed.epoch)])
    store.cancel(numbers[1:2])
    store.discard(bury(store, task(priority=0)).id)
    assert store.prune(done_before=-10) == 3
    happened = {"enqueued": 4, "done": 1, "cancelled": 1, "failed": 1, "discarded": 1}
    assert booked(store) == happened | {"pruned_done": 1, "pruned_cancelled": 1, "pruned_discarded": 1}
    assert live_counts(store) == {"QUEUED": 1}


def test_a_failure_that_is_reported_by_its_number(store, booked):
    handling, (number, other) = attempt_reports_of(store), add(store, task(), task())
    assert handling.settle_attempt(Settlement(number, 0, Kind.RETRY, note=NOTE), 1)
    assert not handling.settle_attempt(Settlement(number, 0, Kind.RETRY, note=NOTE), 1)
    assert handling.settle_attempt(Settlement(number, 0, Kind.DEFER, note=NOTE), 2)
    assert handling.settle_attempt(Settlement(number, 0, Kind.FAIL, note=NOTE, reason=Reason.EXHAUSTED), 2)
    assert handling.settle_attempt(Settlement(other, 0, Kind.DONE), 1)
    assert booked(store) == {"enqueued": 2, "retried": 1, "deferred": 1, "failed": 1, "done": 1}
    assert group(store) == (3, 1)


def test_the_trial_of_a_dead_letter_is_not_counted(store, booked):
    store.check_dead_letters()
    assert booked(store) == {}
    assert store.pulse().newest_dead_letter == 0


def test_a_settlement_that_fails_takes_its_count_back(store, another, booked):
    """All or nothing: a turn whose last settlement cannot be written has counted nothing of the others."""
    add(store, task(), task())
    register(store)
    one, two = claim(store)
    with pytest.raises((ConfigError, sqlite3.IntegrityError, psycopg.errors.NotNullViolation)):
        turn(
            store,
            done=[(one.id, one.epoch)],
            settlements=[Settlement(two.id, two.epoch, Kind.FAIL, note=NOTE, reason=None)],
        )
    assert booked(another) == {"enqueued": 2}
    assert group(another) is None
    assert settle(store, one, Kind.DONE) == []
    assert booked(another) == {"enqueued": 2, "done": 1}
