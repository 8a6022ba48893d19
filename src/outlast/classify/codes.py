"""Categories of error codes: errno names, API error codes and SQLSTATEs; and the category of a piece of evidence."""

import errno
import re

from outlast.classify.safe_access import errno_in_chain, text_of
from outlast.classify.statuses import judge_status
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def parse_names(table: str) -> dict[str, Category]:
    """Return the category by name, from a table of names after their category: ``network: A B; data: C``.

    A line may end with a comment, after ``#``.
    """
    found: dict[str, Category] = {}
    category = Category.UNKNOWN
    for line in table.splitlines():
        for word in line.partition("#")[0].split():
            if word.endswith(":"):
                category = Category(word[:-1])
            else:
                found[word.rstrip(";")] = category
    return found


def parse_numbers(table: str) -> dict[int, Category]:
    """Return the category by number, from a table such as ``network: 5-7 12; data: 61``."""
    found: dict[int, Category] = {}
    for each, category in parse_names(table).items():
        first, _, last = each.partition("-") if each[0] != "-" else (each, "", "")
        found.update(dict.fromkeys(range(int(first), int(last or first) + 1), category))
    return found


def parse_named_numbers(table: str) -> dict[int, tuple[str, Category]]:
    """Return name and category by number, from a table such as ``network: 5:BUSY 12:LOST; data: 61:BROKEN``."""
    pairs = ((each.partition(":"), category) for each, category in parse_names(table).items())
    return {int(number): (name, category) for (number, _, name), category in pairs}


def judge_words(text: str, patterns: "Iterable[tuple[str, Category]]") -> Category | None:
    """Return the category of the first pattern that a text matches, or None."""
    return next((category for pattern, category in patterns if re.search(pattern, text)), None)


def read_words(text: str, patterns: "Iterable[tuple[str, Category]]") -> Evidence | None:
    """Return the category of the first pattern that a text matches as evidence, or None."""
    category = judge_words(text, patterns)
    return Evidence(category=category) if category else None


ERRNOS = parse_names("""
    network: ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN
      ENETRESET ENOTCONN ESHUTDOWN EADDRNOTAVAIL EALREADY EINPROGRESS EAGAIN EWOULDBLOCK EINTR EISCONN ENONET EPROTO
      ECOMM EREMOTEIO ETIME ENOLINK ESTALE
    system: ENOSPC EDQUOT ENOMEM EMFILE ENFILE EIO ENOBUFS EROFS EBUSY ETXTBSY ENOLCK EDEADLK EUSERS ENOSR ENXIO
      ENODEV
    not_found: ENOENT ESRCH ENODATA
    access_denied: EACCES EPERM
    invalid_parameters: EINVAL EISDIR ENOTDIR EEXIST ENOTEMPTY ENAMETOOLONG ELOOP EXDEV EFBIG ESPIPE EDOM ERANGE
      EILSEQ E2BIG EMSGSIZE EDESTADDRREQ EOVERFLOW EMLINK
    configuration: EADDRINUSE ENOSYS EOPNOTSUPP ENOTSUP EAFNOSUPPORT EPROTONOSUPPORT EPFNOSUPPORT EPROTOTYPE
      ENOPROTOOPT ESOCKTNOSUPPORT ENOEXEC ELIBACC ELIBBAD
    authentication: EKEYEXPIRED EKEYREJECTED EKEYREVOKED ENOKEY
""")
"""Category by errno name; the numbers differ between systems, the names do not."""

_FILE_ERRNOS = frozenset(
    "ENOSPC EDQUOT EROFS EIO ENOENT EISDIR ENOTDIR EEXIST ENOTEMPTY ENAMETOOLONG EXDEV EFBIG".split()
)


def name_of_errno(number: object) -> str | None:
    """Return the errno name of a number on this system, or None if it is not an errno."""
    if type(number) is not int:
        return None
    return errno.errorcode.get(number)


def origin_of_errno(name: str) -> Origin:
    """Return the probable origin of an errno name."""
    if name in _FILE_ERRNOS:
        return Origin.FILE
    return Origin.NETWORK if ERRNOS.get(name) is Category.NETWORK else Origin.PROGRAM


