"""Runs of jobs on real stores: resumed, repeated, compared, locked, handed over, and with the store in trouble."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import count
from multiprocessing import get_context

import psycopg
import pytest

import outlast
from conformance.places import need_postgres
from crash.processes import until
from integration import job_program
from outlast import errors
from outlast.cli.job import find_run
from outlast.jobs import ledger as ledgers
from outlast.ports.job_rows import RunState, TargetDone, TargetStatus

_numbers = count(1)
POLICY = outlast.RetryPolicy(max_attempts=2, base_delay=0)


@pytest.fixture
def postgres_url(postgres_server):
    need_postgres()
    name = f"jobs{next(_numbers)}"
    postgres_server.execute(f"CREATE DATABASE {name}")
    return f"{postgres_server.url.rpartition('/')[0]}/{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def app(request, tmp_path):
    is_file = request.param == "sqlite"
    app = outlast.App(f"sqlite:///{tmp_path}/jobs.db" if is_file else request.getfixturevalue("postgres_url"))
    app.create_schema()
    app.kind = request.param
    yield app
    app.close()


@pytest.fixture(params=["function", "coroutine"])
def form(request):
    return request.param


class World:
    """What targets meet with, and which were handled."""

    def __init__(self, app, form="function", **settings):
        self.bad, self.calls, self.lock = {}, [], threading.Lock()

        def handler(context, target):
            with self.lock:
                self.calls.append(target)
            if target in self.bad:
                raise self.bad[target]("not well")

        async def handler_async(context, target):
            handler(context, target)

        given = handler if form == "function" else handler_async
        self.job = app.job("items", **{"entity": "item", "policy": POLICY} | settings)(given)

    def run(self, *args, **told):
        self.calls.clear()
        summary = self.job.run(*args, **told)
        parts = (
            summary.success_targets, summary.failed_targets, summary.deferred_targets, summary.skipped_targets,
            summary.not_attempted,
        )  # fmt: skip
        assert sum(parts) == summary.total_targets
        return summary, parts


def test_the_gate_is_exact_at_the_boundary(app):
    world = World(app, entity="tag")
    world.bad = {7: errors.ResourceNotFoundError}
    assert world.run(range(100))[0].exit_code == 0
    assert world.run(range(99))[0].exit_code == 1
    assert world.run([])[0].exit_code == 0


def test_50_of_1000_items_may_fail_and_51_may_not(app, form):
    world = World(app, form)
    world.bad = dict.fromkeys(range(50), errors.ResourceNotFoundError)
    assert world.run(range(1000))[0].exit_code == 0
    world.bad[50] = errors.ResourceNotFoundError
    assert world.run(range(1000))[0].exit_code == 1


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_run_that_was_aborted_is_resumed(app, form, concurrency):
    """E12: what is done is skipped, the rest is done, in the same run."""
    world = World(app, form)
    world.bad = {400: errors.AuthenticationError, 10: errors.ResourceNotFoundError}
    first, parts = world.run(range(2000), concurrency=concurrency)
    assert first.state == "aborted"
    assert parts[4] > 0
    world.bad.clear()
    second, parts = world.run(range(2000), concurrency=concurrency, resume=first.run_id)
    assert parts == (2000, 0, 0, 0, 0)
    assert (second.run_id, second.state, second.exit_code) == (first.run_id, "done", 0)
    assert len(world.calls) == len(set(world.calls)) == 2000 - first.success_targets
    assert {10, 400} <= set(world.calls)
    assert app.store.target_counts(first.run_id)[TargetStatus.SUCCESS] == 2000
    _, parts = world.run(range(2000), resume=first.run_id)
    assert parts == (2000, 0, 0, 0, 0)
    assert world.calls == []


def test_a_resumed_run_may_be_a_stream_and_have_a_limit(app, form):
    world = World(app, form)
    first, _ = world.run((each for each in range(100)), limit=60)
    _, parts = world.run((each for each in range(100)), resume=first.run_id, limit=80)
    assert parts == (80, 0, 0, 0, 0)
    assert sorted(world.calls) == list(range(60, 80))
    _, parts = world.run((each for each in range(1500)), resume=first.run_id)
    assert parts == (1500, 0, 0, 0, 0)


def test_only_what_failed_is_done_again(app, form):
    world = World(app, form)
    world.bad = dict.fromkeys(range(1, 2000, 3), errors.ResourceNotFoundError) | {0: QuotaSoon}
    first, parts = world.run(range(2000))
    assert parts == (1332, 667, 1, 0, 0)
    failed = set(world.bad)
    world.bad = {4: errors.ResourceNotFoundError, 7: errors.ResourceNotFoundError}
    second, parts = world.run(only_failed=first.run_id)
    assert sorted(world.calls) == sorted(failed)
    assert parts == (666, 2, 0, 0, 0)
    assert second.run_id != first.run_id
    assert app.store.run(second.run_id).parent == first.run_id
    assert second.compared == {"fixed": 666, "broken": 0, "still": 2}
    world.bad.clear()
    third, parts = world.run(only_failed=second.run_id)
    assert parts == (2, 0, 0, 0, 0)
    _, parts = world.run(only_failed=third.run_id)
    assert parts == (0, 0, 0, 0, 0)


class QuotaSoon(errors.QuotaExhaustedError):
    def __init__(self, message):
        super().__init__(message, retry_after=30)


def test_a_run_of_the_rest_is_resumed_over_the_rest(app):
    """Not over all targets of the job, of which it knows nothing."""
    world = World(app, targets=lambda: range(500), max_failure_rate=1.0)
    world.bad = dict.fromkeys(range(100), errors.ResourceNotFoundError)
    first, _ = world.run()
    world.bad = {50: errors.AuthenticationError}
    second, parts = world.run(only_failed=first.run_id, concurrency=1)
    assert parts[1] == 1
    world.bad.clear()
    _, parts = world.run(resume=second.run_id, concurrency=1)
    assert parts == (100, 0, 0, 0, 0)
    assert len(world.calls) == 100 - second.success_targets


class Item:
    def __init__(self, number):
        self.id = number


def test_targets_without_a_form_in_json_are_found_by_their_keys(app):
    def handler(context, target):
        calls.append(target.id)
        if target.id in bad:
            raise errors.ResourceNotFoundError("gone")

    calls, bad = [], {3, 5}
    job = app.job("objects", max_failure_rate=0)(handler)
    first = job.run(map(Item, range(10)))
    with pytest.raises(errors.ConfigError, match="looked up by key"):
        job.run(only_failed=first.run_id)
    assert app.store.job_holder("objects") is None
    calls.clear()
    bad.clear()
    assert job.run(map(Item, range(10)), only_failed=first.run_id).success_targets == 2
    assert sorted(calls) == [3, 5]


def test_a_run_is_compared_with_the_one_before(app):
    world = World(app)
    world.bad = dict.fromkeys([1, 2], errors.ResourceNotFoundError)
    first, _ = world.run(range(100))
    assert first.compared is None
    world.bad = dict.fromkeys([2, 3, 4], errors.ResourceNotFoundError)
    assert world.run(range(100))[0].compared == {"fixed": 1, "broken": 2, "still": 1}
    assert app.store.run(first.run_id).summary["failed_targets"] == 2


def test_two_runs_of_one_job_are_kept_apart(app):
    gate, begun = threading.Event(), threading.Event()

    def handler(context, target):
        begun.set()
        gate.wait(20)

    job = app.job("alone", max_failure_rate=0)(handler)
    other = app.job("other", max_failure_rate=0)(lambda *_: None)
    thread = threading.Thread(target=job.run, args=([1],))
    thread.start()
    assert begun.wait(10)
    with pytest.raises(errors.JobLockedError, match=f"alone .*process {os.getpid()}"):
        job.run([2])
    assert other.run([1]).exit_code == 0
    gate.set()
    thread.join()
    assert job.run([2]).exit_code == 0
    assert [run.state for run in app.store.runs("alone")] == [RunState.DONE] * 2


def steal(app, url):
    """Take a job's lock away, as a server that restarts does, or somebody who tidies up."""
    if app.kind == "postgres":
        with psycopg.connect(url) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        until(lambda: app.store.job_holder("lost") is None, 10, "the session is gone")
    else:
        for file in app.store.db.path.with_name(f"{app.store.db.path.name}-jobs").iterdir():
            file.unlink()


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "free"])
def test_a_run_whose_lock_is_lost_ends(app, request, taken):
    stolen = []
    url = request.getfixturevalue("postgres_url") if app.kind == "postgres" else None

    def handler(context, target):
        if target == 100:
            steal(app, url)
            if taken:
                stolen.append(app.store.lock_job("lost", "thief"))
        if target > 100:
            time.sleep(0.002)

    summary = app.job("lost", max_failure_rate=1.0)(handler).run(range(100_000), concurrency=2)
    assert summary.state == "aborted"
    assert "lock of the job was lost" in summary.reasons[0]
    assert summary.not_attempted > 0
    assert app.store.target_counts(summary.run_id)[TargetStatus.SUCCESS] == summary.success_targets
    kept = app.store.run(summary.run_id)
    if taken:
        assert kept.state is RunState.RUNNING, "it may be in the other's hands"
        assert app.store.job_holder("lost") == "thief"
        stolen[0].release()
    else:
        assert (kept.state, kept.exit_code) == (RunState.ABORTED, 1)
        assert app.store.job_holder("lost") is None


