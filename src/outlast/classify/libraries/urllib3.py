"""urllib3: connection errors, and its own retries that gave up."""

import re

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_getattr, text_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_reason(error: object) -> "Found":
    """The error that the retries gave up on."""
    reason = safe_getattr(error, "reason")
    return reason if isinstance(reason, BaseException) else None


def read_proxy_error(error: object) -> "Found":
    """The connection error to the proxy, or the proxy's response."""
    original = safe_getattr(error, "original_error")
    return original if isinstance(original, BaseException) else None


def read_response_error(error: object) -> "Found":
    """The status that was returned too often; it is only in the text."""
    match = re.fullmatch(r"too many (\d{3}) error responses", text_of(error))
    if match:
        return Evidence(http_status=int(match[1]))
    return Evidence(category=Category.DATA) if text_of(error) == "too many redirects" else None


LIBRARY = Library(
    title="urllib3",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: (
            "urllib3.TimeoutError urllib3.ProtocolError urllib3.SSLError urllib3.ProxyError urllib3.PoolError "
            "urllib3.IncompleteRead urllib3.InvalidChunkLength urllib3.MaxRetryError urllib3.CertificateError"
        ),
        Category.API_TEMPORARY: "urllib3.ResponseError",
        Category.CONFIGURATION: "urllib3.LocationValueError urllib3.ProxySchemeUnsupported",
        Category.INVALID_PARAMETERS: "urllib3.InvalidHeader urllib3.ClosedPoolError urllib3.UnrewindableBodyError urllib3.HostChangedError",
        Category.DATA: "urllib3.DecodeError urllib3.HeaderParsingError urllib3.ResponseNotChunked",
    },
    readers={
        "urllib3.MaxRetryError": read_reason,
        "urllib3.ResponseError": read_response_error,
        "urllib3.ProxyError": read_proxy_error,
        "urllib3.TimeoutError": read_connection_errno,
        "urllib3.ProtocolError": read_connection_errno,
        "urllib3.PoolError": read_connection_errno,
    },
    says_nothing="urllib3.HTTPError urllib3.BodyNotHttplibCompatible urllib3.TimeoutStateError urllib3.HTTPWarning",
)
