"""The rows and protocols of read models: task flow, failure groups, lists and breakers. Times are aware datetimes.

The cost of a list or a count does not grow with finished tasks and dead letters. Counters are kept as deltas, which are
written in the transaction of the change and rolled up later. A list scans a bounded number of rows.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from outlast.ports.rows import Attempt, DeadLetterFilter, FinishedTask, Reason, Status, TaskFilter

T = TypeVar("T")

MOST_COUNTED = 10_000
"""Counting rows stops here: a count of this value means this many or more."""


class FlowEvent(StrEnum):
    """What can happen to a task; the counters count these events.

    Live tasks are those enqueued and replayed, minus those done, failed and cancelled. Dead letters are those failed,
    minus those replayed and discarded.
    """

    ENQUEUED = "enqueued"
    DONE = "done"
    RETRIED = "retried"
    DEFERRED = "deferred"
    LOST = "lost"
    FAILED = "failed"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    PRUNED_DONE = "pruned_done"
    PRUNED_CANCELLED = "pruned_cancelled"
    PRUNED_DISCARDED = "pruned_discarded"
    WOULD_RETRY = "would_retry"
    WOULD_DEFER = "would_defer"
    WOULD_FAIL = "would_fail"
    WOULD_ABORT = "would_abort"
    WOULD_SKIP = "would_skip"
    WOULD_DISABLE = "would_disable"


class FlowPoint(NamedTuple):
    """How often an event happened within one time step.

    Attributes:
        at: Start of the step.
        event: The event.
        category: Category of the failure; empty for other events.
        count: How often it happened.
    """

    at: datetime
    event: FlowEvent
    category: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody uses


class Change(NamedTuple):
    """A state change for display.

    Attributes:
        at: When it happened.
        kind: ``group`` (a new failure group), ``source`` (its state changed), ``run`` (a job run ended), ``breaker``
            (it opened, half-opened or closed), ``worker`` (it started).
        subject: Identifier: a fingerprint, a source id, a run id, a resource, a worker id.
        name: Display name: the task, the URL or name of the source, the job, the resource, the worker name.
        before: State before the change, if there was one.
        after: State after the change: the category of a new group, the state of a source or breaker, the state and exit
            code of a run as in ``done 0``.
        text: Details: the message of a failure, the error of a source, the reason of a breaker.
    """

    at: datetime
    kind: str
    subject: str
    name: str
    before: str
    after: str
    text: str


class Pulse(NamedTuple):
    """Everything that changes from moment to moment, read by one statement.

    Attributes:
        at: The store's time.
        counts: Tasks by status according to the counters, and ``dead_letters``.
        flow: What happened in the requested window, by step, event and category; oldest first.
        last_hour: How often each (event, category) happened in the last 60 minutes.
        hour_before: The same for the 60 minutes before.
        retries_waiting: Tasks that failed at least once and wait for the next attempt; counted up to `MOST_COUNTED`.
        oldest_ready: Seconds that the oldest ready task of a queue that is not paused has waited; None if none is
            ready.
        workers: Workers with a valid lease.
        silent_workers: Registered workers whose lease has expired.
        sources: Sources by state, with all five states.
        cooldowns: Resources that cool down.
        open_breakers: Resources whose breaker is open in a live process, unless the next call may try it.
        paused_queues: Queues that are paused.
        alerts_waiting: Alerts that are not delivered yet; counted up to `MOST_COUNTED`.
        running_jobs: Job runs that have not ended.
        newest_task: Largest task id ever assigned; 0 before the first.
        newest_dead_letter: The same for dead letters.
        changes: What changed in the last 60 minutes, newest first, at most 50.
        not_rolled_up: Age of the oldest counter delta that is not rolled up, in seconds; None if there is none.
    """

    at: datetime
    counts: dict[str, int]
    flow: tuple[FlowPoint, ...]
    last_hour: dict[tuple[FlowEvent, str], int]
    hour_before: dict[tuple[FlowEvent, str], int]
    retries_waiting: int
    oldest_ready: float | None
    workers: int
    silent_workers: int
    sources: dict[str, int]
    cooldowns: int
    open_breakers: int
    paused_queues: int
    alerts_waiting: int
    running_jobs: int
    newest_task: int
    newest_dead_letter: int
    changes: tuple[Change, ...]
    not_rolled_up: float | None = None


class FailureGroup(NamedTuple):
    """Failed attempts with the same cause, over all tasks.

    Attributes:
        failures: Failed attempts so far.
        dead: Its current dead letters.
        error_message: Message of the first failure, as a sample.
        note: A note that somebody wrote.
        acknowledged_at: When somebody acknowledged it. A later failure reopens the group.
        acknowledged_by: Who acknowledged it.
        snoozed_until: No alerts before this time.
        snoozed_by: Who snoozed it.
    """

    fingerprint: str
    task_type: str
    error_type: str
    error_category: str
    error_message: str
    first_seen: datetime
    last_seen: datetime
    failures: int
    dead: int
    note: str = ""
    acknowledged_at: datetime | None = None
    acknowledged_by: str = ""
    snoozed_until: datetime | None = None
    snoozed_by: str = ""

    def standing(self, now: datetime) -> str:
        """Return ``open``, ``acknowledged`` or ``snoozed``."""
        if self.snoozed_until is not None and now < self.snoozed_until:
            return "snoozed"
        is_open = self.acknowledged_at is None or self.last_seen > self.acknowledged_at
        return "open" if is_open else "acknowledged"


class FailureFilter(NamedTuple):
    """Selects failure groups. A field that is None matches all.

    Attributes:
        text: Part of the sample message or of the error's class name, ignoring case.
        dead: Only groups with dead letters.
        standing: Only groups that are ``open``, ``acknowledged`` or ``snoozed`` now.
        since: Only groups seen at this time or later.
        until: Only groups first seen before this time.
        largest: Order by the number of failures, largest first; otherwise by the last failure, newest first.
        after: Where the next page starts, as `Page.next` gives it.
        limit: Maximum number of groups.
    """

    category: str | None = None
    task_type: str | None = None
    text: str | None = None
    dead: bool = False
    standing: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    largest: bool = False
    after: str | None = None
    limit: int = 50


class DeadLetterLine(NamedTuple):
    """A dead letter in a list: without its arguments and its traceback."""

    id: int
    original_task_id: int
    task_type: str
    queue: str
    error_type: str
    error_message: str
    error_category: str
    reason: Reason
    fingerprint: str
    retry_count: int
    replays: int
    moved_to_dlq_at: datetime


class TaskLine(NamedTuple):
    """A task in a list: without its arguments."""

    id: int
    task_type: str
    queue: str
    priority: int
    status: Status
    resource: str | None
    retry_count: int
    worker_id: str | None
    last_error: str | None
    next_run_after: datetime
    finished_at: datetime | None
    created_at: datetime


class Page(NamedTuple, Generic[T]):
    """One page of a list.

    A store scans a bounded number of rows for a page. If it does not find enough matches among them, the page is short
    and `next` continues the search.

    Attributes:
        rows: The matching rows.
        next: Cursor of the next page; None at the end.
        looked: Number of rows that were scanned.
    """

    rows: list[T]
    next: str | None
    looked: int


class BreakerRow(NamedTuple):
    """The state of a breaker, as a process last reported it.

    Attributes:
        resource: Name of the resource.
        process: A worker id, or host and process.
        state: ``closed``, ``open`` or ``half_open``.
        until: When an open breaker is tried again, if known.
        reason: Why it is open.
        order: Manual order in effect: ``open`` or ``closed``; None if there is none.
        updated_at: When it was reported.
    """

    resource: str
    process: str
    state: str
    until: datetime | None
    reason: str
    order: str | None
    updated_at: datetime

    def is_due(self, now: datetime) -> bool:
        """Return whether the open time is over. The state stays open until the next call, which is let through."""
        return self.state == "open" and self.until is not None and self.until <= now


class BreakerOrder(NamedTuple):
    """A manual order for the breakers of a resource, in all processes.

    Attributes:
        number: Grows with every order. A process asks for orders with a larger number than the last it has seen.
        resource: Name of the resource.
        state: ``open`` (until it is closed by hand or `seconds` are over) or ``closed``.
        seconds: How long it stays open from now on; None until it is closed by hand.
    """

    number: int
    resource: str
    state: str
    seconds: float | None


class BreakerOpening(NamedTuple):
    """A breaker that a process opened because of failures.

    Attributes:
        resource: Name of the resource.
        process: The process that opened it.
        seconds: How long it stays open from now on.
        reason: Why it is open.
    """

    resource: str
    process: str
    seconds: float
    reason: str


MAX_ROWS_SCANNED = 3000
"""Rows that are scanned for one page."""
MOST_SAMPLED = 10_000
"""Tasks that are read for durations and latencies."""
SILENT_AFTER = 60.0
"""Seconds without a report after which a process without a lease counts as gone."""


class Reads(Protocol):
    """Read models for pages, commands and health checks."""

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return everything that changes from moment to moment, read by one statement.

        Args:
            window: Length of the flow in seconds, back from now.
            step: Seconds per point of the flow; a multiple of 10.
        """

    def roll_up(self) -> int:
        """Roll up counter deltas that no longer need their full resolution; return how many. Runs in batches.

        Safe to call from many processes at once: one of them does it, the others return 0.
        """

    def recount(self) -> dict[str, int]:
        """Repair the counters by counting the rows, in one transaction.

        Counters become wrong if somebody deletes or changes tasks with SQL, or if a program of an older version uses
        newer tables. Events are never removed: missing events are added, and surplus tasks are counted as pruned,
        discarded or cancelled. The flow does not change. A failed task without a dead letter gets a new one from the
        task and its last attempt.

        Returns:
            The correction of each number of `counts`, and as ``rebuilt`` the number of new dead letters; empty if all
            were right.
        """

    def event_totals(self) -> dict[str, int]:
        """Return the all-time total of each `FlowEvent`, including those that never happened."""

    def failures(self, filters: FailureFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[FailureGroup]:
        """Return failure groups. The order is that of the last roll-up; the counts are exact."""

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return a failure group, or None."""

    def fingerprints(self, prefix: str, limit: int) -> list[str]:
        """Return the fingerprints of failure groups that begin with a prefix, in order."""

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of these groups failed, by time step, oldest first. The result has all groups."""

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group, newest first."""

    def failure_tasks(self, fingerprint: str, limit: int = 1000) -> dict[str, int]:
        """Return the number of failed attempts by task, among the last ones of a group; most failures first."""

    def tasks_by_group(self, fingerprints: Sequence[str], limit: int = 100) -> dict[str, dict[str, int]]:
        """Return the same for several groups, with at most `limit` attempts of each. The result has all groups."""

    def dead_letter_lines(self, filters: DeadLetterFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[DeadLetterLine]:
        """Return dead letters, newest first. Pass `Page.next` as ``before`` for the next page."""

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of dead letters by task and category, according to the counters, without zeros."""

    def task_lines(self, filters: TaskFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[TaskLine]:
        """Return tasks, newest first. Pass `Page.next` as ``before`` for the next page."""

    def finished_sample(self, *, window: float, most: int = MOST_SAMPLED) -> list[FinishedTask]:
        """Return tasks that were created within a window and have ended, spread over it, oldest first.

        Args:
            window: Length of the window in seconds, back from now.
            most: Most tasks that are read, whether or not they have ended.
        """

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource, counted up to `MOST_COUNTED`."""


class Breakers(Protocol):
    """Breaker states that processes report, and manual orders."""

    def report_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Save the breaker states of a process.

        Args:
            process: Id of the process.
            rows: Resource, state, seconds until it is tried again (None if unknown) and reason, of each breaker that
                changed.
            leased: Whether the process is a worker. Reports of a worker without a lease are dropped. Any other process
                repeats all its states within `SILENT_AFTER` seconds, as its heartbeat.
        """

    def forget_breakers(self, process: str) -> None:
        """Delete the breaker states of a process that ends."""

    def breakers(self) -> list[BreakerRow]:
        """Return the breaker states by resource and process, without processes that are gone.

        A worker is gone if it is not registered any more, any other process if it has been silent for `SILENT_AFTER`
        seconds.

        A resource with a manual order that no process has reported is included, with an empty process and the ordered
        state.
        """

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Open or close the breakers of a resource in all processes. This replaces an earlier order."""

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders with a larger number, ascending, without open orders that are over."""

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of these resources other processes have opened because of failures, with the longest opening.

        Without openings that were copied from another process or made by hand, which orders announce, and without
        openings reported before somebody ordered the breaker closed.

        Args:
            process: The process that asks.
            resources: Its resources.
        """
