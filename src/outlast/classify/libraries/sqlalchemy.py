"""SQLAlchemy: the wrapped error of the driver, and a few of its own."""

from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import safe_getattr
from outlast.failure import Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found


def read_original(error: object) -> "Found":
    """The wrapped error of the driver; that of an async driver is wrapped twice."""
    inner = safe_getattr(error, "orig")
    return inner if isinstance(inner, BaseException) else None


def read_unsent(error: object) -> "Found":
    """An error before the statement reached the driver: a parameter that cannot be converted, or another error."""
    inner = safe_getattr(error, "orig")
    is_bad_value = isinstance(inner, ValueError | TypeError | LookupError | ArithmeticError)
    if is_bad_value or type(inner).__name__ == "InvalidRequestError":
        return Evidence(category=Category.INVALID_PARAMETERS)
    return inner if isinstance(inner, BaseException) else None


def read_adapted(error: object) -> "Found":
    """The wrapped error of an async driver."""
    for name in ("driver_exception", "orig", "__cause__", "__context__"):
        inner = safe_getattr(error, name)
        if isinstance(inner, BaseException) and inner is not error:
            return inner
    return None


def _qualify(names: str) -> str:
    return " ".join(f"sqlalchemy.{name}" for name in names.split())


LIBRARY = Library(
    title="SQLAlchemy",
    origin=Origin.DB,
    categories={
        Category.DATABASE_BUSY: _qualify("TimeoutError StaleDataError"),
        Category.NETWORK: _qualify("DisconnectionError"),
        Category.NOT_FOUND: _qualify("NoResultFound ObjectDeletedError"),
        Category.DATA: _qualify("MultipleResultsFound DataError"),
        Category.INTEGRITY: _qualify("IntegrityError"),
        Category.CONFIGURATION: _qualify(
            "ArgumentError NoSuchTableError NoSuchColumnError NoDBAPILoaded NoReferenceError NotSupportedError "
            "UnsupportedCompilationError UnboundExecutionError UnreflectableTableError MissingGreenlet AsyncMethodRequired "
            "AwaitRequired UnmappedError LoaderStrategyException"
        ),
        Category.INVALID_PARAMETERS: _qualify("CompileError IdentifierError ProgrammingError ResourceClosedError"),
    },
    readers={
        "sqlalchemy.StatementError": read_unsent,
        "sqlalchemy.DBAPIError": read_original,
        **dict.fromkeys(
            _qualify("EmulatedDBAPIException AsyncAdapt_Error Error InternalClientError InternalServerError").split(),
            read_adapted,
        ),
    },
    says_nothing=_qualify(
        "SQLAlchemyError DBAPIError DatabaseError OperationalError InternalError InterfaceError InvalidRequestError "
        "CircularDependencyError AmbiguousColumnError IllegalStateChangeError NoInspectionAvailable PendingRollbackError "
        "AsyncBindNotFound AsyncContextAlreadyStarted AsyncContextNotStarted UnevaluatableError "
        "UnmappedColumnError DetachedInstanceError FlushError ObjectDereferencedError EmulatedDBAPIException "
        "AsyncAdapt_Error SADeprecationWarning SAPendingDeprecationWarning SAWarning SATestSuiteWarning "
        "_OptGetColumnsNotAvailable _CleanupError Empty Full"
    ),
)
