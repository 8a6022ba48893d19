"""The rows and protocols of sources, their cycles and their alerts. Times are aware datetimes, durations are seconds.

Each method is one transaction unless its docstring says otherwise.
"""

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
    """A source to add.

    Attributes:
        url: The URL to poll; one source per profile and URL.
        profile: Name of the profile.
        name: Display name.
        selector: Part of the page to watch, if it is a page.
    """

    url: str
    profile: str
    name: str = ""
    selector: str | None = None


class SourceAdded(NamedTuple):
    """Result of adding a source: its id, and whether it is new."""

    id: int
    created: bool


class Source(NamedTuple):
    """A stored source.

    Attributes:
        health: State, failures in a row and since when.
        last_error: Message of the last failure, whether or not it counts; redacted and truncated.
        last_failure: The complete failure, as in `Failure.to_dict`.
        next_poll_at: When the next poll is due.
        not_before: No poll before this time: its host cools down, or it is disabled and waits for the next probe.
        etag: ETag of the last content, sent with the next request.
        last_modified: Last-Modified of the last content, sent with the next request.
        content_hash: Hash of the last content.
        memory: State of its fetcher, as JSON text.
        cycle: Id of its current or last cycle; 0 for none.
        outcome: Outcome of its poll in that cycle: ``changed``, ``unchanged``, ``failed`` or ``deferred``; None before.
        pending: A failure in the running cycle, as in `Failure.to_dict`. It counts when the cycle ends, unless there
            was an outage.
        epoch: Epoch of the last claim. Recording a poll requires the same number.
        leased_until: Until when a monitor holds it.
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
        """Current state."""
        return self.health.state

    @property
    def is_active(self) -> bool:
        """Whether it is polled on schedule."""
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
    """One entry of a source's history.

    Attributes:
        outcome: Of a poll: ``changed``, ``unchanged``, ``failed`` or ``deferred``. Of the end of a cycle: ``withdrawn``
            (a failed poll does not count because of an outage), or the state after its failures. Of a manual action:
            ``enabled``, ``disabled``.
        attempts: Number of requests.
        http_status: Status of the last response.
        category: Category of the failure.
        error: Message of the failure; redacted and truncated.
        before: State before, if it changed.
        after: State after, if it changed.
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
    """A state change of a source.

    Attributes:
        reason: Shown to people.
    """

    source_id: int
    url: str
    before: SourceState
    after: SourceState
    consecutive_failures: int
    reason: str


class NewAlert(NamedTuple):
    """An alert to raise, unless the last alert of its key says the same.

    Attributes:
        key: What it is about: ``source:12``, ``outage:feed``.
        state: Current state; None if it has recovered.
        title: One line.
        text: Details.
    """

    key: str
    state: str | None
    title: str
    text: str = ""


class Alert(NamedTuple):
    """An alert in the outbox.

    Attributes:
        kind: Kind of the message: first, changed, reminder or recovered.
        epoch: Epoch of the last claim. Settling it requires the same number.
        deliveries: Number of delivery attempts.
        delivered_to: Channels that have received it.
        delivered_at: When all channels had it or delivery was abandoned; None while it waits.
        last_error: Why delivery failed.
        since: Of a recovered alert, when the first alert about the problem was raised; `raise_alerts` leaves it out.
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
    since: datetime | None = None

    @property
    def lasted(self) -> float | None:
        """Seconds that the problem lasted, if it has recovered and its begin is known."""
        return None if self.since is None else (self.created_at - self.since).total_seconds()


class AlertResult(NamedTuple):
    """Result of a delivery.

    Attributes:
        delivered_to: All channels that have received it so far.
        again: Seconds until the next delivery attempt; None if there is none.
        error: Why delivery to some channels failed.
    """

    id: int
    epoch: int
    delivered_to: tuple[str, ...]
    again: float | None
    error: str | None = None


class SourceChange(NamedTuple):
    """What is written for one source, in one transaction.

    Attributes:
        source: The new values.
        poll: An entry for its history.
        transition: The change of its state, if it changes.
        alerts: Alerts to raise.
    """

    source: Source
    poll: Poll | None = None
    transition: Transition | None = None
    alerts: tuple[NewAlert, ...] = ()


class Cycle(NamedTuple):
    """One round through the due sources of a profile, shared by all its monitors.

    Attributes:
        sources: Number of sources in it.
        polled: Sources that were polled, successfully or not.
        changed: Sources with new content.
        failed: Sources that failed.
        deferred: Sources that were deferred.
        outage_since: Start of the current outage, judged by this cycle and those before it.
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
        cycle: The new values, including `ended_at`.
        withdraw: Whether all its pending failures are dropped, in one statement; otherwise the changes contain them.
        changes: Changes of the sources whose failures count.
        alerts: Alerts about the whole cycle.
    """

    cycle: Cycle
    withdraw: bool
    changes: list[SourceChange]
    alerts: tuple[NewAlert, ...] = ()


class Closed(NamedTuple):
    """A cycle that the caller has ended, and the resulting transitions."""

    cycle: Cycle
    transitions: list[Transition]


class SourceFilter(NamedTuple):
    """Selects sources, ordered by id. A field that is None matches all.

    Attributes:
        text: Part of the URL or the name.
        after: Only larger ids, for the next page.
        limit: Maximum number; None for all.
    """

    profile: str | None = None
    state: SourceState | None = None
    url: str | None = None
    text: str | None = None
    after: int | None = None
    limit: int | None = None


ChangeSource = Callable[[Source, datetime], SourceChange | None]
"""Decides what to write for a source, given the store's time; None for nothing. Pure: it may be called again."""
CloseCycle = Callable[[Cycle, Cycle | None, Sequence[Source], datetime], Closing]
"""Decides how a cycle ends, given the cycle, the previous one, its sources and the time. Pure: it may be called again.

A cycle may have many thousands of sources, so their content fields are not read: `etag`, `last_modified`,
`content_hash` and `memory` are None. Only `health`, `last_error`, `last_failure`, `not_before` and `pending` of a
changed source are written.
"""


