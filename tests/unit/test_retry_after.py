"""Retry-After and the dialects of rate-limit headers (B3, pitfalls 21-24)."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import time_machine

from outlast import MAX_RETRY_AFTER_SECONDS, Evidence, classify, parse_retry_after, rate_limit_hint

NOW = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
MOMENT = datetime.fromtimestamp(NOW, UTC)


def clock():
    return NOW


def http_date(seconds):
    return format_datetime(MOMENT + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 60),
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("120.5", 121),
        ("0.001", 1),
        ("-5", 60),
        ("+5", 60),
        ("1_000", 60),
        ("１２０", 60),
        ("٣", 60),
        ("1.5abc", 60),
        ("1e3", 60),
        ("nan", 60),
        ("inf", 60),
        ("", 60),
        (" ", 60),
        ("soon", 60),
        ("999999", 3600),
        ("9" * 5000, 3600),
        ("3600", 3600),
        ("Wed, 99 Foo 2099 99:99:99 GMT", 60),
        (120, 120),
        (1.2, 2),
        (float("nan"), 60),
        (10**400, 3600),
        (True, 60),
        (b"120", 60),
    ],
)
def test_seconds(value, seconds):
    assert parse_retry_after(value, now=clock) == seconds


def test_the_default_is_the_callers():
    assert parse_retry_after(None, default=5) == 5
    assert parse_retry_after("-5", 7) == 7
    assert MAX_RETRY_AFTER_SECONDS == 3600


@pytest.mark.parametrize(
    "form",
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S"],
    ids=["imf-fixdate", "rfc850", "asctime", "naive"],
)
def test_dates_in_all_three_forms_and_without_a_zone(form):
    assert parse_retry_after((MOMENT + timedelta(seconds=90)).strftime(form), now=clock) == 90


def test_a_date_with_another_zone_and_an_iso_date():
    assert parse_retry_after("Wed, 15 Nov 2023 07:14:50 +0900", now=clock) == 90
    assert parse_retry_after("2023-11-14T22:14:50Z", now=clock) == 90


def test_a_past_date_is_zero_and_a_far_one_is_capped():
    assert parse_retry_after(http_date(-3600), now=clock) == 0
    assert parse_retry_after(http_date(86400 * 365), now=clock) == 3600


def test_the_servers_own_date_corrects_its_skewed_clock():
    skewed = 3600 * 5
    assert parse_retry_after(http_date(skewed + 30), date=http_date(skewed), now=clock) == 30
    assert parse_retry_after(http_date(30), date="not a date", now=clock) == 30


def test_never_even_a_millisecond_early():
    assert parse_retry_after(http_date(30), now=lambda: NOW + 0.001) == 30
    assert parse_retry_after(http_date(30), now=lambda: NOW - 0.001) == 31


def test_uses_the_wall_clock_by_default():
    with time_machine.travel(NOW, tick=False):
        assert parse_retry_after(http_date(45)) == 45


@pytest.mark.parametrize(
    ("headers", "seconds", "header"),
    [
        ({"Retry-After": "7", "X-RateLimit-Reset": "99"}, 7, "retry-after"),
        ({"retry-after-ms": "1500"}, 1.5, "retry-after-ms"),
        ({"x-ms-retry-after-ms": "250"}, 0.25, "x-ms-retry-after-ms"),
        ({"X-RateLimit-Reset": "42"}, 42, "x-ratelimit-reset"),
        ({"X-RateLimit-Reset": str(int(NOW) + 42)}, 42, "x-ratelimit-reset"),
        ({"X-RateLimit-Reset": str((int(NOW) + 42) * 1000)}, 42, "x-ratelimit-reset"),
        ({"X-RateLimit-Reset": "2023-11-14T22:14:02Z"}, 42, "x-ratelimit-reset"),
        ({"X-Rate-Limit-Reset": str(int(NOW) + 42)}, 42, "x-rate-limit-reset"),
        ({"x-ratelimit-reset-after": "1.25"}, 1.25, "x-ratelimit-reset-after"),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360, "x-ratelimit-reset-requests"),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12, "x-ratelimit-reset-tokens"),
        ({"anthropic-ratelimit-requests-reset": "2023-11-14T22:14:02Z"}, 42, "anthropic-ratelimit-requests-reset"),
        ({"RateLimit-Reset": "30", "RateLimit-Remaining": "0"}, 30, "ratelimit-reset"),
        ({"RateLimit": "limit=100, remaining=0, reset=30"}, 30, "ratelimit"),
        ({"RateLimit": '"default";r=0;t=30'}, 30, "ratelimit"),
        ({"RateLimit": '"burst";r=5;t=1, "daily";r=0;t=3000'}, 3000, "ratelimit"),
        ({"x-ratelimit-reset-ms": "30000"}, 30, "x-ratelimit-reset-ms"),
        ({"X-RateLimit-Reset": str(int(NOW) - 42)}, 0, "x-ratelimit-reset"),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "9s"}, 9, "x-ratelimit-reset-tokens"),
    ],
)
def test_headers(headers, seconds, header):
    hint = rate_limit_hint(headers, now=clock)

    assert (hint.seconds, hint.header, hint.capped) == (pytest.approx(seconds), header, False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-RateLimit-Reset": "soon"},
        {"X-RateLimit-Reset": "-3"},
        {"X-RateLimit-Reset": "30", "X-RateLimit-Remaining": "57"},
        {"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "10"},
        {"RateLimit": "limit=100, remaining=50, reset=30"},
        {"Content-Type": "text/html"},
    ],
)
def test_headers_that_ask_for_nothing(headers):
    assert rate_limit_hint(headers, now=clock) is None


def test_a_reset_counts_without_a_429_only_where_nothing_remains():
    assert rate_limit_hint({"X-RateLimit-Reset": "30"}, limited=False, now=clock) is None
    spent = {"X-RateLimit-Reset": "30", "X-RateLimit-Remaining": "0"}
    assert rate_limit_hint(spent, limited=False, now=clock).seconds == 30


@pytest.mark.parametrize("value", ["999999", str(int(NOW) + 86400 * 365)])
def test_a_hint_of_a_year_is_capped_and_says_so(value):
    hint = rate_limit_hint({"X-RateLimit-Reset": value}, now=clock)

    assert (hint.seconds, hint.capped) == (3600, True)


@pytest.mark.parametrize(
    ("status", "category"),
    [(429, "rate_limit"), (503, "api_temporary"), (408, "api_temporary"), (425, "api_temporary")],
)
def test_the_hint_reaches_the_failure(status, category):
    failure = classify(Evidence(http_status=status, headers={"retry-after": "999999"}))

    assert (failure.category, failure.retry_after, failure.capped) == (category, 3600, True)


def test_without_a_hint_there_is_none():
    assert classify(Evidence(http_status=429)).retry_after is None


def test_reading_a_million_digits_is_quick():
    start = time.thread_time()
    assert parse_retry_after("1" * 1_000_000) == 3600
    assert parse_retry_after("x" * 1_000_000) == 60
    assert time.thread_time() - start < 1


def test_the_header_can_be_given_by_name():
    """B3."""
    assert parse_retry_after(header_value="120", default=60) == 120
    assert parse_retry_after(header_value=None, default=7) == 7
