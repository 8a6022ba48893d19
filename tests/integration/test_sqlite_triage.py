"""Clearing up in a SQLite file: what it looks at, what is left of old groups, and what becomes of it without warning."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from conformance.acting import NOTE, add, bury, claim, fail, register, task
from outlast import clock
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import DeadLetterFilter, Status, TaskFilter
from outlast.ports.source_rows import AlertResult, NewAlert
from outlast.ports.triage import NewReplay, ReplayState, ReplayStep
from outlast.stores.sqlite import dead_letters
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import FakeClock

ALL = DeadLetterFilter()
DAY = 86400.0


@pytest.fixture
def store(tmp_path):
    made = SqliteStore(tmp_path / "outlast.db", synchronous="NORMAL")
    yield made
    made.close()


@pytest.fixture
def time():
    passing = FakeClock(1_700_000_000)
    before = clock.use(passing)
    yield passing
    clock.use(before)


class Watched:
    """A connection that notes what it is asked."""

    def __init__(self, connection, asked):
        self.connection, self.asked = connection, asked

    def execute(self, sql, values=()):
        self.asked.append((sql, values))
        return self.connection.execute(sql, values)


def plans(store, ask, monkeypatch):
    """Return the plans of all that a question takes."""
    asked, read, write = [], store.db.read, store.db.write
    with monkeypatch.context() as patch:
        patch.setattr(store.db, "read", lambda work: read(lambda own: work(Watched(own, asked))))
        patch.setattr(store.db, "write", lambda work: write(lambda own: work(Watched(own, asked))))
        ask()
    assert asked
    lines = []
    for sql, values in asked:
        rows = store.db.read(
            lambda own, sql=sql, values=values: own.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
        )
        lines += [row[3] for row in rows]
    return lines


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"task_type": "scrape"},
        {"category": "network"},
        {"fingerprint": "f1"},
        {"queue": "default"},
        {"reason": "exhausted"},
        {"text": "timed"},
        {"ids": (1, 2)},
        {"limit": 2},
    ],
    ids=str,
)
def test_no_table_is_scanned(store, monkeypatch, given):
    letters = [bury(store) for _ in range(3)]
    which = DeadLetterFilter(**given)

    def work():
        replay = store.add_replay(NewReplay(which))
        taken = store.claim_replay("me", 60)
        store.replay_step(replay.id, taken.epoch, 1, stage=0, canary=True)
        store.end_replay(replay.id, ReplayState.STOPPED, "bad")
        store.resume_replay(replay.id)
        store.edit_payload(letters[2].id, "{}", "[]", "[]", "ann", "")
        store.mark_group("f1", note="x", acknowledged=True, snooze=5)
        store.record_observed([("t", "retry", "network", "f1", "E", "m")])
        store.unannounced_groups()

    large = re.compile(r"SCAN (task_queue|dead_letter_queue|task_attempts|failure_groups|audit_log|alerts)\b")
    live = re.compile(r".* USING (COVERING )?INDEX (task_queue_(held|parked)|failure_groups_untold)\b")
    scans = [line for line in plans(store, work, monkeypatch) if large.match(line)]
    assert [line for line in scans if not live.match(line)] == []


def test_a_step_looks_at_so_many_and_goes_on_there(store, monkeypatch):
    monkeypatch.setattr(dead_letters, "_STEP_SCAN", 3)
    monkeypatch.setattr(dead_letters, "_COUNT_BATCH", 2)
    letters = [bury(store, task("rare" if n in {0, 8} else "often", queue="q")) for n in range(9)]
    replay = store.add_replay(NewReplay(DeadLetterFilter(queue="q", text="TIMED", reason="exhausted")))
    assert (replay.total, replay.newest, replay.cursor) == (9, letters[8].id, letters[0].id - 1)
    store.end_replay(replay.id, ReplayState.CANCELLED)
    monkeypatch.setattr(dead_letters, "scan_dead_letters", slow_walk)
    replay = store.add_replay(NewReplay(DeadLetterFilter(task_type="rare")))
    assert (replay.total, replay.cursor) == (2, letters[0].id - 1)
    taken = store.claim_replay("me", 60)
    steps = []
    while not steps or steps[-1].more:
        steps.append(store.replay_step(replay.id, taken.epoch, 10, stage=2, canary=False))
    assert steps == [ReplayStep(1, 0, True), ReplayStep(0, 0, True), ReplayStep(1, 0, False)]
    assert store.counter_check()[1] == store.counts()


def slow_walk(connection, which, *, after=None):
    """Walk along the table, where a filter has an index."""
    from outlast.stores.sqlite.reads import scan_dead_letters

    walk = scan_dead_letters(connection, which, after=after)
    sql = re.sub(r"INDEXED BY \w+", "NOT INDEXED", walk.sql).replace("AND task_type = :task_type\nORDER", "\nORDER")
    return walk._replace(sql=sql)


def test_old_groups_go_and_what_is_left_of_them_stays(store, time):
    def named(name):
        return NOTE._replace(fingerprint=name)

    letters = {name: bury(store, note=named(name)) for name in ("gone", "dead", "noted", "back", "late")}
    told = store.raise_alerts([NewAlert(f"group:{name}", "new", "t", "t") for name in letters])
    taken = store.claim_alerts(10, 60)
    assert store.settle_alerts([AlertResult(each.id, each.epoch, ("x",), None, None) for each in taken]) == len(told)
    assert store.unannounced_groups() == []
    for name in ("gone", "noted", "back", "late"):
        store.discard(letters[name].id)
    store.mark_group("noted", note="keep")
    time.advance(30)
    store.roll_up()
    books = store.event_totals()
    time.advance(89 * DAY)
    store.prune(done_before=1e9)
    assert len(store.failures(FailureFilter()).rows) == 5
    time.advance(2 * DAY)
    store.record_observed([("late", "retry", "network", "late", "E", "m")])
    assert store.prune(done_before=1e9) == 0
    names = {group.fingerprint for group in store.failures(FailureFilter()).rows}
    assert names == {"dead", "noted", "late"}, "one of them failed a moment ago"
    assert store.event_totals() == books | {"would_retry": 1}
    bury(store, note=named("back"))
    assert (store.failure("back").failures, store.failure("back").dead) == (1, 1)
    assert [group.fingerprint for group in store.unannounced_groups()] == ["back"], "that is news"
    assert [each.state for each in store.raise_alerts([NewAlert("group:back", "new", "t", "t")])] == ["new"]


def test_pruning_groups_goes_on_behind_those_that_stay(store, time):
    sql = (
        "WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 2500)"
        " INSERT INTO failure_groups (fingerprint, task_type, error_type, error_category, error_message, first_seen,"
        " last_seen, note) SELECT 'g' || n, 't', 'E', 'c', 'm', 1, n / 2, iif(n < 1500, 'kept', '') FROM n"
    )
    store.db.write(lambda own: own.execute(sql))
    store.prune(done_before=1)
    left = store.db.read(lambda own: own.execute("SELECT count(*) FROM failure_groups").fetchone()[0])
    assert left == 1499


PROGRAM = """
import os, signal, sys
from outlast.ports.rows import DeadLetterFilter
from outlast.stores.sqlite.store import SqliteStore
import outlast.stores.sqlite.dead_letters as replays

