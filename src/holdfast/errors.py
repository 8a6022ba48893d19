"""The exceptions of Holdfast, and the ones your own code may raise.

Raise one of the leaves where you know better than any rule what went wrong; the classifier takes it at its word.
All of them survive pickling, so they may cross a process boundary.

    HoldfastError                    something is wrong with how Holdfast is used
    └── ConfigError                  a setting or rule that cannot be used (also a ValueError)

    WorkerError                      what user code raises to say what happened
    ├── RetryableError               may succeed later; carries ``retry_after``
    │   ├── NetworkError             the other side could not be reached
    │   ├── RateLimitError           asked too often
    │   ├── TemporaryAPIError        the service is not well at the moment
    │   ├── DatabaseBusyError        locked, deadlocked, out of connections
    │   └── ResourceUnavailableError not called at all: we hold back
    │       ├── BreakerOpenError         its breaker is open
    │       └── ConcurrencyLimitError    too many calls are running
    └── PermanentError               trying again changes nothing
        ├── InvalidParametersError   the request itself is wrong
        ├── ResourceNotFoundError    it is not there (any more)
        ├── AuthenticationError      refused for who we are
        ├── QuotaExhaustedError      the allowance is used up; carries ``retry_after``
        └── ConfigurationError       a key, URL or setting is missing or wrong
"""

__all__ = [
    "AuthenticationError",
    "BreakerOpenError",
    "ConcurrencyLimitError",
    "ConfigError",
    "ConfigurationError",
    "DatabaseBusyError",
    "HoldfastError",
    "InvalidParametersError",
    "NetworkError",
    "PermanentError",
    "QuotaExhaustedError",
    "RateLimitError",
    "ResourceNotFoundError",
    "ResourceUnavailableError",
    "RetryableError",
    "TemporaryAPIError",
    "WorkerError",
]


class HoldfastError(Exception):
    """Base of the errors that Holdfast itself raises about its use."""


class ConfigError(HoldfastError, ValueError):
    """A setting, rule or policy that cannot be used; the message names the place and the valid choices."""


class WorkerError(Exception):
    """Base of the errors that user code raises to tell Holdfast what happened."""


class RetryableError(WorkerError):
    """Something that may succeed when it is tried again.

    Args:
        message: What happened, for people.
        retry_after: Seconds to wait before the next attempt, taken as an instruction: 0 means at once,
            None leaves the wait to the policy.
    """

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        """Keep the message and the hint."""
        super().__init__(message)
        self.retry_after = retry_after


class NetworkError(RetryableError):
    """The other side could not be reached: refused, reset, unresolved, timed out."""


class RateLimitError(RetryableError):
    """The other side asks for fewer requests."""


class TemporaryAPIError(RetryableError):
    """The service is there and not well."""


class DatabaseBusyError(RetryableError):
    """The database is locked, deadlocked or out of connections."""


class ResourceUnavailableError(RetryableError):
    """The resource was not called: we hold back."""


class BreakerOpenError(ResourceUnavailableError):
    """The resource's breaker is open; `retry_after` tells for how long, where that is known."""


class ConcurrencyLimitError(ResourceUnavailableError):
    """As many calls of the resource are running as may."""


class PermanentError(WorkerError):
    """Something that fails in the same way however often it is tried."""


class InvalidParametersError(PermanentError):
    """The request or the task's parameters are wrong."""


class ResourceNotFoundError(PermanentError):
    """What was asked for does not exist, or no longer."""


class AuthenticationError(PermanentError):
    """Credentials are missing, wrong or not sufficient."""


class QuotaExhaustedError(PermanentError):
    """An allowance is used up.

    Args:
        message: What happened, for people.
        retry_after: Seconds until the allowance is renewed, where that is known.
    """

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        """Keep the message and the time of renewal."""
        super().__init__(message)
        self.retry_after = retry_after


class ConfigurationError(PermanentError):
    """A key, URL or setting is missing or wrong."""
