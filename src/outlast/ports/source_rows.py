"""The rows of sources, their cycles and their alerts. Times are aware datetimes, waits are seconds."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from outlast.decide.decision import AlertKind
from outlast.decide.source_health import SourceHealth, SourceState

__all__ = [
    "Alert",
    "AlertResult",
    "Closed",
    "Closing",
    "Cycle",
    "NewAlert",
    "NewSource",
    "Poll",
    "Source",
    "SourceAdded",
    "SourceChange",
    "SourceFilter",
    "Transition",
]


class NewSource(NamedTuple):
    """A source to be added.

    Attributes:
        url: What is polled; one source per profile and URL.
        profile: Name of the profile.
        name: For people.
        selector: Part of the page that is watched, where it is a page.
    """

    url: str
    profile: str
    name: str = ""
    selector: str | None = None


class SourceAdded(NamedTuple):
    """What became of one: its id, and whether it is new or was there before."""

    id: int
    created: bool


class Source(NamedTuple):
    """A source as it is kept.

    Attributes:
        health: State, failures in a row and since when.
        last_error: Text of the last failure that stands; redacted and capped.
        last_failure: The whole of it, as in `Failure.to_dict`.
        next_poll_at: When it is due by its schedule.
        not_before: Until when it is left alone: its host cools down, or it is disabled and not to be probed yet.
        etag: Validator of what was seen last, to be sent again.
        last_modified: The other validator.
        content_hash: Of what was seen last.
        memory: What its fetcher wants to remember, as JSON text.
        cycle: The cycle it is or was last part of; 0 for none.
        outcome: What its poll in that cycle gave: ``changed``, ``unchanged``, ``failed`` or ``deferred``; None before.
        pending: A failure of the cycle that runs, as in `Failure.to_dict`: it counts when the cycle ends, if that was
            no outage.
        epoch: Of the last claim: what records a poll has to show the same number.
        leased_until: Until when a monitor has it in its hands.
    """

    id: int
    url: str
    profile: str
    name: str
    selector: str | None
    health: SourceHealth
    last_error: str | None
    last_failure: dict[str, Any] | None
    next_poll_at: datetime
    not_before: datetime | None
    etag: str | None
    last_modified: str | None
    content_hash: str | None
    memory: str | None
    cycle: int
    outcome: str | None
    pending: dict[str, Any] | None
    epoch: int
    leased_until: datetime | None
    created_at: datetime

    @property
    def state(self) -> SourceState:
        """Where it stands."""
        return self.health.state

    @property
    def is_active(self) -> bool:
        """Whether it is polled by its schedule."""
        return self.health.state is not SourceState.DISABLED

    @property
    def consecutive_failures(self) -> int:
        """Counted failures in a row."""
        return self.health.consecutive_failures

    @property
    def consecutive_errors(self) -> int:
        """Another name for `consecutive_failures`."""
        return self.health.consecutive_failures


class Poll(NamedTuple):
    """One line of a source's history.

    Attributes:
        outcome: Of a poll: ``changed``, ``unchanged``, ``failed`` or ``deferred``. Of the end of a cycle: ``withdrawn``
            (a poll that failed does not count, for there was an outage), or the state that its failures led to. Of
            somebody's hand: ``enabled``, ``disabled``.
        attempts: Requests that were made.
        http_status: Of the last answer.
        category: Of the failure.
        error: Text of the failure; redacted and capped.
        before: State before, where it changed.
        after: State after, where it changed.
    """

    source_id: int
    cycle: int
    at: datetime
    outcome: str
    attempts: int = 0
    http_status: int | None = None
    category: str | None = None
    error: str | None = None
    before: SourceState | None = None
    after: SourceState | None = None


class Transition(NamedTuple):
    """A source's state has changed.

    Attributes:
        reason: Why, for people.
    """

    source_id: int
    url: str
    before: SourceState
    after: SourceState
    consecutive_failures: int
    reason: str


class NewAlert(NamedTuple):
    """Something to be told, if it was not told already.

    Attributes:
        key: What it is about: ``source:12``, ``outage:feed``.
        state: What it is now; None for well again.
        title: One line.
        text: More.
    """

    key: str
    state: str | None
    title: str
    text: str = ""


class Alert(NamedTuple):
    """A message on its way.

    Attributes:
        kind: Of the message: first, changed, reminder or recovered.
        epoch: Of the last claim: what settles it has to show the same number.
        deliveries: How often it was tried.
        delivered_to: Channels that have it.
        delivered_at: When all had it, or it was given up; None while it waits.
        last_error: Why it could not be delivered.
    """

    id: int
    key: str
    kind: AlertKind
    state: str | None
    title: str
    text: str
    epoch: int
    deliveries: int
    delivered_to: tuple[str, ...]
    delivered_at: datetime | None
    last_error: str | None
    created_at: datetime


class AlertResult(NamedTuple):
    """What became of a delivery.

    Attributes:
        delivered_to: All channels that have it by now.
        again: Seconds until it is tried again; None when it is done with.
        error: Why it could not be delivered to all.
    """

    id: int
    epoch: int
    delivered_to: tuple[str, ...]
    again: float | None
    error: str | None = None


class SourceChange(NamedTuple):
    """What is written for one source, in one transaction.

    Attributes:
        source: As it is to be.
        poll: A line for its history.
        transition: If its state changes.
        alerts: What is told, if it was not told already.
    """

    source: Source
    poll: Poll | None = None
    transition: Transition | None = None
    alerts: tuple[NewAlert, ...] = ()


class Cycle(NamedTuple):
    """One round through the sources that were due, shared by all monitors of a profile.

    Attributes:
        sources: How many are part of it.
        polled: Those that answered or failed.
        changed: Those with something new.
        failed: Those that failed.
        deferred: Those that were put off.
        outage_since: Since when there is an outage, as far as this cycle and those before it tell.
    """

    id: int
    profile: str
    started_at: datetime
    ended_at: datetime | None
    sources: int
    polled: int = 0
    changed: int = 0
    failed: int = 0
    deferred: int = 0
    outage_since: datetime | None = None


class Closing(NamedTuple):
    """What is written when a cycle ends.

    Attributes:
        cycle: As it is to be, `ended_at` included.
        withdraw: Whether its pending failures are forgotten, in one statement; otherwise they are in the changes.
        changes: For the sources whose failures stand.
        alerts: What is told of the cycle as a whole.
    """

    cycle: Cycle
    withdraw: bool
    changes: list[SourceChange]
    alerts: tuple[NewAlert, ...] = ()


class Closed(NamedTuple):
    """A cycle that this caller has ended, and the transitions that it made."""

    cycle: Cycle
    transitions: list[Transition]


class SourceFilter(NamedTuple):
    """Which sources are meant, by number. What is not given does not narrow.

    Attributes:
        text: Occurs in the URL or the name.
        after: Only those with larger numbers, for the next page.
        limit: How many at most; None for all.
    """

    profile: str | None = None
    state: SourceState | None = None
    url: str | None = None
    text: str | None = None
    after: int | None = None
    limit: int | None = None


# What is asked of a store for sources and alerts. Every method is one transaction, unless it says otherwise.

ChangeSource = Callable[[Source, datetime], SourceChange | None]
"""Says what is to be written for a source, by the store's clock; None for nothing. Pure: it may be called again."""
CloseCycle = Callable[[Cycle, Cycle | None, Sequence[Source], datetime], Closing]
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

    def change_sources(self, changes: Mapping[int, tuple[int | None, ChangeSource]]) -> list[Transition]:
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

    def close_cycle(self, cycle_id: int, close: CloseCycle) -> Closed | None:
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
