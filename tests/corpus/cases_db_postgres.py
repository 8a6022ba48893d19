"""PostgreSQL's errors, each made by a real server and seen through four clients.

A fault is a list of steps in one transaction: a text is a statement, a function acts from outside. What the server says
is the same for every client; how the client says it is not, which is the point of running them all.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught, caught_async
from outlast import Category as C
from outlast import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers.postgres import PostgresServer

    Step = str | Callable[[PostgresServer, ExitStack], object]

SCHEMA = (
    "CREATE EXTENSION IF NOT EXISTS plpgsql",
    "CREATE TABLE item (id int PRIMARY KEY, name varchar(5) NOT NULL DEFAULT 'a', price int CHECK (price > 0))",
    "CREATE TABLE part (item int REFERENCES item DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TABLE booking (during int4range, EXCLUDE USING gist (during WITH &&))",
    "INSERT INTO item (id) VALUES (1), (2)",
    "CREATE ROLE reader LOGIN PASSWORD 'reader'",
    "CREATE ROLE limited LOGIN PASSWORD 'limited' CONNECTION LIMIT 0",
    "CREATE ROLE retired NOLOGIN PASSWORD 'retired'",
)


@cache
def prepared(server: PostgresServer) -> PostgresServer:
    server.execute(*SCHEMA, "CHECKPOINT")  # a crash must not undo it, quick settings or not
    return server


# The four clients: each opens a connection, takes the steps in a transaction, commits, and closes.


def by_psycopg(server: PostgresServer, steps: list[Step], stack: ExitStack, **where: Any) -> None:
    import psycopg

    with psycopg.connect(**_where(server, "dbname", where)) as connection:
        for step in steps:
            connection.execute(step) if isinstance(step, str) else step(server, stack)


async def by_asyncpg(server: PostgresServer, steps: list[Step], stack: ExitStack, **where: Any) -> None:
    import asyncpg

    connection = await asyncpg.connect(**_where(server, "database", where), timeout=5)
    try:
        async with connection.transaction():
            for step in steps:
                await connection.execute(step) if isinstance(step, str) else step(server, stack)
            await asyncio.sleep(0)
    finally:
        connection.terminate()


def by_sqlalchemy(server: PostgresServer, steps: list[Step], stack: ExitStack, **where: Any) -> None:
    import sqlalchemy as sa

    engine = sa.create_engine(_url("psycopg", server, where), poolclass=sa.NullPool)
    with engine.begin() as connection:
        for step in steps:
            connection.exec_driver_sql(step) if isinstance(step, str) else step(server, stack)


async def by_sqlalchemy_asyncpg(server: PostgresServer, steps: list[Step], stack: ExitStack, **where: Any) -> None:
    import sqlalchemy as sa
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(_url("asyncpg", server, where), poolclass=sa.NullPool)
    async with engine.begin() as connection:
        for step in steps:
            await connection.exec_driver_sql(step) if isinstance(step, str) else step(server, stack)


CLIENTS: dict[str, Callable[..., Any]] = {
    "psycopg": by_psycopg,
    "asyncpg": by_asyncpg,
    "sqlalchemy-psycopg": by_sqlalchemy,
    "sqlalchemy-asyncpg": by_sqlalchemy_asyncpg,
}


def _where(server: PostgresServer, database_key: str, changes: dict[str, Any]) -> dict[str, Any]:
    where = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return where | {database_key: changes.get("database", server.database)} | _without_database(changes)


def _without_database(changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in changes.items() if key != "database"}


def _url(driver: str, server: PostgresServer, changes: dict[str, Any]) -> Any:
    import sqlalchemy as sa

    where = _where(server, "database", changes)
    where["username"] = where.pop("user")
    return sa.URL.create(f"postgresql+{driver}", **where)


def produce(client: Callable[..., Any], steps: list[Step], where: dict[str, Any], world: World) -> BaseException:
    server = prepared(world.postgres)
    with ExitStack() as stack:
        before = [step for step in steps if step in BEFORE_CONNECTING]
        rest = [step for step in steps if step not in before]
        for step in before:
            step(server, stack)  # type: ignore[operator]
        if asyncio.iscoroutinefunction(client):
            return caught_async(lambda: client(server, rest, stack, **where))
        return caught(client, server, rest, stack, **where)


# What happens from outside.


def other_locks_table(server: PostgresServer, stack: ExitStack) -> None:
    other = stack.enter_context(server.connect())
    other.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")


def other_updates(server: PostgresServer, stack: ExitStack) -> None:
    server.execute("UPDATE item SET price = coalesce(price, 0) + 1 WHERE id = 1")


def other_crosses(server: PostgresServer, stack: ExitStack) -> None:
    """Lock row 2, then wait for row 1, which the victim holds."""
    other = server.connect()
    other.execute("SET deadlock_timeout = '60s'")
    other.execute("UPDATE item SET name = 'b' WHERE id = 2")
    waiting = threading.Thread(target=other.execute, args=("UPDATE item SET name = 'b' WHERE id = 1",))
    waiting.start()
    stack.callback(other.close)
    stack.callback(waiting.join, 10)
    with server.connect(autocommit=True) as watcher:
        question = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        while watcher.execute(question, [other.info.backend_pid]).fetchone() == (0,):
            time.sleep(0.005)


def pause(server: PostgresServer, stack: ExitStack) -> None:
    time.sleep(0.15)


def crash(server: PostgresServer, stack: ExitStack) -> None:
    server.stop_hard()
    stack.callback(server.restart)


def recover_slowly(server: PostgresServer, stack: ExitStack) -> None:
    server.restart(standby=True)
    stack.callback(server.restart)


def fill_all(server: PostgresServer, stack: ExitStack) -> None:
    _fill(server, stack)


def fill_ordinary(server: PostgresServer, stack: ExitStack) -> None:
    held = _fill(server, stack)
    for connection in held[:3]:
        connection.close()
    time.sleep(0.1)  # the server needs a moment to notice


def _fill(server: PostgresServer, stack: ExitStack) -> list[Any]:
    held: list[Any] = []
    with suppress(Exception):
        while True:
            held.append(stack.enter_context(server.connect()))
    return held


BEFORE_CONNECTING = (fill_all, fill_ordinary, recover_slowly)

# Steps, SQLSTATE, category, whether to try again.
FAULTS: dict[str, tuple[list[Step], str | None, C, bool]] = {
    "deadlock": (
        [
            "SET deadlock_timeout = '10ms'",
            "UPDATE item SET name = 'a' WHERE id = 1",
            other_crosses,
            "UPDATE item SET name = 'a' WHERE id = 2",
        ],
        "40P01", C.DATABASE_BUSY, True,
    ),
    "serialization failure": (
        [
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SELECT * FROM item",
            other_updates,
            "UPDATE item SET price = 9 WHERE id = 1",
        ],
        "40001", C.DATABASE_BUSY, True,
    ),
    "lock timeout": (
        [other_locks_table, "SET LOCAL lock_timeout = '30ms'", "SELECT * FROM item"],
        "55P03", C.DATABASE_BUSY, True,
    ),
    "lock not available": (
        [other_locks_table, "LOCK TABLE item IN ACCESS SHARE MODE NOWAIT"],
        "55P03", C.DATABASE_BUSY, True,
    ),
    "statement timeout": (
        ["SET LOCAL statement_timeout = '30ms'", "SELECT pg_sleep(5)"],
        "57014", C.DATABASE_BUSY, True,
    ),
    "cancelled by a user": (
        ["SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(5)"],
        "57014", C.UNKNOWN, False,
    ),
    "terminated by an administrator": (
        ["SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)"],
        "57P01", C.NETWORK, True,
    ),
    "idle in transaction too long": (
        ["SET LOCAL idle_in_transaction_session_timeout = '20ms'", pause, "SELECT 1"],
        None, C.NETWORK, True,
    ),
    "server crashed": (["SELECT 1", crash, "SELECT 1"], None, C.NETWORK, True),
    "unique violation": (["INSERT INTO item (id) VALUES (1)"], "23505", C.INTEGRITY, False),
    "not null violation": (["INSERT INTO item VALUES (3, NULL)"], "23502", C.INTEGRITY, False),
    "foreign key violation at commit": (["INSERT INTO part VALUES (99)"], "23503", C.INTEGRITY, False),
    "check violation": (["UPDATE item SET price = -1"], "23514", C.INTEGRITY, False),
    "exclusion violation": (
        ["INSERT INTO booking VALUES ('[1,5]')", "INSERT INTO booking VALUES ('[3,9]')"],
        "23P01", C.INTEGRITY, False,
    ),
    "undefined table": (["SELECT * FROM nothing"], "42P01", C.CONFIGURATION, False),
    "undefined column": (["SELECT nothing FROM item"], "42703", C.CONFIGURATION, False),
    "undefined function": (["SELECT nothing()"], "42883", C.CONFIGURATION, False),
    "syntax error": (["SELEC 1"], "42601", C.INVALID_PARAMETERS, False),
    "numeric overflow": (["SELECT 2147483647 + 1"], "22003", C.DATA, False),
    "invalid text": (["SELECT 'x'::int"], "22P02", C.DATA, False),
    "string too long": (["UPDATE item SET name = 'abcdefgh'"], "22001", C.DATA, False),
    "division by zero": (["SELECT 1/0"], "22012", C.DATA, False),
    "invalid date": (["SELECT '2024-02-31'::date"], "22008", C.DATA, False),
    "read-only transaction": (
        ["SET TRANSACTION READ ONLY", "INSERT INTO item (id) VALUES (7)"],
        "25006", C.CONFIGURATION, False,
    ),
    "raised in plpgsql": (["DO $$ BEGIN RAISE EXCEPTION 'no such luck'; END $$"], "P0001", C.UNKNOWN, False),
    "raised with a state": (
        ["DO $$ BEGIN RAISE EXCEPTION 'busy' USING ERRCODE = '40001'; END $$"],
        "40001", C.DATABASE_BUSY, True,
    ),
    "too many clients": ([fill_all, "SELECT 1"], None, C.DATABASE_BUSY, True),
    "not accepting connections yet": ([recover_slowly, "SELECT 1"], None, C.DATABASE_BUSY, True),
}  # fmt: skip

# Where to connect, in place of the right place; category, whether to try again.
ELSEWHERE: dict[str, tuple[dict[str, Any], list[Step], C, bool]] = {
    "wrong password": ({"password": "wrong"}, [], C.AUTHENTICATION, False),
    "unknown role": ({"user": "nobody", "password": "x"}, [], C.AUTHENTICATION, False),
    "role without login": ({"user": "retired", "password": "retired"}, [], C.AUTHENTICATION, False),
    "rejected by pg_hba.conf": ({"database": "shut_out"}, [], C.AUTHENTICATION, False),
    "unknown database": ({"database": "nothing"}, [], C.CONFIGURATION, False),
    "too many connections for the role": ({"user": "limited", "password": "limited"}, [], C.DATABASE_BUSY, True),
    "remaining slots are reserved": ({"user": "reader", "password": "reader"}, [fill_ordinary], C.DATABASE_BUSY, True),
    "insufficient privilege": ({"user": "reader", "password": "reader"}, ["TABLE item"], C.AUTHENTICATION, False),
    "nothing listens": ({"port": 1}, [], C.NETWORK, True),
    "host name unknown": ({"host": "no such host"}, [], C.NETWORK, True),
}


def _cases() -> list[Case]:
    cases = []
    for name, client in CLIENTS.items():
        for fault, (steps, state, category, retryable) in FAULTS.items():
            make = partial(produce, client, steps, {})
            # A client may learn of a lost connection without hearing the server's last words.
            code = state if category is not C.NETWORK else None
            cases.append(
                Case(f"{name}/{fault}", make, category, retryable, code=code, origin=Origin.DB, needs="postgres")
            )
        for fault, (where, steps, category, retryable) in ELSEWHERE.items():
            make = partial(produce, client, steps, where)
            cases.append(Case(f"{name}/{fault}", make, category, retryable, needs="postgres"))
    return cases


CASES: list[Case] = _cases()
