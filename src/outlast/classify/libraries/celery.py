"""Celery and billiard, its process pool: what became of a task, and the broker's or backend's error inside."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_error, safe_getattr
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

_LONGEST_WAIT = 1e9


def read_retry(error: object) -> "Found":
    """Celery is told to run the task again, after `when` seconds where that is a number."""
    when = safe_getattr(error, "when")
    known = isinstance(when, int | float) and not isinstance(when, bool) and 0 <= when < _LONGEST_WAIT
    return Evidence(category=Category.API_TEMPORARY, retry_after=float(when) if known else None)  # type: ignore[arg-type]  # a number, by the line before


def read_reject(error: object) -> "Found":
    """Whether the message goes back to its queue."""
    again = safe_getattr(error, "requeue") is True
    return Evidence(category=Category.API_TEMPORARY if again else Category.UNKNOWN)


def read_backend(error: object) -> "Found":
    """The error of the result backend that this one was raised for."""
    return safe_error(error, "__cause__", "__context__")


def _qualify(names: str, package: str = "celery") -> str:
    return " ".join(f"{package}.{name}" for name in names.split())


LIBRARY = Library(
    title="Celery and billiard",
    origin=Origin.MESSAGING,
    origins={"billiard": Origin.PROCESS},
    says={
        Category.NETWORK: (
            _qualify("TimeoutError") + " " + _qualify("SoftTimeLimitExceeded TimeLimitExceeded", package="billiard")
        ),
        Category.API_TEMPORARY: _qualify("BackendError"),
        Category.SYSTEM: _qualify("WorkerLostError RestartFreqExceeded", package="billiard"),
        Category.AUTHENTICATION: _qualify("SecurityError"),
        Category.NOT_FOUND: _qualify("DocumentNotFoundException"),
        Category.CONFIGURATION: _qualify(
            "ImproperlyConfigured NotRegistered AlreadyRegistered QueueNotFound LockFailed ParseException CycleError "
            "NotAPackage"
        ),
        Category.INVALID_PARAMETERS: _qualify("InvalidTaskError") + " billiard.MaybeEncodingError",
        Category.DATA: _qualify("IncompleteStream BacklogLimitExceeded"),
        Category.UNKNOWN: _qualify("MaxRetriesExceededError TaskRevokedError Ignore") + " billiard.Terminated",
    },
    reads={"celery.Retry": read_retry, "celery.Reject": read_reject, "celery.BackendError": read_backend},
    silent=(
        _qualify(
            "CeleryError TaskError TaskPredicate Retry Reject ChordError SchedulingError CeleryCommandException "
            "UnpickleableExceptionWrapper WorkerShutdown WorkerTerminate _PidboxStopping StopFiltering"
        )
        + " "
        + _qualify("CoroStop WorkersJoined RemoteError RemoteTraceback ExceptionWithTraceback", package="billiard")
    ),
)
