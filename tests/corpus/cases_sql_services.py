"""oracledb, Snowflake and clickhouse-connect: their real clients against servers on loopback that refuse."""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from corpus.case import Case, World, caught
from outlast import RETRYABLE, Origin
from outlast import Category as C
from servers.s3_stub import answering
from servers.wire import exactly, talking

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers.wire import Talk

# Status, ClickHouse's number, its text, category.
CLICKHOUSE: dict[str, tuple[int, int, str, C]] = {
    "wrong password": (403, 516, "app: Authentication failed: password is incorrect", C.AUTHENTICATION),
    "no rights": (403, 497, "app: Not enough privileges. To execute this query, grant SELECT(id)", C.AUTHENTICATION),
    "no such database": (404, 81, "Database shop does not exist", C.CONFIGURATION),
    "no such table": (404, 60, "Unknown table expression identifier 'orders'", C.CONFIGURATION),
    "syntax": (400, 62, "Syntax error: failed at position 1 (SELEC)", C.INVALID_PARAMETERS),
    "not a number": (400, 6, "Cannot parse string 'abc' as UInt8", C.DATA),
    "constraint": (500, 469, "Constraint `positive` for table shop.orders is violated", C.INTEGRITY),
    "too many queries": (500, 202, "Too many simultaneous queries. Maximum: 100", C.DATABASE_BUSY),
    "too many parts": (500, 252, "Too many parts (300). Merges are processing slower than inserts", C.DATABASE_BUSY),
    "time limit": (500, 159, "Timeout exceeded: elapsed 30.1 seconds, maximum: 30", C.DATABASE_BUSY),
    "out of memory": (500, 241, "Memory limit (total) exceeded: would use 20.01 GiB", C.SYSTEM),
    "quota": (500, 201, "Quota for user `app` for 3600s has been exceeded: queries = 101/100", C.QUOTA_EXHAUSTED),
    "replica away": (500, 279, "All connection tries failed", C.NETWORK),
}


def _clickhouse(url: str) -> BaseException:
    import clickhouse_connect

    parts = urlsplit(url)
    options: dict[str, Any] = {"query_retries": 0, "connect_timeout": 2, "send_receive_timeout": 2}
    return caught(
        clickhouse_connect.get_client,
        host=parts.hostname,
        port=parts.port,
        username="app",
        password="s3cret",
        **options,
    )


def clickhouse(status: int, number: int, text: str, _: World) -> BaseException:
    body = f"Code: {number}. DB::Exception: {text}. (version 26.3.1.1)"
    with answering(status, body.encode(), {"X-ClickHouse-Exception-Code": str(number)}) as url:
        return _clickhouse(url)


def clickhouse_proxy(status: int, _: World) -> BaseException:
    with answering(status, b"<html>Sorry</html>", {"Content-Type": "text/html"}) as url:
        return _clickhouse(url)


# Snowflake's number, SQLSTATE and text in the answer to a query, category.
SNOWFLAKE: dict[str, tuple[str, str, str, C]] = {
    "no such table": ("002003", "42S02", "SQL compilation error:\nObject 'ORDERS' does not exist", C.CONFIGURATION),
    "syntax": ("001003", "42000", "SQL compilation error:\nsyntax error line 1 at position 0", C.INVALID_PARAMETERS),
    "no rights": ("003001", "42501", "SQL access control error:\nInsufficient privileges", C.AUTHENTICATION),
    "no warehouse": ("000606", "57P03", "No active warehouse selected in the current session.", C.CONFIGURATION),
    "lock": ("000625", "57014", "Statement '01b' has locked table 'ORDERS' in transaction 17", C.DATABASE_BUSY),
    "time limit": ("000630", "57014", "Statement reached its statement or warehouse timeout of 5 s", C.DATABASE_BUSY),
    "null": ("100072", "22000", "DML operation to table ORDERS failed on column ID: NULL result", C.INTEGRITY),
    "not a number": ("100038", "22018", "Numeric value 'abc' is not recognized", C.DATA),
    "division by zero": ("100051", "22012", "Division by zero", C.DATA),
    "quota": ("090073", "22000", "Warehouse 'ETL' cannot be resumed: resource monitor exceeded its quota", C.QUOTA_EXHAUSTED),
}  # fmt: skip


