"""Time limits of async calls: how an attempt ends, who else may cancel it, and calls within calls."""

import asyncio
import contextlib
import contextvars
import threading
import time

import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import NetworkError
from outlast.testing import fake_clock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def retried(policy, function):
    return outlast.retry(policy)(function)


async def test_it_is_ended_in_time():
    calls = []

    async def slow():
        calls.append(1)
        if len(calls) == 1:
            await asyncio.sleep(5)
        return "done"

    fetch = retried(RetryPolicy(max_attempts=2, attempt_timeout=0.02, base_delay=0), slow)
    assert await fetch() == "done"
    assert len(calls) == 2
    assert asyncio.current_task().cancelling() == 0


async def test_its_error_says_why():
    async def slow():
        await asyncio.sleep(5)

    fetch = retried(RetryPolicy(max_attempts=1, attempt_timeout=0.02), slow)
    with pytest.raises(TimeoutError, match=r"cancelled after 0\.02 s"):
        await fetch()


async def test_a_function_that_survives_its_cancellation_leaves_no_mark_on_the_task():
    async def stubborn():
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "late"

    fetch = retried(RetryPolicy(attempt_timeout=0.01), stubborn)
    for _ in range(2):
        assert await fetch() == "late"
        assert asyncio.current_task().cancelling() == 0


async def test_a_function_that_raises_another_error_instead_leaves_no_mark_either():
    async def stubborn():
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            raise NetworkError("while cleaning up") from None

    fetch = retried(RetryPolicy(max_attempts=1, attempt_timeout=0.01), stubborn)
    with pytest.raises(NetworkError):
        await fetch()
    assert asyncio.current_task().cancelling() == 0


async def test_a_cancellation_from_outside_wins():
    started = asyncio.Event()

    async def slow():
        started.set()
        await asyncio.sleep(5)

    fetch = retried(RetryPolicy(attempt_timeout=30), slow)
    task = asyncio.create_task(fetch())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_in_a_task_that_was_cancelled_before_attempts_end_in_time_and_are_retried():
    """As with `asyncio.timeout`: code that cleans up after a cancellation may retry, and its calls have their limits."""
    calls, ends = [], []

    async def clean_up():
        calls.append(1)
        await asyncio.sleep(5)

    release = retried(RetryPolicy(max_attempts=3, attempt_timeout=0.05, base_delay=0), clean_up)

    async def work():
        try:
            await asyncio.sleep(5)
        finally:
            began = time.monotonic()
            try:
                await release()
            except BaseException as error:
                ends.append((type(error), asyncio.current_task().cancelling(), time.monotonic() - began >= 0.14))
                raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(TimeoutError):
        await task
    assert (len(calls), ends) == (3, [(TimeoutError, 1, True)])


async def test_a_call_that_is_cancelled_meanwhile_and_goes_on_ends_by_cancellation_at_its_limit():
    calls, ends = [], []

    async def stubborn():
        calls.append(1)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(5)
        await asyncio.sleep(5)

    fetch = retried(RetryPolicy(max_attempts=3, attempt_timeout=0.2, base_delay=0), stubborn)

    async def work():
        began = time.monotonic()
        try:
            await fetch()
        except BaseException as error:
            took = time.monotonic() - began
            ends.append((type(error), asyncio.current_task().cancelling(), 0.19 <= took < 4))
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)  # it has begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(calls), ends) == (1, [(asyncio.CancelledError, 1, True)])


async def test_a_cancellation_is_not_lost_in_retries_around_it():
    calls = []

    async def with_a_long_end():
        calls.append(1)
        try:
            await asyncio.sleep(5)
        finally:
            await asyncio.sleep(0.5)

    inner = retried(RetryPolicy(attempt_timeout=0.3, base_delay=0), with_a_long_end)

    @outlast.retry(policy=RetryPolicy(max_attempts=5, base_delay=0))
    async def outer():
        return await inner()

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)  # it has begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(calls) == 1


