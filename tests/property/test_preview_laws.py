"""What `preview` and `explain` promise is what the loop does, second by second."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import outlast
from outlast import RetryPolicy
from outlast.errors import NetworkError
from outlast.testing import fake_clock

# Quarters of a second add up without rounding, so that a wait can end at the deadline exactly.
quarters = st.integers(0, 60).map(lambda n: n / 4)
jitters = st.sampled_from([None, "none", "full", "equal", "decorrelated", 0.5, 1.0])
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 8),
    backoff=st.sampled_from(["fixed", "linear", "exponential"])
    | st.builds(lambda waits: lambda n: waits[n % len(waits)], st.lists(quarters, min_size=1, max_size=4)),
    base_delay=quarters,
    max_delay=quarters,
    jitter=jitters,
    deadline=st.none() | quarters,
)
chances = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def waits_of(policy, chance=1.0):
    """The waits that the loop makes where every call fails at once; a wait of nothing is not slept."""
    moments = []
    with fake_clock(chance=chance) as clock:

        def fetch():
            moments.append(clock.monotonic())
            raise NetworkError("x")

        with pytest.raises(NetworkError):
            outlast.call(fetch, policy=policy)
    return [after - before for before, after in pairwise(moments)]


@given(policies)
@example(RetryPolicy(max_attempts=3, base_delay=1, deadline=2))
@example(RetryPolicy(max_attempts=3, base_delay=0, deadline=0))
def test_without_chance_the_preview_is_what_the_loop_does(policy):
    policy = policy.replace(jitter="none")
    schedule = policy.preview()
    assert [wait.most for wait in schedule.waits] == [wait.least for wait in schedule.waits] == waits_of(policy)


@given(policies)
def test_at_its_shortest_the_loop_makes_exactly_the_waits_of_the_preview(policy):
    assert [wait.least for wait in policy.preview().waits] == waits_of(policy, chance=0.0)


@given(policies)
def test_at_its_longest_the_loop_makes_those_that_are_not_in_doubt(policy):
    sure = [wait.most for wait in policy.preview().waits if policy.deadline is None or wait.total < policy.deadline]
    assert sure == waits_of(policy, chance=1.0)


@given(policies, chances)
def test_whatever_chance_brings_lies_within_the_preview(policy, chance):
    made, shown = waits_of(policy, chance), policy.preview().waits
    assert len(made) <= len(shown)
    assert all(each.least <= wait <= each.most for wait, each in zip(made, shown, strict=False))


@given(policies)
def test_an_explanation_counts_the_attempts_of_the_loop(policy):
    made = waits_of(policy, chance=1.0)
    action = outlast.explain(NetworkError("x"), policy=policy).action
    assert action.startswith(f"retry, {len(made) + 1} attempts" if made else "raise it")
