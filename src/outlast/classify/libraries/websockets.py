"""websockets: the close codes of both sides, or the response that refused the handshake."""

from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import read_response, safe_getattr, safe_int, safe_str
from outlast.classify.statuses import category_of_status
from outlast.failure import Category, Evidence, Origin

RECEIVED: dict[int, Category] = {
    1000: Category.UNKNOWN,  # normal closure: not a failure
    1001: Category.NETWORK,  # going away
    1002: Category.INVALID_PARAMETERS,  # this side broke the protocol
    1003: Category.INVALID_PARAMETERS,
    1005: Category.NETWORK,  # closed without a code
    1006: Category.NETWORK,  # lost without a closing frame
    1007: Category.INVALID_PARAMETERS,
    1008: Category.ACCESS_DENIED,  # policy violation
    1009: Category.INVALID_PARAMETERS,  # this side's message is too big
    1010: Category.CONFIGURATION,  # an extension is missing
    1011: Category.API_TEMPORARY,
    1012: Category.API_TEMPORARY,  # service restart
    1013: Category.API_TEMPORARY,  # try again later
    1014: Category.API_TEMPORARY,  # bad gateway
    1015: Category.NETWORK,  # TLS
    3000: Category.AUTHENTICATION,
    3003: Category.ACCESS_DENIED,
    3008: Category.API_TEMPORARY,  # timeout
}
"""Category by the close code that the peer sent."""

SENT: dict[int, Category] = {
    1002: Category.DATA,
    1003: Category.DATA,
    1007: Category.DATA,
    1008: Category.DATA,
    1009: Category.DATA,
    1010: Category.CONFIGURATION,
    1011: Category.NETWORK,  # pings were not answered
}
"""Category by the close code that this side sent, because the peer broke the protocol."""

_LEFT_TO_WORDS = frozenset({1000, 1008})
_OWN_CODES = range(3000, 5000)
_LIKE_HTTP = range(4400, 4600)


def read_close(error: object) -> Found:
    """The close code of the side that closed first; the reason decides for application-specific codes."""
    received, sent = safe_int(error, "rcvd", "code"), safe_int(error, "sent", "code")
    if received is None and sent is None:
        return Evidence(category=Category.NETWORK, code="1006")
    if sent is not None and safe_getattr(error, "rcvd_then_sent") is not True:
        return Evidence(
            category=SENT.get(sent, Category.NETWORK if received is None else Category.UNKNOWN), code=str(sent)
        )
    return _judge_received(received, safe_str(error, "rcvd", "reason")) if received is not None else None


def _judge_received(code: int, reason: str | None) -> Evidence:
    category = RECEIVED.get(code)
    if category is None and code in _LIKE_HTTP:  # the convention of GraphQL over WebSocket and others
        category = category_of_status(code - 4000)
    if reason and (code in _LEFT_TO_WORDS or (category is None and code in _OWN_CODES)):
        from outlast.classify.texts import read_text  # noqa: PLC0415  # compiles large patterns, which are rarely needed

        category = next((found for found, _, _ in read_text(reason)), category)
    return Evidence(category=category or Category.UNKNOWN, code=str(code))


def read_refusal(error: object) -> Found:
    """Status and headers of the response that refused the handshake."""
    return read_response(safe_getattr(error, "response")) or read_response(error)


LIBRARY = Library(
    title="websockets",
    packages="websockets",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: "ConnectionClosed InvalidMessage ProxyError",
        Category.CONFIGURATION: "InvalidURI InvalidProxy NegotiationError InvalidProtocol",
        Category.ACCESS_DENIED: "InvalidOrigin",
        Category.INVALID_PARAMETERS: "InvalidState ConcurrencyError InvalidMethod",
        Category.DATA: (
            "InvalidHandshake InvalidHeader InvalidStatus ProtocolError PayloadTooBig TooManyFragments SecurityError "
            "MultipleValuesError"
        ),
    },
    readers={
        "ConnectionClosed": read_close,
        "InvalidStatus InvalidStatusCode InvalidProxyStatus AbortHandshake": read_refusal,
    },
    says_nothing="WebSocketException",
)
