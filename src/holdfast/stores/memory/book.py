"""What a memory store knows: plain dictionaries under one lock. Times are seconds since the epoch."""

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from holdfast.ports.rows import Attempt, DeadLetter, Note, Reason, Status, Task, Worker
from holdfast.ports.source_rows import Alert, Cycle, Poll, Source
from holdfast.stores.cooled import Cooled
from holdfast.stores.memory.booking import Books

if TYPE_CHECKING:
    from holdfast.decide.limits import Limit, Standing
    from holdfast.ports.job_rows import Run, TargetRow
    from holdfast.ports.jobs import JobLock
    from holdfast.ports.triage_rows import AuditEntry, PayloadEdit, Replay

__all__ = ["LIVE", "Book", "Held", "Lease", "Ordered", "Outgoing", "Row", "Told", "moment", "moment_or_none"]

LIVE = frozenset({Status.QUEUED, Status.RUNNING, Status.PARKED})
"""What keeps a unique key taken."""
_TIMES = frozenset(name for name in Task._fields if name.endswith("_at")) | {"next_run_after"}

_NEVER = Cooled(0.0, "")
_LAST = 253_402_300_799.0  # the end of the year 9999


def moment(seconds: float) -> datetime:
    """Return a time as a datetime; one that no datetime can hold, as the nearest that can."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LAST), UTC)


def moment_or_none(seconds: float | None) -> datetime | None:
    """Return a time as a datetime, where there is one."""
    return None if seconds is None else moment(seconds)


@dataclass(slots=True)
class Row:
    """A task, with what only the store has to know: whether it runs alone, and when it was first put off."""

    id: int
    task_type: str
    queue: str
    priority: int
    parameters: str
    resource: str | None
    unique_key: str | None
    next_run_after: float
    expires_at: float | None
    created_at: float
    updated_at: float
    status: Status = Status.QUEUED
    attempt: int = 0
    retry_count: int = 0
    crash_count: int = 0
    suspect: bool = False
    alone: bool = False
    lease_epoch: int = 0
    worker_id: str | None = None
    deferrals: int = 0
    replays: int = 0
    last_error: str | None = None
    deferred_at: float | None = None
    started_at: float | None = None
    failed_at: float | None = None
    finished_at: float | None = None
    replay_id: int | None = None
    canary: bool = False

    def seen(self) -> Task:
        """Return it as people see it."""
        values = {name: getattr(self, name) for name in Task._fields}
        return Task(**values | {name: moment_or_none(values[name]) for name in _TIMES})

    def uncount_start(self) -> None:
        """Take back a start that came to nothing."""
        if self.started_at is not None:
            self.attempt -= 1
        self.started_at = None


@dataclass(slots=True)
class Lease:
    """A worker and the time until which it is taken for alive."""

    worker: Worker
    expires_at: float


@dataclass(slots=True)
class Outgoing:
    """An alert, with what only the store has to know: when it is due, and until when it is in somebody's hands."""

    alert: Alert
    due_at: float
    leased_until: float = 0.0


class Told(NamedTuple):
    """A breaker as a process told of it; `before` is the state that it had."""

    resource: str
    process: str
    state: str
    before: str
    until: float | None
    reason: str
    is_worker: bool
    updated_at: float


class Ordered(NamedTuple):
    """What somebody wants of the breakers of a resource."""

    number: int
    resource: str
    state: str
    until: float | None
    ordered_at: float


@dataclass(slots=True)
class Held:
    """A replay, with what only the store has to know: who holds it, and which dead letters stop it no more."""

    replay: "Replay"
    bound: int  # newest at its begin; behind it are its own failures alone
    owner: str | None = None
    leased_until: float = 0.0
    forgiven: int = 0


