"""The value that everything else works on."""

import json
import pickle

import pytest

from outlast import RETRYABLE, Category, Evidence, Failure, Origin, classify, evidence_of
from outlast.errors import ConfigError

FAILURE = Failure(
    Category.RATE_LIMIT,
    retryable=True,
    origin=Origin.HTTP,
    http_status=429,
    code="slow",
    retry_after=12.5,
    capped=True,
    exception_name="HTTPStatusError",
    message="429 あ\n",
    rule="http 429",
    location="app/fetch.py:fetch",
)


def test_there_are_fourteen_categories_and_five_are_retryable():
    assert len(Category) == 14
    assert {category for category in Category if category.retryable} == RETRYABLE
    assert {"network", "rate_limit", "api_temporary", "database_busy", "system"} == set(RETRYABLE)


def test_round_trips_through_json():
    copy = Failure.from_json(FAILURE.to_json())

    assert copy == FAILURE
    assert copy.fingerprint == FAILURE.fingerprint
    assert json.loads(FAILURE.to_json())["fingerprint"] == FAILURE.fingerprint
    assert isinstance(copy.category, Category)
    assert isinstance(copy.origin, Origin)


def test_a_stored_fingerprint_is_kept():
    assert Failure.from_dict(FAILURE.to_dict() | {"fingerprint": "0123456789abcdef"}).fingerprint == "0123456789abcdef"


def test_keys_of_a_later_version_are_ignored():
    assert Failure.from_dict(FAILURE.to_dict() | {"mood": "bad"}) == FAILURE


def test_is_frozen_hashable_and_picklable():
    with pytest.raises(AttributeError, match="immutable"):
        FAILURE.category = Category.DATA
    with pytest.raises(AttributeError, match="immutable"):
        del FAILURE.category
    assert pickle.loads(pickle.dumps(FAILURE)) == FAILURE
    assert len({FAILURE, FAILURE.replace(), FAILURE.replace(code="other")}) == 2
    assert FAILURE != "something else"


def test_reads_well():
    assert str(FAILURE) == "HTTPStatusError (rate_limit, HTTP 429, slow): 429 あ\n"
    assert "category=<Category.RATE_LIMIT" in repr(FAILURE)


def test_an_unknown_category_is_refused_with_the_valid_names():
    with pytest.raises(ConfigError, match="'ratelimit' is not a category; choose one of: network, rate_limit"):
        Category.parse("ratelimit")


def test_evidence_of_a_response_can_be_judged_without_an_exception():
    failure = classify(Evidence(origin=Origin.HTTP, http_status=503, headers={"retry-after": "120"}))

    assert failure.category == "api_temporary"
    assert failure.retry_after == 120
    assert failure.message == "HTTP 503"
    assert failure.exception_name == ""


def test_a_response_can_be_judged_without_raising():
    import httpx

    request = httpx.Request("GET", "https://example.com/x", headers={"Authorization": "Bearer x"})
    response = httpx.Response(403, headers={"x-ratelimit-remaining": "57"}, request=request)

    assert classify(evidence_of(response)).category == "authentication"
    assert classify(evidence_of(httpx.Response(429, headers={"retry-after": "7"}))).retry_after == 7
    assert classify(evidence_of(object())).category == "unknown"


def test_headers_are_found_in_any_spelling():
    evidence = Evidence(http_status=403, headers={"Retry-After": "5", "X-RateLimit-Remaining": "0"})

    assert classify(evidence).category == "rate_limit"
    assert classify(Evidence(http_status=429, headers={b"Retry-After": "5"})).retry_after == 5
    assert len({evidence, Evidence(http_status=403, headers={"retry-after": "5", "x-ratelimit-remaining": "0"})}) == 1


def test_evidence_that_shows_nothing_is_unknown():
    assert classify(Evidence()).category == "unknown"
    assert classify(Evidence(http_status=200)).category == "unknown"


def test_the_fingerprint_is_computed_only_when_asked_for():
    failure = classify(ValueError("x"))

    assert "fingerprint" not in vars(failure)
    assert len(failure.fingerprint) == 16
    assert "fingerprint" in vars(failure)
