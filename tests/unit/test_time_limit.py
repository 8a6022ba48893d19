"""Time limits of async attempts: one timer per event loop, and nothing is left behind."""

import asyncio
import gc
import random
import threading
import time
import weakref

import pytest

import outlast
from outlast import RetryPolicy

LIMITED = RetryPolicy(max_attempts=1, attempt_timeout=60)


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that keeps its timers."""

    def __init__(self):
        super().__init__()
        self.timers = []

    def call_at(self, *args, **kwargs):
        timer = super().call_at(*args, **kwargs)
        self.timers.append(timer)
        return timer


def run_counted(main):
    """Run a coroutine function on an event loop of its own; return the number of timers that it set."""
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())
        return len(runner.get_loop().timers)


def test_event_loops_in_two_threads_take_turns_with_one_timer_each():
    together, timers = threading.Barrier(2), []

    @outlast.retry(policy=LIMITED)
    async def fetch():
        return 1

    async def some():
        for _ in range(20):
            together.wait(5)
            assert await fetch() == 1

    threads = [threading.Thread(target=lambda: timers.append(run_counted(some))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timers == [1, 1]


def test_a_new_event_loop_in_the_same_thread_gets_its_own():
    @outlast.retry(policy=LIMITED)
    async def fetch():
        return await asyncio.sleep(0, "done")

    async def main():
        assert await fetch() == "done"

    assert [run_counted(main) for _ in range(3)] == [1, 1, 1]


def test_a_thousand_functions_for_one_call_each_share_a_timer():
    policy = RetryPolicy(deadline=3600)

    async def one():
        return 1

    async def main():
        for _ in range(1000):
            assert await outlast.call(one, policy=policy) == 1

    assert run_counted(main) == 1


def test_calls_with_shorter_limits_end_before_those_that_began_earlier():
    async def fetch(seconds):
        @outlast.retry(policy=RetryPolicy(max_attempts=1, attempt_timeout=seconds))
        async def wait():
            await asyncio.sleep(600)

        with pytest.raises(TimeoutError, match=f"cancelled after {seconds:g} s"):
            await wait()

    async def main():
        longest = asyncio.create_task(fetch(500.0))
        await asyncio.sleep(0)  # it has begun
        async with asyncio.timeout(60):
            await asyncio.gather(fetch(0.15), fetch(0.05))
        assert not longest.done()
        longest.cancel()
        await asyncio.gather(longest, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize("in_threads", [False, True])
def test_a_thousand_event_loops_leave_none_behind(in_threads):
    @outlast.retry(policy=LIMITED)
    async def fetch():
        return 1

    loops = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        return await fetch()

    for _ in range(1000 if not in_threads else 100):
        if in_threads:
            thread = threading.Thread(target=lambda: asyncio.run(main()))
            thread.start()
            thread.join()
        else:
            asyncio.run(main())
    gc.collect()
    assert sum(each() is not None for each in loops) <= 1


def test_a_call_in_a_cancelled_task_keeps_its_time():
    """What cleans up after a cancellation may be retried, and is limited too."""
    ends = []

    @outlast.retry(policy=RetryPolicy(max_attempts=1, attempt_timeout=0.02))
    async def release():
        await asyncio.sleep(5)

    async def work():
        try:
            await asyncio.sleep(5)
        finally:
            with pytest.raises(TimeoutError):
                await release()
            ends.append(1)

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ends == [1]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_each_call_has_its_own_time_and_none_is_kept(seed):
    """Calls that answer at once, later, too late or not at all, side by side and one within the other."""
    chance, tasks = random.Random(seed), []

    @outlast.retry(policy=RetryPolicy(max_attempts=1, attempt_timeout=0.04))
    async def fetch(seconds, depth):
        if depth:
            return await fetch(seconds, depth - 1)
        if seconds is not None:
            await asyncio.sleep(seconds)
        return "done"

    async def one():
        tasks.append(weakref.ref(asyncio.current_task()))
        for _ in range(chance.randint(1, 3)):
            seconds, depth = chance.choice([None, 0, 0.005, 5]), chance.choice([0, 0, 1])
            began = time.monotonic()
            try:
                assert await fetch(seconds, depth) == "done"
                assert seconds != 5
            except TimeoutError:  # on a busy machine also of one that would have answered in time
                assert seconds in {0.005, 5}
                assert time.monotonic() - began >= 0.035
            assert asyncio.current_task().cancelling() == 0

    async def main():
        await asyncio.gather(*(one() for _ in range(60)))
        await asyncio.sleep(0)
        gc.collect()
        return sum(each() is not None for each in tasks)

    assert asyncio.run(main()) == 0
    assert len(tasks) == 60
