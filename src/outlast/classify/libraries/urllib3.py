"""urllib3: connection errors, and its own retries that gave up."""

import re

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_error, text_of
from outlast.failure import Category, Evidence, Origin


def read_reason(error: object) -> Found:
    """The error that the retries gave up on."""
    return safe_error(error, "reason")


def read_proxy_error(error: object) -> Found:
    """The connection error to the proxy, or the proxy's response."""
    return safe_error(error, "original_error")


def read_response_error(error: object) -> Found:
    """The status that was returned too often; it is only in the text."""
    match = re.fullmatch(r"too many (\d{3}) error responses", text_of(error))
    if match:
        return Evidence(http_status=int(match[1]))
    return Evidence(category=Category.DATA) if text_of(error) == "too many redirects" else None


LIBRARY = Library(
    title="urllib3",
    packages="urllib3",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: (
            "TimeoutError ProtocolError SSLError ProxyError PoolError IncompleteRead InvalidChunkLength MaxRetryError "
            "CertificateError"
        ),
        Category.API_TEMPORARY: "ResponseError",
        Category.CONFIGURATION: "LocationValueError ProxySchemeUnsupported",
        Category.INVALID_PARAMETERS: "InvalidHeader ClosedPoolError UnrewindableBodyError HostChangedError",
        Category.DATA: "DecodeError HeaderParsingError ResponseNotChunked",
    },
    readers={
        "MaxRetryError": read_reason,
        "ResponseError": read_response_error,
        "ProxyError": read_proxy_error,
        "TimeoutError ProtocolError PoolError": read_connection_errno,
    },
    says_nothing="HTTPError BodyNotHttplibCompatible TimeoutStateError HTTPWarning UnsupportedExtension",
)
