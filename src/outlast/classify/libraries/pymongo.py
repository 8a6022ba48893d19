"""PyMongo, its bson and gridfs: the server's error code and labels, or a connection error."""

from outlast.classify.codes import parse_numbers, read_connection_errno
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import safe_getattr, safe_int, safe_item, safe_list, text_of
from outlast.failure import RETRYABLE, Category, Evidence, Origin

NUMBERS = parse_numbers("""
    # locks, write conflicts, conflicting operations; time limits; a primary that changes or stops; a shard that moves;
    # expired snapshots, cursors and transactions, which can be opened again; write concern not reached in time
    database_busy: 24 46 107 109 112 117 143 215 216 267 314 363 12586 12587 50 262 290 91 189 10058 10107 11600
      11602 13435 13436 133 134 63 150 249 250 272 13388 234 136 175 239 246 251 43 64 211 261 365 402 406 407 412 433
      450 453 91331
    rate_limit: 449 462 16500  # the last is Cosmos DB's 'request rate is large'
    network: 6 7 89 141 202 230 384 9001
    system: 39 42 176 264 14031
    authentication: 11 13 18 31 33 214 334 391 392
    # namespace, index, shard or command unknown; no replica set; feature not enabled; impossible write concern
    configuration: 20 26 27 59 70 71 76 79 85 86 93 94 100 115 123 148 224 238 322 323 324 347 352 376 13297 31082
    not_found: 47 286  # 286: the resume point of a change stream is lost
    integrity: 3 84 121 301 11000 11001 12582  # duplicate key; document validation; damaged data
    data: 22 241 378
    invalid_parameters: 2 9 14 15 16 28 40 48 52 53 55 56 57 61 66 67 68 72 73 116 146 165 168 171 197 207 257 260
      263 292 357 10003 10334 17280 17419 40324 40413 40414 40415
    unknown: 1 8 237 280 11601  # internal; killed or interrupted by a user
""")
"""Category by the server's error code."""

LABELS = frozenset(
    {
        "ResumableChangeStreamError",
        "RetryableError",
        "RetryableWriteError",
        "SystemOverloadedError",
        "TransientTransactionError",
        "UnknownTransactionCommitResult",
    }
)
"""Labels with which the server or the driver says that a retry may help."""

_ATLAS = 8000
_SELECTION_LIMIT = 200  # the rest describes every server


def read_operation(error: object) -> Found:
    """The server's error code; a label that allows a retry overrides a permanent code."""
    number = safe_int(error, "code")
    return _read_evidence(error, _category_of_number(number, text_of(error)), number)


def read_bulk(error: object) -> Found:
    """The codes of the single writes; a permanent one decides before retryable ones."""
    details = safe_getattr(error, "details")
    inner = safe_item(details, "error")
    if isinstance(inner, BaseException):
        return inner
    failed = [
        (number, NUMBERS.get(number))
        for key in ("writeErrors", "writeConcernErrors")
        for each in safe_list(safe_item(details, key))
        if isinstance(number := safe_item(each, "code"), int)
    ]
    failed.sort(key=lambda pair: pair[1] in RETRYABLE)
    number, category = failed[0] if failed else (safe_int(error, "code"), None)
    return _read_evidence(error, category, number)


def read_not_primary(error: object) -> Found:
    """The server's error code, if the response is available."""
    number = safe_item(safe_getattr(error, "details"), "code")
    return Evidence(category=Category.DATABASE_BUSY, code=str(number)) if isinstance(number, int) else None


def read_selection(error: BaseException) -> Found:
    """Whether no server was suitable, none belongs to the named replica set, or none was reached."""
    text = text_of(error)[:_SELECTION_LIMIT]
    if text.startswith("No "):
        if "available for writes" in text or "match selector" in text:
            return Evidence(category=Category.DATABASE_BUSY)
        if "available for replica set name" in text:
            return Evidence(category=Category.CONFIGURATION)
    return read_connection_errno(error)


def read_configuration(error: object) -> Found:
    """Whether the host list could not be resolved by DNS, which is a network error and not a wrong setting."""
    cause = safe_getattr(error, "__cause__")
    if cause is not None and str(safe_getattr(type(cause), "__module__")).partition(".")[0] == "dns":
        return Evidence(category=Category.NETWORK)
    return None


def _read_evidence(error: object, category: Category | None, number: int | None) -> Evidence | None:
    labels = safe_getattr(error, "_error_labels")
    if isinstance(labels, set | frozenset) and not LABELS.isdisjoint(labels) and category not in RETRYABLE:
        category = Category.DATABASE_BUSY
    if category is None and number is None:
        return None
    return Evidence(
        category=category,
        code=None if number is None else str(number),
        retry_after=_backoff(safe_getattr(error, "details")),
    )


def _category_of_number(number: int | None, text: str) -> Category | None:
    if number == _ATLAS:  # Atlas uses it for all its own errors
        return Category.AUTHENTICATION if "auth" in text else None
    return NUMBERS.get(number) if number is not None else None


def _backoff(details: object) -> float | None:
    """Return the minimum seconds that an overloaded server asks to wait, or None."""
    wait = safe_item(details, "baseBackoffMS")
    valid = isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= 3_600_000
    return wait / 1000 if valid else None  # type: ignore[operator]  # a number, as checked above


LIBRARY = Library(
    title="PyMongo, bson and gridfs",
    packages="pymongo",
    origin=Origin.DB,
    categories={
        Category.NETWORK: "ConnectionFailure ProtocolError",
        Category.DATABASE_BUSY: (
            "NotPrimaryError WaitQueueTimeoutError ExecutionTimeout CursorNotFound WriteConcernError"
        ),
        Category.INTEGRITY: "DuplicateKeyError gridfs.FileExists gridfs.CorruptGridFile",
        Category.CONFIGURATION: "ConfigurationError",
        Category.INVALID_PARAMETERS: (
            "InvalidOperation InvalidName CollectionInvalid DocumentTooLarge bson.InvalidDocument "
            "bson.InvalidStringData bson.InvalidId"
        ),
        Category.DATA: "bson.InvalidBSON",
        Category.NOT_FOUND: "gridfs.NoFile",
        Category.UNKNOWN: "_PoolClosedError",
    },
    readers={
        "OperationFailure": read_operation,
        "BulkWriteError ClientBulkWriteException": read_bulk,
        "NotPrimaryError": read_not_primary,
        "ServerSelectionTimeoutError": read_selection,
        "ConnectionFailure": read_connection_errno,
        "ConfigurationError": read_configuration,
        "EncryptionError": wrapped("cause"),
    },
    says_nothing=(
        "PyMongoError OperationFailure WriteError BulkWriteError ClientBulkWriteException EncryptionError "
        "bson.BSONError gridfs.GridFSError"
    ),
)