class Down:
    """A store that is down for a while."""

    def __init__(self, store, *methods, error=None):
        self.is_down, self.asked = False, 0
        self._error = error or sqlite3.OperationalError("database is locked")
        for name in methods:
            setattr(store, name, self._around(getattr(store, name)))

    def _around(self, method):
        def call(*args, **kwargs):
            self.asked += self.is_down
            if self.is_down:
                raise self._error
            return method(*args, **kwargs)

        return call


@pytest.fixture
def short_patience(monkeypatch):
    monkeypatch.setattr(ledgers, "_PAUSE", 0.01)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_store_that_is_down_for_ever_ends_the_run(app, form, concurrency, short_patience):
    """No deadlock, and the figures are told nevertheless."""
    world = World(app, form)
    store = Down(app.store, "add_targets", "end_run")
    store.is_down = True
    summary, parts = world.run(range(1_000_000), concurrency=concurrency)
    assert summary.state == "aborted"
    assert "the ledger cannot be written" in summary.reasons[0]
    assert summary.exit_code == 1
    assert len(world.calls) == parts[0] < 100_000, "handlers wait for the ledger"
    store.is_down = False
    assert app.store.job_holder("items") is None
    assert app.store.run(summary.run_id).state is RunState.RUNNING
    _, parts = world.run(range(100), resume=summary.run_id)
    assert parts == (100, 0, 0, 0, 0), "none of it was written"


