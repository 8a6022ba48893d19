"""The sources that a monitor is polling, and how it writes the results: together, or one by one after an error."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from outlast import clock
from outlast.classify import classify
from outlast.decide.source_health import SourceRules
from outlast.errors import OutlastError
from outlast.ports.source_rows import ChangeSource, Source, Sources, Transition
from outlast.sources import outcomes
from outlast.sources.announcements import announce_transitions, log, redacted_source_url
from outlast.sources.poller import Poller

DEFER_AFTER_BUG = 60.0
"""Seconds by which a source is deferred after an error that it did not cause."""

_Results = dict[int, tuple[int | None, ChangeSource]]


async def write_results(
    ask: "Callable[..., Awaitable[Any]]", store: Sources, rules: SourceRules, results: _Results
) -> int:
    """Write results and announce the transitions. Written results are removed from `results`.

    Args:
        ask: Calls a blocking function.
        store: The store with the sources.
        rules: The rules of the profile.
        results: The results of the polls, by source.

    Returns:
        Number of sources whose state has changed.

    Raises:
        Exception: If the store is down, or does not even accept that a source is deferred.
    """
    if not results:
        return 0
    answer: list[Transition] | Exception = await ask(_try_write, store, results)
    if not isinstance(answer, Exception):
        results.clear()
        announce_transitions(answer)
        return len(answer)
    changed = 0
    for number in sorted(results):
        epoch, change = results[number]
        answer = await ask(_try_write, store, {number: (epoch, change)})
        if isinstance(answer, Exception):
            refusal = classify(answer)
            deferral = outcomes.deferral_change(rules, DEFER_AFTER_BUG, refusal, 0)
            answer = await ask(_try_write, store, {number: (epoch, deferral)})
            if isinstance(answer, Exception):
                raise answer  # the store accepts nothing, so the result is not the cause
            log.error("the store refused the result of source %d; the source is deferred: %s", number, refusal)
        del results[number]
        announce_transitions(answer)
        changed += len(answer)
    return changed


def _try_write(store: Sources, results: _Results) -> list[Transition] | Exception:
    """Return the transitions, or the error of the store if it is not retryable."""
    try:
        return store.change_sources(results)
    except OutlastError:
        raise
    except Exception as error:
        if classify(error).retryable:
            raise
        return error


_GATHER_SECONDS = 0.02  # seconds for which results are gathered before they are written


class InflightSources:
    """The sources of a cycle that one monitor is polling, and the results it has not written yet.

    Args:
        poller: Polls a source.

    Attributes:
        transitions: Number of sources whose state has changed with a result that was written.
    """

    def __init__(self, poller: Poller) -> None:
        self._polls: dict[asyncio.Task[None], tuple[Source, float]] = {}
        self._results: _Results = {}
        self._is_ending = False
        self.poller = poller
        self.transitions = 0

    @property
    def busy(self) -> int:
        """Number of sources being polled, without those that wait for their host or their next attempt."""
        return len(self._polls) - len(self.poller.resting)

    @property
    def held(self) -> int:
        """Number of sources being polled, and of results."""
        return len(self._polls) + len(self._results)

    @property
    def is_empty(self) -> bool:
        """Whether no source is being polled, and no result has to be written."""
        return not self._polls and not self._results

    def take(self, sources: Sequence[Source]) -> None:
        """Start to poll sources."""
        now = clock.monotonic()
        for source in sources:
            poll = asyncio.create_task(self._poll(source))
            self._polls[poll] = (source, now)
            poll.add_done_callback(self._polls.pop)

    def held_for(self, seconds: float) -> list[Source]:
        """Return the sources that have been polled for longer than this many seconds."""
        since = clock.monotonic() - seconds
        return [source for source, taken in self._polls.values() if taken < since]

    async def wait(self, seconds: float) -> None:
        """Wait until some polls are done, and a moment longer for others that end soon."""
        if self._polls and not self._results:
            await asyncio.wait(self._polls, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._polls:
            await asyncio.sleep(_GATHER_SECONDS)

    def results(self) -> _Results:
        """Return the results, to write them in one transaction, and forget them here."""
        results, self._results = self._results, {}
        return results

    def keep(self, results: _Results) -> None:
        """Add results back that could not be written."""
        self._results = results | self._results

    async def end(self, grace: float) -> None:
        """Stop polling: cancel polls that wait; running ones have `grace` seconds to finish."""
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
        except Exception as error:  # noqa: BLE001  # a bug in Outlast, which must not affect this source or others
            log.error("could not poll source %d (%s): %s", source.id, redacted_source_url(source), classify(error))
            change = outcomes.deferral_change(self.poller.rules, DEFER_AFTER_BUG, classify(error), 0)
        except asyncio.CancelledError:
            if self._is_ending or self.poller.is_leaving():
                raise  # the source is released
            log.error("the poll of source %d (%s) was cancelled by other code", source.id, redacted_source_url(source))
            change = outcomes.deferral_change(self.poller.rules, DEFER_AFTER_BUG, None, 0)
        latest = self._results.get(source.id)
        # After a lost lease a source may be polled twice at once; only the result of the later lease counts.
        if latest is None or (latest[0] or 0) < source.epoch:
            self._results[source.id] = (source.epoch, change)
