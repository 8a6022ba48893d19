"""What the error code of an API means: AWS's codes, and reasons that other APIs share."""

import re
from functools import cache

from outlast.failure import Category

__all__ = ["CODES", "judge_code"]

_NAMES: dict[Category, str] = {
    Category.RATE_LIMIT: (
        "SlowDown Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException "
        "TooManyRequestsException TooManyRequests ProvisionedThroughputExceededException RequestLimitExceeded "
        "BandwidthLimitExceeded EC2ThrottledException PriorRequestNotComplete TransactionInProgressException "
        "rateLimitExceeded userRateLimitExceeded rate_limit_exceeded rate_limit_error ratelimited concurrentLimitExceeded "
        "LimitExceededException ThrottlingError Throttled ProvisionedThroughputExceeded OverLimit "
        "TooManyInvalidationsInProgress"
    ),
    Category.API_TEMPORARY: (
        "InternalError InternalFailure InternalServerError ServiceUnavailable ServiceUnavailableException "
        "ServiceFailure ConditionalRequestConflict RequestTimeout RequestTimeoutException RequestTimedOut OperationAborted BadGateway "
        "IDPCommunicationError backendError overloaded_error server_error InternalServerException InternalServiceError "
        "QueueDeletedRecently PurgeQueueInProgress ConcurrentModificationException ConcurrentUpdateException "
        "OperationAbortedException ResourceNotReadyException KMSInternal KMSInternalException DependencyTimeout "
        "DependencyTimeoutException"
    ),
    Category.DATABASE_BUSY: "TransactionConflict TransactionConflictException ReplicatedWriteConflictException",
    Category.INTEGRITY: "DuplicateItem DuplicateItemException",
    Category.AUTHENTICATION: (
        "AccessDenied AccessDeniedException InvalidAccessKeyId SignatureDoesNotMatch ExpiredToken ExpiredTokenException "
        "InvalidToken TokenRefreshRequired UnrecognizedClientException InvalidClientTokenId AuthFailure "
        "MissingAuthenticationToken MissingSecurityHeader IncompleteSignature InvalidSignatureException "
        "NotSignedUp OptInRequired AllAccessDisabled AccountProblem InvalidPayer UnauthorizedOperation UnauthorizedAccess "
        "Unauthorized RequestExpired invalid_api_key invalid_grant authError MissingAuthenticationTokenException "
        "IncompleteSignatureException InvalidIdentityToken IDPRejectedClaim AuthorizationError InvalidSecurity "
        "KMSOptInRequired AccountSendingPaused AccountSendingPausedException AccountSuspendedException "
        "SendingPausedException"
    ),
    Category.NOT_FOUND: (
        "NoSuchKey NoSuchBucket NoSuchUpload NoSuchVersion NoSuchLifecycleConfiguration NoSuchBucketPolicy NoSuchEntity "
        "NoSuchTagSet NoSuchWebsiteConfiguration NoSuchCORSConfiguration NotFound NotFoundException "
        "ResourceNotFoundException ObjectNotInActiveTierError notFound videoNotFound NonExistentQueue EndpointDisabled "
        "EndpointDisabledException TrimmedDataAccessException"
    ),
    Category.QUOTA_EXHAUSTED: (
        "ServiceQuotaExceededException QuotaExceeded quotaExceeded dailyLimitExceeded insufficient_quota TooManyBuckets "
        "billing_hard_limit_reached CodeStorageExceededException LimitExceeded TopicLimitExceeded "
        "SubscriptionLimitExceeded FilterPolicyLimitExceeded"
    ),
    Category.CONFIGURATION: (
        "PermanentRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException InvalidLocationConstraint "
        "RequestTimeTooSkewed InvalidBucketName NoSuchConfiguration accessNotConfigured RegionDisabledException "
        "MailFromDomainNotVerified MailFromDomainNotVerifiedException ConfigurationSetSendingPaused "
        "ConfigurationSetSendingPausedException PlatformApplicationDisabled KMSDisabled KMSDisabledException "
        "KMSInvalidState KMSInvalidStateException"
    ),
    Category.DATA: "BadDigest XAmzContentSHA256Mismatch XAmzContentChecksumMismatch InvalidObjectState",
    Category.INVALID_PARAMETERS: (
        "InvalidArgument InvalidRequest InvalidRange InvalidDigest InvalidPart InvalidPartOrder InvalidPolicyDocument "
        "InvalidTag InvalidURI InvalidStorageClass InvalidParameterValue InvalidParameterCombination InvalidParameter "
        "MissingParameter ValidationException ValidationError MalformedXML MalformedPolicy MalformedPOSTRequest "
        "MalformedQueryString EntityTooLarge EntityTooSmall KeyTooLongError MaxMessageLengthExceeded MethodNotAllowed "
        "MissingContentLength MissingRequestBodyError MetadataTooLarge PreconditionFailed "
        "ConditionalCheckFailedException BucketAlreadyExists BucketAlreadyOwnedByYou BucketNotEmpty NotImplemented "
        "UnexpectedContent EntityAlreadyExists ResourceInUseException ResourceConflictException ConditionalCheckFailed "
        "ItemCollectionSizeLimitExceeded ItemCollectionSizeLimitExceededException IdempotentParameterMismatchException "
        "MessageRejected ReceiptHandleIsInvalid MessageNotInflight QueueNameExists ExpiredIteratorException "
        "SerializationException UnknownOperationException InvalidAction OptedOut"
    ),
}

CODES: dict[str, Category] = {name: category for category, names in _NAMES.items() for name in names.split()}
"""Category by error code, as it is written."""

_LONGEST_CODE = 100
_ENDINGS = (
    (r"^(?:Concurrent|Active)\w*(?:Exceeded|LimitExceeded)(?:Exception)?$", Category.RATE_LIMIT),
    (r"(?<!Request)(?<!Rate)(?<!Bandwidth)(?<=\w)LimitExceeded$", Category.QUOTA_EXHAUSTED),
    (r"(?:Throttl\w*|TooManyRequests\w*|RateLimit\w*|RequestLimitExceeded)$", Category.RATE_LIMIT),
    (r"(?:NotFound|NotFoundException|NotFoundFault|DoesNotExist)$", Category.NOT_FOUND),
    (r"(?:AccessDenied\w*|Unauthorized\w*|NotAuthorized\w*|ExpiredToken\w*)$", Category.AUTHENTICATION),
)


@cache
def _endings() -> tuple[tuple[re.Pattern[str], Category], ...]:
    return tuple((re.compile(pattern), category) for pattern, category in _ENDINGS)


def judge_code(code: str) -> Category | None:
    """Return the category of an API's error code, or None for one that says nothing."""
    found = CODES.get(code) or CODES.get(code.rpartition(".")[2])  # AWS.SimpleQueueService.NonExistentQueue
    if found is not None or len(code) > _LONGEST_CODE:
        return found
    for pattern, category in _endings():
        if pattern.search(code):
            return category
    return None
