"""Databases: real PostgreSQL, SQLite, DuckDB and Redis; scripted servers that speak the protocols of the others."""
# A case is one line, so that cases can be compared.
# fmt: off
# ruff: noqa: C901 (a server that speaks a protocol is one function)

from __future__ import annotations

import asyncio
import atexit
import struct
import threading
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from servers.mysql_stub import mysql
from servers.postgres import PostgresServer
from servers.redis import RedisServer

from .world import NO_HOST, Cases, Reply, Service, file, folder, hanging_up, refused, reply, resetting, silent, talking

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

CASES = Cases()

# -- PostgreSQL ------------------------------------------------------------------------------------------------------------


@cache
def _postgres() -> PostgresServer:
    server = PostgresServer(folder(), max_connections=12, brief=True)
    server.start()
    atexit.register(server.stop)
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL, short varchar(3), amount int CHECK (amount > 0))",
        "CREATE TABLE child (t int REFERENCES t)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "CREATE ROLE poor LOGIN PASSWORD 'poor'",
    )  # fmt: skip
    return server


def _pg8000(**changes: Any) -> Any:
    import pg8000.dbapi

    server = _postgres()
    settings = {"user": server.user, "password": server.password, "host": server.host, "port": server.port, "database": server.database, "timeout": 5}
    return pg8000.dbapi.connect(**settings | changes)


def _pg(*statements: str, **changes: Any) -> Callable[[], None]:
    def provoke() -> None:
        connection = _pg8000(**changes)
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
        finally:
            connection.close()

    return provoke


add = CASES.add
add("pg8000/password", "authentication", False, "the password is refused", _pg(password="wrong"))
add("pg8000/database", "not_found", False, "no such database", _pg(database="nope"), also=("configuration", "invalid_parameters"))
add("pg8000/shut-out", "authentication", False, "pg_hba.conf rejects the client", _pg(database="shut_out"), also=("access_denied", "configuration"))
add("pg8000/table", "invalid_parameters", False, "no such table", _pg("SELECT * FROM nope"), also=("not_found", "configuration"))
add("pg8000/column", "invalid_parameters", False, "no such column", _pg("SELECT nope FROM t"), also=("not_found", "configuration"))
add("pg8000/syntax", "invalid_parameters", False, "the statement does not parse", _pg("SELEC 1"), also=("configuration",))
add("pg8000/unique", "integrity", False, "the key exists", _pg("INSERT INTO t VALUES (1, 'x')"))
add("pg8000/foreign-key", "integrity", False, "the row referred to does not exist", _pg("INSERT INTO child VALUES (99)"))
add("pg8000/not-null", "integrity", False, "a value is missing", _pg("INSERT INTO t (id) VALUES (5)"))
add("pg8000/check", "integrity", False, "a check fails", _pg("INSERT INTO t (id, name, amount) VALUES (6, 'x', -1)"))
add("pg8000/too-long", "data", False, "the text is too long for the column", _pg("INSERT INTO t VALUES (7, 'x', 'abcd')"), also=("invalid_parameters", "integrity"))
add("pg8000/number", "data", False, "not a number", _pg("SELECT 'x'::int"), also=("invalid_parameters",))
add("pg8000/zero", "data", False, "division by zero", _pg("SELECT 1/0"), also=("invalid_parameters",))
add("pg8000/permission", "authentication", False, "the role lacks the right", _pg("SELECT * FROM t", user="poor", password="poor"), also=("access_denied",))
add("pg8000/read-only", "invalid_parameters", False, "a write in a read-only transaction", _pg("SET TRANSACTION READ ONLY", "INSERT INTO t VALUES (9, 'x')"), also=("configuration", "database_busy", "api_temporary"))
add("pg8000/statement-timeout", "database_busy", True, "the server gave up after its time limit", _pg("SET statement_timeout = 50", "SELECT pg_sleep(3)"), also=("network",))
add("pg8000/transaction-aborted", "invalid_parameters", False, "an earlier statement of the transaction failed", lambda: _pg_aborted(), also=("unknown", "database_busy"))  # noqa: PLW0108


def _pg_aborted() -> None:
    connection = _pg8000()
    cursor = connection.cursor()
    with suppress(Exception):  # the next error is wanted
        cursor.execute("SELECT 1/0")
    try:
        cursor.execute("SELECT 1")
    finally:
        connection.close()


def _pg_lock(wait: str) -> Callable[[], None]:
    def provoke() -> None:
        holder = _pg8000()
        holder.cursor().execute("UPDATE t SET name = 'h' WHERE id = 1")
        try:
            _pg("SET lock_timeout = 50", f"SELECT * FROM t WHERE id = 1 FOR UPDATE {wait}")()
        finally:
            holder.close()

    return provoke


add("pg8000/lock-timeout", "database_busy", True, "another transaction holds the row", _pg_lock(""))
add("pg8000/nowait", "database_busy", True, "another transaction holds the row", _pg_lock("NOWAIT"))


