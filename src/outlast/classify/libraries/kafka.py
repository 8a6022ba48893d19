"""kafka-python and confluent-kafka: the broker's error number, and flags whether the error is retriable or fatal."""

from types import MethodDescriptorType

from outlast.classify.codes import parse_named_numbers, parse_names
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import read_response, safe_getattr, safe_int, status_of, text_of
from outlast.failure import RETRYABLE, Category, Evidence, Origin

BROKER_ERRORS = parse_named_numbers("""
    network: 13:NETWORK_EXCEPTION
    api_temporary: -1:UNKNOWN_SERVER_ERROR 5:LEADER_NOT_AVAILABLE 6:NOT_LEADER_OR_FOLLOWER 7:REQUEST_TIMED_OUT
      8:BROKER_NOT_AVAILABLE 9:REPLICA_NOT_AVAILABLE 11:STALE_CONTROLLER_EPOCH 14:COORDINATOR_LOAD_IN_PROGRESS
      15:COORDINATOR_NOT_AVAILABLE 16:NOT_COORDINATOR 19:NOT_ENOUGH_REPLICAS 20:NOT_ENOUGH_REPLICAS_AFTER_APPEND
      27:REBALANCE_IN_PROGRESS 41:NOT_CONTROLLER 51:CONCURRENT_TRANSACTIONS 56:KAFKA_STORAGE_ERROR
      60:REASSIGNMENT_IN_PROGRESS 70:FETCH_SESSION_ID_NOT_FOUND 71:INVALID_FETCH_SESSION_EPOCH 72:LISTENER_NOT_FOUND
      74:FENCED_LEADER_EPOCH 75:UNKNOWN_LEADER_EPOCH 77:STALE_BROKER_EPOCH 78:OFFSET_NOT_AVAILABLE
      79:MEMBER_ID_REQUIRED 80:PREFERRED_LEADER_NOT_AVAILABLE 83:ELIGIBLE_LEADERS_NOT_AVAILABLE
      88:UNSTABLE_OFFSET_COMMIT 96:FEATURE_UPDATE_FAILED 100:UNKNOWN_TOPIC_ID 103:INCONSISTENT_TOPIC_ID
      106:FETCH_SESSION_TOPIC_ID_ERROR 108:NEW_LEADER_ELECTED 111:UNRELEASED_INSTANCE_ID 120:TRANSACTION_ABORTABLE
      122:SHARE_SESSION_NOT_FOUND 123:INVALID_SHARE_SESSION_EPOCH 129:REBOOTSTRAP_REQUIRED
      133:SHARE_SESSION_LIMIT_REACHED
    rate_limit: 89:THROTTLING_QUOTA_EXCEEDED
    quota_exhausted: 81:GROUP_MAX_SIZE_REACHED
    authentication: 29:TOPIC_AUTHORIZATION_FAILED 30:GROUP_AUTHORIZATION_FAILED 31:CLUSTER_AUTHORIZATION_FAILED
      53:TRANSACTIONAL_ID_AUTHORIZATION_FAILED 58:SASL_AUTHENTICATION_FAILED 62:DELEGATION_TOKEN_NOT_FOUND
      63:DELEGATION_TOKEN_OWNER_MISMATCH 64:DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
      65:DELEGATION_TOKEN_AUTHORIZATION_FAILED 66:DELEGATION_TOKEN_EXPIRED 67:INVALID_PRINCIPAL_TYPE
      93:UNACCEPTABLE_CREDENTIAL 97:PRINCIPAL_DESERIALIZATION_FAILURE
    not_found: 1:OFFSET_OUT_OF_RANGE 3:UNKNOWN_TOPIC_OR_PARTITION 69:GROUP_ID_NOT_FOUND
      85:NO_REASSIGNMENT_IN_PROGRESS 91:RESOURCE_NOT_FOUND 98:SNAPSHOT_NOT_FOUND 99:POSITION_OUT_OF_RANGE
      105:TRANSACTIONAL_ID_NOT_FOUND 109:OFFSET_MOVED_TO_TIERED_STORAGE 116:UNKNOWN_CONTROLLER_ID
      117:UNKNOWN_SUBSCRIPTION_ID 127:VOTER_NOT_FOUND
    configuration: 21:INVALID_REQUIRED_ACKS 23:INCONSISTENT_GROUP_PROTOCOL 26:INVALID_SESSION_TIMEOUT
      33:UNSUPPORTED_SASL_MECHANISM 34:ILLEGAL_SASL_STATE 35:UNSUPPORTED_VERSION 40:INVALID_CONFIG
      43:UNSUPPORTED_FOR_MESSAGE_FORMAT 47:INVALID_PRODUCER_EPOCH 50:INVALID_TRANSACTION_TIMEOUT 54:SECURITY_DISABLED
      57:LOG_DIR_NOT_FOUND 61:DELEGATION_TOKEN_AUTH_DISABLED 73:TOPIC_DELETION_DISABLED
      76:UNSUPPORTED_COMPRESSION_TYPE 82:FENCED_INSTANCE_ID 90:PRODUCER_FENCED 94:INCONSISTENT_VOTER_SET
      101:DUPLICATE_BROKER_REGISTRATION 102:BROKER_ID_NOT_REGISTERED 104:INCONSISTENT_CLUSTER_ID
      112:UNSUPPORTED_ASSIGNOR 114:MISMATCHED_ENDPOINT_TYPE 115:UNSUPPORTED_ENDPOINT_TYPE 125:INVALID_VOTER_KEY
      130:STREAMS_INVALID_TOPOLOGY 131:STREAMS_INVALID_TOPOLOGY_EPOCH 132:STREAMS_TOPOLOGY_FENCED
    integrity: 45:OUT_OF_ORDER_SEQUENCE_NUMBER 46:DUPLICATE_SEQUENCE_NUMBER
    data: 2:CORRUPT_MESSAGE
    invalid_parameters: 4:INVALID_FETCH_SIZE 10:MESSAGE_TOO_LARGE 12:OFFSET_METADATA_TOO_LARGE
      17:INVALID_TOPIC_EXCEPTION 18:RECORD_LIST_TOO_LARGE 22:ILLEGAL_GENERATION 24:INVALID_GROUP_ID
      25:UNKNOWN_MEMBER_ID 28:INVALID_COMMIT_OFFSET_SIZE 32:INVALID_TIMESTAMP 36:TOPIC_ALREADY_EXISTS
      37:INVALID_PARTITIONS 38:INVALID_REPLICATION_FACTOR 39:INVALID_REPLICA_ASSIGNMENT 42:INVALID_REQUEST
      44:POLICY_VIOLATION 48:INVALID_TXN_STATE 49:INVALID_PRODUCER_ID_MAPPING 52:TRANSACTION_COORDINATOR_FENCED
      55:OPERATION_NOT_ATTEMPTED 59:UNKNOWN_PRODUCER_ID 68:NON_EMPTY_GROUP 84:ELECTION_NOT_NEEDED
      86:GROUP_SUBSCRIBED_TO_TOPIC 87:INVALID_RECORD 92:DUPLICATE_RESOURCE 95:INVALID_UPDATE_VERSION
      107:INELIGIBLE_REPLICA 110:FENCED_MEMBER_EPOCH 113:STALE_MEMBER_EPOCH 118:TELEMETRY_TOO_LARGE
      119:INVALID_REGISTRATION 121:INVALID_RECORD_STATE 124:FENCED_STATE_EPOCH 126:DUPLICATE_VOTER
      128:INVALID_REGULAR_EXPRESSION
""")
"""Name and category by the number that a broker sends."""

