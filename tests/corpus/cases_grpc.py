"""gRPC: every status from a real server, waits and reasons in trailing metadata, connections that fail, and grpc.aio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corpus.case import Case, caught, caught_async
from outlast import Category, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from corpus.case import World

_RETRIED = frozenset({Category.NETWORK, Category.RATE_LIMIT, Category.API_TEMPORARY})
_ONCE = [("grpc.enable_retries", 0)]
_TIMEOUT = 5.0


def call(target: str, method: str, *, timeout: float = _TIMEOUT, options: Any = (), read: Any = None) -> bytes:
    import grpc

    with grpc.insecure_channel(target, options=[*_ONCE, *options]) as channel:
        answer: bytes = channel.unary_unary(method, response_deserializer=read)(b"", timeout=timeout)
        return answer


def _call_async(target: str, method: str, *, timeout: float = _TIMEOUT) -> BaseException:
    async def fetch() -> None:
        import grpc

        async with grpc.aio.insecure_channel(target, options=_ONCE) as channel:
            await channel.unary_unary(method)(b"", timeout=timeout)

    return caught_async(fetch)


def _stream(target: str, method: str) -> BaseException:
    import grpc

    def fetch() -> None:
        with grpc.insecure_channel(target, options=_ONCE) as channel:
            list(channel.unary_stream(method)(b"", timeout=_TIMEOUT))

    return caught(fetch)


def details(*parts: Any) -> dict[str, bytes]:
    """Return trailing metadata that holds these messages of google.rpc."""
    from google.rpc import status_pb2

    status = status_pb2.Status(code=8, message="as in the status")
    for part in parts:
        status.details.add().Pack(part)
    return {"grpc-status-details-bin": status.SerializeToString()}


def retry_info(seconds: int, nanos: int = 0) -> Any:
    from google.rpc import error_details_pb2

    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds, info.retry_delay.nanos = seconds, nanos
    return info


def error_info(reason: str, **metadata: str) -> Any:
    from google.rpc import error_details_pb2

    return error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com", metadata=metadata)


def violation(subject: str, words: str) -> Any:
    from google.rpc import error_details_pb2

    failure = error_details_pb2.QuotaFailure()
    failure.violations.add(subject=subject, description=words)
    return failure


STATUSES: dict[str, Category] = {
    "CANCELLED": Category.UNKNOWN,
    "UNKNOWN": Category.UNKNOWN,
    "INVALID_ARGUMENT": Category.INVALID_PARAMETERS,
    "DEADLINE_EXCEEDED": Category.NETWORK,
    "NOT_FOUND": Category.NOT_FOUND,
    "ALREADY_EXISTS": Category.INVALID_PARAMETERS,
    "PERMISSION_DENIED": Category.AUTHENTICATION,
    "RESOURCE_EXHAUSTED": Category.RATE_LIMIT,
    "FAILED_PRECONDITION": Category.INVALID_PARAMETERS,
    "ABORTED": Category.API_TEMPORARY,
    "OUT_OF_RANGE": Category.INVALID_PARAMETERS,
    "UNIMPLEMENTED": Category.INVALID_PARAMETERS,
    "INTERNAL": Category.API_TEMPORARY,
    "UNAVAILABLE": Category.API_TEMPORARY,
    "DATA_LOSS": Category.DATA,
    "UNAUTHENTICATED": Category.AUTHENTICATION,
}
"""What a status means whose words say nothing."""

_CURRENT = "You exceeded your current quota, please check your plan and billing details."
_METRIC = "Quota exceeded for quota metric 'Queries' and limit 'Queries per {}' of service 'example.googleapis.com'"
_FREE = "GenerateRequestsPer{}PerProjectPerModel-FreeTier"

# name, status, words, trailing metadata, category, seconds to wait
ENDINGS: list[tuple[str, str, str, Callable[[], Mapping[str, str | bytes]], Category, float | None]] = [
    ("wait", "RESOURCE_EXHAUSTED", "", lambda: details(retry_info(30)), Category.RATE_LIMIT, 30),
    ("wait-fraction", "UNAVAILABLE", "", lambda: details(retry_info(1, 500_000_000)), Category.API_TEMPORARY, 1.5),
    ("wait-aborted", "ABORTED", "transaction aborted", lambda: details(retry_info(2)), Category.API_TEMPORARY, 2),
    ("wait-unknown", "UNKNOWN", "", lambda: details(retry_info(4)), Category.API_TEMPORARY, 4),
    (
        "wait-after-others",
        "UNAVAILABLE",
        "",
        lambda: details(error_info("X"), retry_info(7)),
        Category.API_TEMPORARY,
        7,
    ),
    ("wait-negative", "UNAVAILABLE", "", lambda: details(retry_info(-5)), Category.API_TEMPORARY, None),
    ("wait-useless", "NOT_FOUND", "", lambda: details(retry_info(30)), Category.NOT_FOUND, None),
    ("wait-header", "RESOURCE_EXHAUSTED", "", lambda: {"retry-after": "12"}, Category.RATE_LIMIT, 12),
    ("pushback", "UNAVAILABLE", "", lambda: {"grpc-retry-pushback-ms": "2500"}, Category.API_TEMPORARY, 2.5),
    (
        "details-broken",
        "UNAVAILABLE",
        "",
        lambda: {"grpc-status-details-bin": b"\x1a\xff\xff"},
        Category.API_TEMPORARY,
        None,
    ),
    ("quota-day", "RESOURCE_EXHAUSTED", _METRIC.format("day"), dict, Category.QUOTA_EXHAUSTED, None),
    ("quota-minute", "RESOURCE_EXHAUSTED", _METRIC.format("minute"), dict, Category.RATE_LIMIT, None),
    ("quota-current", "RESOURCE_EXHAUSTED", _CURRENT, dict, Category.QUOTA_EXHAUSTED, None),
    (
        "quota-daily-words",
        "RESOURCE_EXHAUSTED",
        "the daily request limit is used up",
        dict,
        Category.QUOTA_EXHAUSTED,
        None,
    ),
    (
        "quota-violation-minute",
        "RESOURCE_EXHAUSTED",
        _CURRENT,
        lambda: details(violation(_FREE.format("Minute"), ""), retry_info(21)),
        Category.RATE_LIMIT,
        21,
    ),
    (
        "quota-violation-day",
        "RESOURCE_EXHAUSTED",
        _CURRENT,
        lambda: details(violation(_FREE.format("Day"), "")),
        Category.QUOTA_EXHAUSTED,
        None,
    ),
    (
        "reason-limit-day",
        "RESOURCE_EXHAUSTED",
        "Quota exceeded",
        lambda: details(error_info("RATE_LIMIT_EXCEEDED", quota_limit="defaultPerDayPerProject")),
        Category.QUOTA_EXHAUSTED,
        None,
    ),
    (
        "reason-key-invalid",
        "INVALID_ARGUMENT",
        "API key not valid.",
        lambda: details(error_info("API_KEY_INVALID", service="example.googleapis.com")),
        Category.AUTHENTICATION,
        None,
    ),
    (
        "reason-service-disabled",
        "PERMISSION_DENIED",
        "Example API has not been used in project 7 before or it is disabled.",
        lambda: details(error_info("SERVICE_DISABLED", consumer="projects/7")),
        Category.CONFIGURATION,
        None,
    ),
    ("rst", "INTERNAL", "Received RST_STREAM with error code 2", dict, Category.NETWORK, None),
    ("unexpected-eos", "INTERNAL", "Received unexpected EOS on DATA frame from server", dict, Category.NETWORK, None),
    ("stream-removed", "UNKNOWN", "Stream removed", dict, Category.NETWORK, None),
]

# what the server does to the connection, category, code, HTTP status
FAULTS: list[tuple[str, Category, str, int | None]] = [
    ("401", Category.AUTHENTICATION, "UNAUTHENTICATED", 401),
    ("403", Category.ACCESS_DENIED, "PERMISSION_DENIED", 403),
    ("404", Category.NOT_FOUND, "UNIMPLEMENTED", 404),
    ("429", Category.RATE_LIMIT, "UNAVAILABLE", 429),
    ("500", Category.API_TEMPORARY, "UNKNOWN", 500),
    ("503", Category.API_TEMPORARY, "UNAVAILABLE", 503),
    ("rst-2", Category.NETWORK, "INTERNAL", None),
    ("rst-7", Category.NETWORK, "UNAVAILABLE", None),
    ("rst-8", Category.NETWORK, "CANCELLED", None),
    ("rst-11", Category.RATE_LIMIT, "RESOURCE_EXHAUSTED", None),
    ("goaway", Category.NETWORK, "UNAVAILABLE", None),
    ("close", Category.NETWORK, "UNAVAILABLE", None),
    ("garbage", Category.NETWORK, "UNAVAILABLE", None),
]


def _refused(world: World) -> BaseException:
    return caught(call, world.faults.refused_url.strip("/").rpartition("/")[2], "/faults/0")


def _unreadable(answer: bytes) -> None:
    raise ValueError(len(answer))


def _plugin(words: str) -> Callable[[World], BaseException]:
    """Let the plugin that fetches a token fail, as google-auth's does."""

    def produce(world: World) -> BaseException:
        import grpc

        def fetch(_: Any, callback: Any) -> None:
            callback((), RuntimeError(words))

        credentials = grpc.composite_channel_credentials(
            grpc.local_channel_credentials(), grpc.metadata_call_credentials(fetch)
        )
        with grpc.secure_channel(world.rpc.local_target, credentials, options=_ONCE) as channel:
            return caught(channel.unary_unary("/faults/large"), b"", timeout=_TIMEOUT)

    return produce


