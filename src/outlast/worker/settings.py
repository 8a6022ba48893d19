"""The settings of a `BaseWorker`, and its retry strategies."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from outlast import clock
from outlast.decide.backoff import check_count
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.queue.definition import required_seconds
from outlast.queue.settings import checked_lease

_LONGEST_DELAY = 86400.0  # seconds; limits the linear backoff after many attempts


@runtime_checkable
class RetryStrategyProtocol(Protocol):
    """Decides about retries after a failed attempt. Any object with these two methods fits."""

    def should_retry(self, error: Exception, attempt: int) -> bool:
        """Return whether to retry."""

    def get_retry_delay(self, attempt: int) -> float:
        """Return the seconds to wait before the retry."""


class _PolicyStrategy:
    """A strategy that uses a `RetryPolicy`."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.max_retries = policy.max_retries

    def should_retry(self, error: Exception, attempt: int) -> bool:  # noqa: ARG002  # part of the protocol
        """Return whether attempts are left. Whether the error is retryable is up to the classifier.

        Args:
            error: The error of the attempt.
            attempt: Number of the attempt that failed, from 1.
        """
        return attempt < self.policy.max_attempts

    def get_retry_delay(self, attempt: int) -> float:
        """Return the seconds to wait after a failed attempt.

        Args:
            attempt: Number of the failed attempt, from 1.
        """
        return self.policy.get_delay(attempt, chance=clock.chance)

    def increment_attempt(self, attempt: int) -> int:
        """Return the number of the next attempt."""
        return attempt + 1


class ExponentialBackoffStrategy(_PolicyStrategy):
    """Exponential backoff: waits of 2, 4, 8 … times the base delay, with jitter, up to a maximum.

    Args:
        max_retries: Number of attempts, including the first.
        base_delay: Seconds; the first wait is twice as long.
        max_delay: Longest wait in seconds, including jitter.
        jitter: Whether waits vary by up to 10 %.
    """

    def __init__(
        self,
        max_retries: int = 5,
        base_delay: float = 1.0,
        max_delay: float = 300.0,
        jitter: bool = True,  # noqa: FBT001, FBT002  # positional for compatibility
    ) -> None:
        super().__init__(
            RetryPolicy(
                max_retries=max_retries,
                backoff="exponential",
                base_delay=2 * base_delay,
                max_delay=max_delay,
                jitter=0.1 if jitter else 0.0,
            )
        )
        self.base_delay, self.max_delay, self.jitter = base_delay, max_delay, jitter


class LinearBackoffStrategy(_PolicyStrategy):
    """Linear backoff: waits of 1, 2, 3 … times the base delay.

    Args:
        max_retries: Number of attempts, including the first.
        base_delay: Seconds before the first retry.
    """

    def __init__(self, max_retries: int = 3, base_delay: float = 5.0) -> None:
        super().__init__(
            RetryPolicy(max_retries=max_retries, backoff="linear", base_delay=base_delay, max_delay=_LONGEST_DELAY)
        )
        self.base_delay = base_delay


class BaseWorkerSettings(NamedTuple):
    """The settings of a worker.

    Attributes:
        queues: The queues to claim tasks from.
        lease: Seconds without a heartbeat after which another worker takes the task.
        heartbeat: Seconds between two heartbeats.
        poll_interval: Seconds between two claims while no task is due.
        crash_limit: Number of workers that a task may crash before it becomes a dead letter.
        keep_result: Seconds to keep results; 0 to discard them.
        strategy: Number of attempts and the waits between them.
    """

    queues: tuple[str, ...]
    lease: float
    heartbeat: float
    poll_interval: float
    crash_limit: int
    keep_result: float
    strategy: RetryStrategyProtocol


def read_settings(config: Any) -> BaseWorkerSettings:
    """Return the settings of a worker.

    Args:
        config: A mapping or an object with some of ``queues``, ``lease`` (20), ``heartbeat`` (a quarter of the lease),
            ``poll_interval`` (1), ``crash_limit`` (3), ``keep_result`` (7 days), and either ``retry_strategy`` or
            ``max_retries`` (5), ``base_delay`` (1), ``max_delay`` (300) and ``jitter`` (True). Other names are ignored.

    Raises:
        ConfigError: If a setting is not valid.
    """

    def setting(name: str, default: Any) -> Any:
        found = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        return default if found is None else found

    queues = setting("queues", ("default",))
    queues = (queues,) if isinstance(queues, str) else tuple(queues)
    if not queues or not all(isinstance(each, str) and each for each in queues):
        raise ConfigError(f"queues is {queues!r}; give the names of queues")
    lease, heartbeat = checked_lease(setting("lease", 20.0), setting("heartbeat", None))
    strategy = setting("retry_strategy", None)
    if strategy is None:
        names = ("max_retries", "base_delay", "max_delay", "jitter")
        given = {name: setting(name, None) for name in names}
        strategy = ExponentialBackoffStrategy(**{name: value for name, value in given.items() if value is not None})
    return BaseWorkerSettings(
        queues,
        lease,
        heartbeat,
        required_seconds("poll_interval", setting("poll_interval", 1.0), 0.0),
        check_count("crash_limit", setting("crash_limit", 3), 1),
        required_seconds("keep_result", setting("keep_result", 7 * 86400.0), 0.0),
        strategy,
    )
