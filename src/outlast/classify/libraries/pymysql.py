"""PyMySQL, mysqlclient, MySQL Connector/Python and asyncmy: MySQL's error number, mostly with an SQLSTATE."""

from outlast.classify.codes import ERRNOS, name_of_errno, parse_numbers
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import errno_in_chain, safe_error, safe_getattr, safe_str, text_of
from outlast.failure import Category, Evidence, Origin

NUMBERS = parse_numbers("""
    # lock wait, deadlock, NOWAIT, XA; too many connections, transactions or locks; a statement's time limit (MySQL,
    # MariaDB); shutdown, read-only after a failover, replication hooks, Galera; changed concurrently; TiDB
    database_busy: 1205 1213 1613 1614 1689 3058 3572 1040 1203 1206 1637 3024 1969 1053 1836 3100 3101 1180 1020
      1412 1615 3168 9001 9002 9003 9004 9005 9007 8022 8028
    # packets and disconnections of the server; hostname; client errors: socket, host, gone, lost, TLS, packet
    network: 1042 1043 1080 1152 1158 1159 1160 1161 1184 1429 1927 4031 2001 2002 2003 2004 2005 2006 2009 2010
      2011 2012 2013 2026 2027 2047 2048 2055
    # disk and table full, files, memory, threads; the numbers below 1000 are those of the storage library
    system: 1021 1114 1023 1024 1025 1026 1004 1016 1037 1038 1041 1135 1257 2008 2 3 5 14 20 23
    authentication: 1044 1045 1095 1130 1142 1143 1227 1370 1449 1698 1820 1862 2061 1873 3118 4151
    access_denied: 1129  # blocked for failed connections, until an administrator unblocks the host
    # database, table, column, routine, engine, variable, character set or time zone unknown; unsupported or disabled
    configuration: 1046 1049 1051 1054 1109 1115 1146 1193 1235 1251 1273 1286 1289 1298 1305 1356 1418 1419 1524
      1792 2019 2049 2054 2059 3159 1112 1128
    # duplicate, foreign key, null, no default, CHECK (MySQL, MariaDB), view's check option; damaged tables
    integrity: 1022 1062 1169 1557 1586 1761 1762 1859 1216 1217 1451 1452 1048 1364 3819 4025 1369 1034 1035 1194
      1195 1712 144 145
    # too long, out of range, truncated, wrong value, division by zero, bad date, bad bytes, bad JSON, too many rows
    data: 1172 1242 1263 1264 1265 1292 1300 1365 1366 1367 1406 1411 1416 1426 1427 1441 1525 1690 3140 3156
    # syntax, ambiguous or repeated names, wrong counts, exists already, too large a packet
    invalid_parameters: 1007 1008 1050 1052 1055 1056 1058 1059 1060 1061 1063 1064 1065 1066 1067 1068 1069 1070
      1071 1072 1075 1090 1091 1093 1096 1102 1103 1110 1111 1118 1136 1140 1149 1153 1162 1166 1210 1221 1222 1231
      1232 1241 1243 1248 1318 1327 1582 1583 2020 2034 3065 3141 3143
    not_found: 1017  # a file, such as one to load
    unknown: 1317 2014  # killed by a user; commands out of sync
""")
"""Category by error number; ambiguous numbers depend on the text."""

_OUT_OF_STEP = "Packet sequence number wrong"  # PyMySQL, if the server does not speak MySQL or a packet is missing
_CLOSED = 0  # PyMySQL: (0, '') for a connection that was lost or closed before
_OPTION_PREVENTS = 1290
_USER_LIMIT = 1226
_STORAGE = 1030
_UNKNOWN_COMMAND = 1047  # of a Galera node that is not part of its cluster
_CANNOT_CONNECT = (2002, 2003)


def read_number(error: BaseException) -> Found:
    """MySQL's error number, the first argument; or the SQLSTATE if the number is unknown."""
    arguments = safe_getattr(error, "args")
    number = arguments[0] if isinstance(arguments, tuple) and arguments else None
    text = text_of(error)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        return Evidence(category=Category.NETWORK) if text.startswith(_OUT_OF_STEP) else None
    category = _system_error(error, number) or _judge_by_text(number, text) or NUMBERS.get(number)
    state = safe_str(error, "sqlstate")
    return Evidence(category=category, code=str(int(number)) if number else None, sqlstate=state, message=text)


def _judge_by_text(number: int, text: str) -> Category | None:
    """Return the category of an ambiguous number by its text, or None."""
    if number == _OPTION_PREVENTS:  # read-only after a failover, or another server option
        return Category.DATABASE_BUSY if "read-only" in text or "read_only" in text else Category.CONFIGURATION
    if number == _USER_LIMIT:  # connections at the same time, or a number per hour
        return Category.DATABASE_BUSY if "max_user_connections" in text else Category.QUOTA_EXHAUSTED
    if number == _STORAGE and "error 28 " in text:  # ENOSPC
        return Category.SYSTEM
    if number == _UNKNOWN_COMMAND:
        return Category.DATABASE_BUSY if "WSREP" in text else Category.INVALID_PARAMETERS
    return Category.NETWORK if number == _CLOSED else None


def _system_error(error: BaseException, number: int) -> Category | None:
    """Return SYSTEM if the connection failed because this machine is out of files or memory, else None."""
    if number not in _CANNOT_CONNECT:
        return None
    errno = errno_in_chain(safe_error(error, "original_exception") or error)
    return Category.SYSTEM if ERRNOS.get(name_of_errno(errno) or "") is Category.SYSTEM else None


LIBRARY = Library(
    title="PyMySQL, mysqlclient, MySQL Connector/Python and asyncmy",
    packages="MySQLdb asyncmy mysql pymysql",
    origin=Origin.DB,
    categories={
        Category.INTEGRITY: "IntegrityError",
        Category.DATA: "DataError",
        Category.INVALID_PARAMETERS: "ProgrammingError",
        Category.CONFIGURATION: "NotSupportedError",
        Category.DATABASE_BUSY: "mysql.PoolError",
    },
    readers={
        "Error": read_number,
    },
    says_nothing=(
        "Error DatabaseError OperationalError InternalError InterfaceError Warning MySQLdb.MySQLError "
        "asyncmy.MySQLError pymysql.MySQLError"
    ),
)