async def test_a_call_within_a_call_has_a_limit_of_its_own():
    calls = []

    @outlast.retry(policy=RetryPolicy(max_attempts=2, attempt_timeout=0.05, base_delay=0, deadline=60))
    async def fetch(depth):
        calls.append(depth)
        if depth:
            return await fetch(depth - 1)
        return await asyncio.sleep(5)

    began = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        await fetch(1)
    assert time.monotonic() - began >= 0.1
    assert len(caught.value.__outlast__.attempts) == 2
    assert calls == [1, 0, 1, 0]
    assert asyncio.current_task().cancelling() == 0


async def test_a_context_that_went_to_the_event_loop_of_another_thread_changes_nothing():
    """What a thread inherits from a task says nothing about the event loop that it runs."""

    async def slow(seconds):
        await asyncio.sleep(seconds)
        return "done"

    fetch = retried(RetryPolicy(max_attempts=1, attempt_timeout=0.05), slow)
    assert await fetch(0) == "done"
    found, go_on = [], threading.Event()

    def elsewhere():
        try:
            asyncio.run(fetch(5))
        except BaseException as error:  # whatever it is
            found.append(type(error))
        go_on.set()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(elsewhere,))
    thread.start()
    go_on.wait(10)  # this task stays in its step meanwhile
    thread.join()
    assert found == [TimeoutError]
    assert await fetch(0) == "done"
    assert asyncio.current_task().cancelling() == 0


async def test_event_loops_that_take_turns_each_end_their_own_calls():
    """In one thread: a loop that is left with a call in it, another, and the first again."""

    async def slow(seconds):
        await asyncio.sleep(seconds)
        return "done"

    def turns():
        async def begin():
            fetch = retried(RetryPolicy(max_attempts=1, attempt_timeout=0.05), slow)
            return fetch, asyncio.ensure_future(fetch(5))

        async def both(fetch):
            assert await fetch(0) == "done"
            with pytest.raises(TimeoutError):
                await fetch(5)

        async def end(task):
            with pytest.raises(TimeoutError):
                await task

        one, other = asyncio.new_event_loop(), asyncio.new_event_loop()
        try:
            fetch, task = one.run_until_complete(begin())
            other.run_until_complete(both(fetch))
            one.run_until_complete(both(fetch))
            one.run_until_complete(end(task))
        finally:
            one.close()
            other.close()

    await asyncio.to_thread(turns)


async def test_the_clock_of_a_test_is_asked_from_its_first_moment_on():
    left = []

    async def ask():
        left.append(outlast.current_attempt().time_left)

    fetch = retried(RetryPolicy(deadline=60), ask)
    await fetch()
    with fake_clock() as clock:
        await fetch()
        clock.advance(1)
    await fetch()
    assert left[1] == 60
    assert all(59 < each < 60 for each in (left[0], left[2]))


async def test_the_function_can_ask_how_much_time_is_left():
    found = []

    async def ask():
        await asyncio.sleep(0.01)
        found.append(outlast.current_attempt())

    fetch = retried(RetryPolicy(max_attempts=4, deadline=60), ask)
    await fetch()
    ((number, most, left),) = [(each.number, each.max_attempts, each.time_left) for each in found]
    assert (number, most) == (1, 4)
    assert 50 < left <= 59.99


async def test_it_sees_what_an_inner_retry_has_tried_and_not_what_was_left_before():
    kept, calls = NetworkError("kept"), []

    @outlast.retry(max_attempts=2, base_delay=0, retry_on=NetworkError)
    async def inner(error):
        calls.append(1)
        raise error

    fetch = retried(RetryPolicy(max_attempts=3, base_delay=0, deadline=60), inner)
    with pytest.raises(NetworkError) as caught:
        await fetch(NetworkError("new"))
    assert (len(calls), caught.value.__outlast__.reason) == (2, "exhausted")

    async def plain():
        calls.append(1)
        raise kept

    with pytest.raises(NetworkError):
        await inner(kept)
    calls.clear()
    fetch = retried(RetryPolicy(max_attempts=3, base_delay=0, deadline=60), plain)
    with pytest.raises(NetworkError):
        await fetch()
    assert len(calls) == 3
