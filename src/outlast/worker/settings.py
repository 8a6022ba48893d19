"""The settings of a worker, read from whatever its program keeps settings in."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from outlast.errors import ConfigError
from outlast.queue.definition import seconds
from outlast.worker.strategies import ExponentialBackoffStrategy, RetryStrategyProtocol

__all__ = ["BaseSettings", "settings_from"]


class BaseSettings(NamedTuple):
    """What a worker needs to know.

    Attributes:
        queues: Where it looks for tasks.
        lease: Seconds that it may be silent before its task is given to another.
        heartbeat: Seconds between two signs of life.
        poll_interval: Seconds between two looks while there is nothing to do.
        crash_limit: Workers that a task may take down before it is a dead letter.
        keep_result: Seconds for which results are kept; 0 for not at all.
        strategy: How often a task is tried, and after how long.
    """

    queues: tuple[str, ...]
    lease: float
    heartbeat: float
    poll_interval: float
    crash_limit: int
    keep_result: float
    strategy: RetryStrategyProtocol


def settings_from(config: Any) -> BaseSettings:
    """Read the settings.

    Args:
        config: A mapping or an object with some of ``queues``, ``lease`` (20), ``heartbeat`` (a quarter of it),
            ``poll_interval`` (1), ``crash_limit`` (3), ``keep_result`` (7 days), ``retry_strategy``, or else
            ``max_retries`` (5), ``base_delay`` (1), ``max_delay`` (300) and ``jitter`` (True). What else it has is the
            program's own.

    Raises:
        ConfigError: If a setting cannot be used.
    """

    def given(name: str, default: Any) -> Any:
        found = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        return default if found is None else found

    def span(name: str, default: float, *, least: float = 0.0) -> float:
        return seconds(name, given(name, default), least=least) or 0.0

    queues = given("queues", ("default",))
    queues = (queues,) if isinstance(queues, str) else tuple(queues)
    if not queues or not all(isinstance(each, str) and each for each in queues):
        message = f"queues is {queues!r}; give the names of queues"
        raise ConfigError(message)
    lease = span("lease", 20.0, least=0.1)
    heartbeat = span("heartbeat", lease / 4, least=0.01)
    if heartbeat * 2 > lease:
        message = f"heartbeat is {heartbeat:g} s and lease {lease:g} s; a lease has to outlive two heartbeats"
        raise ConfigError(message)
    crash_limit = given("crash_limit", 3)
    if not isinstance(crash_limit, int) or crash_limit < 1:
        message = f"crash_limit is {crash_limit!r}; give a whole number, 1 or more"
        raise ConfigError(message)
    strategy = given("retry_strategy", None)
    if strategy is None:
        names = ("max_retries", "base_delay", "max_delay", "jitter")
        strategy = ExponentialBackoffStrategy(
            **{name: value for name in names if (value := given(name, None)) is not None}
        )
    return BaseSettings(
        queues, lease, heartbeat, span("poll_interval", 1.0), crash_limit, span("keep_result", 7 * 86400.0), strategy
    )
