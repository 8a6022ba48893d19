"""What a claim costs does not depend on what waits, cools or is over (pitfall 51), and neither does what a page asks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from conformance.acting import register
from integration.postgres_plans import explain
from outlast.ports.read_rows import MOST_COUNTED
from outlast.stores.counters import MAX_CHANGES
from outlast.stores.postgres.reads import scan_bounds
from outlast.stores.postgres.store import PostgresStore

MANY = 200_000
READY = 2_000
ASKED = {
    "worker_id": "w1",
    "done": "{}",
    "done_epochs": "{}",
    "starts": "{}",
    "start_epochs": "{}",
    "queues": ["default", "other"],
    "most": "100",
    "start": "100",
}
FILL = """
INSERT INTO plans.task_queue (task_type, queue, priority, next_run_after, resource, status, finished_at, booked)
SELECT 'scrape', 'default', n %% 10, now() + %(wait)s::interval, %(resource)s, %(status)s, now(), true
FROM generate_series(1, %(count)s) AS n
"""


@pytest.fixture(scope="module")
def store(postgres_server):
    postgres_server.execute("DROP SCHEMA IF EXISTS plans CASCADE")
    store = PostgresStore(postgres_server.url, schema="plans")
    store.create_schema()
    register(store)
    yield store
    store.close()
    postgres_server.execute("DROP SCHEMA plans CASCADE")


@pytest.fixture(scope="module")
def empty_plan(store, postgres_server):
    """The plan that a worker keeps that began on empty tables."""
    return _explain(postgres_server, store, "force_generic_plan")


@pytest.fixture(scope="module")
def full(store, empty_plan, postgres_server):
    with postgres_server.connect() as connection:
        for wait, resource, status, count in (
            ("1 hour", None, "QUEUED", MANY),
            ("1 hour", "cold", "QUEUED", MANY),
            ("0", None, "DONE", MANY),
            ("0", None, "QUEUED", READY),
        ):
            connection.execute(FILL, {"wait": wait, "resource": resource, "status": status, "count": count})
        connection.execute("INSERT INTO plans.cooldowns VALUES (now() + interval '1 hour', 'cold', 'quiet')")
    postgres_server.execute("ANALYZE plans.task_queue")
    return store


def _explain(server, store, mode):
    with server.connect(autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        sql = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store.db.sql["settle_and_claim"]
        found = psycopg.ClientCursor(connection) if mode == "force_custom_plan" else connection.cursor()
        (plan,) = found.execute(sql, ASKED).fetchone()
        return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]


def _nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _on_tasks(plan):
    """Return how the table of tasks is read: the index, or the kind of scan where there is none."""
    return {
        node.get("Index Name", node["Node Type"])
        for node in _nodes(plan)
        if node.get("Relation Name") == "task_queue" and node["Node Type"] != "ModifyTable"
    }


EXPECTED = {"task_queue_ready", "task_queue_pkey", "task_queue_resource"}


def test_a_plan_made_on_empty_tables_uses_the_indexes_already(empty_plan):
    assert _on_tasks(empty_plan) == EXPECTED


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_a_claim_reads_what_is_ready_and_nothing_else(full, postgres_server, mode):
    plan = _explain(postgres_server, full, mode)
    assert _on_tasks(plan) == EXPECTED
    ready = [node for node in _nodes(plan) if node.get("Index Name") == "task_queue_ready"]
    assert [node["Actual Rows"] * node["Actual Loops"] for node in ready] == pytest.approx([100], abs=1)
    tasks = [node for node in _nodes(plan) if node.get("Relation Name") == "task_queue"]
    assert sum(node.get("Rows Removed by Filter", 0) for node in tasks) == 0
    assert sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in ready) < 400
    taken = [node for node in _nodes(plan) if node["Node Type"] == "ModifyTable"]
    assert sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in taken) < 4_000


def test_looking_for_the_next_costs_an_entry_per_range(full, postgres_server):
    with postgres_server.connect() as connection:
        sql = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + full.db.sql["next_due"]
        (plan,) = connection.execute(sql, {"queues": ["default", "other"]}).fetchone()
    plan = plan[0]["Plan"]
    assert _on_tasks(plan) == {"task_queue_ready", "task_queue_suspects"}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 200


def test_a_message_of_celerys_is_known_by_its_key(full, postgres_server):
    with postgres_server.connect() as connection:
        sql = b"EXPLAIN (FORMAT JSON) " + full.db.sql["latest_by_key"]
        (plan,) = connection.execute(sql, {"unique_key": "celery:1", "task_type": "t"}).fetchone()
    assert _on_tasks(plan[0]["Plan"]) == {"task_queue_celery"}


def test_rescuers_jump_from_holder_to_holder(full, postgres_server):
    with postgres_server.connect(autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute(
            "UPDATE plans.task_queue SET status = 'RUNNING', worker_id = 'w1', started_at = now() WHERE status = 'DONE'"
            " AND id % 10 = 0"
        )
        values = dict.fromkeys(
            ("error_type", "error_message", "error_category", "fingerprint", "traceback", "failure"), "x"
        )
        sql = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + full.db.sql["rescue"]
        (plan,) = connection.execute(sql, values | {"batch": 500, "crash_limit": 3}).fetchone()
    plan = plan[0]["Plan"]
    held = [node for node in _nodes(plan) if node.get("Index Name") == "task_queue_held"]
    assert held
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in held) <= 2, "20,000 run, one worker holds them"


LETTERS = """
WITH failed AS (
    INSERT INTO plans.task_queue (task_type, status, failed_at, booked)
    SELECT 'scrape', 'FAILED', now(), true FROM generate_series(1, %(count)s) RETURNING id
)
INSERT INTO plans.dead_letter_queue
    (original_task_id, created_at, moved_to_dlq_at, retry_count, crash_count, replays, priority, task_type, queue, parameters,
     error_type, error_message, error_category, reason, fingerprint, traceback, failure)
