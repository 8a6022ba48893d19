"""The attempts of a block: when its permit is taken and given back, and what the code inside can know of them."""

import itertools

import anyio
import anyio.lowlevel
import pytest

import outlast
from outlast import RetryPolicy
from outlast.errors import BreakerOpenError, NetworkError
from outlast.testing import fake_clock

THREE = RetryPolicy(max_attempts=3)
_numbers = itertools.count()


class TestPermits:
    """A permit belongs to a block that runs, and to nothing before it."""

    @pytest.fixture(autouse=True)
    def clock(self):
        with fake_clock() as clock:
            yield clock

    @pytest.fixture
    def guard(self, clock):
        """Half-open, with one probe, and room for one call."""
        settings = outlast.BreakerSettings(consecutive=1, open_for=10)
        guard = outlast.resource(f"permits-{next(_numbers)}", breaker=settings, max_concurrency=1)
        guard.open(seconds=10)
        clock.advance(10)
        return guard

    def is_free(self, guard):
        guard.succeeded(guard.enter())
        return guard.running == 0

    def test_left_before_the_block_begins(self, guard):
        for _attempt in outlast.attempts(RetryPolicy(resource=guard.name)):
            break
        assert guard.running == 0
        assert self.is_free(guard)

    def test_a_forgotten_with(self, guard):
        with pytest.raises(RuntimeError, match="write 'with attempt:'"):
            for _attempt in outlast.attempts(RetryPolicy(resource=guard.name)):
                pass
        assert self.is_free(guard)

    def test_while_the_block_runs(self, guard):
        for attempt in outlast.attempts(RetryPolicy(resource=guard.name)):
            with attempt:
                assert guard.running == 1
        assert (guard.running, guard.breaker.state) == (0, "closed")

    def test_an_error_that_leaves_the_loop_before_the_block(self, guard):
        with pytest.raises(KeyError):
            for _attempt in outlast.attempts(RetryPolicy(resource=guard.name)):
                raise KeyError("x")
        assert self.is_free(guard)

    @pytest.mark.parametrize(("taken", "reason"), [("open", "breaker"), ("enter", "exhausted")])
    def test_refused_at_the_last_moment(self, guard, clock, taken, reason):
        guard.close()
        with pytest.raises((BreakerOpenError, outlast.errors.ConcurrencyLimitError)) as caught:
            for attempt in outlast.attempts(RetryPolicy(resource=guard.name)):
                getattr(guard, taken)()  # somebody else is quicker
                with attempt:
                    pytest.fail("not reached")
        assert caught.value.__outlast__.reason == reason
        assert clock.waits == []

    def test_one_that_is_refused_is_asked_again_after_a_wait(self, guard, clock, monkeypatch):
        guard.close()
        permit = guard.enter()
        monkeypatch.setattr("outlast.clock.sleep", lambda seconds: guard.succeeded(permit))
        for attempt in outlast.attempts(RetryPolicy(resource=guard.name, retry_on=(Exception,))):
            with attempt:
                assert attempt.number == 2
        assert guard.running == 0


class TestCurrentAttempt:
    @pytest.fixture(autouse=True)
    def clock(self):
        with fake_clock() as clock:
            yield clock

    def test_in_a_block_and_in_what_it_calls(self, clock):
        seen = []

        def ask():
            now = outlast.current_attempt()
            seen.append((now.number, now.max_attempts, now.time_left))

        for attempt in outlast.attempts(RetryPolicy(max_attempts=3, base_delay=4, deadline=10)):
            assert outlast.current_attempt() is None
            with attempt:
                ask()
                if attempt.number == 1:
                    raise NetworkError("x")
        assert seen == [(1, 3, 10), (2, 3, 6)]
        assert outlast.current_attempt() is None

    def test_the_innermost_counts(self):
        five, four = RetryPolicy(max_attempts=5), RetryPolicy(max_attempts=4)

        @outlast.retry(policy=RetryPolicy(max_attempts=7))
        def called():
            return outlast.current_attempt().max_attempts

        for outer in outlast.attempts(five):
            with outer:
                for inner in outlast.attempts(four):
                    with inner:
                        assert outlast.current_attempt().max_attempts == 4
                        assert called() == 7
                assert outlast.current_attempt().max_attempts == 5

        @outlast.retry(policy=RetryPolicy(max_attempts=7))
        def around():
            for attempt in outlast.attempts(four):
                with attempt:
                    inside = outlast.current_attempt().max_attempts
            return inside, outlast.current_attempt().max_attempts

        assert around() == (4, 7)

    @pytest.mark.anyio
    async def test_under_async_for(self):
        seen = []

        async def ask():
            await anyio.lowlevel.checkpoint()
            seen.append(outlast.current_attempt().number)

        async for attempt in outlast.attempts(THREE):
            with attempt:
                await ask()
                if attempt.number < 3:
                    raise NetworkError("x")
        assert seen == [1, 2, 3]
