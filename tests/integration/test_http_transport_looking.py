"""What is looked at before an answer is judged: so many bytes unpacked, so many seconds, and no secret in any log."""

import gzip
import threading
import time
import tracemalloc

import anyio
import httpx
import httpx2
import pytest

import outlast
from integration.http_ways import LIBRARIES, WAYS
from outlast import RETRYABLE, RetryPolicy
from outlast.decide.breaker import BreakerSettings
from outlast.errors import BodyTooLargeError, BreakerOpenError, ConfigError, ContentError, CoolingDownError
from outlast.http import AsyncRetryTransport, RetryTransport
from outlast.http import request_attempts as module
from outlast.run.cooldowns import CooldownTracker, KnownCooldown
from outlast.stores.sqlite.memory import MemoryStore
from outlast.testing import fake_clock
from servers.feeds import Answer, FeedServer

ONCE = RetryPolicy(max_attempts=1, retry_on=RETRYABLE)
all_ways = pytest.mark.parametrize("way", WAYS)
SIZE = 40_000_000
PACKED = gzip.compress(bytes(SIZE), mtime=0)
TWICE = gzip.compress(PACKED, mtime=0)


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server


def peak(call):
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@all_ways
@pytest.mark.parametrize(("coding", "body"), [("gzip", PACKED), ("gzip, gzip", TWICE)], ids=["once", "twice"])
def test_an_errors_body_is_unpacked_to_a_limit_and_never_twice(way, server, coding, body):
    url = server.script("/", Answer(503, {"Content-Encoding": coding}, body))

    def ask():
        with pytest.raises(way.library.HTTPStatusError) as caught:
            way.ask(url, policy=ONCE)
        return caught.value.response

    response, most = peak(ask)
    assert most < SIZE / 4
    assert response.content == (bytes(module.PEEK_LIMIT) if coding == "gzip" else body[: module.PEEK_LIMIT])
    assert "content-encoding" not in response.headers


@all_ways
def test_nor_is_that_of_one_that_is_returned(way, server):
    url = server.script("/", Answer(404, {"Content-Encoding": "gzip, gzip"}, TWICE))

    def ask():
        if way.is_sync:
            with way.library.Client(transport=RetryTransport(policy=ONCE)) as client, client.stream("GET", url) as got:
                return got.status_code, b"".join(got.iter_raw())

        async def main():
            client = way.library.AsyncClient(transport=AsyncRetryTransport(policy=ONCE))
            async with client, client.stream("GET", url) as got:
                return got.status_code, b"".join([part async for part in got.aiter_raw()])

        return anyio.run(main, backend=way.kind)

    answer, most = peak(ask)
    assert answer == (404, TWICE), "it is the caller's, as it came"
    assert most < SIZE / 4


@all_ways
@pytest.mark.parametrize("status", [200, 404])
def test_with_a_limit_no_more_is_unpacked(way, server, status):
    once = server.script("/once", Answer(status, {"Content-Encoding": "gzip"}, PACKED))
    twice = server.script("/twice", Answer(status, {"Content-Encoding": "gzip, gzip"}, TWICE))

    def ask():
        with pytest.raises(BodyTooLargeError):
            way.ask(once, policy=ONCE, max_body=100_000)
        with pytest.raises(ContentError):
            way.ask(twice, policy=ONCE, max_body=100_000)

    assert peak(ask)[1] < SIZE / 4


@all_ways
def test_with_a_limit_nothing_is_asked_for_that_cannot_be_counted(way, server):
    url = server.script("/", 200)
    way.ask(url, max_body=10, headers={"Accept-Encoding": "br, gzip"})
    way.ask(url, headers={"Accept-Encoding": "br, gzip"})
    asked = [request.headers["accept-encoding"] for request in server.requests]
    assert asked == ["gzip, deflate", "br, gzip"]


