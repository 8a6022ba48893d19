"""When a worker tries again, and how long it waits until then."""

from typing import Protocol, runtime_checkable

from outlast import clock
from outlast.decide.policy import RetryPolicy

__all__ = ["ExponentialBackoffStrategy", "LinearBackoffStrategy", "RetryStrategyProtocol"]


@runtime_checkable
class RetryStrategyProtocol(Protocol):
    """What a worker asks after a failed attempt; any object with these two methods will do."""

    def should_retry(self, error: Exception, attempt: int) -> bool:
        """Tell whether another attempt is due."""

    def get_retry_delay(self, attempt: int) -> float:
        """Return the seconds until then."""


class _Strategy:
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


class ExponentialBackoffStrategy(_Strategy):
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


class LinearBackoffStrategy(_Strategy):
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
