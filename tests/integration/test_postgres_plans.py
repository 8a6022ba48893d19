"""What a claim costs does not depend on what waits, cools or is over (pitfall 51)."""

from __future__ import annotations

import json

import psycopg
import pytest

from conformance.acting import register
from holdfast.stores.postgres.store import PostgresStore

MANY = 200_000
READY = 2_000
ASKED = {
    "worker_id": "w1",
    "done": "{}",
    "done_epochs": "{}",
    "begun": "{}",
    "begun_epochs": "{}",
    "queues": ["default", "other"],
    "most": "100",
    "start": "100",
}
FILL = """
INSERT INTO plans.task_queue (task_type, queue, priority, next_run_after, resource, status, finished_at)
SELECT 'scrape', 'default', n %% 10, now() + %(wait)s::interval, %(resource)s, %(status)s, now()
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
        sql = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store.db.sql["turn"]
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