class Book:
    """All tables."""

    def __init__(self) -> None:
        """Begin empty."""
        self.lock = threading.RLock()
        self.task_ids, self.letter_ids = count(1), count(1)
        self.newest_task = self.newest_letter = 0
        self.books = Books()
        self.tasks: dict[int, Row] = {}
        self.attempts: dict[int, list[Attempt]] = {}
        self.results: dict[int, tuple[str, float]] = {}
        self.letters: dict[int, DeadLetter] = {}
        self.leases: dict[str, Lease] = {}
        self.queues: dict[str, bool] = {}
        self.cooldowns: dict[str, Cooled] = {}
        self.periodic: dict[str, float] = {}
        self.source_ids, self.cycle_ids, self.alert_ids = count(1), count(1), count(1)
        self.sources: dict[int, Source] = {}
        self.source_owners: dict[int, str] = {}
        self.polls: dict[int, list[Poll]] = {}
        self.cycles: dict[int, Cycle] = {}
        self.alerts: dict[int, Outgoing] = {}
        self.told: dict[str, str | None] = {}
        self.runs: dict[str, Run] = {}
        self.targets: dict[str, dict[str, TargetRow]] = {}
        self.job_locks: dict[str, tuple[str, JobLock]] = {}
        self.breakers: dict[tuple[str, str], Told] = {}
        self.limits: dict[str, tuple[Limit, Standing]] = {}
        self.slots: dict[int, tuple[int, str]] = {}  # epochs and resources by task
        self.order_numbers = count(1)
        self.orders: dict[str, Ordered] = {}
        self.replay_ids, self.edit_ids, self.audit_ids = count(1), count(1), count(1)
        self.replays: dict[int, Held] = {}
        self.replayed_by: dict[int, int] = {}  # numbers of dead letters, and of the replay that had queued their tasks
        self.edits: list[PayloadEdit] = []
        self.audits: list[AuditEntry] = []

    def live_by_key(self, task_type: str, unique_key: str | None) -> Row | None:
        """Return the live task that has a unique key."""
        if unique_key is None:
            return None
        found = (
            row
            for row in self.tasks.values()
            if row.unique_key == unique_key and row.task_type == task_type and row.status in LIVE
        )
        return next(found, None)

    def cool_until(self, resource: str | None) -> float:
        """Return the end of a resource's cooldown, which may be over; 0 where there was none."""
        return 0.0 if resource is None else self.cooldowns.get(resource, _NEVER).until

    def move_cooling(self, now: float) -> None:
        """Move tasks that are due to the end of the cooldown that holds them back."""
        for row in self.tasks.values():
            if row.status is Status.QUEUED and row.next_run_after <= now < self.cool_until(row.resource):
                row.next_run_after = self.cool_until(row.resource)

    def note_attempt(self, row: Row, outcome: str, note: Note, now: float, delay: float | None = None) -> None:
        """Add a failed attempt to a task's history."""
        attempt = Attempt(
            task_id=row.id,
            attempt=row.attempt,
            outcome=outcome,
            worker_id=row.worker_id,
            started_at=moment_or_none(row.started_at),
            finished_at=moment(now),
            error_type=note.error_type,
            error_message=note.error_message,
            error_category=note.error_category,
            fingerprint=note.fingerprint,
            delay=delay,
            traceback=note.traceback,
            failure=json.loads(note.failure),
        )
        self.attempts.setdefault(row.id, []).append(attempt)

    def add_letter(self, row: Row, reason: Reason, note: Note, now: float) -> None:
        """Add the dead letter of a task."""
        number = self.newest_letter = next(self.letter_ids)
        if row.replay_id is not None:
            self.replayed_by[number] = row.replay_id
        self.letters[number] = DeadLetter(
            id=number,
            original_task_id=row.id,
            task_type=row.task_type,
            queue=row.queue,
            priority=row.priority,
            parameters=row.parameters,
            resource=row.resource,
            unique_key=row.unique_key,
            error_type=note.error_type,
            error_message=note.error_message,
            error_category=note.error_category,
            reason=reason,
            fingerprint=note.fingerprint,
            traceback=note.traceback,
            failure=json.loads(note.failure),
            retry_count=row.retry_count,
            crash_count=row.crash_count,
            replays=row.replays,
            worker_id=row.worker_id,
            created_at=moment(row.created_at),
            moved_to_dlq_at=moment(now),
        )