def test_a_store_that_is_down_for_a_moment_loses_nothing(app, form, short_patience):
    world = World(app, form)
    store = Down(app.store, "add_targets", "end_run", "done_targets")
    store.is_down = True

    def recover():
        while store.asked < 3:
            time.sleep(0.001)
        store.is_down = False

    thread = threading.Thread(target=recover)
    thread.start()
    summary, parts = world.run(range(5000))
    thread.join()
    assert parts == (5000, 0, 0, 0, 0)
    assert (summary.state, summary.exit_code) == ("done", 0)
    assert app.store.target_counts(summary.run_id)[TargetStatus.SUCCESS] == 5000


def test_a_run_whose_end_cannot_be_written_has_failed(app, short_patience):
    world = World(app)
    Down(app.store, "end_run").is_down = True
    summary, parts = world.run(range(10))
    assert parts == (10, 0, 0, 0, 0)
    assert summary.exit_code == 1
    assert "the end of the run cannot be written" in summary.reasons[-1]
    assert app.store.target_counts(summary.run_id)[TargetStatus.SUCCESS] == 10


def test_what_failed_is_handed_over_once(app):
    """Twice by two runs, while the task waits: there is one task."""
    seen = []

    @app.task
    def again(target):
        seen.append(target)

    long = "x" * 400
    world = World(app, hand_over=again, max_failure_rate=1.0)
    world.bad = dict.fromkeys([3, "ü", long], errors.ResourceNotFoundError) | {4: QuotaSoon}
    targets = [1, 2, 3, 4, "ü", long]
    world.run(targets)
    world.run(targets)
    assert app.store.counts()["QUEUED"] == 3
    work_off(app)
    assert sorted(map(str, seen)) == sorted(map(str, [3, "ü", long]))