SELECT id, now(), now() - (%(count)s - n) * interval '1 second', 1, 0, 0, 5, kind, kind, '{}', 'TimeoutError', 'message ' || n,
    kind, kind, kind, '', '{}'
FROM (
    SELECT id, row_number() OVER (ORDER BY id) AS n,
        CASE WHEN row_number() OVER (ORDER BY id) < %(count)s / 2 THEN 'old' ELSE 'new' END AS kind
    FROM failed
) AS letters
ORDER BY id
"""
ATTEMPTS = """
INSERT INTO plans.task_attempts
    (task_id, finished_at, attempt, outcome, error_type, error_message, error_category, fingerprint, traceback, failure)
SELECT n, now(), 1, 'retry', 'TimeoutError', 'message', 'network', CASE WHEN n < %(count)s / 2 THEN 'old' ELSE 'new' END, '', '{}'
FROM generate_series(1, %(count)s) AS n
"""
GROUPS = """
INSERT INTO plans.failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, failures)
SELECT 'f' || n, CASE WHEN n < %(count)s / 2 THEN 'old' ELSE 'new' END, 'TimeoutError', CASE WHEN n < %(count)s / 2 THEN 'old' ELSE 'new' END,
    'message', now() - interval '2 days', now() - (%(count)s - n) * interval '1 second', n
FROM generate_series(1, %(count)s) AS n
"""
REPLAYED = f"""
INSERT INTO plans.replays (which, canary, who, reason, total, newest, bound, cursor, state)
VALUES ('{{}}', true, '', '', 0, 0, 0, 0, 'stopped');
UPDATE plans.task_queue SET replay_id = 1, canary = id % 1000 = 0
WHERE id > {2 * MANY} AND id <= {2 * MANY} + 11000;
UPDATE plans.dead_letter_queue SET replay_id = 1 WHERE id % 100 = 0;
INSERT INTO plans.failure_groups
    (fingerprint, task_type, error_type, error_category, error_message, first_seen, last_seen, dead)
