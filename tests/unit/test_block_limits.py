"""What ends a block besides its own errors: its time limit, and somebody else's cancellation."""

import asyncio
import contextlib
import gc
import itertools
import time
import weakref

import pytest
import trio

import outlast
from outlast import RetryPolicy

_numbers = itertools.count()


class TestSomebodyElsesCancellation:
    """Pitfall 1: it wins, however close it falls to our time limit."""

    def test_both_are_due_at_once(self):
        numbers = []

        async def work():
            async for attempt in outlast.attempts(RetryPolicy(attempt_timeout=0.03, base_delay=0)):
                with attempt:
                    numbers.append(attempt.number)
                    await asyncio.sleep(5)

        async def main():
            task = asyncio.create_task(work())
            await asyncio.sleep(0)  # it has begun
            asyncio.get_running_loop().call_later(0.005, task.cancel)
            time.sleep(0.05)  # noqa: ASYNC251  # something blocks the loop until both are due
            with pytest.raises(asyncio.CancelledError):
                await task
            return task.cancelled()

        assert asyncio.run(main())
        assert numbers == [1]

    def test_ours_comes_while_theirs_is_being_cleaned_up_after(self):
        numbers = []

        async def work():
            async for attempt in outlast.attempts(RetryPolicy(attempt_timeout=0.03, base_delay=0)):
                with attempt:
                    numbers.append(attempt.number)
                    try:
                        await asyncio.sleep(5)
                    finally:
                        await asyncio.sleep(5)

        async def main():
            task = asyncio.create_task(work())
            await asyncio.sleep(0)  # it has begun
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert numbers == [1]


class TestNursery:
    """A trio nursery raises in groups, and some children do more than end when they are cancelled."""

    policy = RetryPolicy(attempt_timeout=0.02, base_delay=0, retry_on=(TimeoutError,), max_attempts=2)

    @staticmethod
    async def quiet():
        await trio.sleep(5)

    @staticmethod
    async def grumpy():
        try:
            await trio.sleep(5)
        except trio.Cancelled:
            raise ValueError("interrupted") from None

    @staticmethod
    async def stopping():
        try:
            await trio.sleep(5)
        except trio.Cancelled:
            raise KeyboardInterrupt from None

    async def children(self, *kinds):
        async with trio.open_nursery() as nursery:
            for kind in kinds:
                nursery.start_soon(kind)

    @pytest.mark.parametrize(
        "kinds", [["quiet"], ["quiet", "quiet"], ["quiet", "grumpy"], ["grumpy", "quiet", "grumpy"]]
    )
    @pytest.mark.parametrize("form", ["block", "call"])
    def test_its_time_limit_is_a_timeout_and_retried(self, kinds, form):
        guard = outlast.resource(f"nursery-{next(_numbers)}", max_concurrency=1)
        policy = self.policy.replace(resource=guard.name)
        numbers = []

        async def once(number):
            numbers.append(number)
            if number == 1:
                await self.children(*(getattr(self, kind) for kind in kinds))

        async def block():
            async for attempt in outlast.attempts(policy):
                with attempt:
                    await once(attempt.number)

        @outlast.retry(policy=policy)
        async def call():
            await once(outlast.current_attempt().number)

        trio.run(block if form == "block" else call)
        assert numbers == [1, 2]
        assert guard.running == 0

    @pytest.mark.parametrize("form", ["block", "call"])
    def test_what_else_came_out_of_it_is_the_cause(self, form):
        policy = self.policy.replace(max_attempts=1)

        async def block():
            async for attempt in outlast.attempts(policy):
                with attempt:
                    await self.children(self.quiet, self.grumpy)

        @outlast.retry(policy=policy)
        async def call():
            await self.children(self.quiet, self.grumpy)

        with pytest.raises(TimeoutError, match="cancelled after") as caught:
            trio.run(block if form == "block" else call)
        assert [str(each) for each in caught.value.__cause__.exceptions] == ["interrupted"]

    @pytest.mark.parametrize("form", ["block", "call"])
    def test_it_keeps_nothing_alive(self, form):
        class Body:
            pass

        async def once(body):
            await self.children(self.quiet, self.grumpy)

        async def block(body):
            async for attempt in outlast.attempts(self.policy):
                with attempt:
                    await once(body)

        call = outlast.retry(policy=self.policy)(once)

        async def main():
            body = Body()
            gone = weakref.ref(body)
            with contextlib.suppress(TimeoutError):
                await (block if form == "block" else call)(body)
            del body
            return gone() is None

        gc.collect()
        gc.disable()
        try:
            assert trio.run(main)
        finally:
            gc.enable()

    def test_what_is_no_exception_passes_and_the_permit_comes_back(self):
        guard = outlast.resource(f"nursery-{next(_numbers)}", max_concurrency=1)

        async def block():
            async for attempt in outlast.attempts(self.policy.replace(resource=guard.name)):
                with attempt:
                    await self.children(self.quiet, self.stopping)

        with pytest.raises(BaseExceptionGroup) as caught:
            trio.run(block)
        assert caught.value.subgroup(KeyboardInterrupt) is not None
        assert guard.running == 0


def test_an_event_loop_that_nobody_knows_leaves_no_permit_out():
    guard = outlast.resource(f"nursery-{next(_numbers)}", max_concurrency=1)

    async def block():
        async for attempt in outlast.attempts(RetryPolicy(attempt_timeout=1, resource=guard.name)):
            with attempt:
                pytest.fail("not reached")

    with pytest.raises(RuntimeError, match="no running event loop"):
        block().send(None)
    assert guard.running == 0
