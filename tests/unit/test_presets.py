"""The presets as their seeds pin them: blog (B2), etl (E2), feed (F1) and worker (W3); C8 for a 429 without a hint."""

import httpx
import pytest

import outlast
from outlast import RETRYABLE, Category, RetryPolicy
from outlast.errors import ConfigError, NetworkError, PermanentError, RateLimitError, TemporaryAPIError
from outlast.testing import fake_clock


def answered(status, headers=None, request_headers=None):
    request = httpx.Request("GET", "https://example.com/page", headers=request_headers)
    return httpx.HTTPStatusError(
        "x", request=request, response=httpx.Response(status, headers=headers, request=request)
    )


def waits_of(policy, error, *, chance=1.0):
    with fake_clock(chance=chance) as clock, pytest.raises(type(error)):
        outlast.call(_fail, error, policy=policy)
    return clock.waits


def _fail(error):
    raise error


class TestBlog:
    policy = outlast.preset("blog")

    def test_b2_three_calls_two_and_four_seconds(self):
        assert waits_of(self.policy, NetworkError("x")) == [2, 4]
        assert self.policy.max_delay == 30

    @pytest.mark.parametrize(
        "error",
        [
            httpx.ReadTimeout("x"),
            httpx.ConnectError("x"),
            httpx.ReadError("x"),
            httpx.WriteError("x"),
            httpx.RemoteProtocolError("x"),
            answered(500),
            answered(502),
            answered(503),
        ],
    )
    def test_b2_what_is_retried(self, error):
        assert self.policy.retries(error)

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
    def test_b2_what_is_not(self, status):
        assert not self.policy.retries(answered(status))

    def test_c8_a_429_without_a_hint_waits_from_60_seconds(self):
        assert waits_of(self.policy, RateLimitError("x"), chance=0.0) == [60, 120]
        assert waits_of(self.policy, answered(429), chance=0.0) == [60, 120]
        assert all(wait >= 60 for wait in waits_of(self.policy, answered(429), chance=0.37))


class TestEtl:
    policy = outlast.preset("etl")

    def test_e2_five_attempts_four_waits(self):
        assert waits_of(self.policy, TemporaryAPIError("x")) == [1, 2, 4, 8]

    def test_e2_with_jitter(self):
        assert waits_of(self.policy, TemporaryAPIError("x"), chance=0.5) == [0.5, 1, 2, 4]

    @pytest.mark.parametrize("status", [400, 401, 403, 404])
    def test_e2_never(self, status):
        assert not self.policy.retries(answered(status))

    def test_c8_a_429_without_a_hint_waits_a_second_longer(self):
        assert waits_of(self.policy, RateLimitError("x")) == [2, 3, 5, 9]
        assert waits_of(self.policy, answered(429), chance=0.5) == [1.5, 2, 3, 5]


class TestFeed:
    policy = outlast.preset("feed")

    def test_f1_a_403_is_asked_again_after_one_two_and_four_seconds(self):
        assert waits_of(self.policy, answered(403)) == [1, 2, 4]

    @pytest.mark.parametrize("calls", [1, 2, 3, 4])
    def test_f1_success_at_any_point_returns(self, calls):
        answers = [answered(403)] * (calls - 1)

        def fetch():
            if answers:
                raise answers.pop()
            return "page"

        with fake_clock() as clock:
            assert outlast.call(fetch, policy=self.policy) == "page"
        assert clock.waits == [1, 2, 4][: calls - 1]

    @pytest.mark.parametrize(
        "error", [answered(404), answered(500), answered(401), httpx.ReadTimeout("x"), ValueError()]
    )
    def test_f1_anything_else_returns_at_once(self, error):
        assert waits_of(self.policy, error) == []

    def test_c4_a_403_with_credentials_is_another_matter(self):
        assert waits_of(self.policy, answered(403, request_headers={"Authorization": "Bearer x"})) == []


class TestWorker:
    policy = outlast.preset("worker")

    def test_w3_five_attempts_from_two_seconds_up_to_five_minutes(self):
        assert waits_of(self.policy, NetworkError("x")) == [2, 4, 8, 16]
        assert self.policy.replace(max_attempts=99).get_delay(50, chance=lambda: 1.0) == 300

    def test_w2_unknown_is_not_retried(self):
        assert waits_of(self.policy, ValueError("gremlins")) == []
        assert waits_of(self.policy, PermanentError("x")) == []

    def test_c8_a_429_without_a_hint_waits_a_second_longer(self):
        assert waits_of(self.policy, answered(429)) == [3, 5, 9, 17]


def test_they_ask_the_classifier_and_spread_their_waits():
    """C14 and C15."""
    for name in ("blog", "etl", "worker"):
        assert outlast.preset(name).retry_on is RETRYABLE
        assert outlast.preset(name).jitter == "full"
    assert outlast.preset("feed").retry_on == {Category.ACCESS_DENIED}
    assert outlast.preset("feed").jitter == "full"


def test_an_unknown_one_is_refused_by_name():
    with pytest.raises(ConfigError, match="'blogs' is not a preset; choose one of: blog, etl, feed, worker"):
        outlast.preset("blogs")


def test_they_can_be_changed():
    assert outlast.preset("blog").replace(max_attempts=9) == RetryPolicy(
        max_attempts=9,
        retry_on=RETRYABLE,
        backoff="exponential",
        base_delay=2.0,
        max_delay=30.0,
        jitter="full",
        overrides={Category.RATE_LIMIT: {"base_delay": 120.0, "max_delay": 300.0, "jitter": "equal"}},
    )


@pytest.mark.parametrize("name", ["blog", "feed"])
def test_a_new_jitter_applies_to_rate_limits_too(name):
    policy = outlast.preset(name).replace(jitter="none")
    assert policy.for_category(Category.RATE_LIMIT).jitter == "none"
    assert policy.for_category(Category.RATE_LIMIT).base_delay == 120.0
    assert outlast.preset(name).for_category(Category.RATE_LIMIT).jitter == "equal"
    given = {"rate_limit": {"jitter": 0.5}}
    assert policy.replace(jitter="full", overrides=given).for_category(Category.RATE_LIMIT).jitter == 0.5
    own = RetryPolicy(overrides={"rate_limit": RetryPolicy(jitter=0.2)}).replace(jitter="full")
    assert own.for_category(Category.RATE_LIMIT).jitter == 0.2, "a whole policy stays as it is"
