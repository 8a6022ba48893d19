"""What a worker decides after a failed attempt, without a clock and without a store."""

import pytest

import outlast
from outlast import Category, Failure
from outlast.decide.decision import DEFER_LIMIT, Defer, Fail, Retry, decide
from outlast.queue.admission import ClaimPace, ClaimPause

POLICY = outlast.RetryPolicy(
    max_attempts=3, retry_on=outlast.RETRYABLE, backoff="exponential", base_delay=10, max_delay=100
)


def failure(category=Category.NETWORK, **fields):
    return Failure(category, category.retryable, **fields)


def decided(what, **known):
    return decide(what, POLICY, **{"attempt": 1, "wanted": what.retryable, "chance": lambda: 0.5} | known)


def test_retried_after_the_policys_wait():
    assert decided(failure()) == Retry(10)
    assert decided(failure(), attempt=2) == Retry(20)


def test_waits_in_the_queue_vary_by_a_tenth_unless_the_policy_says():
    """C15."""
    assert decided(failure(), chance=lambda: 0.0) == Retry(9)
    assert decided(failure(), chance=lambda: 1.0) == Retry(11)
    assert decide(failure(), POLICY.replace(jitter=0), attempt=1, wanted=True, chance=lambda: 0.0) == Retry(10)


def test_the_ends():
    assert decided(failure(), attempt=3) == Fail("exhausted")
    assert decided(failure(Category.NOT_FOUND)) == Fail("permanent")
    assert decided(failure(), expires_in=5) == Fail("expired")


def test_a_category_may_have_attempts_of_its_own():
    policy = POLICY.replace(overrides={Category.NETWORK: {"max_attempts": 7}})
    assert isinstance(decide(failure(), policy, attempt=6, wanted=True), Retry)
    assert decide(failure(), policy, attempt=7, wanted=True) == Fail("exhausted")


def test_what_the_other_side_asks_for_spends_no_attempt():
    """C7: a worker never sleeps on it."""
    asked = failure(Category.RATE_LIMIT, retry_after=120.0)
    assert decided(asked) == Defer(120)
    assert decided(asked, attempt=99) == Defer(120)
    assert decided(failure(Category.API_TEMPORARY, retry_after=30.0)) == Defer(30)
    assert decided(failure(Category.RATE_LIMIT)) == Retry(10)  # C8: no hint, the worker's own backoff


def test_our_own_retry_after_is_an_instruction():
    assert decided(failure(retry_after=0.0, exact=True)) == Retry(0)
    assert decided(failure(retry_after=77.0, exact=True)) == Retry(77)
    assert decided(failure(Category.RATE_LIMIT, retry_after=5.0, exact=True)) == Defer(5)  # whoever has read the header
    assert decided(failure(Category.RATE_LIMIT, retry_after=0.0, exact=True)) == Retry(0)


def test_a_quota_with_a_known_reset_is_waited_for():
    """C12."""
    assert decided(failure(Category.QUOTA_EXHAUSTED, retry_after=3600.0)) == Defer(3600)
    assert decided(failure(Category.QUOTA_EXHAUSTED)) == Fail("permanent")


@pytest.mark.parametrize("name", ["BreakerOpenError", "ConcurrencyLimitError"])
def test_what_we_held_back_ourselves_spends_no_attempt(name):
    assert decided(failure(Category.API_TEMPORARY, exception_name=name, retry_after=9.0, exact=True)) == Defer(9)
    assert decided(failure(Category.API_TEMPORARY, exception_name=name), attempt=99).delay <= 1


def test_deferring_ends():
    asked = failure(Category.RATE_LIMIT, retry_after=3600.0)
    assert decided(asked, deferred_for=DEFER_LIMIT - 3601) == Defer(3600)
    assert decided(asked, deferred_for=DEFER_LIMIT - 3599) == Fail("expired")
    assert decided(asked, expires_in=3599) == Fail("expired")
    assert decided(asked, expires_in=3601, deferred_for=DEFER_LIMIT) == Defer(3600)


def test_the_pause_doubles_then_probes():
    pause = ClaimPause()
    assert pause.limit(0, 10) == 10
    waits, now = [], 0.0
    for _ in range(9):
        waits.append(pause.failed(now, "disk full"))
        assert pause.limit(now, 10) == 0
        now = pause.until
        assert pause.limit(now, 10) == 1
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    pause.failed(now, "disk full")
    pause.succeeded(now)  # one that had begun before: says nothing about now
    assert pause.reason
    pause.succeeded(pause.until)
    assert (pause.limit(now, 10), pause.reason) == (10, "")
    assert pause.failed(now, "again") == 5


def test_failures_that_come_together_count_once():
    pause = ClaimPause()
    assert pause.failed(0, "disk full") == 5
    assert pause.failed(1, "disk full") == 4
    assert pause.limit(5, 10) == 1


def test_slow_tasks_are_taken_one_by_one_and_quick_ones_by_the_hundred():
    pace, now = ClaimPace(10, 0.0), 0.0
    assert (pace.ahead, pace.held) == (0, 0)
    for _ in range(20):
        pace.finished(1, now := now + 60)
    assert (pace.ahead, pace.held) == (0, 0)
    for _ in range(20):
        pace.finished(20, now := now + 0.1)
    assert 3 <= pace.ahead <= 4
    assert pace.held == 10
    for _ in range(20):
        pace.finished(500, now := now + 0.01)
    assert (pace.ahead, pace.held) == (500, 0)
    pace.stalled(now)
    assert (pace.ahead, pace.held) == (0, 0)


def test_what_ends_together_by_chance_is_no_pace():
    """Four tasks of a second each, of which some end within a millisecond of each other."""
    pace, now = ClaimPace(4, 0.0), 0.0
    for _ in range(10):
        now += 1.0
        for _ in range(4):
            pace.finished(1, now := now + 0.001)
            assert pace.ahead == 0