def _snowflake(url: str, **options: Any) -> None:
    import snowflake.connector

    parts = urlsplit(url)
    place = {"account": "acme", "host": parts.hostname, "port": parts.port, "protocol": "http"}
    settings = {"user": "app", "password": "s3cret", "login_timeout": 1, "network_timeout": 1, **place, **options}
    with snowflake.connector.connect(**settings) as connection:
        connection.cursor().execute("SELECT 1")


def _answers_by_path(answers: dict[str, dict[str, Any]]) -> Talk:
    """Make an HTTP server that answers by the beginning of the path."""

    def talk(incoming: BinaryIO, outgoing: BinaryIO) -> None:
        while line := incoming.readline():
            length = 0
            while (header := incoming.readline().strip()) != b"":
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            exactly(incoming, length)
            path = line.split()[1].decode()
            answer = next((each for prefix, each in answers.items() if path.startswith(prefix)), {"success": True})
            body = json.dumps(answer).encode()
            outgoing.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            outgoing.write(body)

    return talk


def snowflake_query(number: str, state: str, text: str, _: World) -> BaseException:
    data = {"token": "t", "masterToken": "m", "sessionId": 1, "parameters": [], "sessionInfo": {}}
    refusal = {"success": False, "code": number, "message": text, "data": {"sqlState": state, "queryId": "01b"}}
    answers = {"/session/v1/login-request": {"success": True, "data": data}, "/queries/v1/query-request": refusal}
    with talking(_answers_by_path(answers)) as (host, port):
        return caught(_snowflake, f"http://{host}:{port}")


def snowflake_login(number: str, text: str, _: World) -> BaseException:
    refusal = {"success": False, "code": number, "message": text, "data": {}}
    with talking(_answers_by_path({"/session/v1/login-request": refusal})) as (host, port):
        return caught(_snowflake, f"http://{host}:{port}")


def snowflake_unknown_account(_: World) -> BaseException:
    with answering(403, b"<html>Forbidden</html>") as url:
        return caught(_snowflake, url)


# The listener's number in place of a session, and what the driver's text says of it; category.
LISTENER: dict[str, tuple[int, str, C]] = {
    "unknown service": (12514, "ORA-12514", C.CONFIGURATION),
    "unknown SID": (12505, "ORA-12505", C.CONFIGURATION),
    "no handler free": (12516, "ORA-12516", C.DATABASE_BUSY),
    "restricted": (12526, "ORA-12526", C.DATABASE_BUSY),
    "instance blocks new connections": (12528, "ORA-12528", C.DATABASE_BUSY),
}

# The driver's own class, the database's number and text; no server on loopback gets as far as these.
ORACLE: dict[str, tuple[str, int, str, C]] = {
    "wrong password": ("DatabaseError", 1017, "invalid username/password; logon denied", C.AUTHENTICATION),
    "account locked": ("DatabaseError", 28000, "The account is locked.", C.AUTHENTICATION),
    "no such table": ("DatabaseError", 942, "table or view does not exist", C.CONFIGURATION),
    "syntax": ("DatabaseError", 923, "FROM keyword not found where expected", C.INVALID_PARAMETERS),
    "unique": ("IntegrityError", 1, "unique constraint (APP.PK_ORDERS) violated", C.INTEGRITY),
    "deadlock": ("DatabaseError", 60, "deadlock detected while waiting for resource", C.DATABASE_BUSY),
    "lock": ("DatabaseError", 54, "resource busy and acquire with NOWAIT specified", C.DATABASE_BUSY),
    "too many sessions": ("DatabaseError", 18, "maximum number of sessions exceeded", C.DATABASE_BUSY),
    "tablespace full": ("DatabaseError", 1653, "unable to extend table APP.ORDERS by 128", C.SYSTEM),
    "tablespace quota": ("DatabaseError", 1536, "space quota exceeded for tablespace 'USERS'", C.QUOTA_EXHAUSTED),
    "not a number": ("DatabaseError", 1722, "invalid number", C.DATA),
    "connection lost": ("OperationalError", 3113, "end-of-file on communication channel", C.NETWORK),
}


def _oracle(host: str, port: int, **options: Any) -> BaseException:
    import oracledb

    place = {"host": host, "port": port, "service_name": "shop", "tcp_connect_timeout": 1}
    return caught(oracledb.connect, user="app", password="s3cret", **{**place, **options})


