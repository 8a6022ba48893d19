"""The protocols that a store implements. Each method is one transaction unless its docstring says otherwise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from outlast import clock
from outlast.decide.limits import Candidate, ResourceLimit
from outlast.ports.job_rows import Jobs
from outlast.ports.read_rows import Breakers, Reads
from outlast.ports.rows import (
    Attempt,
    Cooldown,
    DeadLetter,
    DeadLetterFilter,
    Enqueued,
    Group,
    NewTask,
    PeriodicRow,
    QueueRow,
    RecordedTask,
    Rescued,
    SettleAndClaim,
    SettleAndClaimResult,
    Task,
    TaskFilter,
    WorkerRow,
)
from outlast.ports.source_rows import Alerts, Sources
from outlast.ports.triage import TriageStore

_wait_until: ContextVar[float | None] = ContextVar("outlast_store_until", default=None)


@contextmanager
def limit_store_wait(seconds: float) -> Iterator[None]:
    """Limit how long all store calls in the block, taken together, wait for a connection or a lock.

    A nested block never gets more time than the block around it. Work on a connection that is already open is not
    limited.
    """
    before = _wait_until.set(clock.monotonic() + seconds_left(seconds))
    try:
        yield
    finally:
        _wait_until.reset(before)


def seconds_left(most: float) -> float:
    """Return the seconds that a store call may wait now.

    Args:
        most: Upper bound, and the result outside of `limit_store_wait`.
    """
    until = _wait_until.get()
    return most if until is None else max(0.0, min(most, until - clock.monotonic()))


class LimitRequest(NamedTuple):
    """Claimed tasks of one resource that are about to start.

    Attributes:
        limit: Settings of the limit, as the worker has them.
        candidates: The tasks, in the order in which they start.
        mean: Mean run time of a task of the resource in seconds, as this worker measured it; None before the first one.
    """

    limit: ResourceLimit
    candidates: tuple[Candidate, ...]
    mean: float | None = None


class LimitRow(NamedTuple):
    """A limit for display, with the settings of the worker that used it last.

    Attributes:
        resource: Name of the resource.
        rate: Starts per second.
        burst: Starts that may happen at once.
        concurrency: Tasks that may run at once.
        retries: Retries per second.
        retry_burst: Retries that may happen at once.
        running: Tasks that run now; None if concurrency is not limited.
        next_start: When the rate allows the next start; None if it does now.
        waiting_until: When the last refused task comes back; None if that time has passed.
        retries_until: When the last reserved retry is due; None if that time has passed.
        mean: Mean run time of a task in seconds, as workers measured it.
        asked_at: When a worker last used the limit.
    """

    resource: str
    rate: float | None
    burst: int
    concurrency: int | None
    retries: float | None
    retry_burst: int
    running: int | None
    next_start: datetime | None
    waiting_until: datetime | None
    retries_until: datetime | None
    mean: float
    asked_at: datetime


class Limits(Protocol):
    """Limits of resources, shared by all workers of the store."""

    def admit(self, requests: Sequence[LimitRequest]) -> dict[int, float]:
        """Admit claimed tasks as far as the limits of their resources allow. One transaction locks the limits.

        A task counts as running until it is settled, released or taken from a dead worker.

        Returns:
            Task ids that must not start now, with the seconds after which to try again. All other tasks may start.
        """

    def reserve_retries(self, limit: ResourceLimit, count: int) -> list[float]:
        """Reserve places for this many retries; return the seconds that each has to wait, the shortest first."""

    def limits(self) -> list[LimitRow]:
        """Return the limits that were used within the last day, ordered by resource."""


class Tasks(Protocol):
    """Tasks, from enqueueing to their end."""

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks. If a live task already has the unique key, return that task instead.

        Args:
            tasks: Either all of them are added or none.
            connection: Your own connection to the same database. The tasks become part of its transaction, which is not
                committed here.
        """

    def settle_and_claim(self, request: SettleAndClaim) -> SettleAndClaimResult:
        """Settle, start and claim tasks for a worker, in one transaction.

        Raises:
            LeaseLostError: If the store no longer knows the worker. Nothing is changed.
        """

    def reconcile(self, worker_id: str, held: Sequence[int]) -> int:
        """Release tasks that the store assigns to a worker but the worker does not hold; return how many.

        Needed when the COMMIT of a claim was not answered: the claimed tasks never reached the worker.
        """

    def next_due(self, queues: Sequence[str]) -> float | None:
        """Return the seconds until a task of these queues can be claimed, 0 for now; None if no task waits."""

    def oldest_ready(self, queues: Sequence[str]) -> float | None:
        """Return for how many seconds the oldest ready task of these queues has waited; None if no task is ready."""

    def suspects_due(self, queues: Sequence[str]) -> bool:
        """Return whether a suspect is due and a worker may run it now.

        A suspect is a task that was running when a worker died. It runs alone. While other tasks are due, at most half
        of the workers of these queues run suspects, but always at least one may.
        """

    def get(self, task_id: int) -> Task | None:
        """Return a task, or None."""

    def find(self, filters: TaskFilter) -> list[Task]:
        """Return matching tasks, newest first."""

    def attempts(self, task_id: int) -> list[Attempt]:
        """Return the failed attempts of a task, oldest first."""

    def recorded_tasks(self, before: int | None, limit: int) -> list[RecordedTask]:
        """Return tasks of any status with their failed attempts, newest first.

        Args:
            before: Only tasks with smaller ids, for the next page; None for the newest.
            limit: Maximum number; no more rows of tasks are read.
        """

    def result(self, task_id: int) -> str | None:
        """Return the stored result of a task as JSON text; None if there is none."""

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel queued or parked tasks; return the ids of those that were cancelled."""

    def run_now(self, task_ids: Sequence[int]) -> list[int]:
        """Make queued tasks due now; return the ids of those that changed."""

    def unpark(self, task_types: Sequence[str]) -> int:
        """Queue parked tasks of these task types; return how many. Runs in batches, each in its own transaction."""

    def counts(self) -> dict[str, int]:
        """Return the number of tasks by status, and ``dead_letters``."""

    def prune(self, *, done_before: float) -> int:
        """Delete expired results, and tasks that were done, cancelled or discarded more than `done_before` seconds ago.

        Runs in batches, each in its own transaction.

        Returns:
            The number of deleted rows.
        """


class Workers(Protocol):
    """Registered workers, and the tasks of workers that died."""

    def register(self, worker: WorkerRow, lease: float) -> None:
        """Add a worker whose lease lasts `lease` seconds.

        Raises:
            SchemaError: If a migration has changed the tables since. It also ended all leases.
        """

    def heartbeat(self, worker_id: str, lease: float, state: str) -> None:
        """Renew a worker's lease for `lease` seconds. The lease covers all tasks that the worker holds.

        Raises:
            LeaseLostError: If the store no longer knows the worker.
        """

    def leave(self, worker_id: str) -> int:
        """Remove a worker and release its tasks without counting an attempt; return how many."""

    def rescue(self, crash_limit: int) -> list[Rescued]:
        """Take tasks from workers whose lease has expired or whose process is known to be dead. Runs in batches.

        A task that had not started is queued again unchanged. One that had started becomes a suspect: its history
        records the lost worker, and it runs alone next time. If it already ran alone, its crash count grows, and at
        `crash_limit` it becomes a dead letter.
        """

    def workers(self) -> list[WorkerRow]:
        """Return the registered workers."""


class DeadLetters(Protocol):
    """Tasks that failed for good."""

    def check_dead_letters(self) -> None:
        """Check that a dead letter can be written, by writing one and rolling back.

        Raises:
            Exception: The error of the database if it cannot.
        """

    def dead_letters(self, filters: DeadLetterFilter) -> list[DeadLetter]:
        """Return matching dead letters, newest first."""

    def count_dead_letters(self, filters: DeadLetterFilter) -> int:
        """Return the number of matching dead letters."""

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return a dead letter, or None."""

    def groups(self, filters: DeadLetterFilter) -> list[Group]:
        """Return matching dead letters grouped by cause, the largest group first."""

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again, with its history; in one transaction.

        Returns:
            ``replayed``; ``conflict`` if another live task has its unique key, then the dead letter stays; ``gone`` if
            the dead letter does not exist.
        """

    def discard(self, number: int) -> str:
        """Delete a dead letter for good; return ``discarded`` or ``gone``."""

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard dead letters older than `older_than` seconds; return how many. Each batch is its own transaction."""


