"""aiohttp: a response with a status, a connection error, or a response that its parser rejected."""

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import read_response, safe_getattr, text_of
from outlast.failure import Category, Evidence, Origin


def read_response_error(error: object) -> Found:
    """Status and headers; the status 400 of a response that could not be parsed is aiohttp's own and ignored."""
    cause = safe_getattr(error, "__cause__")
    if cause is not None and "aiohttp.http_exceptions" in str(safe_getattr(type(cause), "__module__")):
        return Evidence(category=Category.NETWORK)
    return read_response(error)


def read_payload_error(error: object) -> Found:
    """Whether the body ended early, which is a network error, or has a broken encoding, which is bad data."""
    for each in (safe_getattr(error, "__cause__"), error):
        if safe_getattr(
            type(each), "__name__"
        ) == "ContentEncodingError" or "Can not decode content-encoding" in text_of(each):
            return Evidence(category=Category.DATA)
    return None


LIBRARY = Library(
    title="aiohttp",
    packages="aiohttp",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: (
            "ClientConnectionError ClientPayloadError WebSocketError UploadAbortedError BadHttpMessage "
            "PayloadEncodingError EofStream RequestPayloadError"
        ),
        Category.CONFIGURATION: "ServerFingerprintMismatch InvalidURL NonHttpUrlClientError InvalidURLError",
        Category.DATA: (
            "ContentTypeError ContentEncodingError DecompressSizeError TooManyMembersError TooManyRedirects "
            "RedirectClientError WSMessageTypeError"
        ),
        Category.INVALID_PARAMETERS: "HttpBadRequest BadHttpMethod",
    },
    readers={
        "ClientResponseError": read_response_error,
        "HTTPException WSHandshakeError": read_response,
        "ClientPayloadError": read_payload_error,
        "ClientConnectorError": wrapped("os_error", "certificate_error"),
        "ClientConnectionError": read_connection_errno,
    },
    says_nothing=(
        "ClientError ClientResponseError HttpProcessingError HTTPException WSHandshakeError CleanupError "
        "LookupError PayloadAccessError GracefulExit BadContentDispositionHeader BadContentDispositionParam "
        "NotAppKeyWarning"
    ),
)
