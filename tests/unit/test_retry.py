"""The policy's arithmetic (R1, R2, C2) and which errors are retried where (C14)."""

import asyncio
import pickle

import pytest

import outlast
from outlast import RETRYABLE, RetryPolicy
from outlast.errors import ConfigError, NetworkError, PermanentError


class TestPolicy:
    def test_exponential_linear_and_fixed(self):
        assert [RetryPolicy(backoff="exponential").get_delay(n) for n in (1, 2, 3)] == [1, 2, 4]
        assert [RetryPolicy(backoff="linear", base_delay=5).get_delay(n) for n in (1, 2, 3)] == [5, 10, 15]
        assert [RetryPolicy(base_delay=0.5).get_delay(n) for n in (1, 2, 3)] == [0.5, 0.5, 0.5]

    def test_the_cap_holds_for_every_attempt(self):
        policy = RetryPolicy(backoff="exponential", base_delay=10, max_delay=30)
        assert [policy.get_delay(n) for n in (1, 2, 3, 10, 10_000)] == [10, 20, 30, 30, 30]
        assert RetryPolicy(backoff="exponential", base_delay=0).get_delay(10_000) == 0

    def test_max_retries_counts_calls(self):
        assert RetryPolicy(max_retries=3).should_retry(Exception(), attempt=2)
        assert not RetryPolicy(max_retries=3).should_retry(Exception(), attempt=3)
        assert RetryPolicy(max_retries=0).max_attempts == RetryPolicy(max_retries=1).max_attempts == 1
        assert RetryPolicy(max_attempts=4).max_retries == 4
        assert RetryPolicy().max_attempts == 3

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"max_attempts": 3, "max_retries": 3}, "two names of the same setting"),
            ({"max_attempts": 0}, "max_attempts is 0; give a whole number, 1 or more"),
            ({"max_retries": -1}, "max_retries is -1; give a whole number, 0 or more"),
            ({"max_attempts": 2.5}, "max_attempts is 2.5"),
            ({"max_attempts": True}, "max_attempts is True"),
            ({"backoff": "quadratic"}, "'quadratic' is not a backoff; choose one of: fixed, linear, exponential"),
            ({"base_delay": -1}, "base_delay is -1"),
            ({"base_delay": float("nan")}, "base_delay is nan"),
            ({"max_delay": float("inf")}, "max_delay is inf"),
            ({"retry_on": "ConnectionError"}, "'ConnectionError' is not a category"),
            ({"retry_on": (ConnectionError, 3)}, "in a list give exception classes and names of categories"),
            ({"retry_on": [ConnectionError, "nope"]}, "'nope' is not a category"),
            ({"retry_on": {"nope"}}, "'nope' is not a category"),
            ({"retry_on": int}, "retry_on is <class 'int'>"),
        ],
    )
    def test_bad_settings_are_refused(self, settings, message):
        with pytest.raises(ValueError, match=message) as caught:
            RetryPolicy(**settings)
        assert isinstance(caught.value, ConfigError)

    def test_is_frozen_and_survives_pickling(self):
        policy = RetryPolicy(retry_on=RETRYABLE)
        with pytest.raises(AttributeError):
            policy.max_attempts = 7
        copy = pickle.loads(pickle.dumps(policy))
        assert copy == policy
        assert copy.retries(NetworkError("x"))


