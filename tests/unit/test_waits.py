"""Waits that errors state elsewhere than in Retry-After: attributes, words, bodies, causes, structured fields."""

import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from outlast import Category, Classifier, Evidence, Rule, classify, explain, rate_limit_hint
from outlast.classify.retry_after import WAIT_PATTERNS, excess_in_text, hint_in_text

NOW = datetime(2026, 11, 18, 9, 0, tzinfo=UTC).timestamp()
MATCHES = {
    "field": {
        '{"message": "You are being rate limited.", "retry_after": 64.57, "global": false}': 64.57,
        "HTTP response headers: HTTPHeaderDict({'Server': 'nginx', 'Retry-After': '30'})": 30,
        '{"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}': 34,
        "RateLimitError(reason='too_many_requests', retry_after=15)": 15,
        '{"error": "busy", "retry_after_ms": 1500}': 1.5,
        '{"retryAfterMs":250}': 0.25,
    },
    "backoff": {'{"items": [], "backoff": 10, "quota_remaining": 97}': 10, "{'backoff': 2.5}": 2.5},
    "in": {
        "Rate limit reached for model-x on tokens per min: Limit 9000, Used 8500. Please try again in 46.72s.": 46.72,
        "Flood control exceeded. Retry in 35 seconds": 35,
        "The service is currently busy. Retry the request after 10 seconds. Incident ID: 1.": 10,
        "Too many attempts, try again in 1m30s": 90,
        "Request was throttled. Expected available in 56 seconds.": 56,
        "rate limited; resets in 1h 2m": 3600,  # capped
        "Slow down. Try again in 2 minutes and 5 seconds.": 125,
        "Please try again in 120ms. Visit the dashboard.": 0.12,
        "please retry in about 5 minutes": 300,
    },
    "wait": {
        "Too many requests. Please wait 30 seconds.": 30,
        "A wait of 37 seconds is required (caused by SendMessageRequest)": 37,
        "Rate limit: wait 5 minutes before the next request": 300,
    },
    "bare": {"Too Many Requests: retry after 26": 26, "rate limited, retry-after 3.5.": 3.5},
    "date": {
        "You have reached your usage limit. You will regain access on 2026-11-18 at 09:30 UTC.": 1800,
        "rate limit exceeded, try again at 2026-11-18T09:00:42Z": 42,
        "rate limited; the limit resets at 2026-11-18 18:10:00+09:00": 600,
    },
}
NO_MATCHES = {
    "field": [
        "invalid value for retry_after: must be a number of 1 to 10",
        "retry_after=None, rate limited",
        "see retry-after: 10.0.0.1 for the host that is rate limited",
        '{"no_retry_afterwards": 5}',
    ],
    "backoff": [
        "backoff: 3 attempts",
        '{"backoff": "exponential"}',
        "the setting backoff=2 is too low",
        '{"backoff_factor": 2}',
    ],
    "in": [
        "gave up on retry after 30 seconds, rate limited",
        "will not retry in 30s: rate limited",
        "no retry after 3 attempts: too many requests",
        "Too many requests, please try again in a few minutes",
        "connection reset after 5s, service unavailable",
        "available in 2 regions, rate limited",
    ],
    "wait": [
        "lock wait of 30 seconds exceeded, rate limited",
        "waited 30 s for a turn, too many requests",
        "please wait, too many requests: 30",
        "the wait timeout is 30 seconds, throttled",
    ],
    "bare": [
        "retry after 3 attempts failed: too many requests",
        "too many requests: retry after 5 failures",
        "do not retry after 26",
    ],
    "date": [
        "rate limited since 2026-11-18 at 09:30 UTC",
        "too many requests: the report of 2026-12-01 is not available",
        "try again at 25:00, throttled",
    ],
}


@pytest.mark.parametrize(
    ("text", "seconds"), [pytest.param(text, wait) for texts in MATCHES.values() for text, wait in texts.items()]
)
def test_a_wait_in_words(text, seconds):
    hint = hint_in_text(text, now=lambda: NOW)

    assert hint is not None
    assert (hint.seconds, hint.header) == (pytest.approx(seconds, abs=0.002), "text")


@pytest.mark.parametrize("text", [text for texts in NO_MATCHES.values() for text in texts])
def test_words_that_ask_for_no_wait(text):
    assert hint_in_text(text, now=lambda: NOW) is None


