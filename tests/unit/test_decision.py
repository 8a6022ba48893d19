"""The decider, asked as a worker asks it after a failed attempt: without a clock and without a store."""

import pytest

import outlast
from outlast import Category, Failure
from outlast.decide.decision import (
    DEFER_LIMIT,
    DecisionReason,
    DecisionState,
    Defer,
    Fail,
    Place,
    Retry,
    decide,
)
from outlast.queue.admission import ClaimPace, ClaimPause

POLICY = outlast.RetryPolicy(
    max_attempts=3, retry_on=outlast.RETRYABLE, backoff="exponential", base_delay=10, max_delay=100
)


def failure(category=Category.NETWORK, **fields):
    return Failure(category, category.retryable, **fields)


def decide_task(what, policy=POLICY, **known):
    facts = {"place": Place.TASK, "attempt": 1, "wanted": what.retryable, "chance": lambda: 0.5} | known
    return decide(what, policy, DecisionState(**facts))


def test_a_retry_waits_as_the_policy_says():
    assert decide_task(failure()) == Retry(10)
    assert decide_task(failure(), attempt=2) == Retry(20)


def test_waits_in_the_queue_vary_by_a_tenth_unless_the_policy_sets_its_jitter():
    """C15."""
    assert decide_task(failure(), chance=lambda: 0.0) == Retry(9)
    assert decide_task(failure(), chance=lambda: 1.0) == Retry(11)
    assert decide_task(failure(), POLICY.replace(jitter=0), wanted=True, chance=lambda: 0.0) == Retry(10)


def test_reasons_to_give_up():
    assert decide_task(failure(), attempt=3) == Fail("exhausted")
    assert decide_task(failure(Category.NOT_FOUND)) == Fail("permanent")
    assert decide_task(failure(), expires_in=5) == Fail("expired")


def test_a_category_may_have_attempts_of_its_own():
    policy = POLICY.replace(overrides={Category.NETWORK: {"max_attempts": 7}})
    assert isinstance(decide_task(failure(), policy, attempt=6, wanted=True), Retry)
    assert decide_task(failure(), policy, attempt=7, wanted=True) == Fail("exhausted")


def test_a_wait_that_the_other_side_asks_for_uses_no_attempt():
    """C7: a worker never sleeps on it."""
    asked = failure(Category.RATE_LIMIT, retry_after=120.0)
    assert decide_task(asked) == Defer(120)
    assert decide_task(asked, attempt=99) == Defer(120)
    assert decide_task(failure(Category.API_TEMPORARY, retry_after=30.0)) == Defer(30)


def test_a_rate_limit_without_a_hint_uses_an_attempt_and_waits_a_second_longer():
    """C8: 1 s plus the policy's backoff, with full jitter if the policy sets none."""
    limited, exact = failure(Category.RATE_LIMIT), POLICY.replace(jitter=0)
    assert [decide_task(limited, chance=lambda each=each: each).delay for each in (0.0, 0.5, 1.0)] == [1, 6, 11]
    assert [decide_task(limited, attempt=each).delay for each in (1, 2)] == [6, 11]
    assert [decide_task(limited, exact, attempt=each).delay for each in (1, 2)] == [11, 21]
    assert decide_task(limited, exact.replace(max_delay=10)).delay == 10
    assert decide_task(limited, attempt=3) == Fail("exhausted")
    own = POLICY.replace(overrides={"rate_limit": {"base_delay": 90, "jitter": 0}})
    assert decide_task(limited, own).delay == 90


def test_our_own_retry_after_is_an_instruction():
    assert decide_task(failure(retry_after=0.0, exact=True)) == Retry(0, DecisionReason.HINT)
    assert decide_task(failure(retry_after=77.0, exact=True)) == Retry(77, DecisionReason.HINT)
    read_from_a_header = failure(Category.RATE_LIMIT, retry_after=5.0, exact=True)
    assert decide_task(read_from_a_header) == Defer(5)
    assert decide_task(read_from_a_header, counts_own_waits=True) == Retry(5, DecisionReason.HINT)
    assert decide_task(failure(Category.RATE_LIMIT, retry_after=0.0, exact=True)) == Retry(0, DecisionReason.HINT)


