"""httplib2: a response that could not be followed or decoded, or a host that was not found."""

from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import credentials_in, read_headers, safe_getattr, status_of
from outlast.failure import Category, Evidence, Origin


def read_answer(response: object, url: object = None) -> Evidence | None:
    """Return the evidence of an httplib2 response, which is itself a mapping of headers; None if it has no status."""
    status = status_of(safe_getattr(response, "status"))
    if status is None:
        return None
    return Evidence(
        origin=Origin.HTTP,
        http_status=status,
        headers=read_headers(response),
        credentials_sent=credentials_in(None, url),
    )


def read_error(error: object) -> Found:
    """The response that could not be used."""
    return read_answer(safe_getattr(error, "response"))


LIBRARY = Library(
    title="httplib2",
    packages="httplib2",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: "ServerNotFoundError",
        Category.CONFIGURATION: (
            "RelativeURIError ProxiesUnavailableError UnimplementedDigestAuthOptionError "
            "UnimplementedHmacDigestAuthOptionError"
        ),
        Category.DATA: (
            "RedirectMissingLocation RedirectLimit FailedToDecompressContent MalformedHeader DecodeLimitError "
            "DecodeRatioError"
        ),
    },
    readers={
        "HttpLib2ErrorWithResponse": read_error,
    },
    says_nothing="HttpLib2Error HttpLib2ErrorWithResponse",
)