def _case(name: str, produce: Callable[[World], BaseException], category: Category, code: str, **more: Any) -> Case:
    retryable = more.pop("retryable", category in _RETRIED)
    return Case(f"grpc/{name}", produce, category, retryable, code=code, origin=Origin.RPC, needs="rpc", **more)


def _status_cases() -> list[Case]:
    ways = {
        "sync": lambda server, method: caught(call, server.target, method),
        "aio": lambda server, method: _call_async(server.target, method),
        "stream": lambda server, method: _stream(server.target, method.replace("faults", "streams")),
    }
    return [
        _case(
            f"{way}-{status}",
            lambda world, run=run, status=status: run(world.rpc, world.rpc.end(status, "some words")),
            category,
            status,
        )
        for way, run in ways.items()
        for status, category in STATUSES.items()
        if way == "sync" or category in {Category.API_TEMPORARY, Category.RATE_LIMIT, Category.NOT_FOUND}
    ]


def _ending_cases() -> list[Case]:
    cases = []
    for name, status, words, trailing, category, wait in ENDINGS:
        for way in ("sync", "aio") if wait else ("sync",):

            def produce(world: World, status=status, words=words, trailing=trailing, way=way) -> BaseException:
                method = world.rpc.end(status, words, trailing())
                server = world.rpc.target
                return caught(call, server, method) if way == "sync" else _call_async(server, method)

            cases.append(_case(f"{way}-{name}", produce, category, status, retry_after=wait))
    return cases


