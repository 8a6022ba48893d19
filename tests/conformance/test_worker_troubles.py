"""What a sceptical reader found in the worker, on every store: nothing spins, wedges, doubles or is forgotten."""

import json
import sqlite3
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

import outlast
from conformance.acting import claim, die, register, settle
from conformance.test_worker_life import NOW, Sick, wait_for, working
from outlast.errors import LeaseLostError
from outlast.ports.rows import Kind, Settlement, Status
from outlast.queue import claim_loop as claim_loop_module
from outlast.queue import suspects as alone
from outlast.queue.claim_loop import ClaimLoop
from outlast.queue.periodic_tasks import next_time_function
from outlast.queue.spool import Spool
from outlast.stores.sqlite.store import SqliteStore

READ_ONLY = psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction")
AWAY = psycopg.OperationalError("server closed the connection")


@pytest.fixture
def app(store, tmp_path):
    return outlast.App(store, policy=NOW, spool=tmp_path / "spool", grace=5, lease=2, heartbeat=0.2)


@pytest.fixture
def gate():
    """What holds tasks up; open at the end whatever happens, so that no thread stays."""
    gate = threading.Event()
    yield gate
    gate.set()


class Wrapped:
    """A store of which a test replaces a part."""

    def __init__(self, store):
        self.inner = store

    def __getattr__(self, name):
        return getattr(self.inner, name)


def orphan(store, worker_id="doomed", limit=1):
    """Have a worker claim what there is; it lives until `die`."""
    register(store, worker_id, lease=60)
    return claim(store, worker_id, limit)


def suspects(store, count):
    """Make suspects of what is queued, as the death of a worker does."""
    orphan(store, limit=count)
    die(store, "doomed")
    assert len(store.rescue(3)) == count


def done(app):
    return app.tasks.counts()[Status.DONE]


def test_full_hands_do_not_spin(app, gate, monkeypatch):
    """A retry that is due, a backlog, and no hand free: there is nothing to do but wait."""
    steps = []
    tick = ClaimLoop.tick
    monkeypatch.setattr(ClaimLoop, "tick", lambda self, timeout: (steps.append(1), tick(self, timeout))[1])

    @app.task(policy=NOW.replace(base_delay=0.4, max_attempts=50), priority=0)
    def flaky():
        raise ConnectionError("again")

    @app.task
    def slow():
        gate.wait(10)

    flaky.enqueue()
    with working(app, concurrency=2):
        wait_for(lambda: app.tasks.list()[0].retry_count == 1)
        slow.enqueue_many([{} for _ in range(200)])
        wait_for(lambda: app.tasks.counts()[Status.RUNNING] >= 2)
        time.sleep(0.6)  # the retry is due by now
        before = len(steps)
        time.sleep(0.6)
        count = len(steps) - before
        gate.set()
    assert count < 120


def test_a_suspect_that_is_settled_by_itself_does_not_wedge_the_worker(store, tmp_path):
    sick = Sick(store, RuntimeError("of nobody's category"), times=1, on=lambda turn: turn.done or turn.settlements)
    app = outlast.App(sick, policy=NOW, spool=tmp_path / "spool")
    runs = []

    @app.task
    def once(x: int):
        runs.append(x)

    once.enqueue(0)
    suspects(store, 1)
    with working(app, concurrency=2):
        wait_for(lambda: done(app) == 1)
        once.enqueue_many([{"x": number} for number in range(1, 5)])
        wait_for(lambda: done(app) == 5)
    assert sorted(runs) == [0, 1, 2, 3, 4]


def test_suspects_do_not_wait_where_nobody_else_does(app, store, monkeypatch):
    """The wait to be alone has an end for the sake of the others; where there are none, the next suspect begins."""
    monkeypatch.setattr(alone, "_SUSPECT_WAIT", 0.1)

    @app.task
    def slow():
        time.sleep(0.15)

    slow.enqueue_many([{} for _ in range(4)])
    suspects(store, 4)
    with working(app, concurrency=2):
        wait_for(lambda: done(app) == 4)


