"""Periodic tasks: enqueued on a schedule, once across the fleet and never in a burst."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from outlast import clock
from outlast.errors import ConfigError, PayloadError
from outlast.ports.rows import Enqueued, NewTask
from outlast.ports.store import Store
from outlast.queue.definition import Definition, seconds
from outlast.queue.logs import log

OVERLAPS = ("allow", "skip", "queue")
"""What happens to a run while the run before it is live."""
NextTime = Callable[[datetime], datetime]
_CRON_FIELDS = 5
_UNIQUE_KEY = "outlast:periodic"  # one live task per schedule, because a key is unique within its task type


class PeriodicTask(NamedTuple):
    """A task and its schedule.

    Attributes:
        definition: The task.
        following: Returns the next time after a time.
        overlap: One of `OVERLAPS`.
    """

    definition: Definition
    following: NextTime
    overlap: str = "allow"


class PeriodicSchedule:
    """The periodic tasks of an app."""

    def __init__(self) -> None:
        self._entries: dict[str, PeriodicTask] = {}

    def __bool__(self) -> bool:
        """Whether there are periodic tasks."""
        return bool(self._entries)

    def add(self, entry: PeriodicTask) -> None:
        """Add a periodic task.

        Raises:
            ConfigError: If the task has required parameters, or `overlap` is not valid.
        """
        if entry.overlap not in OVERLAPS:
            raise ConfigError(f"overlap is {entry.overlap!r}; give one of: {', '.join(OVERLAPS)}")
        try:
            entry.definition.codec.encode((), {})
        except PayloadError as error:
            raise ConfigError(f"the periodic task {entry.definition.name} must not have required parameters") from error
        self._entries[entry.definition.name] = entry

    def names(self) -> list[str]:
        """Return the names of the periodic tasks of this program."""
        return list(self._entries)

    def pause(self, store: Store, name: str) -> bool:
        """Pause a periodic task for all workers, until it is resumed; return whether it is registered.

        Runs that were enqueued before continue.
        """
        return store.pause_periodic(name, paused=True)

    def resume(self, store: Store, name: str) -> bool:
        """Resume a periodic task; return whether it is registered. Runs that were missed are not made up for."""
        entry, now = self._entries.get(name), store.now()
        wait = None if entry is None else (entry.following(now) - now).total_seconds()
        return store.pause_periodic(name, paused=False, seconds=wait)

    def run_now(self, store: Store, name: str) -> Enqueued | None:
        """Enqueue a run now, also while it is paused; its next regular run stays.

        Returns:
            The task; the live one if runs must not overlap; None if the task is not registered or a worker has enqueued
            a run just now.
        """
        row = next((each for each in store.periodic() if each.name == name), None)
        if row is None or name not in self._entries:
            return None
        wait = (row.next_run_at - store.now()).total_seconds()
        return store.run_periodic(name, row.next_run_at, wait, self._task(name))

    def begin(self, store: Store) -> None:
        """Register the tasks in the store; a task that is registered already keeps its time."""
        if not self._entries:
            return
        now = store.now()
        store.set_periodic(
            {name: (entry.following(now) - now).total_seconds() for name, entry in self._entries.items()}
        )

    def tick(self, store: Store) -> int:
        """Enqueue the tasks that are due. Returns how many this process has enqueued.

        Runs that were missed while no worker was alive are made up for once: the next time is computed from now. A run
        that waits for the run before it (``overlap="queue"``) is not in the queue: its schedule stays due until the
        other has ended, so at most one waits, and a killed worker loses nothing.
        """
        count = 0
        for name, due in store.due_periodic(list(self._entries)):
            _, following, overlap = self._entries[name]
            base = max(due, store.now())  # not the local clock, which may be minutes off
            wait = (following(base) - base).total_seconds()
            enqueued = store.run_periodic(name, due, wait, self._task(name), wait=overlap == "queue")
            if enqueued is not None and enqueued.created:
                count += 1
            elif enqueued is not None:
                log.info("skipped a run of %s: task %d, the run before it, has not ended", name, enqueued.id)
        return count

    def _task(self, name: str) -> NewTask:
        definition, _, overlap = self._entries[name]
        return definition.prepare((), {}, {} if overlap == "allow" else {"unique_key": _UNIQUE_KEY})


def next_time_function(every: float | timedelta | None, cron: str | None, zone: tzinfo = UTC) -> NextTime:
    """Return the function that computes the next time.

    Args:
        every: Seconds between two runs.
        cron: Five fields, such as ``*/15 * * * *``.
        zone: The time zone of the cron expression.

    Raises:
        ConfigError: If neither or both are given, or one is not valid.
    """
    if (every is None) == (cron is None):
        raise ConfigError("give either every=… (seconds or a timedelta) or cron=…")
    if not isinstance(zone, tzinfo):
        raise ConfigError(f"zone is {zone!r}; give a time zone, such as zoneinfo.ZoneInfo('Europe/Paris')")
    if cron is not None:
        return _cron_next_time(cron, zone)
    span = timedelta(seconds=seconds("every", every, least=1.0) or 1.0)
    return lambda after: after + span


def _cron_next_time(expression: str, zone: tzinfo) -> NextTime:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ConfigError("cron expressions need one more package: pip install 'outlast[cron]'") from error

    if len(expression.split()) != _CRON_FIELDS:
        raise ConfigError(f"cron is {expression!r}; give five fields, such as '*/15 * * * *'")

    def following(after: datetime) -> datetime:
        found: datetime = next(CronSim(expression, after.astimezone(zone)))
        return found.astimezone(UTC)

    try:
        following(datetime.fromtimestamp(clock.now(), UTC))
    except (CronSimError, StopIteration) as error:
        raise ConfigError(
            f"cron is {expression!r}, which has no next time ({error}); give five fields, such as '*/15 * * * *'"
        ) from error
    return following
