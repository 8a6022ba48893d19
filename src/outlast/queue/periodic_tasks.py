"""Periodic tasks: enqueued on a schedule, once across the fleet and never in a burst."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from outlast import clock
from outlast.errors import ConfigError, PayloadError
from outlast.ports.store import Store
from outlast.queue.definition import TaskDefinition, seconds

NextTime = Callable[[datetime], datetime]
_CRON_FIELDS = 5


class PeriodicTask(NamedTuple):
    """A task and when it comes again.

    Attributes:
        definition: The task.
        following: Returns the next time after a time.
    """

    definition: TaskDefinition[Any, Any]
    following: NextTime


class PeriodicSchedule:
    """The recurring tasks of an app, by name."""

    def __init__(self) -> None:
        """Begin with none."""
        self._entries: dict[str, PeriodicTask] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._entries)

    def add(self, entry: PeriodicTask) -> None:
        """Add one.

        Raises:
            ConfigError: If the task cannot be called without arguments: nobody would be there to give them.
        """
        try:
            entry.definition.prepare((), {}, {})
        except PayloadError as error:
            message = f"the periodic task {entry.definition.name} must not have required parameters"
            raise ConfigError(message) from error
        self._entries[entry.definition.name] = entry

    def begin(self, store: Store) -> None:
        """Make them known to the store; what it knows already keeps its time."""
        if not self._entries:
            return
        now = store.now()
        store.set_periodic(
            {name: (entry.following(now) - now).total_seconds() for name, entry in self._entries.items()}
        )

    def tick(self, store: Store) -> int:
        """Enqueue what is due; return how many this process has enqueued.

        What was missed while nobody looked is made up for once: the next time is reckoned from now.
        """
        count = 0
        for name, due in store.due_periodic(list(self._entries)):
            definition, following = self._entries[name]
            base = max(due, store.now())  # not by our own clock, which may be minutes off
            wait = (following(base) - base).total_seconds()
            count += store.run_periodic(name, due, wait, definition.prepare((), {}, {}))
        return count


def next_time_function(every: float | timedelta | None, cron: str | None, zone: tzinfo = UTC) -> NextTime:
    """Return the function that tells the next time.

    Args:
        every: Seconds between two runs.
        cron: Five fields, such as ``*/15 * * * *``.
        zone: The time zone in which a cron expression is meant.

    Raises:
        ConfigError: If it is neither or both, or cannot be read.
    """
    if (every is None) == (cron is None):
        message = "give either every=… (seconds or a timedelta) or cron=…"
        raise ConfigError(message)
    if cron is not None:
        return _cron_next_time(cron, zone)
    span = timedelta(seconds=seconds("every", every, least=1.0) or 1.0)
    return lambda after: after + span


def _cron_next_time(expression: str, zone: tzinfo) -> NextTime:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  # an extra
    except ImportError as error:
        message = "cron expressions need one more package: pip install 'outlast[cron]'"
        raise ConfigError(message) from error

    if len(expression.split()) != _CRON_FIELDS:
        message = f"cron is {expression!r}; give five fields, such as '*/15 * * * *'"
        raise ConfigError(message)

    def following(after: datetime) -> datetime:
        found: datetime = next(CronSim(expression, after.astimezone(zone)))
        return found.astimezone(UTC)

    try:
        following(_now())
    except (CronSimError, StopIteration) as error:
        message = f"cron is {expression!r}, which has no next time ({error}); give five fields, such as '*/15 * * * *'"
        raise ConfigError(message) from error
    return following


def _now() -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)
