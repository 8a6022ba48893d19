"""Words that people write for members of an enumeration."""

from collections.abc import Sequence  # noqa: TC003  # the class has a method called list
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from outlast.errors import ConfigError
from outlast.ports.rows import Attempt, Cooldown, QueueRow, Status, Task, TaskFilter, WorkerRow
from outlast.ports.source_rows import NewAlert
from outlast.ports.store import Store

__all__ = ["TaskHistory", "TaskReader"]


E = TypeVar("E", bound=StrEnum)


def enum_member(kind: type[E], value: object) -> E:
    """Return the member of an enumeration that has a value.

    Raises:
        ConfigError: If there is none; the message lists the valid ones.
    """
    try:
        return kind(str(value))
    except ValueError:
        message = f"{value!r} is no {kind.__name__.lower()}; choose one of: {', '.join(kind)}"
        raise ConfigError(message) from None


# Tasks and queues as a program looks at them.


class TaskHistory(NamedTuple):
    """A task and its failed attempts, oldest first."""

    task: Task
    attempts: list[Attempt]


class TaskReader:
    """The tasks of an app, as ``app.tasks``.

    Args:
        store: Where they are.
    """

    def __init__(self, store: Store) -> None:
        """Keep the store."""
        self._store = store

    def list(self, **which: Any) -> list[Task]:
        """Return tasks, newest first: ``status``, ``queue``, ``task_type``, ``before`` and ``limit`` narrow."""
        status = which.get("status")
        if status is not None:
            which["status"] = enum_member(Status, status)
        return self._store.find(TaskFilter(**which))

    def show(self, number: int) -> TaskHistory:
        """Return a task with its history.

        Raises:
            LookupError: If there is no such task (any more).
        """
        task = self._store.get(number)
        if task is None:
            message = f"there is no task {number}"
            raise LookupError(message)
        return TaskHistory(task, self._store.attempts(number))

    def counts(self) -> dict[str, int]:
        """Return how many tasks there are of each status, and ``dead_letters``."""
        return self._store.counts()

    def cancel(self, *numbers: int) -> "Sequence[int]":
        """Cancel tasks that wait or are parked; return those that were. What runs is left to run."""
        return self._store.cancel(numbers)

    def run_now(self, *numbers: int) -> "Sequence[int]":
        """Make waiting tasks due now; return those that were."""
        return self._store.run_now(numbers)

    def end_cooldown(self, resource: str) -> None:
        """End the cooldown of a resource; its tasks are due now."""
        self._store.end_cooldown(resource)
        self._store.raise_alerts(
            [NewAlert(f"cooldown:{resource}", None, f"{resource}: its cooldown was ended by hand")]
        )

    def pause(self, queue: str) -> None:
        """Have nothing claimed from a queue."""
        self._store.pause(queue)

    def resume(self, queue: str) -> None:
        """Have it claimed from again."""
        self._store.resume(queue)

    def queues(self) -> "Sequence[QueueRow]":
        """Return the queues that have tasks or are paused."""
        return self._store.queues()

    def workers(self) -> "Sequence[WorkerRow]":
        """Return the workers that are known."""
        return self._store.workers()

    def cooldowns(self) -> "Sequence[Cooldown]":
        """Return the resources that are left alone at the moment."""
        return self._store.cooldowns()
