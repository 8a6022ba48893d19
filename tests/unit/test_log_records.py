"""Log records of errors: each says what the classifier says of its own error."""

import subprocess
import sys

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


def failing_calls(number):
    """Make failing calls without waits; return how many attempts and calls there were."""
    policy = RetryPolicy(max_attempts=5, base_delay=0, retry_on=(Exception,))
    for _ in range(number):
        with pytest.raises(ConnectionError):
            outlast.call(failing(lambda: 1, [ConnectionError("refused")] * 5), policy=policy)


def test_lines_beyond_ten_a_second_are_summed_up(caplog, clock):
    """1,000 failing calls wrote 5,000 lines."""
    heard = []
    end = outlast.subscribe(heard.append, outlast.events.Retrying, outlast.events.GaveUp)
    caplog.set_level("INFO")
    failing_calls(1000)
    end()
    texts = [record.getMessage() for record in caplog.records]
    assert len(heard) == 5000, "events are never left out"
    assert len([text for text in texts if "retrying in 0 s" in text]) == 10
    assert len([text for text in texts if "gave up" in text]) == 10
    assert len(texts) == 20
    caplog.clear()
    clock.advance(1)
    failing_calls(1)
    texts = [record.getMessage() for record in caplog.records]
    assert [text for text in texts if text.startswith("and ")] == [
        "and 3990 more retries in the same second",
        "and 990 more calls given up in the same second",
    ]
    assert [record.more for record in caplog.records if record.getMessage().startswith("and ")] == [3990, 990]
    assert len(texts) == 2 + 5


def test_at_debug_every_line_is_written(caplog):
    caplog.set_level("DEBUG")
    failing_calls(20)
    assert len([each for each in caplog.records if "retrying in" in each.getMessage()]) == 80


def test_the_last_summary_is_written_when_the_process_ends():
    program = """
import logging, outlast
logging.basicConfig()
def fail(): raise ConnectionError("refused")
for _ in range(30):
    try: outlast.call(fail, policy=outlast.RetryPolicy(max_attempts=2, base_delay=0))
    except ConnectionError: pass
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "and 20 more retries in the same second" in ran.stderr
    assert "and 20 more calls given up in the same second" in ran.stderr


def test_durations_have_no_exponent(caplog):
    outlast.call(failing(lambda: 1, [ConnectionError("x")]), policy=RetryPolicy(base_delay=0.0000954, jitter="none"))
    assert "retrying in 0.095 ms" in caplog.text
    assert "e-05" not in caplog.text
