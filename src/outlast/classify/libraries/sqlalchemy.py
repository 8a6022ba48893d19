"""SQLAlchemy: the wrapped error of the driver, and a few of its own."""

from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import safe_error
from outlast.failure import Category, Evidence, Origin


def read_unsent(error: object) -> Found:
    """An error before the statement reached the driver: a parameter that cannot be converted, or another error."""
    inner = safe_error(error, "orig")
    is_bad_value = isinstance(inner, ValueError | TypeError | LookupError | ArithmeticError)
    if is_bad_value or type(inner).__name__ == "InvalidRequestError":
        return Evidence(category=Category.INVALID_PARAMETERS)
    return inner


LIBRARY = Library(
    title="SQLAlchemy",
    packages="sqlalchemy",
    origin=Origin.DB,
    categories={
        Category.DATABASE_BUSY: "TimeoutError StaleDataError",
        Category.NETWORK: "DisconnectionError",
        Category.NOT_FOUND: "NoResultFound ObjectDeletedError",
        Category.DATA: "MultipleResultsFound DataError",
        Category.INTEGRITY: "IntegrityError",
        Category.CONFIGURATION: (
            "ArgumentError NoSuchTableError NoSuchColumnError NoDBAPILoaded NoReferenceError NotSupportedError "
            "UnsupportedCompilationError UnboundExecutionError UnreflectableTableError MissingGreenlet "
            "AsyncMethodRequired AwaitRequired UnmappedError LoaderStrategyException"
        ),
        Category.INVALID_PARAMETERS: "CompileError IdentifierError ProgrammingError ResourceClosedError",
    },
    readers={
        "StatementError": read_unsent,
        "DBAPIError": wrapped("orig"),
        ("EmulatedDBAPIException AsyncAdapt_Error Error InternalClientError InternalServerError"): wrapped(
            "driver_exception", "orig", "__cause__", "__context__"
        ),
    },
    says_nothing=(
        "SQLAlchemyError DBAPIError DatabaseError OperationalError InternalError InterfaceError InvalidRequestError "
        "CircularDependencyError AmbiguousColumnError IllegalStateChangeError NoInspectionAvailable "
        "PendingRollbackError AsyncBindNotFound AsyncContextAlreadyStarted AsyncContextNotStarted "
        "UnevaluatableError UnmappedColumnError DetachedInstanceError FlushError ObjectDereferencedError "
        "EmulatedDBAPIException AsyncAdapt_Error SADeprecationWarning SAPendingDeprecationWarning SAWarning "
        "SATestSuiteWarning _OptGetColumnsNotAvailable _CleanupError Empty Full"
    ),
)
