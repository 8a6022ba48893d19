"""A run at work on an event loop: targets are handled by coroutines, side by side."""

import asyncio
import time
from typing import Any

from outlast.jobs.feeding import LOOK_AHEAD, Read
from outlast.jobs.running import LOOK, Running
from outlast.jobs.target import Done, attempts_async, keyed

__all__ = ["Looping"]

_MOST_WAITING = 5000  # results that may wait to be written before handlers wait for it
_TURN = 0.005  # seconds after which the loop gets a turn, where handlers never wait for anything


class Looping:
    """Handles all targets of a run by coroutines. The iterable is read on the loop; the ledger is written beside it.

    Args:
        running: The run.
        concurrency: Targets at once.
    """

    def __init__(self, running: Running, concurrency: int) -> None:
        """Begin with nothing done."""
        self._running = running
        self._concurrency = concurrency
        self._results: list[Done] = []
        self._looking_up = asyncio.Lock()
        self._turned_at = time.perf_counter()

    async def run(self) -> None:
        """Handle all targets."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._concurrency)]
        writing: asyncio.Future[None] | None = None
        try:
            while not all(worker.done() for worker in workers):
                await asyncio.wait(workers, timeout=LOOK)
                writing = asyncio.ensure_future(self._write())
                await asyncio.shield(writing)
                self._running.look()
        except BaseException:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
            if writing is not None:
                await asyncio.wait([writing])
            await self._write()
            raise
        await self._write()

    async def _write(self) -> None:
        done, self._results = self._results, []
        await asyncio.to_thread(self._running.keep, done)

    async def _work(self) -> None:
        with keyed(self._running.plan.facts) as keys:
            try:
                while (taken := await self._take()) is not None:
                    await self._handle(taken, keys)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  # raised where the run was started
                self._running.break_off(error)

    async def _handle(self, taken: Read, keys: dict[str, Any]) -> None:
        done = await attempts_async(self._running.plan, keys, *taken)
        self._running.count((done,))
        self._results.append(done)
        if time.perf_counter() - self._turned_at > _TURN:
            await asyncio.sleep(0)
            self._turned_at = time.perf_counter()
        while len(self._results) > _MOST_WAITING:  # noqa: ASYNC110  # seldom, and never for long
            await asyncio.sleep(LOOK / 10)

    async def _take(self) -> Read | None:
        """Take a target; None if there are no more, or no more are to be begun."""
        running, feed = self._running, self._running.feed
        while not running.is_ending:
            taken = feed.ready(1)
            if not taken and not feed.asks:
                taken = running.take()
            if taken:
                return taken[0]
            if feed.asks:
                async with self._looking_up:
                    await self._look_up()
            if not feed.has_more:
                return None
        return None

    async def _look_up(self) -> None:
        """Read some targets here, and ask in a thread which of them are done."""
        running, feed = self._running, self._running.feed
        if feed.has_ready or feed.is_over:
            return
        read: list[Read] = []
        running.reading(feed.pull, LOOK_AHEAD, read.append)
        if read:
            await asyncio.to_thread(running.reading, feed.sift, read)
