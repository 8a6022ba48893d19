"""The settings of a worker, read from whatever its program keeps settings in."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from outlast import clock
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.queue.definition import seconds

# When a worker tries again, and how long it waits until then.


@runtime_checkable
class RetryStrategyProtocol(Protocol):
    """What a worker asks after a failed attempt; any object with these two methods will do."""

    def should_retry(self, error: Exception, attempt: int) -> bool:
        """Tell whether another attempt is due."""

    def get_retry_delay(self, attempt: int) -> float:
        """Return the seconds until then."""


class _PolicyStrategy:
    """What the strategies share: a policy that is asked in a worker's words."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.max_retries = policy.max_retries

    def should_retry(self, error: Exception, attempt: int) -> bool:  # noqa: ARG002  # the protocol hands it over
        """Tell whether attempts are left; what the error is, the classifier says.

        Args:
            error: What was raised.
            attempt: Number of the attempt that failed, from 1.
        """
        return attempt < self.policy.max_attempts

    def get_retry_delay(self, attempt: int) -> float:
        """Return the seconds to wait after a failed attempt.

        Args:
            attempt: Its number, from 1.
        """
        return self.policy.get_delay(attempt, chance=clock.chance)

    def increment_attempt(self, attempt: int) -> int:
        """Return the number of the next attempt."""
        return attempt + 1


class ExponentialBackoffStrategy(_PolicyStrategy):
    """Waits that double: 2, 4, 8 … times the base, a tenth more or less, up to a cap.

    Args:
        max_retries: Calls in all.
        base_delay: Seconds; the first wait is twice as long.
        max_delay: Seconds that no wait exceeds, jitter included.
        jitter: Whether waits vary by a tenth.
    """

    def __init__(
        self,
        max_retries: int = 5,
        base_delay: float = 1.0,
        max_delay: float = 300.0,
        jitter: bool = True,  # noqa: FBT001, FBT002  # its place among the arguments is the seeds'
    ) -> None:
        """Check and keep the settings."""
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
    """Waits that grow by the base: 1, 2, 3 … times.

    Args:
        max_retries: Calls in all.
        base_delay: Seconds before the first retry.
    """

    def __init__(self, max_retries: int = 3, base_delay: float = 5.0) -> None:
        """Check and keep the settings."""
        day = 86400.0  # no wait is longer, however many attempts there are
        super().__init__(RetryPolicy(max_retries=max_retries, backoff="linear", base_delay=base_delay, max_delay=day))
        self.base_delay = base_delay


class BaseWorkerSettings(NamedTuple):
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


def read_settings(config: Any) -> BaseWorkerSettings:
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
    return BaseWorkerSettings(
        queues, lease, heartbeat, span("poll_interval", 1.0), crash_limit, span("keep_result", 7 * 86400.0), strategy
    )
