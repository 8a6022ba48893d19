"""Events and the log: what is told when, with which keys, and that silence costs nothing."""

import logging

import pytest

import outlast
from outlast import RetryPolicy, events
from outlast.errors import NetworkError, PermanentError
from outlast.record import bus
from outlast.testing import failing, fake_clock

E9_KEYS = {"attempt", "max_attempts", "error_category", "origin", "http_status", "exception_name", "failure_message"}


@pytest.fixture(autouse=True)
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture
def heard():
    seen = []
    stop = outlast.subscribe(seen.append)
    yield seen
    stop()


def fetch():
    return "page"


def test_a_call_that_recovers(heard):
    assert (
        outlast.call(failing(fetch, [NetworkError("a"), NetworkError("b")]), policy=RetryPolicy(backoff="linear"))
        == "page"
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
        outlast.call(failing(fetch, [NetworkError("x")] * 2), policy=RetryPolicy(max_attempts=2))
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
        outlast.call(failing(fetch, [error] * 9), policy=RetryPolicy(**settings))
    assert heard[-1].reason == error.__outlast__.reason == reason


def test_an_attempt_whose_wait_took_too_long_is_told_once(heard, clock, monkeypatch):
    monkeypatch.setattr("outlast.clock.sleep", lambda seconds: clock.advance(60))
    with pytest.raises(NetworkError):
        outlast.call(failing(fetch, [NetworkError("x")] * 2), policy=RetryPolicy(max_attempts=3, deadline=10))
    assert [type(event).__name__ for event in heard] == ["AttemptFailed", "Retrying", "GaveUp"]
    assert (heard[-1].attempts, heard[-1].reason) == (1, "deadline")


def test_the_attempts_are_those_of_the_category(heard, caplog):
    policy = RetryPolicy(max_attempts=9, overrides={"network": {"max_attempts": 2}})
    with pytest.raises(NetworkError):
        outlast.call(failing(fetch, [NetworkError("x")] * 9), policy=policy)
    assert [event.max_attempts for event in heard if hasattr(event, "max_attempts")] == [2, 2, 2]
    assert [record.max_attempts for record in caplog.records] == [2, 2]
    assert "attempt 1 of 2 failed" in caplog.text


def test_success_tells_nothing(heard, caplog):
    assert outlast.retry(fetch)() == "page"
    assert heard == []
    assert caplog.records == []


def test_kinds_and_the_end_of_a_subscription():
    seen = []
    stop = outlast.subscribe(seen.append, events.Recovered, events.GaveUp)
    outlast.call(failing(fetch, [NetworkError("x")]), policy=RetryPolicy())
    stop()
    stop()
    outlast.call(failing(fetch, [NetworkError("x")]), policy=RetryPolicy())
    assert [type(event) for event in seen] == [events.Recovered]
    assert not bus.subscribers


def test_pitfall_18_one_broken_subscriber_keeps_nothing_from_the_others(caplog):
    seen = []

    def broken(event):
        raise RuntimeError("subscriber")

    stops = [outlast.subscribe(broken), outlast.subscribe(seen.append, events.Recovered)]
    outlast.call(failing(fetch, [NetworkError("x")]), policy=RetryPolicy())
    for stop in stops:
        stop()
    assert len(seen) == 1
    assert "a subscriber failed on Recovered" in caplog.text


class TestLog:
    def test_w7_a_warning_before_every_wait_with_the_traceback_at_debug(self, caplog):
        caplog.set_level(logging.DEBUG, "outlast")
        outlast.call(failing(fetch, [NetworkError("refused")]), policy=RetryPolicy())
        warning, debug = caplog.records
        assert (warning.levelname, warning.name, warning.exc_info) == ("WARNING", "outlast.retry", None)
        assert "attempt 1 of 3 failed (network), retrying in 1 s: NetworkError: refused" in warning.getMessage()
        assert debug.levelname == "DEBUG"
        assert "Traceback (most recent call last):" in debug.getMessage()
        assert debug.getMessage().endswith("NetworkError: refused")

    def test_pitfall_35_no_secret_reaches_the_log_by_way_of_a_traceback(self, caplog):
        caplog.set_level(logging.DEBUG, "outlast")
        unsubscribe = outlast.subscribe(lambda event: 1 / 0)
        try:
            with pytest.raises(NetworkError):
                outlast.call(failing(fetch, [NetworkError("postgres://bob:hunter2pw@db/x")] * 3), policy=RetryPolicy())
        finally:
            unsubscribe()
        with pytest.raises(NetworkError):
            policy = outlast.RetryPolicy(retry_on=lambda error: 1 / 0)
            outlast.call(failing(fetch, [NetworkError("postgres://bob:hunter2pw@db/x")]), policy=policy)
        assert "ZeroDivisionError" in caplog.text
        assert "hunter2pw" not in caplog.text

    def test_no_text_can_pretend_to_be_a_record_of_its_own(self, caplog):
        outlast.call(failing(fetch, [NetworkError("x\nCRITICAL:root:forged")]), policy=RetryPolicy())
        assert "\n" not in caplog.records[0].getMessage()

    def test_a_call_that_gives_up_at_once_because_of_a_long_wait_is_logged(self, caplog):
        with pytest.raises(outlast.errors.RateLimitError):
            outlast.retry(failing(fetch, [outlast.errors.RateLimitError("slow down", retry_after=90)]))()
        assert "gave up after 1 attempt (deferred)" in caplog.text

    @pytest.mark.parametrize(("handler", "kinds"), [(3, ()), (print, ("Retrying",)), (print, (ValueError,))])
    def test_a_wrong_subscription_is_refused(self, handler, kinds):
        with pytest.raises(outlast.errors.ConfigError):
            outlast.subscribe(handler, *kinds)

    def test_e9_its_keys(self, caplog):
        outlast.call(failing(fetch, [NetworkError("refused")]), policy=RetryPolicy())
        record = vars(caplog.records[0])
        assert record.keys() >= E9_KEYS | {"delay", "call"}
        assert {key: record[key] for key in ("attempt", "max_attempts", "error_category", "exception_name")} == {
            "attempt": 1,
            "max_attempts": 3,
            "error_category": "network",
            "exception_name": "NetworkError",
        }
        assert type(record["error_category"]) is str

    @pytest.mark.parametrize("retry_on", [None, outlast.RETRYABLE, (Exception,)])
    @pytest.mark.parametrize("listening", [False, True])
    def test_e9_its_keys_are_the_same_whoever_judged(self, caplog, retry_on, listening):
        name = "No name of a class: token=hunter2hunter2"
        stop = outlast.subscribe(lambda event: None) if listening else lambda: None
        try:
            for error in (NetworkError("postgres://bob:hunter2pw@db/x"), type(name, (ConnectionError,), {})("refused")):
                with pytest.raises(type(error)):
                    outlast.call(failing(fetch, [error] * 2), policy=RetryPolicy(max_attempts=2, retry_on=retry_on))
        finally:
            stop()
        keys = ("error_category", "origin", "http_status", "exception_name", "failure_message")
        own, odd = ([getattr(record, key) for key in keys] for record in caplog.records[::2])
        assert own == ["network", "program", None, "NetworkError", "postgres://***@db/x"]
        assert odd[0] == "network"
        assert odd[4] == "refused"
        assert "hunter2" not in "".join(str(vars(record)) for record in caplog.records)

    def test_a_logger_of_ones_own_is_asked_as_usual(self, monkeypatch):
        """Somebody's class may look at `extra` itself."""
        written = []

        class Own(logging.Logger):
            def _log(self, level, msg, args, **kwargs):
                written.append((level, msg % args, kwargs["extra"]))

        own = Own("own")
        monkeypatch.setattr("outlast.run.logs._log", lambda: own)
        outlast.call(failing(fetch, [NetworkError("refused")]), policy=RetryPolicy())
        ((level, text, extra),) = written
        assert (level, extra["call"]) == (logging.WARNING, extra["call"])
        assert "attempt 1 of 3 failed" in text

    def test_where_a_record_comes_from(self, caplog):
        outlast.call(failing(fetch, [NetworkError("refused")]), policy=RetryPolicy())
        record = caplog.records[0]
        assert (record.filename, record.module) == ("logs.py", "logs")
        assert record.lineno > 0

    def test_giving_up_is_told_once_and_only_after_retries(self, caplog):
        with pytest.raises(NetworkError):
            outlast.call(failing(fetch, [NetworkError("x")] * 3), policy=RetryPolicy())
        assert [record.getMessage().partition(": ")[2][:12] for record in caplog.records] == [
            "attempt 1 of",
            "attempt 2 of",
            "gave up afte",
        ]
        caplog.clear()
        with pytest.raises(PermanentError):
            outlast.call(failing(fetch, [PermanentError("x")]), policy=RetryPolicy())
        assert caplog.records == []

    def test_secrets_are_masked(self, caplog):
        outlast.call(failing(fetch, [NetworkError("https://me:hunter2@host/ refused")]), policy=RetryPolicy())
        assert "hunter2" not in caplog.text + str(vars(caplog.records[0]))
