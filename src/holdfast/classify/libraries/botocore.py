"""botocore, boto3 and s3transfer: an error code with a status, or a fault on the way."""

import re

from holdfast.classify.connection import read_connection
from holdfast.classify.libraries.library import Library
from holdfast.classify.peek import peek, read_headers, status_of
from holdfast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.classify.libraries.library import Found

_S3_OPERATION = re.compile(r"Object|Bucket|MultipartUpload|UploadPart")
_CODE_LIMIT = 100


def _part(thing: object, key: str) -> object:
    return thing.get(key) if isinstance(thing, dict) else None


def read_client_error(error: object) -> "Found":
    """The service's error code, status and headers; a call of botocore is signed, so credentials were sent."""
    response = peek(error, "response")
    code = _part(_part(response, "Error"), "Code")
    metadata = _part(response, "ResponseMetadata")
    code = code[:_CODE_LIMIT] if isinstance(code, str) else None
    status = status_of(_part(metadata, "HTTPStatusCode"))
    if status is None and code is not None and code.isdigit():  # a HEAD has no body, so the code is the status
        status = status_of(int(code))
    operation = peek(error, "operation_name")
    about_s3 = isinstance(operation, str) and _S3_OPERATION.search(operation)
    return Evidence(
        origin=Origin.S3 if about_s3 else Origin.AWS,
        code=code,
        http_status=status,
        headers=read_headers(_part(metadata, "HTTPHeaders")),
        credentials_sent=True,
    )


def read_waiter_error(error: object) -> "Found":
    """The last answer a waiter got."""
    code = _part(_part(peek(error, "last_response"), "Error"), "Code")
    return Evidence(code=code[:_CODE_LIMIT]) if isinstance(code, str) else None


def read_inner(error: object) -> "Found":
    """The error that a transfer gave up on."""
    for name in ("last_exception", "__cause__", "__context__"):
        inner = peek(error, name)
        if isinstance(inner, BaseException):
            return inner
    return None


def _botocore(names: str) -> str:
    return " ".join(f"botocore.{name}" for name in names.split())


LIBRARY = Library(
    title="botocore, boto3 and s3transfer",
    origin=Origin.AWS,
    says={
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
    reads={
        "botocore.ClientError": read_client_error,
        "botocore.WaiterError": read_waiter_error,
        "botocore.ConnectionError": read_connection,
        "botocore.HTTPClientError": read_connection,
        "boto3.RetriesExceededError": read_inner,
        "boto3.S3UploadFailedError": read_inner,
        "boto3.S3TransferFailedError": read_inner,
        "s3transfer.RetriesExceededError": read_inner,
        "s3transfer.S3UploadFailedError": read_inner,
        "s3transfer.S3DownloadFailedError": read_inner,
        "s3transfer.S3CopyFailedError": read_inner,
    },
    silent=(
        _botocore("BotoCoreError ClientError WaiterError StubResponseError ImminentRemovalWarning UnsupportedTLSVersionWarning")
        + " boto3.Boto3Error boto3.S3UploadFailedError boto3.S3TransferFailedError boto3.PythonDeprecationWarning "
        "s3transfer.FatalError s3transfer.S3UploadFailedError s3transfer.S3DownloadFailedError s3transfer.S3CopyFailedError "
        "s3transfer.QueueShutdownError s3transfer.TransferNotDoneError"
    ),
)
