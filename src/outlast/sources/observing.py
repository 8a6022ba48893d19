"""A monitor that only observes: sources are polled and counted, their states stay, and nobody is alerted."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from outlast.decide.health import SourceRules, SourceState, probe_delay
from outlast.failure import Failure
from outlast.ports.source_rows import Closing, Cycle, Source, SourceChange
from outlast.ports.sources import Change
from outlast.run.observing import tell_of
from outlast.sources import outcomes
from outlast.sources.polling import Poller
from outlast.sources.telling import shown

__all__ = ["ObservingPoller", "WatchedClose"]

_STATE = ("state", "disabled_at", "disabled_by", "probes", "passed")


class ObservingPoller(Poller):
    """Polls as usual; what is written leaves the state of a source as it is."""

    async def poll(self, source: Source) -> Change:
        """Poll a source; return what is to be written."""
        change, rules = await super().poll(source), self.rules

        def held(before: Source, now: datetime) -> SourceChange | None:
            found = change(before, now)
            return None if found is None else _held(before, found, rules, now)

        return held


class WatchedClose:
    """Ends a cycle as `outcomes.closing` does, with every state as it was; knows what would have been disabled.

    Failures are counted, for otherwise nobody could tell when a source would have been disabled. It is told once: when
    the count reaches the threshold.

    Args:
        profile: Name of the profile.
        rules: Of the profile.
    """

    def __init__(self, profile: str, rules: SourceRules) -> None:
        """Begin with nothing to tell."""
        self._profile, self._rules = profile, rules
        self._close = outcomes.closing(profile, rules)
        self._disabled: list[tuple[Failure, str]] = []

    def __call__(self, cycle: Cycle, previous: Cycle | None, sources: Sequence[Source], now: datetime) -> Closing:
        """Say how the cycle ends; a store may ask more than once."""
        closing = self._close(cycle, previous, sources, now)
        before = {source.id: source for source in sources}
        pairs = [(before[change.source.id], change) for change in closing.changes]
        self._disabled = [
            (Failure.from_dict(source.pending), self._reason(change.source))
            for source, change in pairs
            if source.pending is not None and self._would_disable(source, change.source)
        ]
        kept = [_held(source, change, self._rules, now) for source, change in pairs]
        return closing._replace(changes=kept, alerts=())

    def tell(self) -> None:
        """Tell what would have been disabled, once the cycle's end is written."""
        told, self._disabled = self._disabled, []
        for failure, reason in told:
            tell_of(self._profile, failure, "disable", None, reason)

    def _would_disable(self, before: Source, after: Source) -> bool:
        if after.is_active or not before.is_active:
            return False
        limit = 1 if before.state is SourceState.PROBATION else self._rules.threshold
        return before.consecutive_failures < limit

    @staticmethod
    def _reason(source: Source) -> str:
        failures = source.consecutive_failures
        times = "1 failure" if failures == 1 else f"{failures} failures in a row"
        return f"source {source.id} ({shown(source)}), after {times}"


def _held(before: Source, change: SourceChange, rules: SourceRules, now: datetime) -> SourceChange:
    """Return a change that leaves the state of a source as it was, and tells nobody."""
    after = change.source
    health = after.health._replace(**{name: getattr(before.health, name) for name in _STATE})
    until = after.not_before
    if before.is_active and not after.is_active:
        until = before.not_before  # it is polled on
    elif not before.is_active and until is None:
        until = now + timedelta(seconds=probe_delay(before.health, rules))  # it answers, and stays disabled
    line = change.poll
    if line is not None:
        line = None if line.outcome in set(SourceState) else line._replace(before=None, after=None)
    return SourceChange(after._replace(health=health, not_before=until), line)
