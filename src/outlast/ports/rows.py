"""The rows that travel between the queue and its stores. Times are aware datetimes, waits are seconds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, overload

__all__ = [
    "Attempt",
    "Claim",
    "Claimed",
    "Cooldown",
    "DeadLetter",
    "DeadLetterFilter",
    "Enqueued",
    "Group",
    "Kind",
    "NewTask",
    "Note",
    "QueueRow",
    "Reason",
    "Rescued",
    "SettleAndClaim",
    "SettleAndClaimResult",
    "Settlement",
    "Status",
    "Task",
    "TaskFilter",
    "WorkerRow",
]


class Status(StrEnum):
    """Where a task stands. The first three are live: they keep a unique key taken."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PARKED = "PARKED"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DISCARDED = "DISCARDED"


class Kind(StrEnum):
    """What a settlement does with a task that its worker holds."""

    DONE = "done"
    RETRY = "retry"
    DEFER = "defer"
    FAIL = "fail"
    RELEASE = "release"
    PARK = "park"
    CRASH = "crash"


class Reason(StrEnum):
    """Why a task became a dead letter."""

    EXHAUSTED = "exhausted"
    PERMANENT = "permanent"
    CRASH = "crash"
    UNDECODABLE = "undecodable"
    EXPIRED = "expired"
    CANARY = "canary"


class NewTask(NamedTuple):
    """A task to be enqueued.

    Attributes:
        task_type: Name of the task.
        parameters: Its arguments as JSON text.
        queue: Where it waits.
        priority: 0 goes first, 9 last.
        delay: Seconds from now, by the store's clock.
        run_at: Seconds since the epoch; goes before `delay`.
        unique_key: One live task per type and key.
        resource: What it depends on; while that cools down, the task is not claimed.
        expires: Seconds after which it is no longer worth starting.
    """

    task_type: str
    parameters: str
    queue: str = "default"
    priority: int = 5
    delay: float = 0.0
    run_at: float | None = None
    unique_key: str | None = None
    resource: str | None = None
    expires: float | None = None


class Enqueued(NamedTuple):
    """What became of one: its id, and whether it is new or the live task that has its unique key."""

    id: int
    created: bool


class Claim(NamedTuple):
    """What a worker asks for.

    Attributes:
        queues: In which it looks, the first one first; a worker changes the order from claim to claim.
        limit: How many tasks at most.
        start: So many are marked as started at once; the others are only held.
        suspect: Ask for one task that was running when a worker died; it is then run alone.
    """

    queues: tuple[str, ...]
    limit: int
    start: int
    suspect: bool = False


class Claimed(NamedTuple):
    """A task in a worker's hands.

    Attributes:
        id: Of the task.
        epoch: Of this claim: what settles it has to show the same number.
        parameters: JSON text.
        attempt: Number of this start, from 1; for one that is only held, the number it will have.
        retry_count: Failed attempts before this one.
        resource: What it depends on.
        expires_in: Seconds after which it is not worth starting; None for never, below 0 when over.
        deferred_for: Seconds since it was first put off without an attempt spent; 0 if it was not.
        started: Whether the start is marked.
        suspect: Whether it was running when a worker died.
        canary: Whether a replay tries it before others: it gets one attempt.
        crash_count: How often it took its process down already, running alone; told of suspects.
    """

    id: int
    epoch: int
    task_type: str
    parameters: str
    attempt: int
    retry_count: int
    resource: str | None
    expires_in: float | None
    deferred_for: float
    started: bool
    suspect: bool
    canary: bool = False
    crash_count: int = 0


class Note(NamedTuple):
    """What is kept of a failed attempt: redacted and capped already.

    Attributes:
        error_type: Class name of the error.
        error_message: Its text.
        error_category: Value of the category.
        fingerprint: Groups like failures.
        failure: The whole failure as JSON text.
        traceback: Without locals.
    """

    error_type: str
    error_message: str
    error_category: str
    fingerprint: str
    failure: str
    traceback: str = ""


class Settlement(NamedTuple):
    """What becomes of a task that its worker has done with, other than a success without a result.

    Attributes:
        task_id: The task.
        epoch: Of the claim.
        kind: What to do.
        delay: Seconds until it runs again, where it does; for a release 0 leaves its time as it was.
        note: The failure, where there was one.
        reason: Of a dead letter. A crash without one has the task run again, alone.
        result: JSON text to keep, for a success.
        keep: Seconds for which the result is kept.
        suspect: Whether it runs alone again, for a retry and a deferral.
    """

    task_id: int
    epoch: int
    kind: Kind
    delay: float = 0.0
    note: Note | None = None
    reason: Reason | None = None
    result: str | None = None
    keep: float = 0.0
    suspect: bool = False


class SettleAndClaim(NamedTuple):
    """One transaction of a worker: settle what is over, mark what starts, claim what is next.

    Attributes:
        worker_id: Whose.
        done: Tasks that succeeded and keep no result, as (id, epoch).
        settlements: All the others.
        start: Held tasks whose start is marked now, as (id, epoch).
        claim: What is asked for, if anything.
    """

    worker_id: str
    done: list[tuple[int, int]]
    settlements: list[Settlement]
    start: list[tuple[int, int]]
    claim: Claim | None = None