class Sources(Protocol):
    """Sources, and the cycles that poll them."""

    def add_sources(self, sources: Sequence[NewSource]) -> list[SourceAdded]:
        """Add sources, due now. A known profile and URL returns the existing source, unchanged."""

    def remove_sources(self, source_ids: Sequence[int], alerts: Mapping[int, NewAlert] | None = None) -> int:
        """Delete sources with their history; return how many.

        Args:
            source_ids: Their ids.
            alerts: Alerts to raise, by source id, for each source that existed. Only this alert says that an earlier
                alert about the source is over.
        """

    def source(self, source_id: int) -> Source | None:
        """Return a source, or None."""

    def sources(self, filters: SourceFilter) -> list[Source]:
        """Return matching sources, ordered by id."""

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return the number of sources by state, including states without sources."""

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first. A store keeps at least the last 100 entries of each source."""

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return up to `limit` history entries of each of these sources, newest first. The result has all sources."""

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return id and URL of sources that are deferred because their host cools down, ordered by id."""

    def change_sources(self, changes: Mapping[int, tuple[int | None, ChangeSource]]) -> list[Transition]:
        """Change sources. Each is read and locked in the order of the ids; all changes are one transaction.

        Args:
            changes: By source id, the epoch of the claim and a function that decides what to write. With a different
                epoch, another monitor has claimed the source since, and nothing is changed. Nor if the source already
                has an
                outcome: this result was written before and the answer got lost, or somebody changed it by hand. An
                    epoch of
                None changes it in any case. A source that does not exist is skipped.

        Returns:
            The transitions that were written.
        """

    def open_cycle(self, profile: str, *, everything: bool = False) -> Cycle | None:
        """Return the running cycle of the profile, or start one; None if no source is due.

        A source is due if it is active and `next_poll_at` and `not_before` have passed, or if a rule has disabled it
        and `not_before` has passed. Due sources get the id of the cycle, no outcome and no lease. Concurrent calls
        start one cycle.

        Args:
            profile: Name of the profile.
            everything: Whether to ignore `next_poll_at`, but not `not_before`.
        """

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Claim sources of a cycle that have no outcome and no lease, ordered by id; their epochs grow."""

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of a monitor's sources without an outcome; return how many."""

    def release_sources(self, owner: str) -> int:
        """Release a monitor's sources without an outcome; return how many."""

    def close_cycle(self, cycle_id: int, close: CloseCycle) -> Closed | None:
        """End a cycle; return None while a source of it has no outcome, or if it has already ended.

        Pending failures are dropped, or count as the changes say. Removed sources are ignored.
        """

    def cycles(self, profile: str | None, limit: int) -> list[Cycle]:
        """Return cycles, newest first. A store keeps at least the last 1,000 of a profile."""


class Alerts(Protocol):
    """The outbox of alerts. The last alert of a key and `next_alert_kind` decide whether a new one is raised."""

    def raise_alerts(self, alerts: Sequence[NewAlert]) -> list[Alert]:
        """Add the alerts that are news; return them."""

    def remind_alerts(self, after: float) -> list[Alert]:
        """Add a reminder for each key that has not recovered and whose last alert was delivered `after` seconds ago.

        There are no reminders of a failure group (``group:`` or ``growth:`` and its fingerprint) that is snoozed or
        acknowledged.
        """

    def claim_alerts(self, limit: int, lease: float) -> list[Alert]:
        """Claim alerts that are due and have no lease, oldest first; their epochs grow.

        An alert waits while an older one of its key has reached no channel, so that 'recovered' never overtakes
        'first'. An older one that reached some channels does not delay it.
        """

    def make_alerts_due(self) -> int:
        """Make all alerts that wait for a later delivery due now; return how many. Leases stay."""

    def settle_alerts(self, results: Sequence[AlertResult]) -> int:
        """Save results of deliveries; return how many. A result with an old epoch is dropped."""

    def alerts(self, *, waiting: bool | None = None, limit: int = 50) -> list[Alert]:
        """Return alerts, newest first; with `waiting`, only those that wait or only those that do not."""

    def last_alerts(self, keys: Sequence[str]) -> dict[str, Alert]:
        """Return the last alert of each key; keys without alerts are left out."""

    def prune_alerts(self, older_than: float) -> int:
        """Delete alerts that were delivered more than `older_than` seconds ago; return how many.

        The first and the last alert of a key that has not recovered stay. So does the last alert of a recovered key
        while an older one stays, which would become the last.
        """