def stalling(library, seen):
    """Return a transport whose answers' bodies come to a halt after their beginning."""

    class Body(library.SyncByteStream, library.AsyncByteStream):
        def __init__(self, request):
            self.request = request

        def __iter__(self):
            seen.append(self.request.extensions["timeout"]["read"])
            yield b"the beginning"
            raise library.ReadTimeout("of the connection")

        async def __aiter__(self):
            yield b"the beginning"
            await anyio.sleep(20)
            yield b" and the end"

    class Both(library.BaseTransport, library.AsyncBaseTransport):
        def handle_request(self, request):
            return library.Response(404, stream=Body(request))

        async def handle_async_request(self, request):
            return self.handle_request(request)

    return Both()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("policy", "client", "read"),
    [
        (ONCE, {"timeout": 60}, 5.0),
        (ONCE, {"timeout": None}, 5.0),
        (ONCE, {"timeout": 2}, 2),
        (ONCE.replace(attempt_timeout=3), {"timeout": 60}, 3),
    ],
    ids=["longer", "none", "shorter", "attempt"],
)
def test_a_body_that_stalls_is_looked_at_for_five_seconds_at_most(library, policy, client, read):
    seen = []
    with (
        fake_clock(),
        library.Client(transport=RetryTransport(stalling(library, seen), policy=policy), **client) as opened,
    ):
        request = opened.build_request("GET", "http://a.test/")
        before = dict(request.extensions["timeout"])
        response = opened.send(request, stream=True)
        assert (response.status_code, seen) == (404, [read])
        assert request.extensions["timeout"] == before, "as the caller left it"
        with pytest.raises(library.ReadTimeout):
            response.read()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("limit", ["look", "attempt"])
def test_an_async_look_is_cancelled_when_its_time_is_over(library, backend, limit, monkeypatch):
    policy = ONCE
    if limit == "look":
        monkeypatch.setattr(module, "PEEK_SECONDS", 0.1)
    else:
        policy = ONCE.replace(attempt_timeout=0.3)

    async def main():
        transport = AsyncRetryTransport(stalling(library, []), policy=policy)
        async with (
            library.AsyncClient(transport=transport, timeout=None) as client,
            client.stream("GET", "http://a.test/") as got,
        ):
            assert got.status_code == 404
            with pytest.raises(library.ReadTimeout):
                await got.aread()

    anyio.run(main, backend=backend)


@all_ways
def test_a_cooldown_longer_than_the_deadline_is_handed_back_at_once(way, server):
    cooling, url = CooldownTracker(), server.script("/", 200)
    policy = ONCE.replace(deadline=10)
    with fake_clock() as clock:
        cooling.start_cooldown(url.split("/")[2], 60, "busy")
        with pytest.raises(CoolingDownError) as caught:
            way.ask(url, policy=policy, cooling=cooling)
        assert (clock.waits, server.count()) == ([], 0)
        clock.advance(55)
        assert way.ask(url, policy=policy, cooling=cooling).status_code == 200
    assert caught.value.retry_after == 60


def ended(url):
    """Return cooldowns in which a capped one of the host is over, so that one may try."""
    cooling = CooldownTracker()
    cooling._known[url.split("/")[2]] = KnownCooldown(-1e9, 1)
    return cooling


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_probe_that_is_cancelled_is_the_next_ones(library, backend, server):
    url = server.script("/", [Answer(fault="stall"), 200])
    cooling = ended(url)

    async def main():
        async with library.AsyncClient(transport=AsyncRetryTransport(policy=ONCE, cooling=cooling)) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, url)
                while not server.count():  # noqa: ASYNC110  # a thread tells
                    await anyio.sleep(0.01)
                group.cancel_scope.cancel()
            return await client.get(url)

    assert anyio.run(main, backend=backend).status_code == 200