LOCAL_ERRORS = parse_names("""
    network: _TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _SSL _TIMED_OUT _MSG_TIMED_OUT _TIMED_OUT_QUEUE _FAIL
      _DESTROY_BROKER
    api_temporary: _QUEUE_FULL _ISR_INSUFF _NODE_UPDATE _WAIT_COORD _WAIT_CACHE _IN_PROGRESS _PREV_IN_PROGRESS
      _RETRY _INTR _OUTDATED _MAX_POLL_EXCEEDED
    system: _CRIT_SYS_RESOURCE _FS
    authentication: _AUTHENTICATION
    not_found: _UNKNOWN_TOPIC _UNKNOWN_PARTITION _UNKNOWN_GROUP _UNKNOWN_BROKER _NOENT _NO_OFFSET _AUTO_OFFSET_RESET
    configuration: _NOT_CONFIGURED _UNSUPPORTED_FEATURE _NOT_IMPLEMENTED _UNKNOWN_PROTOCOL _FENCED
    invalid_parameters: _INVALID_ARG _STATE _CONFLICT _EXISTING_SUBSCRIPTION _READ_ONLY _INVALID_TYPE
      _KEY_SERIALIZATION _VALUE_SERIALIZATION _ASSIGNMENT_LOST _INVALID_DIFFERENT_RECORD _NOOP
    data: _BAD_MSG _BAD_COMPRESSION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _UNDERFLOW _PARTIAL
    integrity: _INCONSISTENT _GAPLESS_GUARANTEE _LOG_TRUNCATION
    unknown: _DESTROY _PARTITION_EOF _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _PURGE_QUEUE _PURGE_INFLIGHT _FATAL
      _APPLICATION
""")
"""Category by name of librdkafka's local errors."""


