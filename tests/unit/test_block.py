"""The block form: for and async for, with its time limits, its resource, and its one mistake."""

import asyncio
import contextlib

import anyio
import anyio.lowlevel
import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import BreakerOpenError, NetworkError
from outlast.testing import fake_clock

THREE = RetryPolicy(max_attempts=3)


class TestSync:
    @pytest.fixture(autouse=True)
    def clock(self):
        with fake_clock() as clock:
            yield clock

    def test_until_it_succeeds(self, clock):
        numbers = []
        for attempt in outlast.attempts(RetryPolicy(max_attempts=4, backoff="exponential")):
            with attempt:
                numbers.append(attempt.number)
                if attempt.number < 3:
                    raise NetworkError("x")
                result = "done"
        assert (numbers, clock.waits, result) == ([1, 2, 3], [1, 2], "done")

    def test_until_attempts_are_used_up(self, clock):
        with pytest.raises(NetworkError) as caught:
            for attempt in outlast.attempts(THREE):
                with attempt:
                    raise NetworkError("x")
        assert clock.waits == [1, 1]
        assert len(caught.value.__outlast__.attempts) == 3
        assert caught.value.__context__ is None

    def test_what_is_not_wanted_passes_at_once(self):
        with pytest.raises(ValueError, match="x"):
            for attempt in outlast.attempts():
                with attempt:
                    raise ValueError("x")

    @pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_pitfall_2_what_is_no_exception_passes_at_once(self, stop, clock):
        with pytest.raises(stop):
            for attempt in outlast.attempts(THREE.replace(retry_on=(BaseException,))):
                with attempt:
                    raise stop
        assert clock.waits == []

    def test_break_and_return_end_it(self):
        def inner():
            for attempt in outlast.attempts(THREE):
                with attempt:
                    return attempt.number
            return None

        assert inner() == 1
        for attempt in outlast.attempts(THREE):
            with attempt:
                break
        assert attempt.number == 1

    def test_pitfall_15_a_forgotten_with_is_not_silently_unretried(self):
        with pytest.raises(RuntimeError, match="write 'with attempt:' inside the loop"):
            for _attempt in outlast.attempts(THREE):
                pass

    def test_pitfall_5_the_deadline(self, clock):
        left = []
        with pytest.raises(NetworkError) as caught:
            for attempt in outlast.attempts(RetryPolicy(max_attempts=9, base_delay=4, deadline=10)):
                with attempt:
                    left.append(attempt.time_left)
                    raise NetworkError("x")
        assert (left, clock.waits) == ([10, 6, 2], [4, 4])
        assert caught.value.__outlast__.reason == "deadline"

    def test_pitfall_11_a_retried_call_inside_does_not_multiply(self):
        calls = []

        @outlast.retry(policy=THREE)
        def fetch():
            calls.append(1)
            raise NetworkError("x")

        with pytest.raises(NetworkError):
            for attempt in outlast.attempts(THREE):
                with attempt:
                    fetch()
        assert len(calls) == 3

    def test_events_carry_its_name(self):
        seen = []
        stop = outlast.subscribe(seen.append, outlast.events.Recovered)
        try:
            for attempt in outlast.attempts(THREE, name="upload"):
                with attempt:
                    if attempt.number == 1:
                        raise NetworkError("x")
        finally:
            stop()
        assert [(each.name, each.attempts) for each in seen] == [("upload", 2)]

    def test_its_resource_counts_and_refuses(self, clock):
        guard = outlast.resource(
            "block", breaker=outlast.BreakerSettings(consecutive=2, open_for=30), budget=outlast.Budget(10, 0)
        )
        policy = RetryPolicy(max_attempts=2, resource="block")
        with pytest.raises(NetworkError):
            for attempt in outlast.attempts(policy):
                with attempt:
                    raise NetworkError("x")
        assert guard.breaker.state == "open"
        assert guard.budget.tokens == 9
        clock.advance(30)
        for attempt in outlast.attempts(policy):  # let through as the probe
            with attempt:
                assert attempt.number == 1
        assert clock.waits == [1]
        assert guard.breaker.state == "closed"
        guard.open()
        with pytest.raises(BreakerOpenError):
            for attempt in outlast.attempts(policy):
                with attempt:
                    pytest.fail("not reached")


@pytest.mark.anyio
class TestAsync:
    async def test_until_it_succeeds(self):
        numbers = []
        with fake_clock() as clock:
            async for attempt in outlast.attempts(THREE):
                with attempt:
                    await anyio.lowlevel.checkpoint()
                    numbers.append(attempt.number)
                    if attempt.number < 3:
                        raise NetworkError("x")
        assert (numbers, clock.waits) == ([1, 2, 3], [1, 1])

    async def test_until_attempts_are_used_up(self):
        with fake_clock(), pytest.raises(NetworkError):
            async for attempt in outlast.attempts(THREE):
                with attempt:
                    raise NetworkError("x")

    async def test_pitfall_5_an_attempt_is_cancelled_at_the_deadline(self):
        with pytest.raises(TimeoutError, match="cancelled after") as caught:
            async for attempt in outlast.attempts(RetryPolicy(max_attempts=5, deadline=0.03, base_delay=0)):
                with attempt:
                    await anyio.sleep(5)
        assert caught.value.__outlast__.reason == "deadline"

    async def test_pitfall_6_and_at_its_own_timeout(self):
        numbers = []
        async for attempt in outlast.attempts(RetryPolicy(attempt_timeout=0.02, base_delay=0)):
            with attempt:
                numbers.append(attempt.number)
                if attempt.number == 1:
                    await anyio.sleep(5)
        assert numbers == [1, 2]

    async def test_pitfall_1_and_12_a_cancellation_from_outside_passes(self):
        calls = []
        for body in (5, 0):
            with anyio.move_on_after(0.01) as scope:
                async for attempt in outlast.attempts(RetryPolicy(base_delay=5, deadline=60, attempt_timeout=30)):
                    with attempt:
                        calls.append(body)
                        await anyio.sleep(body)
                        raise NetworkError("x")
            assert scope.cancelled_caught
        assert calls == [5, 0]

    async def test_leaving_early_leaves_nothing_behind(self):
        async for attempt in outlast.attempts(RetryPolicy(attempt_timeout=0.01)):
            with attempt:
                break
        await anyio.sleep(0.03)


def test_a_block_that_swallows_the_cancellation_leaves_no_mark_on_its_task():
    async def main():
        async for attempt in outlast.attempts(RetryPolicy(attempt_timeout=0.01)):
            with attempt, contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(5)
        return asyncio.current_task().cancelling()

    assert asyncio.run(main()) == 0


def test_attempts_that_are_used_up_are_not_skipped_silently():
    attempts = outlast.attempts(RetryPolicy())
    for attempt in attempts:
        with attempt:
            pass
    with pytest.raises(RuntimeError, match="again for each block"):
        for _ in attempts:
            pytest.fail("not reached")
