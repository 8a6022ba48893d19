"""psycopg 3, its pool, and psycopg2: SQLSTATE, or libpq's text if there was no connection."""

import re

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_str, text_of
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

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


def read_sqlstate(error: object) -> "Found":
    """The SQLSTATE."""
    state = safe_str(error, "sqlstate") or safe_str(error, "pgcode")
    if state:
        return Evidence(sqlstate=state, message=text_of(error))
    return None


def read_operational(error: object) -> "Found":
    """The SQLSTATE, or libpq's text if the connection failed."""
    found = read_sqlstate(error)
    if found is not None:
        return found
    text = text_of(error)[:2048]
    for pattern, category in _CONNECTING:
        if re.search(pattern, text):
            return Evidence(category=category)
    return None


def _qualify_both(names: str) -> str:
    return " ".join(f"{package}.{name}" for name in names.split() for package in ("psycopg", "psycopg2"))


LIBRARY = Library(
    title="psycopg, psycopg_pool and psycopg2",
    origin=Origin.DB,
    categories={
        Category.NETWORK: _qualify_both("OperationalError"),
        Category.INTEGRITY: _qualify_both("IntegrityError"),
        Category.DATA: _qualify_both("DataError"),
        Category.INVALID_PARAMETERS: _qualify_both("ProgrammingError"),
        Category.CONFIGURATION: _qualify_both("NotSupportedError"),
        Category.DATABASE_BUSY: "psycopg_pool.PoolTimeout psycopg_pool.TooManyRequests",
        Category.UNKNOWN: "psycopg_pool.PoolClosed",
    },
    readers={
        **dict.fromkeys(_qualify_both("Error DatabaseError InternalError").split(), read_sqlstate),
        **dict.fromkeys(_qualify_both("OperationalError ProgrammingError").split(), read_operational),
    },
    says_nothing=_qualify_both("Error DatabaseError InterfaceError InternalError Warning") + " psycopg.Rollback",
)
