"""kafka-python and confluent-kafka: brokers that are not there, wrong settings, and every kind of a broker's error code."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin
from servers.wire import talking

if TYPE_CHECKING:
    from collections.abc import Callable

RETRIED = {C.NETWORK, C.API_TEMPORARY, C.RATE_LIMIT, C.SYSTEM}
SOON = 100  # milliseconds


def address(world: World) -> str:
    refused: str = world.faults.refused_url.removeprefix("http://").rstrip("/")
    return refused


# kafka-python


def client(kind: str, world: World, **settings: Any) -> BaseException:
    import kafka

    at = settings.pop("at", None) or address(world)
    return caught(getattr(kafka, kind), bootstrap_servers=at, bootstrap_timeout_ms=SOON, **settings)


def hung_up(world: World) -> BaseException:
    with talking(lambda incoming, _: incoming.read(4)) as (host, port):
        return client("KafkaAdminClient", world, at=f"{host}:{port}", request_timeout_ms=SOON)


def by_number(number: int, _: World) -> BaseException:
    from kafka.errors import for_code

    error: BaseException = for_code(number)("what the broker said")
    return error


def by_class(name: str, _: World) -> BaseException:
    import kafka.errors

    error: BaseException = getattr(kafka.errors, name)()
    return error


NUMBERS: dict[int, tuple[str, C]] = {
    -1: ("UNKNOWN_SERVER_ERROR", C.API_TEMPORARY),
    1: ("OFFSET_OUT_OF_RANGE", C.NOT_FOUND),
    2: ("CORRUPT_MESSAGE", C.DATA),
    3: ("UNKNOWN_TOPIC_OR_PARTITION", C.API_TEMPORARY),  # Kafka calls it retriable: metadata may be out of date
    5: ("LEADER_NOT_AVAILABLE", C.API_TEMPORARY),
    6: ("NOT_LEADER_OR_FOLLOWER", C.API_TEMPORARY),
    7: ("REQUEST_TIMED_OUT", C.API_TEMPORARY),
    10: ("MESSAGE_TOO_LARGE", C.INVALID_PARAMETERS),
    13: ("NETWORK_EXCEPTION", C.NETWORK),
    14: ("COORDINATOR_LOAD_IN_PROGRESS", C.API_TEMPORARY),
    17: ("INVALID_TOPIC_EXCEPTION", C.INVALID_PARAMETERS),
    19: ("NOT_ENOUGH_REPLICAS", C.API_TEMPORARY),
    22: ("ILLEGAL_GENERATION", C.INVALID_PARAMETERS),
    27: ("REBALANCE_IN_PROGRESS", C.API_TEMPORARY),
    29: ("TOPIC_AUTHORIZATION_FAILED", C.AUTHENTICATION),
    33: ("UNSUPPORTED_SASL_MECHANISM", C.CONFIGURATION),
    35: ("UNSUPPORTED_VERSION", C.CONFIGURATION),
    36: ("TOPIC_ALREADY_EXISTS", C.INVALID_PARAMETERS),
    45: ("OUT_OF_ORDER_SEQUENCE_NUMBER", C.INTEGRITY),
    56: ("KAFKA_STORAGE_ERROR", C.API_TEMPORARY),
    58: ("SASL_AUTHENTICATION_FAILED", C.AUTHENTICATION),
    69: ("GROUP_ID_NOT_FOUND", C.NOT_FOUND),
    89: ("THROTTLING_QUOTA_EXCEEDED", C.RATE_LIMIT),
    90: ("PRODUCER_FENCED", C.CONFIGURATION),
}
CLASSES = {
    "NodeNotReadyError": C.NETWORK,
    "KafkaConnectionError": C.NETWORK,
    "Cancelled": C.NETWORK,
    "StaleMetadata": C.API_TEMPORARY,
    "TooManyInFlightRequests": C.API_TEMPORARY,
    "CommitFailedError": C.INVALID_PARAMETERS,
    "IllegalStateError": C.INVALID_PARAMETERS,
    "KafkaProtocolError": C.DATA,
    "UnsupportedCodecError": C.CONFIGURATION,
}


# confluent-kafka

QUIET = {"log_level": 0}


@cache
def producer(bootstrap: str) -> Any:
    from confluent_kafka import Producer

    return Producer({**QUIET, "bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1})


@cache
def consumer(bootstrap: str) -> Any:
    from confluent_kafka import Consumer

    return Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "corpus"})


def asked(fault: Callable[[str, Any], object], world: World) -> BaseException:
    import confluent_kafka

    return caught(fault, address(world), confluent_kafka)


def _fill(bootstrap: str, _: Any) -> None:
    for _ in range(2):
        producer(bootstrap).produce("topic", b"value")


REAL: dict[str, tuple[Callable[[str, Any], object], C, str | None]] = {
    "metadata": (lambda at, _: producer(at).list_topics(timeout=0.1), C.NETWORK, "_TRANSPORT"),
    "committed offsets": (
        lambda at, k: consumer(at).committed([k.TopicPartition("t", 0)], timeout=0.05), C.NETWORK, "_TIMED_OUT",
    ),
    "unknown setting": (lambda at, k: k.Producer({"nonsense": 1}), C.CONFIGURATION, "_INVALID_ARG"),
    "wrong value of a setting": (lambda at, k: k.Producer({"acks": "x"}), C.CONFIGURATION, "_INVALID_ARG"),
    "partition not assigned": (
        lambda at, k: consumer(at).seek(k.TopicPartition("t", 0, 1)), C.NOT_FOUND, "_UNKNOWN_PARTITION",
    ),
    "message too large": (
        lambda at, _: producer(at).produce("t", b"x" * 2_000_000), C.INVALID_PARAMETERS, "MSG_SIZE_TOO_LARGE",
    ),
    "not transactional": (lambda at, _: producer(at).begin_transaction(), C.CONFIGURATION, "_NOT_CONFIGURED"),
    "queue full": (_fill, C.API_TEMPORARY, "_QUEUE_FULL"),
}  # fmt: skip


def flagged(name: str, flags: dict[str, bool], _: World) -> BaseException:
    from confluent_kafka import KafkaError, KafkaException

    return KafkaException(KafkaError(getattr(KafkaError, name), "what librdkafka says", **flags))


def undecoded(_: World) -> BaseException:
    from confluent_kafka.error import ValueDeserializationError

    return ValueDeserializationError(ValueError("no magic byte"))


# Name in confluent-kafka, flags, category, whether to try again.
FLAGGED: dict[str, tuple[str, dict[str, bool], C, bool]] = {
    "all brokers down": ("_ALL_BROKERS_DOWN", {}, C.NETWORK, True),
    "message timed out": ("_MSG_TIMED_OUT", {}, C.NETWORK, True),
    "cannot resolve": ("_RESOLVE", {}, C.NETWORK, True),
    "authentication": ("_AUTHENTICATION", {}, C.AUTHENTICATION, False),
    "topic authorization": ("TOPIC_AUTHORIZATION_FAILED", {}, C.AUTHENTICATION, False),
    "unknown topic": ("UNKNOWN_TOPIC_OR_PART", {}, C.NOT_FOUND, False),
    "unknown topic, retriable": ("UNKNOWN_TOPIC_OR_PART", {"retriable": True}, C.API_TEMPORARY, True),
    "leader not available": ("LEADER_NOT_AVAILABLE", {"retriable": True}, C.API_TEMPORARY, True),
    "timed out, fatal": ("_TIMED_OUT", {"fatal": True}, C.NETWORK, False),
    "fenced, fatal": ("_FENCED", {"fatal": True}, C.CONFIGURATION, False),
    "out of order, fatal": ("OUT_OF_ORDER_SEQUENCE_NUMBER", {"fatal": True}, C.INTEGRITY, False),
    "transaction to be aborted": ("_STATE", {"txn_requires_abort": True}, C.API_TEMPORARY, True),
    "no rights in a transaction": (
        "TOPIC_AUTHORIZATION_FAILED", {"txn_requires_abort": True}, C.AUTHENTICATION, False,
    ),
    "throttled": ("THROTTLING_QUOTA_EXCEEDED", {}, C.RATE_LIMIT, True),
    "end of partition": ("_PARTITION_EOF", {}, C.UNKNOWN, False),
    "disk trouble": ("_FS", {}, C.SYSTEM, True),
}  # fmt: skip


def _case(name: str, make: Callable[[World], BaseException], category: C, **fields: Any) -> Case:
    return Case(name, make, category, category in RETRIED, **fields)


_real = partial(_case, origin=Origin.MESSAGING)
_built = partial(_case, origin=Origin.MESSAGING, constructed=True)

CASES: list[Case] = [
    _real("kafka/producer, refused", partial(client, "KafkaProducer"), C.NETWORK),
    _real("kafka/admin, refused", partial(client, "KafkaAdminClient"), C.NETWORK),
    _real("kafka/broker hangs up", hung_up, C.NETWORK),
    _real("kafka/settings contradict", partial(client, "KafkaConsumer", request_timeout_ms=SOON), C.CONFIGURATION),
    *(_built(f"kafka/{name}", partial(by_number, number), category, code=name) for number, (name, category) in NUMBERS.items()),
    *(_built(f"kafka/{name}", partial(by_class, name), category) for name, category in CLASSES.items()),
    *(
        _case(f"confluent-kafka/{name}", partial(asked, fault), category, code=code, origin=Origin.MESSAGING if code else None)
        for name, (fault, category, code) in REAL.items()
    ),
    *(
        Case(
            f"confluent-kafka/{name}", partial(flagged, code, flags), category, again,
            code=code, origin=Origin.MESSAGING, constructed=True,
        )
        for name, (code, flags, category, again) in FLAGGED.items()
    ),
    _built("confluent-kafka/value not decodable", undecoded, C.DATA, code="_VALUE_DESERIALIZATION"),
]  # fmt: skip
