"""Celery and its process pool billiard: the outcome of a task, or the wrapped error of the broker or backend."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_error, safe_getattr
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

_LONGEST_WAIT = 1e9


def read_retry(error: object) -> "Found":
    """A request to retry the task, after `when` seconds if that is a number."""
    when = safe_getattr(error, "when")
    known = isinstance(when, int | float) and not isinstance(when, bool) and 0 <= when < _LONGEST_WAIT
    return Evidence(category=Category.API_TEMPORARY, retry_after=float(when) if known else None)  # type: ignore[arg-type]  # a number, as checked above


def read_reject(error: object) -> "Found":
    """Whether the message is requeued."""
    requeued = safe_getattr(error, "requeue") is True
    return Evidence(category=Category.API_TEMPORARY if requeued else Category.UNKNOWN)


def read_backend(error: object) -> "Found":
    """The wrapped error of the result backend."""
    return safe_error(error, "__cause__", "__context__")


def _qualify(names: str, package: str = "celery") -> str:
    return " ".join(f"{package}.{name}" for name in names.split())


LIBRARY = Library(
    title="Celery and billiard",
    origin=Origin.MESSAGING,
    origins={"billiard": Origin.PROCESS},
    categories={
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
    readers={"celery.Retry": read_retry, "celery.Reject": read_reject, "celery.BackendError": read_backend},
    says_nothing=(
        _qualify(
            "CeleryError TaskError TaskPredicate Retry Reject ChordError SchedulingError CeleryCommandException "
            "UnpickleableExceptionWrapper WorkerShutdown WorkerTerminate _PidboxStopping StopFiltering"
        )
        + " "
        + _qualify("CoroStop WorkersJoined RemoteError RemoteTraceback ExceptionWithTraceback", package="billiard")
    ),
)
