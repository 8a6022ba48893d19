"""A pool of processes: those that are killed, and those that take too long, fail like anything else; nothing is lost."""

import os
import signal

import pytest
from billiard.exceptions import TimeLimitExceeded, WorkerLostError

from crash.processes import until
from integration.celery.scene import LONG
from outlast.ports.rows import Reason, Status

pytestmark = pytest.mark.xdist_group("celery_processes")  # one worker for all of them


def test_a_process_that_is_killed_is_a_failed_attempt_and_a_task_that_kills_it_ends(forked):
    key, result = forked.send("kills_its_process")
    with pytest.raises(WorkerLostError):
        result.get(timeout=LONG)
    row = forked.settled(result, Status.FAILED)
    assert len(forked.effects(key)) == 3, "without a limit Celery would deliver it again and again"
    assert [outcome for _, outcome, _ in forked.history(row)] == ["retry", "retry", "fail"]
    assert forked.letter_of(row).reason is Reason.EXHAUSTED


def test_what_was_killed_once_is_done_the_second_time(forked):
    key, result = forked.send("kills_its_process", 1)
    row = forked.settled(result)
    assert (len(forked.effects(key)), row.retry_count) == (2, 1)
    assert forked.history(row) == [(1, "retry", "WorkerLostError")]


def test_a_task_that_takes_too_long_is_retried_by_its_policy(forked):
    key, result = forked.send("endless")
    with pytest.raises(TimeLimitExceeded):
        result.get(timeout=LONG)
    row = forked.settled(result, Status.FAILED)
    assert (len(forked.effects(key)), row.retry_count) == (2, 2)
    assert {name for _, _, name in forked.history(row)} == {"TimeLimitExceeded"}


@pytest.mark.parametrize("member", ["__str__", "__getattr__", "__class__", "repr of an argument"])
@pytest.mark.parametrize("kind", ["SystemExit", "Unheard"])
def test_an_error_that_raises_while_it_is_read_is_one_dead_letter(forked, member, kind):
    """It is recorded before Celery reads it, and may then end the process."""
    _, result = forked.send("hostile", member, kind)
    row = forked.settled(result, Status.FAILED)
    assert row.retry_count == 1
    letter = forked.letter_of(row)
    assert (letter.reason, letter.error_type) == (Reason.UNREADABLE, "HostileError")
    other, done = forked.send("fine")
    assert done.get(timeout=LONG) == f"{other} is fine"
    result.get(timeout=LONG, propagate=False)  # the pool may first have to notice the end of the process
    assert result.failed()
    assert (forked.row_of(result).id, forked.letter_of(row).id) == (row.id, letter.id), "recorded once"


def test_a_process_that_is_killed_from_outside_is_counted_once(forked):
    key, result = forked.send("waits")
    pid = int(until(lambda: forked.effects(key), LONG, forked.said)[0][0])
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(forked.effects(key)) == 2, LONG, forked.said)
    row = forked.row_of(result)
    assert (row.status, row.attempt, row.retry_count) == (Status.RUNNING, 2, 1)
    (forked.folder / f"go-{key}").touch()
    assert forked.settled(result).retry_count == 1


def test_many_tasks_that_fail_at_once_all_come_to_their_end(forked):
    sent = [forked.send("flaky", 2) for _ in range(20)]
    for key, result in sent:
        row = forked.settled(result)
        assert (len(forked.effects(key)), row.retry_count) == (2, 1)
    (known,) = forked.store.workers()
    assert (known.alive, known.queues, known.concurrency, known.name) == (True, ("celery",), 2, "w1@scene")


def test_a_retry_of_celerys_own_that_is_taken_before_its_attempt_has_ended_is_not_dropped(forked):
    key, result = forked.send("overtaken")
    row = forked.settled(result)
    assert (len(forked.effects(key)), row.retry_count) == (3, 1)
    assert forked.effects(key)[1] != forked.effects(key)[2], "another process was quicker"


def test_an_order_by_hand_reaches_each_process(forked):
    def obeying():
        rows = [each for each in forked.store.breakers() if each.resource == "breaks.example.com"]
        return {int(each.process.rpartition(":")[2]) for each in rows if each.state == "open"}

    def all_obey():
        pool = set(forked.workers[0].pool())
        return len(pool) == 2 and pool <= obeying()

    forked.store.order_breaker("breaks.example.com", "open", 600.0)
    until(all_obey, LONG, lambda: f"{forked.workers[0].pool()} {forked.store.breakers()}")
