"""The exceptions that Outlast raises, and the ones your own code may raise.

Raise one of the leaves below WorkerError if you know what went wrong; the classifier uses its category. All of them can
be pickled, so they can cross a process boundary.

    OutlastError                     base of errors about the use of Outlast
    ├── JobLockedError               another process runs the job at the moment
    ├── ConfigError                  a setting or rule is not valid (also a ValueError)
    ├── LeaseLostError               a worker lost its lease; other workers have its tasks now
    ├── TaskFailedError              a task whose result was asked for failed or was cancelled
    └── SchemaError                  the tables are missing, or of an unsupported version

    WorkerError                      base of the errors that your code raises
    ├── SkipTarget                   skip this target of a job; not a failure
    ├── AbortJob                     stop the whole job
    ├── RetryableError               a retry may succeed; has ``retry_after``
    │   ├── NetworkError             the server could not be reached
    │   ├── RateLimitError           too many requests
    │   ├── TemporaryAPIError        the service has a temporary problem
    │   ├── DatabaseBusyError        locked, deadlocked, out of connections
    │   └── ResourceUnavailableError the call was not made
    │       ├── BreakerOpenError         the circuit breaker is open
    │       ├── ConcurrencyLimitError    too many calls are running
    │       ├── CoolingDownError         the resource is in a cooldown
    │       └── LocalRateLimitError      the rate limit of this process allows no call in time
    └── PermanentError               a retry would fail too
        ├── InvalidParametersError   the request is not valid
        │   └── PayloadError             arguments that cannot be stored or read
        ├── ResourceNotFoundError    the resource does not exist
        ├── AuthenticationError      credentials are missing, wrong or not sufficient
        ├── QuotaExhaustedError      a quota is exhausted; has ``retry_after``
        ├── ConfigurationError       a key, URL or setting is missing or wrong
        ├── BodyTooLargeError        the response is too large
        └── ContentError             the response cannot be used: not a feed, or a part is missing
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.failure import Failure


class OutlastError(Exception):
    """Base of the errors about the use of Outlast."""


class ConfigError(OutlastError, ValueError):
    """A setting, rule or policy is not valid; the message names the place and the valid choices."""


class JobLockedError(OutlastError):
    """Another process runs the job at the moment.

    Args:
        job: Name of the job.
        holder: The process that runs it, if known.
    """

    def __init__(self, job: str, holder: str | None = None) -> None:
        super().__init__(job, holder)
        self.job, self.holder = job, holder

    def __str__(self) -> str:
        """Return what is wrong and what to do."""
        who = f" ({self.holder})" if self.holder else ""
        return f"job {self.job} is already running{who}; wait until it ends, or stop it"


class LeaseLostError(OutlastError):
    """A worker lost its lease; other workers have its tasks now.

    Args:
        worker_id: Id of the worker.
    """

    def __init__(self, worker_id: str) -> None:
        super().__init__(worker_id)
        self.worker_id = worker_id

    def __str__(self) -> str:
        """Return what happened."""
        return f"worker {self.worker_id} lost its lease; other workers have its tasks now"


class SchemaError(OutlastError):
    """The tables are missing, or their version does not fit this version of Outlast.

    Args:
        found: Version of the tables; 0 if there are none.
        known: The version that this Outlast needs.
        advice: What is wrong and what to do, unless ``outlast db init`` or ``outlast db migrate`` is enough.
    """

    def __init__(self, found: int, known: int, advice: str = "") -> None:
        super().__init__(found, known, advice)
        self.found, self.known, self.advice = found, known, advice

    def __str__(self) -> str:
        """Return what is wrong and what to do."""
        if self.advice:
            return self.advice
        if self.found == 0:
            return "the database has no Outlast tables; run: outlast db init"
        if self.found < self.known:
            return f"the tables have version {self.found}, this Outlast needs {self.known}; run: outlast db migrate"
        return (
            f"the tables have version {self.found}, this Outlast supports versions up to {self.known}: a newer Outlast "
            "has migrated them; upgrade this one"
        )


class TaskFailedError(OutlastError):
    """A task has no result, because it became a dead letter or was cancelled.

    Args:
        task_id: Id of the task.
        message: What happened.
        failure: The failure that ended it; None if it was cancelled.
    """

    def __init__(self, task_id: int, message: str, failure: "Failure | None" = None) -> None:
        super().__init__(task_id, message, failure)
        self.task_id, self.message, self.failure = task_id, message, failure

    def __str__(self) -> str:
        """Return what happened."""
        return self.message


class WorkerError(Exception):
    """Base of the errors that your code raises to say what happened."""


class SkipTarget(WorkerError):  # noqa: N818  # a signal, like StopIteration
    """Raise it in the handler of a job to skip this target. A skipped target is not a failure."""


class AbortJob(WorkerError):  # noqa: N818  # a signal too
    """Raise it in the handler of a job to stop the whole job."""


class RetryableError(WorkerError):
    """A failure that a retry may resolve.

    Args:
        message: What happened.
        retry_after: Seconds to wait before the next attempt, used unchanged: 0 means at once, None leaves the wait to
            the policy.
    """

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NetworkError(RetryableError):
    """The server could not be reached: refused, reset, unresolved, timed out."""


class RateLimitError(RetryableError):
    """The server asks for fewer requests."""


class TemporaryAPIError(RetryableError):
    """The service was reached and has a temporary problem."""


class DatabaseBusyError(RetryableError):
    """The database is locked, deadlocked or out of connections."""


class ResourceUnavailableError(RetryableError):
    """Outlast did not call the resource."""


class BreakerOpenError(ResourceUnavailableError):
    """The resource's circuit breaker is open; `retry_after` is for how many seconds, if known."""


class ConcurrencyLimitError(ResourceUnavailableError):
    """The maximum number of calls of the resource is running."""


class CoolingDownError(ResourceUnavailableError):
    """The resource asked for a pause that is not over; `retry_after` is how many seconds are left."""


class LocalRateLimitError(ResourceUnavailableError):
    """A rate limit of this process allows the call only after its deadline; `retry_after` is in how many seconds."""


class PermanentError(WorkerError):
    """A failure that a retry does not resolve."""


class InvalidParametersError(PermanentError):
    """The request or the task's parameters are not valid."""


class PayloadError(InvalidParametersError):
    """The arguments or the result of a task cannot be stored as JSON, or cannot be read."""


class ResourceNotFoundError(PermanentError):
    """The resource does not exist, or no longer."""


class AuthenticationError(PermanentError):
    """Credentials are missing, wrong or not sufficient."""


class QuotaExhaustedError(PermanentError):
    """A quota is exhausted.

    Args:
        message: What happened.
        retry_after: Seconds until the quota is renewed, if known.
    """

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConfigurationError(PermanentError):
    """A key, URL or setting is missing or wrong."""


class BodyTooLargeError(PermanentError):
    """The response is larger than allowed."""


class ContentError(PermanentError):
    """The response cannot be used: it is not a feed, or lacks the watched part."""


__all__ = tuple(sorted(name for name, each in vars().items() if isinstance(each, type)))
