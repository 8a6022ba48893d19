"""What is asked of a store, duty by duty. Every method is one transaction, unless it says otherwise."""

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
    QueueRow,
    Rescued,
    SettleAndClaim,
    SettleAndClaimResult,
    Task,
    TaskFilter,
    WorkerRow,
)
from outlast.ports.source_rows import Alerts, Sources
from outlast.ports.triage import TriageStore

# For how long a store may be waited for, where somebody else waits for the answer.

_wait_until: ContextVar[float | None] = ContextVar("outlast_store_until", default=None)


@contextmanager
def limit_store_wait(seconds: float) -> Iterator[None]:
    """Have everything that is asked of a store within the block, together, wait no longer for a connection or a lock.

    A block within a block never has more time than the one around it. What the store does once it is reached takes as
    long as it takes.
    """
    before = _wait_until.set(clock.monotonic() + seconds_left(seconds))
    try:
        yield
    finally:
        _wait_until.reset(before)


def seconds_left(most: float) -> float:
    """Return how long may be waited now.

    Args:
        most: Where nobody has said anything, and otherwise at most.
    """
    until = _wait_until.get()
    return most if until is None else max(0.0, min(most, until - clock.monotonic()))


# What is asked of a store that keeps limits: who may start, and when a retry may come.


class LimitRequest(NamedTuple):
    """Claimed tasks of one resource that are about to start.

    Attributes:
        limit: What the resource takes; the worker brings the settings.
        candidates: The tasks, in the order in which they go.
        mean: Seconds that a task of the resource needs, as this worker has seen it; None if it has seen none end.
    """

    limit: ResourceLimit
    candidates: tuple[Candidate, ...]
    mean: float | None = None


class LimitRow(NamedTuple):
    """A limit as people see it, with the settings of the worker that asked last.

    Attributes:
        resource: What is limited.
        rate: Starts per second.
        burst: Starts that may come at once.
        concurrency: Tasks that run at once.
        retries: Retries per second.
        retry_burst: Retries that may come at once.
        running: Tasks that run now; None where their number is not limited.
        next_start: When the rate lets the next one start; None for now.
        waiting_until: When the last of those comes back that were refused; None if that is over.
        retries_until: When the last retry has its place; None if that is over.
        mean: Seconds that a task needs, as workers have seen it.
        asked_at: When a worker last asked.
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
    """Limits of resources, kept across all workers of the store."""

    def admit(self, asks: Sequence[LimitRequest]) -> dict[int, float]:
        """Let claimed tasks start as far as their resources allow; in one transaction that locks what is known of them.

        A task counts as running until it is settled, given back or taken from a dead worker; nobody has to say so.

        Returns:
            By task, the seconds after which those that must not start now should come back. The others may start.
        """

    def reserve_retries(self, limit: ResourceLimit, count: int) -> list[float]:
        """Give so many retries a place each; return the seconds for which each is to wait, the shortest first."""

    def limits(self) -> list[LimitRow]:
        """Return the limits that were asked for within a day, by resource."""


class Tasks(Protocol):
    """Tasks from enqueueing to their end."""

    def enqueue(self, tasks: Sequence[NewTask], connection: Any = None) -> list[Enqueued]:
        """Add tasks; those whose unique key is taken by a live task are answered with that one.

        Args:
            tasks: All or none of them are added.
            connection: The caller's own connection to the same database, in whose transaction it happens; nothing is
                committed then.
        """

    def settle_and_claim(self, turn: SettleAndClaim) -> SettleAndClaimResult:
        """Settle, start and claim for a worker, in one transaction.

        Raises:
            LeaseLostError: If the store does not know the worker any more; nothing was done.
        """

    def reconcile(self, worker_id: str, held: Sequence[int]) -> int:
        """Give back what a worker holds by the books but not in its hands; return how many.

        For after a turn whose COMMIT was not answered: what it claimed never arrived.
        """

    def next_due(self, queues: Sequence[str]) -> float | None:
        """Return the seconds until a task of these queues can be claimed, 0 for now; None when there is none."""

    def oldest_ready(self, queues: Sequence[str]) -> float | None:
        """Return the seconds for which the oldest ready task of these queues waits already; None when none is."""

    def suspects_due(self, queues: Sequence[str]) -> bool:
        """Tell whether a task waits that was running when a worker died, and a worker may run it alone now.

        Where other tasks are due, half of the workers of these queues may do so at a time, one at least: whoever runs a
        suspect runs nothing else.
        """

    def get(self, task_id: int) -> Task | None:
        """Return a task."""

    def find(self, which: TaskFilter) -> list[Task]:
        """Return tasks, newest first."""

    def attempts(self, task_id: int) -> list[Attempt]:
        """Return the failed attempts of a task, oldest first."""

    def result(self, task_id: int) -> str | None:
        """Return a result that was kept, as JSON text."""

    def cancel(self, task_ids: Sequence[int]) -> list[int]:
        """Cancel tasks that wait or are parked; return those that were."""

    def run_now(self, task_ids: Sequence[int]) -> list[int]:
        """Make waiting tasks due now; return those that were."""

    def unpark(self, task_types: Sequence[str]) -> int:
        """Queue parked tasks of these names; return how many. In batches, each its own transaction."""

    def counts(self) -> dict[str, int]:
        """Return how many tasks there are of each status, and ``dead_letters``."""

    def prune(self, *, done_before: float) -> int:
        """Delete tasks that were done, cancelled or discarded longer ago than so many seconds, and expired results.

        In batches, each its own transaction.

        Returns:
            How many.
        """


class Workers(Protocol):
    """Who works, and what becomes of what a dead worker held."""

    def register(self, worker: WorkerRow, lease: float) -> None:
        """Add a worker, alive for so many seconds.

        Raises:
            SchemaError: If the tables are of another version by now: a migration has taken all leases away.
        """

    def heartbeat(self, worker_id: str, lease: float, state: str) -> None:
        """Renew a worker's lease, and with it all that it holds.

        Raises:
            LeaseLostError: If the store does not know it any more.
        """

    def leave(self, worker_id: str) -> int:
        """Remove a worker and give back what it holds, at no cost to the tasks; return how many."""

    def rescue(self, crash_limit: int) -> list[Rescued]:
        """Take tasks from workers whose lease ran out, or that are seen to be dead. In batches.

        One that had not begun comes back as it was. One that had is a suspect: its loss is in its history, it runs
        alone next time, and if it was alone already, its crashes are counted; at the limit it is a dead letter.
        """

    def workers(self) -> list[WorkerRow]:
        """Return the known workers."""


class DeadLetters(Protocol):
    """Tasks that ended without success."""

    def check_dead_letters(self) -> None:
        """Write a dead letter and take it back, to see that it can be done.

        Raises:
            Exception: What the database says if it cannot.
        """

    def dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Return dead letters, newest first."""

    def count_dead_letters(self, which: DeadLetterFilter) -> int:
        """Return how many there are."""

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return one."""

    def groups(self, which: DeadLetterFilter) -> list[Group]:
        """Return them grouped by cause, the largest group first."""

    def replay(self, number: int) -> str:
        """Queue the task of a dead letter again, with its history; in one transaction.

        Returns:
            ``replayed``; ``conflict`` when another live task has its unique key, then it stays; ``gone`` when there is
            no such dead letter (any more).
        """

    def discard(self, number: int) -> str:
        """Remove a dead letter for good: ``discarded`` or ``gone``."""

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Discard those older than so many seconds; return how many. In batches, each its own transaction."""