def _refuse(number: int) -> Talk:
    """Make a listener that refuses every connection."""

    def talk(incoming: BinaryIO, outgoing: BinaryIO) -> None:
        size = struct.unpack(">H", exactly(incoming, 2))[0]
        exactly(incoming, size - 2)
        text = f"(DESCRIPTION=(TMP=)(VSNNUM=318767104)(ERR={number})(ERROR_STACK=(ERROR=(CODE={number})(EMFI=4))))"
        reasons = struct.pack(">BBH", 34, 0, len(text)) + text.encode()
        outgoing.write(struct.pack(">HHBBH", 8 + len(reasons), 0, 4, 0, 0) + reasons)  # packet type 4 refuses

    return talk


def oracle_listener(number: int, sid: bool, _: World) -> BaseException:
    with talking(_refuse(number)) as address:
        return _oracle(*address, **({"service_name": None, "sid": "shop"} if sid else {}))


def oracle_hangs_up(_: World) -> BaseException:
    with talking(lambda incoming, _: exactly(incoming, 8)) as address:
        return _oracle(*address)


def oracle_refused(world: World) -> BaseException:
    parts = urlsplit(world.faults.refused_url)
    return _oracle(parts.hostname or "", parts.port or 0)


def oracle_built(name: str, number: int, text: str, _: World) -> BaseException:
    import oracledb
    from oracledb import errors

    detail = errors._Error(f"ORA-{number:05}: {text}", code=number)
    error: BaseException = getattr(oracledb, name)(detail)
    return error


def oracle_wrong_argument(_: World) -> BaseException:
    import oracledb

    return caught(oracledb.connect, "app/s3cret@alias_that_no_file_has")


def _case(name: str, produce: Callable[[World], BaseException], category: C, **more: Any) -> Case:
    return Case(name, produce, category, category in RETRYABLE, origin=Origin.DB, **more)


def _cases() -> list[Case]:
    cases = [
        _case(f"clickhouse-connect/{name}", partial(clickhouse, status, number, text), category, code=str(number))
        for name, (status, number, text, category) in CLICKHOUSE.items()
    ]
    cases += [
        _case(f"snowflake/{name}", partial(snowflake_query, number, state, text), category, code=number)
        for name, (number, state, text, category) in SNOWFLAKE.items()
    ]
    cases += [
        _case(f"oracledb/{name}", partial(oracle_listener, number, number == 12505), category, code=code)
        for name, (number, code, category) in LISTENER.items()
    ]
    cases += [
        _case(f"oracledb/{name}", partial(oracle_built, kind, number, text), category, code=f"ORA-{number:05}", constructed=True)
        for name, (kind, number, text, category) in ORACLE.items()
    ]  # fmt: skip
    return cases


CASES: list[Case] = [
    *_cases(),
    Case("clickhouse-connect/refused", lambda world: _clickhouse(world.faults.refused_url), C.NETWORK, True),
    Case("clickhouse-connect/unresolvable", lambda _: _clickhouse("http://nothing.invalid:8123"), C.NETWORK, True),
    _case("clickhouse-connect/502 by a proxy", partial(clickhouse_proxy, 502), C.API_TEMPORARY),
    _case("clickhouse-connect/429 by a proxy", partial(clickhouse_proxy, 429), C.RATE_LIMIT),
    _case("snowflake/wrong password", partial(snowflake_login, "390100", "Incorrect username or password was specified."), C.AUTHENTICATION, code="390100"),
    _case("snowflake/address not allowed", partial(snowflake_login, "390422", "Incoming request with IP 127.0.0.1 is not allowed to access Snowflake."), C.ACCESS_DENIED, code="390422"),
    _case("snowflake/unknown account", snowflake_unknown_account, C.CONFIGURATION, http_status=403),
    _case("snowflake/refused", lambda world: caught(_snowflake, world.faults.refused_url), C.NETWORK, code="250001"),
    _case("snowflake/no user", lambda world: caught(_snowflake, world.faults.refused_url, user=""), C.CONFIGURATION),
    _case("oracledb/refused", oracle_refused, C.NETWORK),
    _case("oracledb/hangs up", oracle_hangs_up, C.NETWORK),
    _case("oracledb/unknown alias", oracle_wrong_argument, C.CONFIGURATION),
]  # fmt: skip
