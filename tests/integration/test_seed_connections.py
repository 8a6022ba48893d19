"""The error handler on a connection of the caller's own (C17): its tables, its transactions, its kinds of rows."""

import sqlite3
import threading

import psycopg
import pytest

from integration.seed_places import opened
from outlast.errors import NetworkError, ResourceNotFoundError, SchemaError
from outlast.ports.rows import Status
from outlast.worker import ErrorHandler


@pytest.fixture(params=["sqlite connection", "postgres connection"])
def queue(request, tmp_path):
    found = opened(request.param, tmp_path, request)
    yield found
    found.db.close()
    found.place.close()


def seen_from(queue, number):
    """Return status, retry count and number of dead letters, as others see them."""
    task = queue.task(number)
    return task.status, task.retry_count, len(queue.letters())


def dict_rows(cursor, row):
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


@pytest.mark.parametrize("isolation", ["", None, "IMMEDIATE"])
@pytest.mark.parametrize("rows", [None, sqlite3.Row, dict_rows])
def test_a_connection_to_memory_gets_its_tables_and_commits(isolation, rows):
    connection = sqlite3.connect(":memory:", isolation_level=isolation)
    connection.row_factory = rows
    handler = ErrorHandler(connection)
    connection.execute("INSERT INTO task_queue (task_type) VALUES ('scrape')")
    connection.commit()

    assert handler.handle_error(1, NetworkError("x"), 1)["changed"]
    assert not connection.in_transaction
    assert handler.handle_error(1, ValueError("x"), 2)["changed"]
    assert not connection.in_transaction
    assert connection.row_factory is rows
    connection.row_factory = None
    assert connection.execute("SELECT error_type, retry_count FROM dead_letter_queue").fetchall() == [("ValueError", 2)]
    connection.close()


def test_within_the_callers_transaction_nothing_is_committed(queue):
    handler, number, connection = ErrorHandler(queue.db), queue.add(), queue.db
    connection.execute("INSERT INTO queues (name) VALUES ('marker')")

    assert handler.handle_error(number, ResourceNotFoundError("gone"), 1)["changed"]
    assert seen_from(queue, number) == (Status.QUEUED, 0, 0)
    connection.rollback()
    assert seen_from(queue, number) == (Status.QUEUED, 0, 0)

    connection.execute("INSERT INTO queues (name) VALUES ('marker')")
    assert handler.handle_error(number, ResourceNotFoundError("gone"), 1)["changed"]
    connection.commit()
    assert seen_from(queue, number) == (Status.FAILED, 1, 1)
    assert connection.execute("SELECT count(*) FROM queues").fetchone()[0] == 1


def test_tables_are_created_within_an_open_transaction():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE mine (a)")
    connection.execute("INSERT INTO mine VALUES (1)")
    ErrorHandler(connection)
    assert connection.in_transaction
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'task_queue'").fetchone() == (0,)
    connection.close()


def test_postgresql_without_tables_says_so(request, tmp_path):
    queue = opened("postgres app", tmp_path, request)
    blank = queue.place.blank()
    with blank.connect() as connection, pytest.raises(SchemaError, match="no Outlast tables"):
        ErrorHandler(connection)
    queue.place.close()


def test_a_failure_in_the_callers_transaction_leaves_the_rest_of_it(queue):
    """What was done before stays, and can be committed."""
    handler, number, connection = ErrorHandler(queue.db), queue.add(), queue.db
    queue.execute("ALTER TABLE dead_letter_queue RENAME TO elsewhere")
    try:
        connection.execute("INSERT INTO queues (name) VALUES ('marker')")
        assert not handler.handle_error(number, ResourceNotFoundError("gone"), 1)["changed"]
        connection.commit()
    finally:
        queue.execute("ALTER TABLE elsewhere RENAME TO dead_letter_queue")
    assert seen_from(queue, number) == (Status.QUEUED, 0, 0)
    assert connection.execute("SELECT count(*) FROM queues").fetchone()[0] == 1


def test_a_connection_that_is_gone_is_no_error_of_the_callers(queue):
    handler, number = ErrorHandler(queue.db), queue.add()
    queue.db.close()
    result = handler.handle_error(number, NetworkError("x"), 1)
    assert (result["changed"], result["retry"]) == (False, True)
    assert isinstance(result["trouble"], sqlite3.ProgrammingError | psycopg.OperationalError)


def test_rows_of_another_shape(queue):
    """Also with psycopg's row factories."""
    queue.db.row_factory = psycopg.rows.dict_row if "postgres" in queue.kind else dict_rows
    number = queue.add()
    assert ErrorHandler(queue.db).handle_error(number, ResourceNotFoundError("x"), 1)["changed"]
    assert seen_from(queue, number) == (Status.FAILED, 1, 1)


def test_threads_may_share_a_connection(tmp_path):
    """W8: of many reports of one attempt, one counts."""
    connection = sqlite3.connect(tmp_path / "shared.db", check_same_thread=False)
    handler = ErrorHandler(connection)
    connection.execute("INSERT INTO task_queue (task_type) VALUES ('scrape')")
    connection.commit()
    changed = []

    def report():
        changed.append(handler.handle_error(1, NetworkError("x"), 1)["changed"])

    threads = [threading.Thread(target=report) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(changed) == [False] * 7 + [True]
    assert connection.execute("SELECT count(*) FROM task_attempts").fetchone() == (1,)
    connection.close()
