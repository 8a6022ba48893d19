"""The rows of read models: the flow of tasks, groups of failures, and what a page needs. Times are aware datetimes."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from outlast.ports.rows import Attempt, DeadLetterFilter, Reason, Status, TaskFilter

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


# What is asked of a store by those who look: pages, commands and health checks. Each answers in bounded time.
#
# What a list or a count costs does not grow with finished tasks and dead letters: the books are kept as deltas, added
# in the transaction of what they tell of and rolled up later, and a list looks at no more rows than it is told.

MAX_ROWS_SCANNED = 3000
"""Rows that are looked at for one page."""
SILENT_AFTER = 60.0
"""Seconds after which a process that has no lease and tells nothing is taken for gone."""


class Reads(Protocol):
    """Read models."""

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return all that changes from moment to moment, by one statement.

        Args:
            window: Seconds back from now that the flow covers.
            step: Seconds that one of its points covers; a multiple of 10.
        """

    def roll_up(self) -> int:
        """Add up the deltas of the books where nobody looks at them one by one any more; return how many went.

        Safe to run from many processes at once: one of them does it, the others return 0. In batches.
        """

    def recount(self) -> dict[str, int]:
        """Put the books right by what is really there; in one transaction, beside which nothing is counted twice.

        They go wrong when somebody deletes or changes tasks by SQL, or a program of an older version works on newer
        tables. What happened is never taken back: what the books lack is added, and what they have too much of is
        counted as pruned, discarded or cancelled. The flow stays as it was. A task that failed and has no dead letter
        gets one anew, from itself and its last attempt: nothing is given up.

        Returns:
            By how much each number of `counts` was wrong, and as ``rebuilt`` how many dead letters were written anew;
            nothing where all was right.
        """

    def books(self) -> dict[str, int]:
        """Return how often each `FlowEvent` happened, ever, by the books; all named."""

    def failures(self, which: FailureFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[FailureGroup]:
        """Return groups of failures. Their order is that of the last roll-up; their counts are exact."""

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return one."""

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of some groups failed, step by step, the oldest first; all of them named."""

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group, newest first."""

    def dead_letter_lines(self, which: DeadLetterFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[DeadLetterLine]:
        """Return dead letters, newest first; the next page is asked for by ``before``, which is `Page.next`."""

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return how many dead letters there are by the books of each task and category; none that are not."""

    def task_lines(self, which: TaskFilter, *, look: int = MAX_ROWS_SCANNED) -> Page[TaskLine]:
        """Return tasks, newest first; the next page is asked for by ``before``, which is `Page.next`."""

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource, counted up to `MOST_COUNTED`."""


class Breakers(Protocol):
    """Breakers, as the processes that have them tell of them, and as people order them."""

    def report_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Write how the breakers of a process stand.

        Args:
            process: Whose.
            rows: Resource, state, seconds until it is tried again (None for not known) and reason; those that changed.
            leased: Whether it is a worker. Of one that is not known any more nothing is written. Any other process
                tells all of it again within `SILENT_AFTER` seconds, as its sign of life.
        """

    def forget_breakers(self, process: str) -> None:
        """Forget a process that ends."""

    def breakers(self) -> list[BreakerRow]:
        """Return them by resource and process; those of processes that are gone are left out.

        Gone are workers that are not known any more, and others that have been silent for `SILENT_AFTER` seconds.

        A resource that was ordered open or closed by hand and that no process has told of is there too, with an empty
        process and the state that was ordered.
        """

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Have the breakers of a resource opened or closed in all processes; an order before it is replaced."""

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders whose number is larger, in their order; an open one that is over is left out."""

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of some resources other processes leave alone by their own judgement; of each the longest.

        Not what they only took over from others, nor what was opened by hand, for orders tell of that. Nor what was
        told before somebody ordered it closed.

        Args:
            process: Who asks.
            resources: Which it has.
        """
