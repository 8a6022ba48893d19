"""A worker's life on every store: starting, stopping, losing its lease, and trouble with the store itself."""

import asyncio
import sqlite3
import stat
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

import outlast
from outlast.errors import LeaseLostError
from outlast.ports.rows import Kind, NewTask, Status

NOW = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=0)


@pytest.fixture
def app(store, tmp_path):
    return outlast.App(store, policy=NOW, spool=tmp_path / "spool", grace=5)


@contextmanager
def working(app, **settings):
    worker = app.worker(**settings)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(20)
        assert not thread.is_alive()


def wait_for(condition, seconds=30.0):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.005)


def test_idle_workers_are_woken(app, monkeypatch):
    """Within one process there is no need to look: the one that enqueues calls."""
    seen = threading.Event()
    monkeypatch.setattr(app.store, "poll", 600.0)

    @app.task
    def ring():
        seen.set()

    with working(app):
        wait_for(lambda: len(app.tasks.workers()) == 1)
        time.sleep(0.2)
        ring.enqueue()
        assert seen.wait(30)
        wait_for(lambda: app.tasks.counts()[Status.DONE] == 1)
    assert app.tasks.workers() == []


def test_delays_are_kept(app):
    at = []

    @app.task
    def ring():
        at.append(time.monotonic())

    with working(app):
        begun = time.monotonic()
        ring.enqueue(delay=0.4)
        wait_for(lambda: at)
    assert at[0] - begun >= 0.4


def test_a_graceful_stop_finishes_what_runs_and_gives_the_rest_back(app):
    """Pitfall 41: a deploy costs no attempt."""
    begun, go = threading.Event(), threading.Event()

    @app.task
    def slow(x: int):
        begun.set()
        go.wait(10)

    ids = [slow.enqueue(number).id for number in range(5)]
    with working(app, concurrency=1) as worker:
        assert begun.wait(30)
        worker.stop()
        time.sleep(0.1)
        go.set()
    rows = [app.tasks.show(each).task for each in ids]
    assert [each.status for each in rows] == [Status.DONE] + [Status.QUEUED] * 4
    assert [each.attempt for each in rows] == [1, 0, 0, 0, 0]
    assert all(not app.tasks.show(each).attempts for each in ids)


def test_what_does_not_end_in_time_is_cancelled_and_given_back(store, tmp_path):
    app = outlast.App(store, spool=tmp_path / "spool", grace=0.2)
    begun = threading.Event()

    @app.task
    async def endless():
        begun.set()
        await asyncio.sleep(60)

    number = endless.enqueue().id
    with working(app):
        assert begun.wait(30)
    row = app.tasks.show(number).task
    assert (row.status, row.attempt, row.retry_count) == (Status.QUEUED, 0, 0)


def test_a_thread_that_does_not_end_keeps_nobody(store, tmp_path, caplog):
    app = outlast.App(store, spool=tmp_path / "spool", grace=0.1)
    begun, go = threading.Event(), threading.Event()

    @app.task
    def stuck():
        begun.set()
        go.wait(20)

    number = stuck.enqueue().id
    try:
        with working(app):
            assert begun.wait(30)
        row = app.tasks.show(number).task
        assert (row.status, row.attempt) == (Status.QUEUED, 0)
        assert "cannot be stopped" in caplog.text
    finally:
        go.set()


def test_a_worker_taken_for_dead_drops_its_results_and_begins_anew(app, store):
    """Pitfall 39: the late result is refused, also when the same worker has the task again by another claim."""
    runs, gates = [], [threading.Event(), threading.Event()]

    @app.task
    def slow():
        runs.append(outlast.current_task().epoch)
        gates[len(runs) - 1].wait(10)

    number = slow.enqueue().id
    with working(app, concurrency=2) as worker:
        wait_for(lambda: len(runs) == 1)
        old = worker.id
        store.leave(old)  # as a rescue does
        wait_for(lambda: len(runs) == 2)
        assert worker.id != old
        gates[0].set()  # the first run ends: too late
        time.sleep(0.3)
        assert app.tasks.show(number).task.status == Status.RUNNING
        gates[1].set()
        wait_for(lambda: app.tasks.counts()[Status.DONE] == 1)
    assert runs == [1, 3]
    assert app.tasks.show(number).task.lease_epoch == 3