def work_off(app):
    """Run the tasks that wait, and stop."""
    worker = app.worker(concurrency=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    until(lambda: not (app.store.counts()["QUEUED"] or app.store.counts()["RUNNING"]), 20, "no task is left")
    worker.stop()
    thread.join(20)


def test_what_cannot_be_handed_over_fails_as_it_would(app, caplog):
    @app.task
    def again(target): ...

    world = World(app, hand_over=again, max_failure_rate=1.0, key=str)
    world.bad = {1j: errors.ResourceNotFoundError, 2: errors.ResourceNotFoundError}
    summary, parts = world.run([1j, 2])
    assert parts == (0, 2, 0, 0, 0)
    assert summary.state == "done"
    assert app.store.counts()["QUEUED"] == 1
    assert any("1j cannot be handed over to" in each.message for each in caplog.records)


def test_what_is_handed_over_waits_for_a_store_that_is_down(app, short_patience):
    @app.task
    def again(target): ...

    world = World(app, hand_over=again, max_failure_rate=1.0)
    world.bad = {2: errors.ResourceNotFoundError}
    store = Down(app.store, "enqueue")
    store.is_down = True
    threading.Timer(0.1, setattr, (store, "is_down", False)).start()
    assert world.run([1, 2])[1] == (1, 1, 0, 0, 0)
    assert app.store.counts()["QUEUED"] == 1


@pytest.fixture(params=["fork", "spawn"])
def processes(request, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["tests", os.environ.get("PYTHONPATH", "")]))
    with ProcessPoolExecutor(2, mp_context=get_context(request.param)) as pool:
        yield pool


def test_processes_handle_targets_and_their_results_come_back(processes):
    summary = job_program.mixed.run(range(200), executor=processes)
    assert (summary.success_targets, summary.failed_targets) == (140, 20)
    assert (summary.deferred_targets, summary.skipped_targets, summary.not_attempted) == (20, 20, 0)
    assert summary.attempts == 220
    assert summary.figures.pop("pages") == 440
    assert sum(summary.figures.values()) == 140
    assert f"in {os.getpid()}" not in summary.figures
    store = job_program.app.store
    rows = store.targets(summary.run_id, statuses=[TargetStatus.FAILED])
    assert {row.error_type for row in rows} == {"ResourceNotFoundError"}
    assert job_program.mixed.run(only_failed=summary.run_id, executor=processes).total_targets == 40


def test_a_process_that_dies_ends_the_run(processes):
    summary = job_program.deadly.run(range(1000), executor=processes, concurrency=4)
    parts = summary.success_targets + summary.failed_targets + summary.not_attempted
    assert parts == summary.total_targets == 1000
    assert 1 <= summary.failed_targets <= 4, "those that were in its hands"
    assert (summary.state, summary.exit_code) == ("aborted", 1)
    counts = job_program.app.store.target_counts(summary.run_id)
    assert counts[TargetStatus.SUCCESS] == summary.success_targets


