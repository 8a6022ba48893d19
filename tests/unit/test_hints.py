"""What the other side asks for: C7, C8 and pitfall 24, with the errors that httpx itself raises."""

import asyncio

import httpx
import pytest

import outlast
from outlast import Category, Failure, RetryPolicy
from outlast.errors import NetworkError, RateLimitError, RetryableError
from outlast.http import RetryTransport
from outlast.testing import failing, fake_clock

POLICY = RetryPolicy(max_attempts=2, retry_on=outlast.RETRYABLE, base_delay=1)


@pytest.fixture(autouse=True)
def clock():
    with fake_clock(start=1_800_000_000, chance=0.5) as clock:
        yield clock


def answered(status, **headers):
    request = httpx.Request("GET", "https://example.com/")
    response = httpx.Response(
        status, headers={name.replace("_", "-"): value for name, value in headers.items()}, request=request
    )
    try:
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        return error
    raise AssertionError


def fails(error, policy=POLICY):
    calls = []

    def fetch():
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        outlast.call(fetch, policy=policy)
    assert caught.value is error
    return len(calls), error.__outlast__


@pytest.mark.parametrize("status", [429, 503])
def test_c7_a_hint_is_slept_in_full(status, clock):
    assert fails(answered(status, Retry_After="120"))[0] == 2
    assert clock.waits == [120]


def test_c7_a_hint_is_a_lower_bound(clock):
    fails(answered(429, Retry_After="3"), POLICY.replace(base_delay=10))
    assert clock.waits == [10]


def test_c7_max_delay_does_not_shorten_it(clock):
    fails(answered(429, Retry_After="120"), POLICY.replace(max_delay=5))
    assert clock.waits == [120]


@pytest.mark.parametrize("retry_on", [None, (httpx.HTTPError,), lambda error: True, {Category.RATE_LIMIT}])
def test_c7_it_counts_for_every_form_of_retry_on(retry_on, clock):
    fails(answered(429, Retry_After="120"), RetryPolicy(max_attempts=2, retry_on=retry_on))
    assert clock.waits == [120]


def test_c7_it_counts_where_the_error_was_wrapped(clock):
    error = RuntimeError("collecting failed")
    error.__cause__ = answered(429, Retry_After="120")
    fails(error, RetryPolicy(max_attempts=2))
    fails(ExceptionGroup("all", [answered(429, Retry_After="90")]), RetryPolicy(max_attempts=2))
    assert clock.waits == [120, 90]


def test_c7_jitter_on_a_hint_only_adds(clock):
    fails(answered(429, Retry_After="120"), POLICY.replace(jitter="full", base_delay=8))
    assert clock.waits == [124]


def test_pitfall_24_a_hint_beyond_the_deadline_is_handed_back(clock):
    calls, report = fails(answered(429, Retry_After="120"), POLICY.replace(deadline=60))
    assert (calls, clock.waits) == (1, [])
    assert (report.reason, report.retry_at) == ("deferred", 1_800_000_120)


def test_pitfall_24_a_hint_beyond_the_cap_is_handed_back(clock):
    calls, report = fails(answered(429, Retry_After=str(365 * 86400)))
    assert (calls, clock.waits) == (1, [])
    assert (report.reason, report.retry_at) == ("deferred", 1_800_003_600)


def test_c7_up_to_the_cap_it_is_slept(clock):
    assert fails(answered(429, Retry_After="3600"))[0] == 2
    assert clock.waits == [3600]


@pytest.mark.parametrize(("asked", "waits"), [(0, []), (0.25, [0.25]), (7, [7])])
def test_c7_our_own_retry_after_is_an_instruction(asked, waits, clock):
    """A defect of the seed: 0 was dropped."""
    for kind in (RetryableError, NetworkError, RateLimitError):
        clock.waits.clear()
        assert fails(kind("x", retry_after=asked), POLICY.replace(jitter="none"))[0] == 2
        assert clock.waits == waits


def test_our_own_errors_without_a_retry_after_wait_as_the_policy_says(clock):
    """C8: a rate limit a second longer."""
    for kind in (RetryableError, NetworkError, RateLimitError):
        assert fails(kind("x", retry_after=None), POLICY.replace(jitter="none"))[0] == 2
    assert clock.waits == [1, 1, 2]


def test_c7_our_own_is_not_spread(clock):
    fails(RetryableError("x", retry_after=7), POLICY.replace(jitter="full", base_delay=30))
    assert clock.waits == [7]


