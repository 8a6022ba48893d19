"""asyncpg: SQLSTATE of every server error, and a few client errors."""

from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_str, text_of
from outlast.failure import Category, Evidence, Origin


def read_sqlstate(error: object) -> Found:
    """The SQLSTATE."""
    state = safe_str(error, "sqlstate")
    return Evidence(sqlstate=state, message=text_of(error)) if state else None


LIBRARY = Library(
    title="asyncpg",
    packages="asyncpg",
    origin=Origin.DB,
    categories={
        Category.NETWORK: "ProtocolError TargetServerAttributeNotMatched",
        Category.DATABASE_BUSY: "OutdatedSchemaCacheError",
        Category.CONFIGURATION: (
            "ClientConfigurationError UnsupportedClientFeatureError UnsupportedServerFeatureError"
        ),
        Category.INVALID_PARAMETERS: "DataError",
        Category.DATA: "BufferError",
    },
    readers={
        "PostgresError FatalPostgresError": read_sqlstate,
    },
    says_nothing=(
        "PostgresError FatalPostgresError UnknownPostgresError InterfaceError InternalClientError InterfaceWarning "
        "ClusterError _NextHostSignal _RetryConnectSignal"
    ),
)