def test_a_process_that_wants_to_leave_ends_the_run(processes):
    with pytest.raises(SystemExit):
        job_program.leaving.run(range(1000), executor=processes, concurrency=4)
    found = job_program.app.store.runs("leaving", 1)[0]
    assert (found.state, found.total) == (RunState.ABORTED, 1000)


def test_a_job_that_no_other_process_would_find_is_told(processes):
    app = outlast.App("memory://")
    job = app.job("nameless", max_failure_rate=1.0)(lambda *_: None)
    summary = job.run(range(10), executor=processes)
    assert summary.state == "aborted"
    assert "is not a job" in summary.reasons[0]
    assert summary.success_targets == 0


def test_an_executor_of_threads_shares_the_budget(app):
    job = app.job("thrifty", max_failure_rate=1.0, budget=outlast.Budget(5, per_second=0), policy=POLICY)(fails)
    with ThreadPoolExecutor(4) as pool:
        assert job.run(range(50), executor=pool).attempts == 55


def fails(context, target):
    raise errors.NetworkError("down")


def test_run_async_resumes_on_a_loop_that_goes_on(app):
    ticks = []

    async def handler(context, target):
        await asyncio.sleep(0)

    async def ticking():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.001)

    job = app.job("async", max_failure_rate=0)(handler)

    async def main():
        task = asyncio.create_task(ticking())
        first = await job.run_async(range(3000), concurrency=16)
        second = await job.run_async(range(6000), concurrency=16, resume=first.run_id)
        task.cancel()
        return second

    summary = asyncio.run(main())
    assert (summary.success_targets, summary.skipped_targets) == (6000, 0)
    assert ticks


def test_what_failed_is_handed_over_before_it_is_written_down(app, short_patience):
    """Killed in between, it would be given once more; the other way round it would be lost."""

    @app.task
    def again(target): ...

    world = World(app, hand_over=again, max_failure_rate=1.0)
    world.bad = {2: errors.ResourceNotFoundError}
    Down(app.store, "add_targets", error=errors.PermanentError("no such table")).is_down = True
    assert world.run([1, 2])[0].state == "aborted"
    assert app.store.counts()["QUEUED"] == 1


@pytest.mark.parametrize("concurrency", [1, 4])
def test_who_wants_to_leave_does_not_wait_for_a_store_that_is_down(app, form, concurrency, short_patience):
    world = World(app, form)
    world.bad = {3: SystemExit}
    store = Down(app.store, "add_targets", "end_run")
    store.is_down = True
    with pytest.raises(SystemExit):
        world.run(range(10), concurrency=concurrency)
    assert 1 <= store.asked < 5


def test_a_resumed_run_that_is_aborted_begins_no_more(app, form):
    """Nor of those whose past was looked up together."""
    world = World(app, form)
    first, _ = world.run(range(100), limit=0)
    world.bad = {10: errors.AuthenticationError}
    _, parts = world.run(range(100), resume=first.run_id, concurrency=1)
    assert parts == (10, 1, 0, 0, 89)
    assert world.calls == list(range(11))


def died(app, run_id, parent=None):
    """Leave what a process leaves that is killed."""
    app.store.add_run(run_id, "items", "item", "local", parent)
    done = [TargetDone(str(number), TargetStatus.SUCCESS) for number in range(5)]
    app.store.add_targets(run_id, [*done, TargetDone("5", TargetStatus.FAILED, target="5")])


def test_a_run_that_died_is_ended_by_the_next_one(app):
    world = World(app)
    died(app, "20260101T000000-aaaaaa")
    died(app, "20260101T000000-bbbbbb")
    app.store.add_run("20260101T000000-cccccc", "other", None, "local", None)
    world.run([])
    for letter in "ab":
        found = find_run(app.store, f"20260101T000000-{letter * 6}")
        assert (found.state, found.run.exit_code, found.run.total) == ("stopped", 1, 6)
        assert (found.counts["success_targets"], found.counts["failed_targets"]) == (5, 1)
        assert found.seconds is None
        assert found.run.summary["reasons"] == ["its process died"]
    assert app.store.run("20260101T000000-cccccc").state is RunState.RUNNING
    _, parts = world.run(range(10), resume="20260101T000000-aaaaaa")
    assert (parts, len(world.calls)) == ((10, 0, 0, 0, 0), 5)
    _, parts = world.run(only_failed="20260101T000000-bbbbbb")
    assert parts == (1, 0, 0, 0, 0)


