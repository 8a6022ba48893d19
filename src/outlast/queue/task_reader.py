"""``app.tasks``: lists, shows and controls tasks and queues."""

from collections.abc import Sequence  # noqa: TC003  # the class has a method called list
from enum import StrEnum
from typing import NamedTuple, TypeVar

from outlast.errors import ConfigError
from outlast.ports.rows import Attempt, Cooldown, QueueRow, Status, Task, TaskFilter, WorkerRow
from outlast.ports.source_rows import NewAlert
from outlast.ports.store import Store

E = TypeVar("E", bound=StrEnum)


def enum_member(kind: type[E], value: object) -> E:
    """Return the member of an enumeration that has a value.

    Raises:
        ConfigError: If no member has it; the message lists the valid values.
    """
    try:
        return kind(str(value))
    except ValueError:
        raise ConfigError(
            f"{value!r} is not a valid {kind.__name__.lower()}; choose one of: {', '.join(kind)}"
        ) from None


class TaskHistory(NamedTuple):
    """A task and its failed attempts, oldest first."""

    task: Task
    attempts: list[Attempt]


class TaskReader:
    """The tasks of an app, as ``app.tasks``.

    Args:
        store: The store with the tasks.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(
        self,
        *,
        status: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """Return tasks, newest first. ``before`` is the id of the last task of the previous page."""
        wanted = None if status is None else enum_member(Status, status)
        return self._store.find(TaskFilter(wanted, queue, task, before, limit))

    def show(self, number: int) -> TaskHistory:
        """Return a task with its history.

        Raises:
            LookupError: If the task does not exist.
        """
        task = self._store.get(number)
        if task is None:
            raise LookupError(f"task {number} does not exist")
        return TaskHistory(task, self._store.attempts(number))

    def counts(self) -> dict[str, int]:
        """Return the number of tasks by status, and of ``dead_letters``."""
        return self._store.counts()

    def cancel(self, *numbers: int) -> "Sequence[int]":
        """Cancel waiting and parked tasks. Returns the ids of those that were cancelled. Running tasks continue."""
        return self._store.cancel(numbers)

    def run_now(self, *numbers: int) -> "Sequence[int]":
        """Make waiting tasks due now. Returns the ids of those that were waiting."""
        return self._store.run_now(numbers)

    def end_cooldown(self, resource: str) -> None:
        """End the cooldown of a resource. Its tasks are due now, and so are the sources that waited for this host.

        Args:
            resource: The name of the cooldown. That of a host is its name, with its port unless that is the default one
                (80 for http, 443 for https): ``example.com``, ``example.com:8080``.
        """
        self._store.end_cooldown(resource)
        self._store.raise_alerts(
            [NewAlert(f"cooldown:{resource}", None, f"{resource}: its cooldown was ended by hand")]
        )

    def pause(self, queue: str) -> None:
        """Pause a queue: no tasks are claimed from it."""
        self._store.pause(queue)

    def resume(self, queue: str) -> None:
        """Resume a paused queue."""
        self._store.resume(queue)

    def queues(self) -> "Sequence[QueueRow]":
        """Return the queues that have tasks or are paused."""
        return self._store.queues()

    def workers(self) -> "Sequence[WorkerRow]":
        """Return the registered workers."""
        return self._store.workers()

    def cooldowns(self) -> "Sequence[Cooldown]":
        """Return the resources that are in a cooldown."""
        return self._store.cooldowns()
