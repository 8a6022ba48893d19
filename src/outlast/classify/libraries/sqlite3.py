"""sqlite3: SQLite's result codes, and texts of errors with the general code."""

from outlast.classify.codes import judge_words
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import TEXT_LIMIT, safe_int, safe_str, text_of
from outlast.failure import Category, Evidence, Origin

_PRIMARY = 0xFF  # the low byte of an extended result code
_GENERAL = ("SQLITE_ERROR", None)

RESULT_CODES: dict[int, tuple[str, Category | None]] = {
    1: _GENERAL,
    2: ("SQLITE_INTERNAL", Category.UNKNOWN),
    3: ("SQLITE_PERM", Category.ACCESS_DENIED),
    4: ("SQLITE_ABORT", Category.DATABASE_BUSY),
    5: ("SQLITE_BUSY", Category.DATABASE_BUSY),
    6: ("SQLITE_LOCKED", Category.DATABASE_BUSY),
    7: ("SQLITE_NOMEM", Category.SYSTEM),
    8: ("SQLITE_READONLY", Category.CONFIGURATION),
    9: ("SQLITE_INTERRUPT", Category.UNKNOWN),
    10: ("SQLITE_IOERR", Category.SYSTEM),
    11: ("SQLITE_CORRUPT", Category.INTEGRITY),
    13: ("SQLITE_FULL", Category.SYSTEM),
    14: ("SQLITE_CANTOPEN", Category.CONFIGURATION),
    15: ("SQLITE_PROTOCOL", Category.DATABASE_BUSY),
    17: ("SQLITE_SCHEMA", Category.DATABASE_BUSY),
    18: ("SQLITE_TOOBIG", Category.DATA),
    19: ("SQLITE_CONSTRAINT", Category.INTEGRITY),
    20: ("SQLITE_MISMATCH", Category.INTEGRITY),
    21: ("SQLITE_MISUSE", Category.INVALID_PARAMETERS),
    22: ("SQLITE_NOLFS", Category.SYSTEM),
    23: ("SQLITE_AUTH", Category.AUTHENTICATION),
    25: ("SQLITE_RANGE", Category.INVALID_PARAMETERS),
    26: ("SQLITE_NOTADB", Category.INTEGRITY),
}
"""Name and category by primary result code; with None the text decides."""


# SQLITE_ERROR is about the statement; only the text shows what is wrong with it.
_ABOUT_THE_TEXT = (
    r"syntax error|unrecognized token|incomplete input|already exists|already another|values? (?:were )?(?:for|supplied)|"
    r"wrong number of arguments|ambiguous column|may not be|misuse of|duplicate column|cannot modify|read-only column|"
    r"within a transaction|no transaction is active|no such savepoint|too many (?:sql variables|columns|terms|arguments)"
)
_STATEMENT = (
    (r"no such (?:table|column|function|module|index|view|collation)|unknown database", Category.CONFIGURATION),
    (r"malformed json|integer overflow|bad json path|not valid", Category.DATA),
    (_ABOUT_THE_TEXT, Category.INVALID_PARAMETERS),
)


def read_result_code(error: object) -> Found:
    """SQLite's result code, and the text if the code is the general one."""
    number = safe_int(error, "sqlite_errorcode")
    if number is None:
        return None
    name, category = RESULT_CODES.get(number & _PRIMARY, _GENERAL)
    if category is None:
        text = text_of(error)[:TEXT_LIMIT].lower()
        category = judge_words(text, _STATEMENT)
    error_name = safe_str(error, "sqlite_errorname")  # Python 3.11 uses 'unknown' for codes that it does not know
    return Evidence(category=category, code=error_name if error_name and error_name != "unknown" else name)


LIBRARY = Library(
    title="sqlite3",
    packages="sqlite3",
    origin=Origin.DB,
    categories={
        Category.INTEGRITY: "IntegrityError",
        Category.DATA: "DataError",
        Category.INVALID_PARAMETERS: "InterfaceError ProgrammingError",
        Category.CONFIGURATION: "NotSupportedError",
    },
    readers={
        "Error": read_result_code,
    },
    says_nothing="Error DatabaseError OperationalError InternalError Warning",
)
