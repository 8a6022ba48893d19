"""Triage in PostgreSQL: what two who meet do to each other, what a kill leaves, and what each statement reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from conformance.acting import NOTE, add, bury, claim, fail, register, task, turn
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import DeadLetterFilter, Kind, Reason, Settlement, Status, TaskFilter
from outlast.ports.source_rows import NewAlert
from outlast.ports.triage import NewReplay, ReplayState, ReplayStep
from outlast.stores import shared_methods
from outlast.stores.postgres import dead_letters
from outlast.stores.postgres.connection import PostgresCursor
from outlast.stores.postgres.settle_and_claim import settle
from outlast.stores.postgres.store import PostgresStore

ALL = NewReplay(DeadLetterFilter(), who="ann")
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

BUSY = """
SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()
"""


@pytest.fixture(scope="module")
def server(postgres_server):
    yield postgres_server
    postgres_server.execute("DROP SCHEMA IF EXISTS triage CASCADE")


@pytest.fixture
def store(server):
    server.execute("DROP SCHEMA IF EXISTS triage CASCADE")
    store = PostgresStore(server.url, schema="triage")
    store.create_schema()
    yield store
    store.close()


def _bury_many(store, count, **more):
    """Let many tasks fail in one turn; return their numbers."""
    numbers = add(store, *(task(**more) for _ in range(count)))
    register(store, "undertaker")
    held = claim(store, "undertaker", count)
    notes = [Settlement(each.id, each.epoch, Kind.FAIL, 0.0, NOTE, Reason.EXHAUSTED) for each in held]
    turn(store, "undertaker", settlements=notes)
    store.leave("undertaker")
    return numbers


def _until(server, sql, wanted, seconds=20.0):
    with server.connect(autocommit=True) as connection:
        end = time.monotonic() + seconds
        while connection.execute(sql).fetchone()[0] != wanted:
            assert time.monotonic() < end, sql
            time.sleep(0.01)


def _step_beside(store, server, number, epoch, end):
    """Step while another transaction holds it up; end that one, and return what the step did."""
    steps = []
    thread = threading.Thread(target=lambda: steps.append(store.replay_step(number, epoch, 10, stage=2, canary=False)))
    thread.start()
    _until(server, WAITS, 1)
    end()
    thread.join(20)
    return steps


def _in_one_place(store, numbers):
    """See that each task is queued or has its dead letter, and that the books agree with the rows."""
    letters = {each.original_task_id for each in store.dead_letters(DeadLetterFilter())}
    tasks = [each for each in store.find(TaskFilter(limit=len(numbers))) if each.id in numbers]
    queued = {each.id for each in tasks if each.status is Status.QUEUED}
    failed = {each.id for each in tasks if each.status is Status.FAILED}
    assert queued | letters == set(numbers)
    assert failed == letters
    assert store.counts() == store.counter_check()[1]
    return queued


class TestTwoThatMeet:
    def test_of_two_workers_one_steps(self, store):
        """Each has claimed it when the other's lease was over, and both go on at once: one epoch holds."""
        numbers = _bury_many(store, 40)
        replay = store.add_replay(ALL)
        first = store.claim_replay("w1", -1.0)
        second = store.claim_replay("w2", 60.0)
        assert (first.epoch, second.epoch) == (1, 2)
        barrier = threading.Barrier(2)
        steps = {}

        def go(claimed):
            barrier.wait(20)
            steps[claimed.epoch] = store.replay_step(replay.id, claimed.epoch, 30, stage=2, canary=False)

        threads = [threading.Thread(target=go, args=(claimed,)) for claimed in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert steps == {1: None, 2: ReplayStep(30, 0, more=True)}
        assert len(_in_one_place(store, numbers)) == 30

    def test_who_holds_the_row_makes_others_wait_and_nothing_is_done_twice(self, store):
        """Both have the epoch, as two threads of one worker would."""
        numbers = _bury_many(store, 50)
        replay = store.add_replay(ALL)
        epoch = store.claim_replay("w1", 60.0).epoch
        steps = []

        def go():
            while (step := store.replay_step(replay.id, epoch, 3, stage=2, canary=False)) and step.more:
                steps.append(step)

        threads = [threading.Thread(target=go) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert store.replay_run(replay.id).replayed == 50
        assert {store.get(number).replays for number in numbers} == {1}
        assert _in_one_place(store, numbers) == set(numbers)

    def test_a_claim_passes_over_what_is_being_stepped(self, store, server):
        bury(store)
        one, two = store.add_replay(ALL), store.add_replay(ALL)
        epoch = store.claim_replay("w1", -1.0).epoch
        with server.connect() as other:
            assert other.execute(store.db.sql["lock_replay"], {"id": one.id, "epoch": epoch}).fetchall()
            assert store.claim_replay("w2", 60.0).id == two.id
            assert store.claim_replay("w3", 60.0) is None
        assert store.claim_replay("w3", 60.0).id == one.id

    def test_who_ends_it_waits_for_the_step(self, store, server):
        bury(store)
        replay = store.add_replay(ALL)
        epoch = store.claim_replay("w1", 60.0).epoch
        with server.connect() as other:
            other.execute(store.db.sql["lock_replay"], {"id": replay.id, "epoch": epoch})
            thread = threading.Thread(target=store.end_replay, args=(replay.id, ReplayState.CANCELLED))
            thread.start()
            _until(server, WAITS, 1)
            other.rollback()
        thread.join(20)
        assert store.replay_step(replay.id, epoch, 1, stage=0, canary=True) is None
        assert store.counts()["dead_letters"] == 1


class TestKeys:
    def test_one_taken_by_an_open_transaction_does_not_end_the_batch(self, store, server):
        """The look finds the key free; the writer who has it commits while the step waits for it."""
        letters = [bury(store, task(unique_key=f"k{n}")) for n in range(5)]
        replay = store.add_replay(ALL)
        epoch = store.claim_replay("w1", 60.0).epoch
        with server.connect() as mine:
            store.enqueue([task(unique_key="k2")], connection=mine)
            steps = _step_beside(store, server, replay.id, epoch, mine.commit)
        assert steps == [ReplayStep(4, 1, more=False)]
        assert store.replay_run(replay.id).conflict_ids == (letters[2].id,)
        assert [each.id for each in store.dead_letters(DeadLetterFilter())] == [letters[2].id]
        assert store.counts() == store.counter_check()[1]

    def test_one_that_is_given_back_is_taken(self, store, server):
        bury(store, task(unique_key="k"))
        replay = store.add_replay(ALL)
        epoch = store.claim_replay("w1", 60.0).epoch
        with server.connect() as mine:
            store.enqueue([task(unique_key="k")], connection=mine)
            steps = _step_beside(store, server, replay.id, epoch, mine.rollback)
        assert steps == [ReplayStep(1, 0, more=False)]

    def test_many_who_want_the_same_keys_do_not_wait_in_a_circle(self, store):
        """Replays from the oldest letter on, and enqueueing in the order of keys, which is the other way round."""
        keys = [f"k{n:02}" for n in range(30)]
        for key in reversed(keys):
            bury(store, task(unique_key=key))
        replay = store.add_replay(ALL)
        epoch = store.claim_replay("w1", 60.0).epoch
        barrier = threading.Barrier(2)
        errors = []

        def step():
            barrier.wait(20)
            try:
                store.replay_step(replay.id, epoch, 30, stage=2, canary=False)
            except psycopg.Error as error:
                errors.append(error)

        def enqueue():
            barrier.wait(20)
            try:
                store.enqueue([task(unique_key=key) for key in keys])
            except psycopg.Error as error:
                errors.append(error)

        threads = [threading.Thread(target=each) for each in (step, enqueue)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert errors == []
        run = store.replay_run(replay.id)
        assert run.replayed + run.conflicts == 30
        assert store.counts()["QUEUED"] == 30, "one live task for each key"
        assert store.counts() == store.counter_check()[1]


class TestKilled:
    def test_within_a_step_nothing_is_done(self, store, server):
        numbers = _bury_many(store, 30)
        replay = store.add_replay(ALL)
        store.claim_replay("w1", 60.0)
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, server.url, str(replay.id)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline().strip() == "within"
        os.kill(child.pid, signal.SIGKILL)
        child.wait(20)
        child.stdout.close()
        _until(server, BUSY, 0)
        assert _in_one_place(store, numbers) == set()
        run = store.replay_run(replay.id)
        assert (run.replayed, run.cursor, run.stage) == (0, replay.cursor, 0)
        step = store.replay_step(replay.id, 1, 20, stage=0, canary=True)
        assert step == ReplayStep(20, 0, more=True)
        assert len(_in_one_place(store, numbers)) == 20

    def test_again_and_again_each_task_is_in_one_place(self, store, server):
        numbers = _bury_many(store, 200)
        replay = store.add_replay(ALL)
        rounds = 0
        while store.replay_run(replay.id).cursor < replay.newest:
            rounds += 1
            assert rounds < 400
            child = subprocess.Popen(
                [sys.executable, "-c", STEPPER, server.url, str(replay.id)], stdout=subprocess.PIPE, text=True
            )
            child.stdout.readline()
            time.sleep(0.01 * (1 + rounds % 7))  # a kill at another moment each time is what is tried here
            os.kill(child.pid, signal.SIGKILL)
            child.wait(20)
            child.stdout.close()
            _until(server, BUSY, 0)
            queued = _in_one_place(store, numbers)
            assert store.replay_run(replay.id).replayed == len(queued)
        assert {store.get(number).replays for number in numbers} == {1}
        assert store.claim_replay("last", 60.0).epoch > 1


PROGRAM = """
import sys, time
from outlast.stores.postgres import dead_letters
from outlast.stores.postgres.store import PostgresStore
store = PostgresStore(sys.argv[1], schema="triage")
queue = dead_letters._requeue
def slow(cursor, ids, values):
    done = queue(cursor, ids, values)
    print("within", flush=True)
    time.sleep(60)
    return done
dead_letters._requeue = slow
store.replay_step(int(sys.argv[2]), 1, 20, stage=0, canary=True)
"""
STEPPER = """
import os, sys
from outlast.stores.postgres.store import PostgresStore
store = PostgresStore(sys.argv[1], schema="triage")
replay = store.claim_replay(f"w{os.getpid()}", -1.0)
print("ready", flush=True)
while (step := store.replay_step(replay.id, replay.epoch, 10, stage=2, canary=False)) and step.more:
    pass
"""


def test_a_step_looks_at_so_many_and_no_more(store, monkeypatch):
    """Of 30 the last one is meant, by a filter that no index helps with; the cursor moves with what was looked at."""
    monkeypatch.setattr(dead_letters, "MAX_ROWS_SCANNED", 10)
    for n in range(30):
        bury(store, task(queue="rare" if n in {0, 29} else "default"))
    replay = store.add_replay(NewReplay(DeadLetterFilter(queue="rare")))
    assert (replay.total, replay.newest - replay.cursor) == (2, 30)
    epoch = store.claim_replay("w1", 60.0).epoch
    steps = []
    while not steps or steps[-1].more:
        steps.append(store.replay_step(replay.id, epoch, 2, stage=2, canary=False))
    assert [step.replayed for step in steps] == [1, 0, 1]
    assert [step.more for step in steps] == [True, True, False]


def test_what_is_meant_is_counted_part_by_part(store, monkeypatch):
    monkeypatch.setattr(dead_letters, "_COUNT_SCAN", 4)
    letters = [bury(store, task("a" if n % 3 else "b")) for n in range(20)]
    of_b = [each.id for each in letters if each.task_type == "b"]
    for which, meant in (
        (DeadLetterFilter(), [each.id for each in letters]),
        (DeadLetterFilter(task_type="b"), of_b),
        (DeadLetterFilter(task_type="b", limit=2), of_b[-2:]),
        (DeadLetterFilter(limit=6), [each.id for each in letters[-6:]]),
        (DeadLetterFilter(limit=0), []),
        (DeadLetterFilter(ids=(of_b[0], of_b[3])), [of_b[0], of_b[3]]),
        (DeadLetterFilter(queue="default", before=of_b[2]), [each.id for each in letters if each.id < of_b[2]]),
        (DeadLetterFilter(category="network", text="TIMED"), [each.id for each in letters]),
        (DeadLetterFilter(fingerprint="f1", text="\0"), []),
        (DeadLetterFilter(task_type="nobody"), []),
    ):
        replay = store.add_replay(NewReplay(which))
        found = (replay.total, replay.cursor + 1, replay.newest) if meant else (replay.total, 1, replay.newest)
        assert found == ((len(meant), meant[0], meant[-1]) if meant else (0, 1, 0)), which
        assert store.replay_run(replay.id).filters == which


class TestOldGroups:
    @pytest.fixture
    def old(self, store, server):
        """Groups that were seen a hundred days ago: one of each kind."""
        gone, dead, noted, fresh, recent = (NOTE._replace(fingerprint=name) for name in "gdnfr")
        for note in (gone, noted, fresh, recent):
            assert store.discard(bury(store, note=note).id) == "discarded"
        bury(store, note=dead)
        server.execute("UPDATE triage.task_flow SET at = at - interval '1 hour' WHERE span = 0")
        store.roll_up()
        store.mark_group("n", note="known since spring")
        server.execute(
            "UPDATE triage.failure_groups SET last_seen = now() - interval '100 days' WHERE fingerprint <> 'r'"
        )
        assert store.discard(bury(store, note=fresh).id) == "discarded"
        return store

    def test_are_forgotten_if_nothing_is_left_of_them(self, old):
        assert {each.fingerprint for each in old.failures(FailureFilter()).rows} == set("gdnfr")
        assert old.prune(done_before=1e9) == 0
        assert {each.fingerprint for each in old.failures(FailureFilter()).rows} == set("dnfr")

    def test_one_that_comes_back_is_news(self, old, server):
        for group in old.unannounced_groups():
            old.raise_alerts([NewAlert(f"group:{group.fingerprint}", "new", "A new group", "")])
        server.execute("UPDATE triage.alerts SET delivered_at = now()")
        old.prune(done_before=1e9)
        assert old.unannounced_groups() == []
        bury(old, note=NOTE._replace(fingerprint="g"))
        assert [each.fingerprint for each in old.unannounced_groups()] == ["g"]


def test_a_failure_that_is_committed_after_the_resume_is_news(store, server):
    """Its dead letter has a smaller number than one that was seen: numbers are no order of commits."""
    _bury_many(store, 2)
    replay = store.add_replay(ALL)
    step = store.replay_step(replay.id, store.claim_replay("w1", 60.0).epoch, 2, stage=1, canary=True)
    assert step == ReplayStep(2, 0, more=False)
    register(store)
    late, seen = claim(store)
    with server.connect() as mine:
        settle(
            PostgresCursor(mine, store.db.sql), [Settlement(late.id, late.epoch, Kind.FAIL, 0.0, NOTE, Reason.CANARY)]
        )
        fail(store, seen)
        store.end_replay(replay.id, ReplayState.STOPPED, "it failed")
        assert store.resume_replay(replay.id).total == 3
        epoch = store.claim_replay("w1", 60.0).epoch
        assert store.replay_step(replay.id, epoch, 10, stage=0, canary=True) == ReplayStep(1, 0, more=False)
        mine.commit()
    assert store.canaries(replay.id).dead == late.id
    store.end_replay(replay.id, ReplayState.STOPPED, "it failed too")
    assert store.resume_replay(replay.id).total == 4
    epoch = store.claim_replay("w1", 60.0).epoch
    assert store.replay_step(replay.id, epoch, 10, stage=0, canary=True) == ReplayStep(1, 0, more=False)
    assert _in_one_place(store, [late.id, seen.id]) == {late.id, seen.id}


def test_the_oldest_is_found_behind_many_that_nobody_is_to_be_told_of(store, server, monkeypatch):
    """Both ways to it: among the very oldest, and group by group."""
    for name in ("snoozed", "taken on", "open"):
        for _ in range(3):
            bury(store, note=NOTE._replace(fingerprint=name))
    server.execute("UPDATE triage.dead_letter_queue SET moved_to_dlq_at = now() - (100 - id) * interval '1 minute'")
    newest = store.dead_letters(DeadLetterFilter(fingerprint="open"))[-1]
    expected = (100 - newest.id) * 60
    store.mark_group("snoozed", snooze=60)
    store.mark_group("taken on", acknowledged=True)
    for look in (100, 3):
        monkeypatch.setattr(shared_methods, "_OLDEST_SCAN", look)
        assert store.oldest_dead_letter() == pytest.approx(expected, abs=30)
    store.mark_group("open", acknowledged=True)
    assert store.oldest_dead_letter() is None


def test_edits_go_with_their_task(store):
    letter = bury(store)
    assert store.edit_payload(letter.id, "{}", '{"x":1}', "[]", "ann", "typo") == "edited"
    assert store.discard(letter.id) == "discarded"
    assert len(store.edits(letter.original_task_id)) == 1
    assert store.prune(done_before=-100) == 1
    assert store.edits(letter.original_task_id) == []