def _pg_deadlock() -> None:
    connections = [_pg8000(), _pg8000()]
    cursors = [connection.cursor() for connection in connections]
    for number, cursor in enumerate(cursors):
        cursor.execute("SET deadlock_timeout = '100ms'")
        cursor.execute(f"UPDATE t SET name = 'd' WHERE id = {number + 1}")
    failures: list[BaseException] = []

    def cross(number: int) -> None:
        try:
            cursors[number].execute(f"UPDATE t SET name = 'd' WHERE id = {2 - number}")
        except Exception as error:
            failures.append(error)
            connections[number].close()

    threads = [threading.Thread(target=cross, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    for connection in connections:
        with suppress(Exception):
            connection.close()
    raise failures[0]


add("pg8000/deadlock", "database_busy", True, "two transactions wait for each other", _pg_deadlock)


def _pg_serialization() -> None:
    one, two = _pg8000(), _pg8000()
    first, second = one.cursor(), two.cursor()
    for cursor in (first, second):
        cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        cursor.execute("SELECT name FROM t WHERE id = 1")
    first.execute("UPDATE t SET name = 's' WHERE id = 1")
    one.commit()
    try:
        second.execute("UPDATE t SET name = 'u' WHERE id = 1")
    finally:
        one.close()
        two.close()


add("pg8000/serialization", "database_busy", True, "another transaction was first", _pg_serialization)


def _pg_crowded() -> None:
    held: list[Any] = []
    try:
        for _ in range(14):
            held.append(_pg8000(user="poor", password="poor"))  # noqa: PERF401 (each has to be kept before the next fails)
    finally:
        for connection in held:
            connection.close()


add("pg8000/too-many-connections", "database_busy", True, "all connections are taken", _pg_crowded)


def _pg_terminated() -> None:
    connection = _pg8000()
    cursor = connection.cursor()
    cursor.execute("SELECT pg_backend_pid()")
    number = cursor.fetchone()[0]
    _pg(f"SELECT pg_terminate_backend({number})")()
    time.sleep(0.1)
    cursor.execute("SELECT 1")


add("pg8000/terminated", "network", True, "an administrator ended the connection", _pg_terminated, also=("database_busy", "api_temporary"))
add("pg8000/refused", "network", True, "nobody listens on the port", lambda: _pg8000(port=refused()))
add("pg8000/dns", "network", True, "the host name does not resolve", lambda: _pg8000(host=NO_HOST))


def _at_port(call: Callable[[int], object], server: Callable[[], Any]) -> Callable[[], None]:
    def provoke() -> None:
        with server() as port:
            call(port)

    return provoke


add("pg8000/timeout", "network", True, "no answer within the client's time limit", _at_port(lambda port: _pg8000(port=port, timeout=0.5), silent))
add("pg8000/hangup", "network", True, "the peer ended the connection", _at_port(lambda port: _pg8000(port=port), hanging_up))


def _pg_message(code: str, severity: str, text: str) -> Callable[[], Any]:
    """A server that answers the greeting with an error, as one does that is starting up."""
    body = b"".join(mark + value.encode() + b"\0" for mark, value in ((b"S", severity), (b"V", severity), (b"C", code), (b"M", text))) + b"\0"

    def talk(connection: socket.socket) -> None:
        if len(connection.recv(4096)) == 8:  # asks for TLS first
            connection.sendall(b"N")
            connection.recv(4096)
        connection.sendall(b"E" + struct.pack("!I", len(body) + 4) + body)
        connection.recv(4096)

    return lambda: talking(talk)


add("pg8000/starting", "database_busy", True, "the server starts", _at_port(lambda port: _pg8000(port=port), _pg_message("57P03", "FATAL", "the database system is starting up")), also=("network", "api_temporary"))
add("pg8000/disk-full", "system", True, "the server's disk is full", _at_port(lambda port: _pg8000(port=port), _pg_message("53100", "ERROR", 'could not extend file "base/16384/16385": No space left on device')), also=("database_busy",))
add("pg8000/closed", "invalid_parameters", False, "the connection was closed by the program itself", lambda: _pg_closed(), also=("network", "unknown", "configuration"))  # noqa: PLW0108


def _pg_closed() -> None:
    connection = _pg8000()
    connection.close()
    connection.cursor().execute("SELECT 1")


# -- MySQL ---------------------------------------------------------------------------------------------------------------------


def _connector(port: int) -> None:
    import mysql.connector

    connection = mysql.connector.connect(host="127.0.0.1", port=port, user="u", password="p", use_pure=True, connection_timeout=1, ssl_disabled=True)
    connection.cursor().execute("FAIL")


def _asyncmy(port: int) -> None:
    import asyncmy

    async def run() -> None:
        connection = await asyncmy.connect(host="127.0.0.1", port=port, user="u", password="p", connect_timeout=1, read_timeout=1)
        async with connection.cursor() as cursor:
            await cursor.execute("FAIL")

    asyncio.run(run())


def _my(library: str, call: Callable[[int], None], name: str, number: int, state: str, message: str, category: str, retry: bool, reason: str, at: str = "query", **label: Any) -> None:  # noqa: PLR0917 (rows of a table)
    def provoke() -> None:
        with mysql(number, message, state, at=at) as (_, port):
            call(port)

    add(f"{library}/{name}", category, retry, reason, provoke, **label)


_MYSQL: list[tuple[Any, ...]] = [
    ("password", 1045, "28000", "Access denied for user 'u'@'localhost' (using password: YES)", "authentication", False, "the password is refused", "login"),
    ("database", 1049, "42000", "Unknown database 'nope'", "not_found", False, "no such database", "login"),
    ("connections", 1040, "08004", "Too many connections", "database_busy", True, "all connections are taken", "greeting"),
    ("host-blocked", 1129, "HY000", "Host '10.0.0.1' is blocked because of many connection errors; unblock with 'mysqladmin flush-hosts'", "authentication", False, "an administrator has to lift the block", "greeting"),
    ("deadlock", 1213, "40001", "Deadlock found when trying to get lock; try restarting transaction", "database_busy", True, "two transactions wait for each other"),
    ("lock-timeout", 1205, "HY000", "Lock wait timeout exceeded; try restarting transaction", "database_busy", True, "another transaction holds the row"),
    ("duplicate", 1062, "23000", "Duplicate entry '1' for key 't.PRIMARY'", "integrity", False, "the key exists"),
    ("foreign-key", 1452, "23000", "Cannot add or update a child row: a foreign key constraint fails (`d`.`child`, CONSTRAINT `c` FOREIGN KEY (`t`) REFERENCES `t` (`id`))", "integrity", False, "the row referred to does not exist"),
    ("table", 1146, "42S02", "Table 'd.nope' doesn't exist", "invalid_parameters", False, "no such table"),
    ("syntax", 1064, "42000", "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near 'SELEC 1' at line 1", "invalid_parameters", False, "the statement does not parse"),
    ("too-long", 1406, "22001", "Data too long for column 'short' at row 1", "data", False, "the text is too long for the column"),
    ("shutdown", 1053, "08S01", "Server shutdown in progress", "database_busy", True, "the server restarts"),
    ("read-only", 1290, "HY000", "The MySQL server is running with the --read-only option so it cannot execute this statement", "database_busy", True, "the server is a replica for now, as in a failover"),
    ("disk-full", 1021, "HY000", 'Disk full (/tmp/#sql_1); waiting for someone to free some space... (errno: 28 "No space left on device")', "system", True, "the server's disk is full"),
    ("execution-time", 3024, "HY000", "Query execution was interrupted, maximum statement execution time exceeded", "database_busy", True, "the server gave up after its time limit"),
    ("privilege", 1142, "42000", "INSERT command denied to user 'u'@'localhost' for table 't'", "authentication", False, "the user lacks the right"),
]
_MYSQL_ALSO: dict[str, tuple[str, ...]] = {
    "database": ("configuration", "invalid_parameters"), "table": ("not_found", "configuration"), "syntax": ("configuration",), "too-long": ("invalid_parameters", "integrity"),
    "shutdown": ("network", "api_temporary"), "read-only": ("api_temporary", "configuration"), "privilege": ("access_denied",), "host-blocked": ("access_denied", "configuration", "network"),
}  # fmt: skip
for row in _MYSQL:
    _my("mysql-connector-python", _connector, *row, also=_MYSQL_ALSO.get(row[0], ()))
for row in _MYSQL:
    if row[0] in ("password", "connections", "deadlock", "lock-timeout", "duplicate", "table", "privilege", "execution-time", "read-only"):
        _my("asyncmy", _asyncmy, *row, also=_MYSQL_ALSO.get(row[0], ()))
for library, call in (("mysql-connector-python", _connector), ("asyncmy", _asyncmy)):
    add(f"{library}/refused", "network", True, "nobody listens on the port", lambda call=call: call(refused()))
    add(f"{library}/hangup", "network", True, "the peer ended the connection", _at_port(call, hanging_up))
    _my(library, call, "lost", 0, "", "", "network", True, "the connection broke during the query", "close")


def _connector_dns() -> None:
    import mysql.connector

    mysql.connector.connect(host=NO_HOST, user="u", password="p", use_pure=True, connection_timeout=1)


add("mysql-connector-python/dns", "network", True, "the host name does not resolve", _connector_dns)


def _connector_option() -> None:
    import mysql.connector

    mysql.connector.connect(host="127.0.0.1", usr="u")


add("mysql-connector-python/option", "configuration", False, "no such option", _connector_option, also=("invalid_parameters",))

# -- SQL Server: TDS with one prepared error ------------------------------------------------------------------------------------


def _tds(number: int, severity: int, message: str, at: str = "query") -> Callable[[], Any]:
    def packet(body: bytes) -> bytes:
        return struct.pack(">BBHHBB", 4, 1, len(body) + 8, 0, 1, 0) + body

    text = message.encode("utf-16-le")
    inner = struct.pack("<iBB", number, 1, severity) + struct.pack("<H", len(text) // 2) + text + b"\x03" + "srv".encode("utf-16-le") + b"\x00" + struct.pack("<i", 1)
    failed = packet(b"\xaa" + struct.pack("<H", len(inner)) + inner + b"\xfd" + struct.pack("<HHQ", 2, 0, 0))
    name = "Microsoft SQL Server".encode("utf-16-le")
    ack = b"\x01" + b"\x74\x00\x00\x04" + bytes([len(name) // 2]) + name + b"\x10\x00\x03\xe8"
    change = b"\x04\x04" + "4096".encode("utf-16-le") + b"\x04" + "4096".encode("utf-16-le")
    accepted = packet(b"\xe3" + struct.pack("<H", len(change)) + change + b"\xad" + struct.pack("<H", len(ack)) + ack + b"\xfd" + struct.pack("<HHQ", 0, 0, 0))
    done = packet(b"\xfd" + struct.pack("<HHQ", 0, 0, 0))

    def read(connection: socket.socket) -> tuple[int, bytes]:
        whole = b""
        while True:
            head = b""
            while len(head) < 8:
                part = connection.recv(8 - len(head))
                if not part:
                    raise EOFError
                head += part
            kind, last, length = struct.unpack(">BBH", head[:4])
            body = b""
            while len(body) < length - 8:
                body += connection.recv(length - 8 - len(body))
            whole += body
            if last & 1:
                return kind, whole

    def talk(connection: socket.socket) -> None:
        logged_in = False
        while True:
            kind, body = read(connection)
            if kind == 0x12:
                connection.sendall(packet(b"\x00\x00\x0b\x00\x06\x01\x00\x11\x00\x01\xff" + b"\x10\x00\x03\xe8\x00\x00" + b"\x02"))
            elif not logged_in:
                connection.sendall(failed if at == "login" else accepted)
                logged_in = True
            else:
                connection.sendall(failed if "FAIL".encode("utf-16-le") in body else done)

    return lambda: talking(talk)


def _pytds(port: int) -> None:
    import pytds

    with pytds.connect("127.0.0.1", port=port, user="sa", password="p", database="d", login_timeout=2, timeout=2, autocommit=True) as connection:
        connection.cursor().execute("FAIL")


def _pymssql(port: int) -> None:
    import pymssql

    connection = pymssql.connect(server="127.0.0.1", port=str(port), user="sa", password="p", database="d", login_timeout=2, timeout=2, tds_version="7.4", autocommit=True, encryption="off")
    connection.cursor().execute("FAIL")


_MSSQL: list[tuple[Any, ...]] = [
    ("login", 18456, 14, "Login failed for user 'sa'.", "login", "authentication", False, "the password is refused", ()),
    ("database", 4060, 11, 'Cannot open database "d" requested by the login. The login failed.', "login", "not_found", False, "no such database, or no right to open it", ("authentication", "configuration")),
    ("throttled", 40501, 16, "The service is currently busy. Retry the request after 10 seconds. Incident ID: 1. Code: 1.", "login", "rate_limit", True, "the service asks to wait", ("database_busy", "api_temporary")),
    ("unavailable", 40613, 17, "Database 'd' on server 'srv' is not currently available.  Please retry the connection later.", "login", "api_temporary", True, "the database moves", ("database_busy", "network")),
    ("deadlock", 1205, 13, "Transaction (Process ID 52) was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.", "query", "database_busy", True, "two transactions wait for each other", ()),
    ("lock-timeout", 1222, 16, "Lock request time out period exceeded.", "query", "database_busy", True, "another transaction holds the row", ()),
    ("duplicate", 2627, 14, "Violation of PRIMARY KEY constraint 'PK_t'. Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (1).", "query", "integrity", False, "the key exists", ()),
    ("foreign-key", 547, 16, "The INSERT statement conflicted with the FOREIGN KEY constraint \"FK_c\". The conflict occurred in database \"d\", table \"dbo.t\", column 'id'.", "query", "integrity", False, "the row referred to does not exist", ()),
    ("table", 208, 16, "Invalid object name 'nope'.", "query", "invalid_parameters", False, "no such table", ("not_found", "configuration")),
    ("syntax", 102, 15, "Incorrect syntax near 'SELEC'.", "query", "invalid_parameters", False, "the statement does not parse", ("configuration",)),
    ("truncated", 2628, 16, "String or binary data would be truncated in table 'd.dbo.t', column 'short'. Truncated value: 'abc'.", "query", "data", False, "the text is too long for the column", ("invalid_parameters", "integrity")),
    ("permission", 229, 14, "The SELECT permission was denied on the object 't', database 'd', schema 'dbo'.", "query", "authentication", False, "the user lacks the right", ("access_denied",)),
    ("log-full", 9002, 17, "The transaction log for database 'd' is full due to 'LOG_BACKUP'.", "query", "system", True, "the server's disk is full", ("database_busy",)),
    ("conversion", 245, 16, "Conversion failed when converting the varchar value 'x' to data type int.", "query", "data", False, "not a number", ("invalid_parameters",)),
]
for library, call in (("python-tds", _pytds), ("pymssql", _pymssql)):
    # First, since pymssql keeps the number of the last message for errors that have none.
    add(f"{library}/refused", "network", True, "nobody listens on the port", lambda call=call: call(refused()))
    add(f"{library}/hangup", "network", True, "the peer ended the connection", _at_port(call, hanging_up))
    add(f"{library}/timeout", "network", True, "no answer within the client's time limit", _at_port(call, silent))
    for name, number, severity, message, at, category, retry, reason, also in _MSSQL:
        wait = 10 if name == "throttled" else None
        add(f"{library}/{name}", category, retry, reason, _at_port(call, _tds(number, severity, message, at)), also=also, retry_after=wait)

# -- Oracle: a listener that refuses ------------------------------------------------------------------------------------------------


def _oracle(port: int, host: str = "127.0.0.1") -> None:
    import oracledb

    oracledb.connect(user="u", password="p", dsn=f"{host}:{port}/service?transport_connect_timeout=1&retry_count=0")


def _listener(code: int) -> Callable[[], Any]:
    text = f"(DESCRIPTION=(TMP=)(VSNNUM=318767104)(ERR={code})(ERROR_STACK=(ERROR=(CODE={code})(EMFI=4))))".encode()
    body = struct.pack(">BBH", 34, 0, len(text)) + text

    def talk(connection: socket.socket) -> None:
        connection.recv(8192)
        connection.sendall(struct.pack(">HHBBH", len(body) + 8, 0, 4, 0, 0) + body)
        connection.recv(100)

    return lambda: talking(talk)


add("oracledb/service", "not_found", False, "the listener does not know the service", _at_port(_oracle, _listener(12514)), also=("configuration", "network"))
add("oracledb/handlers", "database_busy", True, "the listener has no free handler", _at_port(_oracle, _listener(12516)), also=("network",))
add("oracledb/blocked", "network", True, "the service is blocked for now", _at_port(_oracle, _listener(12528)), also=("database_busy", "api_temporary"))
add("oracledb/refused", "network", True, "nobody listens on the port", lambda: _oracle(refused()))
add("oracledb/hangup", "network", True, "the peer ended the connection", _at_port(_oracle, hanging_up))


def _oracle_dsn() -> None:
    import oracledb

    oracledb.connect(user="u", password="p", dsn="(DESCRIPTION=(ADDRESS=")


def _oracle_alias() -> None:
    import oracledb

    oracledb.connect(user="u", password="p", dsn="nope", config_dir=str(folder()))


add("oracledb/dsn", "configuration", False, "not a connect string", _oracle_dsn, also=("invalid_parameters",))
add("oracledb/alias", "configuration", False, "no file of names to look the alias up in", _oracle_alias, also=("not_found",))

# -- ClickHouse ---------------------------------------------------------------------------------------------------------------------


def _clickhouse_http(url: str) -> None:
    import clickhouse_connect

    parts = urlsplit(url)
    clickhouse_connect.get_client(host=parts.hostname, port=parts.port, username="u", password="p", connect_timeout=1, send_receive_timeout=1, query_retries=0)


def _ch(status: int, code: int, name: str, message: str) -> Reply:
    return reply(status, f"Code: {code}. DB::Exception: {message} ({name}) (version 24.8.4.13 (official build))\n", X_ClickHouse_Exception_Code=str(code))


_CLICKHOUSE: list[tuple[Any, ...]] = [
    ("password", 403, 516, "AUTHENTICATION_FAILED", "u: Authentication failed: password is incorrect, or there is no user with such name.", "authentication", False, "the password is refused", ()),
    ("database", 404, 81, "UNKNOWN_DATABASE", "Database nope does not exist", "not_found", False, "no such database", ("configuration", "invalid_parameters")),
    ("table", 404, 60, "UNKNOWN_TABLE", "Unknown table expression identifier 'nope' in scope SELECT * FROM nope", "invalid_parameters", False, "no such table", ("not_found",)),
    ("syntax", 400, 62, "SYNTAX_ERROR", "Syntax error: failed at position 1 (SELEC): SELEC 1. Expected one of: Query, SELECT query", "invalid_parameters", False, "the statement does not parse", ()),
    ("queries", 500, 202, "TOO_MANY_SIMULTANEOUS_QUERIES", "Too many simultaneous queries. Maximum: 100", "database_busy", True, "too busy for now", ("rate_limit", "api_temporary")),
    ("memory", 500, 241, "MEMORY_LIMIT_EXCEEDED", "Memory limit (total) exceeded: would use 14.41 GiB (attempt to allocate chunk of 4503424 bytes), maximum: 14.40 GiB.", "system", True, "the server's memory is short for now", ("database_busy", "api_temporary")),
    ("parts", 500, 252, "TOO_MANY_PARTS", "Too many parts (600 with average size of 1.00 KiB) in table 'd.t'. Merges are processing significantly slower than inserts", "database_busy", True, "inserts come faster than merges", ("rate_limit", "api_temporary")),
    ("timeout-exceeded", 500, 159, "TIMEOUT_EXCEEDED", "Timeout exceeded: elapsed 60.1 seconds, maximum: 60", "database_busy", True, "the server gave up after its time limit", ("api_temporary", "network")),
    ("readonly", 500, 242, "TABLE_IS_READ_ONLY", "Table is in readonly mode (replica path: /clickhouse/tables/1/t/replicas/1)", "database_busy", True, "the replica lost its coordinator for now", ("api_temporary", "configuration")),
    ("quota", 500, 201, "QUOTA_EXCEEDED", "Quota for user `u` for 3600s has been exceeded: queries = 101/100. Interval will end at 2026-11-18 09:00:00. Name of quota template: `default`", "quota_exhausted", False, "the user's queries of the hour are used up", ("rate_limit",)),
    ("space", 500, 243, "NOT_ENOUGH_SPACE", "Cannot reserve 1.00 MiB, not enough space", "system", True, "the server's disk is full", ("api_temporary", "database_busy")),
]
s = Service(CASES, "clickhouse-connect", _clickhouse_http)
for name, status, code, error_name, message, category, retry, reason, also in _CLICKHOUSE:
    s.answers(name, _ch(status, code, error_name, message), category, retry, reason, also=also)
s.faults("refused", "timeout")


def _clickhouse_native(port: int) -> None:
    from clickhouse_driver import Client

    Client("127.0.0.1", port=port, user="u", password="p", connect_timeout=1, send_receive_timeout=1, sync_request_timeout=1).execute("SELECT 1")


def _native(code: int, name: str, message: str) -> Callable[[], Any]:
    def text(value: str) -> bytes:
        data, size = value.encode(), len(value.encode())
        head = b""
        while size >= 0x80:
            head += bytes([size & 0x7F | 0x80])
            size >>= 7
        return head + bytes([size]) + data

    body = b"\x02" + struct.pack("<i", code) + text("DB::Exception") + text(f"DB::Exception: {message}") + text("0. DB::Exception::Exception()\n") + b"\0"

    def talk(connection: socket.socket) -> None:
        connection.recv(4096)
        if code == 516:
            connection.sendall(body)
        else:
            connection.sendall(b"\x00" + text("ClickHouse") + b"\x18\x08" + b"\xa8\xa9\x03" + text("UTC") + text("srv") + b"\x04")
            connection.recv(65536)
            connection.sendall(body)
        connection.recv(100)

    assert name
    return lambda: talking(talk)


for name, _status, code, error_name, message, category, retry, reason, also in _CLICKHOUSE:
    add(f"clickhouse-driver/{name}", category, retry, reason, _at_port(_clickhouse_native, _native(code, error_name, message)), also=also)
add("clickhouse-driver/refused", "network", True, "nobody listens on the port", lambda: _clickhouse_native(refused()))
add("clickhouse-driver/timeout", "network", True, "no answer within the client's time limit", _at_port(_clickhouse_native, silent))
add("clickhouse-driver/hangup", "network", True, "the peer ended the connection", _at_port(_clickhouse_native, hanging_up))

# -- DuckDB ----------------------------------------------------------------------------------------------------------------------------


def _duck(*statements: str) -> Callable[[], None]:
    def provoke() -> None:
        import duckdb

        connection = duckdb.connect()
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        for statement in statements:
            connection.execute(statement).fetchall()

    return provoke


add("duckdb/table", "invalid_parameters", False, "no such table", _duck("SELECT * FROM nope"), also=("not_found",))
add("duckdb/column", "invalid_parameters", False, "no such column", _duck("SELECT nope FROM t"), also=("not_found",))
add("duckdb/syntax", "invalid_parameters", False, "the statement does not parse", _duck("SELEC 1"))
add("duckdb/duplicate", "integrity", False, "the key exists", _duck("INSERT INTO t VALUES (1, 'b')"))
add("duckdb/not-null", "integrity", False, "a value is missing", _duck("INSERT INTO t VALUES (2, NULL)"))
add("duckdb/conversion", "data", False, "not a number", _duck("SELECT 'x'::INTEGER"), also=("invalid_parameters",))
add("duckdb/range", "data", False, "the number is too large", _duck("SELECT 2147483647::INTEGER + 1::INTEGER"), also=("invalid_parameters",))
add("duckdb/csv", "data", False, "a line of the file does not fit", lambda: _duck(f"SELECT * FROM read_csv('{file('x.csv', b'a,b' + bytes([10]) + b'1,2' + bytes([10]) + b'x,y' + bytes([10]))}', columns={{'a': 'INTEGER', 'b': 'INTEGER'}})")(), also=("invalid_parameters",))  # noqa: PLW0108 (the file is made when it is needed)
add("duckdb/parquet", "data", False, "the file is no Parquet", lambda: _duck(f"SELECT * FROM read_parquet('{file('x.parquet', b'not parquet at all, but long enough')}')")(), also=("invalid_parameters",))  # noqa: PLW0108 (the file is made when it is needed)
add("duckdb/no-file", "not_found", False, "no such file", _duck("SELECT * FROM read_csv('/no/such/file.csv')"))
add("duckdb/memory", "system", True, "the memory limit was reached", _duck("SET memory_limit = '20MB'", "SET temp_directory = ''", "SELECT count(DISTINCT x::VARCHAR || y::VARCHAR) FROM range(3000000) a(x), range(2) b(y)"))


def _duck_conflict() -> None:
    import duckdb

    one = duckdb.connect(str(folder() / "d.db"))
    two = one.cursor()
    one.execute("CREATE TABLE t (id INTEGER, n INTEGER); INSERT INTO t VALUES (1, 1)")
    one.execute("BEGIN; UPDATE t SET n = 2")
    two.execute("BEGIN; UPDATE t SET n = 3")


def _duck_locked() -> None:
    import subprocess
    import sys

    import duckdb

    path = str(folder() / "d.db")
    script = f"import duckdb, time; c = duckdb.connect({path!r}); print(1, flush=True); time.sleep(20)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        try:
            duckdb.connect(path)
        finally:
            other.kill()


add("duckdb/conflict", "database_busy", True, "two transactions change the same row", _duck_conflict)
add("duckdb/locked", "database_busy", True, "another process has the file open", _duck_locked)
add("duckdb/not-a-database", "data", False, "the file is no database", lambda: __import__("duckdb").connect(file("x.db", b"x" * 8192)), also=("invalid_parameters", "configuration"))

# -- SQLite through other layers ------------------------------------------------------------------------------------------------------------


def _apsw(*statements: str) -> Callable[[], None]:
    def provoke() -> None:
        import apsw

        connection = apsw.Connection(":memory:")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        for statement in statements:
            list(connection.execute(statement))

    return provoke


def _apsw_busy() -> None:
    import apsw

    path = str(folder() / "d.db")
    one, two = apsw.Connection(path), apsw.Connection(path)
    one.execute("CREATE TABLE t (id INTEGER)")
    one.execute("BEGIN IMMEDIATE")
    two.execute("BEGIN IMMEDIATE")


add("apsw/duplicate", "integrity", False, "the key exists", _apsw("INSERT INTO t VALUES (1, 'b')"))
add("apsw/syntax", "invalid_parameters", False, "the statement does not parse", _apsw("SELEC 1"))
add("apsw/table", "invalid_parameters", False, "no such table", _apsw("SELECT * FROM nope"), also=("not_found",))
add("apsw/busy", "database_busy", True, "another connection writes", _apsw_busy)
add("apsw/no-file", "not_found", False, "the folder does not exist", lambda: __import__("apsw").Connection("/no/such/folder/x.db"), also=("configuration", "system"))
add("apsw/not-a-database", "data", False, "the file is no database", lambda: list(__import__("apsw").Connection(file("x.db", b"x" * 8192)).execute("SELECT * FROM sqlite_master")), also=("configuration",))
add("apsw/full", "system", True, "the database may not grow further", _apsw("PRAGMA max_page_count = 3", "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO t SELECT i, 'xxxxxxxxxxxxxxxxxxxx' FROM n"), also=("database_busy",))
add("apsw/read-only", "configuration", False, "the database was opened for reading", lambda: _apsw_read_only(), also=("invalid_parameters", "access_denied"))  # noqa: PLW0108


def _apsw_read_only() -> None:
    import apsw

    path = str(folder() / "d.db")
    apsw.Connection(path).execute("CREATE TABLE t (id INTEGER)")
    apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY).execute("INSERT INTO t VALUES (1)")


def _peewee(how: str) -> Callable[[], None]:
    def provoke() -> None:
        import peewee

        path = str(folder() / "d.db")
        database = peewee.SqliteDatabase(path, timeout=0.05)

        class User(peewee.Model):
            name = peewee.CharField(unique=True)

            class Meta:
                pass

        User.bind(database)
        if how != "table":
            database.create_tables([User])
        if how == "busy":
            import sqlite3

            holder = sqlite3.connect(path, isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            keep.append(holder)
        if how == "missing":
            User.get(User.name == "nobody")
        User.create(name="a")
        User.create(name="a")

    return provoke


keep: list[Any] = []
add("peewee/duplicate", "integrity", False, "the name exists", _peewee("duplicate"))
add("peewee/table", "invalid_parameters", False, "no such table", _peewee("table"), also=("not_found", "configuration"))
add("peewee/missing", "not_found", False, "no such row", _peewee("missing"))
add("peewee/busy", "database_busy", True, "another connection writes", _peewee("busy"))


@cache
def _django() -> Any:
    import django
    from django.conf import settings

    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder() / "d.db"), "OPTIONS": {"timeout": 0.05}}}, INSTALLED_APPS=[], USE_TZ=True)
    django.setup()
    from django.db import connection, models

    class Person(models.Model):  # noqa: DJ008 (never shown)
        name = models.CharField(max_length=5, unique=True)
        email = models.EmailField(default="a@example.com")

        class Meta:
            app_label = "people"

    with connection.schema_editor() as editor:
        editor.create_model(Person)
    return Person


def _django_busy() -> None:
    import sqlite3

    person = _django()
    from django.conf import settings

    holder = sqlite3.connect(settings.DATABASES["default"]["NAME"], isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        person.objects.create(name="b")
    finally:
        holder.close()


def _django_twice() -> None:
    _django().objects.create(name="a")
    _django().objects.create(name="a")


def _django_settings() -> None:
    _django()
    from django.db import connections
    from django.utils.module_loading import import_string

    connections["nope"].cursor()
    import_string("nope.nope")


def _django_raw() -> None:
    _django()
    from django.db import connection

    connection.cursor().execute("SELECT * FROM nope")


def _django_json() -> None:
    _django()
    from django.core import serializers

    list(serializers.deserialize("json", '[{"model": "nope.nope", "fields": {}}'))


add("django/duplicate", "integrity", False, "the name exists", _django_twice)
add("django/missing", "not_found", False, "no such row", lambda: _django().objects.get(name="nobody"))
add("django/busy", "database_busy", True, "another connection writes", _django_busy)
add("django/validation", "data", False, "not an address", lambda: _django()(name="abcdefgh", email="x").full_clean(), also=("invalid_parameters",))
add("django/alias", "configuration", False, "no such database in the settings", _django_settings)
add("django/table", "invalid_parameters", False, "no such table", _django_raw, also=("not_found", "configuration"))
add("django/field", "invalid_parameters", False, "no such field", lambda: _django().objects.filter(nope=1))
add("django/fixture", "data", False, "the JSON is cut off", _django_json)


def _tortoise(how: str) -> Callable[[], None]:
    def provoke() -> None:
        import sys
        import types

        from tortoise import Tortoise, fields
        from tortoise.models import Model

        module = types.ModuleType("heldout_models")

        class Event(Model):
            id = fields.IntField(primary_key=True)
            name = fields.CharField(max_length=5, unique=True)

        Event.__module__ = "heldout_models"
        module.Event = Event  # type: ignore[attr-defined]
        sys.modules["heldout_models"] = module

        async def run() -> None:
            url = "nope://x" if how == "url" else "sqlite:///no/such/folder/x.db" if how == "no-file" else "sqlite://:memory:"
            await Tortoise.init(db_url=url, modules={"models": ["heldout_models"]})
            try:
                if how != "table":
                    await Tortoise.generate_schemas()
                if how == "missing":
                    await Event.get(name="x")
                if how == "long":
                    await Event.create(name="abcdefgh")
                await Event.create(name="a")
                await Event.create(name="a")
            finally:
                await Tortoise.close_connections()

        asyncio.run(run())

    return provoke


add("tortoise-orm/duplicate", "integrity", False, "the name exists", _tortoise("duplicate"))
add("tortoise-orm/missing", "not_found", False, "no such row", _tortoise("missing"))
add("tortoise-orm/table", "invalid_parameters", False, "no such table", _tortoise("table"), also=("not_found", "configuration"))
add("tortoise-orm/long", "data", False, "the text is too long", _tortoise("long"), also=("invalid_parameters",))
add("tortoise-orm/url", "configuration", False, "the URL names no known database", _tortoise("url"))


def _pony(how: str) -> Callable[[], None]:
    def provoke() -> None:
        from pony import orm

        database = orm.Database()

        class Item(database.Entity):  # type: ignore[misc, name-defined]
            name = orm.Required(str, unique=True)

        database.bind(provider="sqlite", filename=":memory:")
        database.generate_mapping(create_tables=True)
        with orm.db_session:
            if how == "missing":
                Item[7]
            if how == "sql":
                database.execute("SELEC 1")
            if how == "required":
                Item()
            Item(name="a")
            orm.flush()
            database.execute("INSERT INTO Item (name) VALUES ('b')")
            Item(name="b")
            orm.flush()

    return provoke


add("pony/duplicate", "integrity", False, "the name exists", _pony("duplicate"))
add("pony/missing", "not_found", False, "no such row", _pony("missing"))
add("pony/sql", "invalid_parameters", False, "the statement does not parse", _pony("sql"))
add("pony/required", "invalid_parameters", False, "a value is missing", _pony("required"), also=("data", "integrity"))

# -- databases behind HTTP --------------------------------------------------------------------------------------------------------------------


def _influx(url: str) -> None:
    from influxdb_client import InfluxDBClient
    from influxdb_client.client.write_api import SYNCHRONOUS

    InfluxDBClient(url=url, token="t", org="o", timeout=700, retries=False).write_api(write_options=SYNCHRONOUS).write("b", record="m v=1")


s = Service(CASES, "influxdb-client", _influx)
s.answers("401", reply(401, {"code": "unauthorized", "message": "unauthorized access"}), "authentication", False, "the token is refused")
s.answers("404", reply(404, {"code": "not found", "message": 'bucket "b" not found'}), "not_found", False, "no such bucket")
s.answers("400", reply(400, {"code": "invalid", "message": "unable to parse 'm v=': missing field value"}), "invalid_parameters", False, "the line does not parse", also=("data",))
s.answers("422", reply(422, {"code": "unprocessable entity", "message": 'failure writing points to database: partial write: field type conflict: input field "v" on measurement "m" is type float, already exists as type integer dropped=1'}), "invalid_parameters", False, "the field has another type", also=("data", "integrity"))
s.answers("429", reply(429, {"code": "too many requests", "message": "org 1 has exceeded limited_write plan limit"}, Retry_After="30"), "rate_limit", True, "a stated wait", retry_after=30)
s.answers("503", reply(503, {"code": "unavailable", "message": "engine: cache-max-memory-size exceeded: (1073741900/1073741824)"}, Retry_After="9"), "api_temporary", True, "a stated wait", retry_after=9)
s.answers("413", reply(413, {"code": "request too large", "message": "unable to read data: points batch is too large"}), "invalid_parameters", False, "the batch is too large")


def _influx1(url: str) -> None:
    from influxdb import InfluxDBClient

    parts = urlsplit(url)
    InfluxDBClient(parts.hostname, parts.port, "u", "p", "d", timeout=1, retries=1).query("SELECT * FROM m")


s = Service(CASES, "influxdb", _influx1)
s.answers("401", reply(401, {"error": "authorization failed"}), "authentication", False, "the password is refused")
s.answers("404", reply(404, {"error": 'database not found: "d"'}), "not_found", False, "no such database")
s.answers("400", reply(400, {"error": "error parsing query: found FORM, expected FROM at line 1, char 10"}), "invalid_parameters", False, "the query does not parse")
s.answers("500", reply(500, {"error": "timeout"}), "api_temporary", True, "the server was too slow", also=("network",))
s.answers("result", reply(200, {"results": [{"statement_id": 0, "error": "max-select-point limit exceeed: (1000/1000)"}]}), "invalid_parameters", False, "the query reads too much, with status 200", also=("quota_exhausted", "unknown"))


def _trino(url: str) -> None:
    import trino

    parts = urlsplit(url)
    connection = trino.dbapi.connect(host=parts.hostname, port=parts.port, user="u", http_scheme="http", max_attempts=1, request_timeout=1)
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    cursor.fetchall()


def _tr(name: str, code: int, kind: str, message: str) -> Reply:
    stats = {"state": "FAILED", "queued": False, "scheduled": False, "nodes": 0, "totalSplits": 0, "queuedSplits": 0, "runningSplits": 0, "completedSplits": 0}
    return reply(200, {"id": "20261118_1", "infoUri": "http://127.0.0.1/ui", "stats": stats, "error": {"message": message, "errorCode": code, "errorName": name, "errorType": kind, "failureInfo": {"type": "io.trino.spi.TrinoException", "message": message, "suppressed": [], "stack": []}}})


s = Service(CASES, "trino", _trino)
s.answers("syntax", _tr("SYNTAX_ERROR", 1, "USER_ERROR", "line 1:1: mismatched input 'SELEC'. Expecting: 'SELECT'"), "invalid_parameters", False, "the statement does not parse")
s.answers("table", _tr("TABLE_NOT_FOUND", 46, "USER_ERROR", "line 1:15: Table 'hive.default.nope' does not exist"), "invalid_parameters", False, "no such table", also=("not_found",))
s.answers("denied", _tr("PERMISSION_DENIED", 4, "USER_ERROR", "Access Denied: Cannot select from table t"), "authentication", False, "the user lacks the right", also=("access_denied",))
s.answers("queue-full", _tr("QUERY_QUEUE_FULL", 131074, "INSUFFICIENT_RESOURCES", 'Too many queued queries for "global"'), "database_busy", True, "too busy for now", also=("rate_limit", "api_temporary"))
s.answers("memory", _tr("EXCEEDED_GLOBAL_MEMORY_LIMIT", 131075, "INSUFFICIENT_RESOURCES", "Query exceeded distributed user memory limit of 20GB"), "invalid_parameters", False, "the query needs more memory than one may have", also=("system", "quota_exhausted", "database_busy"))
s.answers("no-nodes", _tr("NO_NODES_AVAILABLE", 65541, "INTERNAL_ERROR", "No nodes available to run query"), "api_temporary", True, "workers are starting", also=("database_busy", "network"))
s.answers("too-many-requests-failed", _tr("TOO_MANY_REQUESTS_FAILED", 65536, "INTERNAL_ERROR", "Encountered too many errors talking to a worker node. The node may have crashed or be under too much load."), "api_temporary", True, "a worker is away", also=("network", "database_busy"))
s.answers("401", reply(401, "Authentication failed: Access Denied: Invalid credentials"), "authentication", False, "the password is refused")
s.answers("503", reply(503, "Service Unavailable"), "api_temporary", True, "away for now")


def _couch(url: str) -> None:
    import couchdb

    server = couchdb.Server(url, session=couchdb.Session(timeout=1, retry_delays=[]))
    server["d"]["doc"]


def _cd(status: int, error: str, reason: str) -> Reply:
    return reply(status, {"error": error, "reason": reason})


s = Service(CASES, "couchdb", _couch)
s.answers("401", _cd(401, "unauthorized", "Name or password is incorrect."), "authentication", False, "the password is refused")
s.answers("403", _cd(403, "forbidden", "You are not allowed to access this db."), "access_denied", False, "the database is closed to the caller", also=("authentication",))
s.answers("404", _cd(404, "not_found", "missing"), "not_found", False, "no such document")
s.answers("409", _cd(409, "conflict", "Document update conflict."), "integrity", False, "the same old revision would be sent again", also=("invalid_parameters", "database_busy"))
s.answers("500", _cd(500, "internal_server_error", "No DB shards could be opened."), "api_temporary", True, "the server failed")


def _arango(url: str) -> None:
    from arango import ArangoClient
    from arango.http import DefaultHTTPClient

    ArangoClient(hosts=url, http_client=DefaultHTTPClient(request_timeout=1, retry_attempts=0)).db("d", "u", "p").aql.execute("RETURN 1")


def _ar(status: int, number: int, message: str) -> Reply:
    return reply(status, {"error": True, "code": status, "errorNum": number, "errorMessage": message})


s = Service(CASES, "python-arango", _arango)
s.answers("401", _ar(401, 11, "not authorized to execute this request"), "authentication", False, "the password is refused")
s.answers("1203", _ar(404, 1203, "AQL: collection or view not found: nope (while parsing)"), "not_found", False, "no such collection", also=("invalid_parameters",))
s.answers("1210", _ar(409, 1210, "unique constraint violated - in index primary of type primary over '_key'; conflicting key: 1"), "integrity", False, "the key exists")
s.answers("1200", _ar(409, 1200, "AQL: write-write conflict (while executing)"), "database_busy", True, "two transactions write the same document", also=("integrity",))
s.answers("1501", _ar(400, 1501, "AQL: syntax error, unexpected identifier near 'RETUR 1' at position 1:1 (while parsing)"), "invalid_parameters", False, "the query does not parse")
s.answers("21003", _ar(503, 21003, "server is in maintenance mode"), "api_temporary", True, "maintenance")
s.answers("1500", _ar(410, 1500, "AQL: query killed (while executing)"), "unknown", False, "somebody ended the query", also=("not_found", "database_busy", "invalid_parameters"))
s.faults("refused")

# -- Neo4j, Cassandra --------------------------------------------------------------------------------------------------------------------------


def _neo4j(port: int) -> None:
    import neo4j

    with neo4j.GraphDatabase.driver(f"bolt://127.0.0.1:{port}", auth=("u", "p"), connection_timeout=1, max_transaction_retry_time=0, connection_acquisition_timeout=2) as driver, driver.session() as session:
        session.run("RETURN 1").consume()


def _bolt(code: str, message: str, at: str = "query") -> Callable[[], Any]:
    def text(value: str) -> bytes:
        data = value.encode()
        return (bytes([0x80 + len(data)]) if len(data) < 16 else b"\xd0" + bytes([len(data)]) if len(data) < 256 else b"\xd1" + struct.pack(">H", len(data))) + data

    def message_of(body: bytes) -> bytes:
        return struct.pack(">H", len(body)) + body + b"\0\0"

    failure = message_of(b"\xb1\x7f\xa2" + text("code") + text(code) + text("message") + text(message))
    success = message_of(b"\xb1\x70\xa2" + text("server") + text("Neo4j/4.4.0") + text("connection_id") + text("bolt-1"))

    def talk(connection: socket.socket) -> None:
        connection.recv(20)
        connection.sendall(b"\x00\x00\x04\x04")
        buffer, failed = b"", False
        while True:
            part = connection.recv(65536)
            if not part:
                return
            buffer += part
            while len(buffer) >= 2:
                body, rest = b"", buffer
                while len(rest) >= 2:
                    (size,) = struct.unpack(">H", rest[:2])
                    if size == 0:
                        break
                    body, rest = body + rest[2 : 2 + size], rest[2 + size :]
                else:
                    break
                buffer, tag = rest[2:], body[1]
                if tag == 0x01:
                    connection.sendall(failure if at == "hello" else success)
                elif tag == 0x10:
                    connection.sendall(failure)
                    failed = True
                elif tag == 0x0F:
                    failed = False
                    connection.sendall(message_of(b"\xb1\x70\xa0"))
                elif tag == 0x02:
                    return
                else:
                    connection.sendall(message_of(b"\xb0\x7e") if failed else message_of(b"\xb1\x70\xa0"))

    return lambda: talking(talk)


add("neo4j/password", "authentication", False, "the password is refused", _at_port(_neo4j, _bolt("Neo.ClientError.Security.Unauthorized", "The client is unauthorized due to authentication failure.", "hello")))
add("neo4j/auth-limit", "rate_limit", True, "too many wrong passwords; the server waits before it looks at another", _at_port(_neo4j, _bolt("Neo.ClientError.Security.AuthenticationRateLimit", "The client has provided incorrect authentication details too many times in a row.", "hello")), also=("authentication",))
add("neo4j/syntax", "invalid_parameters", False, "the query does not parse", _at_port(_neo4j, _bolt("Neo.ClientError.Statement.SyntaxError", "Invalid input 'RETUR': expected 'RETURN' (line 1, column 1 (offset: 0))")))
add("neo4j/constraint", "integrity", False, "the name exists", _at_port(_neo4j, _bolt("Neo.ClientError.Schema.ConstraintValidationFailed", "Node(0) already exists with label `P` and property `name` = 'a'")))
add("neo4j/deadlock", "database_busy", True, "two transactions wait for each other", _at_port(_neo4j, _bolt("Neo.TransientError.Transaction.DeadlockDetected", "ForsetiClient[transactionId=6] can't acquire ExclusiveLock on NODE(1), because it would cause a deadlock")))
add("neo4j/memory", "system", True, "the server's memory is short for now", _at_port(_neo4j, _bolt("Neo.TransientError.General.MemoryPoolOutOfMemoryError", "The allocation of an extra 2.0 MiB would use more than the limit 1.0 GiB.")), also=("database_busy", "api_temporary"))
add("neo4j/database", "not_found", False, "no such database", _at_port(_neo4j, _bolt("Neo.ClientError.Database.DatabaseNotFound", "Database does not exist. Database name: 'nope'.")), also=("configuration", "invalid_parameters"))
add("neo4j/unavailable", "database_busy", True, "the database is starting", _at_port(_neo4j, _bolt("Neo.TransientError.General.DatabaseUnavailable", "The database is not currently available to serve your request, refer to the database logs for more details. Retrying your request at a later time may succeed.")), also=("api_temporary", "network"))
add("neo4j/forbidden", "authentication", False, "the user lacks the right", _at_port(_neo4j, _bolt("Neo.ClientError.Security.Forbidden", "Write operations are not allowed for user 'u' with roles [reader].")), also=("access_denied",))
add("neo4j/unknown", "unknown", False, "the database failed; its class says that a client cannot help it", _at_port(_neo4j, _bolt("Neo.DatabaseError.General.UnknownError", "An unexpected failure occurred.")), also=("api_temporary", "database_busy"))
add("neo4j/refused", "network", True, "nobody listens on the port", lambda: _neo4j(refused()))
add("neo4j/hangup", "network", True, "the peer ended the connection", _at_port(_neo4j, hanging_up))
add("neo4j/timeout", "network", True, "no answer within the client's time limit", _at_port(_neo4j, silent))
add("neo4j/scheme", "configuration", False, "the URL has a scheme that the client does not know", lambda: __import__("neo4j").GraphDatabase.driver("nope://127.0.0.1"), also=("invalid_parameters",))


def _cassandra(port: int) -> None:
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import Cluster

    cluster = Cluster(["127.0.0.1"], port=port, connect_timeout=1, protocol_version=4, auth_provider=PlainTextAuthProvider("u", "p"))
    try:
        cluster.connect()
    finally:
        cluster.shutdown()


def _cql(code: int, message: str) -> Callable[[], Any]:
    def talk(connection: socket.socket) -> None:
        while True:
            head = connection.recv(9)
            if len(head) < 9:
                return
            _, _, stream, opcode, size = struct.unpack(">BBhBI", head)
            if size:
                connection.recv(size)
            if opcode == 5:
                body, kind = b"\x00\x02\x00\x0bCQL_VERSION\x00\x01\x00\x053.4.5\x00\x0bCOMPRESSION\x00\x00", 6
            else:
                body, kind = struct.pack(">iH", code, len(message)) + message.encode(), 0
            connection.sendall(struct.pack(">BBhBI", 0x84, 0, stream, kind, len(body)) + body)

    return lambda: talking(talk)


add("cassandra-driver/refused", "network", True, "nobody listens on the port", lambda: _cassandra(refused()))
add("cassandra-driver/password", "authentication", False, "the password is refused by every host", _at_port(_cassandra, _cql(0x0100, "Provided username u and/or password are incorrect")))
add("cassandra-driver/hangup", "network", True, "the peer ended the connection", _at_port(_cassandra, hanging_up))
add("cassandra-driver/bootstrapping", "database_busy", True, "the node starts", _at_port(_cassandra, _cql(0x1002, "Cannot read from a bootstrapping node")), also=("network", "api_temporary"))


def _cassandra_dns() -> None:
    from cassandra.cluster import Cluster

    Cluster([NO_HOST], connect_timeout=1).connect()


add("cassandra-driver/dns", "network", True, "the host name does not resolve", _cassandra_dns, also=("configuration",))

# -- caches ------------------------------------------------------------------------------------------------------------------------------------------


def _memcache(port: int, key: str = "k", value: str = "v") -> None:
    from pymemcache.client.base import Client

    Client(("127.0.0.1", port), connect_timeout=1, timeout=0.5, default_noreply=False).set(key, value)


def _says(answer: bytes) -> Callable[[], Any]:
    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)
        connection.recv(100)

    return lambda: talking(talk)


add("pymemcache/memory", "system", True, "the cache has no room for the value now", _at_port(_memcache, _says(b"SERVER_ERROR out of memory storing object\r\n")), also=("database_busy", "api_temporary"))
add("pymemcache/too-large", "invalid_parameters", False, "the value is too large for the cache", _at_port(_memcache, _says(b"SERVER_ERROR object too large for cache\r\n")), also=("data",))
add("pymemcache/client-error", "invalid_parameters", False, "the server calls the request wrong", _at_port(_memcache, _says(b"CLIENT_ERROR bad data chunk\r\n")), also=("data",))
add("pymemcache/unknown-command", "invalid_parameters", False, "the server does not know the command", _at_port(_memcache, _says(b"ERROR\r\n")), also=("configuration",))
add("pymemcache/hangup", "network", True, "the peer ended the connection", _at_port(_memcache, hanging_up))
add("pymemcache/key", "invalid_parameters", False, "the key has a space", _at_port(lambda port: _memcache(port, "a b"), silent))
add("pymemcache/long-key", "invalid_parameters", False, "the key is too long", _at_port(lambda port: _memcache(port, "k" * 300), silent))


def _valkey(port: int, *command: str, **settings: Any) -> None:
    import valkey
    from valkey.backoff import NoBackoff
    from valkey.retry import Retry

    client = valkey.Valkey(port=port, socket_timeout=0.5, socket_connect_timeout=0.5, retry=Retry(NoBackoff(), 0), **settings)
    client.execute_command(*(command or ("GET", "k")))


@cache
def _redis_server() -> RedisServer:
    server = RedisServer()
    server.start()
    atexit.register(server.stop)
    return server


def _real_valkey(*commands: tuple[str, ...], **settings: Any) -> Callable[[], None]:
    def provoke() -> None:
        server = _redis_server()
        for command in commands:
            _valkey(server.port, *command, **{"password": server.password} | settings)

    return provoke


add("valkey/password", "authentication", False, "the password is refused", _real_valkey(("GET", "k"), password="wrong"))
add("valkey/no-password", "authentication", False, "no password was sent", _real_valkey(("GET", "k"), password=None))
add("valkey/wrong-type", "invalid_parameters", False, "the key holds another type", _real_valkey(("DEL", "l"), ("LPUSH", "l", "1"), ("GET", "l")), also=("data",))
add("valkey/unknown-command", "invalid_parameters", False, "no such command", _real_valkey(("NOPE",)))
add("valkey/syntax", "invalid_parameters", False, "not a number", _real_valkey(("SET", "k", "v", "EX", "x")), also=("data",))
add("valkey/db-index", "configuration", False, "no such database", _real_valkey(("GET", "k"), db=99), also=("invalid_parameters", "not_found"))
add("valkey/script", "not_found", False, "the script is not in the server's cache", _real_valkey(("EVALSHA", "0" * 40, "0")), also=("invalid_parameters",))
for name, answer, category, retry, reason, also in (
    ("loading", b"-LOADING Valkey is loading the dataset in memory\r\n", "database_busy", True, "the server starts", ("api_temporary", "network")),
    ("memory", b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "system", True, "the server's memory is full", ("database_busy",)),
    ("read-only", b"-READONLY You can't write against a read only replica.\r\n", "database_busy", True, "the server is a replica for now, as in a failover", ("api_temporary", "configuration", "network")),
    ("busy", b"-BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n", "database_busy", True, "a script blocks the server", ()),
    ("clients", b"-ERR max number of clients reached\r\n", "database_busy", True, "all connections are taken", ("network", "rate_limit")),
    ("misconf", b"-MISCONF Errors writing to the AOF file: No space left on device\r\n", "system", True, "the server's disk is full", ("database_busy", "configuration")),
    ("no-permission", b"-NOPERM User default has no permissions to run the 'get' command\r\n", "authentication", False, "the user lacks the right", ("access_denied",)),
    ("cluster-down", b"-CLUSTERDOWN The cluster is down\r\n", "database_busy", True, "the cluster elects a new primary", ("api_temporary", "network")),
    ("garbage", b"HTTP/1.1 400 Bad Request\r\n\r\n", "data", False, "another service answers on the port", ("network", "configuration")),
):
    add(f"valkey/{name}", category, retry, reason, _at_port(_valkey, lambda answer=answer: _forever(answer)), also=also)


def _forever(answer: bytes) -> Any:
    def talk(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            for _ in range(max(1, data.count(b"SETINFO"))):
                connection.sendall(b"+OK\r\n" if b"SETINFO" in data else answer)

    return talking(talk)


add("valkey/refused", "network", True, "nobody listens on the port", lambda: _valkey(refused()))
add("valkey/reset", "network", True, "the peer broke the connection off", _at_port(_valkey, resetting))
add("valkey/timeout", "network", True, "no answer within the client's time limit", _at_port(_valkey, silent))


def _aiomcache(port: int, key: bytes = b"k") -> None:
    import aiomcache

    async def run() -> None:
        await asyncio.wait_for(aiomcache.Client("127.0.0.1", port).set(key, b"v"), 1)

    asyncio.run(run())


add("aiomcache/memory", "system", True, "the cache has no room for the value now", _at_port(_aiomcache, _says(b"SERVER_ERROR out of memory storing object\r\n")), also=("database_busy", "api_temporary"))
add("aiomcache/key", "invalid_parameters", False, "the key has a space", _at_port(lambda port: _aiomcache(port, b"a b"), silent))
add("aiomcache/answer", "invalid_parameters", False, "the server does not know the command", _at_port(_aiomcache, _says(b"ERROR\r\n")), also=("data", "unknown", "configuration"))
