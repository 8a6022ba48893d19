"""Libraries that nobody described are judged by telling attributes and names; lies change nothing."""

import enum
import errno
from datetime import timedelta
from unittest.mock import MagicMock, Mock

import pytest

from outlast import Classifier, Strength, classify


class MadeUpError(Exception):
    """Of a client library that does not exist."""

    def __init__(self, message="it failed", **attributes):
        super().__init__(message)
        for name, value in attributes.items():
            setattr(self, name, value)


class Status(enum.Enum):
    UNAVAILABLE = 14
    SlowDown = "slow"


class Response:
    def __init__(self, status_code, headers=()):
        self.status_code = status_code
        self.headers = dict(headers)


@pytest.mark.parametrize(
    ("attributes", "category", "retryable", "retry_after"),
    [
        ({"status_code": 503}, "api_temporary", True, None),
        ({"status": 404}, "not_found", False, None),
        ({"status": "429"}, "rate_limit", True, None),
        ({"http_status": 401}, "authentication", False, None),
        ({"code": 422}, "invalid_parameters", False, None),
        ({"code": "SlowDown"}, "rate_limit", True, None),
        ({"code": Status.SlowDown}, "rate_limit", True, None),
        ({"status_code": 400, "code": "insufficient_quota"}, "quota_exhausted", False, None),
        ({"response": Response(503, {"Retry-After": "30"})}, "api_temporary", True, 30),
        ({"response": Response(429, {"X-RateLimit-Reset": "30"})}, "rate_limit", True, 30),
        ({"status_code": 429, "headers": {"retry-after": "7"}}, "rate_limit", True, 7),
        ({"status_code": 403, "retry_after": 9}, "rate_limit", True, 9),
        ({"retry_after": 30}, "rate_limit", True, 30),
        ({"retry_after": timedelta(minutes=1)}, "rate_limit", True, 60),
        ({"retry_after": 999999}, "rate_limit", True, 3600),
        ({"sqlstate": "40001"}, "database_busy", True, None),
        ({"pgcode": "23505"}, "integrity", False, None),
        ({"errno": errno.ECONNRESET}, "network", True, None),
        ({"retryable": True}, "api_temporary", True, None),
        ({"retriable": False}, "unknown", False, None),
        ({"should_retry": True, "status_code": 409}, "invalid_parameters", True, None),
        ({"retryable": False, "status_code": 503}, "api_temporary", False, None),
    ],
)
def test_telling_attributes(attributes, category, retryable, retry_after):
    error = MadeUpError(**attributes)
    failure = classify(error)

    assert (failure.category, failure.retryable, failure.retry_after) == (category, retryable, retry_after)
    assert failure.rule.startswith("attribute: ")
    assert next(Classifier().readings(error)).strength is Strength.WEAK


class Lying(Exception):
    @property
    def status_code(self):
        raise RuntimeError("no")

    status = code = retry_after = response = errno = retryable = status_code


@pytest.mark.parametrize(
    "error",
    [
        Lying("it failed"),
        MadeUpError(status_code="abc"),
        MadeUpError(status=99999),
        MadeUpError(status=200),
        MadeUpError(status=-1),
        MadeUpError(status=True),
        MadeUpError(status=5.03),
        MadeUpError(code="not a code"),
        MadeUpError(code="x" * 10_000),
        MadeUpError(code=1045),
        MadeUpError(errno=2),
        MadeUpError(errno=-104),
        MadeUpError(sqlstate="4000"),
        MadeUpError(sqlstate=40001),
        MadeUpError(retry_after="soon"),
        MadeUpError(retry_after=-5),
        MadeUpError(retry_after=float("nan")),
        MadeUpError(retry_after=True),
        MadeUpError(retryable=lambda: True),
        MadeUpError(should_retry="yes"),
        MadeUpError(response=Mock()),
        MadeUpError(response=MagicMock(), request=MagicMock(), headers=MagicMock()),
        MadeUpError(
            **dict.fromkeys(("status_code", "status", "code", "errno", "sqlstate", "retry_after", "retryable"), Mock())
        ),
    ],
)
def test_lies_change_nothing(error):
    failure = classify(error)

    assert (failure.category, failure.rule) == ("unknown", "nothing matched")


def test_nothing_is_ever_called():
    calls = []
    error = MadeUpError(
        **{
            name: lambda: calls.append(1)
            for name in ("status_code", "code", "retryable", "should_retry", "retry_after", "response")
        }
    )

    classify(error)
    assert not calls


def named(name, *bases):
    return type(name, bases or (Exception,), {"__module__": "vendor.sdk"})


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("RequestTimeout", "network"),
        ("ApiTimedOutError", "network"),
        ("ConnectionLost", "network"),
        ("ThrottledError", "rate_limit"),
        ("RateLimitExceeded", "rate_limit"),
        ("TooManyRequests", "rate_limit"),
        ("ItemNotFound", "not_found"),
        ("DoesNotExist", "not_found"),
        ("Unauthorized", "authentication"),
        ("AuthenticationFailed", "authentication"),
        ("Forbidden", "access_denied"),
        ("DuplicateKey", "integrity"),
        ("ConflictError", "invalid_parameters"),
        ("ServiceUnavailable", "api_temporary"),
        ("ServerOverloadedError", "api_temporary"),
        ("QuotaExceeded", "quota_exhausted"),
        ("ValidationError", "invalid_parameters"),
        ("DeadlockDetected", "database_busy"),
        ("ResponseParseError", "data"),
        ("ConfigurationError", "configuration"),
        ("SomethingElse", "unknown"),
        ("Untimely", "unknown"),
    ],
)
def test_telling_class_names(name, category):
    assert classify(named(name)("it failed")).category == category


def test_the_name_of_a_base_tells_too():
    assert classify(named("PeachError", named("FruitNotFound"))("it failed")).category == "not_found"


def test_a_name_is_weaker_than_an_attribute_and_stronger_than_text():
    error = named("RequestTimeout")("404 not found")
    assert classify(error).rule == "class name: RequestTimeout"
    error.status_code = 401
    assert classify(error).category == "authentication"


def test_a_typed_cause_is_stronger_than_a_name():
    error = named("SyncTimeout")("it failed")
    error.__cause__ = FileNotFoundError(2, "x")
    assert classify(error).category == "not_found"


def test_an_attribute_is_stronger_than_the_cause():
    error = MadeUpError(status_code=503)
    error.__cause__ = ValueError("no JSON in the error body")
    assert classify(error).category == "api_temporary"
