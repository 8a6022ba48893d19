"""aiohttp: a response with a status, a connection error, or a response that its parser rejected."""

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import read_response, safe_getattr, text_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_response_error(error: object) -> "Found":
    """Status and headers; the status 400 of a response that could not be parsed is aiohttp's own and ignored."""
    cause = safe_getattr(error, "__cause__")
    if cause is not None and "aiohttp.http_exceptions" in str(safe_getattr(type(cause), "__module__")):
        return Evidence(category=Category.NETWORK)
    return read_response(error)


def read_payload_error(error: object) -> "Found":
    """Whether the body ended early, which is a network error, or has a broken encoding, which is bad data."""
    for each in (safe_getattr(error, "__cause__"), error):
        if safe_getattr(
            type(each), "__name__"
        ) == "ContentEncodingError" or "Can not decode content-encoding" in text_of(each):
            return Evidence(category=Category.DATA)
    return None


def read_connector(error: object) -> "Found":
    """The wrapped error of the operating system, the resolver or TLS."""
    inner = safe_getattr(error, "os_error") or safe_getattr(error, "certificate_error")
    return inner if isinstance(inner, BaseException) and inner is not error else None


LIBRARY = Library(
    title="aiohttp",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: (
            "aiohttp.ClientConnectionError aiohttp.ClientPayloadError aiohttp.WebSocketError aiohttp.UploadAbortedError "
            "aiohttp.BadHttpMessage aiohttp.PayloadEncodingError aiohttp.EofStream aiohttp.RequestPayloadError"
        ),
        Category.CONFIGURATION: "aiohttp.ServerFingerprintMismatch aiohttp.InvalidURL aiohttp.NonHttpUrlClientError aiohttp.InvalidURLError",
        Category.DATA: (
            "aiohttp.ContentTypeError aiohttp.ContentEncodingError aiohttp.DecompressSizeError aiohttp.TooManyMembersError "
            "aiohttp.TooManyRedirects aiohttp.RedirectClientError aiohttp.WSMessageTypeError"
        ),
        Category.INVALID_PARAMETERS: "aiohttp.HttpBadRequest aiohttp.BadHttpMethod",
    },
    readers={
        "aiohttp.ClientResponseError": read_response_error,
        "aiohttp.HTTPException": read_response,
        "aiohttp.WSHandshakeError": read_response,
        "aiohttp.ClientPayloadError": read_payload_error,
        "aiohttp.ClientConnectorError": read_connector,
        "aiohttp.ClientConnectionError": read_connection_errno,
    },
    says_nothing=(
        "aiohttp.ClientError aiohttp.ClientResponseError aiohttp.HttpProcessingError aiohttp.HTTPException "
        "aiohttp.WSHandshakeError aiohttp.CleanupError aiohttp.LookupError aiohttp.PayloadAccessError aiohttp.GracefulExit "
        "aiohttp.BadContentDispositionHeader aiohttp.BadContentDispositionParam aiohttp.NotAppKeyWarning"
    ),
)
