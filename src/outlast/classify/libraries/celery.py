"""Celery and its process pool billiard: the outcome of a task, or the wrapped error of the broker or backend."""

from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_error, safe_getattr
from outlast.failure import Category, Evidence, Origin

_LONGEST_WAIT = 1e9


def read_retry(error: object) -> Found:
    """A request to retry the task, after `when` seconds if that is a number."""
    when = safe_getattr(error, "when")
    known = isinstance(when, int | float) and not isinstance(when, bool) and 0 <= when < _LONGEST_WAIT
    return Evidence(category=Category.API_TEMPORARY, retry_after=float(when) if known else None)  # type: ignore[arg-type]  # a number, as checked above


def read_reject(error: object) -> Found:
    """Whether the message is requeued."""
    requeued = safe_getattr(error, "requeue") is True
    return Evidence(category=Category.API_TEMPORARY if requeued else Category.UNKNOWN)


def read_backend(error: object) -> Found:
    """The wrapped error of the result backend."""
    return safe_error(error, "__cause__", "__context__")


LIBRARY = Library(
    title="Celery and billiard",
    packages="celery",
    origin=Origin.MESSAGING,
    origins={"billiard": Origin.PROCESS},
    categories={
        Category.NETWORK: "TimeoutError billiard.SoftTimeLimitExceeded billiard.TimeLimitExceeded",
        Category.API_TEMPORARY: "BackendError",
        Category.SYSTEM: "billiard.WorkerLostError billiard.RestartFreqExceeded",
        Category.AUTHENTICATION: "SecurityError",
        Category.NOT_FOUND: "DocumentNotFoundException",
        Category.CONFIGURATION: (
            "ImproperlyConfigured NotRegistered AlreadyRegistered QueueNotFound LockFailed ParseException CycleError "
            "NotAPackage"
        ),
        Category.INVALID_PARAMETERS: "InvalidTaskError billiard.MaybeEncodingError",
        Category.DATA: "IncompleteStream BacklogLimitExceeded",
        Category.UNKNOWN: "MaxRetriesExceededError TaskRevokedError Ignore billiard.Terminated",
    },
    readers={
        "Retry": read_retry,
        "Reject": read_reject,
        "BackendError": read_backend,
    },
    says_nothing=(
        "CeleryError TaskError TaskPredicate Retry Reject ChordError SchedulingError CeleryCommandException "
        "UnpickleableExceptionWrapper WorkerShutdown WorkerTerminate _PidboxStopping StopFiltering "
        "billiard.CoroStop billiard.WorkersJoined billiard.RemoteError billiard.RemoteTraceback "
        "billiard.ExceptionWithTraceback"
    ),
)
