"""httpx and httpx2, and the httpcore beneath them: a response with a status, or a fault of the connection."""

from holdfast.classify.connection import read_connection
from holdfast.classify.libraries.library import Library
from holdfast.classify.peek import peek, read_response
from holdfast.failure import Category, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.classify.libraries.library import Found


def read_status_error(error: object) -> "Found":
    """The response and the request that it answers."""
    return read_response(peek(error, "response"), peek(error, "request"))


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
        ),
        Category.CONFIGURATION: _both("InvalidURL UnsupportedProtocol") + " " + _cores("UnsupportedProtocol"),
        Category.DATA: _both("DecodingError TooManyRedirects"),
        Category.INVALID_PARAMETERS: _both("LocalProtocolError CookieConflict") + " " + _cores("LocalProtocolError"),
    },
    reads={
        **dict.fromkeys(_both("HTTPStatusError").split(), read_status_error),
        **dict.fromkeys(_both("TransportError").split(), read_connection),
    },
    silent=(
        _both("HTTPError HTTPStatusError RequestError TransportError ProtocolError StreamError StreamConsumed StreamClosed ResponseNotRead RequestNotRead")
        + " "
        + _cores("ProtocolError")
    ),
)
