"""The events of calls, resources, tasks and sources that subscribers receive."""

from dataclasses import dataclass

from outlast.failure import Failure


@dataclass(frozen=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True)
class AttemptFailed(Event):
    """An attempt failed; another event follows with what happens next.

    Attributes:
        name: The function that was called.
        attempt: Number of the attempt, from 1.
        max_attempts: Maximum number of calls by the policy.
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
        name: The function that is called.
        attempt: Number of the attempt that failed.
        max_attempts: Maximum number of calls by the policy.
        delay: Seconds until the next attempt.
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
        name: The function that was called.
        attempts: Number of attempts made.
        elapsed: Seconds until the last failure: from the start if the policy has a time limit, else from the first
            failure.
        reason: Why it gave up; `Report` lists the reasons.
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
        name: The function that was called.
        attempts: Number of attempts made, including the successful one.
        elapsed: Seconds until the success: from the start if the policy has a time limit, else from the first failure.
    """

    name: str
    attempts: int
    elapsed: float


@dataclass(frozen=True)
class Observed(Event):
    """A failure in observe mode: what Outlast would have done.

    Attributes:
        name: The function, job or profile.
        decision: ``retry``, ``defer``, ``fail``, ``abort``, ``skip`` or ``disable``.
        delay: Seconds until the retry that would have followed; None if none would.
        reason: Why, as text; empty if the decision says it.
        failure: What happened.
    """

    name: str
    decision: str
    delay: float | None
    reason: str
    failure: Failure


@dataclass(frozen=True)
class _ResourceEvent(Event):
    resource: str


@dataclass(frozen=True)
class BreakerOpened(_ResourceEvent):
    """A circuit breaker opened: calls of the resource are refused.

    Attributes:
        resource: Name of the resource.
        reason: Why the breaker opened.
        seconds: How long it stays open.
    """

    reason: str
    seconds: float


@dataclass(frozen=True)
class BreakerHalfOpened(_ResourceEvent):
    """A circuit breaker is half-open: a few calls of the resource may pass.

    Attributes:
        resource: Name of the resource.
    """


@dataclass(frozen=True)
class BreakerClosed(_ResourceEvent):
    """A circuit breaker closed: all calls of the resource pass.

    Attributes:
        resource: Name of the resource.
    """


@dataclass(frozen=True)
class BudgetExhausted(_ResourceEvent):
    """The retry budget of a resource is exhausted: calls continue, retries stop.

    Attributes:
        resource: Name of the resource.
    """


@dataclass(frozen=True)
class _TaskEvent(Event):
    task: str
    task_id: int
    attempt: int


@dataclass(frozen=True)
class TaskStarted(_TaskEvent):
    """An attempt of a task starts. Published in the thread or coroutine that runs it.

    Attributes:
        task: Name of the task.
        task_id: Id of the task.
        attempt: Number of the attempt: failed attempts before it, plus one.
    """


@dataclass(frozen=True)
class TaskEnded(_TaskEvent):
    """An attempt of a task ended. Published where `TaskStarted` was, after the event of a failure.

    Attributes:
        task: Name of the task.
        task_id: Id of the task.
        attempt: Number of the attempt: failed attempts before it, plus one.
        seconds: How long the attempt took.
        outcome: ``done``, ``retry``, ``defer``, ``fail`` (a dead letter), ``release`` (released by a worker that
            stops) or ``crash`` (it crashed the isolated process it ran in).
    """

    seconds: float
    outcome: str


@dataclass(frozen=True)
class TaskRetrying(_TaskEvent):
    """An attempt of a task failed; a retry is scheduled.

    Attributes:
        task: Name of the task.
        task_id: Id of the task.
        attempt: Failed attempts, including this one.
        delay: Seconds until the retry is due.
        failure: What happened.
    """

    delay: float
    failure: Failure


@dataclass(frozen=True)
class TaskDeferred(_TaskEvent):
    """A task was deferred; this used no attempt.

    Attributes:
        task: Name of the task.
        task_id: Id of the task.
        attempt: Failed attempts, as if this one had counted.
        delay: Seconds until it is due again.
        failure: What happened.
    """

    delay: float
    failure: Failure


@dataclass(frozen=True)
class TaskFailed(_TaskEvent):
    """A task became a dead letter.

    Attributes:
        task: Name of the task.
        task_id: Id of the task.
        attempt: Failed attempts, including this one.
        reason: ``exhausted``, ``permanent``, ``broken`` (the predicate or backoff function of the policy raised an
            error), ``undecodable``, ``unreadable`` (the error's own code raised), ``expired``, ``canary``, or ``crash``
            if it crashed an isolated process; for a crashed worker there is `TaskRescued` instead.
        failure: The last failure.
    """

    reason: str
    failure: Failure


@dataclass(frozen=True)
class TaskRescued(Event):
    """A task was rescued from a worker that died.

    Attributes:
        task_id: Id of the task.
        worker_id: Id of the dead worker.
        outcome: ``unspent`` (it had not started), ``suspect`` (it had started, and runs isolated next) or ``dead`` (it
            is a dead letter now).
    """

    task_id: int
    worker_id: str
    outcome: str


@dataclass(frozen=True)
class CooledDown(_ResourceEvent):
    """A cooldown started: a host, or another resource, asked for a pause.

    Attributes:
        resource: Name of the resource.
        seconds: Length of the cooldown.
        reason: What the server said.
        capped: Whether it asked for a longer pause.
    """

    seconds: float
    reason: str
    capped: bool


@dataclass(frozen=True)
class SourceChanged(Event):
    """The state of a source changed.

    Attributes:
        source_id: Id of the source.
        url: URL of the source.
        before: State before.
        after: State after.
        consecutive_failures: Counted failures in a row.
        reason: Why, as text.
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
        profile: Name of the profile.
        cycle_id: Id of the cycle.
        polled: Sources that answered or failed.
        failed: Polled sources that failed.
        outage: Whether it was an outage, so that no failure was counted.
    """

    profile: str
    cycle_id: int
    polled: int
    failed: int
    outage: bool


__all__ = tuple(
    sorted(
        name for name, each in vars().items() if isinstance(each, type) and issubclass(each, Event) and name[0] != "_"
    )
)