class Queues(Protocol):
    """Queues by name."""

    def pause(self, queue: str) -> None:
        """Pause a queue: its tasks are not claimed."""

    def resume(self, queue: str) -> None:
        """Resume a paused queue."""

    def queues(self) -> list[QueueRow]:
        """Return the queues that have tasks or are paused. The cost grows with the number of live tasks."""


class Cooldowns(Protocol):
    """Resources that are not called for a while."""

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Start a cooldown of a resource. A longer one that already runs stays. Defers its tasks in batches.

        Args:
            resource: Name of the resource, usually a host.
            seconds: How long the cooldown lasts.
            reason: Shown to people.
            capped: Whether the resource asked for longer than `seconds`. Then a single probe goes first when it ends.

        Returns:
            The number of capped responses in a row, including this one; 0 if it is not capped. Responses that arrive
            while a cooldown runs count as one, except those of a probe.
        """

    def probe(self, resource: str, hold: float) -> bool:
        """Ask for permission to call a resource after a capped cooldown.

        Args:
            resource: Name of the resource.
            hold: Seconds for which all other callers keep waiting.

        Returns:
            Whether the caller may go. False while a cooldown runs; True if there is none or it was not capped.
        """

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown by hand. Tasks that waited for its end become due now.

        This includes tasks that were deferred by the response that started it. Tasks that wait for a time of their own
        do not change. Sources that were deferred and have this host become due too, in a transaction of their own.
        """

    def cooldowns(self) -> list[Cooldown]:
        """Return the cooldowns that run now."""


