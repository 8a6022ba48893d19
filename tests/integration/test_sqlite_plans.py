"""What waits, cools or is over costs a claim nothing: by the plans, and by counting what SQLite does."""

import json
import re

import pytest

from conformance.acting import claim, ids, register, task, turn
from holdfast.ports.rows import Claim
from holdfast.stores.queries import queries
from holdfast.stores.sqlite.store import SqliteStore

SQL = queries("holdfast.stores.sqlite")
ROWS = 200_000

FILL = """
WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)
INSERT INTO task_queue (task_type, queue, priority, status, resource, next_run_after, finished_at, created_at, updated_at)
SELECT 't', 'default', n % 2 * 5,
    CASE n % 4 WHEN 0 THEN 'DONE' WHEN 1 THEN 'FAILED' ELSE 'QUEUED' END,
    CASE n % 4 WHEN 2 THEN 'cold' END,
    :later, 1, 1, 1
FROM numbers
"""
LATER = 4_000_000_000_000


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """An empty store, and one with much in it that is not ready."""
    folder = tmp_path_factory.mktemp("plans")
    made = []
    for name, rows in (("empty", 0), ("full", ROWS)):
        store = SqliteStore(folder / f"{name}.db", synchronous="NORMAL")
        store.create_schema()
        store.cool("cold", 10_000, "busy")
        if rows:
            store.db.write(lambda own, rows=rows: own.execute(FILL, {"rows": rows, "later": LATER}))
            store.db.write(lambda own: own.execute("ANALYZE"))
        register(store, lease=3600)
        made.append(store)
    yield made
    for store in made:
        store.close()


def steps(store, action):
    """Return how many instructions SQLite runs for an action; no clock is involved."""
    count = 0

    def step():
        nonlocal count
        count += 1

    store.counts()
    connections = (store.db._writer, store.db._reader)
    for connection in connections:
        connection.set_progress_handler(step, 1)
    try:
        action(store)
    finally:
        for connection in connections:
            connection.set_progress_handler(None, 1)
    return count


def claim_and_finish(store):
    store.enqueue([task(priority=5 * (n % 2), resource="warm" if n % 3 == 0 else None) for n in range(20)])
    claimed = claim(store, limit=20, start=10)
    assert len(claimed) == 20
    turned = turn(store, done=[(each.id, each.epoch) for each in claimed], claim=Claim(("default", "other"), 20, 20))
    assert turned == ([], [])


ACTIONS = {
    "a round of work": claim_and_finish,
    "an idle claim": lambda store: claim(store, limit=100),
    "an idle claim of suspects": lambda store: claim(store, limit=1, suspect=True),
    "next_due": lambda store: store.next_due(["default", "other"]),
    "suspects_due": lambda store: store.suspects_due(["default", "other"]),
    "rescue": lambda store: store.rescue(3),
    "workers": lambda store: store.workers(),
    "heartbeat": lambda store: store.heartbeat("w1", 3600, "running"),
    "reconcile": lambda store: store.reconcile("w1", []),
    "unpark": lambda store: store.unpark(["t"]),
    "cool": lambda store: store.cool("cold", 20_000, "again"),
    "a taken key": lambda store: store.enqueue([task(unique_key="k"), task(unique_key="k")]),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_it_costs_the_same_however_much_waits(stores, action):
    """Pitfall 51."""
    empty, full = (steps(store, action) for store in stores)
    assert empty > 10, "something was counted"
    assert full < empty * 1.5 + 200
    for store in stores:
        store.cancel(ids(claim(store, limit=100)))


def plan(store, name, **values):
    rows = store.db.read(lambda own: own.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values).fetchall())
    return [row[3] for row in rows]


@pytest.mark.parametrize(
    ("query", "index", "condition"),
    [
        ("claimable", "task_queue_ready", r"\(queue=\? AND priority=\? AND next_run_after<\?\)"),
        ("claimable_suspect", "task_queue_suspects", r"\(queue=\? AND next_run_after<\?\)"),
        ("next_due", "task_queue_ready", r"\(queue=\? AND priority=\?\)"),
    ],
)
def test_the_plan(stores, query, index, condition):
    """Pitfall 51: an index range, and no row of the table is looked at that is not given."""
    names = set(re.findall(r":(\w+)", SQL[query]))
    values = {"queues": json.dumps(["default"]), "now": 1, "limit": 10}
    steps_of_plan = plan(stores[1], query, **{name: values[name] for name in names if name in values})
    text = "\n".join(steps_of_plan)
    assert re.search(rf"SEARCH task_queue USING (COVERING )?INDEX {index} {condition}", text), text
    assert "SCAN task_queue" not in text
    assert "TEMP B-TREE" not in text, "the index has the order already"


def test_settling_goes_by_number(stores):
    for name in ("settle_done", "mark_started", "settle_retry", "settle_fail", "refused"):
        values = {"done": "[[1,1]]", "ids": "[1]", "now": 1, "id": 1, "epoch": 1, "delay": 0, "error": "", "spent": 1}
        names = set(re.findall(r":(\w+)", SQL[name]))
        text = "\n".join(plan(stores[1], name, **{key: values[key] for key in names}))
        assert "SEARCH task_queue USING INTEGER PRIMARY KEY" in text, (name, text)
        assert "SCAN task_queue" not in text, (name, text)
