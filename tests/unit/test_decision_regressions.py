"""What a review of the decider and the worker found: waits that were asked for, stale decisions, hostile subscribers."""

import httpx
import pytest

import outlast
from outlast import RetryPolicy, errors, events
from outlast.decide.decision import Abort, DecisionReason, DecisionState, Defer, Fail, Place, decide
from outlast.failure import Category, Failure
from outlast.testing import fake_clock

ASKED = Failure(Category.RATE_LIMIT, retryable=True, http_status=429, retry_after=600.0)


@pytest.mark.parametrize("place", [Place.POLL, Place.TARGET])
def test_a_wait_that_was_asked_for_is_deferred_even_after_an_inner_retry(place):
    assert decide(ASKED, RetryPolicy(), DecisionState(place=place, nested=True)) == Defer(600.0)


def test_an_inner_retry_that_gave_up_is_not_multiplied():
    failure = Failure(Category.NETWORK, retryable=True)
    assert decide(failure, RetryPolicy(), DecisionState(nested=True)) == Fail(DecisionReason.NESTED)


def test_a_target_that_is_late_after_a_wait_is_judged_anew(monkeypatch):
    """A failure that aborts the job does so too when the wait took longer than the deadline."""
    app = outlast.App("memory://")
    policy = RetryPolicy(max_attempts=3, retry_on=Exception, base_delay=5, deadline=10)

    @app.job("late", policy=policy, max_failure_rate=1)
    def late(context, target):
        raise errors.AuthenticationError("the key is not valid")

    with fake_clock() as clock, pytest.MonkeyPatch.context() as clock_patch:  # undone before the clock is
        asleep = clock.sleep
        clock_patch.setattr("outlast.clock.sleep", lambda seconds: asleep(seconds + 60))
        monkeypatch.setattr(
            "outlast.jobs.runner.TargetRunner._wait", lambda self, seconds: asleep(seconds + 60) or True
        )
        summary = late.run(range(3), concurrency=1)
    assert (summary.state, summary.exit_code) == ("aborted", 1)
    app.close()


def test_late_is_an_abort_for_a_target():
    failure = Failure(Category.AUTHENTICATION, retryable=False)
    state = DecisionState(place=Place.TARGET, wanted=True, time_left=0.0)
    assert decide(failure, RetryPolicy(), state) == Abort(DecisionReason.ABORTED)


@pytest.mark.parametrize("kind", [events.TaskStarted, events.TaskEnded])
def test_a_subscriber_that_ends_its_thread_loses_no_task(kind):
    app, ran = outlast.App("memory://"), []

    @app.task
    def work() -> None:
        ran.append(1)

    def leave(event):
        raise SystemExit

    work.enqueue()
    unsubscribe = outlast.subscribe(leave, kind)
    try:
        app.worker().drain()
    finally:
        unsubscribe()
    counts = app.store.counts()
    assert counts.get("RUNNING", 0) == 0
    assert ran == ([1] if kind is events.TaskEnded else [])
    app.close()


def test_a_request_that_waits_for_a_cooldown_is_not_reported_as_given_up(caplog):
    transport = outlast.http.RetryTransport(
        httpx.MockTransport(lambda _: httpx.Response(429, headers={"Retry-After": "600"})), patience=1
    )
    with httpx.Client(transport=transport) as client:
        with pytest.raises(httpx.HTTPStatusError):
            client.get("http://a.test/")
        caplog.clear()
        for _ in range(3):
            with pytest.raises(errors.CoolingDownError):
                client.get("http://a.test/")
    assert not [record for record in caplog.records if record.name == "outlast.retry"]
