"""botocore, boto3 and s3transfer: an error code with a status, or a connection error."""

import re

from outlast.classify.codes import judge_code, read_connection_errno
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.quota import quota_is_exhausted
from outlast.classify.safe_access import read_headers, safe_getattr, safe_item, safe_list, status_of, text_of
from outlast.failure import RETRYABLE, Category, Evidence, Origin

_S3_OPERATION = re.compile(r"Object|Bucket|MultipartUpload|UploadPart")
_CODE_LIMIT = 100
_MESSAGE_LIMIT = 1000
_THROTTLED = frozenset({"Throttling", "ThrottlingException", "LimitExceededException", "TooManyRequestsException"})
_IN_USE = frozenset({"ResourceConflictException", "ResourceInUseException", "ResourceInUse"})
_IN_PROGRESS = re.compile(
    r"\bin progress\b|\bbeing (?:created|updated|deleted)\b|\bis currently in the following state: Pending",
    re.IGNORECASE,
)


def _by_reasons(response: object) -> Category | None:
    """Return why DynamoDB cancelled a transaction: a permanent failure of one item decides before retryable ones."""
    codes = [safe_item(reason, "Code") for reason in safe_list(safe_item(response, "CancellationReasons"))]
    found = [category for code in codes if isinstance(code, str) and (category := judge_code(code)) is not None]
    return min(found, key=lambda category: category in RETRYABLE) if found else None


def _by_message(code: str | None, message: str) -> Category | None:
    """Return the category of codes with two meanings, which only the message distinguishes."""
    if code in _THROTTLED and quota_is_exhausted(message):
        return Category.QUOTA_EXHAUSTED
    if code in _IN_USE and _IN_PROGRESS.search(message):
        return Category.API_TEMPORARY
    return None


def read_client_error(error: object) -> Found:
    """The service's error code, status and headers, and the message of ambiguous codes; credentials are always sent."""
    response = safe_getattr(error, "response")
    code, message = safe_item(response, "Error", "Code"), safe_item(response, "Error", "Message")
    code = code[:_CODE_LIMIT] if isinstance(code, str) else None
    status = status_of(safe_item(response, "ResponseMetadata", "HTTPStatusCode"))
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
        headers=read_headers(safe_item(response, "ResponseMetadata", "HTTPHeaders")),
        credentials_sent=True,
    )


def read_waiter_error(error: object) -> Found:
    """The last response of a waiter."""
    code = safe_item(safe_getattr(error, "last_response"), "Error", "Code")
    if isinstance(code, str):
        return Evidence(code=code[:_CODE_LIMIT])
    waited = "Max attempts exceeded" in text_of(error)  # the expected state may still be reached
    return Evidence(category=Category.API_TEMPORARY) if waited else None


LIBRARY = Library(
    title="botocore, boto3 and s3transfer",
    packages="botocore",
    origin=Origin.AWS,
    categories={
        Category.NETWORK: (
            "ConnectionError HTTPClientError IncompleteReadError EndpointDiscoveryRefreshFailed MetadataRetrievalError "
            "BadIMDSRequestError _RetriesExceededError ChecksumMismatch ParserError boto3.RetriesExceededError "
            "s3transfer.RetriesExceededError"
        ),
        Category.RATE_LIMIT: "CapacityNotAvailableError s3transfer.RequestExceededException",
        Category.SYSTEM: "s3transfer.NoResourcesAvailable",
        Category.AUTHENTICATION: (
            "CredentialRetrievalError TokenRetrievalError SSOError LoginError RefreshWithMFAUnsupportedError"
        ),
        Category.CONFIGURATION: (
            "NoCredentialsError PartialCredentialsError NoAuthTokenError BaseEndpointResolverError EndpointVariantError "
            "ConfigNotFound ConfigParseError InvalidConfigError InvalidDNSNameError InvalidDefaultsMode "
            "InvalidEndpointConfigurationError InvalidEndpointDiscoveryConfigurationError InvalidHostLabelError "
            "InvalidIMDSEndpointError InvalidIMDSEndpointModeError InvalidProxiesConfigError "
            "InvalidRetryConfigurationError InvalidS3AddressingStyleError InvalidS3UsEast1RegionalEndpointConfigError "
            "InvalidSTSRegionalEndpointsConfigError InvalidChecksumConfigError InvalidRegionError ProfileNotFound "
            "DataNotFoundError ApiVersionNotFoundError EndpointProviderError EndpointDiscoveryException "
            "MD5UnavailableError MissingDependencyException ServiceNotInRegionError UnknownClientMethodError "
            "UnknownCredentialError UnknownRegionError UnknownServiceStyle UnknownSignatureVersionError "
            "UnknownTokenProviderError UnsupportedOutpostResourceError UnsupportedS3AccesspointConfigurationError "
            "UnsupportedS3ArnError UnsupportedS3ConfigurationError UnsupportedS3ControlArnError "
            "UnsupportedS3ControlConfigurationError UnsupportedServiceProtocolsError UnsupportedSignatureVersionError "
            "UndefinedModelAttributeError WaiterConfigError InvalidShapeError InvalidShapeReferenceError "
            "NoShapeFoundError OperationNotFoundError boto3.NoVersionFound boto3.ResourceNotExistsError "
            "boto3.UnknownAPIVersionError boto3.InvalidCrtTransferConfigError s3transfer.InvalidSubscriberMethodError"
        ),
        Category.INVALID_PARAMETERS: (
            "ParamValidationError ValidationError MissingParametersError InvalidExpressionError InvalidArnException "
            "OperationNotPageableError PaginationError UnseekableStreamError AwsChunkedWrapperError "
            "boto3.DynamoDBNeedsConditionError boto3.DynamoDBNeedsKeyConditionError "
            "boto3.DynamoDBOperationNotSupportedError boto3.ResourceLoadException s3transfer.S3ValidationError"
        ),
        Category.DATA: "ChecksumError FlexibleChecksumError ResponseParserError",
    },
    readers={
        "ClientError": read_client_error,
        "WaiterError": read_waiter_error,
        "ConnectionError HTTPClientError": read_connection_errno,
        (
            "boto3.RetriesExceededError boto3.S3UploadFailedError boto3.S3TransferFailedError "
            "s3transfer.RetriesExceededError s3transfer.S3UploadFailedError s3transfer.S3DownloadFailedError "
            "s3transfer.S3CopyFailedError"
        ): wrapped("last_exception", "__cause__", "__context__"),
    },
    says_nothing=(
        "BotoCoreError ClientError WaiterError StubResponseError StubAssertionError UnStubbedResponseError "
        "ImminentRemovalWarning UnsupportedTLSVersionWarning boto3.Boto3Error boto3.S3UploadFailedError "
        "boto3.S3TransferFailedError boto3.PythonDeprecationWarning s3transfer.FatalError "
        "s3transfer.S3UploadFailedError s3transfer.S3DownloadFailedError s3transfer.S3CopyFailedError "
        "s3transfer.QueueShutdownError s3transfer.TransferNotDoneError"
    ),
)
