"""What happens to calls and resources, as values that subscribers get."""

from dataclasses import dataclass

from outlast.failure import Failure

__all__ = [
    "AttemptFailed",
    "BreakerClosed",
    "BreakerHalfOpened",
    "BreakerOpened",
    "BudgetExhausted",
    "CooledDown",
    "CycleEnded",
    "Event",
    "GaveUp",
    "Observed",
    "Recovered",
    "Retrying",
    "SourceChanged",
    "TaskDeferred",
    "TaskEnded",
    "TaskFailed",
    "TaskRescued",
    "TaskRetrying",
    "TaskStarted",
]


@dataclass(frozen=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True)
class AttemptFailed(Event):
    """An attempt failed; what comes of it is told next.

    Attributes:
        name: What was called.
        attempt: Number of the attempt, from 1.
        max_attempts: Calls that the policy allows in all.
        failure: What happened.
    """

    name: str
    attempt: int
    max_attempts: int
    failure: Failure


@dataclass(frozen=True)
class Retrying(Event):
    """Another attempt follows after a wait.

    Attributes:
        name: What is called.
        attempt: Number of the attempt that failed.
        max_attempts: Calls that the policy allows in all.
        delay: Seconds until the next one.
        failure: What happened.
    """

    name: str
    attempt: int
    max_attempts: int
    delay: float
    failure: Failure


@dataclass(frozen=True)
class GaveUp(Event):
    """No further attempt is made.

    Attributes:
        name: What was called.
        attempts: How many attempts were made.
        elapsed: Seconds from the first attempt's end to the last one's.
        reason: Why no more; the reasons stand in `Report`.
        failure: The last failure.
    """

    name: str
    attempts: int
    elapsed: float
    reason: str
    failure: Failure


@dataclass(frozen=True)
class Recovered(Event):
    """An attempt succeeded after others had failed.

    Attributes:
        name: What was called.
        attempts: How many attempts were made, the successful one included.
        elapsed: Seconds from the first failure to the success.
    """

    name: str
    attempts: int
    elapsed: float


@dataclass(frozen=True)
class Observed(Event):
    """Something failed in a program that is only observed: what would have been done.

    Attributes:
        name: What was called: a function, a job or a profile.
        decision: ``retry``, ``defer``, ``fail``, ``abort``, ``skip`` or ``disable``.
        delay: Seconds after which it would have been tried again, where it would.
        reason: Why, for people; empty where the decision says it.
        failure: What happened.
    """

    name: str
    decision: str
    delay: float | None
    reason: str
    failure: Failure


@dataclass(frozen=True)
class BreakerOpened(Event):
    """A resource is left alone for a while.

    Attributes:
        resource: Its name.
        reason: What made the breaker open.
        seconds: How long it stays open.
    """

    resource: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class BreakerHalfOpened(Event):
    """A resource is tried again with a few calls.

    Attributes:
        resource: Its name.
    """

    resource: str


@dataclass(frozen=True)
class BreakerClosed(Event):
    """A resource is well again.

    Attributes:
        resource: Its name.
    """

    resource: str


@dataclass(frozen=True)
class BudgetExhausted(Event):
    """A resource's retry budget is used up: calls are made, retries are not.

    Attributes:
        resource: Its name.
    """

    resource: str


@dataclass(frozen=True)
class TaskStarted(Event):
    """An attempt of a task begins, in the thread or coroutine that runs it.

    Attributes:
        task: Its name.
        task_id: Its number.
        attempt: Failed attempts before it, and one.
    """

    task: str
    task_id: int
    attempt: int


@dataclass(frozen=True)
class TaskEnded(Event):
    """An attempt of a task is over; told where `TaskStarted` was, after what became of a failure.

    Attributes:
        task: Its name.
        task_id: Its number.
        attempt: Failed attempts before it, and one.
        seconds: How long it took.
        outcome: ``done``, ``retry``, ``defer``, ``fail`` (a dead letter), ``release`` (given back by a worker that
            stops) or ``crash`` (a suspect that took down the process it ran in).
    """

    task: str
    task_id: int
    attempt: int
    seconds: float
    outcome: str


@dataclass(frozen=True)
class TaskRetrying(Event):
    """An attempt of a task failed, and another one is due later.

    Attributes:
        task: Its name.
        task_id: Its number.
        attempt: Failed attempts, this one included.
        delay: Seconds until the next one is due.
        failure: What happened.
    """

    task: str
    task_id: int
    attempt: int
    delay: float
    failure: Failure


@dataclass(frozen=True)
class TaskDeferred(Event):
    """A task was put off without spending an attempt.

    Attributes:
        task: Its name.
        task_id: Its number.
        attempt: Failed attempts, this one included if it had counted.
        delay: Seconds until it is due again.
        failure: What happened.
    """

    task: str
    task_id: int
    attempt: int
    delay: float
    failure: Failure


@dataclass(frozen=True)
class TaskFailed(Event):
    """A task ended as a dead letter.

    Attributes:
        task: Its name.
        task_id: Its number.
        attempt: Failed attempts, this one included.
        reason: ``exhausted``, ``permanent``, ``undecodable``, ``expired``, ``canary``, or ``crash`` where the last one
            took down a process apart; where it was a worker, `TaskRescued` tells.
        failure: The last failure.
    """

    task: str
    task_id: int
    attempt: int
    reason: str
    failure: Failure


@dataclass(frozen=True)
class TaskRescued(Event):
    """A task was taken from a worker that died.

    Attributes:
        task_id: Its number.
        worker_id: The worker that is gone.
        outcome: ``unspent`` (it had not begun), ``suspect`` (it had, and runs alone next) or ``dead`` (a dead letter).
    """

    task_id: int
    worker_id: str
    outcome: str


@dataclass(frozen=True)
class CooledDown(Event):
    """A host, or another scope, is left alone because it asked for it.

    Attributes:
        resource: Its name.
        seconds: For how long.
        reason: What it said.
        capped: Whether it asked for longer.
    """

    resource: str
    seconds: float
    reason: str
    capped: bool


@dataclass(frozen=True)
class SourceChanged(Event):
    """The state of a source has changed.

    Attributes:
        source_id: Its number.
        url: What is polled.
        before: State before.
        after: State after.
        consecutive_failures: Counted failures in a row.
        reason: Why, for people.
    """

    source_id: int
    url: str
    before: str
    after: str
    consecutive_failures: int
    reason: str


@dataclass(frozen=True)
class CycleEnded(Event):
    """All due sources of a profile were polled.

    Attributes:
        profile: Its name.
        cycle_id: Number of the cycle.
        polled: Sources that answered or failed.
        failed: Those that failed.
        outage: Whether so many failed that nothing was counted.
    """

    profile: str
    cycle_id: int
    polled: int
    failed: int
    outage: bool
