"""What is asked of a store for sources and alerts. Every method is one transaction, unless it says otherwise."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from outlast.decide.health import SourceState
from outlast.ports.source_rows import (
    Alert,
    AlertResult,
    Closed,
    Closing,
    Cycle,
    NewAlert,
    NewSource,
    Poll,
    Source,
    SourceAdded,
    SourceChange,
    SourceFilter,
    Transition,
)

__all__ = ["Alerts", "Change", "Close", "Sources"]

Change = Callable[[Source, datetime], SourceChange | None]
"""Says what is to be written for a source, by the store's clock; None for nothing. Pure: it may be called again."""
Close = Callable[[Cycle, Cycle | None, Sequence[Source], datetime], Closing]
"""Says how a cycle ends: the cycle, the last one that ended, its sources, the time. Pure: it may be called again.

A cycle may have many thousands of sources, so what each has seen is not read for it: `etag`, `last_modified`,
`content_hash` and `memory` are None. Of a source that it changes, `health`, `last_error`, `last_failure`, `not_before`
and `pending` are written; all else stays as it is.
"""


class Sources(Protocol):
    """Sources, and the cycles in which they are polled."""

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now; one whose profile and URL are known is answered with that one, untouched."""

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Remove sources with their history; return how many.

        Args:
            source_ids: Which ones.
            alerts: What is told, if it is news, by the number of the source: of each one that was there to be removed.
                Nothing else tells that what was told of it is settled.
        """

    def source(self, source_id: int) -> Source | None:
        """Return one."""

    def sources(self, which: SourceFilter) -> list[Source]:
        """Return sources by number."""

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return how many there are of each state, all states named."""

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first. A store keeps the last 100 lines of each source at least."""

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return the last lines of the history of some sources, so many of each, newest first; all of them named."""

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return sources that were put off, for their host is left alone: number and URL, by number."""

    def change_sources(self, changes: Mapping[int, tuple[int | None, Change]]) -> list[Transition]:
        """Change sources by number, each read and locked first, in the order of their numbers; all in one transaction.

        Args:
            changes: The epoch of the claim, and what says what to write. With another epoch than the row's nothing is
                changed: another monitor has had it since. Nor is a row that has an outcome already: the same was
                written before, and the answer was lost, or somebody's hand was quicker. None as the epoch changes it in
                any case. A source that is gone is left out.

        Returns:
            The transitions that were written.
        """

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the profile's cycle that runs, else begin one; None if no source is due.

        Due is an active source whose `next_poll_at` and `not_before` are over, and one that a rule has disabled whose
        `not_before` is over. They get the cycle's number, no outcome and no lease. However many call it at once, one
        cycle begins.

        Args:
            profile: Whose sources.
            everything: Whether `next_poll_at` does not matter; `not_before` does.
        """

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Take sources of a cycle without an outcome that are in nobody's hands, by number; their epochs are raised."""

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of what a monitor holds without an outcome; return how many."""

    def release_sources(self, owner: str) -> int:
        """Give back what a monitor holds without an outcome; return how many."""

    def close_cycle(self, cycle_id: int, close: Close) -> Closed | None:
        """End a cycle; None while a source of it has no outcome, or when somebody else has ended it.

        Its pending failures are withdrawn, or stand by the changes; a source that was removed is not waited for.
        """

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first. A store keeps the last 1,000 of a profile at least."""


class Alerts(Protocol):
    """The outbox: what is to be told, and whether it was. The last alert of a key and `next_kind` say what is news."""

    def raise_alerts(self, alerts: Sequence[NewAlert]) -> list[Alert]:
        """Add those that are news; return them."""

    def remind_alerts(self, after: float) -> list[Alert]:
        """Add a reminder for each matter that is not well, and was told of last, done with, so many seconds ago.

        Nobody is reminded of a group (``group:`` or ``growth:`` and its fingerprint) that is snoozed or acknowledged.
        """

    def claim_alerts(self, limit: int, lease: float) -> list[Alert]:
        """Take alerts that are due and in nobody's hands, oldest first, and raise their epochs.

        One waits while an older one of its key is with nobody yet, so that 'recovered' never overtakes 'first'; an
        older one that some channel has, and another has not, holds nothing up.
        """

    def settle_alerts(self, results: Sequence[AlertResult]) -> int:
        """Write what became of deliveries; return how many. A result with another epoch than the row's is dropped."""

    def alerts(self, *, waiting: bool | None = None, limit: int = 50) -> list[Alert]:
        """Return alerts, newest first; only those that wait, or only those done with, where it is said."""

    def last_alerts(self, keys: Sequence[str]) -> dict[str, Alert]:
        """Return the last alert of each key; a key without any is left out."""

    def prune_alerts(self, older_than: float) -> int:
        """Delete alerts done with longer ago than so many seconds, but never the last of a key that is not well.

        Nor the last of a key that is well again while an older one of it stays, which would be the last then.
        """