class Sick:
    """A store that fails on purpose."""

    def __init__(self, store, error, *, times=3, on=lambda turn: True):
        self._store, self._error, self._times, self._on = store, error, times, on

    def __getattr__(self, name):
        return getattr(self._store, name)

    def settle_and_claim(self, turn):
        if self._times and self._on(turn):
            self._times -= 1
            raise self._error
        return self._store.settle_and_claim(turn)


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("database is locked"), psycopg.OperationalError("server closed the connection")]
)
def test_a_store_that_fails_for_a_while_loses_nothing(store, tmp_path, error):
    """W6: the handler's own database error never ends the loop."""
    app = outlast.App(Sick(store, error), policy=NOW, spool=tmp_path / "spool")
    runs = []

    @app.task
    def once(x: int):
        runs.append(x)

    once.enqueue_many([{"x": number} for number in range(20)])
    app.worker().drain()
    assert sorted(runs) == list(range(20))
    assert app.tasks.counts()[Status.DONE] == 20


def test_an_answer_that_got_lost_orphans_nothing(store, tmp_path):
    """The claim was committed and the worker never heard of it: it gives back what it does not know to hold."""

    class Deaf(Sick):
        def settle_and_claim(self, turn):
            turned = self._store.settle_and_claim(turn)
            if self._times and turned.claimed:
                self._times -= 1
                raise psycopg.OperationalError("connection lost before the answer")
            return turned

    app = outlast.App(Deaf(store, None, times=2), policy=NOW, spool=tmp_path / "spool")
    runs = []

    @app.task
    def once(x: int):
        runs.append(x)

    once.enqueue_many([{"x": number} for number in range(20)])
    app.worker().drain()
    assert sorted(runs) == list(range(20))
    assert {each.attempt for each in app.tasks.list()} == {1}


def test_a_settlement_that_the_store_refuses_does_not_hold_up_the_others(store, tmp_path):
    refusing = Sick(
        store,
        psycopg.DataError("a character that cannot be stored"),
        times=10_000,
        on=lambda turn: any("poison" in (each.note.error_message if each.note else "") for each in turn.settlements),
    )
    app = outlast.App(refusing, policy=NOW.replace(max_attempts=1), spool=tmp_path / "spool")

    @app.task
    def fine(x: int):
        pass

    @app.task
    def bad():
        raise ValueError("poison")

    number = bad.enqueue().id
    fine.enqueue_many([{"x": each} for each in range(10)])
    with working(app):
        wait_for(lambda: app.tasks.counts()[Status.DONE] == 10)
        wait_for(lambda: app.dead_letters.count() == 1)
    [letter] = app.dead_letters.list()
    assert (letter.original_task_id, letter.error_type) == (number, "ValueError")
    assert "the store refused" in letter.error_message


def test_outcomes_that_cannot_be_stored_wait_in_a_file(store, tmp_path):
    """DESIGN: dead letters that cannot be written."""
    gone = Sick(store, psycopg.OperationalError("gone"), times=10_000, on=lambda turn: bool(turn.settlements))
    gone.leave = lambda worker_id: (_ for _ in ()).throw(psycopg.OperationalError("gone"))
    app = outlast.App(gone, policy=NOW, spool=tmp_path / "spool", grace=0.3)
    ran = threading.Event()

    @app.task
    def wrong(secret: str):
        ran.set()
        raise ValueError("permanent")

    number = wrong.enqueue("payload-text").id
    with working(app) as worker:
        wait_for(lambda: ran.is_set() and worker._claim_loop.unsettled)
    [file] = (tmp_path / "spool").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "payload-text" not in file.read_text()
    assert app.tasks.show(number).task.status == Status.RUNNING

    healthy = outlast.App(store, policy=NOW, spool=tmp_path / "spool")
    healthy.worker().drain()
    assert list((tmp_path / "spool").iterdir()) == []
    assert healthy.tasks.show(number).task.status == Status.FAILED
    [letter] = healthy.dead_letters.list()
    assert letter.reason == "permanent"


