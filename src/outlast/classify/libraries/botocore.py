"""botocore, boto3 and s3transfer: an error code with a status, or a connection error."""

import re

from outlast.classify.codes import judge_code, read_connection_errno
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import read_headers, safe_getattr, status_of, text_of
from outlast.classify.statuses import quota_is_exhausted
from outlast.failure import RETRYABLE, Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

_S3_OPERATION = re.compile(r"Object|Bucket|MultipartUpload|UploadPart")
_CODE_LIMIT = 100
_MESSAGE_LIMIT = 1000
_REASONS_LIMIT = 100  # items in a transaction
_THROTTLED = frozenset({"Throttling", "ThrottlingException", "LimitExceededException", "TooManyRequestsException"})
_IN_USE = frozenset({"ResourceConflictException", "ResourceInUseException", "ResourceInUse"})
_IN_PROGRESS = re.compile(
    r"\bin progress\b|\bbeing (?:created|updated|deleted)\b|\bis currently in the following state: Pending",
    re.IGNORECASE,
)


def _part(thing: object, key: str) -> object:
    return thing.get(key) if isinstance(thing, dict) else None


def _by_reasons(response: object) -> Category | None:
    """Return why DynamoDB cancelled a transaction: a permanent failure of one item decides before retryable ones."""
    reasons = _part(response, "CancellationReasons")
    codes = [_part(reason, "Code") for reason in reasons[:_REASONS_LIMIT]] if isinstance(reasons, list) else []
    found = [category for code in codes if isinstance(code, str) and (category := judge_code(code)) is not None]
    return min(found, key=lambda category: category in RETRYABLE) if found else None


def _by_message(code: str | None, message: str) -> Category | None:
    """Return the category of codes with two meanings, which only the message distinguishes."""
    if code in _THROTTLED and quota_is_exhausted(message):
        return Category.QUOTA_EXHAUSTED
    if code in _IN_USE and _IN_PROGRESS.search(message):
        return Category.API_TEMPORARY
    return None


def read_client_error(error: object) -> "Found":
    """The service's error code, status and headers, and the message of ambiguous codes; credentials are always sent."""
    response = safe_getattr(error, "response")
    details = _part(response, "Error")
    code, message = _part(details, "Code"), _part(details, "Message")
    metadata = _part(response, "ResponseMetadata")
    code = code[:_CODE_LIMIT] if isinstance(code, str) else None
    status = status_of(_part(metadata, "HTTPStatusCode"))
    if status is None and code is not None and code.isdigit():  # a HEAD has no body, so the code is the status
        status = status_of(int(code))
    operation = safe_getattr(error, "operation_name")
    about_s3 = isinstance(operation, str) and _S3_OPERATION.search(operation)
    return Evidence(
        origin=Origin.S3 if about_s3 else Origin.AWS,
        code=code,
        category=_by_reasons(response)
        or _by_message(code, message[:_MESSAGE_LIMIT] if isinstance(message, str) else ""),
        http_status=status,
        headers=read_headers(_part(metadata, "HTTPHeaders")),
        credentials_sent=True,
    )


def read_waiter_error(error: object) -> "Found":
    """The last response of a waiter."""
    code = _part(_part(safe_getattr(error, "last_response"), "Error"), "Code")
    if isinstance(code, str):
        return Evidence(code=code[:_CODE_LIMIT])
    waited = "Max attempts exceeded" in text_of(error)  # the expected state may still be reached
    return Evidence(category=Category.API_TEMPORARY) if waited else None


def read_inner(error: object) -> "Found":
    """The error that ended a transfer."""
    for name in ("last_exception", "__cause__", "__context__"):
        inner = safe_getattr(error, name)
        if isinstance(inner, BaseException):
            return inner
    return None


def _botocore(names: str) -> str:
    return " ".join(f"botocore.{name}" for name in names.split())


