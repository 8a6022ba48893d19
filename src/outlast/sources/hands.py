"""The sources that a monitor has in its hands: polled side by side, their results written together."""

import asyncio
from collections.abc import Sequence

from outlast import clock
from outlast.classify import classify
from outlast.ports.source_rows import Source
from outlast.ports.sources import Change
from outlast.sources import outcomes
from outlast.sources.polling import Poller
from outlast.sources.telling import log, shown
from outlast.sources.writing import AFTER_A_MISTAKE

__all__ = ["Hands"]

_TOGETHER = 0.02  # seconds for which results are gathered before they are written


class Hands:
    """What one monitor holds of a cycle.

    Args:
        poller: Polls.
    """

    def __init__(self, poller: Poller) -> None:
        """Begin with empty hands."""
        self._polls: dict[asyncio.Task[None], tuple[Source, float]] = {}
        self._results: dict[int, tuple[int | None, Change]] = {}
        self._is_ending = False
        self.poller = poller

    @property
    def busy(self) -> int:
        """How many are being polled, without those that only wait for their host or their next attempt."""
        return len(self._polls) - len(self.poller.resting)

    @property
    def held(self) -> int:
        """How many there are altogether."""
        return len(self._polls) + len(self._results)

    @property
    def are_empty(self) -> bool:
        """Whether nothing is polled and nothing waits to be written."""
        return not self._polls and not self._results

    def take(self, sources: Sequence[Source]) -> None:
        """Begin to poll sources."""
        now = clock.monotonic()
        for source in sources:
            poll = asyncio.create_task(self._poll(source))
            self._polls[poll] = (source, now)
            poll.add_done_callback(self._polls.pop)

    def held_for(self, seconds: float) -> list[Source]:
        """Return those that have been polled for longer than so many seconds."""
        since = clock.monotonic() - seconds
        return [source for source, taken in self._polls.values() if taken < since]

    async def wait(self, seconds: float) -> None:
        """Wait until some are done, and a moment more for those that are about to be."""
        if self._polls and not self._results:
            await asyncio.wait(self._polls, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._polls:
            await asyncio.sleep(_TOGETHER)

    def results(self) -> dict[int, tuple[int | None, Change]]:
        """Hand out what is done, to be written in one transaction."""
        results, self._results = self._results, {}
        return results

    def keep(self, results: dict[int, tuple[int | None, Change]]) -> None:
        """Take back what could not be written."""
        self._results = results | self._results

    async def end(self, grace: float) -> None:
        """Stop polling: who waits is let go, what runs may finish."""
        self._is_ending = True
        for resting in tuple(self.poller.resting):
            resting.cancel()
        if self._polls:
            await asyncio.wait(self._polls, timeout=grace)
        for poll in tuple(self._polls):
            poll.cancel()
        if self._polls:
            await asyncio.wait(self._polls)

    async def _poll(self, source: Source) -> None:
        try:
            change = await self.poller.poll(source)
        except Exception as error:  # noqa: BLE001  # a mistake of ours: no fault of the source, and none of the others
            log.error("source %d (%s) could not be polled: %s", source.id, shown(source), classify(error))
            change = outcomes.deferred(self.poller.rules, AFTER_A_MISTAKE, classify(error), 0)
        except asyncio.CancelledError:
            if self._is_ending or self.poller.is_leaving():
                raise  # it is given back
            log.error("the poll of source %d (%s) was cancelled, and not by us", source.id, shown(source))
            change = outcomes.deferred(self.poller.rules, AFTER_A_MISTAKE, None, 0)
        self._results[source.id] = (source.epoch, change)
