"""kombu: the transport's error inside, and a few of its own about messages, pools and serializers."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_error, safe_getattr, status_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_cause(error: object) -> "Found":
    """The transport's own error, from which this one was raised."""
    return safe_error(error, "__cause__", "__context__")


def read_http_status(error: object) -> "Found":
    """The HTTP status, of transports that speak HTTP."""
    status = status_of(safe_getattr(error, "code"))
    return Evidence(origin=Origin.HTTP, http_status=status) if status else None


def _qualify(names: str) -> str:
    return " ".join(f"kombu.{name}" for name in names.split())


LIBRARY = Library(
    title="kombu",
    origin=Origin.MESSAGING,
    says={
        Category.NETWORK: _qualify("OperationalError NoBrokersAvailable"),
        Category.API_TEMPORARY: _qualify("LimitExceeded InconsistencyError LockError MutexHeld"),
        Category.AUTHENTICATION: _qualify("AuthenticationFailure AccessDeniedQueueException"),
        Category.CONFIGURATION: _qualify(
            "VersionMismatch SerializerNotInstalled MatcherNotInstalled NotEquivalentError DoesNotExistQueueException "
            "InvalidQueueException UndefinedExchangeException UndefinedQueueException"
        ),
        Category.INVALID_PARAMETERS: _qualify("EncodeError NotBoundError MessageStateError"),
        Category.DATA: _qualify("DecodeError"),
    },
    reads={
        **dict.fromkeys(
            _qualify(
                "OperationalError BatchPublishError UnableToSubscribeQueueToTopicException "
                "UnableToUnsubscribeQueueFromTopicException"
            ).split(),
            read_cause,
        ),
        "kombu.HttpError": read_http_status,
    },
    silent=_qualify(
        "KombuError SerializationError BatchPublishError HttpError Stop UnableToSubscribeQueueToTopicException "
        "UnableToUnsubscribeQueueFromTopicException"
    ),
)