SELECT kind, kind, '', kind, '', now(), now() - interval '1 day', {MANY} / 4
FROM (VALUES ('old'), ('new')) AS kinds (kind);
"""
"""A replay of many tasks, eleven of them canaries, and the groups of the dead letters."""
BIG = ("task_queue", "task_attempts", "dead_letter_queue")
BEYOND = 2**63 - 1
LIMIT, LOOK = 50, 5000
NO_LETTERS = dict.fromkeys(
    ("ids", "task_type", "queue", "category", "reason", "fingerprint", "since", "until", "text", "pattern")
) | {"before": BEYOND, **scan_bounds(LIMIT, LOOK)}
NO_GROUPS = dict.fromkeys(("category", "task_type", "text", "pattern", "standing", "since", "until")) | {
    "dead": False, "value": BEYOND // 10**6 * 10, "fingerprint": "", **scan_bounds(LIMIT, LOOK)
}  # fmt: skip
NO_TASKS = dict.fromkeys(("status", "queue", "task_type")) | {"before": BEYOND, **scan_bounds(LIMIT, LOOK)}
ONE_PAGE = LIMIT + 4
WALKS = {
    "newest": ("list_dead_letters", NO_LETTERS, ONE_PAGE),
    "text": ("list_dead_letters", NO_LETTERS | {"text": "MESSAGE"}, ONE_PAGE),
    "text that is nowhere": ("list_dead_letters", NO_LETTERS | {"text": "nowhere"}, LOOK + 1),
    "numbers": ("list_dead_letters_by_ids", NO_LETTERS | {"ids": list(range(1000, 1100))}, 100),
    **{
        name: (f"list_dead_letters_by_{name}", NO_LETTERS | {name: "old"}, ONE_PAGE)
        for name in ("fingerprint", "task_type", "category")
    },
    "queue, looked through": ("list_dead_letters", NO_LETTERS | {"queue": "old"}, LOOK + 1),
    "two that never meet": (
        "list_dead_letters_by_task_type",
        NO_LETTERS | {"task_type": "old", "category": "new"},
        LOOK + 1,
    ),
    "tasks": ("list_tasks", NO_TASKS, ONE_PAGE),
    "failed tasks": ("list_failed_tasks", NO_TASKS | {"status": "FAILED"}, 2 * (LOOK + 1)),
    "cancelled tasks": ("list_tasks", NO_TASKS | {"status": "CANCELLED"}, LOOK + 1),
    "queued tasks": ("list_queued_tasks", NO_TASKS | {"status": "QUEUED"}, LOOK + 1),
    "queued tasks of a queue": ("list_queued_tasks", NO_TASKS | {"status": "QUEUED", "queue": "other"}, 0),
    "running tasks": ("list_running_tasks", NO_TASKS | {"status": "RUNNING"}, 0),
    "parked tasks": ("list_parked_tasks", NO_TASKS | {"status": "PARKED"}, 0),
}
REPLAY = NO_LETTERS | {"cursor": 20_000, "newest": 90_000, "limit": 100, "look": LOOK}
STEPS = {
    "all": ("next_matching", REPLAY, 100),
    "a queue": ("next_matching", REPLAY | {"queue": "old"}, 100),
    "a queue that is far": ("next_matching", REPLAY | {"queue": "new"}, 2 * LOOK),
    "numbers": ("next_matching_by_ids", REPLAY | {"ids": list(range(19_990, 20_010))}, 18),
    **{
        name: (f"next_matching_by_{name}", REPLAY | {name: "new"}, 100)
        for name in ("fingerprint", "task_type", "category")
    },
    "two that never meet": ("next_matching_by_task_type", REPLAY | {"task_type": "old", "category": "new"}, 2 * LOOK),
    "counting": ("count_matching", REPLAY, LOOK),
    "counting numbers": ("count_matching_by_ids", REPLAY | {"ids": list(range(100))}, 100),
    **{
        f"counting by {name}": (f"count_matching_by_{name}", REPLAY | {name: "old"}, LOOK)
        for name in ("fingerprint", "task_type", "category")
    },
}
"""How a replay finds what is next and how many there are, and how many rows that reads at most."""
WHOLES = {
    "status_snapshot": (
        {"window": 3600.0, "step": 60.0, "most": MOST_COUNTED, "changes": MAX_CHANGES, "silent": 60.0},
        200,
    ),
    "counts": ({}, 0),
    "event_totals": ({}, 0),
    "count_dead_letters_by_type": ({}, 0),
    "count_waiting_for_resource": ({"resource": "cold", "most": MOST_COUNTED}, MOST_COUNTED),
    "failure_group": ({"fingerprint": "f1"}, 0),
    "failure_flow": ({"fingerprints": ["f1", "f2"], "window": 3600.0, "step": 60.0}, 0),
    "failure_samples": ({"fingerprint": "old", "limit": 5}, 5),
    "failure_tasks": ({"fingerprints": ["old", "new"], "limit": 5}, 24),  # an attempt and its task
    "newest_finished": ({"window": timedelta(seconds=1e9), "most": 100}, 100),
    "sample_finished": ({"window": timedelta(seconds=1e9), "most": 100}, 220),  # a row per step of the bisection
    "list_periodic": ({}, 0),
    "dead_letter": ({"id": 5}, 1),
    "get_task": ({"id": 5}, 1),
    "attempts": ({"id": 5}, 1),
    "workers": ({}, 0),
    "canaries": ({"id": 1, "most": 21}, 2 * 11 + 1 + 21),
    "canaries of none": ({"id": 2, "most": 21}, 0),
    "failed_in_replay": ({"id": -1, "cursor": 0, "newest": 90_000, "limit": 100}, 100),
    "resume_replay": ({"id": 1}, 1000 + 11),
    "replay_dead_letter": ({"id": 5}, 3),
    "replay_dead_letters": ({"ids": list(range(1, 501)), "replay_id": 1, "canary": True}, 3 * 500),
    "discard_dead_letters": ({"ids": [5]}, 2),
    "edit_payload": ({"id": 5, **dict.fromkeys(("before", "after", "patch", "who", "reason"), "{}")}, 4),
    "oldest_dead_letter": ({"look": 100}, 100),
    "oldest_dead_letter of each group": ({"look": 0}, 2),
    "unannounced_groups": ({"limit": 100, "quiet": 259200.0}, 0),
    "prune_groups": ({"seconds": 1.0, "batch": 1000}, 0),
}
"""What each reads of the large tables at most."""


@pytest.fixture(scope="module")
def failed(full, postgres_server):
    """The same, with dead letters whose older half is of another kind than the newer."""
    with postgres_server.connect() as connection:
        for fill in (LETTERS, ATTEMPTS):
            connection.execute(fill, {"count": MANY // 2})
        connection.execute(GROUPS, {"count": MANY // 10})
        connection.execute(REPLAYED)
    postgres_server.execute(*(f"ANALYZE plans.{table}" for table in (*BIG, "failure_groups")))
    return full


def _read_of(nodes, *tables):
    """Return how many rows of some tables were read, also those that were passed over."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes
        if node.get("Relation Name") in tables and node["Node Type"] != "ModifyTable"
    )