class Queues(Protocol):
    """Queues by name."""

    def pause(self, queue: str) -> None:
        """Have nothing claimed from a queue."""

    def resume(self, queue: str) -> None:
        """Have it claimed from again."""

    def queues(self) -> list[QueueRow]:
        """Return the queues that exist or are paused; what waits and runs is counted, so it grows with that."""


class Cooldowns(Protocol):
    """Resources that are left alone for a while."""

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Leave a resource alone from now on; a longer cooldown that runs already stays. Moves its tasks in batches.

        Args:
            resource: Its name; by custom the host.
            seconds: For how long.
            reason: For people.
            capped: Whether it asked for longer than that: then its end lets a single probe through.

        Returns:
            How many such answers came in a row, this one included; 0 for one that is not capped. Answers that come
            while a cooldown runs count as one, unless they are a probe's.
        """

    def probe(self, resource: str, hold: float) -> bool:
        """Ask to be the one who tries a resource after the end of a capped cooldown.

        Args:
            resource: Its name.
            hold: Seconds for which everybody else goes on waiting.

        Returns:
            Whether the caller is the one. False while a cooldown runs; True where none is, or none that is capped.
        """

    def end_cooldown(self, resource: str) -> None:
        """End a cooldown by hand; the tasks that waited for its end are due now.

        Also those that were put off by the answer that began it. What waits for a time of its own goes on waiting.
        """

    def cooldowns(self) -> list[Cooldown]:
        """Return those that run."""


class Periodic(Protocol):
    """Tasks that are enqueued again and again, once across the fleet."""

    def now(self) -> datetime:
        """Return the time by the store's clock, which all workers share."""

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Make known what there is, by name, with the seconds until its first run; what is known keeps its time."""

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return those whose time has come, with that time."""

    def run_periodic(self, name: str, due: datetime, seconds: float, task: NewTask) -> bool:
        """Enqueue a task and set the time of the next, if nobody else has done it for this time already.

        Args:
            name: Which.
            due: The time that had come; it fences.
            seconds: From now until the next run.
            task: What to enqueue.
        """


class Schema(Protocol):
    """The tables."""

    def create_schema(self) -> int:
        """Bring the tables up to date; return the version. Safe to run twice at once."""

    def check_schema(self) -> None:
        """See that the tables are what this version of Outlast works with.

        Raises:
            SchemaError: If they are missing, older or newer; the message says what to do.
        """

    def close(self) -> None:
        """Give the connections back."""


class WorkerWakeups(Protocol):
    """How an idle worker learns that there is something to do.

    Attributes:
        poll: Seconds between two looks where nobody calls.
        rescue_every: Seconds between two looks for dead workers.
        in_process: Whether other processes, the children of a worker among them, see nothing of it.
    """

    poll: float
    rescue_every: float
    in_process: bool

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called, from any thread, when tasks may have become ready; return what ends it.

        It may be called for nothing and may miss something: looking every `poll` seconds is what is relied on.
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
    """All of it, as the stores implement it."""
