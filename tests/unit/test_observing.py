"""Shadow mode of a function: called once, judged, told, and nothing changed."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback

import pytest

import outlast
from outlast.errors import ConfigError
from outlast.record.events import Observed
from outlast.testing import fake_clock


class Broken(Exception):
    """Raised by a handler or a predicate of the user's."""


@pytest.fixture
def told():
    """What subscribers are told, as it comes."""
    events = []
    end = outlast.subscribe(events.append, Observed)
    yield events
    end()


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock
    assert clock.waits == [], "who only observes waits for nothing"


def told_of(events):
    return [(each.name, each.decision, str(each.failure.category)) for each in events]


def raising(error):
    """Return a function that raises one error and counts its calls, and the same as a coroutine function."""
    calls = []

    def fetch(url):
        calls.append(url)
        raise error

    async def fetch_async(url):
        calls.append(url)
        await asyncio.sleep(0)
        raise error

    return calls, fetch, fetch_async


@pytest.mark.usefixtures("clock")
class TestWhatIsCalled:
    def test_a_function_is_called_once_and_its_error_passes(self, told):
        error = ConnectionError("refused")
        calls, fetch, _ = raising(error)
        with pytest.raises(ConnectionError) as caught:
            outlast.retry(mode="observe")(fetch)("u")
        assert caught.value is error
        assert calls == ["u"]
        assert told_of(told) == [(fetch.__qualname__, "retry", "network")]
        assert told[0].delay > 0

    def test_a_coroutine_function_too(self, told):
        error = ConnectionError("refused")
        calls, _, fetch = raising(error)
        observed = outlast.retry(mode="observe")(fetch)
        with pytest.raises(ConnectionError) as caught:
            asyncio.run(observed("u"))
        assert caught.value is error
        assert calls == ["u"]
        assert told_of(told) == [(fetch.__qualname__, "retry", "network")]

    def test_as_a_decorator_and_on_a_function(self, told):
        calls, fetch, _ = raising(ConnectionError("refused"))
        for made in (outlast.retry(mode="observe")(fetch), outlast.retry(fetch, mode="observe")):
            with pytest.raises(ConnectionError):
                made("u")
        assert len(calls) == 2
        assert [each.name for each in told] == [fetch.__qualname__] * 2

    def test_methods_of_every_kind(self, told):
        class Client:
            @outlast.retry(mode="observe")
            def get(self, url):
                raise ConnectionError(url)

            @classmethod
            @outlast.retry(mode="observe")
            def of(cls, url):
                return cls, url

            @staticmethod
            @outlast.retry(mode="observe")
            def plain(url):
                return url

            @outlast.retry(mode="observe")
            async def get_async(self, url):
                return self, url

        client = Client()
        with pytest.raises(ConnectionError, match=r"^u$"):
            client.get("u")
        assert client.of("u") == (Client, "u")
        assert Client.plain("u") == "u"
        assert asyncio.run(client.get_async("u")) == (client, "u")
        assert len(told) == 1

    def test_what_it_returns_is_returned_and_nothing_is_told(self, told, caplog):
        caplog.set_level(logging.DEBUG)
        thing = object()
        assert outlast.retry(lambda: thing, mode="observe")() is thing
        assert told == []
        assert caplog.records == []

    def test_it_is_still_the_same_function_to_look_at(self):
        def fetch(url: str, *, depth: int = 0) -> bytes:
            """Fetch it."""
            return url.encode() * depth

        async def fetch_async(url: str) -> bytes:
            return url.encode()

        made, made_async = outlast.retry(fetch, mode="observe"), outlast.retry(fetch_async, mode="observe")
        assert (made.__name__, made.__doc__, made.__wrapped__) == ("fetch", "Fetch it.", fetch)
        assert inspect.signature(made) == inspect.signature(fetch)
        assert inspect.iscoroutinefunction(made_async)
        assert not inspect.iscoroutinefunction(made)

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
    def test_what_is_no_failure_is_none_here(self, told, error):
        calls, fetch, _ = raising(error)
        with pytest.raises(type(error)) as caught:
            outlast.retry(fetch, mode="observe")("u")
        assert caught.value is error
        assert (len(calls), told) == (1, [])

    def test_a_cancelled_coroutine_is_cancelled(self, told):
        async def main():
            began = asyncio.Event()

            @outlast.retry(mode="observe")
            async def wait():
                began.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(wait())
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert told == []


@pytest.mark.usefixtures("clock")
class TestTheError:
    def test_it_is_left_as_it_was(self):
        cause, error = KeyError("k"), ConnectionError("refused", 7)
        error.mark = "mine"
        error.__cause__ = cause
        _, fetch, _ = raising(error)
        with pytest.raises(ConnectionError) as caught:
            outlast.retry(fetch, mode="observe")("u")
        assert caught.value.args == ("refused", 7)
        assert caught.value.__dict__ == {"mark": "mine"}, "no notes, and no report of attempts"
        assert caught.value.__cause__ is cause
        assert caught.value.__context__ is None

    def test_its_traceback_has_one_frame_more_and_those_of_the_function(self):
        def inner():
            raise ConnectionError

        def fetch():
            inner()

        with pytest.raises(ConnectionError) as plain:
            fetch()
        with pytest.raises(ConnectionError) as observed:
            outlast.retry(fetch, mode="observe")()
        names = [[frame.name for frame in traceback.extract_tb(each.tb)] for each in (plain, observed)]
        assert names[1] == [names[0][0], "wrapper", *names[0][1:]]

    def test_a_fallback_is_not_called(self):
        _, fetch, _ = raising(ConnectionError("refused"))
        with pytest.raises(ConnectionError):
            outlast.retry(fetch, mode="observe", fallback=lambda error: b"")("u")


