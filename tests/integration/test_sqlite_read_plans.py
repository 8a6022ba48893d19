"""What people look at costs the same however much is over: by the plans, and by counting what SQLite does."""

import re
from datetime import UTC, datetime

import pytest

from conformance.acting import NOTE, add, bury, claim, register, retry, task
from outlast import clock
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import DeadLetterFilter, Status, TaskFilter
from outlast.ports.triage import NewReplay, ReplayState
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import FakeClock

ROWS = 20_000
NUMBERS = "WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows) "
OVER = (
    NUMBERS
    + """INSERT INTO task_queue (task_type, status, finished_at, created_at, updated_at)
SELECT 't' || n % 3, CASE n % 4 WHEN 0 THEN 'FAILED' WHEN 1 THEN 'CANCELLED' ELSE 'DONE' END, 1, 1, 1 FROM numbers"""
)
LETTERS = """
INSERT INTO dead_letter_queue (original_task_id, task_type, queue, priority, parameters, error_type, error_message,
    error_category, reason, fingerprint, traceback, failure, retry_count, crash_count, replays, created_at, moved_to_dlq_at)
SELECT id, task_type, queue, 5, '{}', 'TimeoutError', 'timed out', 'network', 'exhausted', 'f1', '', '{}', 1, 0, 0, 1, id
FROM task_queue WHERE status = 'FAILED'
"""
ATTEMPTS = """
INSERT INTO task_attempts (task_id, attempt, outcome, finished_at, error_type, error_message, error_category, fingerprint,
    traceback, failure)
SELECT original_task_id, 1, 'fail', 1, error_type, error_message, error_category, fingerprint, '', '{}'
FROM dead_letter_queue
"""
GROUPS = (
    NUMBERS
    + """INSERT INTO failure_groups (fingerprint, task_type, error_type, error_category, error_message, first_seen,
    last_seen, failures, told) SELECT 'g' || n, 't1', 'E', 'network', 'm', 1, n, n, 1 FROM numbers"""
)


def replay_some(store):
    """Have a replay with canaries that are over, and one that runs, and a payload that was edited."""
    for state in (ReplayState.CANCELLED, None):
        replay = store.add_replay(NewReplay(DeadLetterFilter(queue="q", limit=4)))
        store.claim_replay("me", 3600)
        store.replay_step(replay.id, 1, 2, stage=1, canary=True)
        if state is not None:
            store.end_replay(replay.id, state)
    (line, *_) = store.dead_letter_lines(DeadLetterFilter(limit=1)).rows
    assert store.edit_payload(line.id, "{}", '{"a": 1}', "[]", "ann", "") == "edited"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """One with little in it, and one with much that is over. Time passes only when told, so both are of one moment."""
    folder, made, time = tmp_path_factory.mktemp("reads"), [], FakeClock(1_700_000_000)
    before = clock.use(time)
    for name, rows in (("little", 200), ("much", ROWS)):
        store = SqliteStore(folder / f"{name}.db", synchronous="NORMAL")
        store.create_schema()
        for sql in (OVER, LETTERS, ATTEMPTS, GROUPS):
            values = {"rows": rows} if sql.startswith(NUMBERS) else {}
            store.db.write(lambda own, sql=sql, values=values: own.execute(sql, values))
        for number in range(25):
            bury(store, task("t1", queue="q"), NOTE._replace(fingerprint=f"h{number}"))
        add(store, *[task("t1", resource="r") for _ in range(60)])
        register(store, lease=3600)
        for each in claim(store, limit=20)[:10]:
            retry(store, each, delay=3600)
        for number in range(300):
            store.audit("ann", f"a{number % 3}", f"s{number % 50}")
        replay_some(store)
        time.advance(20)
        store.roll_up()
        made.append(store)
    yield made
    for store in made:
        store.close()
    clock.use(before)


MOMENT = datetime.fromtimestamp(0.05, UTC)
LISTS = {
    "pulse": lambda store: store.pulse(),
    "pulse of a week": lambda store: store.pulse(window=7 * 86400.0, step=3600.0),
    "counts": lambda store: store.counts(),
    "books": lambda store: store.event_totals(),
    "queues": lambda store: store.queues(),
    "breakers": lambda store: store.breakers(),
    "waiting for": lambda store: store.waiting_for("r"),
    "dead letter counts": lambda store: store.dead_letter_counts(),
    "a group": lambda store: store.failure("h1"),
    "samples": lambda store: store.failure_samples("f1"),
    "tasks of a group": lambda store: store.failure_tasks("f1", limit=5),
    "tasks of groups": lambda store: store.tasks_by_group(["f1", "f2"], limit=5),
    "a sample of what ended": lambda store: store.finished_sample(window=1e9, most=50),
    "marks": lambda store: store.chart_marks(window=1e9),
    "flow of groups": lambda store: store.failure_flow(["h1", "f1"], window=3600, step=60),
    "nothing to roll up": lambda store: store.roll_up(),
    "letters until": lambda store: store.dead_letter_lines(DeadLetterFilter(until=MOMENT)),
    "letters of a kind": lambda store: store.dead_letter_lines(DeadLetterFilter(task_type="t1", text="none"), look=50),
}
LISTS |= {
    "replays": lambda store: store.replay_runs(running=True),
    "no replay for others": lambda store: store.claim_replay("you", 60),
    "canaries": lambda store: store.canaries(2),
    "edits": lambda store: store.edits(4),
    "audits": lambda store: store.audits(limit=5),
    "audits of a subject": lambda store: store.audits(subject="s3", limit=5),
    "audits of an action": lambda store: store.audits(action="a1", limit=5),
    "untold groups": lambda store: store.unannounced_groups(),
    "oldest dead letter": lambda store: store.oldest_dead_letter(),
}
for given in (
    {},
    {"task_type": "t1"},
    {"queue": "q"},
    {"category": "network"},
    {"reason": "exhausted"},
    {"fingerprint": "f1"},
):
    letters = DeadLetterFilter(**given, limit=20)
    LISTS[f"letters by {given}"] = lambda store, which=letters: store.dead_letter_lines(which)
