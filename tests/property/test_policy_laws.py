"""Laws of waiting: delays bounded, hints respected, deadlines kept, budgets never overdrawn."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import outlast
from outlast import Budget, Category, Failure, RetryPolicy
from outlast.errors import NetworkError
from outlast.testing import fake_clock

seconds = st.floats(0, 1e9, allow_nan=False) | st.just(0) | st.floats(0, 5e-324)
chances = st.floats(0, 1, exclude_max=True)
jitters = st.sampled_from([None, "none", "full", "equal", "decorrelated", True, False]) | st.floats(0, 1)
backoffs = st.sampled_from(["fixed", "linear", "exponential"]) | st.builds(
    lambda values: lambda n: values[n % len(values)], st.lists(st.floats(0, 1e300), min_size=1)
)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 8),
    backoff=backoffs,
    base_delay=st.floats(0, 1e308),
    max_delay=seconds,
    jitter=jitters,
)
attempts = st.integers(1, 10_000)


@given(policies, attempts, chances, st.none() | seconds)
def test_every_delay_is_finite_and_between_zero_and_the_cap(policy, attempt, chance, previous):
    """Pitfalls 8 and 9."""
    delay = policy.get_delay(attempt, previous=previous, chance=lambda: chance)
    assert math.isfinite(delay)
    assert 0 <= delay <= policy.max_delay


@given(policies, attempts, chances, st.floats(0, 3600))
def test_a_hint_is_a_lower_bound_and_jitter_adds_at_most_the_cap(policy, attempt, chance, hint):
    """C7."""
    failure = Failure(Category.RATE_LIMIT, retryable=True, retry_after=hint)
    wait = policy.delay_after(failure, attempt, chance=lambda: chance)
    assert hint <= wait <= hint + policy.max_delay


@given(policies, attempts, chances, st.floats(0, 1e6))
def test_an_instruction_is_used_as_it_is(policy, attempt, chance, asked):
    failure = Failure(Category.NETWORK, retryable=True, retry_after=asked, exact=True)
    assert policy.delay_after(failure, attempt, chance=lambda: chance) == asked


@given(policies)
def test_the_preview_holds_what_comes(policy):
    schedule = policy.preview()
    assert len(schedule.waits) == policy.max_attempts - 1
    assert all(0 <= wait.least <= wait.most <= policy.max_delay for wait in schedule.waits)
    assert str(schedule)


@given(
    policies,
    st.floats(0, 100),
    st.lists(st.floats(0, 40), min_size=8, max_size=8),
    st.lists(st.none() | st.floats(0, 50), min_size=8, max_size=8),
    chances,
)
def test_no_attempt_starts_and_no_wait_ends_after_the_deadline(policy, deadline, durations, hints, chance):
    """Pitfall 5."""
    starts = []
    with fake_clock(chance=chance) as clock:
        began = clock.monotonic()

        def fetch():
            number = len(starts)
            starts.append(clock.monotonic() - began)
            clock.advance(durations[number])
            raise NetworkError("x", retry_after=hints[number])

        with pytest.raises(NetworkError) as caught:
            outlast.call(fetch, policy=policy.replace(deadline=deadline))
    report = caught.value.__outlast__
    assert starts[0] == 0
    assert all(start < deadline for start in starts[1:])
    assert len(report.attempts) == len(starts) <= policy.max_attempts
    assert report.reason in {"exhausted", "deadline", "deferred"}
    if report.reason == "deferred":
        assert report.retry_at == pytest.approx(clock.now() + hints[len(starts) - 1])


@given(
    st.floats(1, 50),
    st.floats(0, 20),
    st.lists(st.floats(0, 5), max_size=200),
)
def test_a_budget_never_gives_more_than_it_holds_and_gains(capacity, per_second, steps):
    budget, now, taken = Budget(capacity, per_second), 0.0, 0
    for step in steps:
        now += step
        taken += budget.take(now)
        assert 0 <= budget.tokens <= capacity
        assert taken <= capacity + per_second * now + 1e-6


@given(st.integers(1, 20), st.integers(1, 60))
def test_a_budget_bounds_the_retries_of_many_calls(capacity, calls):
    resource = outlast.Resource("law", budget=Budget(capacity, 0))
    paid = sum(resource.pay_for_retry() for _ in range(calls))
    assert paid == min(capacity, calls)
