"""One attempt of an async request and its time: the first is watched with others, later ones have timers of their own."""

import asyncio
import contextlib
import gzip
import itertools

import anyio
import httpx
import httpx2
import pytest

from outlast import RETRYABLE, RetryPolicy
from outlast.http import AsyncRetryTransport, RetryTransport
from outlast.http.transport import adapter_of
from outlast.run.cooldowns import CooldownTracker
from outlast.testing import fake_clock

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
AT_ONCE = RetryPolicy(max_attempts=3, retry_on=RETRYABLE, base_delay=0)


class Inner(httpx.AsyncBaseTransport):
    """A transport that does as it is told, once per request."""

    def __init__(self, *turns):
        self.turns, self.calls = list(turns), 0

    async def handle_async_request(self, request):
        self.calls += 1
        return await self.turns.pop(0)(request)


async def stalls(_request):
    await anyio.sleep(60)


def answers(library):
    async def answer(_request):
        return library.Response(200, content=b"well")

    return answer


async def raises_its_own(_request):
    raise TimeoutError("mine")


@LIBRARIES
@BACKENDS
@pytest.mark.parametrize("limit", ["attempt_timeout", "deadline"])
def test_a_stall_is_the_librarys_own_timeout(library, backend, limit):
    inner = Inner(stalls, stalls, stalls)

    async def main():
        policy = AT_ONCE.replace(**{limit: 0.05})
        async with library.AsyncClient(transport=AsyncRetryTransport(inner, policy=policy)) as client:
            await client.get("http://a.test/")

    with pytest.raises(library.ReadTimeout) as caught:
        anyio.run(main, backend=backend)
    assert caught.value.request.url == "http://a.test/"
    assert inner.calls == (3 if limit == "attempt_timeout" else 1)


@LIBRARIES
@BACKENDS
def test_a_timeout_of_the_wrapped_transports_own_making_stays_what_it_is(library, backend):
    inner = Inner(raises_its_own, raises_its_own, raises_its_own)

    async def main():
        transport = AsyncRetryTransport(inner, policy=AT_ONCE.replace(attempt_timeout=30))
        async with library.AsyncClient(transport=transport) as client:
            await client.get("http://a.test/")

    with pytest.raises(TimeoutError, match="mine"):
        anyio.run(main, backend=backend)
    assert inner.calls == 3


@LIBRARIES
def test_of_many_at_once_only_those_that_stall_are_ended(library):
    answer = answers(library)

    async def by_path(request):
        return await (stalls if request.url.path == "/stall" else answer)(request)

    async def main():
        policy = AT_ONCE.replace(max_attempts=1, attempt_timeout=0.1)
        transport = AsyncRetryTransport(Inner(*[by_path] * 40), policy=policy)
        async with library.AsyncClient(transport=transport) as client:
            urls = [f"http://a.test/{'stall' if number % 2 else 'well'}" for number in range(40)]
            results = await asyncio.gather(*map(client.get, urls), return_exceptions=True)
            tasks = [task for task in asyncio.all_tasks() if task.cancelling()]
        return results, tasks

    results, cancelling = asyncio.run(main())
    assert [type(each) is library.ReadTimeout for each in results] == [False, True] * 20
    assert cancelling == []


@LIBRARIES
def test_a_cancellation_of_the_callers_is_one_also_when_time_is_over(library):
    async def main():
        transport = AsyncRetryTransport(Inner(stalls), policy=AT_ONCE.replace(attempt_timeout=0.05))
        async with library.AsyncClient(transport=transport) as client:
            async with asyncio.timeout(0.02):
                await client.get("http://a.test/")

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(main())
    assert type(caught.value) is TimeoutError


@LIBRARIES
def test_the_time_waited_for_a_cooldown_is_taken_from_the_deadline(library):
    seen, cooling = [], CooldownTracker()

    class Sync(library.BaseTransport):
        def handle_request(self, request):
            seen.append(request.extensions["timeout"]["read"])
            return library.Response(503 if len(seen) < 2 else 200)

    with fake_clock():
        cooling.start_cooldown("a.test", 40, "busy")
        transport = RetryTransport(Sync(), policy=AT_ONCE.replace(deadline=60, base_delay=5), cooling=cooling)
        library.Client(transport=transport, timeout=None).get("http://a.test/")
    assert seen == [20, 15]


def answering(library, left, closed):
    """Return a transport that answers so, and the numbers of whose answers are noted when they are closed."""
    numbers = itertools.count()

    class Body(library.SyncByteStream, library.AsyncByteStream):
        def __init__(self):
            self.number = next(numbers)

        def __iter__(self):
            yield b"a" * 100_000  # more than is looked at, so that it is not read to its end
            yield b"b"

        async def __aiter__(self):
            for part in (b"a" * 100_000, b"b"):
                yield part

        def close(self):
            closed.append(self.number)

        async def aclose(self):
            closed.append(self.number)

    class Both(library.BaseTransport, library.AsyncBaseTransport):
        def handle_request(self, request):
            return library.Response(left.pop(0), stream=Body())

        async def handle_async_request(self, request):
            return self.handle_request(request)

    return Both()