def test_a_quota_with_a_known_reset_is_deferred():
    """C12."""
    assert decide_task(failure(Category.QUOTA_EXHAUSTED, retry_after=3600.0)) == Defer(3600)
    assert decide_task(failure(Category.QUOTA_EXHAUSTED)) == Fail("permanent")


@pytest.mark.parametrize("name", ["BreakerOpenError", "ConcurrencyLimitError"])
def test_a_call_that_outlast_refused_uses_no_attempt(name):
    assert decide_task(failure(Category.API_TEMPORARY, exception_name=name, retry_after=9.0, exact=True)) == Defer(9)
    assert decide_task(failure(Category.API_TEMPORARY, exception_name=name), attempt=99).delay <= 1


def test_a_task_is_not_deferred_forever():
    asked = failure(Category.RATE_LIMIT, retry_after=3600.0)
    assert decide_task(asked, deferred_for=DEFER_LIMIT - 3601) == Defer(3600)
    assert decide_task(asked, deferred_for=DEFER_LIMIT - 3599) == Fail("expired")
    assert decide_task(asked, expires_in=3599) == Fail("expired")
    assert decide_task(asked, expires_in=3601, deferred_for=DEFER_LIMIT) == Defer(3600)


@pytest.mark.parametrize("place", Place)
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"wanted": False}, "permanent"),
        ({"wanted": None}, "broken"),
        ({"attempt": 3}, "exhausted"),
        ({"exhausted": True}, "exhausted"),
        ({"canary": True}, "canary"),
        ({"nested": True}, "nested"),
        ({"retries_off": True}, "off"),
        ({"time_left": 10.0}, "deadline"),
        ({"time_left": 0.0, "timed_out": True}, "deadline"),
        ({"expires_in": 5.0}, "expired"),
    ],
    ids=str,
)
def test_every_place_gives_up_for_the_same_reasons(place, facts, reason):
    state = DecisionState(**{"place": place, "chance": lambda: 0.5} | facts)
    assert decide(failure(), POLICY, state) == Fail(reason)


def test_a_policy_may_retry_what_an_inner_retry_gave_up_on():
    assert decide(failure(), POLICY.replace(nested=True), DecisionState(nested=True)) == Retry(10)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place.CALL, Retry(120, DecisionReason.HINT)),
        (Place.HTTP, Retry(120, DecisionReason.HINT)),
        (Place.TARGET, Retry(120, DecisionReason.HINT)),
        (Place.POLL, Defer(120)),
        (Place.TASK, Defer(120)),
    ],
)
def test_a_requested_wait_is_slept_in_calls_and_deferred_in_polls_and_tasks(place, expected):
    """C7."""
    asked = failure(Category.RATE_LIMIT, retry_after=120.0, http_status=429)
    assert decide(asked, POLICY, DecisionState(place=place)) == expected


@pytest.mark.parametrize("place", [Place.CALL, Place.HTTP, Place.TARGET])
@pytest.mark.parametrize("facts", [{"patience": 60.0}, {"time_left": 60.0}], ids=str)
def test_a_requested_wait_that_is_too_long_is_deferred(place, facts):
    asked = failure(Category.RATE_LIMIT, retry_after=120.0, http_status=429)
    assert decide(asked, POLICY, DecisionState(place=place, **facts)) == Defer(120)
    limited = failure(Category.RATE_LIMIT)
    patient = POLICY.replace(overrides={"rate_limit": {"base_delay": 90, "max_delay": 90}})
    assert decide(limited, patient, DecisionState(place=place, **facts)) == Defer(90)


def test_a_broken_backoff_function_ends_the_retries():
    state = DecisionState()
    assert decide(failure(), POLICY.replace(backoff=lambda attempt: 1 / 0), state) == Fail("broken")


@pytest.mark.parametrize("reason", [DecisionReason.BREAKER, DecisionReason.BUDGET])
def test_the_resource_is_asked_last(reason):
    """It may pay for the retry."""
    asked = []

    class Guarded(DecisionState):
        def refusal(self):
            asked.append(self.attempt)
            return reason

    assert decide(failure(), POLICY, Guarded()) == Fail(reason)
    assert decide(failure(), POLICY, Guarded(attempt=3)) == Fail("exhausted")
    assert asked == [1]


def test_a_fact_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="'atempt' is not a fact"):
        DecisionState(atempt=2)


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
