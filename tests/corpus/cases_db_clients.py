"""What the PostgreSQL clients say on their own account: pools, closed connections, misuse, a server that is silent."""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught, caught_async
from outlast import Category as C
from outlast import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator


def psycopg_on_closed_connection(world: World) -> BaseException:
    connection = world.postgres.connect()
    connection.close()
    return caught(connection.execute, "SELECT 1")


def psycopg_in_failed_transaction(world: World) -> BaseException:
    with closing(world.postgres.connect()) as connection:
        caught(connection.execute, "SELECT 1/0")
        return caught(connection.execute, "SELECT 1")


def psycopg_wrong_number_of_parameters(world: World) -> BaseException:
    with closing(world.postgres.connect()) as connection:
        return caught(connection.execute, "SELECT %s, %s", [1])


def psycopg_cannot_adapt(world: World) -> BaseException:
    with closing(world.postgres.connect()) as connection:
        return caught(connection.execute, "SELECT %s", [object()])


def psycopg_nul_in_text(world: World) -> BaseException:
    with closing(world.postgres.connect()) as connection:
        return caught(connection.execute, "SELECT %s::text", ["a\0b"])


def psycopg_invalid_option(world: World) -> BaseException:
    return caught(world.postgres.connect, nonsense="1")


def psycopg_silent_server(world: World) -> BaseException:
    with silent_port() as port:
        return caught(world.postgres.connect, port=port, connect_timeout=2)


def hang_up(listener: socket.socket) -> None:
    listener.accept()[0].close()


def psycopg_hangs_up(world: World) -> BaseException:
    import threading

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))
        thread.start()
        error = caught(world.postgres.connect, port=listener.getsockname()[1])
        thread.join()
    return error


def psycopg_host_name_too_long(world: World) -> BaseException:
    return caught(world.postgres.connect, host=f"{'x' * 64}.invalid")


def pool(world: World, **settings: Any) -> Any:
    from psycopg_pool import ConnectionPool

    return ConnectionPool(world.postgres.dsn, open=True, min_size=1, max_size=1, **settings)


def pool_exhausted(world: World) -> BaseException:
    with pool(world) as full, full.connection():
        return caught(full.getconn, timeout=0.05)


def pool_queue_full(world: World) -> BaseException:
    import threading
    import time

    with pool(world, max_waiting=1) as full:
        held = full.getconn()
        waiting = threading.Thread(target=lambda: full.putconn(full.getconn(timeout=5)))
        waiting.start()
        while not full.get_stats().get("requests_waiting"):
            time.sleep(0.005)
        error = caught(full.getconn)
        full.putconn(held)
        waiting.join()
    return error


def pool_closed(world: World) -> BaseException:
    closed = pool(world)
    closed.close()
    return caught(closed.getconn)


def asyncpg_with(world: World, act: Any) -> BaseException:
    import asyncpg

    async def run() -> None:
        connection = await asyncpg.connect(world.postgres.url)
        try:
            await act(connection)
        finally:
            connection.terminate()

    return caught_async(run)


def asyncpg_on_closed_connection(world: World) -> BaseException:
    async def act(connection: Any) -> None:
        await connection.close()
        await connection.execute("SELECT 1")

    return asyncpg_with(world, act)


def asyncpg_two_at_once(world: World) -> BaseException:
    import asyncio

    async def act(connection: Any) -> None:
        await asyncio.gather(connection.execute("SELECT pg_sleep(0.2)"), connection.execute("SELECT 1"))

    return asyncpg_with(world, act)


def asyncpg_unfit_argument(world: World) -> BaseException:
    return asyncpg_with(world, lambda connection: connection.fetch("SELECT $1::int", "x"))


def asyncpg_command_timeout(world: World) -> BaseException:
    return asyncpg_with(world, lambda connection: connection.execute("SELECT pg_sleep(5)", timeout=0.05))


def asyncpg_silent_server(world: World) -> BaseException:
    import asyncpg

    with silent_port() as port:
        return caught_async(lambda: asyncpg.connect(host="127.0.0.1", port=port, user="a", timeout=0.2))


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that accepts a connection and then says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


def engine(world: World, **settings: Any) -> Any:
    import sqlalchemy as sa

    return sa.create_engine(world.postgres.url.replace("postgresql:", "postgresql+psycopg:"), **settings)


