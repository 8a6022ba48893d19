"""A plain function that returns something to await: its errors would come where no loop sees them."""

import asyncio
import gc
import warnings

import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import ConfigError, NetworkError
from outlast.sources.fetchers import run_in_own_thread

FORMS = [{}, {"deadline": 60}, {"resource": "awaitable"}, {"resource": "awaitable-breaker"}]


class Later:
    def __await__(self):
        yield


async def coroutine():
    return 1


@pytest.fixture(params=FORMS, ids=["plain", "timed", "resource", "breaker"])
def retry(request):
    if request.param.get("resource") == "awaitable-breaker" and outlast.resource("awaitable-breaker").is_bare:
        outlast.resource("awaitable-breaker", breaker=outlast.BreakerSettings())
    return outlast.retry(policy=RetryPolicy(base_delay=0, **request.param))


def future():
    loop = asyncio.new_event_loop()
    try:
        return loop.create_future()
    finally:
        loop.close()


@pytest.mark.parametrize("make", [Later, future, coroutine], ids=["object", "future", "coroutine"])
def test_the_first_result(retry, make):
    with pytest.raises(ConfigError, match=r"whose errors would not be seen; use the coroutine function"):
        retry(lambda: make())()  # noqa: PLW0108  # the function has to be a plain one


@pytest.mark.parametrize("make", [Later, future, coroutine], ids=["object", "future", "coroutine"])
def test_a_later_result_of_another_type(retry, make):
    answers = [None, 1, 1, "text"]
    function = retry(lambda: answers.pop(0) if answers else make())
    assert [function() for _ in range(4)] == [None, 1, 1, "text"]
    with pytest.raises(ConfigError):
        function()


def test_the_result_of_a_later_attempt(retry):
    answers = [NetworkError("x")]

    def function():
        if answers:
            raise answers.pop()
        return Later()

    with pytest.raises(ConfigError):
        retry(function)()


def test_a_coroutine_that_is_refused_warns_of_nothing(retry):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "coroutine .* was never awaited")  # and not what other tests have left open
        with pytest.raises(ConfigError, match="returned a coroutine"):
            retry(lambda: coroutine())()  # noqa: PLW0108  # the function has to be a plain one
        gc.collect()


def test_classes_are_no_awaitables(retry):
    assert retry(lambda: Later)() is Later


def sent(number):
    return coroutine_of(number)


async def coroutine_of(number):
    return number


@pytest.mark.parametrize("settings", [{}, {"timeout": 30}, {"keep_result": 60}])
def test_a_task_that_returns_a_coroutine_becomes_a_dead_letter(settings):
    app = outlast.App("memory://")
    task = app.task(**settings)(sent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ticket = task.enqueue(1)
        app.worker().drain()
        gc.collect()
    (dead_letter,) = app.dead_letters.list()
    assert dead_letter.id == ticket.id
    assert "returned a coroutine, whose errors would not be seen; use the coroutine function" in str(dead_letter)


def test_a_callback_of_a_monitor_that_returns_a_coroutine_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigError, match="sent returned a coroutine"):
            asyncio.run(run_in_own_thread(sent, 1))
        gc.collect()
