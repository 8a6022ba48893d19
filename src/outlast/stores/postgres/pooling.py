"""Whether a pooler such as PgBouncer stands before the server: then a session may be another one with each transaction.

It says nothing about itself, and so it is recognised by what it does.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from outlast.stores.postgres.driver import psycopg

__all__ = ["is_pooled", "keeps_sessions"]

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
_ROUNDS = 5  # on a busy pool somebody else may be in between


def is_pooled(connection: Connection) -> bool:
    """Tell whether we talk to a pooler: it gives each client a number of its own, by which it may cancel a query."""
    return connection.info.backend_pid != _server_process(connection)


def keeps_sessions(connection: Connection, another: AbstractContextManager[Connection]) -> bool:
    """Tell whether a pooler keeps a session for each client, as far as that can be seen.

    While another client is in a transaction it has a session to itself. If that was ours, or if we get another one
    then, sessions are given to whoever needs one.

    Args:
        connection: Ours.
        another: Lends a second one.
    """
    ours = _server_process(connection)
    with another as other:
        for _ in range(_ROUNDS):
            with other.transaction():
                if _server_process(other) == ours or _server_process(connection) != ours:
                    return False
    return True


def _server_process(connection: Connection) -> int:
    number: int = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchall()[0][0]
    return number
