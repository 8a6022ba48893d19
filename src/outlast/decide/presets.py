"""Ready-made policies by name; adapt one with ``replace``."""

from outlast.decide.backoff import choice
from outlast.decide.policy import RetryPolicy
from outlast.failure import RETRYABLE, Category

# Equal jitter waits at least half of the time: 60 s or more.
_RATE_LIMIT_OVERRIDE = {Category.RATE_LIMIT: {"base_delay": 120.0, "max_delay": 300.0, "jitter": "equal"}}

_WORKER = RetryPolicy(
    max_attempts=5, retry_on=RETRYABLE, backoff="exponential", base_delay=2.0, max_delay=300.0, jitter="full"
)
PRESETS: dict[str, RetryPolicy] = {
    "blog": _WORKER.replace(max_attempts=3, max_delay=30.0, overrides=_RATE_LIMIT_OVERRIDE),
    "etl": _WORKER.replace(base_delay=1.0, max_delay=60.0),
    "feed": _WORKER.replace(
        max_attempts=4,
        retry_on={Category.ACCESS_DENIED},
        base_delay=1.0,
        max_delay=4.0,
        overrides=_RATE_LIMIT_OVERRIDE,
    ),
    "worker": _WORKER,
}
"""`blog`: pages polled for changes. `etl`: targets of a batch job. `feed`: retries a 403 after 1, 2 and 4 s; any other
failure counts for the source's health. `worker`: tasks of a queue."""


def preset(name: str) -> RetryPolicy:
    """Return the preset with this name.

    Raises:
        ConfigError: If it does not exist; the message lists the valid names.
    """
    return choice("preset", PRESETS, name)
