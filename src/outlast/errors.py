"""The exceptions of Outlast, and the ones your own code may raise.

Raise one of the leaves where you know better than any rule what went wrong; the classifier takes it at its word.
All of them survive pickling, so they may cross a process boundary.

    OutlastError                    something is wrong with how Outlast is used
    ├── JobLockedError               somebody else runs that job at the moment
    ├── ConfigError                  a setting or rule that cannot be used (also a ValueError)
    ├── LeaseLostError               a worker was taken for dead; what it held is no longer its own
    └── SchemaError                  the tables are missing, older or newer than this version works with

    WorkerError                      what user code raises to say what happened
    ├── SkipTarget                   this target of a job is left out; no failure
    ├── AbortJob                     the whole job ends here
    ├── RetryableError               may succeed later; carries ``retry_after``
    │   ├── NetworkError             the other side could not be reached
    │   ├── RateLimitError           asked too often
    │   ├── TemporaryAPIError        the service is not well at the moment
    │   ├── DatabaseBusyError        locked, deadlocked, out of connections
    │   └── ResourceUnavailableError not called at all: we hold back
    │       ├── BreakerOpenError         its breaker is open
    │       ├── ConcurrencyLimitError    too many calls are running
    │       └── CoolingDownError         it asked to be left alone for a while
    └── PermanentError               trying again changes nothing
        ├── InvalidParametersError   the request itself is wrong
        │   └── PayloadError             arguments that cannot be stored, or read back
        ├── ResourceNotFoundError    it is not there (any more)
        ├── AuthenticationError      refused for who we are
        ├── QuotaExhaustedError      the allowance is used up; carries ``retry_after``
        ├── ConfigurationError       a key, URL or setting is missing or wrong
        ├── BodyTooLargeError        the answer is longer than it may be
        └── ContentError             the answer is there and cannot be used: no feed, nothing where something should be
"""

__all__ = [
    "AbortJob",
    "AuthenticationError",
    "BodyTooLargeError",
    "BreakerOpenError",
    "ConcurrencyLimitError",
    "ConfigError",
    "ConfigurationError",
    "ContentError",
    "CoolingDownError",
    "DatabaseBusyError",
    "InvalidParametersError",
    "JobLockedError",
    "LeaseLostError",
    "NetworkError",
    "OutlastError",
    "PayloadError",
    "PermanentError",
    "QuotaExhaustedError",
    "RateLimitError",
    "ResourceNotFoundError",
    "ResourceUnavailableError",
    "RetryableError",
    "SchemaError",
    "SkipTarget",
    "TemporaryAPIError",
    "WorkerError",
]


class OutlastError(Exception):
    """Base of the errors that Outlast itself raises about its use."""


class ConfigError(OutlastError, ValueError):
    """A setting, rule or policy that cannot be used; the message names the place and the valid choices."""


class JobLockedError(OutlastError):
    """Somebody else runs that job at the moment.

    Args:
        job: Its name.
        holder: Who, as far as it is known.
    """

    def __init__(self, job: str, holder: str | None = None) -> None:
        """Keep both."""
        super().__init__(job, holder)
        self.job, self.holder = job, holder

    def __str__(self) -> str:
        """Say what to do."""
        who = f" ({self.holder})" if self.holder else ""
        return f"job {self.job} is being run by somebody else{who}; wait for it to end, or end it"


class LeaseLostError(OutlastError):
    """A worker was taken for dead, and what it held was given to others.

    Args:
        worker_id: Which worker.
    """

    def __init__(self, worker_id: str) -> None:
        """Keep the worker."""
        super().__init__(worker_id)
        self.worker_id = worker_id

    def __str__(self) -> str:
        """Say what happened."""
        return f"worker {self.worker_id} lost its lease; what it held was given to others"


class SchemaError(OutlastError):
    """The tables are missing, older or newer than this version of Outlast works with.

    Args:
        found: Version of the tables; 0 where there are none.
        known: The version that is needed.
    """

    def __init__(self, found: int, known: int) -> None:
        """Keep the versions."""
        super().__init__(found, known)
        self.found, self.known = found, known

    def __str__(self) -> str:
        """Say what to do."""
        if self.found == 0:
            return "the database has no tables of Outlast; run: outlast db init"
        if self.found < self.known:
            return f"the tables have version {self.found}, this Outlast needs {self.known}; run: outlast db migrate"
        return (
            f"the tables have version {self.found}, this Outlast knows versions up to {self.known}: a newer one has "
            "changed them; upgrade this one"
        )


class WorkerError(Exception):
    """Base of the errors that user code raises to tell Outlast what happened."""


class SkipTarget(WorkerError):  # noqa: N818  # it says what to do, as StopIteration does
    """Raised by the handler of a job: this target is left out, for a reason, and that is no failure."""


class AbortJob(WorkerError):  # noqa: N818  # the same
    """Raised by the handler of a job: the whole job ends here, for a reason."""


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


class CoolingDownError(ResourceUnavailableError):
    """The resource asked to be left alone, and the time is not over; `retry_after` tells how long that is."""


class PermanentError(WorkerError):
    """Something that fails in the same way however often it is tried."""


class InvalidParametersError(PermanentError):
    """The request or the task's parameters are wrong."""


class PayloadError(InvalidParametersError):
    """The arguments or the result of a task cannot be stored as JSON, or cannot be read back."""


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


class BodyTooLargeError(PermanentError):
    """The answer is longer than it may be."""


class ContentError(PermanentError):
    """The answer is there and cannot be used: it is no feed, or lacks the part that is watched."""