def test_a_run_that_died_and_is_resumed_is_not_ended_before(app):
    world = World(app)
    died(app, "20260101T000000-aaaaaa")
    ended, end_run = [], app.store.end_run
    app.store.end_run = lambda run_id, state, *args: (ended.append(state), end_run(run_id, state, *args))
    world.run(range(10), resume="20260101T000000-aaaaaa")
    assert ended == [RunState.DONE]


def test_the_rest_of_a_run_that_is_not_kept_any_more_cannot_be_resumed(app):
    world = World(app, targets=lambda: range(10))
    died(app, "20260101T000000-bbbbbb", parent="20260101T000000-aaaaaa")
    with pytest.raises(errors.ConfigError, match="which was deleted; start a new run"):
        world.run(resume="20260101T000000-bbbbbb")
    assert app.store.job_holder("items") is None


def test_the_rest_of_a_run_that_is_deleted_at_that_moment_cannot_be_done(app):
    world = World(app, max_failure_rate=1.0)
    world.bad = {3: errors.ResourceNotFoundError}
    first, _ = world.run(range(10))
    world.job.keep = -60.0  # as if a minute had passed
    with pytest.raises(errors.ConfigError, match="has no run"):
        world.run(only_failed=first.run_id)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_job_is_locked_by_whatever_link_its_database_is_reached(tmp_path):
    real, link = outlast.App(f"sqlite:///{tmp_path}/jobs.db"), outlast.App(f"sqlite:///{tmp_path}/link.db")
    real.create_schema()
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
    lock = real.store.lock_job("items", "one")
    assert link.store.lock_job("items", "two") is None
    assert link.store.job_holder("items") == "one"
    lock.release()
    real.close()
    link.close()


