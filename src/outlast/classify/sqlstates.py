"""What an SQLSTATE means, whole classes first and the states that differ from their class after."""

from outlast.failure import Category

__all__ = ["SQLSTATES", "SQLSTATE_CLASSES", "judge_sqlstate"]

_C = Category

SQLSTATE_CLASSES: dict[str, Category] = {
    "02": _C.NOT_FOUND,  # no data
    "03": _C.UNKNOWN,  # SQL statement not yet complete
    "08": _C.NETWORK,  # connection exception
    "09": _C.UNKNOWN,  # triggered action exception
    "0A": _C.CONFIGURATION,  # feature not supported
    "0B": _C.UNKNOWN,  # invalid transaction initiation
    "0F": _C.UNKNOWN,  # locator exception
    "0L": _C.AUTHENTICATION,  # invalid grantor
    "0P": _C.AUTHENTICATION,  # invalid role specification
    "0Z": _C.UNKNOWN,  # diagnostics exception
    "10": _C.INVALID_PARAMETERS,  # XQuery error
    "20": _C.UNKNOWN,  # case not found
    "21": _C.DATA,  # cardinality violation
    "22": _C.DATA,  # data exception
    "23": _C.INTEGRITY,  # integrity constraint violation
    "24": _C.UNKNOWN,  # invalid cursor state
    "25": _C.UNKNOWN,  # invalid transaction state
    "26": _C.INVALID_PARAMETERS,  # invalid SQL statement name
    "27": _C.INTEGRITY,  # triggered data change violation
    "28": _C.AUTHENTICATION,  # invalid authorization specification
    "2B": _C.INTEGRITY,  # dependent objects still exist
    "2D": _C.UNKNOWN,  # invalid transaction termination
    "2F": _C.UNKNOWN,  # SQL routine exception
    "34": _C.INVALID_PARAMETERS,  # invalid cursor name
    "38": _C.UNKNOWN,  # external routine exception
    "39": _C.UNKNOWN,  # external routine invocation exception
    "3B": _C.UNKNOWN,  # savepoint exception
    "3D": _C.CONFIGURATION,  # invalid catalog name
    "3F": _C.CONFIGURATION,  # invalid schema name
    "40": _C.DATABASE_BUSY,  # transaction rollback
    "42": _C.INVALID_PARAMETERS,  # syntax error or access rule violation
    "44": _C.INTEGRITY,  # WITH CHECK OPTION violation
    "53": _C.SYSTEM,  # insufficient resources
    "54": _C.INVALID_PARAMETERS,  # program limit exceeded
    "55": _C.DATABASE_BUSY,  # object not in prerequisite state
    "57": _C.DATABASE_BUSY,  # operator intervention
    "58": _C.SYSTEM,  # system error
    "72": _C.DATABASE_BUSY,  # snapshot failure
    "F0": _C.CONFIGURATION,  # configuration file error
    "HV": _C.UNKNOWN,  # foreign data wrapper error
    "P0": _C.UNKNOWN,  # PL/pgSQL error
    "XX": _C.UNKNOWN,  # internal error
}
"""Category by the first two characters."""

SQLSTATES: dict[str, Category] = {
    "25006": _C.CONFIGURATION,  # read only transaction
    "25P03": _C.NETWORK,  # idle in transaction session timeout: the server hung up
    "25P04": _C.DATABASE_BUSY,  # transaction timeout
    "40002": _C.INTEGRITY,  # transaction integrity constraint violation
    "42501": _C.AUTHENTICATION,  # insufficient privilege
    "42703": _C.CONFIGURATION,  # undefined column
    "42883": _C.CONFIGURATION,  # undefined function
    "42P01": _C.CONFIGURATION,  # undefined table
    "42704": _C.CONFIGURATION,  # undefined object
    "53300": _C.DATABASE_BUSY,  # too many connections
    "53400": _C.CONFIGURATION,  # configuration limit exceeded
    "55000": _C.UNKNOWN,  # object not in prerequisite state
    "55P02": _C.CONFIGURATION,  # cannot change runtime parameter
    "55P04": _C.UNKNOWN,  # unsafe new enum value usage
    "57P01": _C.NETWORK,  # admin shutdown: the connection is gone
    "57P02": _C.NETWORK,  # crash shutdown
    "57P04": _C.CONFIGURATION,  # database dropped
    "57P05": _C.NETWORK,  # idle session timeout
    "58P01": _C.CONFIGURATION,  # undefined file
    "58P02": _C.CONFIGURATION,  # duplicate file
    "HV00N": _C.NETWORK,  # foreign server: unable to establish connection
    "P0002": _C.NOT_FOUND,  # no data found
    "P0003": _C.DATA,  # too many rows
    "XX001": _C.INTEGRITY,  # data corrupted
    "XX002": _C.INTEGRITY,  # index corrupted
}
"""Category of the states that differ from their class."""


def judge_sqlstate(state: str, message: str = "") -> Category | None:
    """Return the category of an SQLSTATE, or None for one that is no failure or not known.

    Args:
        state: Five characters.
        message: Text of the error; 57014 means a timeout or a user's cancel, and only the text tells which.
    """
    if state == "57014":
        return _C.UNKNOWN if "user request" in message else _C.DATABASE_BUSY
    return SQLSTATES.get(state) or SQLSTATE_CLASSES.get(state[:2])
