"""Tasks that another engine runs: one start for each attempt, whatever messages come, and books that hold nothing of it."""

import time

import pytest

from conformance.acting import NOTE, add, claim, die, hold, live_counts, register, task
from outlast.errors import LeaseLostError
from outlast.ports.external_attempts import EngineTasks
from outlast.ports.rows import Kind, Reason, Settlement, Status
from outlast.worker.queue_access import attempt_reports_of


@pytest.fixture(autouse=True)
def _workers(store):
    register(store, "w1")
    register(store, "w2")


@pytest.fixture
def lending(store):
    found = attempt_reports_of(store)
    assert isinstance(found, EngineTasks)
    return found


def test_the_first_message_has_the_attempt(store, lending):
    number = add(store)[0]
    epoch = lending.begin(number, 1, "w1")
    found = store.get(number)
    assert (found.status, found.attempt, found.worker_id, found.lease_epoch) == (Status.RUNNING, 1, "w1", epoch)
    assert found.started_at is not None
    assert lending.begin(number, 1, "w2") is None
    assert lending.begin(number, 2, "w2") is None
    assert store.get(number).worker_id == "w1"


def test_a_message_may_come_before_its_sender_has_lent_the_task(store, lending):
    add(store)
    claimed = hold(store)[0]
    epoch = lending.begin(claimed.id, 1, "w2")
    assert epoch == claimed.epoch + 1
    assert lending.release_to_engine([(claimed.id, claimed.epoch)], 60.0) == 0, "the sender is too late"
    assert store.get(claimed.id).status is Status.RUNNING


def test_a_worker_that_is_not_known_begins_nothing(store, lending):
    number = add(store)[0]
    with pytest.raises(LeaseLostError):
        lending.begin(number, 1, "nobody")
    assert store.get(number).status is Status.QUEUED


@pytest.mark.parametrize("end", [Kind.DONE, Kind.RETRY, Kind.FAIL])
def test_what_is_over_cannot_begin_by_the_same_message(store, lending, end):
    number = add(store)[0]
    epoch = lending.begin(number, 1, "w1")
    note = None if end is Kind.DONE else NOTE
    reason = Reason.PERMANENT if end is Kind.FAIL else None
    assert lending.settle_attempt(Settlement(number, 0, end, note=note, reason=reason), 1, epoch=epoch)
    assert lending.begin(number, 1, "w2") is None
    assert (lending.begin(number, 2, "w2") is not None) == (end is Kind.RETRY)


def test_what_somebody_runs_is_left_alone_by_a_message_that_began_nothing(store, lending):
    lent, begun = add(store, task(), task())
    for number in (lent, begun):
        assert lending.settle_attempt(Settlement(number, 0, Kind.DEFER, 0.0), 1, unbegun=True)
    epoch = lending.begin(begun, 1, "w1")
    assert not lending.settle_attempt(Settlement(begun, 0, Kind.DEFER, 60.0), 1, unbegun=True)
    assert lending.settle_attempt(Settlement(begun, 0, Kind.DONE), 1, epoch=epoch)
    held = hold(store)[0]
    assert lending.settle_attempt(Settlement(held.id, 0, Kind.DEFER, 0.0), 1, unbegun=True), "claimed, not begun"


def test_what_a_worker_has_in_its_hands(store, lending):
    numbers = add(store, task(), task(), task())
    first, other = lending.begin(numbers[0], 1, "w1"), lending.begin(numbers[1], 1, "w2")
    held = hold(store)[0]
    assert sorted(lending.running("w1")) == [(numbers[0], first), (held.id, held.epoch)]
    assert lending.running("w2") == [(numbers[1], other)]
    assert lending.running("nobody") == []


def test_a_lent_task_waits_and_nothing_is_counted(store, lending):
    add(store, task(), task())
    first, second = hold(store, limit=2)
    before = store.counts()
    assert lending.release_to_engine([(first.id, first.epoch), (second.id, second.epoch)], 60.0) == 2
    found = store.get(first.id)
    assert (found.status, found.attempt, found.retry_count, found.deferrals) == (Status.QUEUED, 0, 0, 0)
    assert found.started_at is None
    assert 50 < store.next_due(["default"]) <= 60
    assert claim(store) == []
    assert store.counts()["QUEUED"] == before["QUEUED"] + before["RUNNING"]
    assert store.attempts(first.id) == []


def test_a_start_that_is_lent_again_is_taken_back(store, lending):
    number = add(store)[0]
    epoch = lending.begin(number, 1, "w1")
    assert lending.release_to_engine([(number, epoch - 1)], 0.0) == 0
    assert lending.release_to_engine([(number, epoch)], 0.0) == 1
    assert store.get(number).attempt == 0
    assert lending.begin(number, 1, "w2") is not None


def test_a_worker_that_dies_with_it_is_found_out_and_a_third_time_is_the_end(store, lending):
    number = add(store)[0]
    held = hold(store)[0]
    lending.release_to_engine([(number, held.epoch)], 600.0)
    for crashes in (0, 1, 2):
        register(store, f"doomed{crashes}")
        assert lending.begin(number, 1, f"doomed{crashes}") is not None
        die(store, f"doomed{crashes}")
        store.rescue(crash_limit=2)
        found = store.get(number)
        assert found.crash_count == crashes
        assert found.status is (Status.FAILED if crashes == 2 else Status.QUEUED)
        assert store.suspects_due(["default"]) == (crashes < 2), "it is due at once"
    assert [each.outcome for each in store.attempts(number)] == ["lost"] * 3
    assert live_counts(store) == {"FAILED": 1, "dead_letters": 1}


def test_the_latest_with_a_key_is_found_when_it_is_over_too(store, lending):
    keyed = task(unique_key="celery:a")
    first = add(store, keyed)[0]
    assert lending.find_by_key(keyed.task_type, "celery:a") == first
    assert lending.find_by_key("another", "celery:a") is None
    assert lending.find_by_key(keyed.task_type, "celery:b") is None
    epoch = lending.begin(first, 1, "w1")
    lending.settle_attempt(Settlement(first, 0, Kind.FAIL, note=NOTE, reason=Reason.PERMANENT), 1, epoch=epoch)
    assert lending.find_by_key(keyed.task_type, "celery:a") == first
    second = add(store, keyed)[0]
    assert second != first
    assert lending.find_by_key(keyed.task_type, "celery:a") == second


def test_a_lent_task_is_due_again(store, lending):
    add(store)
    claimed = hold(store)[0]
    lending.release_to_engine([(claimed.id, claimed.epoch)], 0.05)
    time.sleep(0.06)
    again = hold(store)[0]
    assert (again.id, again.retry_count, again.attempt) == (claimed.id, 0, 1)
