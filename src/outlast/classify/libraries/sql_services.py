"""oracledb, Snowflake and ClickHouse: the number of the database, from the tables that all their clients share."""

from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_int, text_of
from outlast.classify.vendor_codes import code_in_text, read_attributes
from outlast.failure import Category, Evidence, Origin

_HTTP_NUMBERS = 290000  # Snowflake's client adds the status of a response that is not Snowflake's own


def read_number(error: BaseException) -> Found:
    """The number of the database."""
    found = read_attributes(error)
    return found[2] if found else None


def read_oracle(error: object) -> Found:
    """The database's number (``ORA-12514``), which says more than the driver's (``DPY-6005``) in the same text."""
    text = text_of(error)
    found = code_in_text(text[max(text.find("ORA-"), 0) :]) or code_in_text(text)
    return found[2] if found else None


def read_snowflake(error: BaseException) -> Found:
    """Snowflake's number, or the HTTP status in it."""
    status = (safe_int(error, "errno") or 0) - _HTTP_NUMBERS
    return Evidence(http_status=status) if 400 <= status <= 599 else read_number(error)


def read_forbidden(error: object) -> Found:
    """The status 403; before a login it means that no account of this name exists at this host."""
    at_login = "Verify the account name" in text_of(error)
    return Evidence(http_status=403, category=Category.CONFIGURATION if at_login else None)


LIBRARY = Library(
    title="oracledb, Snowflake and clickhouse-connect",
    packages="clickhouse_connect oracledb snowflake",
    origin=Origin.DB,
    categories={
        Category.NETWORK: (
            "clickhouse_connect.StreamFailureError clickhouse_connect._IncompleteResponseError "
            "snowflake.RequestExceedMaxRetryError snowflake.RetryRequest snowflake.RevocationCheckError "
            "snowflake.ConnectionError snowflake.Timeout snowflake.MaxRetryError snowflake.ProtocolError "
            "snowflake.SSLError snowflake.TimeoutError snowflake.IncompleteRead snowflake.NonRetryableTlsError "
            "snowflake.CertificateError"
        ),
        Category.API_TEMPORARY: (
            "snowflake.BadGatewayError snowflake.GatewayTimeoutError snowflake.InternalServerError "
            "snowflake.OtherHTTPRetryableError snowflake.RequestTimeoutError snowflake.ServiceUnavailableError "
            "snowflake.PresignedUrlExpiredError snowflake.BindUploadError"
        ),
        Category.RATE_LIMIT: "snowflake.TooManyRequests",
        Category.AUTHENTICATION: (
            "snowflake.ReauthenticationRequest snowflake.RefreshTokenError snowflake.TokenExpiredError"
        ),
        Category.CONFIGURATION: (
            "NotSupportedError snowflake.ConfigManagerError snowflake.ConfigSourceError "
            "snowflake.InvalidProxyURL snowflake.MissingDependencyError snowflake._FileTokenCacheError "
            "snowflake._InvalidTokenKeyError clickhouse_connect._ZstdUnavailableError"
        ),
        Category.SYSTEM: "snowflake.FileLockError",
        Category.INTEGRITY: "IntegrityError",
        Category.DATA: "DataError snowflake.TooManyRedirects clickhouse_connect.UnsupportedBinaryTypeError",
        Category.INVALID_PARAMETERS: "ProgrammingError snowflake.BadRequest snowflake.MethodNotAllowed",
    },
    readers={
        "clickhouse_connect.Error": read_number,
        "oracledb.Error": read_oracle,
        "snowflake.Error": read_snowflake,
        "snowflake.ForbiddenError": read_forbidden,
    },
    says_nothing=(
        "DatabaseError Error InterfaceError InternalError OperationalError clickhouse_connect.ClickHouseError "
        "clickhouse_connect.Empty clickhouse_connect.Full clickhouse_connect.StreamCompleteException "
        "oracledb.MarkerDetected oracledb.OutOfPackets oracledb.Warning snowflake.HttpError "
        "snowflake.RequestException snowflake._Warning"
    ),
)
