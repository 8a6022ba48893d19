"""The parts of a worker by themselves, with a store that only takes notes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import psycopg
import pytest

import outlast
from outlast import clock
from outlast.errors import LeaseLostError
from outlast.ports.rows import Claimed, Kind, Note, Reason, Rescued, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.ports.store import seconds_left
from outlast.queue import claim_loop as claim_loop_module
from outlast.queue import heartbeat as heartbeat_module
from outlast.queue.admission import ClaimPace, ClaimPause
from outlast.queue.claim_loop import ClaimLoop, WorkerState, settle_one_by_one
from outlast.queue.heartbeat import LeaseHeartbeat, PeriodicDuty
from outlast.queue.runners import OutcomeQueue, Runners
from outlast.queue.settlement import Outcome, StartCooldown
from outlast.queue.spool import Spool
from outlast.run import signals as signals_module

NOTE = Note("E", "poison", "unknown", "f", '{"a": 1}', "Traceback")
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")


def claimed(number, *, started=True, suspect=False, name="t"):
    return Claimed(number, 1, name, "{}", 1, 0, None, None, 0.0, started, suspect)


class Notes:
    """A store that answers what it is told to."""

    poll = 0.05

    def __init__(self):
        self.turns, self.calls, self.gives, self.refuses = [], [], [], lambda turn: None
        self.suspects_due = lambda queues: True

    def settle_and_claim(self, turn):
        self.turns.append(turn)
        error = self.refuses(turn)
        if error is not None:
            raise error
        found = self.gives.pop(0) if turn.claim is not None and self.gives else []
        return SettleAndClaimResult(found, [])

    def __getattr__(self, name):
        return lambda *given, **more: self.calls.append((name, *given))

    def named(self, name):
        return [each for each in self.calls if each[0] == name]


class Hands:
    """Runners that run nothing."""

    def __init__(self, concurrency=2):
        self.concurrency, self.taken, self.outcome_queue = concurrency, [], OutcomeQueue()

    def start(self, batch):
        self.taken += [each for _, each in batch]

    def take_back(self):
        return []


@pytest.fixture
def store():
    return Notes()


@pytest.fixture
def loop(store):
    return ClaimLoop(store, WorkerState("w1"), {"t": SimpleNamespace(name="t")}, ("a", "b"), Hands())


def claims(store):
    return [each.claim for each in store.turns if each.claim is not None]


class TestClaims:
    def test_nothing_is_claimed_without_a_sure_lease(self, loop, store):
        loop.holds_lease = lambda: False
        loop.tick(0)
        assert store.turns == []
        loop.holds_lease = lambda: True
        loop.tick(0)
        assert len(claims(store)) == 1

    def test_queues_are_the_first_in_turn(self, loop, store):
        for _ in range(3):
            loop.worker.tasks_due = True
            loop.tick(0)
        assert [each.queues for each in claims(store)] == [("b", "a"), ("a", "b"), ("b", "a")]

    def test_after_a_pause_one_goes_first(self, loop, store):
        loop.outcome_queue.put(Outcome(1, 1, pause="disk full"), more=False)
        loop.state.running = 1
        loop.tick(0)
        assert claims(store) == []
        loop.worker.pause.until = time.monotonic() - 1
        store.gives = [[claimed(1)]]
        loop.tick(0)
        assert [each.limit for each in claims(store)] == [1]
        loop.outcome_queue.put(Outcome(1, 1), more=False)
        loop.tick(0)
        assert not loop.worker.pause.reason
        assert claims(store)[-1].limit > 1

    def test_a_pause_doubles_while_it_does_not_help(self):
        pause = ClaimPause()
        assert pause.failed(0, "full") == 5
        assert pause.failed(3, "full") == 2  # of the same pause
        assert (pause.limit(4, 9), pause.limit(6, 9)) == (0, 1)
        assert pause.failed(6, "full") == 10
        pause.succeeded(10)  # of one that ran before
        assert pause.limit(10, 9) == 0
        pause.succeeded(17)
        assert pause.limit(17, 9) == 9

    def test_it_reconciles_now_and_then(self, loop, store, monkeypatch):
        loop.tick(0)
        assert store.named("reconcile") == []
        monkeypatch.setattr(claim_loop_module, "_RECONCILE_EVERY", 0.05)
        time.sleep(0.06)
        loop.tick(0)
        loop.tick(0)
        assert store.named("reconcile") == [("reconcile", "w1", [])]


class TestWaiting:
    def test_a_store_that_fails_is_left_alone_for_as_long_as_was_said(self, loop):
        loop._store_pause.seconds = 0.4
        begun = time.monotonic()
        loop._wait(0.01)
        assert 0.4 <= time.monotonic() - begun < 3

    @pytest.mark.parametrize("how", ["stopping", "stop"])
    def test_but_not_for_longer_than_it_lives(self, loop, how):
        loop._store_pause.seconds = 60.0
        if how == "stopping":
            loop.worker.stopping = True
        else:
            loop.worker.stop.set()
        begun = time.monotonic()
        loop._wait(0.01)
        assert time.monotonic() - begun < 3

    def test_a_time_that_is_over_is_not_waited_for_when_hands_are_full(self, loop):
        loop.state.backlog, loop.state.due_at, loop.state.running = True, time.monotonic() - 1, 9
        begun = time.monotonic()
        loop._wait(0.2)
        assert time.monotonic() - begun >= 0.19

    def test_waiting_gets_longer(self, loop, store):
        store.refuses = lambda turn: psycopg.OperationalError("server closed the connection")
        waits = []
        for _ in range(9):
            loop._pause_after_store_error(psycopg.OperationalError("x"))
            waits.append(loop._store_pause.seconds)
        assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


class TestAlone:
    def test_others_are_claimed_first_after_a_suspect_however_long_it_was(self, loop, store):
        loop.worker.suspects_due = True
        store.gives = [[claimed(1, suspect=True)], [claimed(2)]]
        loop.tick(0)
        loop._suspect_turns._since -= 3600
        loop.outcome_queue.put(Outcome(1, 1), more=False)
        loop.tick(0)
        loop.tick(0)
        assert [each.suspect for each in claims(store)] == [True, False]

    def test_a_suspect_that_others_have_by_now_is_not_waited_for(self, loop, store):
        """While this worker's tasks ended another one may have begun to run suspects: one of them goes on."""
        loop.worker.suspects_due, store.suspects_due = True, lambda queues: False
        loop.tick(0)
        assert ([each.suspect for each in claims(store)], loop.worker.suspects_due) == ([False], False)

    def test_a_store_that_fails_when_it_is_asked_does_not_end_the_pump(self, loop, store):
        def suspects_due(queues):
            raise psycopg.OperationalError("gone")

        loop.worker.suspects_due, store.suspects_due = True, suspects_due
        loop.tick(0)
        assert loop._suspect_turns.task is None

    def test_a_crash_is_looked_for_again_when_its_wait_is_over(self, loop, store):
        loop.worker.suspects_due = True
        store.gives = [[claimed(1, suspect=True)]]
        loop.tick(0)
        before = time.monotonic()
        loop.outcome_queue.put(Outcome.of(Settlement(1, 1, Kind.CRASH, 30.0, NOTE)), more=False)
        loop.tick(0)
        assert before + 30 <= loop.state.due_at <= time.monotonic() + 30

    def test_the_end_of_a_suspect_is_seen_however_it_is_settled(self, loop, store):
        loop.worker.suspects_due = True
        store.gives = [[claimed(1, suspect=True)]]
        loop.tick(0)
        assert (claims(store)[0].suspect, loop._suspect_turns.task) == (True, 1)
        store.refuses = lambda turn: RuntimeError("odd") if turn.claim is not None or len(store.turns) == 2 else None
        loop.outcome_queue.put(Outcome(1, 1), more=False)
        loop.tick(0)
        assert (loop.state.held, loop._suspect_turns.task) == ({}, None)


