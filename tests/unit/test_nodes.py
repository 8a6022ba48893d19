"""Nodes (R3): the policy, the shorthands, sync and async; what the seed's own tests ask, in our words."""

import anyio
import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import ConfigError, NetworkError, PermanentError
from outlast.testing import fake_clock


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


def flaky(error, calls, failures=2):
    def fetch():
        calls.append(1)
        if len(calls) <= failures:
            raise error
        return "success"

    return fetch


@pytest.mark.parametrize(
    "settings",
    [
        {"retry_policy": RetryPolicy(max_retries=3, retry_on=(ConnectionError,))},
        {"retries": 3, "retry_on": (ConnectionError,)},
        {"retries": 3},
    ],
    ids=["policy", "shorthand with types", "shorthand"],
)
class TestRetries:
    def test_it_succeeds_on_the_third_call(self, settings, clock):
        calls = []
        assert outlast.node(**settings)(flaky(ConnectionError(), calls))() == "success"
        assert (len(calls), clock.waits) == (3, [1, 1])

    def test_three_calls_and_no_more(self, settings):
        calls = []
        with pytest.raises(ConnectionError):
            outlast.node(**settings)(flaky(ConnectionError(), calls, failures=9))()
        assert len(calls) == 3

    def test_other_errors_are_raised_at_once_unless_every_one_is_meant(self, settings):
        calls = []
        step = outlast.node(**settings)(flaky(ValueError("not retryable"), calls))
        if settings == {"retries": 3}:
            assert step() == "success"
        else:
            with pytest.raises(ValueError, match="not retryable"):
                step()
            assert len(calls) == 1

    def test_async(self, settings):
        calls = []
        fetch = flaky(ConnectionError(), calls)

        @outlast.node(**settings)
        async def step():
            return fetch()

        assert anyio.run(step) == "success"
        assert len(calls) == 3


def test_waits_grow(clock):
    policy = RetryPolicy(max_retries=3, backoff="exponential", base_delay=0.1)
    outlast.node(retry_policy=policy)(flaky(ConnectionError(), []))()
    assert clock.waits == [0.1, 0.2]


def test_bare_it_is_called_once():
    calls = []

    @outlast.node
    def step():
        calls.append(1)
        raise NetworkError("x")

    with pytest.raises(NetworkError):
        step()
    assert len(calls) == 1


@pytest.mark.parametrize("retries", [0, 1])
def test_c2_zero_and_one_both_mean_one_call(retries):
    calls = []
    with pytest.raises(NetworkError):
        outlast.node(retries=retries)(flaky(NetworkError("x"), calls))()
    assert len(calls) == 1


def test_c14_a_permanent_error_is_retried_only_where_it_is_named():
    for settings, expected in (({"retries": 3}, 1), ({"retries": 3, "retry_on": (PermanentError,)}, 3)):
        calls = []
        with pytest.raises(PermanentError):
            outlast.node(**settings)(flaky(PermanentError("x"), calls, failures=9))()
        assert len(calls) == expected


def test_pitfall_19_an_empty_retry_on_retries_nothing():
    calls = []
    with pytest.raises(ConnectionError):
        outlast.node(retries=3, retry_on=())(flaky(ConnectionError(), calls))()
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"retry_policy": RetryPolicy(), "retries": 3}, "not both"),
        ({"retry_policy": RetryPolicy(), "retry_on": ()}, "not both"),
        ({"retry_on": (ValueError,)}, "retry_on needs retries"),
        ({"retries": -1}, "max_retries is -1"),
    ],
)
def test_what_contradicts_itself_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        outlast.node(**settings)


def test_one_policy_serves_many_nodes():
    policy, calls = RetryPolicy(max_attempts=3), ([], [])
    for each in calls:
        assert outlast.node(retry_policy=policy)(flaky(ConnectionError(), each))() == "success"
    assert [len(each) for each in calls] == [3, 3]


def test_a_node_is_a_function_like_any_other():
    @outlast.node(retries=2)
    def double(value: int) -> int:
        """Twice."""
        return 2 * value

    assert (double(4), double.__name__, double.__doc__) == (8, "double", "Twice.")
    assert outlast.with_policy(double, max_attempts=1)(5) == 10
