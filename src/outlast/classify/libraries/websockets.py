"""websockets: the close codes of both sides, or the response that refused the handshake."""

from outlast.classify.codes import parse_numbers
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import read_response, safe_getattr, safe_int, safe_str
from outlast.classify.statuses import category_of_status
from outlast.failure import Category, Evidence, Origin

RECEIVED = parse_numbers("""
    unknown: 1000  # normal closure: not a failure
    # going away; closed without a code; lost without a closing frame; TLS
    network: 1001 1005 1006 1015
    # internal error; service restart; try again later; bad gateway; timeout
    api_temporary: 1011 1012 1013 1014 3008
    authentication: 3000
    access_denied: 1008 3003  # policy violation; forbidden
    configuration: 1010  # an extension is missing
    # this side broke the protocol, sent a wrong type or wrong bytes, or too big a message
    invalid_parameters: 1002 1003 1007 1009
""")
"""Category by the close code that the peer sent."""

SENT = parse_numbers("""
    data: 1002 1003 1007-1009
    configuration: 1010
    network: 1011  # pings were not answered
""")
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
