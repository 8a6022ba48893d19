"""psycopg 3, its pool, psycopg2 and asyncpg: SQLSTATE, or libpq's text if there was no connection."""

from outlast.classify.codes import read_words
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_str, text_of
from outlast.failure import Category, Evidence, Origin

# libpq reports a failed connection only as text, without the server's SQLSTATE.
_CONNECTING = (
    (
        r"authentication failed|no password supplied|no pg_hba\.conf entry|pg_hba\.conf rejects",
        Category.AUTHENTICATION,
    ),
    (r'role "[^"]*" (?:does not exist|is not permitted)|certificate authentication failed', Category.AUTHENTICATION),
    (r'database "[^"]*" does not exist|no such database:', Category.CONFIGURATION),  # the second text is PgBouncer's
    (r"unsupported startup parameter|server does not support SSL, but SSL was required", Category.CONFIGURATION),
    (r'root certificate file "[^"]*" does not exist', Category.CONFIGURATION),
    (r"too many clients|remaining connection slots|too many connections", Category.DATABASE_BUSY),
    (r"database system is (?:starting up|shutting down|in recovery|not (?:yet )?accepting)", Category.DATABASE_BUSY),
    (r"invalid (?:connection option|port number|sslmode value|dsn)|missing \"=\" after", Category.CONFIGURATION),
)


def read_sqlstate(error: object) -> Found:
    """The SQLSTATE."""
    state = safe_str(error, "sqlstate") or safe_str(error, "pgcode")
    return Evidence(sqlstate=state, message=text_of(error)) if state else None


def read_operational(error: object) -> Found:
    """The SQLSTATE, or libpq's text if the connection failed."""
    return read_sqlstate(error) or read_words(text_of(error)[:2048], _CONNECTING)


LIBRARY = Library(
    title="psycopg, psycopg_pool, psycopg2 and asyncpg",
    packages="psycopg psycopg2",
    origin=Origin.DB,
    categories={
        Category.NETWORK: "OperationalError asyncpg.ProtocolError asyncpg.TargetServerAttributeNotMatched",
        Category.INTEGRITY: "IntegrityError",
        Category.DATA: "DataError asyncpg.BufferError",
        Category.INVALID_PARAMETERS: "ProgrammingError asyncpg.DataError",
        Category.CONFIGURATION: (
            "NotSupportedError asyncpg.ClientConfigurationError asyncpg.UnsupportedClientFeatureError "
            "asyncpg.UnsupportedServerFeatureError"
        ),
        Category.DATABASE_BUSY: (
            "psycopg_pool.PoolTimeout psycopg_pool.TooManyRequests asyncpg.OutdatedSchemaCacheError"
        ),
        Category.UNKNOWN: "psycopg_pool.PoolClosed",
    },
    readers={
        "Error DatabaseError InternalError asyncpg.PostgresError asyncpg.FatalPostgresError": read_sqlstate,
        "OperationalError ProgrammingError": read_operational,
    },
    says_nothing=(
        "Error DatabaseError InterfaceError InternalError Warning psycopg.Rollback asyncpg.PostgresError "
        "asyncpg.FatalPostgresError asyncpg.UnknownPostgresError asyncpg.InterfaceError asyncpg.InternalClientError "
        "asyncpg.InterfaceWarning asyncpg.ClusterError asyncpg._NextHostSignal asyncpg._RetryConnectSignal"
    ),
)
