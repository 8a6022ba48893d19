"""requests and the Docker SDK: a response with a status, or a connection error."""

from outlast.classify.codes import judge_words, read_connection_errno
from outlast.classify.libraries.library import Found, Library, read_attached_response
from outlast.classify.safe_access import safe_str
from outlast.failure import Category, Evidence, Origin

# The Docker daemon answers with a 500 to whatever a registry or the machine refused; its message begins with the code of
# the registry, or ends with the error of the system.
DAEMON = (
    (r"\btoomanyrequests: ", Category.RATE_LIMIT),
    (r"\b(?:unauthorized|denied): |no basic auth credentials|incorrect username or password", Category.AUTHENTICATION),
    (r"\bmanifest unknown\b|\bname unknown: ", Category.NOT_FOUND),
    (r"no space left on device|cannot allocate memory", Category.SYSTEM),
    (r"port is already allocated|address already in use|could not select device driver", Category.CONFIGURATION),
    (r"no such host|i/o timeout|TLS handshake timeout|connection re(?:fused|set)", Category.NETWORK),
)
"""Category by the message of the Docker daemon."""


def read_inner(error: BaseException) -> Found:
    """The wrapped error of urllib3."""
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, BaseException) else None


def read_daemon(error: object) -> Found:
    """The response of the Docker daemon, and its message if the status says only that something failed."""
    found = read_attached_response(error)
    message = (safe_str(error, "explanation") or "")[:2048]
    if isinstance(found, Evidence) and found.http_status == 500:
        return found.replace(category=judge_words(message, DAEMON))
    return found


LIBRARY = Library(
    title="requests and the Docker SDK",
    packages="requests",
    origin=Origin.HTTP,
    categories={
        Category.NETWORK: "ConnectionError Timeout ChunkedEncodingError docker.SocketError",
        Category.API_TEMPORARY: "RetryError",
        Category.CONFIGURATION: (
            "InvalidURL MissingSchema InvalidSchema URLRequired InvalidProxyURL docker.ContextException "
            "docker.ContextNotFound docker.InitializationError docker.InvalidConfigFile docker.InvalidVersion "
            "docker.MissingContextParameter docker.TLSParameterError"
        ),
        Category.AUTHENTICATION: "docker.CredentialsNotFound",
        Category.INVALID_PARAMETERS: (
            "InvalidHeader UnrewindableBodyError CookieConflictError docker.ContextAlreadyExists "
            "docker.DeprecatedMethod docker.InvalidArgument docker.InvalidRepository docker.NullResource"
        ),
        Category.DATA: (
            "ContentDecodingError InvalidJSONError TooManyRedirects docker.ImageLoadError docker.StreamParseError"
        ),
    },
    readers={
        "RequestException": read_attached_response,
        "docker.APIError": read_daemon,
        "ConnectionError ChunkedEncodingError": read_connection_errno,
        "ProxyError ContentDecodingError InvalidJSONError TooManyRedirects RetryError": read_inner,
    },
    says_nothing=(
        "RequestException HTTPError StreamConsumedError RequestsWarning docker.BuildError docker.ContainerError "
        "docker.DockerException docker.StoreError"
    ),
)
