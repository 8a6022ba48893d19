"""An error is classified at most once per attempt, from the first `except` to the dead letter, page and alert."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime

import httpx
import httpx2
import pytest

import outlast
from outlast import RetryPolicy, clock
from outlast.classify import Classifier
from outlast.decide.breaker import BreakerSettings
from outlast.decide.decision import AlertKind
from outlast.decide.source_health import Profile, SourceHealth
from outlast.errors import CoolingDownError, NetworkError, ResourceNotFoundError
from outlast.http import AsyncRetryTransport, RetryTransport, fetch_with_retry, fetch_with_retry_on_403
from outlast.observe.alert_delivery import ChannelQueue, send_queues
from outlast.ports.rows import DeadLetterFilter
from outlast.ports.source_rows import Alert, NewSource, Source
from outlast.record import bus
from outlast.record.events import TaskFailed
from outlast.run.cooldowns import CooldownTracker
from outlast.sources.poller import Poller, PollSettings
from outlast.testing import drain, fake_clock
from outlast.worker import ErrorHandler

URL = "https://api.test/items"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
THREE = RetryPolicy(max_attempts=3, base_delay=1)
BY_TYPE = RetryPolicy(max_attempts=3, base_delay=1, retry_on=(ConnectionError,))


class Classifications:
    """What was classified, in order; every error is kept, so that no two have the same id."""

    def __init__(self):
        self.subjects = []

    def __len__(self):
        return len(self.subjects)

    @property
    def most_per_error(self):
        """How often the error was classified that was classified most often."""
        return max(Counter(map(id, self.subjects)).values(), default=0)


@pytest.fixture(autouse=True)
def classified(monkeypatch):
    """Count every classification."""
    classify, seen = Classifier.classify, Classifications()

    def counting(self, subject):
        seen.subjects.append(subject)
        return classify(self, subject)

    monkeypatch.setattr(Classifier, "classify", counting)
    return seen


@pytest.fixture(autouse=True)
def _fake_clock():
    with fake_clock():
        yield


@pytest.fixture(params=["quiet", "told"])
def told(request, caplog):
    """Log nothing and have no subscriber; or log everything and have a subscriber to everything."""
    assert not bus.subscribers
    if request.param == "quiet":
        caplog.set_level(logging.CRITICAL, "outlast")
        return False
    caplog.set_level(logging.DEBUG, "outlast")
    outlast.subscribe(repr)  # the fixture for all tests takes it off the bus
    return True


@pytest.fixture
def app():
    app = outlast.App("memory://")
    yield app
    app.close()


@pytest.fixture
def guarded(request):
    """The name of a resource with a breaker, which asks which errors are failures of the resource."""
    name = f"classified once: {request.node.name}"
    outlast.resource(name, breaker=BreakerSettings(consecutive=100))
    return name


class Failing:
    """A function that raises a new error at every call; it counts its calls."""

    def __init__(self, make):
        self.make, self.calls = make, 0

    def __call__(self, *args):
        self.calls += 1
        raise self.make()

    async def in_coroutine(self, *args):
        self()


def reset():
    return ConnectionResetError("reset by peer")


def status_error(status=404):
    response = httpx.Response(status, request=httpx.Request("GET", URL))
    return httpx.HTTPStatusError(f"HTTP {status}", request=response.request, response=response)


def status_error_503():
    return status_error(503)


def call_sync(function, policy):
    with pytest.raises(Exception, match=r"."):
        outlast.call(function, policy=policy)


def call_async(function, policy):
    with pytest.raises(Exception, match=r"."):
        asyncio.run(outlast.call(function.in_coroutine, policy=policy))


def call_block(function, policy):
    with pytest.raises(Exception, match=r"."):
        for attempt in outlast.attempts(policy):
            with attempt:
                function()


@pytest.mark.parametrize("call", [call_sync, call_async, call_block])
class TestCall:
    def test_a_call_classifies_each_error_once(self, call, told, classified):
        function = Failing(status_error_503)
        call(function, THREE)
        assert (function.calls, len(classified), classified.most_per_error) == (3, 3, 1)

    def test_types_alone_need_no_classification(self, call, told, classified):
        function = Failing(reset)
        call(function, BY_TYPE)
        assert function.calls == 3
        assert len(classified) == (3 if told else 0)
        assert classified.most_per_error <= 1

    def test_nor_does_an_error_that_no_type_includes(self, call, told, classified):
        call(Failing(lambda: ValueError("bad")), BY_TYPE)
        assert len(classified) == (1 if told else 0)

    def test_the_breaker_shares_the_classification(self, call, told, guarded, classified):
        function = Failing(status_error_503)
        call(function, THREE.replace(resource=guarded))
        assert (function.calls, len(classified), classified.most_per_error) == (3, 3, 1)

    @pytest.mark.parametrize("inner_policy", [THREE, BY_TYPE])
    def test_an_outer_retry_takes_over_the_classification(self, call, told, inner_policy, guarded, classified):
        function = Failing(reset)

        class Outer(Failing):
            def __call__(self):
                outlast.call(function, policy=inner_policy)

        call(Outer(None), THREE.replace(resource=guarded))
        assert function.calls == 3, "the outer retry does not repeat what the inner one has given up"
        assert len(classified) <= 3
        assert classified.most_per_error == 1

    def test_a_wait_that_ends_after_the_deadline_needs_no_second_one(self, call, told, classified, monkeypatch):
        function = Failing(status_error_503)
        wait, wait_async = clock.sleep, clock.sleep_async
        monkeypatch.setattr(clock, "sleep", lambda seconds: wait(seconds + 60))
        monkeypatch.setattr(clock, "sleep_async", lambda seconds: wait_async(seconds + 60))
        call(function, THREE.replace(deadline=10))
        assert (function.calls, classified.most_per_error) == (1, 1)


def test_observe_mode_classifies_once(told, classified):
    with suppress(ConnectionError):
        outlast.retry(Failing(reset), mode="observe")()
    assert len(classified) == 1


class Responses(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Gives one response after the other, by status and Retry-After; an error is raised."""

    def __init__(self, *given):
        self.left = list(given)
        self.calls = 0

    def handle_request(self, request):
        self.calls += 1
        given = self.left.pop(0)
        if isinstance(given, Exception):
            raise given
        status, *hint = given
        headers = {"Retry-After": str(hint[0])} if hint else {}
        return httpx.Response(status, headers=headers)

    async def handle_async_request(self, request):
        return self.handle_request(request)


