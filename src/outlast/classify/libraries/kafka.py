"""kafka-python: each class carries Kafka's error number (`errno`) and whether Kafka calls it retriable."""

from outlast.classify.kafka_errors import judge_kafka
from outlast.classify.libraries.library import Library
from outlast.classify.peek import peek, peek_int
from outlast.failure import Category, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_number(error: object) -> "Found":
    """Kafka's error number, and whether the protocol calls the error retriable."""
    number = peek_int(error, "errno")
    if not number:  # errors of the client have none, and 0 is no error
        return None
    return judge_kafka(number, retriable=peek(error, "retriable") is True)


def _named(names: str) -> str:
    return " ".join(f"kafka.{name}" for name in names.split())


LIBRARY = Library(
    title="kafka-python",
    origin=Origin.MESSAGING,
    says={
        Category.NETWORK: _named(
            "KafkaConnectionError KafkaTimeoutError NodeNotReadyError NoBrokersAvailable MetadataEmptyBrokerList Cancelled "
            "CorrelationIdError"
        ),
        Category.API_TEMPORARY: _named("RetriableError"),
        Category.RATE_LIMIT: _named("QuotaViolationError"),
        Category.AUTHENTICATION: _named("AuthorizationError"),
        Category.NOT_FOUND: _named("NoOffsetForPartitionError UnknownBrokerIdError"),
        Category.CONFIGURATION: _named("KafkaConfigurationError UnrecognizedBrokerVersion UnsupportedCodecError"),
        Category.INVALID_PARAMETERS: _named(
            "CommitFailedError IllegalArgumentError IllegalStateError RecordTooLargeError"
        ),
        Category.DATA: _named("KafkaProtocolError"),
        Category.INTEGRITY: _named("LogTruncationError"),
        Category.UNKNOWN: _named("TransactionAbortedError"),
    },
    reads={"kafka.KafkaError": read_number},
    silent=_named("KafkaError"),
)
