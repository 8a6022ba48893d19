"""The seeds' names: what is a 403, what counts, and a fetch that is asked again after 1, 2 and 4 seconds (F1, F2)."""

import asyncio
import email.message
import subprocess
import sys
import urllib.error

import anyio
import httpx
import httpx2
import pytest
import requests

import outlast
from outlast.errors import CoolingDownError
from outlast.http import (
    RETRYABLE_EXCEPTIONS,
    fetch_with_retry,
    fetch_with_retry_on_403,
    is_403_error,
    is_persistent_error,
)
from outlast.testing import fake_clock

LIBRARIES = [pytest.param(library, id=library.__name__) for library in (httpx, httpx2)]
COLOURS = pytest.mark.parametrize("colour", ["sync", "async", "lambda"])


def status_error(library, status, headers=None, body="", **request):
    request = library.Request("GET", "http://a.test/post/403", **request)
    response = library.Response(status, headers=headers or {}, text=body, request=request)
    return library.HTTPStatusError(f"status {status}", request=request, response=response)


def urllib_error(status):
    return urllib.error.HTTPError("http://a.test/", status, "", email.message.Message(), None)


def requests_error(status):
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError("status", response=response)


@pytest.mark.parametrize("library", LIBRARIES)
def test_b_defect_every_broken_connection_is_retryable(library):
    for name in (
        "ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "ConnectError", "ReadError", "WriteError",
        "CloseError", "RemoteProtocolError", "ProxyError",
    ):  # fmt: skip
        assert issubclass(getattr(library, name), RETRYABLE_EXCEPTIONS), name
    for name in ("HTTPStatusError", "InvalidURL", "UnsupportedProtocol", "TooManyRedirects", "LocalProtocolError"):
        assert not issubclass(getattr(library, name), RETRYABLE_EXCEPTIONS), name


def test_the_module_needs_neither_library():
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('httpx', 'httpx2', 'requests', 'urllib3')))\n"
        "import outlast.http.fetch as fetching\n"
        "assert fetching.RETRYABLE_EXCEPTIONS == ()\n"
        "assert fetching.fetch_with_retry_on_403(lambda: 1) == 1\n"
        "import outlast.http\n"
        "outlast.http.RetryTransport\n"
        "try:\n"
        "    outlast.http.HTTPAdapter\n"
        "except ImportError:\n"
        "    print('as usual')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("as usual\n", "")


def test_a_name_that_is_not_there_says_so():
    import outlast.http.fetch as module

    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


@pytest.mark.parametrize(
    "error",
    [status_error(httpx, 403), status_error(httpx2, 403), urllib_error(403), requests_error(403)],
    ids=["httpx", "httpx2", "urllib", "requests"],
)
def test_f2_a_403_is_known_by_its_status(error):
    assert is_403_error(error)
    assert is_persistent_error(error)
    wrapped = RuntimeError("the feed could not be fetched")
    wrapped.__cause__ = error
    assert is_403_error(wrapped)


@pytest.mark.parametrize(
    "error",
    [
        None,
        status_error(httpx, 404),
        status_error(httpx, 200),
        Exception("HTTP 403 Forbidden"),
        Exception("403"),
        ConnectionError("connect to db:5403 failed"),
        httpx.ReadTimeout("http://a.test/post/403"),
        ValueError("40312 bytes"),
    ],
    ids=str,
)
def test_f_defect_words_make_no_403(error):
    assert not is_403_error(error)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
@pytest.mark.parametrize("library", LIBRARIES)
def test_f2_what_counts_against_a_source(library, status):
    assert is_persistent_error(status_error(library, status))


@pytest.mark.parametrize(
    "error",
    [
        None,
        status_error(httpx, 429),
        status_error(httpx, 403, {"Retry-After": "5"}),
        status_error(httpx, 408),
        status_error(httpx, 500),
        status_error(httpx2, 503),
        httpx.ConnectError("refused"),
        httpx2.ReadTimeout("late"),
        TimeoutError(),
        CoolingDownError("later", 5),
    ],
    ids=repr,
)
def test_f3_what_does_not_count(error):
    assert not is_persistent_error(error)