class SettleAndClaimResult(NamedTuple):
    """What a turn gave.

    Attributes:
        claimed: Tasks now in the worker's hands, in the order in which they are to run.
        refused: Tasks that another worker has by now: what was settled or started for them was dropped.
    """

    claimed: list[Claimed]
    refused: list[int]


class Task(NamedTuple):
    """A task as people see it."""

    id: int
    task_type: str
    queue: str
    priority: int
    parameters: str
    status: Status
    resource: str | None
    unique_key: str | None
    attempt: int
    retry_count: int
    crash_count: int
    suspect: bool
    lease_epoch: int
    worker_id: str | None
    deferrals: int
    replays: int
    last_error: str | None
    next_run_after: datetime
    expires_at: datetime | None
    started_at: datetime | None
    failed_at: datetime | None
    finished_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Attempt(NamedTuple):
    """A failed attempt of a task.

    Attributes:
        outcome: ``retry``, ``fail`` or ``lost`` (its worker died, or for a suspect the process it ran in).
        delay: Seconds until the next one was due; None where none followed.
    """

    task_id: int
    attempt: int
    outcome: str
    worker_id: str | None
    started_at: datetime | None
    finished_at: datetime
    error_type: str
    error_message: str
    error_category: str
    fingerprint: str
    delay: float | None
    traceback: str
    failure: dict[str, Any]


class DeadLetter(NamedTuple):
    """A task that ended without success, as it is kept until it is replayed or discarded."""

    id: int
    original_task_id: int
    task_type: str
    queue: str
    priority: int
    parameters: str
    resource: str | None
    unique_key: str | None
    error_type: str
    error_message: str
    error_category: str
    reason: Reason
    fingerprint: str
    traceback: str
    failure: dict[str, Any]
    retry_count: int
    crash_count: int
    replays: int
    worker_id: str | None
    created_at: datetime
    moved_to_dlq_at: datetime


class TaskFilter(NamedTuple):
    """Which tasks a list shows, newest first."""

    status: Status | None = None
    queue: str | None = None
    task_type: str | None = None
    before: int | None = None
    limit: int = 50


class DeadLetterFilter(NamedTuple):
    """Which dead letters are meant. What is not given does not narrow.

    Attributes:
        ids: Their numbers.
        before: Only those with smaller numbers, for the next page.
        since: Moved at this time or later.
        until: Moved before this time.
        text: Occurs in the error's text.
        limit: How many at most; None for all.
    """

    ids: tuple[int, ...] | None = None
    task_type: str | None = None
    queue: str | None = None
    category: str | None = None
    reason: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    before: int | None = None
    limit: int | None = None


class Group(NamedTuple):
    """Dead letters of one cause."""

    fingerprint: str
    size: int
    task_type: str
    error_type: str
    error_category: str
    error_message: str
    first_seen: datetime
    last_seen: datetime


class WorkerRow(NamedTuple):
    """A worker that the store knows of.

    Attributes:
        id: Of this run; a restart under the same name has another.
        state: ``running``, ``stopping`` or why it does not claim.
        alive: Whether its lease has not run out.
    """

    id: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    concurrency: int
    state: str
    tasks: int
    alive: bool
    started_at: datetime
    heartbeat_at: datetime


class QueueRow(NamedTuple):
    """A queue and what is in it; counting costs as much as there is."""

    name: str
    paused: bool
    ready: int
    scheduled: int
    running: int
    parked: int


class Cooldown(NamedTuple):
    """A resource that is left alone for a while; `capped` counts the answers in a row that asked for too long."""

    resource: str
    until: datetime
    reason: str
    capped: int = 0


class Rescued(NamedTuple):
    """A task taken from a dead worker: ``unspent`` (it had not begun), ``suspect`` (it had) or ``dead``."""

    task_id: int
    worker_id: str
    outcome: str


# Many tasks that differ in nothing but their arguments.


class TaskBatch(Sequence[NewTask]):
    """Reads as a list of tasks. The text of the arguments is made when it is read: a store may send some meanwhile.

    Args:
        alike: What they have in common.
        calls: The arguments of each.
        encode: Makes the text of arguments; what it raises reaches whoever reads.
    """

    def __init__(
        self, alike: NewTask, calls: Sequence[Mapping[str, Any]], encode: Callable[[Mapping[str, Any]], str]
    ) -> None:
        """Make nothing yet."""
        self.alike, self._calls, self._encode = alike, calls, encode

    def texts(self, begin: int = 0, end: int | None = None) -> list[str]:
        """Return the arguments of some of them as text."""
        return [*map(self._encode, self._calls[begin:end])]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._calls)

    @overload
    def __getitem__(self, place: int) -> NewTask: ...
    @overload
    def __getitem__(self, place: slice) -> list[NewTask]: ...
    def __getitem__(self, place: int | slice) -> NewTask | list[NewTask]:
        """Return one, or some."""
        if isinstance(place, slice):
            return [self._task(call) for call in self._calls[place]]
        return self._task(self._calls[place])

    def __iter__(self) -> Iterator[NewTask]:
        """Return one after the other."""
        return map(self._task, self._calls)

    def _task(self, call: Mapping[str, Any]) -> NewTask:
        return self.alike._replace(parameters=self._encode(call))


# Texts as every store takes them.


def storable(text: str, limit: int | None = None) -> str:
    """Return a text without what databases refuse: NUL and lone surrogates are replaced; cut where it is too long."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return clean if limit is None else clean[:limit]
