"""The async attempt loop under asyncio and trio: cancellation, real time limits, and what the sync tests say too."""

import asyncio
import contextlib
import contextvars
import gc
import time
import weakref

import anyio
import anyio.lowlevel
import pytest
import trio

import outlast
from outlast import RETRYABLE, Category, RetryPolicy
from outlast.errors import NetworkError
from outlast.testing import fake_clock

LONG = 60.0
"""Seconds that nobody shall wait."""

pytestmark = pytest.mark.anyio
THREE = RetryPolicy(max_attempts=3)
FORMS = [None, (BaseException,), lambda error: True, set(Category), RETRYABLE]
LIMITS = [{}, {"deadline": 60}, {"attempt_timeout": 60}, {"resource": "loops-async"}]


@pytest.fixture(params=LIMITS, ids=["plain", "deadline", "attempt-timeout", "resource"])
def policy(request):
    return THREE.replace(**request.param)


async def test_retries_and_raises_the_original(policy):
    calls = []

    @outlast.retry(policy=policy)
    async def fetch(value):
        calls.append(value)
        await anyio.lowlevel.checkpoint()
        raise NetworkError("x")

    with fake_clock() as clock, pytest.raises(NetworkError) as caught:
        await fetch(7)
    assert (calls, clock.waits) == ([7, 7, 7], [1, 1])
    assert caught.value.__outlast__.reason == "exhausted"
    assert caught.value.__context__ is None


@pytest.mark.parametrize("retry_on", FORMS)
async def test_pitfall_1_a_cancelled_call_is_made_once(policy, retry_on):
    calls = []

    @outlast.retry(policy=policy.replace(retry_on=retry_on))
    async def fetch():
        calls.append(1)
        await anyio.sleep(30)

    with anyio.move_on_after(0.01) as scope:
        await fetch()
    assert scope.cancelled_caught
    assert len(calls) == 1


@pytest.mark.parametrize("retry_on", FORMS)
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_pitfall_2_what_is_no_exception_means_one_call(retry_on, stop):
    calls = []

    @outlast.retry(policy=THREE.replace(retry_on=retry_on))
    async def fetch():
        calls.append(1)
        raise stop

    with pytest.raises(stop):
        fetch().send(None)
    assert len(calls) == 1


async def test_pitfall_3_fifty_tasks_count_for_themselves(policy):
    results = {}

    @outlast.retry(policy=policy.replace(max_attempts=60, base_delay=0))
    async def fetch(failures, seen):
        await anyio.lowlevel.checkpoint()
        seen.append(outlast.current_attempt().number)
        if len(seen) <= failures:
            raise NetworkError("x")
        return seen

    async def one(number):
        results[number] = await fetch(number, [])

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(one, number)
    assert results == {number: list(range(1, number + 2)) for number in range(50)}


@pytest.mark.parametrize("extra", [{}, {"resource": "deadline-async"}])
async def test_pitfall_5_an_attempt_is_cancelled_at_the_deadline(extra):
    cancelled = []

    @outlast.retry(
        policy=RetryPolicy(max_attempts=9, deadline=0.03, base_delay=0, retry_on=(ConnectionError,), **extra)
    )
    async def fetch():
        try:
            await anyio.sleep(LONG)
        except BaseException:
            cancelled.append(1)
            raise

    began = time.monotonic()
    with pytest.raises(TimeoutError, match="cancelled after") as caught:
        await fetch()
    assert time.monotonic() - began < LONG / 2
    assert cancelled == [1]
    assert caught.value.__outlast__.reason == "deadline"


async def test_pitfall_5_a_later_attempt_is_cancelled_at_the_deadline_too():
    calls = []

    @outlast.retry(policy=RetryPolicy(max_attempts=9, deadline=0.3, base_delay=0.001))
    async def fetch():
        calls.append(1)
        if len(calls) == 1:
            raise NetworkError("x")
        await anyio.sleep(5)

    with pytest.raises(TimeoutError) as caught:
        await fetch()
    assert len(calls) == 2
    assert caught.value.__outlast__.reason == "deadline"


async def test_pitfall_6_an_attempt_has_the_shorter_of_its_timeout_and_what_is_left():
    left = []

    @outlast.retry(policy=RetryPolicy(max_attempts=3, attempt_timeout=0.2, base_delay=0, deadline=0.5))
    async def fetch():
        left.append(outlast.current_attempt().time_left)
        await anyio.sleep(5)

    with pytest.raises(TimeoutError) as caught:
        await fetch()
    assert len(left) in {2, 3}
    assert 0 < left[0] <= 0.2
    assert all(each <= 0.2 for each in left)
    assert caught.value.__outlast__.reason in {"deadline", "exhausted"}


async def test_an_attempt_that_timed_out_is_retried():
    calls = []

    @outlast.retry(policy=RetryPolicy(max_attempts=2, attempt_timeout=0.02, base_delay=0, retry_on=RETRYABLE))
    async def fetch():
        calls.append(1)
        if len(calls) == 1:
            await anyio.sleep(5)
        return "done"

    assert await fetch() == "done"


async def test_pitfall_12_cancelling_a_wait_returns_at_once(policy):
    calls = []

    @outlast.retry(policy=policy.replace(base_delay=50))
    async def fetch():
        calls.append(1)
        raise NetworkError("x")

    began = time.monotonic()
    with anyio.move_on_after(0.01) as scope:
        await fetch()
    assert scope.cancelled_caught
    assert len(calls) == 1
    assert time.monotonic() - began < 25