def _has_scan(nodes, *tables):
    return any(node["Node Type"] == "Seq Scan" and node["Relation Name"] in tables for node in nodes)


@pytest.mark.parametrize("walk", WALKS)
def test_a_list_reads_a_page(failed, postgres_server, walk):
    name, values, most = WALKS[walk]
    nodes = explain(postgres_server, failed, name, values, "force_custom_plan")
    assert not _has_scan(nodes, *BIG)
    assert _read_of(nodes, *BIG) <= most


def test_a_list_of_one_time_begins_there(failed, postgres_server):
    """A minute of it on both sides, and a hundred that tell where that is."""
    with postgres_server.connect() as connection:
        (middle,) = connection.execute(
            "SELECT moved_to_dlq_at FROM plans.dead_letter_queue ORDER BY id OFFSET 9000 LIMIT 1"
        ).fetchone()
        (end,) = connection.execute(
            "SELECT moved_to_dlq_at FROM plans.dead_letter_queue ORDER BY id OFFSET 9010 LIMIT 1"
        ).fetchone()
    values = NO_LETTERS | {"since": middle, "until": end}
    nodes = explain(postgres_server, failed, "list_dead_letters", values, "force_custom_plan")
    assert not _has_scan(nodes, *BIG)
    assert _read_of(nodes, *BIG) <= 500


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", WHOLES)
def test_what_a_page_shows_is_not_counted_row_by_row(failed, postgres_server, name, mode):
    values, most = WHOLES[name]
    nodes = explain(postgres_server, failed, name.partition(" ")[0], values, mode)
    assert not _has_scan(nodes, *BIG)
    assert _read_of(nodes, *BIG) <= most


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_a_replay_reads_what_it_takes(failed, postgres_server, step):
    name, values, most = STEPS[step]
    nodes = explain(postgres_server, failed, name, values, "force_custom_plan")
    assert not _has_scan(nodes, *BIG)
    assert _read_of(nodes, *BIG) <= most


def test_what_is_counted_row_by_row_is_counted_once(failed, postgres_server):
    nodes = explain(postgres_server, failed, "counts_and_rows", {}, "force_custom_plan")
    assert _read_of(nodes, "task_queue") + _read_of(nodes, "dead_letter_queue") >= 3 * MANY + READY + MANY


def test_queues_are_counted_without_what_is_over(failed, postgres_server):
    nodes = explain(postgres_server, failed, "queues", {}, "force_generic_plan")
    assert _read_of(nodes, "task_queue") <= 2 * MANY + READY


@pytest.mark.parametrize(
    ("name", "narrow"),
    [
        ("list_failure_groups_by_last_seen", {}),
        ("list_failure_groups_by_size", {}),
        ("list_failure_groups_by_category", {"category": "old"}),
        ("list_failure_groups_by_task_type", {"task_type": "old"}),
        ("list_failure_groups_by_last_seen", {"standing": "open", "since": datetime(2020, 1, 1, tzinfo=UTC)}),
        ("list_failure_groups_by_size", {"standing": "open", "until": datetime(2100, 1, 1, tzinfo=UTC)}),
    ],
)
def test_groups_are_read_along_their_order(failed, postgres_server, name, narrow):
    nodes = explain(postgres_server, failed, name, NO_GROUPS | narrow, "force_custom_plan")
    assert not _has_scan(nodes, *BIG, "failure_groups")
    assert _read_of(nodes, "failure_groups") <= ONE_PAGE