class TestSettling:
    def test_a_resource_that_many_found_busy_is_cooled_once(self, loop, store):
        for number, seconds in enumerate((3, 9, 5)):
            loop.outcome_queue.put(Outcome(1, 1, cooldown=StartCooldown("api", seconds, "busy")), more=False)
            loop.outcome_queue.put(Outcome(2, 1, cooldown=StartCooldown(f"own{number}", 1, "busy")), more=False)
        loop.collect_outcomes()
        assert ("start_cooldown", "api", 9, "busy") in store.calls
        assert len(store.named("start_cooldown")) == 4

    def test_one_by_one_tries_without_the_texts(self, store):
        store.refuses = lambda turn: psycopg.DataError("x") if any(e.note is NOTE for e in turn.settlements) else None
        bad = Settlement(2, 1, Kind.FAIL, note=NOTE, reason=Reason.PERMANENT)
        answers = settle_one_by_one(store, SettleAndClaim("w1", [(1, 1)], [bad], []), Counter())
        assert answers == [(Kind.DONE, 1, []), (Kind.FAIL, 2, [])]
        (plain,) = store.turns[-1].settlements
        assert (plain.note.error_type, plain.note.failure, plain.note.traceback) == ("E", "{}", "")
        assert "poison" not in plain.note.error_message

    def test_one_by_one_tells_what_was_not_taken(self, store, caplog):
        store.refuses = lambda turn: psycopg.DataError("x") if turn.done == [(1, 1)] else None
        answers = settle_one_by_one(store, SettleAndClaim("w1", [(1, 1), (2, 1)], [], []), Counter())
        assert answers == [(Kind.DONE, 1, None), (Kind.DONE, 2, [])]
        assert caplog.text.count("refused a settlement") == 1

    def test_a_lost_lease_ends_it(self, store):
        store.refuses = lambda turn: LeaseLostError("w1")
        with pytest.raises(LeaseLostError):
            settle_one_by_one(store, SettleAndClaim("w1", [(1, 1), (2, 1)], [], []), Counter())

    def test_what_is_refused_altogether_is_kept(self, loop, store):
        store.gives = [[claimed(1), claimed(2)]]
        loop.tick(0)
        store.refuses = lambda turn: psycopg.errors.ReadOnlySqlTransaction("read-only")
        loop.outcome_queue.put(Outcome(1, 1), more=True)
        loop.outcome_queue.put(Outcome(2, 1), more=False)
        loop.tick(0)
        assert (set(loop.state.held), loop.unsettled) == ({1, 2}, 2)
        store.refuses = lambda turn: None
        loop.tick(0)
        assert (loop.state.held, loop.unsettled, loop.worker.outcomes[Kind.DONE]) == ({}, 0, 2)

    def test_a_success_that_is_refused_is_kept_however_often(self, loop, store):
        """It has no text that could be at fault, and what is done must not be done twice."""
        store.gives = [[claimed(1), claimed(2)]]
        loop.tick(0)
        store.refuses = lambda turn: psycopg.DataError("x") if (1, 1) in turn.done else None
        loop.outcome_queue.put(Outcome(1, 1), more=True)
        loop.outcome_queue.put(Outcome(2, 1), more=False)
        for _ in range(4):
            loop._store_pause.reset()
            loop.tick(0)
        assert (set(loop.state.held), loop.unsettled, loop.worker.outcomes[Kind.DONE]) == ({1}, 1, 1)
        store.refuses = lambda turn: None
        loop.tick(0)
        assert (loop.state.held, loop.unsettled, loop.worker.outcomes[Kind.DONE]) == ({}, 0, 2)

    def test_an_outcome_that_is_refused_in_every_form_ends_as_a_dead_letter(self, loop, store):
        store.gives = [[claimed(1), claimed(2)]]
        loop.tick(0)
        store.refuses = lambda turn: (
            OverflowError("too large") if any(each.kind is Kind.RETRY for each in turn.settlements) else None
        )
        for number in (1, 2):
            loop.outcome_queue.put(Outcome.of(Settlement(number, 1, Kind.RETRY, 1e17, NOTE)), more=False)
        for _ in range(4):
            loop._store_pause.reset()
            loop.tick(0)
        assert (loop.state.held, loop.unsettled) == ({}, 0)
        ends = [each for turn in store.turns for each in turn.settlements if each.kind is Kind.FAIL]
        assert {(each.task_id, each.reason, each.delay) for each in ends} == {
            (1, Reason.EXHAUSTED, 0.0),
            (2, Reason.EXHAUSTED, 0.0),
        }