@pytest.mark.parametrize("answers", [[200], [404], [503, 200], [503, 503, 503]], ids=str)
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("kind", ["sync", "asyncio", "trio"])
@LIBRARIES
def test_pitfall_27_each_answer_is_closed_by_whoever_has_it_last(library, kind, raises, answers):
    closed = []
    inner = answering(library, list(answers), closed)

    async def ask():
        client = library.AsyncClient(transport=AsyncRetryTransport(inner, policy=AT_ONCE, raises=raises))
        return await client.send(client.build_request("GET", "http://a.test/"), stream=True)

    given_up = raises and answers[-1] == 503
    with pytest.raises(library.HTTPStatusError) if given_up else contextlib.nullcontext():
        if kind == "sync":
            client = library.Client(transport=RetryTransport(inner, policy=AT_ONCE, raises=raises))
            client.send(client.build_request("GET", "http://a.test/"), stream=True)
        else:
            anyio.run(ask, backend=kind)
    thrown_away = len(answers) if given_up else len(answers) - 1
    assert closed == list(range(thrown_away))


@pytest.mark.parametrize("status", [200, 404, 503])
@pytest.mark.parametrize("kind", ["sync", "asyncio", "trio"])
@LIBRARIES
def test_a_response_is_closed_if_ctrl_c_comes_while_it_is_handled(library, kind, status):
    class Interrupted(CooldownTracker):
        def answered(self, scope):
            raise KeyboardInterrupt

    def interrupt(error):
        raise KeyboardInterrupt

    closed = []
    inner = answering(library, [status], closed)
    how = {"policy": AT_ONCE.replace(retry_on=interrupt if status == 503 else RETRYABLE), "cooling": Interrupted()}

    async def ask():
        client = library.AsyncClient(transport=AsyncRetryTransport(inner, **how))
        await client.send(client.build_request("GET", "http://a.test/"), stream=True)

    with pytest.raises(BaseException) as raised:  # noqa: PT011  # trio may wrap it
        if kind == "sync":
            client = library.Client(transport=RetryTransport(inner, **how))
            client.send(client.build_request("GET", "http://a.test/"), stream=True)
        else:
            anyio.run(ask, backend=kind)
    assert not isinstance(raised.value, Exception)
    assert closed == [0]


@LIBRARIES
@pytest.mark.parametrize("derived", [False, True])
def test_a_library_is_known_by_what_a_request_is_derived_from(library, derived):
    kind = type("Mine", (library.Request,), {}) if derived else library.Request
    assert adapter_of(kind("GET", "http://a.test/")).module is library


def test_a_request_of_another_library_is_refused():
    import requests

    with pytest.raises(TypeError, match="is not from httpx or httpx2"):
        RetryTransport().handle_request(requests.Request("GET", "http://a.test/"))


@LIBRARIES
def test_the_body_of_an_answer_that_cannot_be_decoded_is_kept_as_it_is(library):
    class Sync(library.BaseTransport):
        def handle_request(self, request):
            return library.Response(503, headers={"content-encoding": "gzip"}, stream=library.ByteStream(b"not packed"))

    with (
        library.Client(transport=RetryTransport(Sync(), policy=AT_ONCE)) as client,
        pytest.raises(library.HTTPStatusError) as caught,
    ):
        client.get("http://a.test/")
    assert caught.value.response.content == b"not packed"


@LIBRARIES
def test_a_body_that_is_packed_is_judged_unpacked(library):
    class Sync(library.BaseTransport):
        def handle_request(self, request):
            body = library.ByteStream(gzip.compress(b'{"reason": "rateLimitExceeded"}'))
            return library.Response(403, headers={"content-encoding": "gzip"}, stream=body)

    with (
        library.Client(transport=RetryTransport(Sync(), policy=AT_ONCE)) as client,
        pytest.raises(library.HTTPStatusError) as caught,
    ):
        client.get("http://a.test/")
    assert "rateLimitExceeded" in caught.value.response.text


@LIBRARIES
@pytest.mark.parametrize("given", [{"read": 5.0, "connect": 5.0, "write": 5.0, "pool": 5.0}, {"read": None}, None])
def test_timeouts_are_cut_and_never_made_longer(library, given):
    request = library.Request("GET", "http://a.test/", extensions={} if given is None else {"timeout": given})
    extensions = request.extensions
    known = adapter_of(request)
    known.limit(request, extensions, None)
    assert request.extensions is extensions
    known.limit(request, extensions, 2.0)
    assert request.extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"), 2.0)
    known.limit(request, extensions, 0.0)
    assert min(request.extensions["timeout"].values()) > 0, "0 would mean: do not wait at all"
    assert extensions == ({} if given is None else {"timeout": given})