class TestWhichErrors:
    """C14."""

    def test_not_given_means_every_exception_but_a_permanent_one(self):
        policy = RetryPolicy()
        assert policy.should_retry(ValueError(), attempt=1)
        assert not policy.should_retry(PermanentError(), attempt=1)
        assert not policy.should_retry(KeyboardInterrupt(), attempt=1)

    def test_types_decide_where_given(self):
        policy = RetryPolicy(retry_on=(ConnectionError,))
        assert policy.should_retry(ConnectionResetError(), attempt=1)
        assert not policy.should_retry(ValueError(), attempt=1)
        assert RetryPolicy(retry_on=(PermanentError,)).should_retry(PermanentError(), attempt=1)
        assert RetryPolicy(retry_on=ValueError).should_retry(ValueError(), attempt=1)

    def test_categories_and_predicates(self):
        assert RetryPolicy(retry_on={"rate_limit"}).retries(outlast.errors.RateLimitError("x"))
        assert not RetryPolicy(retry_on={"rate_limit"}).retries(NetworkError("x"))
        assert RetryPolicy(retry_on=outlast.Category.NETWORK).retries(NetworkError("x"))
        assert RetryPolicy(retry_on=lambda error: "odd" in str(error)).retries(ValueError("odd"))

    def test_retryable_asks_the_classifier(self):
        policy = RetryPolicy(retry_on=RETRYABLE)
        assert policy.retries(TimeoutError())
        assert policy.retries(outlast.errors.RetryableError("x"))
        assert not policy.retries(ValueError())

    def test_an_empty_tuple_retries_nothing(self):
        assert not RetryPolicy(retry_on=()).retries(ConnectionError())

    def test_bare_retry_means_what_the_classifier_calls_retryable(self, waits):
        calls = []

        @outlast.retry
        def fetch(error):
            calls.append(1)
            raise error

        for error, expected in ((TimeoutError("x"), 5), (ValueError("x"), 1), (PermanentError("x"), 1)):
            calls.clear()
            with pytest.raises(type(error)):
                fetch(error)
            assert len(calls) == expected
        assert len(waits) == 4
        assert all(0 <= wait <= most for wait, most in zip(waits, [0.5, 1, 2, 4], strict=True))

    @pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_is_no_exception_passes_at_once(self, stop, waits):
        calls = []

        @outlast.retry(retry_on=lambda error: True)
        def fetch():
            calls.append(1)
            raise stop

        with pytest.raises(stop):
            fetch()
        assert len(calls) == 1


class TestRetry:
    def test_sync_success_after_failures(self, waits):
        answers = [NetworkError("x", retry_after=3), NetworkError("x"), "done"]

        @outlast.retry(policy=RetryPolicy(max_attempts=3, base_delay=1))
        def fetch(url, *, depth):
            """Fetch it."""
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return url, depth, answer

        assert fetch("u", depth=2) == ("u", 2, "done")
        assert fetch.__doc__ == "Fetch it."
        assert waits == [3, 1]

    def test_async(self):
        calls = []

        @outlast.retry(policy=RetryPolicy(max_attempts=2, base_delay=0))
        async def fetch():
            calls.append(1)
            raise NetworkError("x")

        with pytest.raises(NetworkError):
            asyncio.run(fetch())
        assert len(calls) == 2

    def test_a_generator_is_refused(self):
        with pytest.raises(ConfigError, match="is a generator"):

            @outlast.retry
            def items():
                yield 1

    def test_overrides_follow_the_other_settings(self):
        fetch = outlast.retry(max_attempts=2, overrides={"network": {"base_delay": 3}})(lambda: None)
        policy = fetch.__outlast_policy__
        assert policy.for_category(outlast.Category.NETWORK).base_delay == 3
        assert policy.for_category(outlast.Category.NETWORK).max_attempts == 2
        assert policy.for_category(outlast.Category.RATE_LIMIT) is policy
        with pytest.raises(ConfigError, match="overrides is 5; give a dict"):
            outlast.retry(overrides=5)

    def test_a_policy_and_settings_are_refused(self):
        with pytest.raises(ConfigError, match="not both"):
            outlast.retry(policy=RetryPolicy(), max_attempts=3)


@pytest.fixture
def waits(monkeypatch):
    recorded = []
    monkeypatch.setattr("outlast.clock.sleep", recorded.append)
    return recorded


@pytest.mark.parametrize("given", [5, "blog", 0, {"max_attempts": 5}, [ConnectionError]])
def test_what_is_neither_a_function_nor_a_policy_is_refused(given):
    with pytest.raises(ConfigError) as raised:
        outlast.retry(given)
    assert str(raised.value) == (
        f"retry() got {given!r}; give a function, a policy such as retry(outlast.preset('blog')), or settings by name "
        "such as retry(max_attempts=5)"
    )
