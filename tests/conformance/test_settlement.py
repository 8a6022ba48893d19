"""Settling: what each way of it changes, and that only the holder of the current epoch can do it."""

import time
from datetime import timedelta

import pytest

from conformance.acting import (
    LATER,
    NAMES,
    NOTE,
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
from outlast.ports.rows import DeadLetterFilter, Kind, Reason, Settlement, Status, TaskFilter

ALL = DeadLetterFilter()


@pytest.fixture(autouse=True)
def _workers(store):
    register(store, "w1")
    register(store, "w2")


@pytest.fixture
def claimed(store):
    add(store)
    return claim(store)[0]


def test_done(store, claimed):
    assert turn(store, done=[(claimed.id, claimed.epoch)]) == ([], [])
    found = store.get(claimed.id)
    assert (found.status, found.attempt, found.retry_count, found.last_error) == (Status.DONE, 1, 0, None)
    assert found.finished_at is not None
    assert found.finished_at == found.updated_at >= found.started_at
    assert found.failed_at is None
    assert store.attempts(claimed.id) == [], "success leaves no history"
    assert store.result(claimed.id) is None


def test_many_done_at_once(store):
    add(store, *(task() for _ in range(300)))
    claimed = claim(store, limit=300)
    pairs = [(each.id, each.epoch) for each in claimed]
    assert turn(store, done=pairs[:299]).refused == []
    assert live_counts(store) == {"DONE": 299, "RUNNING": 1}


def test_a_result_is_kept(store):
    add(store, *(task() for _ in range(3)))
    kept, expired, none = claim(store)
    text = '{"n":9007199254740993,"text":"🦊 \'\\""}'
    assert settle(store, kept, Kind.DONE, result=text, keep=LATER) == []
    assert settle(store, expired, Kind.DONE, result=text, keep=0) == []
    assert settle(store, none, Kind.DONE) == []
    assert [store.result(each.id) for each in (kept, expired, none)] == [text, None, None]
    assert live_counts(store) == {"DONE": 3}


def test_retry(store, claimed):
    assert retry(store, claimed, delay=LATER) == []
    found = store.get(claimed.id)
    assert (found.status, found.attempt, found.retry_count) == (Status.QUEUED, 1, 1)
    assert (found.last_error, found.deferrals, found.failed_at) == (NOTE.error_message, 0, None)
    assert abs(found.next_run_after - found.updated_at - timedelta(seconds=LATER)) < timedelta(milliseconds=2)
    assert claim(store) == []
    (attempt,) = store.attempts(claimed.id)
    assert (attempt.task_id, attempt.attempt, attempt.outcome, attempt.worker_id) == (claimed.id, 1, "retry", "w1")
    assert attempt.delay == LATER
    assert (attempt.error_type, attempt.error_message) == (NOTE.error_type, NOTE.error_message)
    assert (attempt.error_category, attempt.fingerprint) == (NOTE.error_category, NOTE.fingerprint)
    assert attempt.traceback == NOTE.traceback
    assert attempt.failure == {"category": "network", "n": 2**53 + 1}
    assert attempt.started_at == found.started_at <= attempt.finished_at
    assert store.count_dead_letters(ALL) == 0


def test_a_retry_is_never_early(store, claimed):
    before = time.time()
    retry(store, claimed, delay=0.0104)
    assert store.get(claimed.id).next_run_after.timestamp() >= before + 0.0104 - 0.0006  # a clock of milliseconds


def test_the_history_is_in_its_order(store, claimed):
    for number, worker_id in ((1, "w2"), (2, "w1"), (3, "w2")):
        retry(store, claimed, "w1" if worker_id == "w2" else "w2", note=NOTE._replace(error_message=f"no. {number}"))
        (claimed,) = claim(store, worker_id)
    history = store.attempts(claimed.id)
    assert [each.attempt for each in history] == [1, 2, 3]
    assert [each.worker_id for each in history] == ["w1", "w2", "w1"]
    assert [each.error_message for each in history] == ["no. 1", "no. 2", "no. 3"]
    assert store.get(claimed.id).last_error == "no. 3"


def test_error_text_of_every_kind(store):
    add(store, *(task() for _ in NAMES))
    for each, text in zip(claim(store, limit=50), NAMES, strict=True):
        note = NOTE._replace(error_message=text, error_type=text, fingerprint=text, traceback=text, error_category=text)
        retry(store, each, note=note)
        (attempt,) = store.attempts(each.id)
        assert (attempt.error_message, attempt.error_type, attempt.fingerprint, attempt.traceback) == (text,) * 4
        assert store.get(each.id).last_error == text


def test_defer_spends_no_attempt(store, claimed):
    assert settle(store, claimed, Kind.DEFER, delay=LATER, note=NOTE) == []
    found = store.get(claimed.id)
    assert (found.status, found.attempt, found.retry_count, found.deferrals) == (Status.QUEUED, 0, 0, 1)
    assert (found.last_error, found.started_at) == (NOTE.error_message, None)
    assert abs(found.next_run_after - found.updated_at - timedelta(seconds=LATER)) < timedelta(milliseconds=2)
    assert store.attempts(claimed.id) == []
    assert claim(store) == []


def test_deferred_for_counts_from_the_first_deferral(store, claimed):
    settle(store, claimed, Kind.DEFER)
    time.sleep(0.03)
    (second,) = claim(store)
    assert 0.02 <= second.deferred_for < 30
    assert second.attempt == 1
    settle(store, second, Kind.DEFER, note=NOTE)
    settle(store, claim(store)[0], Kind.DEFER)
    assert store.get(claimed.id).last_error == NOTE.error_message, "one without a note leaves the last error"
    (third,) = claim(store)
    assert third.deferred_for >= second.deferred_for
    assert store.get(claimed.id).deferrals == 3
    retry(store, third)
    (fourth,) = claim(store)
    assert fourth.deferred_for == 0, "an attempt was made: the next deferral is the first again"


def test_deferring_what_is_only_held_takes_no_start_back(store):
    (number,) = add(store)
    (held,) = hold(store)
    assert settle(store, held, Kind.DEFER) == []
    assert (store.get(number).attempt, store.get(number).deferrals) == (0, 1)
    (claimed,) = claim(store)
    assert claimed.attempt == 1
    retry(store, claimed)
    (held,) = hold(store)
    settle(store, held, Kind.DEFER)
    assert store.get(number).attempt == 1


@pytest.mark.parametrize("kind", [Kind.RELEASE, Kind.PARK])
@pytest.mark.parametrize("started", [True, False])
def test_release_and_park_cost_nothing(store, kind, started):
    (number,) = add(store)
    retry(store, claim(store)[0])
    before = store.get(number)
    (claimed,) = claim(store, start=int(started))
    assert settle(store, claimed, kind) == []
    found = store.get(number)
    assert found.status is (Status.QUEUED if kind is Kind.RELEASE else Status.PARKED)
    assert (found.attempt, found.retry_count, found.last_error) == (1, 1, NOTE.error_message)
    assert (found.next_run_after, found.deferrals, found.started_at) == (before.next_run_after, 0, None)
    assert len(store.attempts(number)) == 1
    assert ids(claim(store)) == ([number] if kind is Kind.RELEASE else [])


def test_what_is_parked_waits_for_its_name(store):
    """Pitfall 42."""
    add(store, task("a"), task("b"), task("a"), task("c"))
    for claimed in claim(store):
        settle(store, claimed, Kind.PARK)
    assert live_counts(store) == {"PARKED": 4}
    assert store.next_due(["default"]) is None
    assert store.unpark(["nobody"]) == store.unpark([]) == 0
    assert store.unpark(["a", "c"]) == 3
    assert [each.task_type for each in claim(store)] == ["a", "a", "c"]
    assert live_counts(store) == {"PARKED": 1, "RUNNING": 3}


def test_more_are_unparked_than_fit_in_a_batch(store):
    add(store, *(task() for _ in range(1100)))
    claimed = claim(store, limit=1100)
    turn(store, settlements=[Settlement(each.id, each.epoch, Kind.PARK) for each in claimed])
    assert store.unpark(["scrape"]) == 1100
    assert live_counts(store) == {"QUEUED": 1100}


def test_fail_leaves_a_dead_letter_with_everything(store):
    """W5, pitfall 55."""
    new = task("t", '{"a":1}', queue="q", priority=2, resource="r", unique_key="k")
    (number,) = add(store, new)
    retry(store, claim(store, queues=("q",))[0])
    (claimed,) = claim(store, "w2", queues=("q",))
    note = NOTE._replace(error_message="the last one", fingerprint="f2")
    assert fail(store, claimed, "w2", note, Reason.EXHAUSTED) == []
    found = store.get(number)
    assert (found.status, found.attempt, found.retry_count) == (Status.FAILED, 2, 2)
    assert (found.last_error, found.failed_at) == ("the last one", found.updated_at)
    (letter,) = store.dead_letters(ALL)
    assert store.dead_letter(letter.id) == letter
    assert letter.original_task_id == number
    assert (letter.task_type, letter.parameters, letter.queue, letter.priority) == ("t", '{"a":1}', "q", 2)
    assert (letter.resource, letter.unique_key) == ("r", "k")
    assert (letter.error_type, letter.error_message) == (NOTE.error_type, "the last one")
    assert (letter.error_category, letter.fingerprint) == ("network", "f2")
    assert (letter.traceback, letter.failure) == (NOTE.traceback, {"category": "network", "n": 2**53 + 1})
    assert letter.reason is Reason.EXHAUSTED
    assert (letter.retry_count, letter.crash_count, letter.replays, letter.worker_id) == (2, 0, 0, "w2")
    assert letter.created_at == found.created_at
    assert letter.moved_to_dlq_at == found.failed_at
    history = store.attempts(number)
    assert [(each.outcome, each.attempt, each.worker_id) for each in history] == [("retry", 1, "w1"), ("fail", 2, "w2")]
    assert history[1].delay is None
    assert history[1].error_message == "the last one"


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason(store, claimed, reason):
    fail(store, claimed, reason=reason)
    assert store.dead_letters(ALL)[0].reason is reason


def test_failing_without_an_attempt(store):
    """What is expired or undecodable did not run: it is only held."""
    (number,) = add(store)
    (held,) = hold(store)
    assert settle(store, held, Kind.FAIL, reason=Reason.EXPIRED) == []
    (letter,) = store.dead_letters(ALL)
    assert (letter.original_task_id, letter.reason, letter.retry_count) == (number, Reason.EXPIRED, 0)
    assert (store.get(number).status, store.get(number).attempt) == (Status.FAILED, 0)


TWICE = {
    "done": {"kind": Kind.DONE},
    "done with a result": {"kind": Kind.DONE, "result": "1", "keep": LATER},
    "retry": {"kind": Kind.RETRY, "note": NOTE, "delay": LATER},
    "defer": {"kind": Kind.DEFER, "note": NOTE, "delay": LATER},
    "fail": {"kind": Kind.FAIL, "note": NOTE, "reason": Reason.PERMANENT},
    "release": {"kind": Kind.RELEASE},
    "park": {"kind": Kind.PARK},
}


@pytest.mark.parametrize("values", TWICE.values(), ids=TWICE)
def test_settling_twice_is_accepted_and_changes_nothing(store, claimed, values):
    """The answer to the first one got lost."""
    assert settle(store, claimed, **values) == []
    once = (store.get(claimed.id), store.attempts(claimed.id), store.dead_letters(ALL), store.counts())
    assert settle(store, claimed, **values) == []
    assert turn(store, done=[(claimed.id, claimed.epoch)]).refused == []
    assert (store.get(claimed.id), store.attempts(claimed.id), store.dead_letters(ALL), store.counts()) == once


@pytest.mark.parametrize("values", TWICE.values(), ids=TWICE)
def test_a_settlement_is_a_change(store, claimed, values):
    before = store.get(claimed.id).updated_at
    time.sleep(0.005)
    settle(store, claimed, **values)
    assert store.get(claimed.id).updated_at > before


@pytest.mark.parametrize("values", TWICE.values(), ids=TWICE)
def test_a_stale_epoch_is_refused(store, claimed, values):
    """Pitfall 39: the task was given to another; its attempt is not touched."""
    die(store, "w1")
    store.rescue(3)
    register(store, "w1 again")
    (current,) = claim(store, "w2", 1, suspect=True)
    assert current.epoch > claimed.epoch
    before = (store.get(claimed.id), store.attempts(claimed.id), store.counts())
    assert settle(store, claimed, worker_id="w1 again", **values) == [claimed.id]
    assert turn(store, "w1 again", done=[(claimed.id, claimed.epoch)]).refused == [claimed.id]
    assert (store.get(claimed.id), store.attempts(claimed.id), store.counts()) == before
    assert store.result(claimed.id) is None
    assert settle(store, current, Kind.DONE, "w2") == []
    assert store.get(claimed.id).status is Status.DONE


def test_a_wrong_one_among_many_is_refused_alone(store):
    add(store, *(task() for _ in range(5)))
    claimed = claim(store)
    pairs = [(each.id, each.epoch) for each in claimed]
    wrong = (claimed[2].id, claimed[2].epoch + 7)
    turned = turn(
        store,
        done=[pairs[0], wrong, (4242, 1)],
        settlements=[Settlement(*wrong, Kind.RETRY, note=NOTE), Settlement(*pairs[3], Kind.RELEASE)],
    )
    assert sorted(set(turned.refused)) == sorted([claimed[2].id, 4242])
    assert [store.get(each.id).status for each in claimed] == ["DONE", "RUNNING", "RUNNING", "QUEUED", "RUNNING"]


def test_cancel(store):
    waiting, scheduled, running, parked = add(store, task(priority=9), task(delay=LATER), task(), task(priority=6))
    claimed = claim(store, limit=2)
    assert ids(claimed) == [running, parked]
    settle(store, claimed[1], Kind.PARK)
    assert sorted(store.cancel([waiting, scheduled, running, parked, 4242])) == [waiting, scheduled, parked]
    assert store.cancel([waiting]) == []
    assert store.cancel([]) == []
    assert live_counts(store) == {"CANCELLED": 3, "RUNNING": 1}
    assert store.get(waiting).finished_at is not None
    assert store.get(running).status is Status.RUNNING, "nobody can stop a thread"


def test_prune_deletes_what_is_done_and_nothing_else(store):
    """Pitfall 58: nothing goes by itself, and what goes is counted."""
    numbers = add(store, *(task() for _ in range(8)), task(delay=LATER))
    claimed = claim(store, limit=8)
    retry(store, claimed[0])
    settle(store, claim(store)[0], Kind.DONE, result="1", keep=LATER)
    settle(store, claimed[1], Kind.DONE)
    settle(store, claimed[2], Kind.DONE, result="1", keep=-1)
    fail(store, claimed[3])
    settle(store, claimed[4], Kind.PARK)
    settle(store, claimed[5], Kind.RELEASE)
    fail(store, claimed[6])
    store.discard(store.dead_letters(ALL)[0].id)
    assert store.prune(done_before=LATER) == 1, "a result that expired"
    assert store.counts()["DONE"] == 3
    assert store.prune(done_before=-1) == 4, "three that were done, one that was discarded"
    assert store.prune(done_before=-1) == 0
    assert sum(store.get(number) is None for number in numbers) == 4
    assert store.attempts(numbers[0]) == []
    assert store.count_dead_letters(ALL) == 1
    assert ids(store.find(TaskFilter(status=Status.RUNNING))) == [claimed[7].id]


def test_more_is_pruned_than_fits_in_a_batch(store):
    add(store, *(task() for _ in range(1100)))
    turn(store, done=[(each.id, each.epoch) for each in claim(store, limit=1100)])
    assert store.prune(done_before=-1) == 1100
    assert live_counts(store) == {}
