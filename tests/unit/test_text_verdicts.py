"""Verdicts on errors that show only words, a class name or a wait; each sentence is one that real services send."""

import datetime as dt
import time
from typing import Any

import pytest

import outlast
from outlast import Category as C
from outlast.classify.classifier import Classifier
from outlast.fingerprint import normalise


def error_of(name: str, *args: Any, base: type[Exception] = Exception, **attributes: Any) -> Exception:
    module, _, short = name.rpartition(".")
    error = type(short, (base,), {"__module__": module or "acme"})(*args)
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize(
    "text",
    [
        "Please correct the errors and try again.",
        "The email address is badly formatted. Please check and try again.",
        "Your card was declined. Do not try again.",
        "Choose a different name and try again",
        "Please update your payment method and try again later.",
        "Your account is locked. Contact the administrator before you try again.",
        "Phone number is not valid, try again",
        "Order was rejected: market closed, try again tomorrow",
        "The verification code has expired, please try again",
        "Wrong PIN, try again",
        "Password is too short. Try again.",
        "Fix the body and retry your request",
        "Do not retry the request",
        "This is not a temporary error",
        "The file is not temporarily unavailable, it is gone",
    ],
)
def test_a_sentence_that_ends_with_try_again_is_not_temporary(text: str) -> None:
    failure = outlast.classify(error_of("acme.ApiError", text))
    assert not failure.retryable, failure.rule


@pytest.mark.parametrize(
    "text",
    [
        "Please try again later.",
        "Too busy, try again shortly",
        "Please wait a few minutes and try again later",
        "Please try again in a few minutes",
        "Try again after 30 seconds",
        "An unexpected error occurred. Please try again.",
        "Something went wrong, please retry",
        "You can retry your request",
        "The server is temporarily unable to service your request",
    ],
)
def test_a_server_that_asks_for_another_try_is_temporary(text: str) -> None:
    assert outlast.classify(error_of("acme.ApiError", text)).category is C.API_TEMPORARY


class Response:
    url = "https://api.example.com/a"

    def __init__(self, status: int, body: str) -> None:
        self.status_code, self._content, self.headers = status, body.encode(), {}


QUOTAS = [
    "You have exceeded your monthly quota of 10,000 requests. Your plan allows 5 requests per second.",
    "Monthly limit reached (1000 requests/month). Note: 10 requests/minute also applies.",
    "You have used all of your 500 free requests this month.",
    "You have reached your plan's limit of 1000 API calls per month.",
    "Rate limit: 100 requests per day exceeded",
    "Insufficient balance",
    "Your account has run out of searches.",
    "You've exceeded your API Key's monthly rate limit.",
    "Developer accounts are limited to 100 requests over a 24 hour period.",
    "You have hit your Claude usage limit. Resets at 2026-12-01 00:00 PST",
    "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service 'youtube.googleapis.com'",
    "You exceeded your current quota. Please retry in 34s. quotaId: GenerateRequestsPerDayPerProjectPerModel-FreeTier",
]


@pytest.mark.parametrize("status", [429, 403, 400])
@pytest.mark.parametrize("text", QUOTAS)
def test_a_stated_day_or_month_and_a_billing_word_mean_a_quota(status: int, text: str) -> None:
    for error in (
        error_of("acme.ApiError", "request failed", response=Response(status, f'{{"message": "{text}"}}')),
        error_of("acme.ApiError", text, status_code=status),
    ):
        failure = outlast.classify(error)
        assert (failure.category, failure.retryable) == (C.QUOTA_EXHAUSTED, False), failure.rule


@pytest.mark.parametrize("status", [429, 403, None])
def test_a_quota_per_minute_is_a_rate_limit(status: int | None) -> None:
    text = "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per user'"
    failure = outlast.classify(error_of("acme.ApiError", text, status_code=status))
    assert failure.category is C.RATE_LIMIT, failure.rule