class Fetch:
    """A fetch function that gives or raises what it is told, one after the other."""

    def __init__(self, *results):
        self.results, self.calls = list(results), 0

    def __call__(self):
        self.calls += 1
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    async def later(self):
        await anyio.lowlevel.checkpoint()
        return self()


def ask(fetch, colour, backend="asyncio"):
    if colour == "sync":
        return fetch_with_retry_on_403(fetch)

    async def main():
        return await fetch_with_retry_on_403(fetch.later if colour == "async" else lambda: fetch.later())  # noqa: PLW0108  # no coroutine function

    return anyio.run(main, backend=backend)


def denied(library=httpx, **more):
    return status_error(library, 403, **more)


@COLOURS
def test_f1_a_first_result_other_than_403_is_returned_at_once(colour):
    fetch = Fetch("a feed")
    with fake_clock() as clock:
        assert ask(fetch, colour) == "a feed"
    assert (fetch.calls, clock.waits) == (1, [])


@COLOURS
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_f1_a_success_at_any_point_returns(colour, times, backend):
    fetch = Fetch(*(denied() for _ in range(times)), "a feed")
    with fake_clock() as clock:
        assert ask(fetch, colour, backend) == "a feed"
    assert (fetch.calls, clock.waits) == (times + 1, [1, 2, 4][:times])


@COLOURS
@pytest.mark.parametrize("library", LIBRARIES)
def test_f1_after_four_times_403_the_last_error_is_raised(colour, library):
    errors = [denied(library) for _ in range(4)]
    fetch = Fetch(*errors)
    with fake_clock() as clock, pytest.raises(library.HTTPStatusError) as caught:
        ask(fetch, colour)
    assert (fetch.calls, clock.waits) == (4, [1, 2, 4])
    assert caught.value is errors[-1]
    assert len(caught.value.__notes__) == 4
    assert is_persistent_error(caught.value)


@COLOURS
@pytest.mark.parametrize("error", [status_error(httpx, 404), status_error(httpx, 500), TimeoutError(), KeyError("403")])
def test_f1_another_error_is_raised_at_once(colour, error):
    fetch = Fetch(error)
    with fake_clock() as clock, pytest.raises(type(error)) as caught:
        ask(fetch, colour)
    assert caught.value is error
    assert (fetch.calls, clock.waits) == (1, [])


@COLOURS
def test_f1_another_error_after_a_403_is_raised_at_once(colour):
    fetch = Fetch(denied(), status_error(httpx, 500))
    with fake_clock() as clock, pytest.raises(httpx.HTTPStatusError) as caught:
        ask(fetch, colour)
    assert caught.value.response.status_code == 500
    assert (fetch.calls, clock.waits) == (2, [1])


class Closable:
    """An answer that nobody raised."""

    headers: dict = {}

    def __init__(self, status):
        self.status, self.closed = status, 0

    def close(self):
        self.closed += 1


class AsyncClosable(Closable):
    close = None

    async def aclose(self):
        self.closed += 1


@COLOURS
@pytest.mark.parametrize("kind", [Closable, AsyncClosable])
def test_f1_an_answer_of_403_counts_as_one_and_is_closed_when_it_is_thrown_away(colour, kind):
    if colour == "sync" and kind is AsyncClosable:
        kind = Closable
    answers = [kind(403), kind(403), kind(200)]
    with fake_clock() as clock:
        assert ask(Fetch(*answers), colour) is answers[-1]
    assert clock.waits == [1, 2]
    assert [answer.closed for answer in answers] == [1, 1, 0]


@COLOURS
def test_f1_after_four_answers_of_403_the_last_is_returned_as_it_is(colour):
    answers = [Closable(403) for _ in range(4)]
    with fake_clock() as clock:
        assert ask(Fetch(*answers), colour) is answers[-1]
    assert clock.waits == [1, 2, 4]
    assert [answer.closed for answer in answers] == [1, 1, 1, 0]