def test_every_pattern_has_two_texts_that_match_and_three_that_do_not():
    assert set(WAIT_PATTERNS) == set(MATCHES) == set(NO_MATCHES)
    assert all(len(texts) >= 2 for texts in MATCHES.values())
    assert all(len(texts) >= 3 for texts in NO_MATCHES.values())


def test_a_wait_of_days_in_words_is_capped():
    hint = hint_in_text("usage limit reached; you will regain access on 2026-12-01", now=lambda: NOW)

    assert (hint.seconds, hint.capped) == (3600, True)


class LimitedError(Exception):
    """An error of a library that nobody described."""

    def __init__(self, message="too many requests", **attributes):
        super().__init__(message)
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("attributes", "seconds"),
    [
        ({"retry_after": 7}, 7),
        ({"retry_after": "7"}, 7),
        ({"retry_after": "1m30s"}, 90),
        ({"retry_after": timedelta(seconds=2.5)}, 2.5),
        ({"retry_after_s": 7}, 7),
        ({"retry_after_seconds": "7"}, 7),
        ({"retry_after_ms": 1500}, 1.5),
        ({"backoff": 15}, 15),
        ({"retry_after": None, "backoff": 15}, 15),
        ({"body": {"message": "slow down", "retry_after": 64.57}}, 64.57),
        ({"body": {"error": {"retryDelay": "34s"}}}, 34),
    ],
)
def test_a_wait_in_an_attribute(attributes, seconds):
    failure = classify(LimitedError(status_code=429, **attributes))

    # the wait arrives as a Retry-After header, which is whole seconds
    assert failure.category is Category.RATE_LIMIT
    assert seconds <= failure.retry_after < seconds + 1
    assert not failure.exact


@pytest.mark.parametrize(
    "value", [True, -1, "soon", "", float("nan"), 1_900_000_000, object(), timedelta(seconds=-5), "-5", b"x", [5]]
)
@pytest.mark.parametrize("name", ["retry_after", "retry_after_s", "backoff"])
def test_an_attribute_that_is_not_a_wait(name, value):
    assert classify(LimitedError(status_code=429, **{name: value})).retry_after is None


def test_a_stated_category_may_have_its_wait_as_text_or_timedelta():
    for value in ("90", "1m30s", timedelta(minutes=1.5), 90):
        failure = classify(LimitedError(outlast_category="rate_limit", retry_after=value))
        assert (failure.retry_after, failure.exact) == (90, True)


def response(status, headers=(), **content):
    request = httpx.Request("GET", "https://api.example.com/items")
    return httpx.Response(status, headers=dict(headers), request=request, **content)


def status_error(status, headers=(), **content):
    with pytest.raises(httpx.HTTPStatusError) as raised:
        response(status, headers, **content).raise_for_status()
    return raised.value


def test_the_body_may_state_the_wait():
    assert classify(status_error(429, json={"retry_after": 64.57})).retry_after == pytest.approx(64.57)
    assert classify(status_error(404, json={"retry_after": 64.57})).retry_after is None
    assert classify(Evidence(http_status=503, body="Busy. Retry in 5 seconds.")).retry_after == 5
    assert classify(Evidence(http_status=429, headers={"retry-after": "9"}, body="try again in 5s")).retry_after == 9


def test_the_headers_and_words_of_a_cause_count():
    def raised(cause):
        with pytest.raises(LimitedError) as caught:
            raise LimitedError("too many requests") from cause
        return classify(caught.value)

    assert raised(status_error(429, {"retry-after": "12"})).retry_after == 12
    assert raised(LimitedError("slow down, try again in 8s")).retry_after == 8
    assert raised(LimitedError(status=429, retry_after_s=3)).retry_after == 3
    assert raised(ValueError("17 seconds")).retry_after is None


@pytest.mark.parametrize(
    ("status", "value", "retryable"),
    [(503, "false", False), (409, "true", True), (429, "False", False), (503, "maybe", True), (400, "", False)],
)
def test_the_server_says_whether_a_retry_helps(status, value, retryable):
    failure = classify(status_error(status, {"x-should-retry": value}))

    assert failure.retryable is retryable


TOO_LARGE = "Request too large for model-x on tokens per min (TPM): Limit 9000, Requested 16008. Reduce the input."


