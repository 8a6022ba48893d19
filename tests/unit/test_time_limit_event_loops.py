"""Time limits on event loops that were forked, moved to another thread or left, and what they keep in memory."""

import asyncio
import contextvars
import gc
import multiprocessing
import threading
import weakref
from concurrent.futures import ProcessPoolExecutor

import pytest

import outlast
from outlast import RetryPolicy

LIMITED = RetryPolicy(max_attempts=1, attempt_timeout=0.5)


@outlast.retry(policy=LIMITED)
async def fetch(seconds):
    await asyncio.sleep(seconds)
    return "done"


def in_a_loop_of_its_own():
    try:
        return asyncio.run(fetch(5))
    except TimeoutError:
        return "too late"


def test_a_process_that_was_forked_inside_a_task_has_its_own_limits():
    async def main():
        assert await fetch(0) == await fetch(0) == "done"
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(1, mp_context=context) as pool:  # forked here, while this task is running
            return await asyncio.get_running_loop().run_in_executor(pool, in_a_loop_of_its_own)

    assert asyncio.run(main()) == "too late"


def test_an_event_loop_that_moves_to_another_thread_has_its_own_limits():
    """And a task of it is not taken for one of the event loop that runs in the first thread by now."""
    busy, go_on = threading.Event(), threading.Event()

    async def set_up():
        assert await fetch(0) == await fetch(0) == "done"

    async def block():
        busy.set()
        go_on.wait(10)  # in a step of its task all the while
        await asyncio.sleep(0.6)
        return "unharmed"

    loop = asyncio.new_event_loop()
    loop.run_until_complete(set_up())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    other = asyncio.run_coroutine_threadsafe(block(), loop)
    busy.wait(10)
    threading.Timer(0.7, go_on.set).start()
    with pytest.raises(TimeoutError):
        asyncio.run(fetch(5))
    assert other.result(10) == "unharmed"
    assert asyncio.run_coroutine_threadsafe(set_up(), loop).result(10) is None
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_the_context_of_the_first_caller_is_not_kept():
    class Request:
        pass

    current = contextvars.ContextVar("current")

    async def first():
        request = Request()
        current.set(request)
        await fetch(0)
        return weakref.ref(request)

    async def main():
        request = await asyncio.create_task(first())
        await fetch(0)
        gc.collect()
        return request()

    assert asyncio.run(main()) is None
