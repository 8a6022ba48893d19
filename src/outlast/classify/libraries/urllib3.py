"""urllib3: connection errors, and its own retries that gave up."""

import re

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import text_of
from outlast.failure import Category, Evidence, Origin


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
        "MaxRetryError": wrapped("reason"),
        "ResponseError": read_response_error,
        "ProxyError": wrapped("original_error"),
        "TimeoutError ProtocolError PoolError": read_connection_errno,
    },
    says_nothing="HTTPError BodyNotHttplibCompatible TimeoutStateError HTTPWarning UnsupportedExtension",
)
