"""The rows that the queue and its stores exchange. Times are aware datetimes, durations are seconds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, overload


class Status(StrEnum):
    """Status of a task. The first three are live: they keep a unique key taken."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PARKED = "PARKED"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DISCARDED = "DISCARDED"


class Kind(StrEnum):
    """What a settlement does with a claimed task."""

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
    UNREADABLE = "unreadable"
    EXPIRED = "expired"
    CANARY = "canary"


class NewTask(NamedTuple):
    """A task to enqueue.

    Attributes:
        task_type: Name of the task.
        parameters: Its arguments as JSON text.
        queue: Name of the queue.
        priority: 0 runs first, 9 last.
        delay: Seconds from now, by the store's clock.
        run_at: Seconds since the Unix epoch; overrides `delay`.
        unique_key: At most one live task per type and key.
        resource: What the task depends on. It is not claimed while the resource cools down.
        expires: Seconds after which it must not start any more.
        options: Settings of this call that differ from those of the task, as JSON text.
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
    options: str | None = None


class Enqueued(NamedTuple):
    """Result of enqueueing: the task id, and whether the task is new or a live task with the same unique key."""

    id: int
    created: bool


class Claim(NamedTuple):
    """A worker's request for tasks.

    Attributes:
        queues: Queues in the order of preference. A worker changes the order from claim to claim.
        limit: Maximum number of tasks.
        start: How many of them are marked as started. The others are only held.
        suspect: Ask for a suspect: a task that was running when a worker died. It runs alone.
    """

    queues: tuple[str, ...]
    limit: int
    start: int
    suspect: bool = False


class Claimed(NamedTuple):
    """A task that a worker has claimed.

    Attributes:
        id: Id of the task.
        epoch: Epoch of this claim. Settling it requires the same number.
        parameters: JSON text.
        attempt: Number of this attempt, from 1. For a held task, the number that it will get.
        retry_count: Failed attempts before this one.
        resource: What the task depends on.
        expires_in: Seconds after which it must not start any more; None for never, negative if it has expired.
        deferred_for: Seconds since it was first deferred without using an attempt; 0 if it was not.
        started: Whether the start is marked.
        suspect: Whether it was running when a worker died.
        canary: Whether it is the canary of a replay, which gets a single attempt.
        options: Settings of this call that differ from those of the task, as JSON text.
        crash_count: How often it crashed its process while running alone; only set for suspects.
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
    options: str | None = None
    crash_count: int = 0


class Note(NamedTuple):
    """Record of a failed attempt, already redacted and truncated.

    Attributes:
        error_type: Class name of the error.
        error_message: Its message.
        error_category: Value of the category.
        fingerprint: Identifies the cause; equal for similar failures.
        failure: The complete failure as JSON text.
        traceback: Without local variables.
    """

    error_type: str
    error_message: str
    error_category: str
    fingerprint: str
    failure: str
    traceback: str = ""


class Settlement(NamedTuple):
    """Outcome of a claimed task, other than a success without a result.

    Attributes:
        task_id: The task.
        epoch: Epoch of the claim.
        kind: What to do with the task.
        delay: Seconds until it runs again, if it does. For a release, 0 keeps its due time.
        note: The failure, if there was one.
        reason: Why it becomes a dead letter. A crash without a reason runs the task again, alone.
        result: JSON text to store for a success.
        keep: Seconds for which the result is stored.
        suspect: For a retry or a deferral: whether the task runs alone again.
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
    """One transaction of a worker: settle finished tasks, mark starts, claim the next tasks.

    Attributes:
        worker_id: Id of the worker.
        done: Tasks that succeeded without a stored result, as (id, epoch).
        settlements: All other outcomes.
        start: Held tasks that start now, as (id, epoch).
        claim: The tasks to claim, if any.
    """

    worker_id: str
    done: list[tuple[int, int]]
    settlements: list[Settlement]
    start: list[tuple[int, int]]
    claim: Claim | None = None


class SettleAndClaimResult(NamedTuple):
    """Result of a settle-and-claim transaction.

    Attributes:
        claimed: Newly claimed tasks, in the order in which they run.
        refused: Tasks that another worker holds by now. Their settlements and starts were dropped.
    """

    claimed: list[Claimed]
    refused: list[int]


class Task(NamedTuple):
    """A stored task."""

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
    options: str | None = None


class Attempt(NamedTuple):
    """A failed attempt of a task.

    Attributes:
        outcome: ``retry``, ``fail`` or ``lost`` (the worker died, or the process of a suspect).
        delay: Seconds until the next attempt was due; None if there was none.
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


class RecordedTask(NamedTuple):
    """A task with its history, for a replay under another policy.

    Attributes:
        started_at: When its last attempt started.
        ended_at: When it was done or failed for good.
        attempts: Its failed attempts, oldest first, without tracebacks.
    """

    id: int
    task_type: str
    resource: str | None
    status: Status
    deferrals: int
    replays: int
    crash_count: int
    started_at: datetime | None
    ended_at: datetime | None
    created_at: datetime
    attempts: tuple[Attempt, ...] = ()


class DeadLetter(NamedTuple):
    """A task that failed for good, kept until it is replayed or discarded."""

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
    options: str | None = None


