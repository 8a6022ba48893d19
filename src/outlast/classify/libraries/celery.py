"""Celery, kombu and billiard: the outcome of a task, or the wrapped error of the broker, the backend or the transport."""

from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.retry_after import wait_seconds
from outlast.classify.safe_access import safe_getattr, status_of
from outlast.failure import Category, Evidence, Origin


def read_retry(error: object) -> Found:
    """A request to retry the task, after `when`, in seconds or as a time."""
    return Evidence(category=Category.API_TEMPORARY, retry_after=wait_seconds(safe_getattr(error, "when")))


def read_reject(error: object) -> Found:
    """Whether the message is requeued."""
    requeued = safe_getattr(error, "requeue") is True
    return Evidence(category=Category.API_TEMPORARY if requeued else Category.UNKNOWN)


def read_http_status(error: object) -> Found:
    """The HTTP status of a transport that uses HTTP."""
    status = status_of(safe_getattr(error, "code"))
    return Evidence(origin=Origin.HTTP, http_status=status) if status else None


LIBRARY = Library(
    title="Celery, kombu and billiard",
    packages="celery",
    origin=Origin.MESSAGING,
    origins={"billiard": Origin.PROCESS},
    categories={
        Category.NETWORK: (
            "TimeoutError billiard.SoftTimeLimitExceeded billiard.TimeLimitExceeded kombu.OperationalError "
            "kombu.NoBrokersAvailable"
        ),
        Category.API_TEMPORARY: (
            "BackendError kombu.LimitExceeded kombu.InconsistencyError kombu.LockError kombu.MutexHeld"
        ),
        Category.SYSTEM: "billiard.WorkerLostError billiard.RestartFreqExceeded",
        Category.AUTHENTICATION: "SecurityError kombu.AuthenticationFailure kombu.AccessDeniedQueueException",
        Category.NOT_FOUND: "DocumentNotFoundException",
        Category.CONFIGURATION: (
            "ImproperlyConfigured NotRegistered AlreadyRegistered QueueNotFound LockFailed ParseException CycleError "
            "NotAPackage kombu.VersionMismatch kombu.SerializerNotInstalled kombu.MatcherNotInstalled "
            "kombu.NotEquivalentError kombu.DoesNotExistQueueException kombu.InvalidQueueException "
            "kombu.UndefinedExchangeException kombu.UndefinedQueueException"
        ),
        Category.INVALID_PARAMETERS: (
            "InvalidTaskError billiard.MaybeEncodingError kombu.EncodeError kombu.NotBoundError kombu.MessageStateError"
        ),
        Category.DATA: "IncompleteStream BacklogLimitExceeded kombu.DecodeError",
        Category.UNKNOWN: "MaxRetriesExceededError TaskRevokedError Ignore billiard.Terminated",
    },
    readers={
        "Retry": read_retry,
        "Reject": read_reject,
        (
            "BackendError kombu.OperationalError kombu.BatchPublishError kombu.UnableToSubscribeQueueToTopicException "
            "kombu.UnableToUnsubscribeQueueFromTopicException"
        ): wrapped("__cause__", "__context__"),
        "kombu.HttpError": read_http_status,
    },
    says_nothing=(
        "CeleryError TaskError TaskPredicate Retry Reject ChordError SchedulingError CeleryCommandException "
        "UnpickleableExceptionWrapper WorkerShutdown WorkerTerminate _PidboxStopping StopFiltering "
        "billiard.CoroStop billiard.WorkersJoined billiard.RemoteError billiard.RemoteTraceback "
        "billiard.ExceptionWithTraceback kombu.KombuError kombu.SerializationError kombu.BatchPublishError "
        "kombu.HttpError kombu.Stop kombu.UnableToSubscribeQueueToTopicException "
        "kombu.UnableToUnsubscribeQueueFromTopicException"
    ),
)
