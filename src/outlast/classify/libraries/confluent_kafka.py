"""confluent-kafka: a wrapped KafkaError with a number, a name and the flags retriable and fatal."""

from types import MethodDescriptorType

from outlast.classify.kafka_errors import judge_kafka
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import read_response, safe_getattr, status_of, text_of
from outlast.failure import Category, Evidence, Origin

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
    title="confluent-kafka",
    packages="confluent_kafka",
    origin=Origin.MESSAGING,
    categories={
        Category.DATA: "KeyDeserializationError ValueDeserializationError",
        Category.INVALID_PARAMETERS: "SerializationError",
        Category.AUTHENTICATION: "OAuthTokenError",
    },
    readers={
        "cimpl.KafkaException": read_kafka_error,
        "SchemaRegistryError OAuthTokenError": read_registry,
    },
    says_nothing="cimpl.KafkaException SchemaRegistryError",
)