class Asked(MemoryStore):
    """A store that takes its time to say who may try."""

    def __init__(self):
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def probe(self, resource, hold):
        self.asked.set()
        assert self.go.wait(20)
        return super().probe(resource, hold)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_so_is_one_that_was_granted_to_nobody(library, backend):
    store = Asked()
    cooling = CooldownTracker(store)
    cooling.left("a.test")
    cooling._known["a.test"] = KnownCooldown(-1e9, 1)

    async def main():
        inner = library.MockTransport(lambda _request: library.Response(200))
        client = library.AsyncClient(transport=AsyncRetryTransport(inner, policy=ONCE, cooling=cooling))
        async with client, anyio.create_task_group() as group:
            group.start_soon(client.get, "http://a.test/")
            while not store.asked.is_set():  # noqa: ASYNC110  # a thread tells
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        assert not store.go.is_set(), "who is cancelled does not wait for the store"
        assert cooling.is_probing("a.test")
        store.go.set()

    try:
        anyio.run(main, backend=backend)
        limit = time.monotonic() + 10
        while cooling.is_probing("a.test") and time.monotonic() < limit:
            time.sleep(0.01)
        assert not cooling.is_probing("a.test")
    finally:
        store.go.set()
        cooling.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_so_is_one_that_is_interrupted(library):
    cooling = ended("http://a.test/")

    def interrupted(_request):
        raise KeyboardInterrupt

    transport = RetryTransport(library.MockTransport(interrupted), policy=ONCE, cooling=cooling)
    with pytest.raises(KeyboardInterrupt):
        library.Client(transport=transport).get("http://a.test/")
    assert cooling.admit("a.test") == 0


@all_ways
def test_a_breaker_that_lets_nobody_pass_keeps_no_probe(way, server):
    url = server.script("/", 200)
    cooling, name = ended(url), f"open-{way}"
    guard = outlast.resource(name, breaker=BreakerSettings())
    guard.open(30)
    with pytest.raises(BreakerOpenError):
        way.ask(url, policy=ONCE.replace(resource=name), cooling=cooling)
    assert way.ask(url, policy=ONCE, cooling=cooling, patience=0).status_code == 200


def test_a_default_transport_is_one_librarys(server):
    url, transport = server.script("/", 200), RetryTransport(policy=ONCE)
    with httpx.Client(transport=transport) as client:
        assert client.get(url).status_code == 200
        with pytest.raises(ConfigError, match="create another one for httpx2"):
            httpx2.Client(transport=transport).get(url)


@pytest.mark.parametrize("library", LIBRARIES)
def test_pitfall_26_a_body_that_was_begun_is_not_sent_again_though_nothing_was_sent(library):
    sent = []

    def signing(request):
        sent.append(b"".join(request.stream))
        raise library.ConnectError("refused", request=request)

    class Signing(library.BaseTransport):
        def handle_request(self, request):
            return signing(request)

    policy = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=0)
    client = library.Client(transport=RetryTransport(Signing(), policy=policy))
    with pytest.raises(library.ConnectError) as caught:
        client.put("http://a.test/", content=iter([b"pay"]))
    assert sent == [b"pay"]
    assert "read only once" in caught.value.__notes__[0]
    sent.clear()
    with pytest.raises(library.ConnectError):
        client.post("http://a.test/", content=b"pay")
    assert sent == [b"pay"] * 3


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "url",
    [
        "https://api.telegram.org/bot123456789:AAF3klsdjfKJHKJHsdf98KJH/sendMessage",
        "https://hooks.slack.com/services/T00000000/B00000000/AAF3klsdjfKJHKJHsdf98KJH",
    ],
)
def test_a_secret_in_a_path_is_in_no_log_and_no_error(library, url, caplog):
    policy = RetryPolicy(max_attempts=2, retry_on=RETRYABLE, base_delay=0)
    inner = library.MockTransport(lambda _request: library.Response(503, headers={"Retry-After": "1"}))
    caplog.set_level("INFO", "outlast")
    with fake_clock(), pytest.raises(library.HTTPStatusError) as caught:
        library.Client(transport=RetryTransport(inner, policy=policy, scope="url")).get(url)
    assert len(caplog.records) > 3
    assert "AAF3kls" not in caplog.text + str(caught.value) + repr(caught.value.__outlast__)
