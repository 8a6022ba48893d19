"""Requests that are interrupted, and what the transports leave behind: no connection, no permit, no memory."""

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
import weakref

import anyio
import anyio.lowlevel
import pytest

import outlast
from integration.http_ways import LIBRARIES
from outlast import RETRYABLE, RetryPolicy
from outlast.http import AsyncRetryTransport, RetryTransport
from outlast.run.cooldowns import CooldownTracker
from servers.feeds import Answer, FeedServer

AT_ONCE = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=0)
PLACES = ["connecting", "stalling", "body", "waiting", "cooling"]


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


def soon(condition):
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


class Slow:
    """A store whose writes wait until they are let go."""

    def __init__(self):
        self.writing, self.go = threading.Event(), threading.Event()

    def now(self):
        from datetime import UTC, datetime

        return datetime.now(UTC)

    def cooldowns(self):
        return []

    def start_cooldown(self, *_args, **_more):
        self.writing.set()
        self.go.wait(10)
        return 0


def prepared(server, place):
    """Return a URL at which a request waits in this place, the settings for it, and what tells that it does."""
    gate = threading.Event()
    settings = {"policy": AT_ONCE}
    if place == "stalling":
        url = server.script("/", Answer(fault="stall"))
        return url, settings, lambda: server.count() == 1
    if place == "body":
        body = Answer(503, {"Content-Length": "100"}, "the beginning")
        return server.script("/", body), settings, lambda: server.count() == 1
    if place == "waiting":
        settings = {"policy": AT_ONCE.replace(base_delay=30)}
        return server.script("/", 503), settings, lambda: server.count() == 1
    if place == "cooling":
        store = Slow()
        settings = {"policy": AT_ONCE, "cooling": CooldownTracker(store)}
        return server.script("/", Answer(429, {"Retry-After": "9"})), settings, store.writing.is_set
    cooling = CooldownTracker()
    url = server.script("/", Answer(gate=gate))
    cooling.start_cooldown(url.split("/")[2], 30, "busy")
    return url, {"policy": AT_ONCE, "cooling": cooling}, lambda: True


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_pitfalls_1_and_12_a_cancelled_request_ends_wherever_it_is(library, backend, place, server):
    name = f"cancelled-{library.__name__}-{backend}-{place}"
    limit = outlast.resource(name, max_concurrency=1)
    url, settings, is_there = prepared(server, place)
    settings["policy"] = settings["policy"].replace(resource=name)

    async def main():
        inner = library.AsyncHTTPTransport()
        transport = AsyncRetryTransport(inner, **settings)
        async with library.AsyncClient(transport=transport, timeout=60) as client, anyio.create_task_group() as group:
            group.start_soon(client.get, url)
            with anyio.fail_after(10):
                while not is_there():  # noqa: ASYNC110  # a thread tells
                    await anyio.sleep(0.01)
                await anyio.sleep(0.05)
            store = getattr(settings.get("cooling"), "_store", None)
            if store is not None:
                store.go.set()
            group.cancel_scope.cancel()
        with contextlib.suppress(AttributeError):
            assert inner._pool.connections == []

    anyio.run(main, backend=backend)
    assert limit.running == 0
    assert server.count() <= 1
    assert soon(lambda: server.open_connections == 0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_asyncio_cancels_natively_while_a_cooldown_is_written(library, server):
    url, settings, is_there = prepared(server, "cooling")

    async def main():
        inner = library.AsyncHTTPTransport()
        client = library.AsyncClient(transport=AsyncRetryTransport(inner, **settings))
        task = asyncio.create_task(client.get(url))
        while not is_there():  # noqa: ASYNC110  # a thread tells
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        settings["cooling"]._store.go.set()
        assert all(connection.is_idle() for connection in inner._pool.connections), "it was given back"
        await client.aclose()

    asyncio.run(main())


class Interrupting:
    """A transport in which somebody presses Ctrl-C."""

    def __init__(self, error):
        self.error, self.calls = error, 0

    def handle_request(self, request):
        self.calls += 1
        raise self.error

    def close(self):
        pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("library", LIBRARIES)
def test_pitfall_2_an_interrupt_is_one_call_and_gives_its_permit_back(library, error):
    name = f"interrupted-{library.__name__}-{error.__name__}"
    limit = outlast.resource(name, max_concurrency=1)
    inner = Interrupting(error())
    policy = RetryPolicy(max_attempts=3, retry_on=(BaseException,), base_delay=0, resource=name)
    with pytest.raises(error):
        library.Client(transport=RetryTransport(inner, policy=policy)).get("http://a.test/")
    assert (inner.calls, limit.running) == (1, 0)


class Closing:
    """A transport whose answers note that they were closed, and whose body is interrupted while it is read."""

    def __init__(self, library):
        self.library, self.closed = library, 0

    def handle_request(self, request):
        outer = self

        class Body(self.library.SyncByteStream):
            def __iter__(self):
                yield b"the beginning"
                raise KeyboardInterrupt

            def close(self):
                outer.closed += 1

        return self.library.Response(503, stream=Body())

    def close(self):
        pass


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_interrupt_in_an_errors_body_closes_it(library):
    inner = Closing(library)
    with pytest.raises(KeyboardInterrupt):
        library.Client(transport=RetryTransport(inner, policy=AT_ONCE)).get("http://a.test/")
    assert inner.closed >= 1


def an_answer_and_its_request(send):
    """Send; return a weak reference to what was sent, once nothing else holds it."""
    gc.collect()
    gc.disable()
    try:
        sent = weakref.ref(send())
        if sys.version_info >= (3, 12):  # there httpx itself leaves a cycle, which takes the collector
            gc.collect()
        return sent()
    finally:
        gc.enable()


@pytest.mark.parametrize("policy", [AT_ONCE, AT_ONCE.replace(deadline=60)], ids=["plain", "deadline"])
@pytest.mark.parametrize("answer", [Answer(503), Answer(fault="close"), Answer(503, fault="truncated")], ids=str)
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_error_that_is_let_go_takes_everything_with_it(library, answer, policy, server):
    url = server.script("/", answer)
    with library.Client(transport=RetryTransport(policy=policy)) as client:

        def send():
            request = client.build_request("GET", url)
            with pytest.raises(library.HTTPError):
                client.send(request)
            return request

        with contextlib.suppress(Exception):
            client.send(client.build_request("GET", url))
        assert an_answer_and_its_request(send) is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_wait_that_is_interrupted_lets_the_error_go(library, server, monkeypatch):
    url = server.script("/", Answer(fault="close"))
    policy = AT_ONCE.replace(deadline=60, base_delay=1)

    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("outlast.clock.sleep", interrupted)
    with library.Client(transport=RetryTransport(policy=policy)) as client:

        def send():
            request = client.build_request("GET", url)
            try:
                client.send(request)
            except KeyboardInterrupt:
                return request
            raise AssertionError

        assert an_answer_and_its_request(send) is None


@pytest.mark.parametrize("library", LIBRARIES if os.environ.get("OUTLAST_SOAK") == "1" else LIBRARIES[-1:])
def test_pitfall_27_ten_thousand_retries_leave_no_connection_behind(library, server, caplog):
    turns = 1250  # with eight answers thrown away for each
    url = server.script("/", [lambda _request: Answer(503 if next(numbers) % 9 else 200, body="a" * 100)])
    numbers = iter(range(1, 10**9))

    async def main():
        limits = library.Limits(max_connections=10, max_keepalive_connections=10, keepalive_expiry=600)
        inner = library.AsyncHTTPTransport(limits=limits)
        policy = AT_ONCE.replace(max_attempts=100_000)
        async with library.AsyncClient(transport=AsyncRetryTransport(inner, policy=policy), timeout=60) as client:

            async def many(times):
                for _ in range(times):
                    assert (await client.get(url)).status_code == 200

            await asyncio.gather(*(many(turns // 10) for _ in range(10)))
            assert len(inner._pool.connections) <= 10
            assert all(connection.is_idle() for connection in inner._pool.connections)

    caplog.set_level("ERROR", "outlast.retry")  # ten thousand warnings are not what is tested
    asyncio.run(main())
    assert server.count() == 9 * turns
    assert server.connections <= 10, "each was used again and again"
    assert soon(lambda: server.open_connections == 0)


@pytest.mark.parametrize("kind", ["long", "truncated", "stall"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_pitfall_27_nor_do_answers_that_cannot_be_read_to_their_end(library, kind, server):
    bad = Answer(503, body="a" * 200_000) if kind == "long" else Answer(503, fault=kind)
    url = server.script("/", [lambda _request: Answer(body="well") if next(numbers) % 2 == 0 else bad])
    numbers = iter(range(1, 10**9))
    inner = library.HTTPTransport(limits=library.Limits(max_connections=2))
    with library.Client(
        transport=RetryTransport(inner, policy=AT_ONCE), timeout=0.4 if kind == "stall" else 5
    ) as client:
        for _ in range(10):
            assert client.get(url).status_code == 200
        assert len(inner._pool.connections) <= 2
    assert soon(lambda: server.open_connections == 0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_many_threads_share_one_transport(library, server):
    url = server.script("/", [lambda _request: Answer(503 if next(numbers) % 3 else 200, body="a" * 100)])
    numbers = iter(range(1, 10**9))
    results = []
    with library.Client(transport=RetryTransport(policy=AT_ONCE.replace(max_attempts=50))) as client:
        threads = [threading.Thread(target=lambda: results.append(client.get(url).status_code)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [200] * 20
    assert soon(lambda: server.open_connections == 0), "one transport was made, and closed"