def judge_kafka(number: int, *, name: str | None = None, retriable: bool = False, fatal: bool = False) -> Evidence:
    """Return the evidence of a Kafka error.

    Args:
        number: The error number; 0 is success, numbers below -1 are local errors of librdkafka.
        name: The client library's name of the error, if it is not the protocol's.
        retriable: Whether the client says that the same request may succeed later; this overrides a permanent
            category. False proves nothing, as clients leave it unset for connection errors.
        fatal: Whether the client says that it cannot continue; then a retry does not help, whatever the number.
    """
    known, category = BROKER_ERRORS.get(number, (None, Category.UNKNOWN))
    if name is not None and number < -1:
        category = LOCAL_ERRORS.get(name, Category.UNKNOWN)
    if retriable and category not in RETRYABLE and category is not Category.AUTHENTICATION:
        category = Category.API_TEMPORARY
    return Evidence(category=category, code=name or known, retryable=False if fatal else None)


def read_number(error: object) -> Found:
    """Kafka's error number, and whether the protocol calls the error retriable."""
    number = safe_int(error, "errno")
    if not number:  # client errors have none, and 0 means success
        return None
    return judge_kafka(number, retriable=safe_getattr(error, "retriable") is True)


_TXN_ABORTED = frozenset({Category.UNKNOWN, Category.INVALID_PARAMETERS})


def _read_field(error: object, method: str) -> object:
    """Return a field of librdkafka's compiled KafkaError, by a method that only reads it; nothing else is called."""
    for each in type(error).__mro__:
        if each.__name__ == "KafkaError" and each.__module__ == "confluent_kafka.cimpl":
            compiled = vars(each).get(method)
            return compiled(error) if isinstance(compiled, MethodDescriptorType) else None
    return None


def read_kafka_error(error: object) -> Found:
    """Number, name and the flags retriable, fatal and txn_requires_abort of the wrapped KafkaError."""
    arguments = safe_getattr(error, "args")
    inner = arguments[0] if isinstance(arguments, tuple) and arguments else None
    number, name = _read_field(inner, "code"), _read_field(inner, "name")
    if type(number) is not int or not isinstance(name, str):
        return None
    found = judge_kafka(
        number, name=name, retriable=_read_field(inner, "retriable") is True, fatal=_read_field(inner, "fatal") is True
    )
    if name == "_INVALID_ARG" and "onfiguration property" in text_of(inner):
        return found.replace(category=Category.CONFIGURATION)
    if found.category in _TXN_ABORTED and _read_field(inner, "txn_requires_abort") is True:
        return found.replace(category=Category.API_TEMPORARY)  # a new transaction may succeed
    return found


def read_registry(error: object) -> Found:
    """The HTTP status of the schema registry's response."""
    status = status_of(safe_getattr(error, "http_status_code"))
    return Evidence(origin=Origin.HTTP, http_status=status) if status else read_response(error)


LIBRARY = Library(
    title="kafka-python and confluent-kafka",
    packages="kafka",
    origin=Origin.MESSAGING,
    categories={
        Category.NETWORK: (
            "KafkaConnectionError KafkaTimeoutError NodeNotReadyError NoBrokersAvailable MetadataEmptyBrokerList "
            "Cancelled CorrelationIdError"
        ),
        Category.API_TEMPORARY: "RetriableError",
        Category.RATE_LIMIT: "QuotaViolationError",
        Category.AUTHENTICATION: "AuthorizationError confluent_kafka.OAuthTokenError",
        Category.NOT_FOUND: "NoOffsetForPartitionError UnknownBrokerIdError",
        Category.CONFIGURATION: "KafkaConfigurationError UnrecognizedBrokerVersion UnsupportedCodecError",
        Category.INVALID_PARAMETERS: (
            "CommitFailedError IllegalArgumentError IllegalStateError RecordTooLargeError "
            "confluent_kafka.SerializationError"
        ),
        Category.DATA: (
            "KafkaProtocolError confluent_kafka.KeyDeserializationError confluent_kafka.ValueDeserializationError"
        ),
        Category.INTEGRITY: "LogTruncationError",
        Category.UNKNOWN: "TransactionAbortedError",
    },
    readers={
        "KafkaError": read_number,
        "cimpl.KafkaException": read_kafka_error,
        "confluent_kafka.SchemaRegistryError confluent_kafka.OAuthTokenError": read_registry,
    },
    says_nothing="KafkaError cimpl.KafkaException confluent_kafka.SchemaRegistryError",
)
