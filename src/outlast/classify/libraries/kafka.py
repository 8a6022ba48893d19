"""kafka-python: each class has Kafka's error number (`errno`) and a flag whether the error is retriable."""

from outlast.classify.kafka_errors import judge_kafka
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_getattr, safe_int
from outlast.failure import Category, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_number(error: object) -> "Found":
    """Kafka's error number, and whether the protocol calls the error retriable."""
    number = safe_int(error, "errno")
    if not number:  # client errors have none, and 0 means success
        return None
    return judge_kafka(number, retriable=safe_getattr(error, "retriable") is True)


def _qualify(names: str) -> str:
    return " ".join(f"kafka.{name}" for name in names.split())


LIBRARY = Library(
    title="kafka-python",
    origin=Origin.MESSAGING,
    categories={
        Category.NETWORK: _qualify(
            "KafkaConnectionError KafkaTimeoutError NodeNotReadyError NoBrokersAvailable MetadataEmptyBrokerList Cancelled "
            "CorrelationIdError"
        ),
        Category.API_TEMPORARY: _qualify("RetriableError"),
        Category.RATE_LIMIT: _qualify("QuotaViolationError"),
        Category.AUTHENTICATION: _qualify("AuthorizationError"),
        Category.NOT_FOUND: _qualify("NoOffsetForPartitionError UnknownBrokerIdError"),
        Category.CONFIGURATION: _qualify("KafkaConfigurationError UnrecognizedBrokerVersion UnsupportedCodecError"),
        Category.INVALID_PARAMETERS: _qualify(
            "CommitFailedError IllegalArgumentError IllegalStateError RecordTooLargeError"
        ),
        Category.DATA: _qualify("KafkaProtocolError"),
        Category.INTEGRITY: _qualify("LogTruncationError"),
        Category.UNKNOWN: _qualify("TransactionAbortedError"),
    },
    readers={"kafka.KafkaError": read_number},
    says_nothing=_qualify("KafkaError"),
)
