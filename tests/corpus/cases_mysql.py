"""MySQL's errors as PyMySQL raises them, from a stub that speaks MySQL's protocol, and as SQLAlchemy wraps them."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from contextlib import suppress
from functools import partial
from typing import Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin
from servers.mysql_stub import FAILING, mysql

PASSWORD = "s3cret"  # goes to a stub on loopback


def by_pymysql(address: tuple[str, int], **options: Any) -> None:
    import pymysql

    host, port = address
    connection = pymysql.connect(host=host, port=port, user="app", password=PASSWORD, database="shop", **options)
    try:
        connection.query(FAILING)
    finally:
        with suppress(Exception):
            connection.close()


def by_sqlalchemy(address: tuple[str, int]) -> None:
    import sqlalchemy as sa

    host, port = address
    url = sa.URL.create("mysql+pymysql", "app", PASSWORD, host, port, "shop")
    # What SQLAlchemy asks a new server first needs a real one.
    engine = sa.create_engine(url, poolclass=sa.NullPool, _initialize=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(FAILING)


CLIENTS = {"pymysql": by_pymysql, "sqlalchemy-pymysql": by_sqlalchemy}

# Error number, SQLSTATE, text, category, whether to try again.
AT_QUERY: dict[str, tuple[int, str, str, C, bool]] = {
    "lock wait timeout": (
        1205, "HY000", "Lock wait timeout exceeded; try restarting transaction", C.DATABASE_BUSY, True,
    ),
    "deadlock": (
        1213, "40001", "Deadlock found when trying to get lock; try restarting transaction", C.DATABASE_BUSY, True,
    ),
    "lock not available": (
        3572, "HY000", "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.",
        C.DATABASE_BUSY, True,
    ),
    "query timeout": (
        3024, "HY000", "Query execution was interrupted, maximum statement execution time exceeded", C.DATABASE_BUSY, True,
    ),
    "mariadb query timeout": (
        1969, "70100", "Query execution was interrupted (max_statement_time exceeded)", C.DATABASE_BUSY, True,
    ),
    "killed by a user": (1317, "70100", "Query execution was interrupted", C.UNKNOWN, False),
    "shutdown": (1053, "08S01", "Server shutdown in progress", C.DATABASE_BUSY, True),
    "read-only after a failover": (
        1290, "HY000", "The MySQL server is running with the --read-only option so it cannot execute this statement",
        C.DATABASE_BUSY, True,
    ),
    "secure-file-priv": (
        1290, "HY000", "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement",
        C.CONFIGURATION, False,
    ),
    "read-only mode": (1836, "HY000", "Running in read-only mode", C.DATABASE_BUSY, True),
    "read-only transaction": (
        1792, "25006", "Cannot execute statement in a READ ONLY transaction.", C.CONFIGURATION, False,
    ),
    "galera not ready": (
        1047, "08S01", "WSREP has not yet prepared node for application use", C.DATABASE_BUSY, True,
    ),
    "table definition changed": (
        1412, "HY000", "Table definition has changed, please retry transaction", C.DATABASE_BUSY, True,
    ),
    "disk full": (
        1021, "HY000", "Disk full (/tmp/#sql_1_0.MAI); waiting for someone to free some space...", C.SYSTEM, True,
    ),
    "table full": (1114, "HY000", "The table 'orders' is full", C.SYSTEM, True),
    "no space in the storage engine": (
        1030, "HY000", "Got error 28 - 'No space left on device' from storage engine", C.SYSTEM, True,
    ),
    "error writing file": (
        3, "HY000", "Error writing file '/tmp/MYfd=12' (OS errno 28 - No space left on device)", C.SYSTEM, True,
    ),
    "connection killed": (1927, "70100", "Connection was killed", C.NETWORK, True),
    "inactive too long": (
        4031, "HY000", "The client was disconnected by the server because of inactivity.", C.NETWORK, True,
    ),
    "queries per hour used up": (
        1226, "42000", "User 'app' has exceeded the 'max_questions' resource (current value: 100)",
        C.QUOTA_EXHAUSTED, False,
    ),
    "table access": (
        1142, "42000", "SELECT command denied to user 'app'@'10.0.0.7' for table 'salary'", C.AUTHENTICATION, False,
    ),
    "password expired": (
        1820, "HY000", "You must reset your password using ALTER USER statement before executing this statement.",
        C.AUTHENTICATION, False,
    ),
    "no table": (1146, "42S02", "Table 'shop.nothing' doesn't exist", C.CONFIGURATION, False),
    "no column": (1054, "42S22", "Unknown column 'nothing' in 'field list'", C.CONFIGURATION, False),
    "no procedure": (1305, "42000", "PROCEDURE shop.nothing does not exist", C.CONFIGURATION, False),
    "duplicate": (1062, "23000", "Duplicate entry '7' for key 'orders.PRIMARY'", C.INTEGRITY, False),
    "still referenced": (
        1451, "23000", "Cannot delete or update a parent row: a foreign key constraint fails", C.INTEGRITY, False,
    ),
    "references nothing": (
        1452, "23000", "Cannot add or update a child row: a foreign key constraint fails", C.INTEGRITY, False,
    ),
    "null": (1048, "23000", "Column 'name' cannot be null", C.INTEGRITY, False),
    "no default": (1364, "HY000", "Field 'name' doesn't have a default value", C.INTEGRITY, False),
    "check": (3819, "HY000", "Check constraint 'orders_chk_1' is violated.", C.INTEGRITY, False),
    "table crashed": (
        1194, "HY000", "Table 'log' is marked as crashed and should be repaired", C.INTEGRITY, False,
    ),
    "syntax": (1064, "42000", "You have an error in your SQL syntax near 'SELEC 1'", C.INVALID_PARAMETERS, False),
    "wrong count of values": (1136, "21S01", "Column count doesn't match value count at row 1", C.INVALID_PARAMETERS, False),
    "packet too large": (
        1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes", C.INVALID_PARAMETERS, False,
    ),
    "too long": (1406, "22001", "Data too long for column 'name' at row 1", C.DATA, False),
    "out of range": (1264, "22003", "Out of range value for column 'price' at row 1", C.DATA, False),
    "bad bytes": (1366, "HY000", "Incorrect string value: '\\xF0\\x9F' for column 'name' at row 1", C.DATA, False),
    "number not listed, state known": (1906, "22003", "The value is not allowed", C.DATA, False),
    "unsupported": (1235, "42000", "This version of MySQL doesn't yet support 'that'", C.CONFIGURATION, False),
    "unknown error": (1105, "HY000", "Unknown error", C.UNKNOWN, False),
}  # fmt: skip

AT_GREETING: dict[str, tuple[int, str, str, C, bool]] = {
    "too many connections": (1040, "08004", "Too many connections", C.DATABASE_BUSY, True),
    "host blocked": (
        1129, "", "Host '10.0.0.7' is blocked because of many connection errors; unblock with 'mysqladmin flush-hosts'",
        C.ACCESS_DENIED, False,
    ),
    "host not allowed": (
        1130, "", "Host '10.0.0.7' is not allowed to connect to this MySQL server", C.AUTHENTICATION, False,
    ),
}  # fmt: skip

AT_LOGIN: dict[str, tuple[int, str, str, C, bool]] = {
    "wrong password": (
        1045, "28000", "Access denied for user 'app'@'10.0.0.7' (using password: YES)", C.AUTHENTICATION, False,
    ),
    "no access to the database": (
        1044, "42000", "Access denied for user 'app'@'%' to database 'shop'", C.AUTHENTICATION, False,
    ),
    "unknown database": (1049, "42000", "Unknown database 'shop'", C.CONFIGURATION, False),
    "too many connections of the user": (
        1203, "42000", "User app already has more than 'max_user_connections' active connections", C.DATABASE_BUSY, True,
    ),
    "account's connections": (
        1226, "42000", "User 'app' has exceeded the 'max_user_connections' resource (current value: 5)",
        C.DATABASE_BUSY, True,
    ),
    "account locked": (3118, "HY000", "Access denied for user 'app'. Account is locked.", C.AUTHENTICATION, False),
}  # fmt: skip


def answered(client: str, number: int, message: str, state: str, at: str, _: World) -> BaseException:
    with mysql(number, message, state, at=at) as address:
        return caught(CLIENTS[client], address)


def broken(at: str, client: str, options: dict[str, Any], _: World) -> BaseException:
    with mysql(at=at) as address:
        return caught(CLIENTS[client], address, **options)


def used_after_loss(_: World) -> BaseException:
    import pymysql

    with mysql(at="close") as (host, port):
        connection = pymysql.connect(host=host, port=port, user="app", password=PASSWORD)
        caught(connection.query, FAILING)
        return caught(connection.query, "SELECT 1")


def refused(client: str, _: World) -> BaseException:
    with socket.socket() as bound:  # bound and never listening: nobody else can get the port
        bound.bind(("127.0.0.1", 0))
        return caught(CLIENTS[client], bound.getsockname())


def no_socket(_: World) -> BaseException:
    import pymysql

    with tempfile.TemporaryDirectory() as folder:
        return caught(pymysql.connect, unix_socket=f"{folder}/mysqld.sock", user="app")


def out_of_files(_: World) -> BaseException:
    import pymysql

    def fails(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    connection = pymysql.connect(host="127.0.0.1", port=1, user="app", defer_connect=True)
    original, socket.create_connection = socket.create_connection, fails  # type: ignore[assignment]
    try:
        return caught(connection.connect)
    finally:
        socket.create_connection = original


def closed_cursor(_: World) -> BaseException:
    import pymysql

    with mysql() as (host, port), pymysql.connect(host=host, port=port, user="app", password=PASSWORD) as connection:
        cursor = connection.cursor()
        cursor.close()
        return caught(cursor.execute, "SELECT 1")


def imitated(module: str, name: str, args: tuple[object, ...], _: World) -> BaseException:
    """Build an error of a driver that is not installed, with the arguments that the driver gives it."""
    base = type("Error", (Exception,), {"__module__": module})
    kind = type(name, (base,), {"__module__": module})
    error: BaseException = kind(*args)
    return error


# Module, class, arguments, category, whether to try again, code.
ELSEWHERE: dict[str, tuple[str, str, tuple[object, ...], C, bool, str | None]] = {
    "mysqlclient/deadlock": (
        "MySQLdb", "OperationalError", (1213, "Deadlock found when trying to get lock"), C.DATABASE_BUSY, True, "1213",
    ),
    "mysqlclient/gone away": (
        "MySQLdb", "OperationalError", (2006, "MySQL server has gone away"), C.NETWORK, True, "2006",
    ),
    "mysqlclient/duplicate": ("MySQLdb", "IntegrityError", (1062, "Duplicate entry"), C.INTEGRITY, False, "1062"),
    "mysql-connector/lock wait timeout": (
        "mysql.connector.errors", "DatabaseError", (1205, "1205 (HY000): Lock wait timeout exceeded", "HY000"),
        C.DATABASE_BUSY, True, "1205",
    ),
    "mysql-connector/refused": (
        "mysql.connector.errors", "DatabaseError", (2003, "2003 (HY000): Can't connect to MySQL server", "HY000"),
        C.NETWORK, True, "2003",
    ),
    "mysql-connector/pool exhausted": (
        "mysql.connector.errors", "PoolError", (-1, "Failed getting connection; pool exhausted", None),
        C.DATABASE_BUSY, True, None,
    ),
    "asyncmy/wrong password": (
        "asyncmy.errors", "OperationalError", (1045, "Access denied for user 'app'"), C.AUTHENTICATION, False, "1045",
    ),
}  # fmt: skip


def _case(name: str, produce: Any, category: C, retryable: bool, **more: Any) -> Case:
    return Case(name, produce, category, retryable, origin=Origin.DB, **more)


def _answered() -> list[Case]:
    cases = []
    for at, faults in (("query", AT_QUERY), ("greeting", AT_GREETING), ("login", AT_LOGIN)):
        for fault, (number, state, message, category, retryable) in faults.items():
            make = partial(answered, "pymysql", number, message, state, at)
            cases.append(_case(f"pymysql/{fault}", make, category, retryable, code=str(number)))
    for fault in ("deadlock", "duplicate", "lock wait timeout", "disk full"):
        number, state, message, category, retryable = AT_QUERY[fault]
        make = partial(answered, "sqlalchemy-pymysql", number, message, state, "query")
        cases.append(_case(f"sqlalchemy-pymysql/{fault}", make, category, retryable, code=str(number)))
    number, state, message, category, retryable = AT_GREETING["too many connections"]
    make = partial(answered, "sqlalchemy-pymysql", number, message, state, "greeting")
    return [*cases, _case("sqlalchemy-pymysql/too many connections", make, category, retryable, code=str(number))]


_FAST = {"read_timeout": 0.1}

CASES: list[Case] = [
    *_answered(),
    _case("pymysql/lost during a query", partial(broken, "close", "pymysql", {}), C.NETWORK, True, code="2013"),
    _case("pymysql/read timeout", partial(broken, "stall", "pymysql", _FAST), C.NETWORK, True, code="2013"),
    _case("pymysql/no greeting", partial(broken, "no-greeting", "pymysql", {}), C.NETWORK, True, code="2013"),
    _case("pymysql/garbage", partial(broken, "garbage", "pymysql", {}), C.NETWORK, True),
    _case("sqlalchemy-pymysql/lost", partial(broken, "close", "sqlalchemy-pymysql", {}), C.NETWORK, True, code="2013"),
    _case("pymysql/used after it was lost", used_after_loss, C.NETWORK, True),
    _case("pymysql/refused", partial(refused, "pymysql"), C.NETWORK, True, code="2003"),
    _case("sqlalchemy-pymysql/refused", partial(refused, "sqlalchemy-pymysql"), C.NETWORK, True, code="2003"),
    _case("pymysql/no such socket", no_socket, C.NETWORK, True, code="2003"),
    _case("pymysql/out of files", out_of_files, C.SYSTEM, True, constructed=True),
    _case("pymysql/closed cursor", closed_cursor, C.INVALID_PARAMETERS, False),
    *(
        _case(name, partial(imitated, module, kind, args), category, retryable, code=code, constructed=True)
        for name, (module, kind, args, category, retryable, code) in ELSEWHERE.items()
    ),
]  # fmt: skip