def test_a_spool_that_comes_too_late_changes_nothing(store, tmp_path):
    from outlast.queue.spool import Spool

    app = outlast.App(store, policy=NOW, spool=tmp_path / "spool")

    @app.task
    def fine():
        pass

    number = fine.enqueue().id
    app.worker().drain()
    spool = Spool(tmp_path / "spool")
    spool.keep([], [failed_settlement(number, 7)])
    app.worker().drain()
    assert app.tasks.show(number).task.status == Status.DONE
    assert app.dead_letters.count() == 0


def failed_settlement(number, epoch):
    from outlast.ports.rows import Note, Reason, Settlement

    return Settlement(number, epoch, Kind.FAIL, note=Note("E", "m", "unknown", "f", "{}", ""), reason=Reason.PERMANENT)


def test_dead_letters_that_cannot_be_written_are_seen_at_start(store, tmp_path):
    app = outlast.App(Sick(store, None, times=0), spool=tmp_path / "spool")

    def check():
        raise psycopg.errors.UndefinedTable("no such table: dead_letter_queue")

    app.store.check_dead_letters = check
    with pytest.raises(psycopg.errors.UndefinedTable):
        app.worker().drain()


def test_periodic_tasks_run_once_across_the_fleet(store, tmp_path):
    runs, begun = [], time.monotonic()
    apps = [outlast.App(store, spool=tmp_path / f"spool{number}") for number in range(3)]
    for app in apps:

        @app.periodic(every=1)
        def tick():
            runs.append(time.monotonic())

    with working(apps[0]), working(apps[1]), working(apps[2]):
        wait_for(lambda: len(runs) >= 3)
    for number, at in enumerate(runs, 1):
        assert number <= at - begun + 1, "no more than one for each second, however late they are"


def test_what_was_missed_is_made_up_for_once(app, store):
    """No burst after a pause."""
    runs = []

    @app.periodic(every=60)
    def tick():
        runs.append(1)

    store.set_periodic({"tick": -3600})
    app.worker().drain()
    app.worker().drain()
    assert runs == [1]


def test_a_cancelled_drain_leaves_nothing_behind(app):
    @app.task
    async def endless():
        await asyncio.sleep(60)

    endless.enqueue()

    async def main():
        async with asyncio.timeout(0.5):
            await app.worker().drain_async()

    app.settings = app.settings._replace(grace=0.1)
    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert app.tasks.workers() == []
    assert app.tasks.counts()[Status.QUEUED] == 1


def test_work_within_a_running_loop(app):
    seen = []

    @app.task
    async def hello():
        seen.append(asyncio.get_running_loop())

    async def main():
        await hello.enqueue_async()
        await app.worker().drain_async()
        return asyncio.get_running_loop()

    assert asyncio.run(main()) is seen[0]


def test_lease_lost_says_which():
    assert "w1" in str(LeaseLostError("w1"))


def test_suspects_run_alone(app, store):
    """A task that was running when a worker died is run with nothing beside it."""
    beside = []
    running = set()

    @app.task
    async def look(x: int):
        running.add(x)
        beside.append((x, len(running)))
        await asyncio.sleep(0.05)
        running.discard(x)

    from conformance.acting import claim, register

    numbers = [look.enqueue(number).id for number in range(3)]
    register(store, "doomed", lease=-1)
    claim(store, "doomed", limit=3)
    store.rescue(3)
    assert {app.tasks.show(each).task.suspect for each in numbers} == {True}
    for number in range(3, 8):
        look.enqueue(number)
    app.worker(concurrency=5).drain()
    alone = {x for x, count in beside if count == 1}
    assert {0, 1, 2} <= alone
    assert app.tasks.counts()[Status.DONE] == 8
    assert {each.crash_count for each in app.tasks.list()} == {0}


def test_names_are_only_text(app, store):
    """Pitfall 69."""
    name = "x'); DROP TABLE task_queue; --"
    seen = []
    task = app.task(name=name, queue=name, resource=name)(lambda: seen.append(1))
    task.enqueue(unique_key=name)
    store.enqueue([NewTask(name, "{}", queue=name)])
    app.worker().drain()
    assert seen == [1, 1]