@COLOURS
@pytest.mark.parametrize(
    "error",
    [
        denied(headers={"Retry-After": "5"}),
        denied(headers={"X-RateLimit-Remaining": "0"}),
        denied(body="rateLimitExceeded"),
        denied(body="quotaExceeded"),
    ],
    ids=["retry-after", "exhausted", "rate", "quota"],
)
def test_c4_a_403_that_is_a_rate_limit_or_a_quota_is_not_asked_again(colour, error):
    fetch = Fetch(error)
    with fake_clock() as clock, pytest.raises(httpx.HTTPStatusError):
        ask(fetch, colour)
    assert (fetch.calls, clock.waits) == (1, [])
    returned = Fetch(error.response)
    with fake_clock():
        assert ask(returned, colour) is error.response
    assert returned.calls == 1


@COLOURS
def test_c4_nor_is_one_that_refuses_credentials(colour):
    request = httpx.Request("GET", "http://a.test/", headers={"Authorization": "Bearer x"})
    response = httpx.Response(403, request=request)
    fetch = Fetch(httpx.HTTPStatusError("no", request=request, response=response))
    with fake_clock(), pytest.raises(httpx.HTTPStatusError):
        ask(fetch, colour)
    assert fetch.calls == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_f1_a_cancelled_wait_ends_at_once(backend):
    fetch = Fetch(denied(), "a feed")

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(fetch_with_retry_on_403, fetch.later)
            with anyio.fail_after(10):
                while not fetch.calls:  # noqa: ASYNC110  # of a function that knows no events
                    await anyio.sleep(0.001)
            group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert fetch.calls == 1


def test_f1_an_interrupt_in_the_wait_ends_it(monkeypatch):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("outlast.clock.sleep", interrupted)
    fetch = Fetch(denied(), "a feed")
    with pytest.raises(KeyboardInterrupt):
        fetch_with_retry_on_403(fetch)
    assert fetch.calls == 1


def test_arguments_are_passed_on():
    assert fetch_with_retry_on_403(lambda a, *, b: (a, b), 1, b=2) == (1, 2)

    async def fetch(a, *, b):
        return a, b

    assert asyncio.run(fetch_with_retry_on_403(fetch, 1, b=2)) == (1, 2)


def test_retries_do_not_multiply_and_can_be_switched_off():
    fetch = Fetch(*(denied() for _ in range(16)))
    with fake_clock(), pytest.raises(httpx.HTTPStatusError):
        fetch_with_retry_on_403(lambda: fetch_with_retry_on_403(fetch))
    assert fetch.calls == 4
    fetch = Fetch(denied(), "a feed")
    with outlast.no_retries(), pytest.raises(httpx.HTTPStatusError):
        fetch_with_retry_on_403(fetch)
    answer = Closable(403)
    with outlast.no_retries():
        assert fetch_with_retry_on_403(Fetch(answer)) is answer


def test_a_warning_stands_before_every_wait(caplog):
    with fake_clock(), caplog.at_level("WARNING"):
        fetch_with_retry_on_403(Fetch(denied(), denied(), "a feed"))
    assert len([record for record in caplog.records if "retrying in" in record.message]) == 2


@pytest.mark.parametrize("result", [None, 403, "403", {"status": 403}, [403]], ids=repr)
def test_what_is_no_answer_is_returned(result):
    assert fetch_with_retry_on_403(lambda: result) is result


def test_a_predicate_that_raises_does_not_replace_the_error_of_the_response():
    def broken(error):
        raise RuntimeError("a bug in the predicate")

    async def fetch():
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(503))) as client:
            await fetch_with_retry(client, "http://a.test/", policy=outlast.RetryPolicy(retry_on=broken))

    with pytest.raises(httpx.HTTPStatusError) as caught:
        asyncio.run(fetch())
    assert caught.value.__outlast__.reason == "broken"
