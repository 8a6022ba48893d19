"""kombu: the wrapped error of the transport, and a few errors of its own about messages, pools and serializers."""

from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_error, safe_getattr, status_of
from outlast.failure import Category, Evidence, Origin


def read_cause(error: object) -> Found:
    """The wrapped error of the transport."""
    return safe_error(error, "__cause__", "__context__")


def read_http_status(error: object) -> Found:
    """The HTTP status of a transport that uses HTTP."""
    status = status_of(safe_getattr(error, "code"))
    return Evidence(origin=Origin.HTTP, http_status=status) if status else None


LIBRARY = Library(
    title="kombu",
    packages="kombu",
    origin=Origin.MESSAGING,
    categories={
        Category.NETWORK: "OperationalError NoBrokersAvailable",
        Category.API_TEMPORARY: "LimitExceeded InconsistencyError LockError MutexHeld",
        Category.AUTHENTICATION: "AuthenticationFailure AccessDeniedQueueException",
        Category.CONFIGURATION: (
            "VersionMismatch SerializerNotInstalled MatcherNotInstalled NotEquivalentError DoesNotExistQueueException "
            "InvalidQueueException UndefinedExchangeException UndefinedQueueException"
        ),
        Category.INVALID_PARAMETERS: "EncodeError NotBoundError MessageStateError",
        Category.DATA: "DecodeError",
    },
    readers={
        (
            "OperationalError BatchPublishError UnableToSubscribeQueueToTopicException "
            "UnableToUnsubscribeQueueFromTopicException"
        ): read_cause,
        "HttpError": read_http_status,
    },
    says_nothing=(
        "KombuError SerializationError BatchPublishError HttpError Stop UnableToSubscribeQueueToTopicException "
        "UnableToUnsubscribeQueueFromTopicException"
    ),
)