def test_c8_without_a_hint_a_bare_retry_waits_a_second_plus_its_backoff(clock):
    error = answered(429)
    with pytest.raises(httpx.HTTPStatusError):
        outlast.retry(_raising(error))()
    assert clock.waits == [1.25, 1.5, 2, 3]
    assert error.__outlast__.reason == "exhausted"
    assert outlast.classify(error).retry_after is None


def test_c8_in_async_code_too(clock):
    async def fetch():
        raise answered(429)

    with pytest.raises(httpx.HTTPStatusError):
        asyncio.run(outlast.retry(fetch)())
    assert clock.waits == [1.25, 1.5, 2, 3]


def test_c8_in_a_block_too(clock):
    with pytest.raises(httpx.HTTPStatusError):
        for attempt in outlast.attempts():
            with attempt:
                raise answered(429)
    assert clock.waits == [1.25, 1.5, 2, 3]


def test_c8_a_retry_transport_without_settings_waits_the_same(clock):
    sent = []

    def answer(request):
        sent.append(request)
        return httpx.Response(429 if len(sent) < 5 else 200, text="fine")

    with httpx.Client(transport=RetryTransport(httpx.MockTransport(answer))) as client:
        assert client.get("https://example.com/").text == "fine"
    assert clock.waits == [1.25, 1.5, 2, 3]


@pytest.mark.parametrize(("jitter", "waits"), [(0, [11, 21]), ("none", [11, 21]), (None, [6, 11]), (0.1, [11, 21])])
def test_c8_the_jitter_of_the_policy_applies_to_the_backoff(jitter, waits, clock):
    """No jitter waits exactly, unset is full jitter."""
    fails(answered(429), RetryPolicy(max_attempts=3, backoff="exponential", base_delay=10, jitter=jitter))
    assert clock.waits == waits


@pytest.mark.parametrize("retry_on", [None, (httpx.HTTPError,), lambda error: True, {Category.RATE_LIMIT}])
def test_c8_it_counts_for_every_form_of_retry_on(retry_on, clock):
    fails(answered(429), RetryPolicy(max_attempts=2, retry_on=retry_on, jitter=0))
    assert clock.waits == [2]


def test_c8_the_wait_never_exceeds_max_delay(clock):
    fails(answered(429), RetryPolicy(max_attempts=3, backoff="exponential", base_delay=10, max_delay=15, jitter=0))
    assert clock.waits == [11, 15]


def test_c8_a_wait_beyond_the_deadline_is_deferred(clock):
    calls, report = fails(answered(429), POLICY.replace(base_delay=60, deadline=60, jitter=0))
    assert (calls, clock.waits) == (1, [])
    assert (report.reason, report.retry_at) == ("deferred", 1_800_000_060)


def test_c8_explain_says_so():
    assert "waiting at most 1.5, 2, 3, 5 s between them" in outlast.explain(answered(429)).action
    exact = RetryPolicy(max_attempts=3, jitter=0)
    assert "waiting 2, 2 s between them" in outlast.explain(answered(429), policy=exact).action


def test_c8_an_override_decides_instead(clock):
    fails(answered(429), RetryPolicy(max_attempts=3, overrides={"rate_limit": {"base_delay": 90}}))
    assert clock.waits == [60, 60]


def test_a_hint_and_an_override_for_the_same_category(clock):
    """The override is for failures that name no time; its attempts count for both."""
    policy = RetryPolicy(max_attempts=5, overrides={"rate_limit": {"base_delay": 60, "max_attempts": 3}})
    fails(answered(429, Retry_After="2"), policy)
    assert clock.waits == [2, 2]


@pytest.mark.parametrize("attempt", [1, 3, 10_000])
def test_delay_after_a_failure(attempt):
    policy = RetryPolicy(backoff="exponential", max_delay=30, jitter="full")
    hinted = Failure(Category.RATE_LIMIT, retryable=True, retry_after=100)
    assert 100 <= policy.delay_after(hinted, attempt, chance=lambda: 0.99) <= 130
    assert policy.delay_after(hinted, attempt, chance=lambda: 0.0) == 100


def test_an_error_whose_attributes_raise_is_retried_all_the_same(clock):
    class Odd(Exception):
        @property
        def response(self):
            raise RuntimeError("not yet")

    assert fails(Odd(), RetryPolicy(max_attempts=2, retry_on=Exception))[0] == 2


def _raising(error):
    def fetch():
        raise error

    return fetch


def test_pitfall_24_nobody_sleeps_through_an_instruction_of_a_year():
    with fake_clock() as clock, pytest.raises(outlast.errors.RetryableError) as caught:
        outlast.call(failing(lambda: 1, [outlast.errors.RetryableError("x", retry_after=31_536_000)]))
    assert outlast.report_of(caught.value).reason == "deferred"
    assert clock.waits == []