def alchemy_pool_exhausted(world: World) -> BaseException:
    full = engine(world, pool_size=1, max_overflow=0, pool_timeout=0.05)
    with full.connect():
        error = caught(full.connect)
    full.dispose()
    return error


def alchemy_result(world: World, statement: str) -> BaseException:
    database = engine(world)
    with database.connect() as connection:
        error = caught(connection.exec_driver_sql(statement).one)
    database.dispose()
    return error


def alchemy_closed(world: World) -> BaseException:
    database = engine(world)
    connection = database.connect()
    connection.close()
    error = caught(connection.exec_driver_sql, "SELECT 1")
    database.dispose()
    return error


def alchemy_missing_parameter(world: World) -> BaseException:
    import sqlalchemy as sa

    database = engine(world)
    with database.connect() as connection:
        error = caught(connection.execute, sa.text("SELECT :a"), {})
    database.dispose()
    return error


def alchemy_missing_table(world: World) -> BaseException:
    import sqlalchemy as sa

    database = engine(world)
    error = caught(sa.Table, "nothing", sa.MetaData(), autoload_with=database)
    database.dispose()
    return error


def alchemy_url(text: str) -> Any:
    import sqlalchemy as sa

    return lambda world: caught(sa.create_engine, text)


# Category, whether to try again, how.
_TABLE: dict[str, tuple[C, bool, Any]] = {
    "psycopg/closed connection": (C.NETWORK, True, psycopg_on_closed_connection),
    "psycopg/in failed transaction": (C.UNKNOWN, False, psycopg_in_failed_transaction),
    "psycopg/wrong number of parameters": (C.INVALID_PARAMETERS, False, psycopg_wrong_number_of_parameters),
    "psycopg/cannot adapt": (C.INVALID_PARAMETERS, False, psycopg_cannot_adapt),
    "psycopg/NUL in text": (C.DATA, False, psycopg_nul_in_text),
    "psycopg/invalid option": (C.CONFIGURATION, False, psycopg_invalid_option),
    "psycopg/silent server": (C.NETWORK, True, psycopg_silent_server),
    "psycopg/server hangs up": (C.NETWORK, True, psycopg_hangs_up),
    "psycopg/host name too long": (C.CONFIGURATION, False, psycopg_host_name_too_long),
    "psycopg_pool/exhausted": (C.DATABASE_BUSY, True, pool_exhausted),
    "psycopg_pool/queue full": (C.DATABASE_BUSY, True, pool_queue_full),
    "psycopg_pool/closed": (C.UNKNOWN, False, pool_closed),
    "asyncpg/closed connection": (C.NETWORK, True, asyncpg_on_closed_connection),
    "asyncpg/two operations at once": (C.UNKNOWN, False, asyncpg_two_at_once),
    "asyncpg/unfit argument": (C.DATA, False, asyncpg_unfit_argument),
    "asyncpg/command timeout": (C.NETWORK, True, asyncpg_command_timeout),
    "asyncpg/silent server": (C.NETWORK, True, asyncpg_silent_server),
    "sqlalchemy/pool exhausted": (C.DATABASE_BUSY, True, alchemy_pool_exhausted),
    "sqlalchemy/no result": (C.NOT_FOUND, False, lambda world: alchemy_result(world, "SELECT 1 WHERE false")),
    "sqlalchemy/two results": (C.DATA, False, lambda world: alchemy_result(world, "SELECT generate_series(1, 2)")),
    "sqlalchemy/closed connection": (C.INVALID_PARAMETERS, False, alchemy_closed),
    "sqlalchemy/missing parameter": (C.INVALID_PARAMETERS, False, alchemy_missing_parameter),
    "sqlalchemy/missing table": (C.CONFIGURATION, False, alchemy_missing_table),
    "sqlalchemy/unreadable URL": (C.CONFIGURATION, False, alchemy_url("postgres//x")),
    "sqlalchemy/unknown driver": (C.CONFIGURATION, False, alchemy_url("postgresql+nothing://127.0.0.1/x")),
}

_FROM_PYTHON = ("psycopg/host name too long", "asyncpg/command timeout", "asyncpg/silent server")

CASES: list[Case] = [
    Case(name, make, category, retryable, origin=None if name in _FROM_PYTHON else Origin.DB, needs="postgres")
    for name, (category, retryable, make) in _TABLE.items()
]
