"""What is written for a suspect that took its process down, or found none."""

import pytest

import outlast
from outlast.decide.decision import DEFER_LIMIT
from outlast.ports.rows import Claimed, Kind, Reason
from outlast.queue.settlement import settle_crash, settle_failure, settle_no_process
from outlast.queue.task_failure import task_failure_of

CLAIMED = Claimed(1, 1, "work", "{}", 2, 0, "api", None, 0.0, started=True, suspect=True)


@pytest.fixture
def work():
    app = outlast.App("memory://", policy=outlast.RetryPolicy(max_attempts=3))
    return app.task(name="work", resource="api")(lambda: None)


def test_the_waits_after_crashes_get_longer(work):
    verdict = task_failure_of(RuntimeError("gone"), work.policy)

    outcomes = [settle_crash(work, CLAIMED._replace(crash_count=n), verdict, 5).settlement for n in range(5)]

    assert [each.delay for each in outcomes] == [1, 10, 60, 60, 0]
    assert [each.reason for each in outcomes] == [None] * 4 + [Reason.CRASH]


def test_one_without_a_process_waits_for_it_and_its_resource_does_not(work):
    outcome = settle_no_process(work, CLAIMED, "too many processes").settlement

    assert (outcome.kind, outcome.suspect, outcome.delay) == (Kind.DEFER, True, 60)
    assert outcome.note.error_message == "too many processes"


def test_but_not_for_ever(work):
    outcome = settle_no_process(work, CLAIMED._replace(deferred_for=DEFER_LIMIT), "too many processes").settlement

    assert (outcome.kind, outcome.reason) == (Kind.FAIL, Reason.EXPIRED)


def test_one_that_fails_for_good_apart_is_tried_in_the_worker_while_there_are_attempts(work):
    """Else one that fails apart and takes workers down would do both for ever."""
    verdict = task_failure_of(KeyError("client"), work.policy)

    outcomes = [
        settle_failure(work, CLAIMED._replace(retry_count=n), verdict, final=False, suspect=True).settlement
        for n in range(3)
    ]

    assert [(each.kind, each.suspect) for each in outcomes] == [(Kind.RETRY, False)] * 2 + [(Kind.FAIL, False)]
