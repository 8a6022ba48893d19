"""The watch over first attempts: one per thread, and none left behind."""

import asyncio
import gc
import random
import threading
import time
import weakref

import pytest

import outlast
from outlast import RetryPolicy
from outlast.run import watch

LIMITED = RetryPolicy(max_attempts=1, attempt_timeout=60)


@pytest.fixture
def made(monkeypatch):
    """Every watch that is made."""
    made = []
    begin = watch.Watch.__init__

    def counted(self, *args):
        made.append(threading.get_ident())
        begin(self, *args)

    monkeypatch.setattr(watch.Watch, "__init__", counted)
    return made


def test_event_loops_in_two_threads_take_turns_with_one_watch_each(made):
    together = threading.Barrier(2)

    @outlast.retry(policy=LIMITED)
    async def fetch():
        return 1

    async def some():
        for _ in range(20):
            together.wait(5)
            assert await fetch() == 1

    threads = [threading.Thread(target=lambda: asyncio.run(some())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2


def test_a_new_event_loop_in_the_same_thread_gets_its_own(made):
    @outlast.retry(policy=LIMITED)
    async def fetch():
        return await asyncio.sleep(0, "done")

    assert [asyncio.run(fetch()) for _ in range(3)] == ["done"] * 3
    assert len(made) == 3


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
def test_whatever_the_order_each_call_has_its_own_time_and_none_is_kept(seed, monkeypatch):
    """Calls that answer at once, later, too late or not at all, side by side and one within the other."""
    watches = []
    begin = watch.Watch.__init__

    def kept(self, *args):
        begin(self, *args)
        watches.append(self)

    monkeypatch.setattr(watch.Watch, "__init__", kept)
    chance = random.Random(seed)

    @outlast.retry(policy=RetryPolicy(max_attempts=1, attempt_timeout=0.04))
    async def fetch(seconds, depth):
        if depth:
            return await fetch(seconds, depth - 1)
        if seconds is not None:
            await asyncio.sleep(seconds)
        return "done"

    async def one():
        for _ in range(chance.randint(1, 3)):
            seconds, depth = chance.choice([None, 0, 0.005, 5]), chance.choice([0, 0, 1])
            began = time.monotonic()
            try:
                assert await fetch(seconds, depth) == "done"
                assert seconds != 5
            except TimeoutError:
                assert seconds == 5
                assert time.monotonic() - began >= 0.035
            assert asyncio.current_task().cancelling() == 0

    async def main():
        await asyncio.gather(*(one() for _ in range(60)))

    asyncio.run(main())
    ((task, calls, cancelled),) = [(each.task, each.calls, each.cancelled) for each in watches]
    assert (task, calls, cancelled) == (None, {}, None)