@pytest.mark.parametrize(
    "error",
    [
        LimitedError(TOO_LARGE, status_code=429),
        Exception(f"Rate limit: {TOO_LARGE}"),
        status_error(429, json={"error": {"message": TOO_LARGE, "code": "rate_limit_exceeded"}}),
    ],
)
def test_a_request_that_can_never_fit_the_limit_is_permanent(error):
    failure = classify(error)

    assert (failure.category, failure.retryable) == (Category.INVALID_PARAMETERS, False)
    assert "request is too large: Limit 9000, Requested 16008" in failure.rule or "request too large" in failure.rule
    assert "Limit 9000, Requested 16008" in str(explain(error))


@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached: Limit 9000, Used 8500, Requested 1600. Please try again in 7s.",
        "Rate limit reached: limit 9000, requested 9000",
        "rate limited; the limit is 5. Requested 16008 rows.",
        "too many requests: requested 16008, limit 9000 per minute",
    ],
)
def test_a_request_that_fits_later_is_retried(text):
    assert excess_in_text(text) is None
    assert classify(LimitedError(text, status_code=429)).retryable


def test_your_own_rule_beats_the_words_about_the_limit():
    rule = Rule(text="tokens per min", category="rate_limit")

    assert Classifier([rule]).classify(LimitedError(TOO_LARGE)).retryable


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ('"a;b,c=d";r=0;t=30', 30),  # separators in a quoted name
        (r'"say \"x\";t=9";r=0;t=30', 30),
        ('"x";r=5;r=0;t=1;t=30', 30),  # of a repeated parameter the last counts
        ("limit=10, remaining=5, remaining=0, reset=1, reset=30", 30),
        ('"x";r=-0;t=30', 30),
        ('"x";r=0;t=30.5', 30.5),
        ('"x" ;r=0;t=30', None),  # no space is allowed before a parameter
        ('"x"; r=0; t=30', 30),
        ("limit=100; remaining=0; reset=30", 30),
        ("*tok/en:1;r=0;pk=:cHJvamVjdA==:;t=30", 30),
        ('"x";r=0;t=-30', None),
        ('"x";r=0;t="30"', None),
        ('"x";r=0;t=30,', None),  # malformed: the whole field is ignored
        ('"x;r=0;t=30', None),
        ('"x";r=0;t=1e3', None),
        ('"x";r=0;T=30', None),
        ('("a" "b");r=0;t=30', None),  # an inner list is not read
        (", ".join(f'"policy number {n}";r=9;t=1' for n in range(40)) + ', "day";r=0;t=1800', 1800),
        (", ".join(f'"policy number {n}";r=9;t=1' for n in range(400)) + ', "day";r=0;t=1800', None),
    ],
)
def test_the_ratelimit_header_is_a_structured_field(field, seconds):
    hint = rate_limit_hint({"RateLimit": field}, limited=False)

    assert (hint and hint.seconds) == seconds
    assert classify(status_error(429, {"RateLimit": field})).retry_after == seconds


def test_a_long_header_is_not_cut_in_the_middle_of_a_number():
    field = '"' + "x" * 236 + '";r=0;t=1800'  # the number was cut to 180

    assert classify(status_error(429, {"RateLimit": field})).retry_after == 1800


def test_a_leap_second_is_a_time():
    headers = {"Date": "Sat, 31 Dec 2016 23:59:30 GMT", "Retry-After": "Sat, 31 Dec 2016 23:59:60 GMT"}

    assert rate_limit_hint(headers).seconds == 30
    assert rate_limit_hint({**headers, "Retry-After": "2016-12-31T23:59:60Z"}).seconds == 30
    assert rate_limit_hint({**headers, "Retry-After": "Sat, 31 Dec 2016 23:58:60 GMT"}) is None


def test_the_backoff_header():
    assert rate_limit_hint({"Backoff": "12"}).seconds == 12
    assert classify(status_error(503, {"Backoff": "12"})).retry_after == 12


@pytest.mark.parametrize(
    "text", ["retry after " * 5000, "1 s, " * 5000, "retry in " + "1s " * 5000, "wait of 1" * 9999]
)
def test_hostile_words_take_no_time(text):
    start = time.thread_time()
    hint_in_text(text)
    excess_in_text(f"limit 1 requested {text}" * 9)

    assert time.thread_time() - start < 0.05