path, at = sys.argv[1], sys.argv[2]
store = SqliteStore(path)
name, _, number = at.partition(":")
seen = 0

def dying(function):
    def call(*args, **more):
        global seen
        result = function(*args, **more)
        seen += 1
        if seen == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

if name == "step":
    store.replay_step = dying(store.replay_step)
else:
    setattr(replays, name, dying(getattr(replays, name)))
replay = store.claim_replay("dying", 0.001)
while store.replay_step(replay.id, replay.epoch, 10, stage=2, canary=False).more:
    pass
"""


@pytest.mark.parametrize(
    ("at", "replayed"), [("requeue:25", 20), ("remove_dead_letters:3", 20), ("step:3", 30), ("_requeue_step:1", 0)]
)
def test_killed_anywhere_each_task_is_in_one_place(store, tmp_path, at, replayed):
    numbers = add(store, *(task() for _ in range(50)))
    register(store)
    for each in claim(store, limit=50):
        fail(store, each)
    replay = store.add_replay(NewReplay(ALL, canary=False))
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run([sys.executable, program, store.db.path, at], env=dict(os.environ), check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    letters = {each.original_task_id for each in store.dead_letters(ALL)}
    queued = {each.id for each in store.find(TaskFilter(status=Status.QUEUED, limit=100))}
    assert letters | queued == set(numbers)
    assert not letters & queued
    assert len(queued) == store.replay_run(replay.id).replayed == store.event_totals()["replayed"] == replayed
    assert store.counter_check()[1] == store.counts()
    taken = store.claim_replay("me", 60)
    assert taken.epoch == 2
    while store.replay_step(replay.id, taken.epoch, 10, stage=2, canary=False).more:
        pass
    assert store.replay_run(replay.id).replayed == 50
    assert {each.replays for each in store.find(TaskFilter(limit=100))} == {1}, "none was replayed twice"


def test_a_file_that_has_a_table_of_that_name_is_left_alone(tmp_path):
    from outlast.errors import ConfigError

    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE replays (mine TEXT)")
    connection.close()
    with pytest.raises(ConfigError, match="a table replays that Outlast did not create"):
        SqliteStore(path).counts()
