"""requests: a response with a status, or a connection error."""

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import read_response, safe_getattr
from outlast.failure import Category, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_error(error: object) -> "Found":
    """The response, if there was one."""
    return read_response(safe_getattr(error, "response"), safe_getattr(error, "request"))


def read_inner(error: BaseException) -> "Found":
    """The wrapped error of urllib3."""
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, BaseException) else None


LIBRARY = Library(
    title="requests",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: "requests.ConnectionError requests.Timeout requests.ChunkedEncodingError",
        Category.API_TEMPORARY: "requests.RetryError",
        Category.CONFIGURATION: (
            "requests.InvalidURL requests.MissingSchema requests.InvalidSchema requests.URLRequired "
            "requests.InvalidProxyURL"
        ),
        Category.INVALID_PARAMETERS: (
            "requests.InvalidHeader requests.UnrewindableBodyError requests.CookieConflictError"
        ),
        Category.DATA: "requests.ContentDecodingError requests.InvalidJSONError requests.TooManyRedirects",
    },
    readers={
        "requests.RequestException": read_error,
        "requests.ConnectionError": read_connection_errno,
        "requests.ProxyError": read_inner,
        "requests.ChunkedEncodingError": read_connection_errno,
        "requests.ContentDecodingError": read_inner,
        "requests.InvalidJSONError": read_inner,
        "requests.TooManyRedirects": read_inner,
        "requests.RetryError": read_inner,
    },
    says_nothing="requests.RequestException requests.HTTPError requests.StreamConsumedError requests.RequestsWarning",
)