LIBRARY = Library(
    title="botocore, boto3 and s3transfer",
    origin=Origin.AWS,
    categories={
        Category.NETWORK: _botocore(
            "ConnectionError HTTPClientError IncompleteReadError EndpointDiscoveryRefreshFailed MetadataRetrievalError "
            "BadIMDSRequestError _RetriesExceededError ChecksumMismatch ParserError"
        )
        + " boto3.RetriesExceededError s3transfer.RetriesExceededError",
        Category.RATE_LIMIT: _botocore("CapacityNotAvailableError") + " s3transfer.RequestExceededException",
        Category.SYSTEM: "s3transfer.NoResourcesAvailable",
        Category.AUTHENTICATION: _botocore(
            "CredentialRetrievalError TokenRetrievalError SSOError LoginError RefreshWithMFAUnsupportedError"
        ),
        Category.CONFIGURATION: _botocore(
            "NoCredentialsError PartialCredentialsError NoAuthTokenError BaseEndpointResolverError EndpointVariantError "
            "ConfigNotFound ConfigParseError InvalidConfigError InvalidDNSNameError InvalidDefaultsMode "
            "InvalidEndpointConfigurationError InvalidEndpointDiscoveryConfigurationError InvalidHostLabelError "
            "InvalidIMDSEndpointError InvalidIMDSEndpointModeError InvalidProxiesConfigError "
            "InvalidRetryConfigurationError InvalidS3AddressingStyleError InvalidS3UsEast1RegionalEndpointConfigError "
            "InvalidSTSRegionalEndpointsConfigError InvalidChecksumConfigError InvalidRegionError ProfileNotFound "
            "DataNotFoundError ApiVersionNotFoundError EndpointProviderError EndpointDiscoveryException MD5UnavailableError "
            "MissingDependencyException ServiceNotInRegionError UnknownClientMethodError UnknownCredentialError "
            "UnknownRegionError UnknownServiceStyle UnknownSignatureVersionError UnknownTokenProviderError "
            "UnsupportedOutpostResourceError UnsupportedS3AccesspointConfigurationError UnsupportedS3ArnError "
            "UnsupportedS3ConfigurationError UnsupportedS3ControlArnError UnsupportedS3ControlConfigurationError "
            "UnsupportedServiceProtocolsError UnsupportedSignatureVersionError UndefinedModelAttributeError "
            "WaiterConfigError InvalidShapeError InvalidShapeReferenceError NoShapeFoundError OperationNotFoundError"
        )
        + " boto3.NoVersionFound boto3.ResourceNotExistsError boto3.UnknownAPIVersionError "
        "boto3.InvalidCrtTransferConfigError s3transfer.InvalidSubscriberMethodError",
        Category.INVALID_PARAMETERS: _botocore(
            "ParamValidationError ValidationError MissingParametersError InvalidExpressionError InvalidArnException "
            "OperationNotPageableError PaginationError UnseekableStreamError AwsChunkedWrapperError"
        )
        + " boto3.DynamoDBNeedsConditionError boto3.DynamoDBNeedsKeyConditionError "
        "boto3.DynamoDBOperationNotSupportedError boto3.ResourceLoadException s3transfer.S3ValidationError",
        Category.DATA: _botocore("ChecksumError FlexibleChecksumError ResponseParserError"),
    },
    readers={
        "botocore.ClientError": read_client_error,
        "botocore.WaiterError": read_waiter_error,
        "botocore.ConnectionError": read_connection_errno,
        "botocore.HTTPClientError": read_connection_errno,
        "boto3.RetriesExceededError": read_inner,
        "boto3.S3UploadFailedError": read_inner,
        "boto3.S3TransferFailedError": read_inner,
        "s3transfer.RetriesExceededError": read_inner,
        "s3transfer.S3UploadFailedError": read_inner,
        "s3transfer.S3DownloadFailedError": read_inner,
        "s3transfer.S3CopyFailedError": read_inner,
    },
    says_nothing=(
        _botocore(
            "BotoCoreError ClientError WaiterError StubResponseError StubAssertionError UnStubbedResponseError "
            "ImminentRemovalWarning UnsupportedTLSVersionWarning"
        )
        + " boto3.Boto3Error boto3.S3UploadFailedError boto3.S3TransferFailedError boto3.PythonDeprecationWarning "
        "s3transfer.FatalError s3transfer.S3UploadFailedError s3transfer.S3DownloadFailedError s3transfer.S3CopyFailedError "
        "s3transfer.QueueShutdownError s3transfer.TransferNotDoneError"
    ),
)
