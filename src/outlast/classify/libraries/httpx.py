"""httpx and httpx2, and their httpcore: a response with a status, or a connection error."""

from outlast.classify.codes import read_connection_errno, read_proxy_status
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import read_response, safe_getattr
from outlast.failure import Category, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_status_error(error: object) -> "Found":
    """The response and its request."""
    return read_response(safe_getattr(error, "response"), safe_getattr(error, "request"))


def read_proxy_error(error: BaseException) -> "Found":
    """The status of a proxy that refused, or the connection error."""
    return read_proxy_status(error, "") or read_connection_errno(error)


def _qualify_httpx(names: str) -> str:
    """Return the class names for both httpx and httpx2."""
    return " ".join(f"{package}.{name}" for name in names.split() for package in ("httpx", "httpx2"))


def _qualify_httpcore(names: str) -> str:
    return " ".join(f"{package}.{name}" for name in names.split() for package in ("httpcore", "httpcore2"))


LIBRARY = Library(
    title="httpx and httpx2",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: (
            _qualify_httpx("TimeoutException NetworkError RemoteProtocolError ProxyError")
            + " "
            + _qualify_httpcore("TimeoutException NetworkError RemoteProtocolError ProxyError ConnectionNotAvailable")
            + " httpx2.WebSocketNetworkError httpx2.WebSocketDisconnect"
        ),
        Category.CONFIGURATION: _qualify_httpx("InvalidURL UnsupportedProtocol")
        + " "
        + _qualify_httpcore("UnsupportedProtocol"),
        Category.DATA: (
            _qualify_httpx("DecodingError TooManyRedirects")
            + " httpx2.SSEError httpx2.WebSocketUpgradeError httpx2.WebSocketInvalidTypeReceived"
        ),
        Category.INVALID_PARAMETERS: _qualify_httpx("LocalProtocolError CookieConflict")
        + " "
        + _qualify_httpcore("LocalProtocolError"),
    },
    readers={
        **dict.fromkeys(_qualify_httpx("HTTPStatusError").split(), read_status_error),
        "httpx2.WebSocketUpgradeError": read_status_error,
        **dict.fromkeys(
            (_qualify_httpx("ProxyError") + " " + _qualify_httpcore("ProxyError")).split(), read_proxy_error
        ),
        **dict.fromkeys(_qualify_httpx("TransportError").split(), read_connection_errno),
    },
    says_nothing=(
        _qualify_httpx(
            "HTTPError HTTPStatusError RequestError TransportError ProtocolError StreamError StreamConsumed StreamClosed ResponseNotRead RequestNotRead"
        )
        + " "
        + _qualify_httpcore("ProtocolError")
        + " httpx2.HTTPXWSException httpx2.EndOfStream httpx2.QueueShutDown httpx2.ShouldClose "
        "httpx2.ASGIWebSocketTransportError httpx2.UnhandledASGIMessageType httpx2.UnhandledWebSocketEvent"
    ),
)