class TaskSearch(NamedTuple):
    """A text to find in the stored arguments of tasks ignoring case, or as their unique key.

    Attributes:
        text: The text.
        is_shown: Returns whether a unique key and arguments, as they are stored, show the text to people: a store asks
            it about each task that has the text, so that nobody can guess a secret by searching for it.
    """

    text: str
    is_shown: Callable[[str | None, str], bool]


class TaskFilter(NamedTuple):
    """Selects tasks for a list, newest first.

    Attributes:
        search: Only tasks that show a text.
    """

    status: Status | None = None
    queue: str | None = None
    task_type: str | None = None
    before: int | None = None
    limit: int = 50
    search: TaskSearch | None = None


class DeadLetterFilter(NamedTuple):
    """Selects dead letters. A field that is None matches all.

    Attributes:
        ids: Their ids.
        before: Only smaller ids, for the next page.
        since: Moved to the dead letter queue at this time or later.
        until: Moved before this time.
        text: Part of the error message.
        limit: Maximum number; None for all.
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
    """Dead letters with the same cause."""

    fingerprint: str
    size: int
    task_type: str
    error_type: str
    error_category: str
    error_message: str
    first_seen: datetime
    last_seen: datetime


class WorkerRow(NamedTuple):
    """A registered worker.

    Attributes:
        id: Id of this run. A restart under the same name gets another id.
        state: ``running``, ``stopping`` or the reason why it does not claim.
        alive: Whether its lease is valid.
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
    """A queue and the number of its tasks. Counting costs as much as there are live tasks."""

    name: str
    paused: bool
    ready: int
    scheduled: int
    running: int
    parked: int


class PeriodicRow(NamedTuple):
    """A periodic task as the store knows it, also one of another program.

    Attributes:
        last_run_at: When it was enqueued last; None before the first time.
        last_task: Id of the task of its last run; None if unknown.
        last_status: Status of that task; None if the task was pruned.
    """

    name: str
    next_run_at: datetime
    last_run_at: datetime | None
    paused: bool
    last_task: int | None
    last_status: Status | None


class FinishedTask(NamedTuple):
    """A task of a sample: how it ended, and when its last attempt was due, started and ended.

    Attributes:
        status: ``DONE`` or ``FAILED``.
        due_at: When its last attempt was due.
        started_at: When its last attempt started; None if that is unknown.
    """

    task_type: str
    status: Status
    due_at: datetime
    started_at: datetime | None
    ended_at: datetime


class Cooldown(NamedTuple):
    """A resource that is not called for a while. `capped` counts responses in a row that exceeded the cap."""

    resource: str
    until: datetime
    reason: str
    capped: int = 0


class Rescued(NamedTuple):
    """A task taken from a dead worker: ``unspent`` (it had not started), ``suspect`` (it had) or ``dead``."""

    task_id: int
    worker_id: str
    outcome: str


class TaskBatch(Sequence[NewTask]):
    """A sequence of tasks that differ only in their arguments.

    The arguments are encoded when they are read, so a store can send the first rows while later ones are still encoded.

    Args:
        alike: The common fields.
        calls: The arguments of each task.
        encode: Encodes arguments as text. Its exceptions reach the reader.
        resource_of: Returns the resource of a call; None if all have the same.
    """

    def __init__(
        self,
        alike: NewTask,
        calls: Sequence[Mapping[str, Any]],
        encode: Callable[[Mapping[str, Any]], str],
        resource_of: Callable[[Mapping[str, Any]], str | None] | None = None,
    ) -> None:
        self.alike, self._calls, self._encode, self._resource_of = alike, calls, encode, resource_of

    def texts(self, begin: int = 0, end: int | None = None) -> list[str]:
        """Return the encoded arguments of a range of tasks."""
        return [*map(self._encode, self._calls[begin:end])]

    @property
    def has_resource(self) -> bool:
        """Whether the tasks may have a resource."""
        return self.alike.resource is not None or self._resource_of is not None

    def resources(self, begin: int = 0, end: int | None = None) -> list[str | None]:
        """Return the resources of a range of tasks."""
        calls = self._calls[begin:end]
        return [self.alike.resource] * len(calls) if self._resource_of is None else [*map(self._resource_of, calls)]

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._calls)

    @overload
    def __getitem__(self, place: int) -> NewTask: ...
    @overload
    def __getitem__(self, place: slice) -> list[NewTask]: ...
    def __getitem__(self, place: int | slice) -> NewTask | list[NewTask]:
        """Return a task, or a list of tasks for a slice."""
        if isinstance(place, slice):
            return [self._task(call) for call in self._calls[place]]
        return self._task(self._calls[place])

    def __iter__(self) -> Iterator[NewTask]:
        """Iterate over the tasks."""
        return map(self._task, self._calls)

    def _task(self, call: Mapping[str, Any]) -> NewTask:
        parameters = self._encode(call)
        resource = self.alike.resource if self._resource_of is None else self._resource_of(call)
        return self.alike._replace(parameters=parameters, resource=resource)


def storable(text: str, limit: int | None = None) -> str:
    """Return a text that every database accepts: NUL and lone surrogates are replaced, and it is cut to `limit`."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return clean if limit is None else clean[:limit]
