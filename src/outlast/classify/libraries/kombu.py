"""kombu: the transport's error inside, and a few of its own about messages, pools and serializers."""

from outlast.classify.libraries.library import Library
from outlast.classify.peek import peek, peek_error, status_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_cause(error: object) -> "Found":
    """The transport's own error, from which this one was raised."""
    return peek_error(error, "__cause__", "__context__")


def read_http_status(error: object) -> "Found":
    """The HTTP status, of transports that speak HTTP."""
    status = status_of(peek(error, "code"))
    return Evidence(origin=Origin.HTTP, http_status=status) if status else None


def _named(names: str) -> str:
    return " ".join(f"kombu.{name}" for name in names.split())


LIBRARY = Library(
    title="kombu",
    origin=Origin.MESSAGING,
    says={
        Category.NETWORK: _named("OperationalError NoBrokersAvailable"),
        Category.API_TEMPORARY: _named("LimitExceeded InconsistencyError LockError MutexHeld"),
        Category.AUTHENTICATION: _named("AuthenticationFailure AccessDeniedQueueException"),
        Category.CONFIGURATION: _named(
            "VersionMismatch SerializerNotInstalled MatcherNotInstalled NotEquivalentError DoesNotExistQueueException "
            "InvalidQueueException UndefinedExchangeException UndefinedQueueException"
        ),
        Category.INVALID_PARAMETERS: _named("EncodeError NotBoundError MessageStateError"),
        Category.DATA: _named("DecodeError"),
    },
    reads={
        **dict.fromkeys(
            _named(
                "OperationalError BatchPublishError UnableToSubscribeQueueToTopicException "
                "UnableToUnsubscribeQueueFromTopicException"
            ).split(),
            read_cause,
        ),
        "kombu.HttpError": read_http_status,
    },
    silent=_named(
        "KombuError SerializationError BatchPublishError HttpError Stop UnableToSubscribeQueueToTopicException "
        "UnableToUnsubscribeQueueFromTopicException"
    ),
)
