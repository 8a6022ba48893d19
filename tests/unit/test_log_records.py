"""Log records of errors: each says what the classifier says of its own error."""

import pytest

import outlast
from outlast import Classifier, RetryPolicy, Rule, use_classifier
from outlast.errors import NetworkError
from outlast.testing import failing, fake_clock

AGAIN = RetryPolicy(max_attempts=2, retry_on=(Exception,))
KEYS = ("error_category", "origin", "http_status", "exception_name", "failure_message")


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture
def told(caplog):
    def told(error, policy=AGAIN):
        """Return what the record of a failed attempt says of an error."""
        caplog.clear()
        outlast.call(failing(lambda: 1, [error]), policy=policy)
        return tuple(getattr(caplog.records[0], key) for key in KEYS)

    return told


@pytest.mark.parametrize(
    "policy", [AGAIN, RetryPolicy(max_attempts=2, retry_on=outlast.RETRYABLE)], ids=["types", "judged"]
)
def test_the_same_each_time(told, policy):
    expected = ("network", "program", None, "ConnectionError", "refused")
    assert [told(ConnectionError("refused"), policy) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (OSError(28, "full"), OSError("[Errno 28] full")),
        (ConnectionError("refused"), TimeoutError("refused")),
        (ConnectionError("refused"), ConnectionError("reset")),
        (ValueError("x"), RuntimeError("x")),
    ],
)
def test_two_that_look_alike_are_told_apart(told, one, other):
    for error in (one, other, one, other):
        failure = outlast.classify(error)
        assert told(error) == (
            failure.category.value,
            failure.origin.value,
            failure.http_status,
            failure.exception_name,
            failure.message,
        )


def test_what_carries_more_than_its_text_is_judged_each_time(told):
    plain, answered = RuntimeError("failed"), RuntimeError("failed")
    answered.status_code = 503
    caused = RuntimeError("failed")
    caused.__cause__ = ConnectionError("refused")
    during = RuntimeError("failed")
    during.__context__ = ConnectionError("refused")
    assert [told(error)[0] for error in (plain, answered, caused, during, plain)] == [
        "unknown",
        "api_temporary",
        "network",
        "network",
        "unknown",
    ]


def test_rules_of_ones_own_are_asked_each_time(told):
    assert told(ValueError("full"))[0] != "quota_exhausted"
    for category in ("quota_exhausted", "rate_limit"):
        before = use_classifier(Classifier([Rule(category=category, type=ValueError)]))
        try:
            assert told(ValueError("full"))[0] == category
        finally:
            use_classifier(before)


def test_pitfall_35_no_secret_is_logged(told, caplog):
    assert "hunter2pw" not in told(ConnectionError("postgres://bob:hunter2pw@db/x"))[4]
    assert "hunter2pw" not in caplog.text


def test_an_error_of_a_library_is_judged_each_time(told):
    assert told(NetworkError("x"))[:4] == ("network", "program", None, "NetworkError")
