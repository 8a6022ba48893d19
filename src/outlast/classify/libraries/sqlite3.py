"""sqlite3: SQLite's result codes, and texts of errors with the general code."""

from outlast.classify.codes import judge_words, parse_named_numbers
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import TEXT_LIMIT, safe_int, safe_str, text_of
from outlast.failure import Category, Evidence, Origin

_PRIMARY = 0xFF  # the low byte of an extended result code
_GENERAL = "SQLITE_ERROR"

RESULT_CODES = parse_named_numbers("""
    database_busy: 4:SQLITE_ABORT 5:SQLITE_BUSY 6:SQLITE_LOCKED 15:SQLITE_PROTOCOL 17:SQLITE_SCHEMA
    system: 7:SQLITE_NOMEM 10:SQLITE_IOERR 13:SQLITE_FULL 22:SQLITE_NOLFS
    access_denied: 3:SQLITE_PERM
    authentication: 23:SQLITE_AUTH
    configuration: 8:SQLITE_READONLY 14:SQLITE_CANTOPEN
    integrity: 11:SQLITE_CORRUPT 19:SQLITE_CONSTRAINT 20:SQLITE_MISMATCH 26:SQLITE_NOTADB
    data: 18:SQLITE_TOOBIG
    invalid_parameters: 21:SQLITE_MISUSE 25:SQLITE_RANGE
    unknown: 2:SQLITE_INTERNAL 9:SQLITE_INTERRUPT
""")
"""Name and category by primary result code; for the general one the text decides."""


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
    name, category = RESULT_CODES.get(number & _PRIMARY, (_GENERAL, None))
    if category is None:
        category = judge_words(text_of(error)[:TEXT_LIMIT].lower(), _STATEMENT)
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