def send_sync(inner, policy):
    with httpx.Client(transport=RetryTransport(inner, policy=policy)) as client:
        return client.get(URL)


def send_async(inner, policy):
    async def send():
        async with httpx.AsyncClient(transport=AsyncRetryTransport(inner, policy=policy)) as client:
            return await client.get(URL)

    return asyncio.run(send())


@pytest.mark.parametrize("send", [send_sync, send_async])
class TestHttp:
    """Each attempt makes an error of its own for its response, so these tests count per attempt."""

    def test_a_response_that_is_retried_and_one_that_is_returned(self, send, told, guarded, classified):
        inner = Responses((503,), (404,))
        assert send(inner, THREE.replace(resource=guarded)).status_code == 404
        assert (inner.calls, len(classified)) == (2, 2)

    def test_a_rate_limit_that_starts_a_cooldown(self, send, told, guarded, classified):
        inner = Responses((429, 5), (429,), (200,))
        assert send(inner, THREE.replace(resource=guarded)).status_code == 200
        assert (inner.calls, len(classified)) == (3, 2)

    def test_a_response_that_is_given_up(self, send, told, classified):
        inner = Responses((503,), (503,), (503,))
        with pytest.raises(httpx.HTTPStatusError):
            send(inner, THREE)
        assert (inner.calls, len(classified)) == (3, 3)

    def test_a_retry_around_the_client(self, send, told, classified):
        inner = Responses((503,), (503,), (503,))
        with pytest.raises(httpx.HTTPStatusError):
            outlast.call(send, inner, THREE, policy=THREE)
        assert (inner.calls, len(classified)) == (3, 3)


def test_a_request_that_is_not_sent_during_a_cooldown(told, classified):
    inner = Responses((429, 600), (200,))
    with httpx.Client(transport=RetryTransport(inner, policy=THREE, patience=60)) as client:
        with pytest.raises(httpx.HTTPStatusError):
            client.get(URL)
        assert (inner.calls, len(classified)) == (1, 1)
        with pytest.raises(CoolingDownError):
            client.get(URL)
    assert (inner.calls, len(classified)) == (1, 1)


def test_fetch_with_retry(told, classified):
    inner = Responses((503,), httpx.ConnectError("refused"), (404,))

    async def fetch():
        async with httpx.AsyncClient(transport=inner) as client:
            return await fetch_with_retry(client, URL)

    assert asyncio.run(fetch()).status_code == 404
    assert (inner.calls, len(classified)) == (3, 3)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("raises", [False, True])
def test_fetch_with_retry_on_403(told, is_async, raises, classified):
    inner = Responses((403,), (403,), (404,))

    def fetch():
        response = inner.handle_request(None)
        response.request = httpx.Request("GET", URL)
        return response.raise_for_status() if raises else response

    async def fetch_async():
        return fetch()

    with suppress(httpx.HTTPStatusError):
        if is_async:
            asyncio.run(fetch_with_retry_on_403(fetch_async))
        else:
            fetch_with_retry_on_403(fetch)
    assert (inner.calls, len(classified)) == (3, 3 if raises else 2)
    assert classified.most_per_error == 1


def test_an_error_of_the_store_in_a_worker(told, app, classified, monkeypatch):
    app.task(name="work")(lambda: None).enqueue()
    settle, errors = app.store.settle_and_claim, [ConnectionResetError("gone")]

    def failing(request):
        if errors:
            raise errors.pop()
        return settle(request)

    monkeypatch.setattr(app.store, "settle_and_claim", failing)
    drain(app)
    assert not errors
    assert len(classified) == 1