def test_a_cancelled_suspect_holds_nobody_up(store, tmp_path, gate):
    class Quick(Wrapped):
        rescue_every = 0.1

    app = outlast.App(Quick(store), policy=NOW, spool=tmp_path / "spool", lease=2, heartbeat=0.1)
    seen = threading.Event()

    @app.task
    def bad():
        pass

    @app.task
    def slow():
        gate.wait(10)

    @app.task
    def quick():
        seen.set()

    number = bad.enqueue().id
    orphan(store)
    slow.enqueue()
    with working(app, concurrency=3) as worker:
        wait_for(lambda: app.tasks.counts()[Status.RUNNING] == 2)
        die(store, "doomed")
        wait_for(lambda: worker._claim_loop.worker.suspects_due)
        assert store.cancel([number]) == [number]
        wait_for(lambda: not worker._claim_loop.worker.suspects_due)
        quick.enqueue()
        assert seen.wait(30)
        gate.set()


class Unregistered(Wrapped):
    """A store that gives no new lease while it is full."""

    full = False
    registers = 0

    def register(self, worker, lease):
        self.registers += 1
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        self.inner.register(worker, lease)


def test_a_lost_lease_with_no_new_one_is_asked_for_with_patience(store, tmp_path, caplog):
    poor = Unregistered(store)
    app = outlast.App(poor, policy=NOW, spool=tmp_path / "spool", lease=1, heartbeat=0.1)

    @app.task
    def hello():
        pass

    with working(app) as worker:
        wait_for(lambda: worker.id and store.workers())
        poor.full = True
        store.leave(worker.id)
        wait_for(lambda: poor.registers >= 2)
        time.sleep(0.6)
        assert poor.registers <= 6
        assert len(caplog.records) < 15
        poor.full = False
        hello.enqueue()
        wait_for(lambda: done(app) == 1)
    assert store.workers() == []


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files")
def test_lost_leases_leave_no_files_behind(tmp_path):
    path = tmp_path / "queue.db"
    app = outlast.App(SqliteStore(path, synchronous="NORMAL"), spool=tmp_path / "spool", lease=1, heartbeat=0.1)
    side = sqlite3.connect(path, timeout=5, isolation_level=None)

    @app.task
    def hello():
        pass

    def files():
        return len(list(Path("/proc/self/fd").iterdir())), len(list((tmp_path / "queue.db-workers").iterdir()))

    app.create_schema()
    with working(app) as worker:
        wait_for(app.tasks.workers)
        hello.enqueue()
        wait_for(lambda: done(app) == 1)
        before = files()
        for _ in range(3):
            old = worker.id
            side.execute("DELETE FROM workers")
            wait_for(lambda old=old: old not in {each.id for each in app.tasks.workers()} and app.tasks.workers())
        side.execute("CREATE TRIGGER full BEFORE INSERT ON workers BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        old = worker.id
        side.execute("DELETE FROM workers")
        wait_for(lambda: worker.id != old)
        time.sleep(0.5)
        side.execute("DROP TRIGGER full")
        hello.enqueue()
        wait_for(lambda: done(app) == 2)
        wait_for(lambda: files()[1] == before[1] == 1)
        assert files()[0] <= before[0] + 2
    side.close()
    app.close()


def test_a_lost_lease_that_two_hear_of_is_replaced_once(store, tmp_path):
    """The heart is told under the old name when the pump has begun anew already."""
    asked, again = threading.Event(), threading.Event()

    class Late(Unregistered):
        left = False

        def settle_and_claim(self, turn):
            if self.left:
                asked.wait(5)
            return self.inner.settle_and_claim(turn)

        def heartbeat(self, worker_id, lease, state):
            try:
                self.inner.heartbeat(worker_id, lease, state)
            except LeaseLostError:
                asked.set()
                again.wait(5)
                time.sleep(0.05)
                told.append(worker_id)
                raise

        def register(self, worker, lease):
            super().register(worker, lease)
            if self.registers == 2:
                again.set()

    told, runs = [], []
    late = Late(store)
    app = outlast.App(late, policy=NOW, spool=tmp_path / "spool", lease=2, heartbeat=0.1)

    @app.task
    def slow(x: int):
        runs.append(x)
        time.sleep(0.5)

    with working(app, concurrency=2) as worker:
        wait_for(lambda: worker._claim_loop and worker._claim_loop.idle)
        late.left = True
        store.leave(worker.id)
        assert asked.wait(5)  # and the answer is long in coming
        slow.enqueue(1)
        slow.enqueue(2)
        wait_for(lambda: told)
        wait_for(lambda: done(app) == 2)
    assert late.registers == 2
    assert sorted(runs) == [1, 2]


class Outage(Wrapped):
    """A store that answers nothing while it is down."""

    poll = 0.05
    error = None
    parts = ("settle_and_claim", "reconcile", "next_due")

    def __getattribute__(self, name):
        error = object.__getattribute__(self, "error")
        if error is not None and name in object.__getattribute__(self, "parts"):
            raise error
        return object.__getattribute__(self, name)


def test_a_store_that_is_down_is_left_alone(store, tmp_path, caplog):
    down = Outage(store)
    app = outlast.App(down, policy=NOW, spool=tmp_path / "spool")

    @app.task
    def hello():
        pass

    with working(app):
        wait_for(store.workers)
        down.error = AWAY
        hello.enqueue()
        time.sleep(1.5)
        assert 1 <= sum("the store failed" in each.getMessage() for each in caplog.records) < 12
        down.error = None
        wait_for(lambda: done(app) == 1)
        assert "available again" in caplog.text


def test_a_stop_does_not_wait_for_a_store_that_is_down(store, tmp_path):
    down = Outage(store)
    app = outlast.App(down, policy=NOW, spool=tmp_path / "spool", grace=0.1)

    @app.task
    def hello():
        pass

    with working(app) as worker:
        wait_for(store.workers)
        down.error = AWAY
        hello.enqueue()
        wait_for(lambda: worker._claim_loop._store_pause.seconds)
        worker._claim_loop._store_pause.seconds = 60.0
        wait_for(
            lambda: worker._claim_loop._store_pause.seconds == 5.0
        )  # the next wait has begun, the longest there is
        begun = time.monotonic()
    assert time.monotonic() - begun < 3


def test_a_store_that_is_down_is_left_alone_while_the_worker_stops(store, tmp_path, caplog):
    down = Outage(store)
    app = outlast.App(down, policy=NOW, spool=tmp_path / "spool", grace=1.0)
    started = threading.Event()

    @app.task
    def hello():
        started.set()
        down.error = AWAY

    hello.enqueue()
    with working(app):
        assert started.wait(10)
    said = [each.getMessage() for each in caplog.records]
    assert 1 <= sum("the store failed" in each for each in said) < 12
    assert any("they are kept in" in each for each in said)
    assert not any("still run in threads" in each for each in said), "it was done, and only its outcome is not stored"


def test_a_store_that_takes_nothing_for_a_while_has_each_task_run_once(store, tmp_path):
    """A failover: connections break, then the database is read-only, then it is back. What was done stays done."""
    down, runs, ended = Outage(store), Counter(), threading.Event()
    app = outlast.App(down, policy=NOW, spool=tmp_path / "spool", grace=5)

    @app.task
    def once(x: int):
        runs[x] += 1
        ended.wait(5)

    once.enqueue_many([{"x": number} for number in range(5)])
    with working(app, concurrency=5) as worker:
        wait_for(lambda: len(runs) == 5)
        down.error = AWAY
        ended.set()
        wait_for(lambda: worker._claim_loop.unsettled == 5 and worker._claim_loop._store_pause.seconds)
        time.sleep(0.2)
        down.parts, down.error = ("settle_and_claim",), READ_ONLY
        time.sleep(0.8)
        down.error = None
        wait_for(lambda: done(app) == 5)
    assert set(runs.values()) == {1}
    assert {each.attempt for each in app.tasks.list()} == {1}


def test_a_settlement_that_is_refused_in_every_form_does_not_run_in_a_circle(store, tmp_path):
    sick = Sick(store, psycopg.DataError("out of range"), times=10_000, on=lambda turn: bool(turn.settlements))
    app = outlast.App(sick, policy=NOW, spool=tmp_path / "spool", grace=0.1)
    runs = []

    @app.task
    def flaky():
        runs.append(1)
        raise ConnectionError("again")

    flaky.enqueue()
    with working(app):
        wait_for(lambda: runs)
        time.sleep(1.2)
        assert len(runs) <= 4


def test_what_an_old_worker_parks_is_run_by_the_new_one(app, store, gate):
    seen = threading.Event()

    @app.task(priority=0)
    def busy():
        gate.wait(10)

    @app.task
    def novelty():
        seen.set()

    busy.enqueue()
    with working(app, concurrency=1):
        wait_for(lambda: app.tasks.counts()[Status.RUNNING] == 1)
        number = novelty.enqueue().id
        (claimed,) = orphan(store, "old")
        assert (claimed.id, settle(store, claimed, Kind.PARK, "old")) == (number, [])
        gate.set()
        wait_for(lambda: done(app) == 2)
        assert seen.is_set()


def test_a_long_chore_stops_no_heartbeat(store, tmp_path, gate):
    class Long(Wrapped):
        def __init__(self, store):
            super().__init__(store)
            self.pruning, self.beats, self.registers = False, 0, 0

        def register(self, worker, lease):
            self.registers += 1
            self.inner.register(worker, lease)

        def prune(self, **which):
            self.pruning = True
            gate.wait(60)
            self.pruning = False
            return 0

        def heartbeat(self, *given):
            self.beats += self.pruning
            self.inner.heartbeat(*given)

    long = Long(store)
    app = outlast.App(long, policy=NOW, spool=tmp_path / "spool", lease=1.5, heartbeat=0.1)

    @app.task
    def hello():
        pass

    with working(app):
        wait_for(lambda: long.pruning)
        wait_for(lambda: long.beats > 15)  # which takes longer than the lease
        hello.enqueue()
        wait_for(lambda: done(app) == 1)
        assert long.pruning
        gate.set()
    assert long.registers == 1


def test_nothing_is_claimed_while_the_lease_is_not_sure(store, tmp_path):
    class Deaf(Wrapped):
        deaf = False

        def heartbeat(self, *given):
            if self.deaf:
                raise AWAY
            self.inner.heartbeat(*given)

    deaf = Deaf(store)
    app = outlast.App(deaf, policy=NOW, spool=tmp_path / "spool", lease=0.8, heartbeat=0.1)

    @app.task
    def hello():
        pass

    with working(app) as worker:
        wait_for(lambda: worker._claim_loop and worker._claim_loop.holds_lease())
        deaf.deaf = True
        wait_for(lambda: not worker._claim_loop.holds_lease())
        hello.enqueue()
        time.sleep(0.4)
        assert app.tasks.counts()[Status.QUEUED] == 1
        deaf.deaf = False
        wait_for(lambda: done(app) == 1)


def test_what_the_books_count_as_ours_by_mistake_is_given_back(app, store, monkeypatch):
    monkeypatch.setattr(claim_loop_module, "_RECONCILE_EVERY", 0.2)

    @app.task
    def hello():
        pass

    number = hello.enqueue(queue="elsewhere").id
    with working(app, queues=["default"]) as worker:
        wait_for(lambda: worker.id and store.workers())
        assert len(claim(store, worker.id, queues=("elsewhere",))) == 1
        wait_for(lambda: app.tasks.show(number).task.status == Status.QUEUED)
        row = app.tasks.show(number).task
    assert (row.attempt, row.retry_count) == (0, 0)


def test_a_file_that_cannot_be_applied_is_set_aside(store, tmp_path, caplog):
    sick = Sick(store, psycopg.DataError("out of range"), times=10_000, on=lambda turn: bool(turn.settlements))
    app = outlast.App(sick, policy=NOW, spool=tmp_path / "spool")

    @app.task
    def hello():
        pass

    hello.enqueue()
    Spool(tmp_path / "spool").keep([], [Settlement(10**6, 1, Kind.RETRY, 1.0)])
    app.worker().drain()
    assert done(app) == 1
    assert [each.suffix for each in (tmp_path / "spool").iterdir()] == [".refused"]
    assert "could not apply" in caplog.text
    assert store.workers() == []
    app.worker().drain()  # and is not looked at again
    assert caplog.text.count("could not apply") == 1


def test_a_number_that_no_column_takes_is_set_aside(database, store, tmp_path):
    app = outlast.App(store, policy=NOW, spool=tmp_path / "spool")

    @app.task
    def hello():
        pass

    hello.enqueue()
    line = dict(task_id=10**30, epoch=1, kind="retry", delay=1.0, reason=None, note=None)
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "a.jsonl").write_text(json.dumps(line) + "\n")
    app.worker().drain()
    assert done(app) == 1
    assert [each.name for each in (tmp_path / "spool").iterdir()] == ["a.refused"]
    assert store.workers() == []


