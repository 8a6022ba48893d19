"""Celery and billiard, its process pool: what became of a task, and the broker's or backend's error inside."""

from outlast.classify.libraries.library import Library
from outlast.classify.peek import peek, peek_error
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

_LONGEST_WAIT = 1e9


def read_retry(error: object) -> "Found":
    """Celery is told to run the task again, after `when` seconds where that is a number."""
    when = peek(error, "when")
    known = isinstance(when, int | float) and not isinstance(when, bool) and 0 <= when < _LONGEST_WAIT
    return Evidence(category=Category.API_TEMPORARY, retry_after=float(when) if known else None)  # type: ignore[arg-type]  # a number, by the line before


def read_reject(error: object) -> "Found":
    """Whether the message goes back to its queue."""
    again = peek(error, "requeue") is True
    return Evidence(category=Category.API_TEMPORARY if again else Category.UNKNOWN)


def read_backend(error: object) -> "Found":
    """The error of the result backend that this one was raised for."""
    return peek_error(error, "__cause__", "__context__")


def _named(names: str, package: str = "celery") -> str:
    return " ".join(f"{package}.{name}" for name in names.split())


LIBRARY = Library(
    title="Celery and billiard",
    origin=Origin.MESSAGING,
    origins={"billiard": Origin.PROCESS},
    says={
        Category.NETWORK: (
            _named("TimeoutError") + " " + _named("SoftTimeLimitExceeded TimeLimitExceeded", package="billiard")
        ),
        Category.API_TEMPORARY: _named("BackendError"),
        Category.SYSTEM: _named("WorkerLostError RestartFreqExceeded", package="billiard"),
        Category.AUTHENTICATION: _named("SecurityError"),
        Category.NOT_FOUND: _named("DocumentNotFoundException"),
        Category.CONFIGURATION: _named(
            "ImproperlyConfigured NotRegistered AlreadyRegistered QueueNotFound LockFailed ParseException CycleError "
            "NotAPackage"
        ),
        Category.INVALID_PARAMETERS: _named("InvalidTaskError") + " billiard.MaybeEncodingError",
        Category.DATA: _named("IncompleteStream BacklogLimitExceeded"),
        Category.UNKNOWN: _named("MaxRetriesExceededError TaskRevokedError Ignore") + " billiard.Terminated",
    },
    reads={"celery.Retry": read_retry, "celery.Reject": read_reject, "celery.BackendError": read_backend},
    silent=(
        _named(
            "CeleryError TaskError TaskPredicate Retry Reject ChordError SchedulingError CeleryCommandException "
            "UnpickleableExceptionWrapper WorkerShutdown WorkerTerminate _PidboxStopping StopFiltering"
        )
        + " "
        + _named("CoroStop WorkersJoined RemoteError RemoteTraceback ExceptionWithTraceback", package="billiard")
    ),
)
