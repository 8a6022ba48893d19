"""Events and the log: what is told when, with which keys, and that silence costs nothing."""

import logging

import pytest

import holdfast as hf
from holdfast import RetryPolicy, events
from holdfast.errors import NetworkError, PermanentError
from holdfast.record import bus
from holdfast.testing import failing, fake_clock

E9_KEYS = {"attempt", "max_attempts", "error_category", "origin", "http_status", "exception_name", "failure_message"}


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture
def heard():
    seen = []
    stop = hf.subscribe(seen.append)
    yield seen
    stop()


def fetch():
    return "page"


def test_a_call_that_recovers(heard):
    assert (
        hf.call(failing(fetch, [NetworkError("a"), NetworkError("b")]), policy=RetryPolicy(backoff="linear")) == "page"
    )
    assert [type(event).__name__ for event in heard] == [
        "AttemptFailed",
        "Retrying",
        "AttemptFailed",
        "Retrying",
        "Recovered",
    ]
    assert [(event.attempt, event.max_attempts, event.delay) for event in heard[1:4:2]] == [(1, 3, 1), (2, 3, 2)]
    assert (heard[0].failure.category, heard[0].failure.message) == ("network", "a")
    assert (heard[-1].attempts, heard[-1].elapsed) == (3, 3)
    assert all(event.name.endswith("call") for event in heard)


def test_a_call_that_is_given_up(heard):
    with pytest.raises(NetworkError):
        hf.call(failing(fetch, [NetworkError("x")] * 2), policy=RetryPolicy(max_attempts=2))
    assert [type(event) for event in heard] == [
        events.AttemptFailed,
        events.Retrying,
        events.AttemptFailed,
        events.GaveUp,
    ]
    assert (heard[-1].attempts, heard[-1].elapsed, heard[-1].reason) == (2, 1, "exhausted")


@pytest.mark.parametrize(
    ("error", "settings", "reason"),
    [
        (PermanentError("x"), {}, "permanent"),
        (NetworkError("x"), {"deadline": 0.5}, "deadline"),
        (NetworkError("x", retry_after=9), {"deadline": 5}, "deferred"),
        (NetworkError("x"), {"max_attempts": 1}, "exhausted"),
    ],
)
def test_the_reason(heard, error, settings, reason):
    with pytest.raises(type(error)):
        hf.call(failing(fetch, [error] * 9), policy=RetryPolicy(**settings))
    assert heard[-1].reason == error.__holdfast__.reason == reason


def test_success_tells_nothing(heard, caplog):
    assert hf.retry(fetch)() == "page"
    assert heard == []
    assert caplog.records == []


def test_kinds_and_the_end_of_a_subscription():
    seen = []
    stop = hf.subscribe(seen.append, events.Recovered, events.GaveUp)
    hf.call(failing(fetch, [NetworkError("x")]))
    stop()
    stop()
    hf.call(failing(fetch, [NetworkError("x")]))
    assert [type(event) for event in seen] == [events.Recovered]
    assert not bus.has_subscribers()


def test_pitfall_18_one_broken_subscriber_keeps_nothing_from_the_others(caplog):
    seen = []

    def broken(event):
        raise RuntimeError("subscriber")

    stops = [hf.subscribe(broken), hf.subscribe(seen.append, events.Recovered)]
    hf.call(failing(fetch, [NetworkError("x")]))
    for stop in stops:
        stop()
    assert len(seen) == 1
    assert "a subscriber failed on Recovered" in caplog.text


class TestLog:
    def test_w7_a_warning_before_every_wait_with_the_traceback_at_debug(self, caplog):
        caplog.set_level(logging.DEBUG, "holdfast")
        hf.call(failing(fetch, [NetworkError("refused")]))
        warning, debug = caplog.records
        assert (warning.levelname, warning.name, warning.exc_info) == ("WARNING", "holdfast.retry", None)
        assert "attempt 1 of 3 failed (network), trying again in 1 s: NetworkError: refused" in warning.getMessage()
        assert debug.levelname == "DEBUG"
        assert "Traceback (most recent call last):" in debug.getMessage()
        assert debug.getMessage().endswith("NetworkError: refused")

    def test_pitfall_35_no_secret_reaches_the_log_by_way_of_a_traceback(self, caplog):
        caplog.set_level(logging.DEBUG, "holdfast")
        unsubscribe = hf.subscribe(lambda event: 1 / 0)
        try:
            with pytest.raises(NetworkError):
                hf.call(failing(fetch, [NetworkError("postgres://bob:hunter2pw@db/x")] * 3))
        finally:
            unsubscribe()
        with pytest.raises(NetworkError):
            policy = hf.RetryPolicy(retry_on=lambda error: 1 / 0)
            hf.call(failing(fetch, [NetworkError("postgres://bob:hunter2pw@db/x")]), policy=policy)
        assert "ZeroDivisionError" in caplog.text
        assert "hunter2pw" not in caplog.text

    def test_no_text_can_pretend_to_be_a_record_of_its_own(self, caplog):
        hf.call(failing(fetch, [NetworkError("x\nCRITICAL:root:forged")]))
        assert "\n" not in caplog.records[0].getMessage()

    def test_a_call_that_is_handed_back_at_once_is_told(self, caplog):
        with pytest.raises(hf.errors.RateLimitError):
            hf.retry(failing(fetch, [hf.errors.RateLimitError("slow down")]))()
        assert "gave up after 1 attempts (deferred)" in caplog.text

    @pytest.mark.parametrize(("handler", "kinds"), [(3, ()), (print, ("Retrying",)), (print, (ValueError,))])
    def test_a_wrong_subscription_is_refused(self, handler, kinds):
        with pytest.raises(hf.errors.ConfigError):
            hf.subscribe(handler, *kinds)

    def test_e9_its_keys(self, caplog):
        hf.call(failing(fetch, [NetworkError("refused")]))
        record = vars(caplog.records[0])
        assert record.keys() >= E9_KEYS | {"delay", "call"}
        assert {key: record[key] for key in ("attempt", "max_attempts", "error_category", "exception_name")} == {
            "attempt": 1,
            "max_attempts": 3,
            "error_category": "network",
            "exception_name": "NetworkError",
        }
        assert type(record["error_category"]) is str

    def test_giving_up_is_told_once_and_only_after_retries(self, caplog):
        with pytest.raises(NetworkError):
            hf.call(failing(fetch, [NetworkError("x")] * 3))
        assert [record.getMessage().partition(": ")[2][:12] for record in caplog.records] == [
            "attempt 1 of",
            "attempt 2 of",
            "gave up afte",
        ]
        caplog.clear()
        with pytest.raises(PermanentError):
            hf.call(failing(fetch, [PermanentError("x")]))
        assert caplog.records == []

    def test_secrets_are_masked(self, caplog):
        hf.call(failing(fetch, [NetworkError("https://me:hunter2@host/ refused")]))
        assert "hunter2" not in caplog.text + str(vars(caplog.records[0]))