def test_a_file_that_cannot_be_read_keeps_no_worker_from_its_start(store, tmp_path, caplog):
    app = outlast.App(store, policy=NOW, spool=tmp_path / "spool")
    (tmp_path / "spool" / "a.jsonl").mkdir(parents=True)  # nobody can read it, not even root

    @app.task
    def hello():
        pass

    hello.enqueue()
    app.worker().drain()
    assert done(app) == 1
    assert "could not read" in caplog.text


def test_a_lease_that_was_lost_before_files_are_applied_is_asked_for_again(store, tmp_path):
    late = Sick(store, LeaseLostError("late"), times=1, on=lambda turn: bool(turn.settlements))
    app = outlast.App(late, policy=NOW, spool=tmp_path / "spool")

    @app.task
    def hello():
        pass

    hello.enqueue()
    Spool(tmp_path / "spool").keep([], [Settlement(10**6, 1, Kind.RETRY, 1.0)])
    app.worker().drain()
    assert done(app) == 1
    assert list((tmp_path / "spool").iterdir()) == []
    assert store.workers() == []


def test_a_file_that_could_not_be_applied_for_now_waits(store, tmp_path):
    sick = Sick(store, AWAY, times=1, on=lambda turn: bool(turn.settlements))
    app = outlast.App(sick, policy=NOW, spool=tmp_path / "spool")
    Spool(tmp_path / "spool").keep([], [Settlement(10**6, 1, Kind.RETRY, 1.0)])
    app.worker().drain()
    assert [each.suffix for each in (tmp_path / "spool").iterdir()] == [".jsonl"]
    app.worker().drain()
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_success_that_waited_in_a_file_keeps_its_result(store, tmp_path):
    app = outlast.App(store, policy=NOW, spool=tmp_path / "spool")

    @app.task(keep_result=3600)
    def answer() -> int:
        raise AssertionError("it was done already")

    task = answer.enqueue()
    (claimed,) = orphan(store)
    kept = Settlement(claimed.id, claimed.epoch, Kind.DONE, result="42", keep=3600.0)
    Spool(tmp_path / "spool").keep([], [kept])
    app.worker().drain()
    assert app.tasks.show(task.id).task.status == Status.DONE
    assert answer.result(task) == 42


