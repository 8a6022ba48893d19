"""What a look at sources and alerts costs does not depend on what is not due, polled already or told already."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from integration.postgres_plans import explain, passed_over, read, used
from outlast.stores.postgres.store import PostgresStore

MANY = 100_000
DUE = 1_000
FILL = """
INSERT INTO source_plans.sources (profile, url, next_poll_at, not_before, state, disabled_by, cycle, outcome, lease_owner)
SELECT %(profile)s, %(what)s || n, now() + %(wait)s::interval, now() + %(hold)s::interval, %(state)s, %(by)s, %(cycle)s,
    %(outcome)s, CASE WHEN n %% 100 = 0 THEN 'm1' END
FROM generate_series(1, %(count)s) AS n
"""
ALERTS = """
INSERT INTO source_plans.alerts (key, kind, state, title, text, delivered_at)
SELECT 'source:' || n %% %(keys)s, 'first', 'error', '', '', now() - %(ago)s::interval FROM generate_series(1, %(count)s) AS n
"""
MODES = ["force_custom_plan", "force_generic_plan"]
ONE = {
    "id": 7,
    "name": "",
    "state": "healthy",
    "consecutive_failures": 0,
    "probes": 0,
    "passed": 0,
    "next_poll_at": "2026-01-01T00:00:00+00:00",
    "cycle": 1,
    "epoch": 1,
}
LINE = {"source_id": 7, "cycle": 1, "at": "2026-01-01T00:00:00+00:00", "outcome": "changed", "attempts": 1}
DUE_INDEXES = {"sources_due", "sources_probes"}
ON_EMPTY_TABLES = {
    "any_source_due": ({"profile": "feed", "everything": False}, DUE_INDEXES),
    "claim_sources": (
        {"cycle": 4, "owner": "m2", "limit": 100, "lease": timedelta(seconds=60)},
        {"sources_waiting", "sources_pkey"},
    ),
    "renew_source_leases": ({"owner": "m1", "lease": timedelta(seconds=60)}, {"sources_held", "sources_pkey"}),
    "update_sources": ({"sources": json.dumps([ONE])}, {"sources_pkey"}),
    "update_sources_at_cycle_end": ({"sources": json.dumps([ONE])}, {"sources_pkey"}),
    "add_polls": ({"polls": json.dumps([LINE]), "kept": 200}, {"source_polls_pkey"}),
}


@pytest.fixture(scope="module")
def store(postgres_server):
    postgres_server.execute("DROP SCHEMA IF EXISTS source_plans CASCADE")
    store = PostgresStore(postgres_server.url, schema="source_plans")
    store.create_schema()
    yield store
    store.close()
    postgres_server.execute("DROP SCHEMA source_plans CASCADE")


@pytest.fixture(scope="module")
def empty_plans(store, postgres_server):
    """The plans that a monitor keeps that began on empty tables."""
    return {
        name: explain(postgres_server, store, name, values, "force_generic_plan")
        for name, (values, _) in ON_EMPTY_TABLES.items()
    }


@pytest.fixture(scope="module")
def full(store, empty_plans, postgres_server):
    rest = {"profile": "feed", "hold": None, "state": "healthy", "by": None, "cycle": 2, "outcome": "unchanged"}
    with postgres_server.connect() as connection:
        for given in (
            {"what": "scheduled", "wait": "1 hour", "count": MANY},
            {"what": "cooling", "wait": "-1 hour", "hold": "1 hour", "count": MANY // 10},
            {
                "what": "unwell",
                "wait": "-1 hour",
                "hold": "1 hour",
                "state": "disabled",
                "by": "rule",
                "count": MANY // 10,
            },
            {"what": "by hand", "wait": "-1 hour", "state": "disabled", "by": "hand", "count": MANY // 10},
            {"what": "due", "wait": "-1 hour", "count": DUE},
            {"what": "probed", "wait": "1 h", "hold": "-1 s", "state": "disabled", "by": "rule", "count": DUE},
            {"what": "waiting", "profile": "blog", "wait": "-1 h", "cycle": 4, "outcome": None, "count": DUE},
            {"what": "polled", "profile": "blog", "wait": "1 h", "cycle": 4, "count": 9 * DUE},
        ):
            connection.execute(FILL, rest | given)
        connection.execute(
            "INSERT INTO source_plans.source_polls (source_id, id, cycle, at, attempts, outcome)"
            " SELECT source, line, 1, now(), 1, 'changed' FROM generate_series(1, 500) AS source,"
            " generate_series(1, 200) AS line"
        )
        connection.execute(ALERTS, {"keys": DUE, "ago": "1 hour", "count": MANY})
        connection.execute(ALERTS, {"keys": DUE // 2, "ago": None, "count": DUE})
    with postgres_server.connect(autocommit=True) as connection:
        for table in ("sources", "source_polls", "alerts"):
            connection.execute(f"VACUUM ANALYZE source_plans.{table}")
    return store


@pytest.mark.parametrize("name", ON_EMPTY_TABLES)
def test_a_plan_made_on_empty_tables_uses_the_indexes_already(empty_plans, name):
    assert used(empty_plans[name]) == ON_EMPTY_TABLES[name][1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("profile", ["feed", "blog", "nobody"])
def test_the_look_for_what_is_due_reads_an_entry_at_most(full, postgres_server, mode, profile):
    nodes = explain(postgres_server, full, "any_source_due", {"profile": profile, "everything": False}, mode)
    assert used(nodes) == DUE_INDEXES
    assert sum(read(nodes, index) for index in DUE_INDEXES) <= 1
    assert passed_over(nodes) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_cycle_begins_with_what_is_due_and_reads_nothing_else(full, postgres_server, mode):
    values = {"profile": "feed", "everything": False, "cycle": 5}
    nodes = explain(postgres_server, full, "add_due_sources", values, mode)
    assert used(nodes) == DUE_INDEXES | {"sources_pkey"}
    for index in DUE_INDEXES:
        assert DUE <= read(nodes, index) < 5 * DUE, "what was rolled back leaves entries behind"
    assert read(nodes, "sources_pkey") == 2 * DUE
    assert passed_over(nodes) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_claim_meets_nothing_that_was_polled(full, postgres_server, mode):
    values = {"cycle": 4, "owner": "m2", "limit": 100, "lease": timedelta(seconds=60)}
    nodes = explain(postgres_server, full, "claim_sources", values, mode)
    assert used(nodes) == {"sources_waiting", "sources_pkey"}
    assert read(nodes, "sources_waiting") == 100
    assert passed_over(nodes) == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["renew_source_leases", "release_source_leases"])
def test_a_monitor_finds_what_it_holds(full, postgres_server, name, mode):
    nodes = explain(postgres_server, full, name, {"owner": "m1", "lease": timedelta(seconds=60)}, mode)
    assert used(nodes) == {"sources_held", "sources_pkey"}
    assert read(nodes, "sources_held") == DUE // 100


@pytest.mark.parametrize("mode", MODES)
def test_who_comes_too_early_to_end_a_cycle_reads_an_entry(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "lock_cycle", {"cycle": 4}, mode)
    assert read(nodes, "sources_waiting") == 1
    assert "Seq Scan" not in {node["Node Type"] for node in nodes if node.get("Relation Name") == "sources"}


@pytest.mark.parametrize("mode", MODES)
def test_a_change_of_one_source_touches_its_rows(full, postgres_server, mode):
    for name in ("update_sources", "update_sources_at_cycle_end"):
        written = explain(postgres_server, full, name, *ON_EMPTY_TABLES[name][:1], mode)
        assert used(written) == {"sources_pkey"}
    added = explain(postgres_server, full, "add_polls", *ON_EMPTY_TABLES["add_polls"][:1], mode)
    assert used(added) == {"source_polls_pkey"}
    assert read(added, "source_polls_pkey") == 2, "the last line, and the one that it pushes out"


@pytest.mark.parametrize("mode", MODES)
def test_the_histories_of_a_page_are_read_from_their_ends(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "recent_polls", {"ids": list(range(1, 26)), "limit": 40}, mode)
    assert used(nodes) == {"source_polls_pkey"}
    assert read(nodes, "source_polls_pkey") == 25 * 40


@pytest.mark.parametrize("mode", MODES)
def test_alerts_that_were_told_are_not_read_by_those_who_deliver(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "claim_alerts", {"limit": 100, "lease": timedelta(seconds=60)}, mode)
    assert used(nodes) <= {"alerts_waiting", "alerts_pkey", "alerts_key"}
    assert read(nodes, "alerts_key") <= DUE, "of what has recovered, the alert that began it"
    assert read(nodes, "alerts_waiting") <= 3 * DUE, "what waits is looked at twice, for those that hold others up"
    assert passed_over(nodes) <= DUE


@pytest.mark.parametrize("mode", MODES)
def test_what_was_told_last_of_a_matter_is_one_entry(full, postgres_server, mode):
    nodes = explain(postgres_server, full, "open_alerts", {"keys": ["source:1", "source:2", "nothing"]}, mode)
    assert used(nodes) == {"alerts_key"}
    assert read(nodes, "alerts_key") == pytest.approx(2, abs=0.1)
