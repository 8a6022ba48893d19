"""The settings of workers."""

from pathlib import Path
from typing import NamedTuple

from outlast.errors import ConfigError
from outlast.queue.definition import required_seconds

_LEAST_MEMORY = 2**20  # bytes
_MOST_MEMORY = 2**62  # bytes


class WorkerSettings(NamedTuple):
    """The settings of an app's workers.

    Attributes:
        spool: Folder for outcomes that could not be stored before a worker ended.
        lease: Seconds without a heartbeat after which the tasks of a worker are given to others.
        heartbeat: Seconds between two heartbeats.
        crash_limit: How often a suspect may crash its process.
        grace: Seconds for running tasks to end when the worker stops.
        keep_done: Seconds to keep finished tasks; None forever.
        keep_dead: Seconds to keep dead letters; None forever.
        alert_age: Seconds after which a dead letter raises an alert; None for never.
        suspect_memory: Memory limit of a suspect in bytes, or up to 1 as a share of the machine's; None for no limit.
        suspect_timeout: Seconds for a suspect without a timeout; None for no limit.
    """

    spool: Path
    lease: float
    heartbeat: float
    crash_limit: int
    grace: float
    keep_done: float | None
    keep_dead: float | None
    alert_age: float | None
    suspect_memory: float | None
    suspect_timeout: float | None


def checked_lease(lease: object, heartbeat: object) -> tuple[float, float]:
    """Return a lease and a heartbeat, which is by default a quarter of the lease, in seconds.

    Raises:
        ConfigError: If one is not valid.
    """
    seconds = required_seconds("lease", lease, 0.1)
    beat = required_seconds("heartbeat", seconds / 4 if heartbeat is None else heartbeat, 0.01)
    if beat * 2 > seconds:
        raise ConfigError(
            f"heartbeat is {beat:g} s and lease {seconds:g} s; the lease must be at least two heartbeats long"
        )
    return seconds, beat


def checked_memory(value: object) -> float | None:
    """Return the memory limit of a suspect.

    Raises:
        ConfigError: If it is not valid.
    """
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 0 < value <= 1:
            return float(value)
        if _LEAST_MEMORY <= value <= _MOST_MEMORY:
            return int(value)
    raise ConfigError(
        f"suspect_memory is {value!r}; give bytes, {_LEAST_MEMORY} or more, or a share of the machine's memory, "
        "above 0 and up to 1"
    )