CODES = parse_names("""
    rate_limit: SlowDown Throttling ThrottlingException ThrottledException RequestThrottled
      RequestThrottledException TooManyRequestsException TooManyRequests ProvisionedThroughputExceededException
      RequestLimitExceeded BandwidthLimitExceeded EC2ThrottledException PriorRequestNotComplete
      TransactionInProgressException rateLimitExceeded userRateLimitExceeded rate_limit_exceeded rate_limit_error
      ratelimited concurrentLimitExceeded LimitExceededException ThrottlingError Throttled
      ProvisionedThroughputExceeded OverLimit TooManyInvalidationsInProgress
    api_temporary: InternalError InternalFailure InternalServerError ServiceUnavailable ServiceUnavailableException
      ServiceFailure ConditionalRequestConflict RequestTimeout RequestTimeoutException RequestTimedOut
      OperationAborted BadGateway IDPCommunicationError backendError overloaded_error server_error
      InternalServerException InternalServiceError QueueDeletedRecently PurgeQueueInProgress
      ConcurrentModificationException ConcurrentUpdateException OperationAbortedException ResourceNotReadyException
      KMSInternal KMSInternalException DependencyTimeout DependencyTimeoutException
    database_busy: TransactionConflict TransactionConflictException ReplicatedWriteConflictException
    integrity: DuplicateItem DuplicateItemException
    authentication: AccessDenied AccessDeniedException InvalidAccessKeyId SignatureDoesNotMatch ExpiredToken
      ExpiredTokenException InvalidToken TokenRefreshRequired UnrecognizedClientException InvalidClientTokenId
      AuthFailure MissingAuthenticationToken MissingSecurityHeader IncompleteSignature InvalidSignatureException
      NotSignedUp OptInRequired AllAccessDisabled AccountProblem InvalidPayer UnauthorizedOperation UnauthorizedAccess
      Unauthorized RequestExpired invalid_api_key invalid_grant authError MissingAuthenticationTokenException
      IncompleteSignatureException InvalidIdentityToken IDPRejectedClaim AuthorizationError InvalidSecurity
      KMSOptInRequired AccountSendingPaused AccountSendingPausedException AccountSuspendedException
      SendingPausedException
    not_found: NoSuchKey NoSuchBucket NoSuchUpload NoSuchVersion NoSuchLifecycleConfiguration NoSuchBucketPolicy
      NoSuchEntity NoSuchTagSet NoSuchWebsiteConfiguration NoSuchCORSConfiguration NotFound NotFoundException
      ResourceNotFoundException ObjectNotInActiveTierError notFound videoNotFound NonExistentQueue EndpointDisabled
      EndpointDisabledException TrimmedDataAccessException
    quota_exhausted: ServiceQuotaExceededException QuotaExceeded quotaExceeded dailyLimitExceeded insufficient_quota
      TooManyBuckets billing_hard_limit_reached CodeStorageExceededException LimitExceeded TopicLimitExceeded
      SubscriptionLimitExceeded FilterPolicyLimitExceeded
    configuration: PermanentRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException
      InvalidLocationConstraint RequestTimeTooSkewed InvalidBucketName NoSuchConfiguration accessNotConfigured
      RegionDisabledException MailFromDomainNotVerified MailFromDomainNotVerifiedException
      ConfigurationSetSendingPaused ConfigurationSetSendingPausedException PlatformApplicationDisabled KMSDisabled
      KMSDisabledException KMSInvalidState KMSInvalidStateException
    data: BadDigest XAmzContentSHA256Mismatch XAmzContentChecksumMismatch InvalidObjectState
    invalid_parameters: InvalidArgument InvalidRequest InvalidRange InvalidDigest InvalidPart InvalidPartOrder
      InvalidPolicyDocument InvalidTag InvalidURI InvalidStorageClass InvalidParameterValue
      InvalidParameterCombination InvalidParameter MissingParameter ValidationException ValidationError MalformedXML
      MalformedPolicy MalformedPOSTRequest MalformedQueryString EntityTooLarge EntityTooSmall KeyTooLongError
      MaxMessageLengthExceeded MethodNotAllowed MissingContentLength MissingRequestBodyError MetadataTooLarge
      PreconditionFailed ConditionalCheckFailedException BucketAlreadyExists BucketAlreadyOwnedByYou BucketNotEmpty
      NotImplemented UnexpectedContent EntityAlreadyExists ResourceInUseException ResourceConflictException
      ConditionalCheckFailed ItemCollectionSizeLimitExceeded ItemCollectionSizeLimitExceededException
      IdempotentParameterMismatchException MessageRejected ReceiptHandleIsInvalid MessageNotInflight QueueNameExists
      ExpiredIteratorException SerializationException UnknownOperationException InvalidAction OptedOut
""")
"""Category by API error code."""

