"""What becomes of tasks of Celery's that fail: one worker in one process, a broker, a SQLite file."""

import time

import pytest

from crash.processes import until
from integration.celery.scene import LONG
from outlast.ports.rows import Reason, Status
from outlast.queue.masking import masked_parameters

pytestmark = pytest.mark.xdist_group("celery_failures")  # one worker for all of them


def test_a_task_that_never_failed_leaves_nothing_in_the_store(shared):
    before = shared.store.counts()
    sent = [shared.send("fine") for _ in range(5)]
    assert [result.get(timeout=LONG) for _, result in sent] == [f"{key} is fine" for key, _ in sent]
    assert shared.store.counts() == before
    assert all(shared.row_of(result) is None for _, result in sent)


def test_what_fails_for_now_is_retried_by_the_policy_and_then_done(shared):
    key, result = shared.send("flaky", 3)
    assert result.get(timeout=LONG) == 3
    row = shared.settled(result)
    assert [words[0] for words in shared.effects(key)] == ["0", "1", "2"], "request.retries counts as Celery's does"
    assert (row.retry_count, row.queue, row.task_type) == (2, "celery", "program.flaky")
    assert shared.history(row) == [(1, "retry", "ConnectionError"), (2, "retry", "ConnectionError")]
    assert shared.events(row) == ["TaskRetrying", "TaskRetrying"]


def test_what_fails_too_often_is_a_dead_letter_and_celery_sees_the_error(shared):
    _, result = shared.send("flaky", 99)
    with pytest.raises(ConnectionError, match="refused for"):
        result.get(timeout=LONG)
    row = shared.settled(result, Status.FAILED)
    letter = shared.letter_of(row)
    assert (letter.reason, letter.retry_count, letter.error_category) == (Reason.EXHAUSTED, 3, "network")
    assert {each.worker_id for each in shared.store.attempts(row.id)} == {shared.store.workers()[0].id}
    assert "refused for" in letter.traceback
    assert shared.events(row) == ["TaskRetrying", "TaskRetrying", "TaskFailed"]


def test_a_dead_letter_is_replayed_into_celery_under_the_same_id(shared):
    key, result = shared.send("broken", "hush", kwargs={"page": 7})
    with pytest.raises(ValueError, match="is broken"):
        result.get(timeout=LONG)
    row = shared.settled(result, Status.FAILED)
    letter = shared.letter_of(row)
    assert (letter.reason, letter.retry_count) == (Reason.PERMANENT, 1)
    assert "hush" not in masked_parameters(letter.parameters), "an argument by position is masked by its name"
    shared.mend(key)
    shared.app.dead_letters.replay(letter.id)
    shared.settled(result)
    assert shared.client.AsyncResult(result.id).get(timeout=LONG) == f"{key} was mended"
    first, second = shared.effects(key)
    assert first == second, "it was called in the same way"


def test_a_replay_in_steps_is_carried_on_by_the_celery_worker(shared):
    sent = [shared.send("broken") for _ in range(4)]
    rows = [shared.settled(result, Status.FAILED) for _, result in sent]
    fingerprint = shared.letter_of(rows[0]).fingerprint
    for key, _ in sent:
        shared.mend(key)
    replay = shared.app.dead_letters.replay_later(group=fingerprint)
    until(lambda: shared.app.dead_letters.replay_run(replay.id).state == "done", LONG, shared.said)
    for _, result in sent:
        shared.settled(result)


def test_a_canary_that_fails_again_stops_the_replay(shared):
    key, result = shared.send("broken")
    letter = shared.letter_of(shared.settled(result, Status.FAILED))
    replay = shared.app.dead_letters.replay_later(ids=(letter.id,))
    until(lambda: shared.app.dead_letters.replay_run(replay.id).state == "stopped", LONG, shared.said)
    assert shared.letter_of(shared.row_of(result)).reason is Reason.CANARY
    assert len(shared.effects(key)) == 2


def test_what_the_server_asks_is_waited_for_and_others_wait_with_it(shared):
    key, result = shared.send("asked_to_wait", 4.0)
    row = shared.settled(result, Status.QUEUED, deferrals=1)
    assert (row.retry_count, row.resource) == (0, "api.example.com"), "no attempt was spent"
    other, later = shared.send("asked_to_wait", 0)
    waiting = shared.settled(later, Status.QUEUED)
    assert shared.effects(other) == [], "it was put off before it began"
    assert (waiting.attempt, waiting.resource) == (0, "api.example.com")
    result.get(timeout=LONG)
    later.get(timeout=LONG)
    asked_at = float(shared.effects(key)[0][0])
    assert min(float(shared.effects(each)[-1][0]) for each in (key, other)) >= asked_at + 3.9
    assert shared.settled(result).retry_count == shared.settled(later).retry_count == 0
    assert shared.history(row) == []


