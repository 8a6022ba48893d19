"""requests: a response with a status, or a connection error."""

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import read_response, safe_getattr
from outlast.failure import Category, Origin


def read_error(error: object) -> Found:
    """The response, if there was one."""
    return read_response(safe_getattr(error, "response"), safe_getattr(error, "request"))


def read_inner(error: BaseException) -> Found:
    """The wrapped error of urllib3."""
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, BaseException) else None


LIBRARY = Library(
    title="requests",
    packages="requests",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: "ConnectionError Timeout ChunkedEncodingError",
        Category.API_TEMPORARY: "RetryError",
        Category.CONFIGURATION: "InvalidURL MissingSchema InvalidSchema URLRequired InvalidProxyURL",
        Category.INVALID_PARAMETERS: "InvalidHeader UnrewindableBodyError CookieConflictError",
        Category.DATA: "ContentDecodingError InvalidJSONError TooManyRedirects",
    },
    readers={
        "RequestException": read_error,
        "ConnectionError ChunkedEncodingError": read_connection_errno,
        "ProxyError ContentDecodingError InvalidJSONError TooManyRedirects RetryError": read_inner,
    },
    says_nothing="RequestException HTTPError StreamConsumedError RequestsWarning",
)
