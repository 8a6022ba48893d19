"""What the pages of the dashboard ask, of a thousand dead letters and finished tasks and of a million of each.

Both are there side by side, built by SQL, and asked in turn. A page that has to look at rows one by one looks at a few
thousand at most, so what a million costs is bounded by that and not by the million. With OUTLAST_SOAK set it is ten.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from tests.servers.postgres import PostgresServer

import outlast
from benchmarks.measure import Result, interleaved, per_call, ratio
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import DeadLetterFilter, Status, TaskFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from outlast.ports.store import Store

FEW = 1_000
MANY = 10_000_000 if os.environ.get("OUTLAST_SOAK") else 1_000_000
WAITING = 100
ROUNDS, CALLS = 11, 3
SLOWER = 5.0
NOTHING = {
    "dead letters with a text that is nowhere",
    *(f"tasks that are {status}" for status in ("RUNNING", "PARKED", "CANCELLED", "DISCARDED")),
}
"""What finds nothing, and has to look for it as far as it may."""

DIALECTS = {
    "SQLite": {
        "numbers": "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})",
        "from": "FROM numbers",
        "moved": "(unixepoch() - ({count} - n)) * 1000",
        "now": "unixepoch() * 1000",
        "booked": "",
        "is_booked": "",
        "enqueued": "",
        "ever": "at, seen",
        "epoch": "0, 0",
    },
    "PostgreSQL": {
        "numbers": "",
        "from": "FROM generate_series(1, {count}) AS numbers (n)",
        "moved": "now() - ({count} - n) * interval '1 second'",
        "now": "now()",
        "booked": ", booked",
        "is_booked": ", true",
        "enqueued": "(-1, to_timestamp(0), 'enqueued', 2 * {count}), ",
        "ever": "at",
        "epoch": "to_timestamp(0)",
    },
}
KINDS = """'task ' || (n % 10) AS task_type, 'queue ' || (n % 3) AS queue, 'cause ' || (n % 20) AS fingerprint,
    CASE n % 3 WHEN 0 THEN 'exhausted' WHEN 1 THEN 'permanent' ELSE 'crash' END AS reason,
    CASE WHEN n <= 60 THEN 'rare' ELSE 'category ' || (n % 5) END AS error_category"""
BUILD = (
    """INSERT INTO task_queue (id, task_type, status, finished_at{booked})
    {numbers} SELECT 2 * n - 1, 'task ' || (n % 10), 'DONE', {now}{is_booked} {from}""",
    """INSERT INTO task_queue (id, task_type, status, failed_at, last_error{booked})
    {numbers} SELECT 2 * n, 'task ' || (n % 10), 'FAILED', {now}, 'timed out'{is_booked} {from}""",
    """INSERT INTO dead_letter_queue
        (original_task_id, created_at, moved_to_dlq_at, retry_count, crash_count, replays, priority, parameters, error_type,
        error_message, traceback, failure, task_type, queue, fingerprint, reason, error_category)
    {numbers} SELECT 2 * n, {now}, {moved}, 3, 0, 0, 5, '{{}}', 'TimeoutError', 'item ' || n || ' timed out', '', '{{}}',
        {kinds} {from} ORDER BY n""",
    """INSERT INTO task_attempts
        (task_id, attempt, outcome, finished_at, error_type, error_message, error_category, traceback, failure, fingerprint)
    {numbers} SELECT 2 * n, 1, 'fail', {now}, 'TimeoutError', 'timed out', 'category', '', '{{}}', 'cause ' || (n % 20)
    {from} ORDER BY n""",
    """INSERT INTO task_flow (span, {ever}, event, n)
    VALUES {enqueued}(-1, {epoch}, 'done', {count})""",
    """INSERT INTO task_flow (span, {ever}, event, task_type, category, n)
    SELECT -1, {epoch}, 'failed', task_type, error_category, count(*) FROM dead_letter_queue GROUP BY task_type, error_category""",
    """INSERT INTO failure_groups
        (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, failures, dead)
    SELECT fingerprint, min(task_type), 'TimeoutError', min(error_category), min(error_message), min(moved_to_dlq_at),
        max(moved_to_dlq_at), count(*), count(*)
    FROM dead_letter_queue GROUP BY fingerprint""",
)


def run() -> list[Result]:
    """Return the results."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-bench-")))
        server = PostgresServer(folder / "postgres")
        stack.callback(server.stop)
        server.start()
        server.execute("CREATE DATABASE few")
        results: list[Result] = []
        for database, places in (
            ("SQLite", (f"sqlite:///{folder / 'few.db'}", f"sqlite:///{folder / 'many.db'}")),
            ("PostgreSQL", (server.url.removesuffix(server.database) + "few", server.url)),
        ):
            few, many = (stack.enter_context(closing(outlast.App(place))) for place in places)
            for app, place, count in ((few, places[0], FEW), (many, places[1], MANY)):
                app.create_schema()
                _build(database, place, count)
                app.task(_waits).enqueue_many([{} for _ in range(WAITING)])
                app.store.roll_up()  # a file counts what is new by its numbers
                if (found := app.store.counts()) != found | {"QUEUED": WAITING, "DONE": count, "dead_letters": count}:
                    raise RuntimeError(f"the books are not those of the tables: {found}")
            asked = zip(_questions(few.store, FEW), _questions(many.store, MANY), strict=True)
            results += [_compared(database, what, small, large) for (what, small), (_, large) in asked]
        return results