def test_a_task_that_calls_itself_has_one_attempt_for_all_of_it(shared):
    key, result = shared.send("calls_itself")
    assert result.get(timeout=LONG) == 2
    row = shared.settled(result)
    assert (len(shared.effects(key)), row.attempt, row.retry_count) == (2, 2, 1)


@pytest.mark.parametrize(("task", "calls"), [("by_itself", 3), ("by_hand", 2)])
def test_retries_of_celerys_own_are_not_multiplied(shared, task, calls):
    key, result = shared.send(task)
    with pytest.raises(ConnectionError):
        result.get(timeout=LONG)
    row = shared.settled(result, Status.FAILED)
    assert len(shared.effects(key)) == calls
    assert shared.letter_of(row).reason is Reason.EXHAUSTED
    shared.app.dead_letters.replay(shared.letter_of(row).id)
    until(lambda: len(shared.effects(key)) == 2 * calls, LONG, shared.said)
    assert shared.settled(result, Status.FAILED).replays == 1


def test_a_chain_goes_on_after_a_retry_and_after_a_replay(shared):
    client = shared.client
    chain = client.signature("program.flaky", ("chained", 2)) | client.signature(
        "program.fine", ("end",), immutable=True
    )
    assert chain.apply_async().get(timeout=LONG) == "end is fine"
    broken = client.signature("program.broken", ("link",))
    last = client.signature("program.fine", ("last",), immutable=True)
    result = (broken | last).apply_async()
    letter = shared.letter_of(shared.settled(result.parent, Status.FAILED))
    assert "last" not in masked_parameters(letter.parameters), "what other tasks are called with is not shown"
    shared.mend("link")
    shared.app.dead_letters.replay(letter.id)
    until(lambda: shared.effects("last"), LONG, shared.said)


def test_arguments_that_cannot_be_kept_are_told_of_and_retried_by_the_broker(shared):
    key, result = shared.send("flaky", 99, kwargs={})
    large = shared.client.send_task("program.flaky", ("x" * 5000, 99))
    with pytest.raises(ConnectionError):
        large.get(timeout=LONG)
    assert len(shared.effects("x" * 5000)) == 3, "the policy holds all the same"
    assert shared.row_of(large) is None
    said = shared.workers[0].said()
    assert "bytes of JSON; the limit is 4000" in said
    assert "it has no dead letter" in said
    with pytest.raises(ConnectionError):
        result.get(timeout=LONG)
    assert key


def test_a_result_that_cannot_be_kept_is_a_failure_of_the_task(shared):
    key, result = shared.send("unkeepable")
    row = shared.settled(result, Status.FAILED)
    assert len(shared.effects(key)) == 1, "its work is done; it is not done again by itself"
    assert shared.letter_of(row).error_type == "EncodeError"


@pytest.mark.parametrize("stopped", ["cancelled", "revoked"])
def test_a_task_that_is_stopped_while_its_message_waits_does_not_run(shared, stopped):
    control, queue = shared.client.control, f"{stopped}-later"
    key, result = shared.send("broken", queue=queue)
    assert control.add_consumer(queue, reply=True, limit=1)
    row = shared.settled(result, Status.FAILED)
    assert control.cancel_consumer(queue, reply=True, limit=1)
    shared.app.dead_letters.replay(shared.letter_of(row).id)
    until(lambda: _is_lent(shared.row_of(result)), LONG, lambda: shared.row_of(result))  # nobody takes it from there
    if stopped == "cancelled":
        assert shared.store.cancel([row.id]) == [row.id]
    else:
        assert control.revoke(result.id, reply=True, limit=1)
    assert control.add_consumer(queue, reply=True, limit=1)
    said = "is over: CANCELLED" if stopped == "cancelled" else f"Discarding revoked task: program.broken[{result.id}]"
    until(lambda: said in shared.workers[0].said(), LONG, shared.said)
    shared.settled(result, Status.CANCELLED)
    assert len(shared.effects(key)) == 1


def test_what_would_come_too_late_is_not_waited_for(shared):
    _, result = shared.send("asked_to_wait", 3000.0, expires=60)
    row = shared.settled(result, Status.FAILED)
    assert shared.letter_of(row).reason is Reason.EXPIRED
    shared.app.cooling.end_cooldown("api.example.com")


def _is_lent(row):
    return row.status is Status.QUEUED and row.next_run_after.timestamp() > time.time() + 60