class Periodic(Protocol):
    """Periodic tasks, enqueued once across all workers."""

    def now(self) -> datetime:
        """Return the current time of the store's clock, which all workers share."""

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Register periodic tasks by name, with the seconds until the first run. A known one keeps its next time."""

    def periodic(self) -> list[PeriodicRow]:
        """Return all registered periodic tasks, ordered by name."""

    def pause_periodic(self, name: str, *, paused: bool, seconds: float | None = None) -> bool:
        """Pause or resume a periodic task for all workers; return whether it is registered.

        Args:
            name: Name of the periodic task.
            paused: Whether it is paused from now on.
            seconds: Seconds from now until the next run; None keeps it.
        """

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return the periodic tasks that are due and not paused, each with its due time."""

    def run_periodic(
        self, name: str, due: datetime, seconds: float, task: NewTask, *, wait: bool = False
    ) -> Enqueued | None:
        """Enqueue a periodic task and set its next time; return None if another worker has already done so.

        If a live task has the unique key of the task, the run is skipped, and the live task is returned.

        Args:
            name: Name of the periodic task.
            due: The due time that is being served. It must still be the stored one.
            seconds: Seconds from now until the next run.
            task: The task to enqueue.
            wait: Whether to change nothing and return None while a live task has the unique key: it stays due.
        """


class Schema(Protocol):
    """Creation and version of the tables."""

    def create_schema(self) -> int:
        """Migrate the tables to the latest version; return it. Safe to run concurrently."""

    def check_schema(self) -> int:
        """Check that the tables have the version that this release of Outlast needs, and return it.

        Raises:
            SchemaError: If they are missing, older or newer. The message says what to do.
        """

    def close(self) -> None:
        """Close all connections."""


class WorkerWakeups(Protocol):
    """How an idle worker learns about new tasks.

    Attributes:
        poll: Seconds between two polls of an idle worker.
        rescue_every: Seconds between two searches for dead workers.
        in_process: Whether other processes, including child processes of a worker, cannot see the data.
        location: Where the tables are, as a URL without a password, or ``memory``.
    """

    poll: float
    rescue_every: float
    in_process: bool
    location: str

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function, from any thread, when tasks may have become ready; return a function that ends this.

        It may be called without need and may miss tasks: polling every `poll` seconds finds them.
        """


class Store(
    Tasks,
    Workers,
    DeadLetters,
    Queues,
    Cooldowns,
    Breakers,
    Limits,
    Periodic,
    Sources,
    Alerts,
    Jobs,
    Reads,
    TriageStore,
    WorkerWakeups,
    Schema,
    Protocol,
):
    """All protocols together."""
