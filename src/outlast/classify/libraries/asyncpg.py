"""asyncpg: SQLSTATE of every server error, and a few client errors."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_str, text_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_sqlstate(error: object) -> "Found":
    """The SQLSTATE."""
    state = safe_str(error, "sqlstate")
    return Evidence(sqlstate=state, message=text_of(error)) if state else None


LIBRARY = Library(
    title="asyncpg",
    origin=Origin.DB,
    categories={
        Category.NETWORK: "asyncpg.ProtocolError asyncpg.TargetServerAttributeNotMatched",
        Category.DATABASE_BUSY: "asyncpg.OutdatedSchemaCacheError",
        Category.CONFIGURATION: (
            "asyncpg.ClientConfigurationError asyncpg.UnsupportedClientFeatureError asyncpg.UnsupportedServerFeatureError"
        ),
        Category.INVALID_PARAMETERS: "asyncpg.DataError",  # an argument that cannot be sent; a server error has an SQLSTATE
        Category.DATA: "asyncpg.BufferError",
    },
    readers={"asyncpg.PostgresError": read_sqlstate, "asyncpg.FatalPostgresError": read_sqlstate},
    says_nothing=(
        "asyncpg.PostgresError asyncpg.FatalPostgresError asyncpg.UnknownPostgresError asyncpg.InterfaceError "
        "asyncpg.InternalClientError asyncpg.InterfaceWarning asyncpg.ClusterError asyncpg._NextHostSignal "
        "asyncpg._RetryConnectSignal"
    ),
)
