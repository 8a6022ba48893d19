"""However a run ends, its figures add up (pitfall 63), and what it did is written down."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

import outlast
from outlast import errors
from outlast.ports.job_rows import RunState, TargetStatus

POLICY = outlast.RetryPolicy(max_attempts=2, base_delay=0)
WAYS = ["one", "threads", "executor", "loop", "async", "threaded"]


@pytest.fixture
def app():
    app = outlast.App("memory://")
    yield app
    app.close()


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def run(app, way, handler, targets, *, concurrency=4, told=None, **settings):
    """Run a handler over targets in some way."""

    async def handler_async(context, target):
        await asyncio.sleep(0)
        return handler(context, target)

    settings = {"max_failure_rate": 1.0, "policy": POLICY, **settings}
    job = app.job(f"job-{way}-{len(app.jobs_by_name)}", **settings)(
        handler_async if way in {"loop", "async"} else handler
    )
    told = told or {}
    match way:
        case "one":
            return job.run(targets, concurrency=1, **told)
        case "executor":
            with ThreadPoolExecutor(2) as pool:
                return job.run(targets, concurrency=concurrency, executor=pool, **told)
        case "async" | "threaded":
            return asyncio.run(job.run_async(targets, concurrency=concurrency, **told))
        case _:
            return job.run(targets, concurrency=concurrency, **told)


def adds_up(summary, total=None):
    parts = (
        summary.success_targets,
        summary.failed_targets,
        summary.deferred_targets,
        summary.skipped_targets,
        summary.not_attempted,
    )
    assert sum(parts) == summary.total_targets
    assert min(parts) >= 0
    if total is not None:
        assert summary.total_targets == total
    return parts


def is_written_down(app, summary):
    """See that the ledger says the same as the summary."""
    counts = app.store.target_counts(summary.run_id)
    success, failed, deferred, skipped, _ = adds_up(summary)
    assert (counts[TargetStatus.SUCCESS], counts[TargetStatus.FAILED]) == (success, failed)
    assert (counts[TargetStatus.DEFERRED], counts[TargetStatus.SKIPPED]) == (deferred, skipped)
    kept = app.store.run(summary.run_id)
    assert (kept.state, kept.exit_code, kept.total) == (summary.state, summary.exit_code, summary.total_targets)
    assert kept.summary["run_id"] == summary.run_id
    assert app.store.job_holder(summary.job_id) is None


def last(app):
    """Return the summary of the last run, as the ledger has it."""
    found = app.store.runs(limit=1)[0]
    parts = [found.summary[f"{each}_targets"] for each in ("success", "failed", "deferred", "skipped")]
    assert sum(parts) + found.summary["not_attempted"] == found.total
    return found


def gen(numbers):
    yield from numbers


def mixed(context, target):
    match target % 10:
        case 1:
            raise errors.ResourceNotFoundError("gone")
        case 2:
            raise errors.QuotaExhaustedError("used up", retry_after=30)
        case 3:
            raise errors.SkipTarget("not today")
        case 4 if context.attempt == 1:
            raise errors.NetworkError("again", retry_after=0)
        case 5:
            raise errors.TemporaryAPIError("for ever", retry_after=0)


@pytest.mark.parametrize("stream", [list, gen], ids=["sized", "stream"])
def test_a_run_to_its_end(app, way, stream):
    summary = run(app, way, mixed, stream(range(1000)))
    assert adds_up(summary) == (600, 200, 100, 100, 0)
    assert summary.state == RunState.DONE
    assert summary.total_is_known
    assert summary.attempts == 1000 + 100 + 100, "those with 4 and 5 were called twice"
    assert summary.by_category == {"not_found": 100, "quota_exhausted": 100, "api_temporary": 100}
    assert sum(each["size"] for each in summary.groups) == 300
    is_written_down(app, summary)


@pytest.mark.parametrize("stream", [list, gen], ids=["sized", "stream"])
def test_no_target_at_all(app, way, stream):
    summary = run(app, way, mixed, stream([]))
    assert adds_up(summary) == (0, 0, 0, 0, 0)
    assert summary.exit_code == 0
    is_written_down(app, summary)


def refused(number):
    def handler(context, target):
        if target == number:
            raise errors.AuthenticationError("401")

    return handler


def test_a_401_on_target_37_of_1000_leaves_963(app):
    """E11, one at a time: nothing after it is begun."""
    summary = run(app, "one", refused(37), range(1, 1001))
    assert adds_up(summary) == (36, 1, 0, 0, 963)
    assert (summary.state, summary.exit_code) == ("aborted", 1)
    is_written_down(app, summary)


def test_a_401_on_target_37_of_a_stream_leaves_what_was_read(app):
    summary = run(app, "one", refused(37), gen(range(1, 1001)))
    assert adds_up(summary)[:4] == (36, 1, 0, 0)
    assert not summary.total_is_known
    assert summary.exit_code == 1


def test_an_abort_with_others_at_work_lets_them_finish(app, way):
    handler = refused(37)

    def slower(context, target):
        handler(context, target)
        if target > 37:  # whoever is refused may have to wait for its turn to say so
            time.sleep(0.001)

    summary = run(app, way, slower, range(1, 20_001))
    success, failed, *_, left = adds_up(summary, 20_000)
    assert failed == 1
    assert success <= 20_000 - 1 - left
    assert left > 0
    assert (summary.state, summary.exit_code) == ("aborted", 1)
    is_written_down(app, summary)


def test_after_an_abort_nothing_more_is_begun(app):
    """Those that run when it comes may finish; here that are three, held until it has come."""
    begun, gate = [], threading.Event()

    def handler(context, target):
        begun.append(target)
        if target == 0:
            while len(begun) < 4:
                gate.wait(0.001)
            gate.set()
            raise errors.AbortJob("enough")
        gate.wait(10)
        while not any(each.is_stopping for each in ending):
            threading.Event().wait(0.001)

    ending = []
    from outlast.jobs.runner import TargetRunner

    made = TargetRunner.__init__

    def remember(self, *args):
        made(self, *args)
        ending.append(self)

    TargetRunner.__init__ = remember
    try:
        summary = run(app, "threads", handler, range(1000))
    finally:
        TargetRunner.__init__ = made
    assert adds_up(summary) == (3, 1, 0, 0, 996)
    assert summary.reasons[0] == "aborted: enough"


def test_a_subclass_asks_for_the_same(app, way):
    class NotToday(errors.SkipTarget):
        pass

    class Enough(errors.AbortJob):
        pass

    skipped_targets, all_skipped = [], threading.Event()

    def handler(context, target):
        if target >= 5:
            all_skipped.wait(10)  # the others run at the same time
            raise Enough
        skipped_targets.append(target)
        if len(skipped_targets) == 5:
            all_skipped.set()
        raise NotToday

    summary = run(app, way, handler, range(1000), policy=outlast.RetryPolicy(retry_on=Exception, base_delay=60))
    _, failed, _, skipped, _ = adds_up(summary, 1000)
    assert skipped == 5
    assert failed >= 1
    assert summary.state == "aborted"
    is_written_down(app, summary)


@pytest.mark.parametrize("sized", [True, False])
def test_an_iterable_that_raises_in_the_middle(app, way, sized):
    class Targets:
        def __iter__(self):
            yield from range(40)
            raise OSError("the page is missing")

    class SizedTargets(Targets):
        def __len__(self):
            return 100

    summary = run(app, way, lambda *_: None, SizedTargets() if sized else Targets())
    success, *_, left = adds_up(summary, 100 if sized else 40)
    assert success <= 40
    assert left == summary.total_targets - success
    assert summary.state == "aborted"
    assert summary.total_is_known == sized
    assert "the targets could not be read" in summary.reasons[0]
    is_written_down(app, summary)


def test_a_size_that_is_not_true_is_set_right(app, way):
    class Targets(list):
        def __len__(self):
            return 100

    summary = run(app, way, lambda *_: None, Targets(range(30)))
    assert adds_up(summary, 30) == (30, 0, 0, 0, 0)
    assert summary.exit_code == 0


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_no_handler_should_raise_ends_the_run_and_is_raised(app, way, kind):
    def handler(context, target):
        if target == 50:
            raise kind

    with pytest.raises(kind):
        run(app, way, handler, range(1000))
    found = last(app)
    assert (found.state, found.exit_code, found.total) == (RunState.ABORTED, 1, 1000)
    assert found.summary["not_attempted"] > 0
    assert found.summary["failed_targets"] == 0
    assert f"ended by {kind.__name__}" in found.summary["reasons"][0]
    assert app.store.target_counts(found.id)[TargetStatus.SUCCESS] == found.summary["success_targets"]
    assert app.store.job_holder(found.job) is None


def test_what_was_done_before_is_kept_when_a_handler_ends_the_run(app):
    def handler(context, target):
        if target == 50:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        run(app, "one", handler, range(1000))
    assert last(app).summary["success_targets"] == 50


def test_an_early_stop_is_as_early_as_it_can_be(app):
    def handler(context, target):
        raise errors.ResourceNotFoundError("gone")

    told = {"max_failure_rate": 0.05, "early_stop": True}
    assert adds_up(run(app, "one", handler, range(1000), **told)) == (0, 51, 0, 0, 949)
    assert adds_up(run(app, "one", handler, gen(range(1000)), **told)) == (0, 1000, 0, 0, 0), "the total is not known"
    summary = run(app, "threads", handler, range(100_000), **told)
    _, failed, *_, left = adds_up(summary, 100_000)
    assert 5001 <= failed < 10_000
    assert left


def test_a_breaker_counts_exhausted_targets_in_a_row_and_not_attempts(app):
    """C11."""

    def handler(context, target):
        error = OSError("bucket") if target >= 10 and target % 5 else None
        if error is not None:
            error.outlast_category = "network"
            raise error

    breaker = {"breakers": {"file": 3, "network": 3, "program": 3}}
    summary = run(app, "one", handler, range(1000), **breaker)
    assert adds_up(summary) == (11, 3, 0, 0, 986)
    assert "3 targets in a row failed at" in summary.reasons[0]
    summary = run(app, "one", handler, range(1000), **breaker | {"breakers": {"file": 5, "network": 5, "program": 5}})
    assert summary.not_attempted == 0, "every fifth succeeds"


def test_a_refusal_is_no_sign_that_a_dependency_is_down(app):
    def handler(context, target):
        raise errors.ResourceNotFoundError("404")

    assert run(app, "one", handler, range(100), breakers={"program": 3}).not_attempted == 0


def test_trouble_of_this_machine_ends_the_run(app):
    def handler(context, target):
        raise OSError(28, "No space left on device")

    assert adds_up(run(app, "one", handler, range(100))) == (0, 3, 0, 0, 97)


def test_a_failure_at_the_database_forces_exit_code_1(app, way):
    """C11."""

    def handler(context, target):
        if target == 5:
            raise errors.DatabaseBusyError("locked", retry_after=0)

    summary = run(app, way, handler, range(100))
    assert adds_up(summary) == (99, 1, 0, 0, 0)
    assert (summary.state, summary.exit_code) == ("done", 1)


def test_a_limit_is_the_total(app, way):
    for targets in (list(range(100)), gen(range(100))):
        summary = run(app, way, mixed, targets, told={"limit": 20})
        assert adds_up(summary) == (12, 4, 2, 2, 0)
        assert summary.state == "done"
    assert run(app, way, mixed, range(100), told={"limit": 0}).total_targets == 0


def test_two_targets_of_one_key_are_two(app, way):
    calls = []

    def handler(context, target):
        calls.append(target)

    summary = run(app, way, handler, ["a", "b", "a", "a"])
    assert adds_up(summary) == (4, 0, 0, 0, 0)
    assert sorted(calls) == ["a", "a", "a", "b"]
    assert [row.source_id for row in app.store.targets(summary.run_id)] == ["a", "b"]


def test_a_stop_in_the_middle_of_a_stream_is_no_success(app, way):
    """Nobody knows what would have come, so the gate cannot let it pass."""
    from outlast.jobs.runner import TargetRunner

    def stop(tally):
        if tally.counts().success >= 20:
            for each in running:
                each.stopped = True

    running, made = [], TargetRunner.__init__

    def remember(self, *args):
        made(self, *args)
        running.append(self)

    def endless():
        number = 0
        while True:
            yield number
            number += 1

    def handler(context, target):
        if target > 20:
            threading.Event().wait(0.005)

    TargetRunner.__init__ = remember
    try:
        summary = run(app, way, handler, endless(), told={"progress": stop})
    finally:
        TargetRunner.__init__ = made
    adds_up(summary)
    assert (summary.state, summary.exit_code) == ("stopped", 1)
    assert summary.reasons[0] == "stopped before its end"
    is_written_down(app, summary)


@pytest.mark.parametrize("way", [each for each in WAYS if each != "one"])
def test_a_wait_for_another_attempt_ends_with_the_run(app, way):
    """A target that waits when the run is aborted was not attempted to its end."""
    waiting, finished = threading.Event(), threading.Semaphore(0)
    targets = [0, 1, 2, 3] if way != "executor" else [0, 3]

    def handler(context, target):
        if target == 0:
            waiting.set()
            raise errors.NetworkError("again", retry_after=600)
        if target == 3 and waiting.wait(10):
            for _ in targets[1:-1]:  # the others run at the same time
                finished.acquire(timeout=10)
            raise errors.AbortJob("enough")
        finished.release()

    summary = run(app, way, handler, targets)
    assert summary.failed_targets == 1
    assert summary.not_attempted == 1
    adds_up(summary)


def test_a_run_that_is_cancelled_is_written_down(app):
    async def handler(context, target):
        await asyncio.sleep(0 if target < 10 else 600)

    job = app.job("cancelled", max_failure_rate=1)(handler)

    async def main():
        task = asyncio.create_task(job.run_async(range(100), concurrency=4))
        while True:
            await asyncio.sleep(0.01)
            found = app.store.runs("cancelled", 1)
            if found and app.store.target_counts(found[0].id)[TargetStatus.SUCCESS] == 10:
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    found = last(app)
    assert (found.state, found.summary["success_targets"], found.summary["not_attempted"]) == ("aborted", 10, 90)
    assert app.store.job_holder("cancelled") is None


def test_threads_of_a_run_that_is_cancelled_finish_what_they_do(app):
    gate, begun = threading.Event(), threading.Event()

    def handler(context, target):
        begun.set()
        gate.wait(10)

    job = app.job("threads", max_failure_rate=1)(handler)

    async def main():
        task = asyncio.create_task(job.run_async(range(100), concurrency=4))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        asyncio.get_running_loop().call_later(0.2, gate.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    found = last(app)
    assert found.summary["success_targets"] >= 1
    assert found.summary["not_attempted"] >= 90


def test_a_handler_that_meets_a_cancelled_task_of_its_own_fails_alone(app):
    async def handler(context, target):
        if target == 5:
            task = asyncio.ensure_future(asyncio.sleep(60))
            task.cancel()
            await task

    summary = app.job("own", max_failure_rate=1)(handler).run(range(50), concurrency=4)
    assert adds_up(summary) == (49, 1, 0, 0, 0)


class Brittle(Executor):
    """An executor whose worker dies at its 30th target, as a pool of processes does."""

    def __init__(self):
        self.count = 0

    def submit(self, function, /, *args):
        self.count += 1
        if self.count > 30:
            raise BrokenProcessPool("it is broken")
        future = Future()
        if self.count == 30:
            future.set_exception(BrokenProcessPool("a process died"))
        else:
            future.set_result(function(*args))
        return future


def test_an_executor_that_breaks_ends_the_run(app):
    job = app.job("brittle", max_failure_rate=1)(lambda *_: None)
    summary = job.run(range(100), executor=Brittle(), concurrency=8)
    success, failed, *_ = adds_up(summary, 100)
    assert (success, failed) == (29, 1)
    assert summary.state == "aborted"
    assert "executor" in summary.reasons[0]
    is_written_down(app, summary)


def test_an_executor_that_was_shut_down_ends_the_run(app):
    pool = ThreadPoolExecutor(2)

    def handler(context, target):
        if target == 20:
            pool.shutdown(wait=False, cancel_futures=True)

    summary = app.job("shut", max_failure_rate=1)(handler).run(range(100), executor=pool, concurrency=4)
    adds_up(summary, 100)
    assert summary.state == "aborted"
    assert summary.not_attempted > 50


def test_what_an_executor_has_not_begun_is_not_begun_after_an_abort(app):
    calls = []

    def handler(context, target):
        calls.append(target)
        if target == 36:
            raise errors.AuthenticationError("401")

    job = app.job("queued", max_failure_rate=1)(handler)
    with ThreadPoolExecutor(1) as pool:
        summary = job.run(range(1000), executor=pool, concurrency=500)
    success, failed, *_, left = adds_up(summary, 1000)
    assert failed == 1
    assert success + 1 == len(calls)
    assert left > 0


def test_the_run_ends_in_order_when_nobody_can_show_how_far_it_is(app, way, caplog):
    def progress(tally):
        raise ValueError("no screen")

    summary = run(app, way, lambda *_: None, range(100), told={"progress": progress})
    assert adds_up(summary) == (100, 0, 0, 0, 0)
    assert sum("progress raised an error and is not called again" in each.message for each in caplog.records) == 1


def test_handlers_of_logs_that_raise_end_nothing(app, way):
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("the disk of the logs is full")

    log, broken = logging.getLogger("outlast.jobs"), Broken(level=logging.WARNING)
    log.addHandler(broken)
    try:
        assert adds_up(run(app, way, mixed, range(100))) == (60, 20, 10, 10, 0)
    finally:
        log.removeHandler(broken)


def test_a_begin_that_cannot_be_told_leaves_no_lock(app, caplog):
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("the disk of the logs is full")

    log, broken = logging.getLogger("outlast.jobs"), Broken()
    log.addHandler(broken)
    try:
        with caplog.at_level(logging.INFO, "outlast.jobs"):
            is_written_down(app, run(app, "one", lambda *_: None, range(10)))
    finally:
        log.removeHandler(broken)


def test_a_target_that_cannot_be_named_ends_the_run_in_order(app, way):
    """What runs may finish, and what was done is written down, before it is raised."""
    begun, ended = [], []

    def handler(context, target):
        begun.append(target)
        time.sleep(0.01)
        ended.append(target)

    with pytest.raises(errors.ConfigError, match="give the job key="):
        run(app, way, handler, gen([*range(20), object()]))
    assert sorted(begun) == sorted(ended)
    found = last(app)
    assert (found.state, found.exit_code) == (RunState.ABORTED, 1)
    assert "ended by ConfigError" in found.summary["reasons"][0]
    assert found.summary["success_targets"] == len(ended) == app.store.target_counts(found.id)[TargetStatus.SUCCESS]
    assert app.store.job_holder(found.job) is None


@pytest.mark.parametrize("is_async", [True, False])
def test_a_run_that_is_cancelled_while_it_begins_leaves_no_lock(app, is_async):
    reading, gate = threading.Event(), threading.Event()

    def targets():
        reading.set()
        gate.wait(10)
        return range(10)

    async def handler_async(context, target): ...

    given = handler_async if is_async else lambda *_: None
    job = app.job("early", max_failure_rate=1, targets=targets)(given)

    async def main():
        task = asyncio.create_task(job.run_async())
        await asyncio.to_thread(reading.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        threading.Timer(0.2, gate.set).start()  # when the loop is about to close

    asyncio.run(main())
    assert app.store.job_holder("early") is None
    found = last(app)
    assert (found.state, found.summary["not_attempted"]) == (RunState.ABORTED, 10)
    assert job.run(range(3)).exit_code == 0


class Interrupted(Executor):
    """An executor of processes in one group: Ctrl-C reaches the worker, too."""

    def __init__(self, *, signalled):
        self.count, self.signalled = 0, signalled

    def submit(self, function, /, *args):
        self.count += 1
        future = Future()
        if self.count == 5:
            if self.signalled:
                signal.raise_signal(signal.SIGTERM)
            future.set_exception(KeyboardInterrupt())
        else:
            future.set_result(function(*args))
        return future


def test_a_worker_that_is_interrupted_with_the_run_has_not_handled_its_target(app):
    job = app.job("group", max_failure_rate=1)(lambda *_: None)
    summary = job.run(range(100), executor=Interrupted(signalled=True), concurrency=1)
    assert adds_up(summary) == (4, 0, 0, 0, 96)
    assert summary.state == "stopped"
    is_written_down(app, summary)


def test_a_worker_that_is_interrupted_alone_ends_the_run(app):
    job = app.job("group", max_failure_rate=1)(lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        job.run(range(100), executor=Interrupted(signalled=False), concurrency=1)
    assert last(app).summary["success_targets"] == 4


def test_a_handler_can_ask_which_attempt_it_is(app, way):
    seen = []

    def handler(context, target):
        now = outlast.current_attempt()
        seen.append((now.number, now.max_attempts) == (context.attempt, 2))
        if now.number == 1:
            raise errors.NetworkError("x")

    assert run(app, way, handler, range(3)).success_targets == 3
    assert seen == [True] * 6
    assert outlast.current_attempt() is None