def _waits() -> None:
    """Stand for a task that nobody works on."""


def _compared(database: str, what: str, small: Callable[[], Any], large: Callable[[], Any]) -> Result:
    """Ask both in turn, after a look whether they find the same; a page that found nothing is quick and proves nothing."""
    found = [_size(ask()) for ask in (small, large)]
    if found[0] != found[1] or bool(found[0]) == (what in NOTHING):
        raise RuntimeError(f"{database}: {what}: {found[0]} rows of few, {found[1]} of many")
    times = interleaved({"few": per_call(small, CALLS), "many": per_call(large, CALLS)}, ROUNDS)
    result = ratio(times, "many", "few", SLOWER)
    return Result(f"{database}: {what}", result.ratio, f"{FEW:,} of each", SLOWER, result.seconds)


def _size(answer: Any) -> int:
    """Return how many rows there are in an answer; what is no list of rows is one."""
    rows = getattr(answer, "rows", answer)
    return len(rows) if isinstance(rows, (list, dict)) else int(rows is not None)


def _build(database: str, place: str, count: int) -> None:
    """Fill the tables, behind Outlast's back."""
    words = {name: text.format(count=count) for name, text in DIALECTS[database].items()}
    statements = [each.format(count=count, kinds=KINDS, **words) for each in BUILD]
    if database == "SQLite":
        connection = sqlite3.connect(place.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
        statements = ["PRAGMA synchronous = OFF", "PRAGMA cache_size = -200000", "BEGIN", *statements, "COMMIT"]
        with closing(connection):
            _execute(connection, statements)
        return
    numbers = [f"SELECT setval('task_queue_id_seq', {2 * count})"]
    with psycopg.connect(place, autocommit=True) as server:
        _execute(server, [*statements, *numbers, "VACUUM ANALYZE"])


def _execute(connection: Any, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _questions(store: Store, count: int) -> list[tuple[str, Callable[[], Any]]]:
    """Return what pages ask, by name."""
    (newest,) = store.dead_letter_lines(DeadLetterFilter(limit=1)).rows
    middle = newest.moved_to_dlq_at - timedelta(seconds=count // 2)
    letters = {
        "dead letters": DeadLetterFilter(),
        "dead letters, the last page": DeadLetterFilter(before=100),
        "dead letters of a task": DeadLetterFilter(task_type="task 3"),
        "dead letters of a queue": DeadLetterFilter(queue="queue 1"),
        "dead letters of a category": DeadLetterFilter(category="category 2"),
        "dead letters of a rare category": DeadLetterFilter(category="rare"),
        "dead letters of a reason": DeadLetterFilter(reason="crash"),
        "dead letters of a cause": DeadLetterFilter(fingerprint="cause 7"),
        "dead letters of a task and a category": DeadLetterFilter(task_type="task 3", category="category 3"),
        "dead letters of some seconds": DeadLetterFilter(since=middle, until=middle + timedelta(seconds=60)),
        "dead letters with a text": DeadLetterFilter(text="TIMED OUT"),
        "dead letters of a category with a text": DeadLetterFilter(category="category 2", text="timed out"),
        "dead letters with a text that is nowhere": DeadLetterFilter(text="nowhere"),
    }
    tasks = {
        "tasks": TaskFilter(),
        "tasks, the last page": TaskFilter(before=100),
        "tasks of a name": TaskFilter(task_type="task 3"),
        **{f"tasks that are {status}": TaskFilter(status=status) for status in Status},
    }
    groups = {
        "causes": FailureFilter(),
        "causes, the largest": FailureFilter(largest=True),
        "causes of a category": FailureFilter(category="category 2"),
        "causes with a text": FailureFilter(text="TIMED OUT", dead=True),
    }
    return [
        ("pulse", store.pulse),
        ("pulse of a week", partial(store.pulse, window=7 * 86400.0, step=3600.0)),
        ("counts", store.counts),
        ("dead letters, counted", store.dead_letter_counts),
        ("queues", store.queues),
        *((name, partial(store.dead_letter_lines, which._replace(limit=50))) for name, which in letters.items()),
        *((name, partial(store.task_lines, which)) for name, which in tasks.items()),
        *((name, partial(store.failures, which)) for name, which in groups.items()),
        ("a cause", partial(store.failure, "cause 7")),
        ("a cause, samples", partial(store.failure_samples, "cause 7")),
        ("a cause, step by step", partial(store.failure_flow, ["cause 7"], window=86400.0, step=600.0)),
        ("a dead letter", partial(store.dead_letter, newest.id)),
        ("a task, its history", partial(store.attempts, newest.original_task_id)),
    ]
