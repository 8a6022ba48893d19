"""When a run has failed: exact at the boundary (E5), and what forces exit code 1 (C11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.decide.decision import ABORT_CATEGORIES, Abort, DecisionState, Defer, Fail, Place, Retry, Skip, decide
from outlast.decide.gate import ENTITY_RATES, Counts, Gate
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.failure import Category, Failure


def verdict(failed, total, **settings):
    gate = Gate.for_entity(settings.pop("entity", None), settings.pop("rate", None), **settings)
    return gate.judge(Counts(success=total - failed, failed=failed))


@pytest.mark.parametrize(
    ("entity", "failed", "total", "code"),
    [
        ("tag", 1, 100, 0),
        ("tag", 1, 99, 1),
        ("ranking", 10, 1000, 0),
        ("genre", 11, 1000, 1),
        ("item", 50, 1000, 0),
        ("item", 51, 1000, 1),
        ("item", 0, 0, 0),
    ],
)
def test_the_rates_of_the_entities_are_exact_at_the_boundary(entity, failed, total, code):
    assert verdict(failed, total, entity=entity).exit_code == code


@given(st.integers(0, 10_000), st.integers(1, 1000))
def test_a_rate_that_is_no_binary_fraction_is_exact_too(hundredths, times):
    """7 of 100 is 0.07, though 0.07 * 100 is more than 7 in floating point."""
    rate, total = hundredths / 10_000, 10_000 * times
    gate = Gate(rate)
    assert gate.judge(Counts(success=total - hundredths * times, failed=hundredths * times)).exit_code == 0
    if hundredths < 10_000:
        assert gate.judge(Counts(success=total - hundredths * times - 1, failed=hundredths * times + 1)).exit_code == 1


@given(st.tuples(*[st.integers(0, 50)] * 5))
def test_a_verdict_gives_a_reason_exactly_when_it_is_a_failure(numbers):
    found = Gate(0.1, max_failures=20).judge(Counts(*numbers))
    assert bool(found.reasons) == bool(found.exit_code)
    assert 0 <= found.failure_rate <= 1
    assert Counts(*numbers).total == sum(numbers)


def test_no_target_is_no_failure():
    assert verdict(0, 0, rate=0.0) == (0, 0.0, ())


def test_with_fewer_targets_than_the_minimum_the_rate_does_not_count():
    assert verdict(1, 99, entity="tag", min_sample=100).exit_code == 0
    assert verdict(2, 100, entity="tag", min_sample=100).exit_code == 1
    assert verdict(99, 99, entity="tag", min_sample=100, max_failures=98).exit_code == 1


def test_a_number_of_failures_counts_whatever_their_share():
    assert verdict(3, 1000, rate=1, max_failures=3).exit_code == 0
    assert verdict(4, 1000, rate=1, max_failures=3).reasons == ("4 targets failed (at most 3 allowed)",)


def test_what_was_put_off_counts_as_failed_unless_it_may():
    counts = Counts(success=99, deferred=1)
    assert Gate(0.0).judge(counts).exit_code == 1
    assert Gate(0.0, defer_ok=True).judge(counts) == (0, 0.0, ())


def test_one_failure_at_the_database_fails_the_run():
    """C11."""
    assert Gate(1.0).judge(Counts(success=9999, failed=1, db_failed=1)).reasons == ("1 target failed at the database",)


def test_what_was_not_attempted_fails_the_run():
    found = Gate(1.0).judge(Counts(success=9, not_attempted=2), ended="aborted: no")
    assert found.reasons == ("aborted: no", "2 targets not attempted")


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.sampled_from([0.0, 0.07, 0.5, 1.0]))
def test_a_run_that_is_lost_is_so_whatever_becomes_of_the_rest(success, failed, rest, rate):
    gate, total = Gate(rate, max_failures=10), success + failed + rest
    lost = gate.is_lost(Counts(success, failed), total)
    best = gate.judge(Counts(success + rest, failed))
    assert lost == bool(best.exit_code)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), "0.1", True, None])
def test_a_rate_that_is_no_share_is_refused(rate):
    with pytest.raises(ConfigError, match="max_failure_rate"):
        Gate(rate)


@pytest.mark.parametrize("settings", [{"min_sample": -1}, {"min_sample": None}, {"max_failures": 1.5}])
def test_a_number_that_is_none_is_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Gate(0.1, **settings)


def test_an_entity_that_is_not_known_states_its_own_rate():
    with pytest.raises(ConfigError, match="tag 1%"):
        Gate.for_entity("shop", None)
    assert Gate.for_entity("shop", 0.2).max_failure_rate == 0.2
    assert Gate.for_entity("tag", 0.2).max_failure_rate == 0.2
    assert set(ENTITY_RATES) == {"ranking", "genre", "tag", "item"}


def failure(category, **fields):
    return Failure(category, retryable=category.retryable, exception_name="E", message="m", rule="r", **fields)


def decide_target(what, *, policy=None, **facts):
    """What becomes of a target of a job whose handler raised this."""
    return decide(what, policy or RetryPolicy(), DecisionState(**{"place": Place.TARGET, "wanted": False} | facts))


@pytest.mark.parametrize("category", list(Category))
def test_every_category_has_its_decision(category):
    """E11, C10: a failure that every other target would meet too ends the job, any other fails alone."""
    found = decide_target(failure(category))
    assert isinstance(found, Abort if category in ABORT_CATEGORIES else Fail)


def test_the_job_ends_for_what_no_other_target_would_escape():
    assert {
        Category.ACCESS_DENIED,
        Category.AUTHENTICATION,
        Category.QUOTA_EXHAUSTED,
        Category.CONFIGURATION,
        Category.INTEGRITY,
    } == ABORT_CATEGORIES


def test_a_quota_whose_renewal_is_known_is_waited_for():
    """C12."""
    assert decide_target(failure(Category.QUOTA_EXHAUSTED, retry_after=30.0)) == Defer(30.0)


def test_a_wait_that_cannot_be_slept_through_is_deferred():
    """C7."""
    asked = failure(Category.RATE_LIMIT, retry_after=7200.0)
    assert decide_target(asked, wanted=True) == Defer(7200.0)
    assert decide_target(failure(Category.RATE_LIMIT), wanted=True, attempt=3) == Fail("exhausted")


def test_a_target_is_retried_before_the_job_ends():
    """A policy may retry what would end the job; the job ends when it gives up."""
    denied = failure(Category.ACCESS_DENIED)
    assert isinstance(decide_target(denied, wanted=True), Retry)
    assert isinstance(decide_target(denied, wanted=True, attempt=3), Abort)


def test_a_handler_that_asks_for_the_end_gets_it():
    assert decide_target(failure(Category.UNKNOWN), aborts=True) == Abort("aborted")
    assert decide_target(failure(Category.NETWORK), wanted=True, aborts=True) == Abort("aborted")


def test_a_handler_that_skips_its_target_gets_no_retry():
    assert decide_target(failure(Category.NETWORK), wanted=True, skips=True) == Skip("skipped")


def test_a_job_without_an_entity_is_told_what_to_give():
    with pytest.raises(ConfigError) as raised:
        Gate.for_entity(None, None)
    assert str(raised.value) == (
        "there is no default failure rate without an entity; give max_failure_rate=…, such as 0.05, or an entity with a "
        "default: ranking 1%, genre 1%, tag 1%, item 5%"
    )