CASES = [
    *_status_cases(),
    *_ending_cases(),
    *(
        _case(
            f"connection-{fault}",
            lambda world, fault=fault: caught(call, world.http2.target(fault), "/faults/0"),
            category,
            code,
            http_status=status,
        )
        for fault, category, code, status in FAULTS
    ),
    _case(
        "wait-beyond-cap",
        lambda world: caught(call, world.rpc.target, world.rpc.end("UNAVAILABLE", "", details(retry_info(90_000)))),
        Category.API_TEMPORARY,
        "UNAVAILABLE",
        retry_after=3600,
        capped=True,
    ),
    _case(
        "pushback-never",
        lambda world: caught(
            call, world.rpc.target, world.rpc.end("UNAVAILABLE", "", {"grpc-retry-pushback-ms": "-1"})
        ),
        Category.API_TEMPORARY,
        "UNAVAILABLE",
        retryable=False,
    ),
    _case("refused", _refused, Category.NETWORK, "UNAVAILABLE"),
    _case("unresolvable", lambda _: caught(call, "nothing.invalid:1", "/faults/0"), Category.NETWORK, "UNAVAILABLE"),
    _case(
        "deadline",
        lambda world: caught(call, world.rpc.target, "/faults/late", timeout=0.1),
        Category.NETWORK,
        "DEADLINE_EXCEEDED",
    ),
    _case(
        "deadline-aio",
        lambda world: _call_async(world.rpc.target, "/faults/late", timeout=0.1),
        Category.NETWORK,
        "DEADLINE_EXCEEDED",
    ),
    _case("handler-raises", lambda world: caught(call, world.rpc.target, "/faults/boom"), Category.UNKNOWN, "UNKNOWN"),
    _case(
        "method-missing",
        lambda world: caught(call, world.rpc.target, "/faults/other"),
        Category.INVALID_PARAMETERS,
        "UNIMPLEMENTED",
    ),
    _case(
        "message-too-large",
        lambda world: caught(call, world.rpc.target, "/faults/large", options=[("grpc.max_receive_message_length", 9)]),
        Category.INVALID_PARAMETERS,
        "RESOURCE_EXHAUSTED",
    ),
    _case(
        "answer-unreadable",
        lambda world: caught(call, world.rpc.target, "/faults/large", read=_unreadable),
        Category.DATA,
        "INTERNAL",
    ),
    _case("token-revoked", _plugin("('invalid_grant: Bad Request')"), Category.AUTHENTICATION, "UNAVAILABLE"),
    _case("token-unreachable", _plugin("Connection refused by the token's server"), Category.NETWORK, "UNAVAILABLE"),
]
