"""What waits, cools or is over costs a claim nothing: by the plans, and by counting what SQLite does."""

import json
import re

import pytest

from conformance.acting import claim, ids, register, task, turn
from conformance.polling import FAILURE, add_feeds, fail, record
from outlast.decide.source_health import SourceRules
from outlast.ports.job_rows import RunState, TargetDone, TargetStatus
from outlast.ports.rows import Claim
from outlast.ports.source_rows import AlertResult, Closing, NewAlert
from outlast.sql_files import load_statements
from outlast.stores.sqlite.store import SqliteStore

SQL = load_statements("outlast.stores.sqlite")
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

# Of each five sources one is scheduled, one cools down, one waits for its probe and two were disabled by hand.
FILL_SOURCES = """
WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)
INSERT INTO sources (url, profile, state, disabled_by, next_poll_at, not_before, cycle, outcome, epoch, created_at)
SELECT 'https://full.test/' || n, 'feed', CASE WHEN n % 5 > 1 THEN 'disabled' ELSE 'healthy' END,
    CASE n % 5 WHEN 2 THEN 'rule' WHEN 3 THEN 'hand' WHEN 4 THEN 'hand' END,
    CASE n % 5 WHEN 0 THEN :later ELSE 1 END, CASE n % 5 WHEN 1 THEN :later WHEN 2 THEN :later END,
    n % 3, 'failed', 1, 1
FROM numbers
"""
FILL_POLLS = "INSERT INTO source_polls (source_id, cycle, at, outcome) SELECT id, 1, 1, 'failed' FROM sources"
FILL_CYCLES = (
    "INSERT INTO cycles (profile, started_at, ended_at, sources) SELECT 'other', 1, 1, 1 FROM sources LIMIT 5000"
)
FILL_ALERTS = """
INSERT INTO alerts (key, kind, state, title, text, due_at, delivered_at, created_at)
SELECT 'full:' || id % 1000, 'first', 'error', '', '', 1, 1, 1 FROM sources
"""
FILL_RUNS = "INSERT INTO job_runs (id, job, env, started_at, ended_at) SELECT 'old ' || id, 'other', '', id, :later FROM sources"
# One target in a thousand is left to do.
FILL_TARGETS = """
INSERT INTO job_targets (run_id, source_id, status, attempts, fingerprint, finished_at)
SELECT run.value, 'item:' || sources.id, CASE sources.id % 1000 WHEN 7 THEN 'failed' WHEN 8 THEN 'skipped' ELSE 'success' END, 1, sources.id % 3, 1
FROM sources, json_each('["full", "other"]') AS run
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """An empty store, and one with much in it that is not ready."""
    folder = tmp_path_factory.mktemp("plans")
    made = []
    for name, rows in (("empty", 0), ("full", ROWS)):
        store = SqliteStore(folder / f"{name}.db", synchronous="NORMAL")
        store.create_schema()
        store.start_cooldown("cold", 10_000, "busy")
        if rows:
            store.db.write(lambda own, rows=rows: own.execute(FILL, {"rows": rows, "later": LATER}))
            store.db.write(lambda own, rows=rows: own.execute(FILL_SOURCES, {"rows": rows // 2, "later": LATER}))
            for sql in (FILL_POLLS, FILL_CYCLES, FILL_ALERTS):
                store.db.write(lambda own, sql=sql: own.execute(sql))
            store.db.write(lambda own: own.execute(FILL_RUNS, {"later": LATER}))
            store.db.write(lambda own: own.execute(FILL_TARGETS))
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


def poll_and_tell(store):
    """A cycle of twenty sources, half of which are disabled; what there is to tell is told."""
    numbers = add_feeds(store, 20)
    cycle = store.open_cycle("feed")
    assert cycle.sources == 20
    claimed = [*store.claim_sources(cycle.id, "m1", 10, 60), *store.claim_sources(cycle.id, "m2", 10, 60)]
    assert (store.renew_sources("m1", 60), store.release_sources("m2")) == (10, 10)
    store.change_sources({each.id: (each.epoch, fail(SourceRules(threshold=1))) for each in claimed[:10]})
    record(store, *claimed, outcome="failed", pending=FAILURE)
    assert (
        store.close_cycle(cycle.id, lambda run, *_: Closing(run._replace(ended_at=run.started_at), True, []))
        is not None
    )
    alerts = store.claim_alerts(20, 60)
    assert store.settle_alerts([AlertResult(each.id, each.epoch, (), None) for each in alerts]) == 10
    assert len(store.polls(numbers[0], 100)) == 3
    store.remove_sources(numbers)


def run_a_job(store):
    """A run of twenty targets, written twice, read, compared and deleted."""
    run_id, other = "run 1", "run 2"
    for name in (run_id, other):
        store.add_run(name, "items", None, "test", None)
        given = [TargetDone(f"t{n}", list(TargetStatus)[n % 4], fingerprint=str(n % 3)) for n in range(20)]
        assert (store.add_targets(name, given), store.add_targets(name, given)) == (20, 0)
    assert len(store.done_targets(run_id, [f"t{n}" for n in range(30)])) == 10
    assert sum(store.target_counts(run_id).values()) == 20
    assert len(store.targets(run_id, statuses=[TargetStatus.FAILED, TargetStatus.DEFERRED])) == 10
    assert len(store.targets(run_id, after="t1", limit=5)) == 5
    assert len(store.failure_groups(run_id)) == 3
    assert store.compare_runs(run_id, other) == {"fixed": 0, "broken": 0, "still": 10}
    assert len(store.runs(limit=1)) == 1
    for name in (run_id, other):
        store.end_run(name, RunState.DONE, 0, {})
        store.reopen_run(name)
        store.end_run(name, RunState.DONE, 0, {})
    assert store.prune_runs(-10) == 2


ACTIONS = {
    "a run of a job": run_a_job,
    "a round of polls": poll_and_tell,
    "an idle look for due sources": lambda store: store.open_cycle("feed"),
    "an idle claim of sources": lambda store: store.claim_sources(1, "m1", 100, 60),
    "leases of nobody": lambda store: store.renew_sources("m9", 60) + store.release_sources("m9"),
    "an idle claim of alerts": lambda store: store.claim_alerts(100, 60),
    "no news": lambda store: store.raise_alerts([NewAlert("full:1", None, "")] * 2),
    "a probe": lambda store: store.probe("cold", 60),
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
    "cool": lambda store: store.start_cooldown("cold", 20_000, "again"),
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
        ("claimable_tasks", "task_queue_ready", r"\(queue=\? AND priority=\? AND next_run_after<\?\)"),
        ("claimable_suspects", "task_queue_suspects", r"\(queue=\? AND next_run_after<\?\)"),
        ("next_due", "task_queue_ready", r"\(queue=\? AND priority=\?\)"),
        ("latest_by_key", "task_queue_celery", r"\(unique_key=\?\)"),
    ],
)
def test_the_plan(stores, query, index, condition):
    """Pitfall 51: an index range, and no row of the table is looked at that is not given."""
    names = set(re.findall(r":(\w+)", SQL[query]))
    values = {"queues": json.dumps(["default"]), "now": 1, "limit": 10, "unique_key": "celery:1", "task_type": "t"}
    steps_of_plan = plan(stores[1], query, **{name: values[name] for name in names if name in values})
    text = "\n".join(steps_of_plan)
    assert re.search(rf"SEARCH task_queue USING (COVERING )?INDEX {index} {condition}", text), text
    assert "SCAN task_queue" not in text
    assert "TEMP B-TREE" not in text, "the index has the order already"


@pytest.mark.parametrize(
    ("query", "steps_of_plan"),
    [
        ("due_sources", [r"sources USING INDEX sources_due \(profile=\? AND <expr><\?\)"]),
        ("due_sources", [r"sources USING INDEX sources_probed \(profile=\? AND <expr><\?\)"]),
        ("pollable_sources", [r"sources USING INDEX sources_due \(profile=\?\)"]),
        ("claim_sources", [r"sources USING INDEX sources_cycle \(cycle=\? AND outcome=\?\)", "sources USING INTEGER"]),
        (
            "cycle_to_end",
            [r"sources USING INDEX sources_cycle \(cycle=\? AND outcome=\?\)", "cycles USING INTEGER"],
        ),
        ("last_cycle", [r"cycles USING INDEX cycles_profile \(profile=\?\)"]),
        ("sources_of_cycle", [r"sources USING INDEX sources_cycle \(cycle=\?\)"]),
        ("prune_cycles", [r"cycles USING INDEX cycles_profile \(profile=\? AND id<\?\)"]),
        ("withdraw_failures", [r"sources USING INDEX sources_cycle \(cycle=\?\)"]),
        ("renew_source_leases", [r"sources USING INDEX sources_leased \(lease_owner=\?\)"]),
        ("release_source_leases", [r"sources USING INDEX sources_leased \(lease_owner=\?\)"]),
        ("prune_polls", [r"source_polls USING INDEX source_polls_source \(source_id=\?\)"]),
        ("list_polls", [r"source_polls USING INDEX source_polls_source \(source_id=\?\)"]),
        (
            "recent_polls",
            [
                r"source_polls USING (?:COVERING )?INDEX source_polls_source \(source_id=\?\)",
                r"polls USING INTEGER PRIMARY KEY \(rowid=\?\)",
            ],
        ),
        ("claimable_alerts", [r"older USING INDEX alerts_waiting_by_key \(key=\? AND id<\?\)"]),
        ("claim_alerts", ["alerts USING INTEGER PRIMARY KEY"]),
        ("last_alert_state", [r"alerts USING INDEX alerts_key \(key=\?\)"]),
        ("overdue_alerts", [r"newer USING INDEX alerts_key \(key=\? AND id>\?\)"]),
        (
            "prune_alerts",
            [
                r"alerts USING INDEX alerts_done \(delivered_at<\?\)",
                r"older USING INDEX alerts_key \(key=\? AND id<\?\)",
            ],
        ),
        ("update_source_at_cycle_end", ["sources USING INTEGER PRIMARY KEY"]),
    ],
)
def test_the_plan_for_sources(stores, query, steps_of_plan):
    """By an index, and what waits to be told by an index that has nothing else in it."""
    rows = stores[1].db.read(
        lambda own: own.execute(f"EXPLAIN QUERY PLAN {SQL[query]}", dict.fromkeys(_names(SQL[query]), 1)).fetchall()
    )
    text = "\n".join(row[3] for row in rows)
    for step in steps_of_plan:
        assert re.search(rf"SEARCH {step}", text.replace(" COVERING", "")), text
    scans = re.findall(r"SCAN (?:sources|source_polls|cycles|alerts)\b.*", text)
    claims = query in {"claimable_alerts", "claim_alerts"}
    assert scans == (["SCAN alerts USING INDEX alerts_waiting"] if claims else []), text


LEFT = r"USING INDEX job_targets_left \(run_id=\?"
BY_ID = r"USING PRIMARY KEY \(run_id=\? AND source_id=\?\)"


@pytest.mark.parametrize(
    ("query", "steps_of_plan"),
    [
        ("done_targets", [rf"target {BY_ID}"]),
        ("list_targets", [r"job_targets USING PRIMARY KEY \(run_id=\? AND source_id>\?\)"]),
        ("list_unfinished_targets", [rf"job_targets {LEFT} AND source_id>\?\)"]),
        ("count_targets", [r"job_targets USING PRIMARY KEY \(run_id=\?\)"]),
        ("group_failed_targets", [rf"job_targets {LEFT}\)", rf"job_targets {BY_ID}"]),
        ("compare_runs", [rf"first {LEFT}\)", rf"later {BY_ID}", rf"later {LEFT}\)", rf"first {BY_ID}"]),
        ("expired_runs", [r"job_runs USING INDEX job_runs_ended \(ended_at<\?\)"]),
        ("prune_targets", [rf"job_targets {BY_ID}", r"job_targets USING PRIMARY KEY \(run_id=\?\)"]),
        ("prune_run", [r"job_runs USING PRIMARY KEY \(id=\?\)", r"job_targets USING PRIMARY KEY \(run_id=\?\)"]),
        ("reopen_run", [r"job_runs USING PRIMARY KEY \(id=\?\)"]),
        ("end_run", [r"job_runs USING PRIMARY KEY \(id=\?\)"]),
    ],
)
def test_the_plan_for_jobs(stores, query, steps_of_plan):
    """By an index: what is left to do by one that has no success in it, and one target by its key."""
    for store in stores:
        text = "\n".join(plan(store, query, **dict.fromkeys(_names(SQL[query]), 1)))
        for step in steps_of_plan:
            assert re.search(rf"SEARCH {step}", text.replace(" COVERING", "")), text
        assert not re.search(r"SCAN (job_targets|job_runs|first|later|target)\b", text), text
        if query.startswith("list_") or query in {"done_targets", "prune_targets"}:
            assert "TEMP B-TREE" not in text, "the index has the order already"


def test_what_is_left_to_do_is_found_without_its_successes(stores):
    """And what is left of a run of a hundred thousand costs what a hundred targets do."""
    full = stores[1]
    left = [TargetStatus.FAILED, TargetStatus.DEFERRED]
    everything = steps(full, lambda store: store.target_counts("full"))
    assert len(full.targets("full", statuses=left)) == ROWS // 2 // 1000
    for ask in (
        lambda store: store.targets("full", statuses=left),
        lambda store: store.failure_groups("full"),
        lambda store: store.compare_runs("full", "other"),
    ):
        assert steps(full, ask) < everything / 20


def _names(sql):
    return set(re.findall(r":(\w+)", sql))


def test_settling_goes_by_number(stores):
    for name in ("settle_done", "mark_started", "settle_retry", "settle_fail", "lost_claims"):
        values = {"done": "[[1,1]]", "ids": "[1]", "now": 1, "id": 1, "epoch": 1, "delay": 0, "error": "", "spent": 1}
        values["suspect"] = 0
        names = set(re.findall(r":(\w+)", SQL[name]))
        text = "\n".join(plan(stores[1], name, **{key: values[key] for key in names}))
        assert "SEARCH task_queue USING INTEGER PRIMARY KEY" in text, (name, text)
        assert "SCAN task_queue" not in text, (name, text)
