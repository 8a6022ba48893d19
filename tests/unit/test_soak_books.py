"""The balance of the long run finds what is off: each kind of loss and of doing twice, made by hand in a small table."""

import sqlite3
from types import SimpleNamespace

import pytest
from tools.soak.books import Books, Effect

from outlast.app import App


class Place:
    """A file that nobody works on."""

    name = "sqlite"

    def __init__(self, file):
        self.file = file
        App(f"sqlite:///{file}").create_schema()

    def rows(self, statement):
        with sqlite3.connect(self.file) as connection:
            return connection.execute(statement).fetchall()

    def run(self, *statements):
        with sqlite3.connect(self.file) as connection:
            for statement in statements:
                connection.execute(statement)


TASK = "INSERT INTO task_queue (id, task_type, status, attempt, parameters) VALUES ({}, '{}', '{}', {}, '{{\"n\":{}}}')"
ATTEMPT = (
    "INSERT INTO task_attempts (task_id, attempt, outcome, finished_at, error_type, error_message, error_category, fingerprint, "
    "traceback, failure) VALUES ({}, {}, '{}', 0, 'E', 'm', 'c', 'f', '', '{{}}')"
)
LETTER = (
    "INSERT INTO dead_letter_queue (original_task_id, task_type, queue, priority, parameters, error_type, error_message, "
    "error_category, reason, fingerprint, traceback, failure, retry_count, crash_count, replays, created_at, moved_to_dlq_at) "
    "VALUES ({}, 'broken', 'default', 5, '{{}}', 'E', 'm', 'c', 'permanent', 'f', '', '{{}}', 0, 0, 0, 0, 0)"
)
WORKER = (
    "INSERT INTO workers (id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at, schema_version) "
    "VALUES ('w', 'w', 'h', 1, '[]', 1, 'running', 0, 0, 0, 1)"
)


@pytest.fixture
def place(tmp_path):
    """One task that is done, one that failed, one that was cancelled, and a periodic one: all as it should be."""
    place = Place(tmp_path / "outlast.db")
    place.run(
        TASK.format(1, "note", "DONE", 1, 11), TASK.format(2, "broken", "FAILED", 1, 12), ATTEMPT.format(2, 1, "fail"), LETTER.format(2),
        TASK.format(3, "never", "CANCELLED", 0, 13), TASK.format(4, "tick", "DONE", 1, 0).replace('{"n":0}', "{}"),
    )  # fmt: skip
    return place


LOAD = {
    "known": {11: 1, 12: 2, 13: 3},
    "kinds": {11: "note", 12: "broken", 13: "never"},
    "shared": set(),
    "cancelled": {3},
}
LEFT = [Effect(11, 1, 1, 1, "done"), Effect(12, 2, 1, 1, "fail"), Effect(0, 4, 1, 1, "tick")]


def off(place, *more, left=LEFT, **load):
    books = Books(place, SimpleNamespace(**(LOAD | load)), [*left, *more], crash_limit=4)
    return "\n".join(books.check(10.0, 2.0))


def test_nothing_is_off_where_nothing_is(place):
    assert off(place) == ""


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["DELETE FROM task_queue WHERE id = 1"], "are lost"),
        ([TASK.format(9, "note", "DONE", 1, 11)], "are there twice"),
        ([TASK.format(9, "note", "DONE", 1, 99)], "were never asked for"),
        (["UPDATE task_queue SET status = 'RUNNING' WHERE id = 1"], "are still live"),
        (["UPDATE task_queue SET attempt = 2 WHERE id = 1"], "other effects than attempts"),
        (["UPDATE task_queue SET status = 'DONE' WHERE id = 2"], "is done and has left nothing"),
        (["DELETE FROM dead_letter_queue"], "have no dead letter"),
        ([LETTER.format(1)], "dead letters have no failed task"),
        (["DELETE FROM task_attempts"], "are in no history"),
        ([ATTEMPT.format(1, 7, "retry")], "were no calls"),
        (["UPDATE task_queue SET status = 'DONE' WHERE id = 3"], "should have been cancelled"),
        (["DELETE FROM task_queue WHERE id = 4"], "0 periodic tasks"),
        ([WORKER], "workers are still there"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_off_in_the_tables_is_found(place, statements, told):
    place.run(*statements)

    assert told in off(place)


def test_what_is_off_in_what_calls_have_left_is_found(place):
    assert "two calls" in off(place, Effect(11, 1, 1, 1, "done"))
    assert "no worker was lost" in off(place, Effect(11, 1, 2, 2, "done"))
    assert "should have been cancelled" in off(place, Effect(13, 3, 1, 1, "never"))
    assert "left nothing" in off(place, left=LEFT[1:])
    assert "another number" in off(place, known={11: 7, 12: 2, 13: 3})
    assert "same key" in off(place, shared={11})
    assert "cancelled and are not" in off(place, cancelled={1})
