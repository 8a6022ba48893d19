"""The limit on SQLite: a table shaped like a queue and plain SQL, with nothing round it."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import TYPE_CHECKING

from benchmarks.queue_contender import Contender

if TYPE_CHECKING:
    from benchmarks.queue_worker import Duty

BATCH = 100

SCHEMA = """
CREATE TABLE IF NOT EXISTS raw_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    status TEXT NOT NULL DEFAULT 'QUEUED',
    priority INTEGER NOT NULL DEFAULT 5,
    next_run_after INTEGER NOT NULL,
    payload TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS raw_ready ON raw_queue (priority, next_run_after, id) WHERE status = 'QUEUED';
"""
INSERT = "INSERT INTO raw_queue (next_run_after, payload) VALUES (?, ?)"
CLAIM = """
UPDATE raw_queue SET status = 'RUNNING' WHERE id IN (
    SELECT id FROM raw_queue WHERE status = 'QUEUED' AND priority = 5 AND next_run_after <= ?
    ORDER BY next_run_after, id LIMIT ?
) RETURNING id, payload
"""
COMPLETE = "UPDATE raw_queue SET status = 'DONE' WHERE id IN (SELECT value FROM json_each(?))"
PAD = """
INSERT INTO raw_queue (status, next_run_after, payload)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :each)
SELECT :status, :due, '{"x": 0}' FROM numbers
"""


class RawSQLite(Contender):
    """One row per commit, or a thousand; a hundred claimed and a hundred completed."""

    module = "raw_sqlite"
    drained = 100_000
    singles = 3_000
    bulk = 200_000

    def prepare(self) -> None:
        """Create the file."""
        self.connection = connect(self.place)
        self.connection.executescript(SCHEMA)

    def clear(self) -> None:
        """Empty the table."""
        self.connection.execute("DELETE FROM raw_queue")

    def enqueue_one(self, number: int) -> None:
        """Insert a row in a transaction of its own."""
        self.connection.execute(INSERT, (now(), payload(number)))

    def enqueue_bulk(self, count: int) -> None:
        """Insert a thousand rows per transaction."""
        for numbers in self.batches(count):
            due = now()
            self.connection.execute("BEGIN IMMEDIATE")
            rows = [(due, payload(number)) for number in numbers]
            self.connection.executemany(INSERT, rows)
            self.connection.execute("COMMIT")

    def left(self) -> int:
        """Count the rows that are not done."""
        return self.connection.execute("SELECT count(*) FROM raw_queue WHERE status <> 'DONE'").fetchone()[0]

    def pad(self, each: int) -> None:
        """Add rows; one that cools down is one that is due later."""
        for status, due in (("QUEUED", now() + 86_400_000), ("QUEUED", now() + 3_600_000), ("DONE", now())):
            self.connection.execute(PAD, {"each": each, "status": status, "due": due})

    def claim(self, limit: int) -> float:
        """Claim in one transaction, complete in another."""
        start = time.perf_counter()
        rows = claim(self.connection, limit)
        seconds = time.perf_counter() - start
        complete(self.connection, rows)
        return seconds

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


def connect(place: str) -> sqlite3.Connection:
    """Open a file that commits durably; a statement outside BEGIN and COMMIT is a transaction of its own."""
    connection = sqlite3.connect(place, isolation_level=None, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def claim(connection: sqlite3.Connection, limit: int) -> list[tuple[int, str]]:
    """Take ready rows, in a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    rows = connection.execute(CLAIM, (now(), limit)).fetchall()
    connection.execute("COMMIT")
    return rows


def complete(connection: sqlite3.Connection, rows: list[tuple[int, str]]) -> None:
    """Mark rows as done, in a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(COMPLETE, (json.dumps([row[0] for row in rows]),))
    connection.execute("COMMIT")


def work(place: str, duty: Duty) -> None:
    """Claim and complete until nothing is ready."""
    connection = connect(place)
    duty.ready()
    while rows := claim(connection, BATCH):
        for _ in rows:
            duty.start(0)
        complete(connection, rows)
    duty.drained()


def payload(number: int) -> str:
    """Return what a task carries; it is not worth a call of json to a limit."""
    return f'{{"x": {number}}}'


def now() -> int:
    """Return the time as the table holds it."""
    return time.time_ns() // 1_000_000
