"""kombu: the wrapped error of the transport, and a few errors of its own about messages, pools and serializers."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_error, safe_getattr, status_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_cause(error: object) -> "Found":
    """The wrapped error of the transport."""
    return safe_error(error, "__cause__", "__context__")


def read_http_status(error: object) -> "Found":
    """The HTTP status of a transport that uses HTTP."""
    status = status_of(safe_getattr(error, "code"))
    return Evidence(origin=Origin.HTTP, http_status=status) if status else None


def _qualify(names: str) -> str:
    return " ".join(f"kombu.{name}" for name in names.split())


LIBRARY = Library(
    title="kombu",
    origin=Origin.MESSAGING,
    categories={
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
    readers={
        **dict.fromkeys(
            _qualify(
                "OperationalError BatchPublishError UnableToSubscribeQueueToTopicException "
                "UnableToUnsubscribeQueueFromTopicException"
            ).split(),
            read_cause,
        ),
        "kombu.HttpError": read_http_status,
    },
    says_nothing=_qualify(
        "KombuError SerializationError BatchPublishError HttpError Stop UnableToSubscribeQueueToTopicException "
        "UnableToUnsubscribeQueueFromTopicException"
    ),
)