_LONGEST_CODE = 100
_SUFFIX = "(?:Exception|Error|Fault)?"
# Names are put together as AWS does it: a service or a resource, what happened, a suffix. A name that merely contains
# such words, or denies them, is not one of them.
CODE_SHAPES = (
    (rf"^(?:Concurrent|Active)\w*(?:Exceeded|LimitExceeded){_SUFFIX}$", Category.RATE_LIMIT),
    (r"(?<!Request)(?<!Rate)(?<!Bandwidth)(?<=\w)LimitExceeded$", Category.QUOTA_EXHAUSTED),
    (
        rf"^(?:[A-Z][A-Z0-9]+|(?:User|Api|Client|Project|Account|Request|Requests|Read|Write)+)?"
        rf"(?:Throttl(?:ed|ing)|TooManyRequests|RateLimit(?:ed|Exceeded|Reached)?|RequestLimitExceeded){_SUFFIX}$",
        Category.RATE_LIMIT,
    ),
    (rf"(?:NotFound|DoesNotExist){_SUFFIX}$", Category.NOT_FOUND),
    (
        rf"^(?!Not?[A-Z]|Non)(?:[A-Z]\w*)?(?:AccessDenied|Unauthorized|NotAuthorized|ExpiredToken){_SUFFIX}$",
        Category.AUTHENTICATION,
    ),
)
"""Category by the shape of an API error code, for the codes that are not in `CODES`."""


def judge_code(code: str) -> Category | None:
    """Return the category of an API error code, or None if it is unknown."""
    found = CODES.get(code) or CODES.get(code.rpartition(".")[2])  # AWS.SimpleQueueService.NonExistentQueue
    if found is not None or len(code) > _LONGEST_CODE:
        return found
    return judge_words(code.rpartition(".")[2], CODE_SHAPES)


_C = Category

SQLSTATE_CLASSES: dict[str, Category] = {
    "02": _C.NOT_FOUND,  # no data
    "03": _C.UNKNOWN,  # SQL statement not yet complete
    "08": _C.NETWORK,  # connection exception
    "09": _C.UNKNOWN,  # triggered action exception
    "0A": _C.CONFIGURATION,  # feature not supported
    "0B": _C.UNKNOWN,  # invalid transaction initiation
    "0F": _C.UNKNOWN,  # locator exception
    "0L": _C.AUTHENTICATION,  # invalid grantor
    "0P": _C.AUTHENTICATION,  # invalid role specification
    "0Z": _C.UNKNOWN,  # diagnostics exception
    "10": _C.INVALID_PARAMETERS,  # XQuery error
    "20": _C.UNKNOWN,  # case not found
    "21": _C.DATA,  # cardinality violation
    "22": _C.DATA,  # data exception
    "23": _C.INTEGRITY,  # integrity constraint violation
    "24": _C.UNKNOWN,  # invalid cursor state
    "25": _C.UNKNOWN,  # invalid transaction state
    "26": _C.INVALID_PARAMETERS,  # invalid SQL statement name
    "27": _C.INTEGRITY,  # triggered data change violation
    "28": _C.AUTHENTICATION,  # invalid authorization specification
    "2B": _C.INTEGRITY,  # dependent objects still exist
    "2D": _C.UNKNOWN,  # invalid transaction termination
    "2F": _C.UNKNOWN,  # SQL routine exception
    "34": _C.INVALID_PARAMETERS,  # invalid cursor name
    "38": _C.UNKNOWN,  # external routine exception
    "39": _C.UNKNOWN,  # external routine invocation exception
    "3B": _C.UNKNOWN,  # savepoint exception
    "3D": _C.CONFIGURATION,  # invalid catalog name
    "3F": _C.CONFIGURATION,  # invalid schema name
    "40": _C.DATABASE_BUSY,  # transaction rollback
    "42": _C.INVALID_PARAMETERS,  # syntax error or access rule violation
    "44": _C.INTEGRITY,  # WITH CHECK OPTION violation
    "53": _C.SYSTEM,  # insufficient resources
    "54": _C.INVALID_PARAMETERS,  # program limit exceeded
    "55": _C.DATABASE_BUSY,  # object not in prerequisite state
    "57": _C.DATABASE_BUSY,  # operator intervention
    "58": _C.SYSTEM,  # system error
    "72": _C.DATABASE_BUSY,  # snapshot failure
    "F0": _C.CONFIGURATION,  # configuration file error
    "HV": _C.UNKNOWN,  # foreign data wrapper error
    "IM": _C.CONFIGURATION,  # ODBC driver manager: no such data source or driver
    "P0": _C.UNKNOWN,  # PL/pgSQL error
    "XX": _C.UNKNOWN,  # internal error
}
"""Category by the first two characters of the SQLSTATE."""