async def test_pitfall_17_context_variables_are_seen(policy):
    tenant = contextvars.ContextVar("tenant")
    tenant.set("acme")
    seen = []

    @outlast.retry(policy=policy.replace(base_delay=0))
    async def fetch():
        seen.append(tenant.get())
        raise NetworkError("x")

    with pytest.raises(NetworkError):
        await fetch()
    assert seen == ["acme"] * 3


async def test_pitfall_11_nested_coroutines_do_not_multiply(policy):
    calls = []

    @outlast.retry(policy=policy.replace(base_delay=0))
    async def fetch():
        calls.append(1)
        raise NetworkError("x")

    @outlast.retry(policy=policy.replace(base_delay=0))
    async def collect():
        await fetch()

    with pytest.raises(NetworkError):
        await collect()
    assert len(calls) == 3


class TestAsyncioOnly:
    """The first attempt's time limit is our own work there, so its corners are looked at."""

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    async def test_a_call_that_outlives_its_cancellation_leaves_no_mark_on_the_task(self):
        @outlast.retry(policy=RetryPolicy(attempt_timeout=0.01))
        async def stubborn():
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                return "late"

        assert await stubborn() == "late"
        assert asyncio.current_task().cancelling() == 0
        async with asyncio.timeout(0.2):
            await asyncio.sleep(0)

    async def test_a_cancellation_from_outside_wins(self):
        @outlast.retry(policy=RetryPolicy(attempt_timeout=0.02))
        async def slow():
            await asyncio.sleep(5)

        task = asyncio.create_task(slow())
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_many_calls_are_each_ended_in_their_time(self):
        @outlast.retry(policy=RetryPolicy(max_attempts=1, attempt_timeout=0.05))
        async def slow(seconds):
            await asyncio.sleep(seconds)
            return "done"

        results = await asyncio.gather(*(slow(n % 2 * 5) for n in range(40)), return_exceptions=True)
        assert results[::2] == ["done"] * 20
        assert all(isinstance(each, TimeoutError) for each in results[1::2])

    async def test_a_call_within_a_call_has_its_own_limit(self):
        @outlast.retry(policy=RetryPolicy(max_attempts=1, attempt_timeout=0.05))
        async def nested(depth):
            if depth:
                return await nested(depth - 1)
            return await asyncio.sleep(5)

        for depth in (1, 3):
            with pytest.raises(TimeoutError):
                await nested(depth)
        assert asyncio.current_task().cancelling() == 0

    async def test_the_error_is_not_kept_alive(self):
        class Body:
            pass

        @outlast.retry(policy=RetryPolicy(max_attempts=2, base_delay=0, deadline=60))
        async def fetch(body):
            raise NetworkError("x")

        gc.collect()
        gc.disable()
        try:
            body = Body()
            gone = weakref.ref(body)
            with contextlib.suppress(NetworkError):
                await fetch(body)
            del body
            assert gone() is None
        finally:
            gc.enable()


def test_event_loops_in_two_threads_end_their_own_calls():
    """The watch of one loop must never be asked for a call of another."""

    @outlast.retry(policy=RetryPolicy(max_attempts=1, attempt_timeout=0.03))
    async def slow():
        await asyncio.sleep(5)

    async def some():
        results = []
        for _ in range(2):
            results += await asyncio.gather(*(slow() for _ in range(5)), return_exceptions=True)
        return results

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(lambda _: asyncio.run(some()), range(4)):
            assert [type(each) for each in results] == [TimeoutError] * 10


def test_one_function_under_one_backend_after_the_other():
    @outlast.retry(policy=RetryPolicy(max_attempts=2, base_delay=0, attempt_timeout=0.02, retry_on=RETRYABLE))
    async def fetch():
        await anyio.sleep(5)

    for run in (asyncio.run, lambda coroutine: trio.run(lambda: coroutine), asyncio.run):
        with pytest.raises(TimeoutError):
            run(fetch())


class TestSomebodyElsesCancellation:
    """Pitfall 1: whoever cancels from outside is not taken for our own time limit, however close the two fall."""

    def test_equal_limits_outside_and_inside(self):
        calls = []

        @outlast.retry(attempt_timeout=0.1, max_attempts=3, base_delay=0.05)
        async def work():
            calls.append(1)
            await asyncio.sleep(2)

        async def main():
            async with asyncio.timeout(0.1):
                await work()

        with pytest.raises(TimeoutError):
            asyncio.run(main())
        assert len(calls) == 1

    def test_a_cancel_that_is_due_while_the_loop_is_blocked(self):
        calls = []

        @outlast.retry(attempt_timeout=0.1, max_attempts=3, base_delay=0.01)
        async def work():
            calls.append(1)
            await asyncio.sleep(2)

        async def main():
            task = asyncio.create_task(work())
            await asyncio.sleep(0)  # it has begun
            asyncio.get_running_loop().call_later(0.02, task.cancel)
            time.sleep(0.15)  # noqa: ASYNC251  # something blocks the loop until both are due
            with pytest.raises(asyncio.CancelledError):
                await task
            return task.cancelled()

        assert asyncio.run(main())
        assert len(calls) == 1