REFUSALS = [
    "Invalid username / password",
    "logon failed for sa",
    "authentication denied",
    "logon incorrect",
    "auth token expired",
    "Unauthorized",
    "invalid token",
    "Permission denied (publickey)",
    "host key verification failed",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "Login was refused using authentication mechanism PLAIN",
    "The username or password you entered is incorrect",
    'no pg_hba.conf entry for host "10.0.0.1", user "app", database "shop", no encryption',
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_means_the_same_in_every_connection_error(text: str) -> None:
    for error in (
        ConnectionError(text),
        error_of("acme.LinkError", text, base=ConnectionError),
        error_of("acme.ConnectError", text),
        error_of("coredis.exceptions.ConnectionError", text),
    ):
        assert outlast.classify(error).category is C.AUTHENTICATION, type(error)


@pytest.mark.parametrize(
    "text",
    [
        "Timeout while validating token",
        "login server timed out",
        "peer not available, session expired, reconnecting",
        "failed to fetch access token: connection refused",
        "Temporary authentication failure",
    ],
)
def test_a_connection_error_about_a_login_that_could_not_be_tried_is_retried(text: str) -> None:
    assert outlast.classify(ConnectionError(text)).category is C.NETWORK


@pytest.mark.parametrize("text", ["Unknown database 'shop'", 'Cannot open database "shop" requested by the login.'])
def test_an_unknown_database_is_a_mistake_in_the_configuration(text: str) -> None:
    for error in (error_of("acme.LinkError", f"connection failed: {text}", base=ConnectionError), RuntimeError(text)):
        assert outlast.classify(error).category is C.CONFIGURATION


def test_a_refusal_makes_a_5xx_permanent_in_the_text_and_in_the_body() -> None:
    for error in (
        error_of("acme.ApiError", "Invalid API key", status_code=500),
        error_of("acme.ApiError", "request failed", response=Response(503, '{"message": "Invalid API key"}')),
    ):
        assert outlast.classify(error).category is C.AUTHENTICATION


SECRETS = [
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "text", ["permission to {} denied", "relation {} does not exist", "no item named {} in the archive"]
)
def test_a_rule_that_quotes_a_text_shows_no_secret(secret: str, text: str) -> None:
    error = error_of("acme.ApiError", text.format(secret))
    wrapper = error_of("acme.OuterError", "x")
    wrapper.__cause__ = error
    for each in (error, wrapper):
        shown = f"{outlast.classify(each).rule} {outlast.explain(each)}"
        assert secret.lower() not in shown.lower()
        assert text.partition(" {}")[0] in shown


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("acme.FeatureNotAvailable", C.CONFIGURATION),
        ("acme.DependencyNotAvailableError", C.CONFIGURATION),
        ("acme.OptionNotAvailable", C.CONFIGURATION),
        ("acme.CredentialsNotAvailable", C.AUTHENTICATION),
        ("acme.CredentialUnavailableError", C.AUTHENTICATION),
        ("acme.UnavailableForLegalReasons", C.ACCESS_DENIED),
        ("acme.VideoUnavailable", C.NOT_FOUND),
        ("acme.NonTransientError", C.UNKNOWN),
        ("acme.NotTransientException", C.UNKNOWN),
        ("acme.PermanentlyUnavailable", C.UNKNOWN),
        ("acme.TemporaryFileError", C.UNKNOWN),
        ("acme.NegativeTimeoutError", C.INVALID_PARAMETERS),
        ("acme.WrongPasswordConnectionError", C.AUTHENTICATION),
        ("rarfile.RarWrongPassword", C.DATA),
        ("py7zr.exceptions.PasswordRequired", C.DATA),
        ("acme.SerializationConflict", C.DATABASE_BUSY),
        ("acme.WriteConflictError", C.DATABASE_BUSY),
        ("acme.TransactionConflictError", C.DATABASE_BUSY),
        ("ZODB.POSException.ConflictError", C.DATABASE_BUSY),
        ("acme.ConflictError", C.INVALID_PARAMETERS),
        ("neo4j.exceptions.SessionExpired", C.NETWORK),
        ("kazoo.exceptions.SessionExpiredError", C.NETWORK),
        ("acme.SessionExpired", C.AUTHENTICATION),
        ("acme.BadGatewayTimeoutError", C.API_TEMPORARY),
        ("acme.UnknownConnectionError", C.NETWORK),
        ("acme.LeaderNotAvailable", C.API_TEMPORARY),
        ("acme.NotLeaderForPartitionError", C.API_TEMPORARY),
        ("acme.ServiceNotAvailableError", C.API_TEMPORARY),
    ],
)
def test_a_class_name_is_read_as_a_whole(name: str, category: C) -> None:
    assert outlast.classify(error_of(name, "something happened")).category is category


def test_a_gateway_that_closes_because_of_the_token_is_not_reconnected() -> None:
    for code, category in ((4004, C.AUTHENTICATION), (4014, C.CONFIGURATION), (1006, C.NETWORK)):
        error = error_of("discord.errors.ConnectionClosed", f"Shard ID None WebSocket closed with {code}", code=code)
        assert outlast.classify(error).category is category


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Connection to http://localhost:9200 refused", C.NETWORK),
        ("connection to tcp://10.0.0.1:9000 lost", C.NETWORK),
        ("Connection to /var/run/x.sock refused", C.NETWORK),
        ("Lost connection to MySQL server during query", C.NETWORK),
        ("IncompleteRead(0 bytes read, 10 more expected)", C.NETWORK),
        ("write conflict detected", C.DATABASE_BUSY),
        ("canceling statement due to conflict with recovery", C.DATABASE_BUSY),
        ("The server is temporarily unable to service your request due to maintenance", C.API_TEMPORARY),
    ],
)
def test_an_address_in_the_middle_of_a_sentence_hides_nothing(text: str, category: C) -> None:
    assert outlast.classify(error_of("acme.ApiError", text)).category is category