for status in (None, *Status):
    LISTS[f"tasks by {status}"] = lambda store, status=status: store.task_lines(
        TaskFilter(status=status, limit=20), look=60
    )
for given in (
    {},
    {"category": "network"},
    {"task_type": "t1"},
    {"dead": True},
    {"standing": "open"},
    {"since": MOMENT},
):
    for largest in (False, True):
        which = FailureFilter(**given, largest=largest, limit=20)
        LISTS[f"groups by {given}, {largest}"] = lambda store, which=which: store.failures(which, look=60)


class Watched:
    """A connection that notes what it is asked."""

    def __init__(self, connection, asked):
        self.connection, self.asked = connection, asked

    def execute(self, sql, values=()):
        self.asked.append((sql, values))
        return self.connection.execute(sql, values)


def asked(store, ask, monkeypatch):
    """Return the statements that a question takes."""
    statements, read = [], store.db.read
    with monkeypatch.context() as patch:
        patch.setattr(store.db, "read", lambda work: read(lambda own: work(Watched(own, statements))))
        ask(store)
    return statements


def steps(store, ask):
    count = 0

    def step():
        nonlocal count
        count += 1

    store.counts()
    store.db._reader.set_progress_handler(step, 1)
    try:
        ask(store)
    finally:
        store.db._reader.set_progress_handler(None, 1)
    return count


@pytest.mark.parametrize("ask", LISTS.values(), ids=LISTS)
def test_it_costs_the_same_however_much_is_over(stores, ask):
    little, much = (steps(store, ask) for store in stores)
    assert little > 10, "something was counted"
    assert much < little * 1.5 + 200


@pytest.mark.parametrize("ask", LISTS.values(), ids=LISTS)
def test_nothing_that_is_over_is_scanned(stores, ask, monkeypatch):
    """A scan is by an index that has nothing in it but what lives."""
    for sql, values in asked(stores[1], ask, monkeypatch):
        rows = stores[1].db.read(
            lambda own, sql=sql, values=values: own.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
        )
        text = "\n".join(row[3] for row in rows)
        scans = re.findall(
            r"SCAN (?:task_queue|dead_letter_queue|letter|task_attempts|failure_groups|failure_flow|source_polls|audit_log)\b.*",
            text,
        )
        allowed = re.compile(
            r"SCAN task_queue USING (COVERING )?INDEX task_queue_(ready|suspects|held|parked|retries)"
            r"|SCAN failure_groups USING (COVERING )?INDEX failure_groups_untold"
        )
        assert [scan for scan in scans if not allowed.match(scan)] == [], text


def test_a_pulse_is_one_statement(stores, monkeypatch):
    for store in stores:
        assert len(asked(store, LISTS["pulse"], monkeypatch)) == 1


def test_a_list_has_the_order_of_its_index(stores, monkeypatch):
    for name, ask in LISTS.items():
        if name.startswith(("letters by", "tasks by", "groups by")):
            (sql, values), *_ = asked(stores[1], ask, monkeypatch)
            rows = stores[1].db.read(
                lambda own, sql=sql, values=values: own.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
            )
            assert "B-TREE FOR ORDER BY" not in "\n".join(row[3] for row in rows), name


def test_enqueueing_and_success_write_no_more_than_they_must(stores):
    """No index of the lists is touched by what succeeds."""
    store = stores[0]
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'task_queue' AND sql IS NOT NULL"
    indexes = dict(store.db.read(lambda own: own.execute(sql).fetchall()))
    assert set(indexes) == {
        "task_queue_ready", "task_queue_suspects", "task_queue_held", "task_queue_resource", "task_queue_parked",
        "task_queue_unique", "task_queue_retries", "task_queue_canaries", "task_queue_celery",
    }  # fmt: skip
    assert "retry_count > 0" in indexes["task_queue_retries"]
    assert indexes["task_queue_canaries"].endswith("WHERE canary = 1")
    triggers = store.db.read(
        lambda own: own.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    )
    assert triggers == []
