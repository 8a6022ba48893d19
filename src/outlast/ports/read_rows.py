"""The rows of read models: the flow of tasks, groups of failures, and what a page needs. Times are aware datetimes."""

from datetime import datetime
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from outlast.ports.rows import Reason, Status

__all__ = [
    "MOST_COUNTED",
    "BreakerOpening",
    "BreakerOrder",
    "BreakerRow",
    "Change",
    "DeadLetterLine",
    "FailureFilter",
    "FailureGroup",
    "FlowEvent",
    "FlowPoint",
    "Page",
    "Pulse",
    "TaskLine",
]

T = TypeVar("T")

MOST_COUNTED = 10_000
"""Rows that are counted one by one at most; a count that reaches it means so many or more."""


class FlowEvent(StrEnum):
    """What can happen to tasks; the books are kept in these.

    Tasks that live are those enqueued and replayed, less those done, failed and cancelled. Dead letters are those
    failed, less those replayed and discarded.
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
    """How often something happened within one step of time.

    Attributes:
        at: When the step begins.
        event: What.
        category: Of the failure, for what is one; otherwise empty.
        count: How often.
    """

    at: datetime
    event: FlowEvent
    category: str
    count: int  # type: ignore[assignment]  # nobody needs tuple.count here


class Change(NamedTuple):
    """Something that is other than it was.

    Attributes:
        at: When.
        kind: ``group`` (a new group of failures), ``source`` (its state changed), ``run`` (a job's run ended),
            ``breaker`` (it opened, half-opened or closed), ``worker`` (it started).
        subject: What tells it from others: a fingerprint, a source's number, a run's id, a resource, a worker's id.
        name: For people: the task, the URL or name of the source, the job, the resource, the worker's name.
        before: State before, where there is one.
        after: State after: the category of a new group, the state of a source or breaker, of a run its state and exit
            code as in ``done 0``.
        text: More: the message of a failure, the error of a source, the reason of a breaker.
    """

    at: datetime
    kind: str
    subject: str
    name: str
    before: str
    after: str
    text: str


class Pulse(NamedTuple):
    """All that changes from moment to moment, read by one statement.

    Attributes:
        at: The store's time.
        counts: Tasks of each status by the books, and ``dead_letters``.
        flow: What happened in the time asked for, step by step, by event and category; the oldest first.
        last_hour: How often each (event, category) happened in the last 60 minutes.
        hour_before: The same for the 60 minutes before those.
        retries_waiting: Tasks that failed at least once and wait for their next attempt; counted up to `MOST_COUNTED`.
        oldest_ready: Seconds for which the oldest ready task of a queue that is not paused waits; None when none does.
        workers: How many are alive.
        silent_workers: How many are known whose lease ran out.
        sources: How many there are of each state, all five named.
        cooldowns: Resources that cool down.
        open_breakers: Resources whose breaker is open in some process that is there; not if the next call tries it.
        paused_queues: Queues that are paused.
        alerts_waiting: Alerts that were not delivered yet; counted up to `MOST_COUNTED`.
        running_jobs: Runs that have not ended.
        newest_task: The largest number of a task ever given; 0 before the first.
        newest_dead_letter: The same for dead letters.
        changes: What changed in the last 60 minutes, newest first, 50 at most.
        not_rolled_up: Seconds for which the oldest delta of the books waits to be added up; None when none does.
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
    """Failed attempts of one cause, over all tasks.

    Attributes:
        failures: Failed attempts so far.
        dead: Dead letters of it that are there now.
        error_message: Of the first of them, as a sample.
        note: What somebody wrote about it.
        acknowledged_at: When somebody took it on; it is open again by itself once it fails after that.
        acknowledged_by: Who.
        snoozed_until: Until when it is not told of.
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

    def standing(self, now: datetime) -> str:
        """Return ``open``, ``acknowledged`` or ``snoozed``."""
        if self.snoozed_until is not None and now < self.snoozed_until:
            return "snoozed"
        taken_on = self.acknowledged_at
        return "open" if taken_on is None or self.last_seen > taken_on else "acknowledged"


class FailureFilter(NamedTuple):
    """Which groups of failures are meant. What is not given does not narrow.

    Attributes:
        text: Occurs in the sample's text or the name of the error, upper and lower case alike.
        dead: Only those with dead letters.
        standing: Only those that are ``open``, ``acknowledged`` or ``snoozed`` now.
        since: Only those seen at this time or later.
        until: Only those first seen before this time.
        largest: The largest first, by failures; otherwise the one seen last first.
        after: The group behind which the next page begins, as `Page.next` gives it.
        limit: How many at most.
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
    """A dead letter as a list shows it: without its arguments and its traceback."""

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
    """A task as a list shows it: without its arguments."""

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
    """Rows that a list shows, and where it goes on.

    A store looks at no more than so many rows for one page, whatever there is. Where it did not find enough among
    them, the page is short and `next` says where to look further back.

    Attributes:
        rows: What was found.
        next: What to ask for to see more; None at the end.
        looked: How many rows were looked at.
    """

    rows: list[T]
    next: str | None
    looked: int


class BreakerRow(NamedTuple):
    """A breaker as one process last told of it.

    Attributes:
        resource: Its name.
        process: Whose: a worker's id, or host and process.
        state: ``closed``, ``open`` or ``half_open``.
        until: When it is tried again, while it is open and that is known.
        reason: Why it is open.
        order: What somebody ordered by hand that was not taken back: ``open`` or ``closed``; None for nothing.
        updated_at: When it was told.
    """

    resource: str
    process: str
    state: str
    until: datetime | None
    reason: str
    order: str | None
    updated_at: datetime

    def is_due(self, now: datetime) -> bool:
        """Tell whether its time is over: it says open until somebody calls, and that call is let through."""
        return self.state == "open" and self.until is not None and self.until <= now


class BreakerOrder(NamedTuple):
    """What somebody wants of the breakers of a resource, in all processes.

    Attributes:
        number: Grows with every order: whoever has seen this one asks for those behind it.
        resource: Its name.
        state: ``open`` (left alone until it is closed by hand or `seconds` are over) or ``closed``.
        seconds: How long it is left alone from now on; None for until it is closed by hand.
    """

    number: int
    resource: str
    state: str
    seconds: float | None


class BreakerOpening(NamedTuple):
    """A breaker that a process has opened by its own judgement.

    Attributes:
        resource: Its name.
        process: Whose.
        seconds: How long it stays open from now on.
        reason: Why.
    """

    resource: str
    process: str
    seconds: float
    reason: str
