"""The clock for tests: waits at the same time overlap, and everything that asks for the time asks it."""

import asyncio
import threading
from email.utils import formatdate

import pytest

import outlast
from outlast import clock as current
from outlast.errors import NetworkError
from outlast.testing import FakeClock, fake_clock

MANY = 30


def passed(clock):
    return clock.monotonic() - 1000.0


def run_threads(*functions):
    threads = [threading.Thread(target=each) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_waits_of_threads_overlap():
    clock, barrier = FakeClock(), threading.Barrier(MANY)

    def wait():
        barrier.wait()
        clock.sleep(7)

    run_threads(*[wait] * MANY)
    assert (passed(clock), clock.waits) == (7.0, [7] * MANY)


def test_waits_of_coroutines_overlap():
    clock = FakeClock()

    async def wait_all():
        await asyncio.gather(*(clock.sleep_async(7) for _ in range(MANY)))

    asyncio.run(wait_all())
    assert (passed(clock), clock.waits) == (7.0, [7] * MANY)


def test_waits_of_trio_tasks_overlap():
    trio = pytest.importorskip("trio")
    clock = FakeClock()

    async def wait_all():
        async with trio.open_nursery() as nursery:
            for _ in range(MANY):
                nursery.start_soon(clock.sleep_async, 7)

    trio.run(wait_all)
    assert passed(clock) == 7.0


def test_threads_and_coroutines_wake_in_the_order_of_their_times():
    clock, woken = FakeClock(1000.0), []

    def wait(seconds):
        clock.sleep(seconds)
        woken.append((seconds, passed(clock)))

    async def wait_async(seconds):
        await clock.sleep_async(seconds)
        woken.append((seconds, passed(clock)))

    async def gather():
        await asyncio.gather(wait_async(2), wait_async(4))

    run_threads(lambda: wait(3), lambda: wait(1), lambda: asyncio.run(gather()))
    assert woken == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert clock.now() == pytest.approx(1004.0)


def test_waits_one_after_another_add_up():
    clock = FakeClock()

    def wait():
        clock.sleep(5)
        clock.sleep(10)

    run_threads(wait, wait)
    assert passed(clock) == 15.0


def test_a_lone_waiter_does_not_wait_for_others():
    clock = FakeClock(patience=3600)
    clock.sleep(7)
    asyncio.run(clock.sleep_async(7))
    assert passed(clock) == 14.0


def test_advancing_wakes_a_waiter():
    clock = FakeClock(patience=3600)

    async def wait():
        sleeper = asyncio.create_task(clock.sleep_async(60))
        while not clock.waits:  # noqa: ASYNC110  # the subject
            await asyncio.sleep(0)
        clock.advance(60)
        await sleeper

    asyncio.run(wait())
    assert passed(clock) == 60.0


def test_a_cancelled_wait_does_not_hold_the_others_back():
    clock = FakeClock()

    async def wait():
        short, long = (asyncio.create_task(clock.sleep_async(seconds)) for seconds in (1, 50))
        while len(clock.waits) < 2:  # noqa: ASYNC110  # the subject
            await asyncio.sleep(0)
        short.cancel()
        await long

    asyncio.run(wait())
    assert passed(clock) == 50.0


def test_retries_of_many_calls_overlap():
    with fake_clock() as clock:
        policy = outlast.RetryPolicy(max_attempts=2, base_delay=7, jitter="none", retry_on=NetworkError)

        @outlast.retry(policy)
        async def fetch(tried):
            tried.append(1)
            if len(tried) == 1:
                raise NetworkError("reset")

        async def fetch_all():
            await asyncio.gather(*(fetch([]) for _ in range(MANY)))

        asyncio.run(fetch_all())
        assert passed(clock) == 7.0


def test_a_date_in_retry_after_is_compared_with_the_test_clock():
    with fake_clock(start=2_000_000_000.0):
        at = formatdate(2_000_000_120.0, usegmt=True)
        assert outlast.parse_retry_after(at) == 120
        assert outlast.rate_limit_hint({"Retry-After": at}).seconds == 120
        failure = outlast.classify(outlast.Evidence(http_status=429, headers={"Retry-After": at}))
        assert failure.retry_after == 120
        current._in_use.advance(20)
        assert outlast.parse_retry_after(at) == 100


@pytest.mark.parametrize("chance", [0.0, 0.25, 1.0])
def test_the_chance_rules_what_a_policy_says(chance):
    policy = outlast.RetryPolicy(base_delay=8, max_delay=8, jitter="full")
    failure = outlast.classify(TimeoutError())
    with fake_clock(chance=chance):
        assert policy.get_delay(1) == 8 * chance
        assert policy.delay_after(failure, 1) == 8 * chance