class TestResumed:
    """A resumed run reports the whole run, and does not pass while targets are left."""

    def stopped(self, app, targets, bad=30, **told):
        world = World(app)
        world.bad = {bad: errors.AuthenticationError}
        first, parts = world.run(targets, concurrency=1, **told)
        world.bad = {}
        assert (first.state, first.exit_code, parts[:2]) == ("aborted", 1, (bad, 1))
        return world, first

    def test_it_reports_the_figures_of_the_whole_run(self, app, form):
        world = World(app, form)
        world.bad = {5: errors.ResourceNotFoundError, 6: errors.TemporaryAPIError, 30: errors.AuthenticationError}
        first, parts = world.run(range(100), concurrency=1)
        assert parts == (28, 3, 0, 0, 69)
        world.bad = {5: errors.ResourceNotFoundError, 50: errors.SkipTarget}
        summary, parts = world.run(range(100), resume=first.run_id)
        assert (parts, summary.state, summary.exit_code) == ((98, 1, 0, 1, 0), "done", 0)
        assert summary.failure_rate == 0.01
        assert summary.attempts == first.attempts + 72 == 28 + 1 + 2 + 1 + 72
        assert (summary.by_category, [each["size"] for each in summary.groups]) == ({"not_found": 1}, [1])
        assert summary.duration > first.duration
        assert app.store.run(first.run_id).summary["success_targets"] == 98

    def test_its_gate_is_asked_about_the_whole_run(self, app):
        """6 of 100 items failed at first and are not listed again: the rest alone would pass."""
        world = World(app)
        world.bad = dict.fromkeys(range(6), errors.ResourceNotFoundError) | {30: errors.AuthenticationError}
        first, _ = world.run(range(100), concurrency=1)
        world.bad = {}
        summary, parts = world.run(range(30, 100), resume=first.run_id)
        assert (parts, summary.exit_code) == ((94, 6, 0, 0, 0), 1)
        assert summary.reasons == ("6 of 100 targets failed (at most 5 % allowed)",)

    @pytest.mark.parametrize("targets", [lambda: range(100), lambda: iter(range(100))], ids=["sized", "stream"])
    @pytest.mark.parametrize("limit", [10, 30, 60, 99])
    def test_a_limit_does_not_make_a_stopped_run_pass(self, app, targets, limit):
        world, first = self.stopped(app, targets())
        summary, parts = world.run(targets(), resume=first.run_id, limit=limit)
        assert (summary.state, summary.exit_code, summary.limit) == ("stopped", 1, None)
        assert parts[0] == max(30, limit)
        summary, parts = world.run(targets(), resume=first.run_id)
        assert (summary.state, summary.exit_code, parts) == ("done", 0, (100, 0, 0, 0, 0))

    @pytest.mark.parametrize("targets", [lambda: range(100), lambda: iter(range(100))], ids=["sized", "stream"])
    def test_a_run_that_was_started_with_a_limit_passes_with_it(self, app, targets):
        world, first = self.stopped(app, targets(), limit=60)
        assert first.limit == 60
        summary, _ = world.run(targets(), resume=first.run_id, limit=50)
        assert (summary.exit_code, summary.success_targets, summary.limit) == (1, 50, 60)
        summary, parts = world.run(targets(), resume=first.run_id, limit=60)
        assert (summary.state, summary.exit_code, parts) == ("done", 0, (60, 0, 0, 0, 0))

    @pytest.mark.parametrize("targets", [lambda: range(100), lambda: iter(range(100))], ids=["sized", "stream"])
    def test_a_limit_leaves_a_run_done_that_was_done(self, app, targets):
        world = World(app)
        world.bad = {50: errors.ResourceNotFoundError}
        first, _ = world.run(targets())
        for limit in (20, 0, 100):
            summary, parts = world.run(targets(), resume="last", limit=limit)
            assert (summary.run_id, summary.state, summary.exit_code) == (first.run_id, "done", 0)
            assert (parts, summary.total_is_known) == ((99, 1, 0, 0, 0), True)
            assert world.calls == ([50] if limit == 100 else []), "failed targets within the limit are retried"

    def test_a_limit_leaves_a_failed_run_failed(self, app):
        world = World(app)
        world.bad = dict.fromkeys(range(50, 60), errors.ResourceNotFoundError)
        world.run(range(100))
        summary, parts = world.run(range(100), resume="last", limit=20)
        assert (summary.state, summary.exit_code, parts) == ("done", 1, (90, 10, 0, 0, 0))
        assert summary.reasons == ("10 of 100 targets failed (at most 5 % allowed)",)

    def test_a_limit_leaves_a_run_done_in_which_two_targets_have_one_key(self, app):
        world = World(app)
        world.run([1, 1, 2, 3])
        summary, parts = world.run([1, 1, 2, 3], resume="last", limit=1)
        assert (summary.state, summary.exit_code, parts) == ("done", 0, (3, 0, 0, 0, 0))

    @pytest.mark.parametrize("limit", [20, 120])
    def test_a_limit_does_not_pass_a_done_run_that_got_more_targets(self, app, limit):
        world = World(app)
        world.run(range(100))
        summary, parts = world.run(range(150), resume="last", limit=limit)
        assert (summary.state, summary.exit_code) == ("stopped", 1)
        assert parts == (max(100, limit), 0, 0, 0, 150 - max(100, limit))

    def test_a_limit_that_reaches_the_last_open_target_completes_the_run(self, app):
        world = World(app)
        world.run(range(100), limit=0)
        run_id = world.job.found("last").id
        world.run(range(1, 100), resume=run_id)
        assert world.run(range(100), resume=run_id, limit=0)[1] == (99, 0, 0, 0, 1)
        summary, parts = world.run(range(100), resume=run_id, limit=10)
        assert (summary.state, summary.exit_code, parts) == ("done", 0, (100, 0, 0, 0, 0))

    def test_the_reason_names_the_limit(self, app):
        world, first = self.stopped(app, range(100))
        summary, _ = world.run(range(100), resume=first.run_id, limit=40)
        assert summary.reasons == ("limited to 40 targets; 60 left", "60 targets not attempted")
        summary, _ = world.run(iter(range(100)), resume=first.run_id, limit=50)
        assert summary.reasons == ("limited to 50 targets; more may be left",)

    def test_targets_that_are_not_listed_again_count(self, app):
        """The job lists only what is still to be done, and is stopped again."""
        world, first = self.stopped(app, range(100))
        world.bad = {70: errors.AuthenticationError}
        summary, parts = world.run(range(30, 100), concurrency=1, resume=first.run_id)
        assert (parts, summary.exit_code) == ((70, 1, 0, 0, 29), 1)

    def test_two_targets_with_one_key_leave_nothing_open(self, app):
        world, first = self.stopped(app, [*range(31), 1, 1, 40])
        summary, parts = world.run([*range(31), 1, 1, 40], resume=first.run_id)
        assert (summary.state, summary.exit_code, parts) == ("done", 0, (32, 0, 0, 0, 0))

    def test_the_last_run_is_called_last(self, app):
        world, first = self.stopped(app, range(40))
        assert world.job.found("last").id == first.run_id
        resumed, _ = world.run(range(40), resume="last")
        assert (resumed.run_id, resumed.exit_code) == (first.run_id, 0)
        world.bad = {3: errors.ResourceNotFoundError}
        assert world.run(range(40))[1] == (39, 1, 0, 0, 0)
        world.bad = {}
        assert world.run(only_failed="last")[1] == (1, 0, 0, 0, 0)
        assert world.calls == [3]

    def test_a_job_without_runs_has_no_last_one(self, app):
        with pytest.raises(errors.ConfigError, match="job items has no run yet"):
            World(app).job.run(range(3), only_failed="last")