def test_the_next_run_is_reckoned_by_the_clock_of_the_store(store):
    """The process is minutes off, the store is not: what counts is what all workers share."""

    class Ahead(Wrapped):
        def now(self):
            return self.inner.now() + timedelta(minutes=20)

        def set_periodic(self, first_runs):
            waits.append(first_runs["hourly"])
            self.inner.set_periodic({"hourly": -1.0})

        def run_periodic(self, name, due, seconds, task, **more):
            waits.append(seconds)
            return self.inner.run_periodic(name, due, seconds, task, **more)

    waits = []
    ahead = Ahead(store)
    app = outlast.App(ahead)

    @app.periodic(cron="0 * * * *")
    def hourly():
        pass

    def expected():
        return (next_time_function(None, "0 * * * *")(ahead.now()) - ahead.now()).total_seconds()

    wanted = []
    for act in (app.schedule.begin, app.schedule.tick):
        wanted.append(expected())
        act(ahead)
    for wait, want in zip(waits, wanted, strict=True):
        assert abs(wait - want) < 30 or abs(abs(wait - want) - 3600) < 30  # the hour may be just over


def test_a_store_tells_its_time(store):
    now = store.now()
    assert now.utcoffset() == timedelta(0)
    assert abs(now.timestamp() - time.time()) < 5
