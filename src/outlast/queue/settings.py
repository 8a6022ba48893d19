"""The settings of workers."""

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from outlast.errors import ConfigError
from outlast.queue.definition import required_seconds, seconds

_LEAST_MEMORY = 2**20  # bytes
_MOST_MEMORY = 2**62  # bytes


class WorkerSettings(NamedTuple):
    """What an app hands to its workers.

    Attributes:
        spool: Folder for outcomes that could not be stored before the end.
        lease: Seconds that a worker may be silent before its tasks are given to others.
        heartbeat: Seconds between two signs of life.
        crash_limit: Processes that a task may take down while it runs alone.
        grace: Seconds that running tasks have to end when the worker stops.
        keep_done: Seconds for which finished tasks are kept; None for ever.
        keep_dead: Seconds for which dead letters are kept; None for ever.
        alert_age: Seconds after which a dead letter that waits is told of; None for never.
        suspect_memory: Bytes that a suspect may take, up to 1 a share of the machine's; None for no limit.
        suspect_timeout: Seconds that a suspect without a timeout may take; None for no limit.
    """

    spool: Path
    lease: float = 20.0
    heartbeat: float = 5.0
    crash_limit: int = 3
    grace: float = 30.0
    keep_done: float | None = 7 * 86400.0
    keep_dead: float | None = None
    alert_age: float | None = 86400.0
    suspect_memory: float | None = 0.5
    suspect_timeout: float | None = 3600.0


def worker_settings(  # noqa: PLR0913  # the settings
    spool: Path,
    *,
    lease: float,
    heartbeat: float | None,
    crash_limit: int,
    grace: float,
    keep_done: float | timedelta | None,
    keep_dead: float | timedelta | None,
    alert_age: float | timedelta | None,
    suspect_memory: float | None,
    suspect_timeout: float | timedelta | None,
) -> WorkerSettings:
    """Return the settings of an app's workers.

    Raises:
        ConfigError: If one cannot be used.
    """
    lease = required_seconds("lease", lease, 0.1)
    beat = required_seconds("heartbeat", lease / 4 if heartbeat is None else heartbeat, 0.01)
    if beat * 2 > lease:
        message = f"heartbeat is {beat:g} s and lease {lease:g} s; the lease must be at least two heartbeats long"
        raise ConfigError(message)
    limit: object = crash_limit
    if not isinstance(limit, int) or limit < 1:
        message = f"crash_limit is {crash_limit!r}; give a whole number, 1 or more"
        raise ConfigError(message)
    return WorkerSettings(
        spool=spool,
        lease=lease,
        heartbeat=beat,
        crash_limit=crash_limit,
        grace=required_seconds("grace", grace, 0.0),
        keep_done=seconds("keep_done", keep_done),
        keep_dead=seconds("keep_dead", keep_dead),
        alert_age=seconds("alert_age", alert_age),
        suspect_memory=_check_memory(suspect_memory),
        suspect_timeout=seconds("suspect_timeout", suspect_timeout, least=0.001),
    )


def _check_memory(given: float | None) -> float | None:
    value: object = given
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 0 < value <= 1:
            return float(value)
        if _LEAST_MEMORY <= value <= _MOST_MEMORY:
            return int(value)
    message = (
        f"suspect_memory is {given!r}; give bytes, {_LEAST_MEMORY} or more, or a share of the machine's memory, "
        "above 0 and up to 1"
    )
    raise ConfigError(message)
