"""`retry_on` as a function that returns a verdict, and `retry_result`."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import closing
from datetime import timedelta
from itertools import count, pairwise

import httpx
import pytest

import outlast
from outlast import Budget, RetryPolicy
from outlast.decide.decision import DecisionReason, Retry
from outlast.errors import ConfigError
from outlast.http import RetryTransport
from outlast.queue.task_failure import TaskFailure, task_failure_of
from outlast.record.bus import subscribe
from outlast.record.events import GaveUp, Retrying
from outlast.testing import drain, fake_clock

_numbers = count(1)


class FailsTwice:
    """Raises two errors, then returns; or returns two values, then another."""

    def __init__(self, *outcomes):
        self.outcomes, self.calls = list(outcomes), 0

    def __call__(self):
        self.calls += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def in_coroutine(self):
        await asyncio.sleep(0)
        return self()


def failing_twice():
    return FailsTwice(OSError("one"), OSError("two"), "fine")


class Bool:
    """Like a bool of numpy: not the singleton, and equal to it."""

    def __bool__(self):
        return True

    def __eq__(self, other):
        return other is True

    __hash__ = None


@pytest.fixture
def clock():
    with fake_clock() as clock:
        yield clock


@pytest.fixture
def give_ups():
    events = []
    unsubscribe = subscribe(events.append, GaveUp)
    yield events
    unsubscribe()


class TestFunction:
    @pytest.mark.parametrize(
        ("verdict", "waits"),
        [
            (True, [2.0, 2.0]),
            (5, [5.0, 5.0]),
            (1, [1.0, 1.0]),
            (0, []),
            (0.0, []),
            (0.25, [0.25, 0.25]),
            (timedelta(minutes=1), [60.0, 60.0]),
        ],
    )
    def test_says_whether_and_when_to_retry(self, clock, verdict, waits):
        function = failing_twice()
        policy = RetryPolicy(retry_on=lambda error: verdict, base_delay=2.0, max_delay=3.0, jitter=0)

        assert outlast.call(function, policy=policy) == "fine"
        assert clock.waits == waits

    def test_false_gives_up(self, clock):
        with pytest.raises(OSError, match="one") as caught:
            outlast.call(failing_twice(), policy=RetryPolicy(retry_on=lambda error: False))
        assert caught.value.__outlast__.reason == "permanent"

    @pytest.mark.parametrize(
        "verdict", [None, "yes", Bool(), -1, -0.5, float("nan"), float("inf"), timedelta(-1), [], object()]
    )
    def test_anything_else_is_reported_and_the_error_raised(self, caplog, verdict):
        def decide_it(error):
            return verdict

        function = failing_twice()
        with pytest.raises(OSError, match="one") as caught:
            outlast.call(function, policy=RetryPolicy(retry_on=decide_it))
        assert caught.value.__outlast__.reason == "broken"
        assert function.calls == 1
        assert "decide_it returned " in caplog.text
        assert "return True to retry, False to give up, or the wait" in caplog.text

    def test_jitter_does_not_change_the_wait(self, clock):
        policy = RetryPolicy(retry_on=lambda error: 5, jitter="full")

        outlast.call(failing_twice(), policy=policy)
        assert clock.waits == [5.0, 5.0]

    def test_a_wait_beyond_the_deadline_is_not_slept(self, clock):
        with pytest.raises(OSError, match="one") as caught:
            outlast.call(failing_twice(), policy=RetryPolicy(retry_on=lambda error: 5, deadline=4))
        assert caught.value.__outlast__.reason == "deferred"
        assert caught.value.__outlast__.retry_at == clock.now() + 5
        assert clock.waits == []

    def test_it_replaces_the_wait_that_an_error_asks_for(self, clock):
        function = FailsTwice(outlast.errors.RateLimitError("slow down", retry_after=30), "fine")

        assert outlast.call(function, policy=RetryPolicy(retry_on=lambda error: 2)) == "fine"
        assert clock.waits == [2.0]

    def test_async(self, clock):
        function = failing_twice()
        policy = RetryPolicy(retry_on=lambda error: 4)

        assert asyncio.run(outlast.call(function.in_coroutine, policy=policy)) == "fine"
        assert clock.waits == [4.0, 4.0]

    def test_in_a_block(self, clock):
        function = failing_twice()
        for attempt in outlast.attempts(RetryPolicy(retry_on=lambda error: 4)):
            with attempt:
                function()
        assert clock.waits == [4.0, 4.0]

    def test_in_a_transport(self, clock):
        statuses = [418, 418, 200]
        inner = httpx.MockTransport(lambda request: httpx.Response(statuses.pop(0)))
        policy = RetryPolicy(retry_on=lambda error: 3 if error.response.status_code == 418 else False)
        with httpx.Client(transport=RetryTransport(inner, policy=policy)) as client:
            assert client.get("https://api.test/").status_code == 200
        assert clock.waits == [3.0, 3.0]

    def test_in_a_task(self, clock):
        times = []
        with closing(outlast.App("memory://")) as app:

            @app.task(policy=RetryPolicy(retry_on=lambda error: 3600, max_attempts=3))
            def work():
                times.append(clock.monotonic())
                raise ValueError("not yet")

            work.enqueue()
            assert drain(app).dead == 1
        assert [round(later - earlier) for earlier, later in pairwise(times)] == [3600, 3600]

    def test_crosses_the_border_of_a_process(self):
        failure = task_failure_of(ValueError("x"), RetryPolicy(retry_on=lambda error: 5))

        copied = TaskFailure.from_dict(json.loads(json.dumps(failure.to_dict())))
        assert (copied.wanted, copied.wait) == (True, 5.0)

    def test_in_a_job(self, clock):
        calls = []
        with closing(outlast.App("memory://")) as app:

            @app.job("fetching", max_failure_rate=0, policy=RetryPolicy(retry_on=lambda error: 7))
            def fetch(context, target):
                calls.append(target)
                if len(calls) < 3:
                    raise ValueError("not yet")

            assert fetch.run(["one"]).attempts == 3
        assert clock.waits == [7.0, 7.0]

    def test_explain_shows_it(self):
        policy = RetryPolicy(retry_on=lambda error: 5, max_attempts=3)
        explanation = outlast.explain(ValueError("x"), policy=policy)

        assert explanation.decision == Retry(5.0, DecisionReason.VERDICT)
        assert explanation.action.endswith("waiting 5, 5 s between them; the retry_on function returned 5 s")
        refused = outlast.explain(TimeoutError("x"), policy=RetryPolicy(retry_on=lambda error: False))
        assert refused.action == "raise it at once; the retry_on function returned False"


def not_ready(value):
    return value != "fine"


class TestResult:
    @pytest.mark.parametrize(("verdict", "waits"), [(True, [2.0, 2.0]), (5, [5.0, 5.0]), (timedelta(0), [])])
    def test_is_retried(self, clock, verdict, waits):
        function = FailsTwice("pending", "pending", "fine")

        result = outlast.call(
            function,
            policy=RetryPolicy(base_delay=2.0),
            retry_result=lambda value: verdict if value == "pending" else False,
        )
        assert (result, clock.waits) == ("fine", waits)

    def test_the_last_value_is_returned(self, clock, give_ups, caplog):
        function = FailsTwice({"token": "hunter2"}, {"token": "hunter3"})
        retried = outlast.retry(function, max_attempts=2, jitter=0, retry_result=lambda value: True)

        assert retried() == {"token": "hunter3"}
        assert [(each.reason, each.attempts) for each in give_ups] == [("exhausted", 2)]
        assert "gave up after 2 attempts (exhausted): RetriedResult" in caplog.text
        assert "the returned dict" in caplog.text
        assert "hunter" not in caplog.text + repr(give_ups)

    def test_with_every_form_of_retry(self, clock):
        policy = RetryPolicy(max_attempts=3)
        for decorate in (
            outlast.retry(policy, retry_result=not_ready),
            outlast.retry(policy=policy, retry_result=not_ready),
            outlast.retry(max_attempts=3, retry_result=not_ready),
            lambda function: outlast.with_policy(outlast.retry(function, retry_result=not_ready), max_attempts=3),
        ):
            function = FailsTwice("pending", "pending", "fine")
            assert decorate(function)() == "fine"

    def test_async(self, clock, give_ups):
        function = FailsTwice("pending", "pending", "fine")
        policy = RetryPolicy(base_delay=3, attempt_timeout=50)
        assert asyncio.run(outlast.call(function.in_coroutine, policy=policy, retry_result=not_ready)) == "fine"
        assert clock.waits == [3.0, 3.0]

        function = FailsTwice("pending", "pending", "last")
        assert asyncio.run(outlast.call(function.in_coroutine, policy=policy, retry_result=not_ready)) == "last"
        assert [each.reason for each in give_ups] == ["exhausted"]

    @pytest.mark.parametrize("verdict", [True, 5])
    def test_at_the_deadline_the_last_value_is_returned(self, clock, give_ups, verdict):
        function = FailsTwice("pending", "pending")
        policy = RetryPolicy(base_delay=5, deadline=7)

        assert outlast.call(function, policy=policy, retry_result=lambda value: verdict) == "pending"
        assert [each.reason for each in give_ups] == ["deadline" if verdict is True else "deferred"]
        assert clock.waits == [5.0]

    def test_a_late_wake_up_after_the_deadline_returns_the_last_value(self, clock, give_ups, monkeypatch):
        monkeypatch.setattr(outlast.clock, "sleep", lambda seconds: clock.advance(100))

        assert outlast.call(lambda: "pending", policy=RetryPolicy(deadline=10), retry_result=not_ready) == "pending"
        assert [each.reason for each in give_ups] == ["deadline"]

    def test_errors_are_still_retried_by_the_policy(self, clock):
        function = FailsTwice(ConnectionError(), "pending", ValueError("a bug"))
        with pytest.raises(ValueError, match="a bug"):
            outlast.call(function, policy=RetryPolicy(max_attempts=5), retry_result=not_ready)

    def test_a_fallback_is_for_errors_only(self, clock):
        retried = outlast.retry(lambda: "pending", max_attempts=2, retry_result=not_ready, fallback=lambda error: "no")
        assert retried() == "pending"

    def test_it_is_no_failure_of_the_resource_but_takes_from_its_retry_budget(self, clock, give_ups):
        name = f"results {next(_numbers)}"
        guard = outlast.resource(name, breaker=outlast.BreakerSettings(consecutive=1), budget=Budget(1, 0))
        policy = RetryPolicy(max_attempts=5, resource=name)
        function = FailsTwice("pending", "pending", "pending")

        assert outlast.call(function, policy=policy, retry_result=not_ready) == "pending"
        assert function.calls == 2
        assert [each.reason for each in give_ups] == ["budget"]
        assert not guard.is_open

    def test_current_attempt(self, clock):
        numbers = []

        def look():
            numbers.append(outlast.current_attempt().number)

        outlast.call(look, policy=RetryPolicy(max_attempts=3), retry_result=lambda value: value is None)
        assert numbers == [1, 2, 3]

    def test_without_retries_the_value_is_returned(self):
        with outlast.no_retries():
            assert outlast.call(lambda: "pending", retry_result=not_ready) == "pending"

    @pytest.mark.parametrize("verdict", [None, "yes", -1, Bool()])
    def test_anything_else_is_reported_and_the_value_returned(self, caplog, verdict):
        def decide_it(value):
            return verdict

        assert outlast.call(lambda: "value", retry_result=decide_it) == "value"
        assert "retry_result failed" in caplog.text
        assert "decide_it returned " in caplog.text

    def test_where_it_cannot_work(self):
        with pytest.raises(ConfigError, match="a block has none; use"):
            outlast.attempts(retry_result=not_ready)
        with pytest.raises(ConfigError, match="retry_result cannot be observed"):
            outlast.retry(mode="observe", retry_result=not_ready)
        with pytest.raises(ConfigError, match="retry_result is 3; give a plain function"):
            outlast.call(len, retry_result=3)

    def test_an_awaitable_of_a_plain_function_is_still_refused(self):
        async def result():
            pass

        def function():
            return result()

        with pytest.raises(ConfigError, match="returned a coroutine"):
            outlast.call(function, retry_result=not_ready)

    def test_events(self, clock):
        events = []
        unsubscribe = subscribe(events.append, Retrying)
        outlast.call(FailsTwice("pending", "fine"), retry_result=not_ready)
        unsubscribe()
        assert [(each.attempt, each.failure.exception_name) for each in events] == [(1, "RetriedResult")]


@pytest.fixture(autouse=True)
def _warnings(caplog):
    caplog.set_level(logging.WARNING, "outlast")