class TestWhatIsTold:
    @pytest.mark.parametrize(
        ("error", "policy", "expected"),
        [
            (ConnectionError("x"), {}, ("retry", "network")),
            (PermissionError("x"), {"retry_on": (OSError,)}, ("retry", "access_denied")),
            (ValueError("x"), {"retry_on": (KeyError,)}, ("fail", "unknown")),
            (ConnectionError("x"), {"max_attempts": 1}, ("fail", "network")),
            (ConnectionError("x"), {"base_delay": 9, "deadline": 5, "jitter": "none"}, ("fail", "network")),
            (outlast.errors.RateLimitError("x", retry_after=50), {"deadline": 40}, ("defer", "rate_limit")),
            (outlast.errors.RateLimitError("x", retry_after=86400), {}, ("defer", "rate_limit")),
        ],
    )
    def test_the_decision(self, told, error, policy, expected):
        _, fetch, _ = raising(error)
        with pytest.raises(type(error)):
            outlast.retry(fetch, mode="observe", **policy)("u")
        assert [(each.decision, str(each.failure.category)) for each in told] == [expected]

    def test_the_log_has_it_with_its_keys_and_no_argument(self, caplog):
        caplog.set_level(logging.INFO, "outlast.observe")
        _, fetch, _ = raising(ConnectionError("refused, token=abcdefghijklmnop"))
        with pytest.raises(ConnectionError):
            outlast.retry(fetch, mode="observe")("https://user:secret@example.com")
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("outlast.observe", "INFO")
        assert record.getMessage().startswith(f"{fetch.__qualname__}: would retry after ")
        assert (record.call, record.would, record.error_category) == (fetch.__qualname__, "retry", "network")
        assert record.delay > 0
        assert "secret" not in str(record.__dict__)
        assert "abcdefghijklmnop" not in str(record.__dict__)

    def test_a_broken_predicate_harms_nobody(self, told, caplog):
        def predicate(error):
            raise Broken

        error = ConnectionError("refused")
        calls, fetch, fetch_async = raising(error)
        policy = outlast.RetryPolicy(retry_on=predicate)
        with pytest.raises(ConnectionError) as caught:
            outlast.retry(fetch, mode="observe", policy=policy)("u")
        assert caught.value is error
        assert error.__context__ is None
        with pytest.raises(ConnectionError):
            asyncio.run(outlast.retry(fetch_async, mode="observe", policy=policy)("u"))
        assert len(calls) == 2
        assert [(each.decision, each.delay, each.reason) for each in told] == [("fail", None, "broken")] * 2
        assert sum("Broken" in each.getMessage() for each in caplog.records) == 2

    def test_a_broken_subscriber_or_handler_harms_nobody(self):
        class Handler(logging.Handler):
            def emit(self, record):
                raise Broken

        def subscriber(event):
            raise Broken

        error = ConnectionError("refused")
        _, fetch, _ = raising(error)
        log, handler = logging.getLogger("outlast.observe"), Handler()
        end = outlast.subscribe(subscriber, Observed)
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            with pytest.raises(ConnectionError) as caught:
                outlast.retry(fetch, mode="observe")("u")
        finally:
            end()
            log.removeHandler(handler)
            log.setLevel(logging.NOTSET)
        assert caught.value is error


class TestNested:
    def test_within_one_that_acts(self, told):
        """Each attempt of the outer one is a call of its own; the inner one changes none of them."""
        calls = []

        @outlast.retry(max_attempts=3, base_delay=1, jitter="none")
        def outer():
            return inner()

        @outlast.retry(mode="observe")
        def inner():
            calls.append(outlast.current_attempt().number)
            if len(calls) < 3:
                raise ConnectionError
            return "done"

        with fake_clock() as clock:
            assert outer() == "done"
        assert calls == [1, 2, 3]
        assert clock.waits == [1, 2]
        assert [each.decision for each in told] == ["retry", "retry"]

    def test_around_one_that_acts(self, told):
        calls = []

        @outlast.retry(mode="observe")
        @outlast.retry(max_attempts=3, base_delay=1, jitter="none")
        def fetch():
            calls.append(1)
            raise ConnectionError

        with fake_clock() as clock, pytest.raises(ConnectionError):
            fetch()
        assert (len(calls), len(clock.waits)) == (3, 2)
        assert [(each.decision, each.reason) for each in told] == [("fail", "nested")], "retries do not multiply"


def test_another_mode_is_refused():
    for mode in ("observed", "", None, []):
        with pytest.raises(ConfigError, match="choose act or observe"):
            outlast.retry(mode=mode)