NOW = 1795000000.0  # 2026-11-18 11:06:40 UTC


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Retry-After: 1,800 seconds", None),
        ("retry after: 2 to 3 hours", None),
        ("retry_after: 60 (minutes)", None),
        ("Retry-After: 60 seconds", 60),
        ("Try again at 2026-11-18 11:30 PST", None),
        ("Try again at 2026-11-18 11:30:00 PST", None),
        ("Try again at 2026-11-18 11:30 PM", None),
        ("Try again on 2026-11-19 Pacific time", None),
        ("Try again at 2026-11-18 11:30 UTC", 1400),
        ("Try again at 2026-11-18 11:30:00Z", 1400),
        ("Try again at 2026-11-18 12:30 +0100 or later", 1400),
        ("Try again at 2026-11-18 11:30 and not before", 1400),
    ],
)
def test_a_wait_in_words_is_never_shorter_than_stated(text: str, wait: float | None) -> None:
    error = error_of("acme.RateLimitError", text)
    assert Classifier(now=lambda: NOW).classify(error).retry_after == wait


@pytest.mark.parametrize(
    ("name", "value", "wait"),
    [
        ("retry_after_ms", 2000, 2),
        ("retry_after_ms", "2000", 2),
        ("retry_after_ms", dt.timedelta(seconds=90), 90),
        ("retry_after_ms", "90s", 90),
        ("retry_after", b"30", 30),
        ("retry_after", "Wed, 18 Nov 2099 09:16:33 GMT", 3600),
        ("retry_after", dt.datetime(2099, 11, 18, tzinfo=dt.UTC), 3600),
        ("retry_after", 2e9, None),
    ],
)
def test_a_wait_in_an_attribute_has_the_unit_of_its_type(name: str, value: object, wait: float | None) -> None:
    assert outlast.classify(error_of("acme.RateLimitError", "x", **{name: value})).retry_after == wait


def test_the_time_at_which_a_quota_resets_keeps_its_offset() -> None:
    error = error_of("acme.ApiError", "Monthly quota exceeded, resets at 2026-11-18T03:30:00-08:00", status_code=429)
    failure = Classifier(now=lambda: NOW).classify(error)
    assert (failure.category, failure.retry_after) == (C.QUOTA_EXHAUSTED, 1400)


def test_only_a_request_that_is_larger_than_the_limit_is_too_large() -> None:
    for text, category in (
        ("Rate limit 60 reached (requested 61 this minute)", C.RATE_LIMIT),
        ("Rate limit reached: Limit 9000, Used 8000, Requested 1600", C.RATE_LIMIT),
        ("Rate limit reached: Limit 9000, Used 8000, Requested 16008", C.INVALID_PARAMETERS),
        ("Rate limit reached: Limit 9000, Requested 16008", C.INVALID_PARAMETERS),
    ):
        assert outlast.classify(error_of("acme.RateLimitError", text)).category is category, text


class Counted:
    calls = 0

    def __repr__(self) -> str:
        Counted.calls += 1
        return "Counted"


def test_a_large_body_is_not_turned_into_a_text() -> None:
    rows = [Counted() for _ in range(1000)]
    outlast.classify(error_of("acme.ApiError", "bad request", body={"rows": rows}))
    assert Counted.calls == 0


SLOW_PARTS = ["-", "a-", "450-", "[SQL Server]", "[SQL Server](", "id: ", "connection ", "monthly ", "limit 1 "]


def _milliseconds(action: Any) -> float:
    """Return the processor time of the fastest of five runs; the bounds of the tests are twenty times what it takes."""
    times = []
    for _ in range(5):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times) * 1000


@pytest.mark.parametrize("part", SLOW_PARTS)
def test_no_text_makes_a_verdict_slow(part: str) -> None:
    error = error_of("acme.ApiError", ("x/ timeout quota " + part * 4096)[:4096])
    assert _milliseconds(lambda: outlast.classify(error)) < 25


def test_a_long_chain_of_causes_is_judged_in_bounded_time() -> None:
    error = None
    for _ in range(64):
        inner, error = error, error_of("acme.ApiError", "x/ " + "-" * 4000)
        error.__cause__ = inner
    assert _milliseconds(lambda: outlast.classify(error)) < 100


@pytest.mark.parametrize("part", ["'", "' '", "\"'", "'a' ", "\"'a'", "+"])
def test_no_quotes_make_a_fingerprint_slow(part: str) -> None:
    assert _milliseconds(lambda: normalise((part * 4096)[:4096])) < 50
