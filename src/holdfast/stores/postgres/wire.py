"""A task that is added by libpq's own calls: what psycopg does around a statement takes longer than to send it.

Whatever is out of the ordinary is left to psycopg.
"""

import select
from contextlib import suppress
from typing import Any, TypeAlias

from holdfast.stores.postgres.driver import psycopg

__all__ = ["Row", "Wire"]

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Row: TypeAlias = tuple[str, str, int, str]

_NAME = b"holdfast_due_task"
_TYPES = [25, 25, 21, 25]  # PostgreSQL's numbers of text and smallint; lists, for psycopg 3.2 takes no other sequence
_FORMATS = [1, 1, 0, 1]  # text goes with its length: as a string of C it would end at a NUL, which is to be refused
_BINARY = 1
_FINE = (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK)
_STALE = psycopg.errors.FeatureNotSupported  # "cached plan must not change result type": a column has another type now
_GONE = psycopg.errors.InvalidSqlStatementName  # somebody has deallocated all statements of the session
_CANCEL_WAIT = 2.0  # seconds
_FLUSH_WAIT = 1  # milliseconds


class Wire:
    """What is known of one connection. Nobody else may use that during a call, and it is in no transaction."""

    __slots__ = ("_is_prepared", "_poll")

    def __init__(self, connection: Connection) -> None:
        """Prepare nothing yet."""
        self._is_prepared = False
        self._poll = select.poll()
        self._poll.register(connection.pgconn.socket, select.POLLIN)

    @staticmethod
    def of(connection: Connection) -> "Wire | None":
        """Return one for a connection; None where it cannot be used so."""
        is_usual = connection.prepare_threshold is not None and connection.info.encoding == "utf-8"
        return Wire(connection) if is_usual and hasattr(select, "poll") else None

    def insert(self, connection: Connection, statement: bytes, row: Row) -> int:
        """Run a statement that adds a row and answers with its number, the same one each time; return that.

        Raises:
            psycopg.OperationalError: If the connection broke; then nobody knows whether it was done.
            psycopg.Error: If the server refused; then it was not done.
        """
        name, queue, priority, parameters = row
        values = [name.encode(), queue.encode(), b"%d" % priority, parameters.encode()]
        pgconn = connection.pgconn
        try:
            if not self._is_prepared:
                self._prepare(pgconn, statement)
            try:
                return self._run(pgconn, values)
            except (_GONE, _STALE):  # the statement cannot be used, and nothing was done
                with suppress(_GONE):
                    pgconn.send_query(b"DEALLOCATE " + _NAME)
                    self._answer(pgconn)
                self._prepare(pgconn, statement)
                return self._run(pgconn, values)
        except BaseException:  # such as Ctrl-C; a connection that is busy is not lent again
            if pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    connection.cancel_safe(timeout=_CANCEL_WAIT)
            raise

    def _prepare(self, pgconn: Any, statement: bytes) -> None:
        self._is_prepared = True  # now: if it is interrupted or refused, the next run finds out and prepares again
        pgconn.send_prepare(_NAME, statement, _TYPES)
        self._answer(pgconn)

    def _run(self, pgconn: Any, values: list[bytes]) -> int:
        pgconn.send_query_prepared(_NAME, values, _FORMATS, _BINARY)
        return int.from_bytes(self._answer(pgconn).get_value(0, 0), "big", signed=True)

    def _answer(self, pgconn: Any) -> Any:
        """Send what is to be sent, and wait until the server is ready for more; return its answer.

        All that it says is read before anything is made of it: it tells of a row first, and commits after that.
        """
        answers, lost = list[Any](), None
        try:
            while pgconn.flush():  # more than the system takes at once
                self._poll.poll(_FLUSH_WAIT)
                pgconn.consume_input()
            while (answer := self._next(pgconn)) is not None:
                answers.append(answer)
        except psycopg.OperationalError as error:
            lost = error
        for answer in answers:
            if answer.status not in _FINE:
                refusal = psycopg.errors.error_from_result(answer, "utf-8")
                if lost is None or isinstance(refusal, psycopg.OperationalError):
                    raise refusal
        if lost is not None:
            raise lost
        return answers[0]

    def _next(self, pgconn: Any) -> Any:
        while pgconn.is_busy():
            self._poll.poll()
            pgconn.consume_input()
        return pgconn.get_result()
