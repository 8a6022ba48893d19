"""What is asked of a run costs what it is about: a target its key, what is left to do its own number, whatever succeeded."""

from __future__ import annotations

import json

import pytest

from integration.postgres_plans import explain, passed_over, read, used
from outlast.ports.job_rows import TargetStatus
from outlast.stores.postgres.store import PostgresStore

MANY = 100_000
LEFT = MANY // 1000
MODES = ["force_custom_plan", "force_generic_plan"]
RUNS = """
INSERT INTO job_plans.job_runs (id, job, env, started_at, ended_at, state)
SELECT 'old ' || n, 'job ' || n %% 100, '', now() - n * interval '1 minute', now(), 'done' FROM generate_series(1, %(count)s) AS n
"""
TARGETS = """
INSERT INTO job_plans.job_targets (run_id, source_id, status, attempts, fingerprint)
SELECT %(run)s, 'item:' || n, CASE n %% 1000 WHEN 7 THEN 'failed' ELSE 'success' END, 1, n %% 3
FROM generate_series(1, %(count)s) AS n
"""
PKEY, INDEX = "job_targets_pkey", "job_targets_left"
GIVEN = json.dumps([{"source_id": f"item:{n}", "status": "failed", "attempts": 1} for n in range(500)])
IDS = [f"item:{n}" for n in range(1, 2001)]
QUERIES = {
    "done_targets": {"run_id": "r1", "ids": IDS},
    "list_unfinished_targets": {"run_id": "r1", "statuses": ["failed"], "after": None, "limit": None},
    "list_targets": {"run_id": "r1", "statuses": ["success", "failed"], "after": "item:5", "limit": 100},
    "group_failed_targets": {"run_id": "r1", "limit": 5},
    "compare_runs": {"before": "r1", "after": "r2"},
    "prune_targets": {"id": "old 1", "seconds": -10.0, "after": None, "batch": 2000},
}


@pytest.fixture(scope="module")
def store(postgres_server):
    postgres_server.execute("DROP SCHEMA IF EXISTS job_plans CASCADE")
    store = PostgresStore(postgres_server.url, schema="job_plans")
    store.create_schema()
    yield store
    store.close()
    postgres_server.execute("DROP SCHEMA job_plans CASCADE")


@pytest.fixture(scope="module")
def empty_plans(store, postgres_server):
    """The plans that a run keeps that began on empty tables."""
    return {
        name: explain(postgres_server, store, name, QUERIES[name], "force_generic_plan")
        for name in ("done_targets", "prune_targets")
    }


@pytest.fixture(scope="module")
def full(store, empty_plans, postgres_server):
    with postgres_server.connect() as connection:
        connection.execute(RUNS, {"count": 10_000})
        for run in ("r1", "r2", "r3"):
            connection.execute(TARGETS, {"run": run, "count": MANY})
    with postgres_server.connect(autocommit=True) as connection:
        for table in ("job_runs", "job_targets"):
            connection.execute(f"VACUUM ANALYZE job_plans.{table}")
    return store


@pytest.mark.parametrize("name", ["done_targets", "prune_targets"])
def test_a_plan_made_on_empty_tables_uses_the_indexes_already(empty_plans, name):
    assert used(empty_plans[name]) <= {PKEY, "job_runs_pkey", "job_runs_ended"}
    assert PKEY in used(empty_plans[name])


@pytest.mark.parametrize("mode", MODES)
def test_targets_are_found_by_their_ids(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "done_targets", QUERIES["done_targets"], mode)
    assert used(nodes) == {PKEY}
    assert read(nodes, PKEY) <= len(IDS)
    assert passed_over(nodes) <= len(IDS) // 1000 + 1


@pytest.mark.parametrize("mode", MODES)
def test_what_is_left_to_do_is_found_without_its_successes(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "list_unfinished_targets", QUERIES["list_unfinished_targets"], mode)
    assert used(nodes) == {INDEX}
    assert read(nodes, INDEX) == LEFT
    assert passed_over(nodes) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_page_costs_a_page(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "list_targets", QUERIES["list_targets"], mode)
    assert used(nodes) == {PKEY}
    assert read(nodes, PKEY) <= 101


@pytest.mark.parametrize("mode", MODES)
def test_groups_are_made_of_failures_alone(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "group_failed_targets", QUERIES["group_failed_targets"], mode)
    assert used(nodes) == {INDEX, PKEY}
    assert read(nodes, INDEX) == LEFT
    assert read(nodes, PKEY) == 3


@pytest.mark.parametrize("mode", MODES)
def test_runs_are_compared_by_what_is_left_of_each(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "compare_runs", QUERIES["compare_runs"], mode)
    assert used(nodes) == {INDEX, PKEY}
    assert read(nodes, INDEX, PKEY) <= 4 * LEFT
    assert passed_over(nodes) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_touches_its_own_targets(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "add_targets", {"run_id": "r1", "targets": GIVEN}, mode)
    assert used(nodes) <= {"ModifyTable"}
    (insert,) = [node for node in nodes if node["Node Type"] == "ModifyTable"]
    assert insert["Conflict Arbiter Indexes"] == [PKEY]
    assert insert["Tuples Inserted"] + insert["Conflicting Tuples"] == 500


def test_the_newest_runs_are_read_and_no_others(full, postgres_server):
    for job, index in (("job 7", "job_runs_job"), (None, "job_runs_started")):
        values = {"job": job, "limit": 20, "before": None}
        nodes = explain(postgres_server, full, "list_runs", values, "force_custom_plan")
        assert used(nodes) == {index}
        assert read(nodes, index) == 20


def test_the_counts_are_right_in_a_full_store(full):
    assert full.target_counts("r1") == {
        TargetStatus.SUCCESS: MANY - LEFT, TargetStatus.FAILED: LEFT, TargetStatus.DEFERRED: 0, TargetStatus.SKIPPED: 0,
    }  # fmt: skip
    assert full.compare_runs("r1", "r2") == {"fixed": 0, "broken": 0, "still": LEFT}
