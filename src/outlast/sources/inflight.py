"""The sources that a monitor is polling, and how it writes the results: together, or one by one after an error."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from outlast import clock
from outlast.classify import classify
from outlast.decide.source_health import SourceRules
from outlast.errors import OutlastError
from outlast.ports.source_rows import ChangeSource, Source, Sources, Transition
from outlast.sources import outcomes
from outlast.sources.announcements import announce_transitions, log, redacted_source_url
from outlast.sources.poller import Poller

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


DEFER_AFTER_BUG = 60.0
"""Seconds to put a source off when what went wrong is no fault of its own."""

_Results = dict[int, tuple[int | None, ChangeSource]]


async def write_results(
    ask: "Callable[..., Awaitable[Any]]", store: Sources, rules: SourceRules, results: _Results
) -> bool:
    """Write results and tell of what they change; what is written is taken out of them.

    Args:
        ask: Calls a function that blocks.
        store: Where they go.
        rules: Of the profile.
        results: What the polls gave.

    Returns:
        Whether a state has changed.

    Raises:
        Exception: If the store is down, or refuses even that a source is put off.
    """
    if not results:
        return False
    answer: list[Transition] | Exception = await ask(_try_write, store, results)
    if not isinstance(answer, Exception):
        results.clear()
        announce_transitions(answer)
        return bool(answer)
    changed = False
    for number in sorted(results):
        epoch, change = results[number]
        answer = await ask(_try_write, store, {number: (epoch, change)})
        if isinstance(answer, Exception):
            refusal = classify(answer)
            put_off = outcomes.deferral_change(rules, DEFER_AFTER_BUG, refusal, 0)
            answer = await ask(_try_write, store, {number: (epoch, put_off)})
            if isinstance(answer, Exception):
                raise answer  # the store takes nothing at all: it is not the result
            log.error("the store refused the result of source %d; the source is deferred: %s", number, refusal)
        del results[number]
        announce_transitions(answer)
        changed = changed or bool(answer)
    return changed


def _try_write(store: Sources, results: _Results) -> list[Transition] | Exception:
    """Return the transitions, or why the store refuses, where no repetition would help."""
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
    """What one monitor holds of a cycle.

    Args:
        poller: Polls.
    """

    def __init__(self, poller: Poller) -> None:
        """Begin with empty hands."""
        self._polls: dict[asyncio.Task[None], tuple[Source, float]] = {}
        self._results: dict[int, tuple[int | None, ChangeSource]] = {}
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
    def is_empty(self) -> bool:
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
            await asyncio.sleep(_GATHER_SECONDS)

    def results(self) -> dict[int, tuple[int | None, ChangeSource]]:
        """Hand out what is done, to be written in one transaction."""
        results, self._results = self._results, {}
        return results

    def keep(self, results: dict[int, tuple[int | None, ChangeSource]]) -> None:
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
            log.error("could not poll source %d (%s): %s", source.id, redacted_source_url(source), classify(error))
            change = outcomes.deferral_change(self.poller.rules, DEFER_AFTER_BUG, classify(error), 0)
        except asyncio.CancelledError:
            if self._is_ending or self.poller.is_leaving():
                raise  # it is given back
            log.error("the poll of source %d (%s) was cancelled by other code", source.id, redacted_source_url(source))
            change = outcomes.deferral_change(self.poller.rules, DEFER_AFTER_BUG, None, 0)
        latest = self._results.get(source.id)
        # After a lost lease a source may be polled twice at once; only the result of the later lease counts.
        if latest is None or (latest[0] or 0) < source.epoch:
            self._results[source.id] = (source.epoch, change)