class TestStalled:
    def test_what_waits_is_given_back(self, loop, store, monkeypatch):
        monkeypatch.setattr(claim_loop_module, "_STALLED_AFTER", 0.05)
        loop.pace.rate = 500.0
        store.gives = [[claimed(number, started=number < 4) for number in range(1, 9)]]
        loop.tick(0)
        assert len(loop.state.reserve) == 5
        time.sleep(0.06)
        loop.tick(0)
        released = [each for turn in store.turns for each in turn.settlements]
        assert {each.kind for each in released} == {Kind.RELEASE}
        assert {each.task_id for each in released} == {4, 5, 6, 7, 8}
        assert loop.pace.rate == 0.0


class TestPace:
    def test_what_ends_together_is_no_pace(self):
        pace = ClaimPace(4, 0.0)
        for second in range(1, 6):
            for _ in range(4):
                pace.finished(1, second + 0.0001)
            assert pace.rate < 10
            assert (pace.ahead, pace.held) == (0, 0)

    def test_a_steady_stream_is_one(self):
        pace = ClaimPace(4, 0.0)
        for number in range(1, 1001):
            pace.finished(1, number / 1000)
        assert 900 < pace.rate < 1100
        assert pace.ahead == pytest.approx(20, abs=3)

    def test_many_at_once_are_one_too(self):
        pace = ClaimPace(4, 0.0)
        pace.finished(50, 0.01)
        assert pace.ahead == 100

    def test_a_stall_ends_it(self):
        pace = ClaimPace(4, 0.0)
        pace.finished(60, 0.01)
        pace.finished(10, 0.015)
        pace.stalled(2.0)
        assert (pace.rate, pace.ahead, pace.held) == (0.0, 0, 0)
        pace.finished(1, 2.1)
        assert pace.rate == pytest.approx(10)


