"""httpx and httpx2, and their httpcore: a response with a status, or a connection error."""

from outlast.classify.codes import read_connection_errno, read_proxy_status
from outlast.classify.libraries.library import Found, Library, read_attached_response
from outlast.failure import Category, Origin


def read_proxy_error(error: BaseException) -> Found:
    """The status of a proxy that refused, or the connection error."""
    return read_proxy_status(error, "") or read_connection_errno(error)


LIBRARY = Library(
    title="httpx and httpx2",
    packages="httpx httpx2",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: (
            "TimeoutException NetworkError RemoteProtocolError ProxyError httpcore.TimeoutException "
            "httpcore2.TimeoutException httpcore.NetworkError httpcore2.NetworkError httpcore.RemoteProtocolError "
            "httpcore2.RemoteProtocolError httpcore.ProxyError httpcore2.ProxyError httpcore.ConnectionNotAvailable "
            "httpcore2.ConnectionNotAvailable httpx2.WebSocketNetworkError httpx2.WebSocketDisconnect"
        ),
        Category.CONFIGURATION: (
            "InvalidURL UnsupportedProtocol httpcore.UnsupportedProtocol httpcore2.UnsupportedProtocol"
        ),
        Category.DATA: (
            "DecodingError TooManyRedirects httpx2.SSEError httpx2.WebSocketUpgradeError "
            "httpx2.WebSocketInvalidTypeReceived"
        ),
        Category.INVALID_PARAMETERS: (
            "LocalProtocolError CookieConflict httpcore.LocalProtocolError httpcore2.LocalProtocolError"
        ),
    },
    readers={
        "HTTPStatusError httpx2.WebSocketUpgradeError": read_attached_response,
        "ProxyError httpcore.ProxyError httpcore2.ProxyError": read_proxy_error,
        "TransportError": read_connection_errno,
    },
    says_nothing=(
        "HTTPError HTTPStatusError RequestError TransportError ProtocolError StreamError StreamConsumed "
        "StreamClosed ResponseNotRead RequestNotRead httpcore.ProtocolError httpcore2.ProtocolError "
        "httpx2.HTTPXWSException httpx2.EndOfStream httpx2.QueueShutDown httpx2.ShouldClose "
        "httpx2.ASGIWebSocketTransportError httpx2.UnhandledASGIMessageType httpx2.UnhandledWebSocketEvent"
    ),
)
