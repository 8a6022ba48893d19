"""kafka-python: each class has Kafka's error number (`errno`) and a flag whether the error is retriable."""

from outlast.classify.kafka_errors import judge_kafka
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_getattr, safe_int
from outlast.failure import Category, Origin


def read_number(error: object) -> Found:
    """Kafka's error number, and whether the protocol calls the error retriable."""
    number = safe_int(error, "errno")
    if not number:  # client errors have none, and 0 means success
        return None
    return judge_kafka(number, retriable=safe_getattr(error, "retriable") is True)


LIBRARY = Library(
    title="kafka-python",
    packages="kafka",
    origin=Origin.MESSAGING,
    categories={
        Category.NETWORK: (
            "KafkaConnectionError KafkaTimeoutError NodeNotReadyError NoBrokersAvailable MetadataEmptyBrokerList "
            "Cancelled CorrelationIdError"
        ),
        Category.API_TEMPORARY: "RetriableError",
        Category.RATE_LIMIT: "QuotaViolationError",
        Category.AUTHENTICATION: "AuthorizationError",
        Category.NOT_FOUND: "NoOffsetForPartitionError UnknownBrokerIdError",
        Category.CONFIGURATION: "KafkaConfigurationError UnrecognizedBrokerVersion UnsupportedCodecError",
        Category.INVALID_PARAMETERS: "CommitFailedError IllegalArgumentError IllegalStateError RecordTooLargeError",
        Category.DATA: "KafkaProtocolError",
        Category.INTEGRITY: "LogTruncationError",
        Category.UNKNOWN: "TransactionAbortedError",
    },
    readers={
        "KafkaError": read_number,
    },
    says_nothing="KafkaError",
)
