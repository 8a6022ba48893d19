"""httplib2: a response that could not be followed or decoded, or a host that was not found."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import credentials_in, read_headers, safe_getattr, status_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


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


def read_error(error: object) -> "Found":
    """The response that could not be used."""
    return read_answer(safe_getattr(error, "response"))


def _httplib2(names: str) -> str:
    return " ".join(f"httplib2.{name}" for name in names.split())


LIBRARY = Library(
    title="httplib2",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: _httplib2("ServerNotFoundError"),
        Category.CONFIGURATION: _httplib2(
            "RelativeURIError ProxiesUnavailableError UnimplementedDigestAuthOptionError "
            "UnimplementedHmacDigestAuthOptionError"
        ),
        Category.DATA: _httplib2(
            "RedirectMissingLocation RedirectLimit FailedToDecompressContent MalformedHeader DecodeLimitError "
            "DecodeRatioError"
        ),
    },
    readers={"httplib2.HttpLib2ErrorWithResponse": read_error},
    says_nothing=_httplib2("HttpLib2Error HttpLib2ErrorWithResponse"),
)
