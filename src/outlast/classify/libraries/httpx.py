"""httpx and httpx2, and the httpcore beneath them: a response with a status, or a fault of the connection."""

from outlast.classify.connection import read_connection, read_tunnel
from outlast.classify.libraries.library import Library
from outlast.classify.peek import peek, read_response
from outlast.failure import Category, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_status_error(error: object) -> "Found":
    """The response and the request that it answers."""
    return read_response(peek(error, "response"), peek(error, "request"))


def read_proxy_error(error: BaseException) -> "Found":
    """The status with which the proxy refused, or the fault on the way to it."""
    return read_tunnel(error, "") or read_connection(error)


def _both(names: str) -> str:
    """Name the classes in httpx and httpx2 alike."""
    return " ".join(f"{package}.{name}" for name in names.split() for package in ("httpx", "httpx2"))


def _cores(names: str) -> str:
    return " ".join(f"{package}.{name}" for name in names.split() for package in ("httpcore", "httpcore2"))


LIBRARY = Library(
    title="httpx and httpx2",
    origin=Origin.HTTP,
    says={
        Category.NETWORK: (
            _both("TimeoutException NetworkError RemoteProtocolError ProxyError")
            + " "
            + _cores("TimeoutException NetworkError RemoteProtocolError ProxyError ConnectionNotAvailable")
            + " httpx2.WebSocketNetworkError httpx2.WebSocketDisconnect"
        ),
        Category.CONFIGURATION: _both("InvalidURL UnsupportedProtocol") + " " + _cores("UnsupportedProtocol"),
        Category.DATA: (
            _both("DecodingError TooManyRedirects")
            + " httpx2.SSEError httpx2.WebSocketUpgradeError httpx2.WebSocketInvalidTypeReceived"
        ),
        Category.INVALID_PARAMETERS: _both("LocalProtocolError CookieConflict") + " " + _cores("LocalProtocolError"),
    },
    reads={
        **dict.fromkeys(_both("HTTPStatusError").split(), read_status_error),
        "httpx2.WebSocketUpgradeError": read_status_error,
        **dict.fromkeys((_both("ProxyError") + " " + _cores("ProxyError")).split(), read_proxy_error),
        **dict.fromkeys(_both("TransportError").split(), read_connection),
    },
    silent=(
        _both(
            "HTTPError HTTPStatusError RequestError TransportError ProtocolError StreamError StreamConsumed StreamClosed ResponseNotRead RequestNotRead"
        )
        + " "
        + _cores("ProtocolError")
        + " httpx2.HTTPXWSException httpx2.EndOfStream httpx2.QueueShutDown httpx2.ShouldClose "
        "httpx2.ASGIWebSocketTransportError httpx2.UnhandledASGIMessageType httpx2.UnhandledWebSocketEvent"
    ),
)