def beating(store, **more):
    given = {"lease": 0.4, "every": 0.1, "state": lambda: "running", "on_lost": lambda name: None}
    return LeaseHeartbeat(store, lambda: "w1", **(given | more))


class TestHeart:
    def test_the_lease_is_sure_for_less_than_it_is_worth(self, store, monkeypatch):
        now = [100.0]
        monkeypatch.setattr(heartbeat_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
        heart = beating(store, lease=20, every=5)
        assert heart.holds
        now[0] += 17.4
        assert heart.holds
        now[0] += 0.2
        assert not heart.holds
        heart.beat()
        assert heart.holds

    def test_a_lease_runs_from_when_it_was_asked_for(self, store, monkeypatch):
        now = [100.0]
        monkeypatch.setattr(heartbeat_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
        heart = beating(store, lease=20, every=5)
        store.heartbeat = lambda *given: now.__setitem__(0, now[0] + 18)  # the answer takes so long
        heart.beat()
        assert not heart.holds

    def test_it_tells_whose_lease_was_lost(self, store):
        told = []

        def heartbeat(worker_id, lease, state):
            raise LeaseLostError(worker_id)

        store.heartbeat = heartbeat
        heart = beating(store, on_lost=told.append)
        heart.beat()
        assert told == ["w1"]

    @pytest.mark.parametrize("which", ["monotonic", "wall"])
    def test_no_rescue_right_after_it_was_away(self, store, monkeypatch, which):
        """A laptop that slept would find the whole fleet dead, itself among them."""
        now = {"monotonic": 100.0, "wall": 100.0}
        monkeypatch.setattr(heartbeat_module, "time", SimpleNamespace(monotonic=lambda: now["monotonic"]))
        monkeypatch.setattr(clock, "now", lambda: now["wall"])
        store.rescue = lambda limit: rescues.append(limit) or []
        rescues, heart = [], beating(store, lease=20, every=5)
        heart.rescue(3)
        assert rescues == [3]
        now[which] += 60
        heart.rescue(3)
        assert (rescues, len(store.named("heartbeat"))) == ([3], 1)  # it says first that it lives
        for each in now:
            now[each] += 9
        heart.beat()
        heart.rescue(3)
        assert rescues == [3]
        for each in now:
            now[each] += 2
        heart.rescue(3)
        assert rescues == [3, 3]

    def test_a_rescue_does_not_wait_for_a_store_that_is_down(self, store):
        """It would be the first to be served when the store is back, and find itself among the dead."""
        store.rescue = lambda limit: waits.append(seconds_left(60.0)) or []
        waits, heart = [], beating(store, lease=20, every=5)
        heart.rescue(3)
        assert [4 < each <= 5 for each in waits] == [True]

    def test_a_chore_that_takes_long_or_fails_stops_no_beat(self, store, caplog):
        heart, asleep, go, others = beating(store, every=0.02), threading.Event(), threading.Event(), []

        def long():
            asleep.set()
            go.wait(10)

        def wrong():
            raise psycopg.OperationalError("gone")

        heart.duties = [PeriodicDuty(0.01, wrong), PeriodicDuty(0.01, lambda: others.append(1)), PeriodicDuty(60, long)]
        thread = threading.Thread(target=heart.run, daemon=True)
        thread.start()
        try:
            assert asleep.wait(5)
            before = len(store.named("heartbeat"))
            until(lambda: len(store.named("heartbeat")) - before >= 3 and others)
            until(lambda: "wrong failed (network)" in caplog.text)
        finally:
            go.set()
            heart.stop()
            thread.join(5)
        assert not thread.is_alive()

    def test_a_heart_without_chores_ends_as_well(self, store):
        heart = beating(store)
        thread = threading.Thread(target=heart.run, daemon=True)
        thread.start()
        heart.stop()
        thread.join(5)
        assert not thread.is_alive()

    def test_what_was_rescued_is_told(self, store, caplog):
        store.rescue = lambda limit: [Rescued(7, "w0", "suspect")]
        beating(store).rescue(3)
        assert "task 7 of lost worker w0 runs isolated next" in caplog.text


@contextmanager
def looping():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


class TestSlots:
    def test_what_waits_for_a_slot_can_be_taken_back_and_the_slot_is_not_lost(self):
        app, go, runs = outlast.App("memory://"), threading.Event(), []

        @app.task
        async def holder():
            runs.append("holder")
            await asyncio.to_thread(go.wait, 10)

        @app.task
        def sync():
            runs.append("sync")

        with looping() as loop:
            outcome_queue = OutcomeQueue()
            runners = Runners(1, outcome_queue, loop, mixed=True)
            runners.start([(holder, claimed(1, name="holder"))])
            until(lambda: runs == ["holder"])
            runners.start([(sync, claimed(2, name="sync")), (sync, claimed(3, name="sync"))])
            until(lambda: runners._at_slot)
            assert sorted(each.id for each in runners.take_back()) == [2, 3]
            assert runners.take_back() == []
            go.set()
            until(lambda: len(outcome_queue.outcomes) == 1)
            until(lambda: runners._slots.qsize() == 1)
            assert runs == ["holder"]
            runners.start([(sync, claimed(4, name="sync")), (holder, claimed(5, name="holder"))])
            until(lambda: len(outcome_queue.outcomes) == 3)
            runners.close()
        assert runs.count("sync") == 1


class TestSpool:
    def test_results_and_failures_come_back_as_they_were(self, tmp_path, store):
        kept = [
            Settlement(1, 2, Kind.DONE, result='{"a":"é"}', keep=60.0),
            Settlement(3, 4, Kind.FAIL, note=NOTE, reason=Reason.EXHAUSTED),
            Settlement(5, 6, Kind.RETRY, 1.5, NOTE, suspect=True),
        ]
        spool = Spool(tmp_path)
        assert spool.keep([(7, 8)], [*kept, Settlement(9, 1, Kind.RELEASE)])
        assert spool.replay(store, "w1") == 4
        assert store.turns[0].settlements == [Settlement(7, 8, Kind.DONE), *kept]
        assert list(tmp_path.iterdir()) == []

    def test_files_of_an_older_version_have_no_result(self, tmp_path, store):
        (tmp_path / "a.jsonl").write_text(
            '{"task_id": 1, "epoch": 2, "kind": "done", "delay": 0.0, "reason": null, "note": null}\n{"task_id": 3, "ep'
        )
        assert Spool(tmp_path).replay(store, "w1") == 1
        assert store.turns[0].settlements == [Settlement(1, 2, Kind.DONE)]

    def test_fields_of_a_newer_version_are_ignored(self, tmp_path, store):
        spool, kept = Spool(tmp_path), Settlement(1, 2, Kind.FAIL, note=NOTE, reason=Reason.EXHAUSTED)
        spool.keep([], [kept])
        (path,) = tmp_path.iterdir()
        line = json.loads(path.read_text())
        path.write_text(json.dumps(line | {"newer": 1, "note": line["note"] | {"newer": 2}}) + "\n")
        assert spool.replay(store, "w1") == 1
        assert store.turns[0].settlements == [kept]
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "line",
        ['{"task_id": 3, "ep', "[]", '{"task_id": 1, "epoch": 2, "kind": "newer", "note": null, "reason": null}'],
    )
    def test_a_file_with_a_line_that_is_not_valid_is_kept(self, tmp_path, store, line, caplog):
        spool = Spool(tmp_path)
        spool.keep([(1, 1)], [])
        (path,) = tmp_path.iterdir()
        text = path.read_text() + line
        path.write_text(text)
        assert spool.replay(store, "w1") == 1
        assert path.with_suffix(".refused").read_text() == text
        assert "lines that are not valid: 1" in caplog.text
        assert spool.replay(store, "w1") == 0

    def test_one_file_that_is_refused_does_not_hold_up_the_others(self, tmp_path, store):
        spool = Spool(tmp_path)
        for number in (1, 2, 3):
            spool.keep([(number, 1)], [])
        store.refuses = lambda turn: psycopg.DataError("x") if turn.settlements[0].task_id == 2 else None
        assert spool.replay(store, "w1") == 2
        assert [each.suffix for each in tmp_path.iterdir()] == [".refused"]
        assert spool.replay(store, "w1") == 0

    def test_a_worker_that_starts_now_leaves_a_file_that_is_being_written(self, tmp_path, store, monkeypatch):
        applied = []
        monkeypatch.setattr(os, "fsync", lambda _: applied.append(Spool(tmp_path).replay(store, "w2")))
        assert Spool(tmp_path).keep([(1, 1)], [])
        assert applied == [0]
        assert Spool(tmp_path).replay(store, "w1") == 1

    def test_a_lost_lease_is_not_the_fault_of_a_file(self, tmp_path, store):
        spool = Spool(tmp_path)
        spool.keep([(1, 1)], [])
        store.refuses = lambda turn: LeaseLostError("w1")
        with pytest.raises(LeaseLostError):
            spool.replay(store, "w1")
        assert [each.suffix for each in tmp_path.iterdir()] == [".jsonl"]


@pytest.mark.parametrize("commits", [False, True])
def test_the_first_task_of_a_new_file_in_a_transaction_of_the_callers(tmp_path, commits):
    import sqlite3

    app = outlast.App(f"sqlite:///{tmp_path}/queue.db")

    @app.task
    def hello():
        pass

    connection = sqlite3.connect(tmp_path / "queue.db")
    hello.enqueue(connection=connection)
    assert connection.in_transaction
    connection.commit() if commits else connection.rollback()
    connection.close()
    hello.enqueue()
    app.worker().drain()
    assert app.tasks.counts()["DONE"] == 1 + commits
    app.close()


class TestSignals:
    @pytest.fixture
    def signalled(self, monkeypatch):
        """What a signal calls, while a worker's block runs."""
        self.exits, self.caught = [], []
        monkeypatch.setattr(signals_module.os, "_exit", self.exits.append)
        self.worker = outlast.App("memory://").worker()
        loop = SimpleNamespace(
            add_signal_handler=lambda _, call: self.caught.append(call), remove_signal_handler=lambda _: None
        )
        with signals_module.stop_on_signals(loop, self.worker._stop_on_signal, lambda: None):
            yield self.caught[0]

    def test_two_within_a_moment_are_one(self, signalled):
        signalled()
        signalled()
        assert self.worker._stop.is_set()
        assert self.exits == []

    def test_a_later_one_ends_at_once(self, signalled, monkeypatch):
        signalled()
        monkeypatch.setattr(signals_module, "_SAME_SIGNAL", 0.0)
        signalled()
        assert self.exits == [1]

    def test_one_after_a_stop_is_the_first(self, signalled):
        self.worker.stop()
        signalled()
        assert self.exits == []


PROGRAM = """
import sys, time
from pathlib import Path
import outlast

app = outlast.App("sqlite:///queue.db", grace=20)
"""


def program(tmp_path, text):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + textwrap.dedent(text))
    return [sys.executable, str(script)]