@pytest.mark.parametrize("key", [lambda target: target["n"], lambda target: str(target["n"])], ids=["int", "text"])
def test_numbers_are_keys_and_are_stored_as_text(app, key):
    def handler(context, target):
        calls.append(target["n"])
        assert context.source_id == str(target["n"])
        if target["n"] in bad:
            raise errors.ResourceNotFoundError("no")

    job, calls, bad = app.job("numbers", max_failure_rate=1.0, key=key)(handler), [], {3, 10**30}
    targets = [{"n": number, "tags": ("a",)} for number in (1, 2, 3, -4, 10**30)]  # JSON does not give tuples back
    first = job.run(targets)
    assert [row.source_id for row in app.store.targets(first.run_id)] == sorted(str(each["n"]) for each in targets)
    bad.clear()
    calls.clear()
    assert job.run(targets, resume=first.run_id).success_targets == 5
    assert sorted(calls) == [3, 10**30]
    bad.add(2)
    second = job.run(targets)
    calls.clear()
    job.run(targets, only_failed=second.run_id)
    assert calls == [2]


def test_a_truth_value_is_not_a_key(app):
    with pytest.raises(errors.ConfigError, match="a target of type bool has no id"):
        World(app).job.run([True])
    job = app.job("flags", max_failure_rate=1.0, key=lambda target: True)(lambda context, target: None)
    assert "the key of a target is 'True'" in job.run([1]).reasons[0]


def test_one_target_is_one_target(app, caplog):
    world = World(app, breakers={"program": 1})
    world.bad = {1: errors.TemporaryAPIError}
    summary, _ = world.run([1])
    assert "aborted: 1 target in a row failed at program" in summary.reasons
    assert "  1 target = 0 success + 1 failed" in str(summary)
