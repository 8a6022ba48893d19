"""What the tests of query plans in PostgreSQL share: a plan as it was run, and what it read."""

from __future__ import annotations

import json

import psycopg


def explain(server, store, name, values, mode):
    with server.connect(autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        sql = b"EXPLAIN (ANALYZE, FORMAT JSON) " + store.db.sql[name]
        found = psycopg.ClientCursor(connection) if mode == "force_custom_plan" else connection.cursor()
        (plan,) = found.execute(sql, values).fetchone()
        return list(_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))


def _nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def used(nodes):
    """Return how tables are read: the index, or the kind of scan where there is none."""
    heaps = {"ModifyTable", "Bitmap Heap Scan"}
    return {
        node.get("Index Name", node["Node Type"])
        for node in nodes
        if ("Relation Name" in node or "Index Name" in node) and node["Node Type"] not in heaps
    }


def read(nodes, *indexes):
    return sum(node["Actual Rows"] * node["Actual Loops"] for node in nodes if node.get("Index Name") in indexes)


def passed_over(nodes):
    return sum(node.get("Rows Removed by Filter", 0) * node["Actual Loops"] for node in nodes)