SOURCE = Source(
    1, URL, "feed", "", None, SourceHealth(), None, None, NOW, None, None, None, None, None, 1, None, None, 1, NOW, NOW
)  # fmt: skip


@pytest.mark.parametrize("status", [404, 503, 429])
def test_a_poll(told, status, guarded, classified):
    fetch = Failing(lambda: status_error(status))
    policy = THREE.replace(retry_on=Exception, resource=guarded)

    async def poll():
        how = PollSettings(Profile("feed", policy), fetch.in_coroutine, None, 900, 60, concurrency=1, per_host=1)
        return await Poller(how, CooldownTracker(), None).poll(SOURCE)

    written = asyncio.run(poll())(SOURCE, NOW)
    assert written.poll.attempts == fetch.calls == len(classified)
    assert classified.most_per_error == 1


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (403, 4), (503, 1), (429, 1)])
def test_a_monitor_of_a_feed(told, status, attempts, app, classified, monkeypatch):
    """The transport of the monitor's client classifies the response, and the poll the error that it becomes."""
    requests = []

    def answer(request):
        requests.append(request)
        return httpx2.Response(status)

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", lambda **_: httpx2.MockTransport(answer))
    app.sources.add_many([NewSource(URL, "feed")])
    summary = app.monitor("feed").cycle()

    assert summary.cycle.failed + summary.cycle.deferred == 1
    assert len(requests) == attempts
    assert len(classified) == attempts


@pytest.mark.parametrize("make", [lambda: status_error(404), status_error_503, reset])
def test_a_target_of_a_job_that_fails(told, make, app, classified):
    handler = Failing(make)
    job = app.job("items", entity="item", policy=THREE.replace(retry_on=Exception))(lambda context, target: handler())
    run = job.run(["a", "b"])

    assert run.failed_targets == 2
    assert all(each.category for each in app.store.targets(run.run_id))
    assert handler.calls == len(classified) == 6
    assert classified.most_per_error == 1


def test_a_target_of_a_job_that_is_skipped_or_ends_the_job(told, app, classified):
    errors = [outlast.errors.SkipTarget("not today"), outlast.errors.AbortJob("enough")]
    handler = Failing(lambda: errors.pop(0))
    app.job("items", entity="item")(lambda context, target: handler()).run(["a", "b"])
    assert handler.calls == len(classified) == 2


@pytest.mark.parametrize("make", [lambda: status_error(404), status_error_503, reset])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_that_becomes_a_dead_letter(told, make, is_async, app, guarded, classified):
    function = Failing(make)
    policy = RetryPolicy(max_attempts=2, retry_on=Exception, resource=guarded)

    @app.task(policy=policy)
    def work():
        function()

    @app.task(policy=policy)
    async def work_async():
        function()

    (work_async if is_async else work).enqueue()
    drain(app)

    (letter,) = app.store.dead_letters(DeadLetterFilter())
    assert letter.error_category
    assert function.calls == len(classified) == 2
    assert classified.most_per_error == 1


def test_a_task_whose_predicate_raises_is_published_as_broken(app):
    failed = []
    outlast.subscribe(lambda event: failed.append(event) if isinstance(event, TaskFailed) else None)
    policy = RetryPolicy(max_attempts=3, retry_on=lambda error: error.missing)
    app.task(name="work", policy=policy)(Failing(reset)).enqueue()
    drain(app)

    (letter,) = app.store.dead_letters(DeadLetterFilter())
    assert [event.reason for event in failed] == ["broken"]
    assert letter.reason == "permanent"


def test_a_task_whose_function_retries_by_itself(told, app, classified):
    function = Failing(status_error_503)
    app.task(name="work", policy=RetryPolicy(max_attempts=2))(lambda: outlast.call(function, policy=THREE)).enqueue()
    drain(app)
    assert function.calls == len(classified) == 6


def test_an_attempt_that_is_reported_to_an_error_handler(told, app, classified):
    task = app.task(name="work")(lambda: None).enqueue()
    handler = ErrorHandler(app)
    assert handler.handle_error(task.id, NetworkError("down"), 1)["retry"]
    assert len(classified) == 1
    assert not handler.handle_error(task.id, ResourceNotFoundError("gone"), 2)["retry"]
    assert len(classified) == 2


@pytest.mark.parametrize("policy", [None, THREE])
def test_the_delivery_of_an_alert(told, policy, classified):
    """Also through a channel that retries by itself."""
    function = Failing(status_error_503)

    class SomeChannel:
        name = "channel"

        def send(self, message):
            return function() if policy is None else outlast.call(function, policy=policy)

    alert = Alert(1, "source:1", AlertKind.FIRST, "error", "title", "", 1, 1, (), None, None, NOW)
    queue = ChannelQueue(SomeChannel(), [alert], THREE, clock.monotonic() + 600)
    send_queues([queue], lambda: False)

    assert list(queue.failed) == [1]
    assert function.calls == len(classified)
    assert classified.most_per_error == 1
