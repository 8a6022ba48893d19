"""redis-py: the code at the start of the server's error (LOADING, READONLY, …), or a connection error."""

import re

from outlast.classify.codes import parse_names, read_connection_errno
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import TEXT_LIMIT, safe_getattr, safe_str, status_of, text_of
from outlast.failure import Category, Evidence, Origin

CODES = parse_names("""
    database_busy: LOADING BUSY READONLY CLUSTERDOWN TRYAGAIN MASTERDOWN NOREPLICAS NOMASTERLINK INPROG NOQUORUM
      NOGOODSLAVE UNBLOCKED
    network: IOERR
    system: OOM MISCONF
    authentication: NOAUTH WRONGPASS NOPERM
    access_denied: DENIED  # protected mode
    configuration: MOVED ASK NOPROTO
    not_found: NOSCRIPT NOGROUP
    integrity: BUSYKEY BUSYGROUP
    invalid_parameters: WRONGTYPE EXECABORT CROSSSLOT NOTBUSY UNKILLABLE
""")
"""Category by the code at the start of the server's error."""

# Texts of errors with the code ERR or without a code; all others are mistakes in the command.
_TEXT_PATTERNS = (
    (r"max number of clients", Category.DATABASE_BUSY),
    (r"max (?:daily|monthly) request limit exceeded", Category.QUOTA_EXHAUSTED),
    (r"(?:save|rewriting|saving|operation) (?:is )?(?:already )?in progress|failover in progress", Category.DATABASE_BUSY),
    (r"cluster support disabled|DB index is out of range|command not allowed when|not allowed in cluster mode", Category.CONFIGURATION),
    (r"operation not permitted|without any password configured|no password is set|invalid password", Category.AUTHENTICATION),
    (r"no such key|no such user", Category.NOT_FOUND),
)  # fmt: skip
_CODE = re.compile(r"([A-Z][A-Z]{2,30})(?: |\Z)")
_PIPELINE = re.compile(r"\ACommand # \d+ \(.*?\) of pipeline caused error: ", re.DOTALL)
_ABORTED = "because of: "


def read_response_error(error: object) -> Found:
    """The code at the start of the server's error; without a code, the text, or else a mistake in the command."""
    text = _PIPELINE.sub("", text_of(error)[:TEXT_LIMIT])
    code = _code(safe_str(error, "status_code")) or _code(text)
    if code is None and type(error).__name__ != "ResponseError":
        return None  # before redis-py 8 the class replaces the code, which is cut off
    code = code or "ERR"
    if code == "EXECABORT" and _ABORTED in text:
        inner = _code(text.partition(_ABORTED)[2])
        return Evidence(category=CODES.get(inner or "", Category.INVALID_PARAMETERS), code=code)
    if code != "ERR":
        return Evidence(category=CODES.get(code), code=code)
    return Evidence(category=_judge_text(text) or Category.INVALID_PARAMETERS, code=code)


def _code(text: str | None) -> str | None:
    found = _CODE.match(text or "")
    return found[1] if found else None


def _judge_text(text: str) -> Category | None:
    return next((category for pattern, category in _TEXT_PATTERNS if re.search(pattern, text, re.IGNORECASE)), None)


def read_connection_error(error: BaseException) -> Found:
    """The server's code if it refused the client, else the errno of the connection."""
    code = _code(safe_str(error, "status_code")) or _code(text_of(error)[:TEXT_LIMIT])
    if code in CODES:
        return Evidence(category=CODES[code], code=code)
    category = _judge_text(text_of(error)[:TEXT_LIMIT])
    return Evidence(category=category, code=code) if category else read_connection_errno(error)


def read_cluster_error(error: object) -> Found:
    """Whether slots have no node, which is temporary, or the server is not a cluster; else the causes decide."""
    text = text_of(error)[:TEXT_LIMIT]
    if "slots are not covered" in text:
        return Evidence(category=Category.DATABASE_BUSY)
    return Evidence(category=Category.CONFIGURATION) if "Cluster mode is not enabled" in text else None


def read_lock_error(error: object) -> Found:
    """Whether the lock was not available in time, which is temporary; other lock errors are permanent."""
    if "Unable to acquire lock" in text_of(error)[:TEXT_LIMIT]:
        return Evidence(category=Category.DATABASE_BUSY)
    return None


def read_status(error: object) -> Found:
    """The HTTP status of Redis Enterprise's REST API."""
    return Evidence(origin=Origin.HTTP, http_status=status_of(safe_getattr(error, "status")))


LIBRARY = Library(
    title="redis-py",
    packages="redis",
    origin=Origin.CACHE,
    categories={
        Category.NETWORK: "ConnectionError TimeoutError InvalidResponse InitialHealthCheckFailedError",
        Category.DATABASE_BUSY: (
            "BusyLoadingError ReadOnlyError ClusterDownError ClusterError TryAgainError SlotNotCoveredError WatchError "
            "MaxConnectionsError MasterNotFoundError SlaveNotFoundError NoSuchFieldsetError "
            "TemporaryUnavailableException NoValidDatabaseException UnhealthyDatabaseException"
        ),
        Category.API_TEMPORARY: "ExternalAuthProviderError",
        Category.SYSTEM: "OutOfMemoryError",
        Category.AUTHENTICATION: "AuthenticationError AuthorizationError NoPermissionError",
        Category.CONFIGURATION: (
            "AskError AuthenticationWrongNumberOfArgsError ModuleError IncorrectPolicyType InvalidTokenSchemaErr"
        ),
        Category.NOT_FOUND: "NoScriptError",
        Category.INVALID_PARAMETERS: (
            "DataError PubSubError ExecAbortError ClusterCrossSlotError CrossSlotTransactionError"
        ),
        Category.UNKNOWN: "LockNotOwnedError ChildDeadlockedError InvalidPipelineStack",
    },
    readers={
        "ResponseError": read_response_error,
        "ConnectionError": read_connection_error,
        "TimeoutError": read_connection_errno,
        "LockError": read_lock_error,
        "RedisClusterException": read_cluster_error,
        "HttpError": read_status,
        "EventException UnhealthyDatabaseException RequestTokenErr TokenRenewalErr": wrapped(
            "exception", "original_exception", "__cause__"
        ),
    },
    says_nothing=(
        "RedisError ResponseError RedisClusterException LockError EventException HttpError RequestTokenErr "
        "TokenRenewalErr"
    ),
)