@POSIX
def test_two_signals_at_once_let_the_running_task_finish(tmp_path):
    command = program(
        tmp_path,
        """
        @app.task
        def slow():
            Path("begun").touch()
            time.sleep(0.8)
            Path("finished").touch()

        if __name__ == "__main__":
            slow.enqueue()
            app.worker(concurrency=1).run()
        """,
    )
    process = subprocess.Popen(command, cwd=tmp_path)
    try:
        until((tmp_path / "begun").exists, 20)
        process.send_signal(signal.SIGSTOP)  # so that both are there when it goes on, however busy the machine is
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert (tmp_path / "finished").exists()


@POSIX
@pytest.mark.parametrize("call", ["task.enqueue()", "task.enqueue_many([{}])"])
def test_a_file_that_enqueues_while_it_is_loaded_does_not_multiply(tmp_path, call):
    """The task runs in a child, which loads the file: each run would enqueue the next."""
    command = program(
        tmp_path,
        f"""
        @app.task(timeout=20)
        def task():
            pass

        {call}
        if __name__ == "__main__":
            app.worker(concurrency=1).drain()
        """,
    )
    subprocess.run(command, cwd=tmp_path, timeout=60, check=True, capture_output=True)
    app = outlast.App(f"sqlite:///{tmp_path}/queue.db")
    [row] = app.tasks.list()
    [letter] = app.dead_letters.list()
    app.close()
    assert row.status == "FAILED"
    assert (letter.error_type, letter.error_category) == ("ConfigurationError", "configuration")
    assert "if __name__ == '__main__'" in letter.error_message
