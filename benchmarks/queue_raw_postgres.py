"""The limit on PostgreSQL: a table shaped like a queue and plain SQL by psycopg, with nothing round it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

from benchmarks.queue_contender import Contender
from benchmarks.queue_raw_sqlite import payload

if TYPE_CHECKING:
    from benchmarks.queue_worker import Duty

BATCH = 500

SCHEMA = """
CREATE TABLE IF NOT EXISTS raw_queue (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    status text NOT NULL DEFAULT 'QUEUED',
    priority smallint NOT NULL DEFAULT 5,
    next_run_after timestamptz NOT NULL DEFAULT now(),
    payload text NOT NULL
);
CREATE INDEX IF NOT EXISTS raw_ready ON raw_queue (priority, next_run_after, id) WHERE status = 'QUEUED';
"""
INSERT = "INSERT INTO raw_queue (payload) VALUES (%s)"
COPY = "COPY raw_queue (payload) FROM STDIN"
# By an array, as a join with a small table reads all of it, and growth would then look like a gain.
CLAIM = """
WITH ready AS MATERIALIZED (
    SELECT id FROM raw_queue WHERE status = 'QUEUED' AND priority = 5 AND next_run_after <= now()
    ORDER BY next_run_after, id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE raw_queue SET status = 'RUNNING' WHERE id = ANY(ARRAY(SELECT id FROM ready)) RETURNING id, payload
"""
COMPLETE = "UPDATE raw_queue SET status = 'DONE' WHERE id = ANY(%s)"
PAD = """
INSERT INTO raw_queue (status, next_run_after, payload)
SELECT %s, now() + make_interval(secs => %s), '{"x": 0}' FROM generate_series(1, %s)
"""


class RawPostgres(Contender):
    """One row per commit, or ten thousand by COPY; five hundred claimed and five hundred completed."""

    module = "raw_postgres"
    drained = 50_000
    singles = 1_500
    bulk = 100_000
    per_call = 10_000

    def prepare(self) -> None:
        """Create the table."""
        self.connection = psycopg.connect(self.place, autocommit=True)
        self.connection.execute(SCHEMA)

    def clear(self) -> None:
        """Empty the table."""
        self.connection.execute("TRUNCATE raw_queue")

    def enqueue_one(self, number: int) -> None:
        """Insert a row in a transaction of its own."""
        self.connection.execute(INSERT, (payload(number),))

    def enqueue_bulk(self, count: int) -> None:
        """Copy many rows per transaction."""
        for numbers in self.batches(count):
            with self.connection.cursor() as cursor, cursor.copy(COPY) as copy:
                for number in numbers:
                    copy.write_row((payload(number),))

    def fill(self, count: int) -> None:
        """Enqueue, and let the planner know."""
        super().fill(count)
        self.connection.execute("ANALYZE raw_queue")

    def left(self) -> int:
        """Count the rows that are not done."""
        return self.connection.execute("SELECT count(*) FROM raw_queue WHERE status <> 'DONE'").fetchone()[0]

    def pad(self, each: int) -> None:
        """Add rows; one that cools down is one that is due later."""
        for status, seconds in (("QUEUED", 86_400), ("QUEUED", 3_600), ("DONE", 0)):
            self.connection.execute(PAD, (status, seconds, each))
        self.connection.execute("VACUUM ANALYZE raw_queue")

    def claim(self, limit: int) -> float:
        """Claim in one transaction, complete in another."""
        start = time.perf_counter()
        rows = self.connection.execute(CLAIM, (limit,)).fetchall()
        seconds = time.perf_counter() - start
        self.connection.execute(COMPLETE, ([row[0] for row in rows],))
        return seconds

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


def work(place: str, duty: Duty) -> None:
    """Claim and complete until nothing is ready."""
    with psycopg.connect(place, autocommit=True) as connection:
        duty.ready()
        while rows := connection.execute(CLAIM, (BATCH,)).fetchall():
            for _ in rows:
                duty.start(0)
            connection.execute(COMPLETE, ([row[0] for row in rows],))
        duty.drained()