SQLSTATES: dict[str, Category] = {
    "25006": _C.CONFIGURATION,  # read only transaction
    "25P03": _C.NETWORK,  # idle in transaction session timeout: the server closed the connection
    "25P04": _C.DATABASE_BUSY,  # transaction timeout
    "40002": _C.INTEGRITY,  # transaction integrity constraint violation
    "42501": _C.AUTHENTICATION,  # insufficient privilege
    "42703": _C.CONFIGURATION,  # undefined column
    "42883": _C.CONFIGURATION,  # undefined function
    "42P01": _C.CONFIGURATION,  # undefined table
    "42704": _C.CONFIGURATION,  # undefined object
    "53300": _C.DATABASE_BUSY,  # too many connections
    "53400": _C.CONFIGURATION,  # configuration limit exceeded
    "55000": _C.UNKNOWN,  # object not in prerequisite state
    "55P02": _C.CONFIGURATION,  # cannot change runtime parameter
    "55P04": _C.UNKNOWN,  # unsafe new enum value usage
    "57P01": _C.NETWORK,  # admin shutdown: the connection is closed
    "57P02": _C.NETWORK,  # crash shutdown
    "57P04": _C.CONFIGURATION,  # database dropped
    "57P05": _C.NETWORK,  # idle session timeout
    "58P01": _C.CONFIGURATION,  # undefined file
    "58P02": _C.CONFIGURATION,  # duplicate file
    "HV00N": _C.NETWORK,  # foreign server: unable to establish connection
    "P0002": _C.NOT_FOUND,  # no data found
    "P0003": _C.DATA,  # too many rows
    "XX001": _C.INTEGRITY,  # data corrupted
    "XX002": _C.INTEGRITY,  # index corrupted
}
"""Category of the SQLSTATEs that differ from their class."""


def judge_sqlstate(state: str, message: str = "") -> Category | None:
    """Return the category of an SQLSTATE, or None if it is not a failure or unknown.

    Args:
        state: Five characters.
        message: Text of the error; 57014 is a timeout or a cancellation by the user, and only the text shows which.
    """
    if state == "57014":
        return _C.UNKNOWN if "user request" in message else _C.DATABASE_BUSY
    return SQLSTATES.get(state) or SQLSTATE_CLASSES.get(state[:2])


def read_connection_errno(error: BaseException) -> Evidence | None:
    """Return the errno behind a failed connection, if it is about the network or this machine's resources."""
    number = errno_in_chain(error)
    category = ERRNOS.get(name_of_errno(number) or "")
    if category is Category.NETWORK or category is Category.SYSTEM:
        return Evidence(errno=number)
    return None


def read_proxy_status(error: BaseException, before: str) -> Evidence | None:
    """Return the HTTP status of a proxy that refused a tunnel; it is only in the text, after the words `before`."""
    found = re.match(before + r"([45][0-9]{2})(?: |\Z)", text_of(error))
    return Evidence(origin=Origin.HTTP, http_status=int(found[1])) if found else None


def _judge_body(evidence: Evidence) -> tuple[Category, str] | None:
    """Return category and rule name of a reason in the body that says more than the status, or None."""
    if not evidence.body:
        return None
    from outlast.classify.reasons import reason_in  # noqa: PLC0415  # it needs this module, and few errors need it

    found = reason_in(evidence.body, evidence.http_status)
    return (found[0], f"http {evidence.http_status} with the reason {found[1]}") if found else None


def judge_evidence(evidence: Evidence, type_name: str = "") -> tuple[Category, str] | None:
    """Return the category of evidence and the name of the rule, or None if nothing matches.

    The order is: stated category, code, SQLSTATE, a reason in the body, HTTP status, errno.

    Args:
        evidence: What an error or a response shows.
        type_name: Name of the exception class it was read from.
    """
    if evidence.category is not None:
        rule = ", ".join(part for part in (type_name, evidence.code) if part)
        return evidence.category, rule or "stated"
    if evidence.code is not None and (category := judge_code(evidence.code)) is not None:
        return category, f"code {evidence.code}"
    if evidence.sqlstate is not None:
        category = judge_sqlstate(evidence.sqlstate, evidence.message)
        if category is not None:
            return category, f"sqlstate {evidence.sqlstate}"
    verdict = judge_status(evidence)
    if verdict is not None:
        return _judge_body(evidence) or verdict
    if evidence.errno is not None:
        name = name_of_errno(evidence.errno)
        if name in ERRNOS:
            return ERRNOS[name], f"errno {name}"
    return None
