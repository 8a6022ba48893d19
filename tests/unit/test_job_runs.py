"""What a job does with its targets: attempts, waits, keys of the log, and what it refuses."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from enum import StrEnum
from typing import NamedTuple

import pytest

import outlast
from outlast import errors, testing
from outlast.jobs.summary import FIGURES
from outlast.jobs.target_feed import TargetFeed, target_key

E9 = {
    "job_id", "run_id", "env", "job_start_at", "entity", "source_id", "attempt", "max_attempts", "error_category",
    "origin", "http_status", "exception_name", "failure_message",
}  # fmt: skip
E10 = {"total_targets", "success_targets", "failed_targets", "failure_rate", "exit_code", *FIGURES}


class HTTPError(Exception):
    """As an HTTP client raises it."""

    def __init__(self, status, **headers):
        super().__init__(f"{status} from the server")
        self.response = Response(status, {name.replace("_", "-"): value for name, value in headers.items()})


class Response:
    def __init__(self, status_code, headers):
        self.status_code, self.headers = status_code, headers


@pytest.fixture
def app():
    app = outlast.App("memory://")
    yield app
    app.close()


@pytest.fixture(params=["one", "threads", "loop", "executor"])
def run(request, app):
    """Run a handler over targets; each of the ways has a loop or a thread of its own."""

    def run(handler, targets, **settings):
        async def handler_async(context, target):
            return handler(context, target)

        told = settings.pop("told", {})
        given = handler_async if request.param == "loop" else handler
        job = app.job(f"job{len(app.jobs_by_name)}", **{"max_failure_rate": 1.0, **settings})(given)
        if request.param == "executor":
            with ThreadPoolExecutor(2) as pool:
                return job.run(targets, executor=pool, **told)
        return job.run(targets, concurrency=1 if request.param == "one" else 3, **told)

    return run


def records(caplog):
    return [each for each in caplog.records if "error_category" in each.__dict__]


def test_every_failing_attempt_is_told_with_all_keys(run, caplog):
    """E9: those that are tried again, and the last one."""

    def handler(context, target):
        raise HTTPError(503)

    policy = outlast.RetryPolicy(max_attempts=3, base_delay=0)
    summary = run(handler, ["i1"], entity="item", policy=policy)
    told = records(caplog)
    assert {each.attempt for each in told} == {1, 2, 3}
    for each in told:
        assert each.__dict__.keys() >= E9
        assert (each.job_id, each.run_id, each.entity) == (summary.job_id, summary.run_id, "item")
        assert (each.source_id, each.max_attempts, each.env) == ("i1", 3, "local")
        assert (each.error_category, each.origin, each.http_status) == ("api_temporary", "http", 503)
        assert (each.exception_name, each.failure_message) == ("HTTPError", "503 from the server")
    assert [each.levelname for each in told if each.name == "outlast.jobs"] == ["ERROR"]
    assert "Traceback" in told[-1].getMessage()


def test_what_a_handler_retries_itself_is_told_with_the_keys_too(run, caplog):
    calls = []

    @outlast.retry(max_attempts=2, base_delay=0, jitter="none")
    def fetch(target):
        calls.append(target)
        if len(calls) == 1:
            raise errors.NetworkError("reset", retry_after=0)

    summary = run(lambda _, target: fetch(target), ["i1"])
    (told,) = records(caplog)
    assert told.__dict__.keys() >= E9
    assert (told.run_id, told.source_id, told.attempt) == (summary.run_id, "i1", 1)


def test_the_keys_are_those_of_each_target(run, caplog):
    def handler(context, target):
        context.log.warning("look")
        raise errors.ResourceNotFoundError(target)

    run(handler, [f"i{number}" for number in range(50)])
    assert {each.source_id for each in records(caplog)} == {each.failure_message for each in records(caplog)}
    assert len({each.source_id for each in caplog.records if each.message == "look"}) == 50


def test_no_key_is_left_when_a_run_is_over(run, caplog):
    run(lambda *_: None, ["a"])

    @outlast.retry(max_attempts=2, base_delay=0)
    def fetch():
        raise errors.NetworkError("reset", retry_after=0)

    with pytest.raises(errors.NetworkError):
        fetch()
    assert not hasattr(records(caplog)[-1], "run_id")


def test_the_closing_line_carries_the_summary(run, caplog):
    """E10."""
    caplog.set_level(logging.INFO)

    def handler(context, target):
        context.count("diff_new_hash")
        context.count("s3_put_success", 2)
        context.count("pages", 3)

    summary = run(handler, ["a", "b"], entity="item")
    (told,) = [each for each in caplog.records if hasattr(each, "summary")]
    assert told.summary.keys() >= E10
    assert json.loads(json.dumps(told.summary)) == json.loads(summary.to_json())
    assert (summary.diff_new_hash, summary.s3_put_success, summary.s3_put_fail) == (2, 4, 0)
    assert summary.figures == {"pages": 6}
    assert (told.run_id, told.levelname) == (summary.run_id, "INFO")


def test_an_exhausted_target_is_recorded_and_the_others_go_on(run):
    """E3: five calls for it, one for each of the others; C3: nothing sleeps after the last."""
    calls = []

    def handler(context, target):
        calls.append(target)
        assert context.attempt == calls.count(target)
        if target == "bad":
            raise HTTPError(503)

    with testing.fake_clock() as clock:
        summary = run(handler, ["a", "bad", "c"], policy=outlast.preset("etl").replace(jitter="none"))
    assert (summary.success_targets, summary.failed_targets, summary.attempts) == (2, 1, 7)
    assert calls.count("bad") == 5
    assert clock.waits == [1, 2, 4, 8]


def test_what_must_not_be_tried_again_is_not(run):
    """E2, C10: 400 and 404 fail the target."""
    calls = []

    def handler(context, target):
        calls.append(target)
        raise HTTPError(target)

    summary = run(handler, [400, 404])
    assert sorted(calls) == [400, 404]
    assert (summary.failed_targets, summary.state) == (2, "done")


@pytest.mark.parametrize(
    "error",
    [HTTPError(401), HTTPError(403), sqlite3.IntegrityError("UNIQUE constraint failed: t.a"), errors.ConfigError("x")],
    ids=lambda error: type(error).__name__ + str(error)[:3],
)
def test_what_every_target_would_meet_with_ends_the_job(run, error):
    """E11, C10."""

    def handler(context, target):
        if target == 5:
            raise error

    summary = run(handler, range(10_000))
    assert (summary.failed_targets, summary.state, summary.exit_code) == (1, "aborted", 1)
    assert summary.not_attempted


def test_a_policy_that_says_nothing_retries_what_may_help(run):
    """C14: a job means what the classifier calls retryable."""
    calls = []

    def handler(context, target):
        calls.append(target)
        raise (ValueError if target == "bug" else errors.NetworkError)("x")

    run(handler, ["bug", "net"], policy=outlast.RetryPolicy(max_attempts=3, base_delay=0))
    assert (calls.count("bug"), calls.count("net")) == (1, 3)


def test_a_hint_longer_than_can_be_slept_is_put_off(run):
    """C7: nothing sleeps for it, and the time to come back is kept."""

    def handler(context, target):
        if target == "long":
            raise HTTPError(429, retry_after=formatdate(real_now() + 7300, usegmt=True))

    from outlast import clock as clocks

    real_now = clocks.now
    summary = run(handler, ["a", "long"], defer_ok=True)
    assert (summary.deferred_targets, summary.failed_targets, summary.exit_code) == (1, 0, 0)


def test_a_hint_beyond_the_deadline_is_put_off(run, app):
    def handler(context, target):
        raise HTTPError(429, retry_after="120")

    summary = run(handler, ["a"], max_failure_rate=0.5, policy=outlast.preset("etl").replace(deadline=30))
    assert (summary.deferred_targets, summary.exit_code) == (1, 1), "put off counts as failed for the gate"
    (row,) = app.store.targets(summary.run_id)
    assert 110 < (row.retry_at - row.finished_at).total_seconds() <= 121


def test_a_quota_with_a_known_renewal_is_put_off_and_one_without_ends_the_job(run):
    """C12."""

    def handler(context, target):
        raise errors.QuotaExhaustedError("used up", retry_after=60 if target == "known" else None)

    assert run(handler, ["known"]).deferred_targets == 1
    assert run(handler, ["unknown"]).state == "aborted"


def test_the_budget_of_a_run_is_for_all_its_targets_and_full_for_each_run(app):
    calls = []

    def handler(context, target):
        calls.append(target)
        raise errors.NetworkError("down", retry_after=0)

    job = app.job("thrifty", max_failure_rate=1, budget=outlast.Budget(7, per_second=0))(handler)
    assert job.run(range(100), concurrency=4).attempts == 107
    assert job.run(range(100), concurrency=4).attempts == 107


def test_a_coroutine_that_takes_too_long_is_cancelled(app):
    ended = []

    async def handler(context, target):
        assert 0 < context.time_left <= 0.05
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append(context.attempt)
            raise

    policy = outlast.RetryPolicy(max_attempts=3, base_delay=0, attempt_timeout=0.05)
    summary = app.job("slow", max_failure_rate=1, policy=policy)(handler).run(range(4), concurrency=4)
    assert summary.failed_targets == 4
    assert sorted(ended) == sorted([1, 2, 3] * 4)


def test_a_deadline_counts_for_all_attempts_of_a_coroutine(app):
    async def handler(context, target):
        await asyncio.sleep(600)

    policy = outlast.RetryPolicy(max_attempts=100, base_delay=0.01, attempt_timeout=600, deadline=0.2)
    job = app.job("slow", max_failure_rate=1, policy=policy)(handler)
    summary = job.run([1], concurrency=1)
    assert (summary.failed_targets, summary.attempts) == (1, 1)


def test_a_function_may_keep_to_its_time(app):
    seen = []

    def handler(context, target):
        seen.append(context.time_left)

    app.job("slow", max_failure_rate=1, policy=outlast.RetryPolicy(attempt_timeout=5))(handler).run([1])
    app.job("any", max_failure_rate=1)(handler).run([1])
    assert 0 < seen[0] <= 5
    assert seen[1] is None


def test_run_async_runs_beside_others_on_the_loop(app):
    async def handler(context, target):
        await asyncio.sleep(0.001)

    job = app.job("a", max_failure_rate=0)(handler)
    other = app.job("b", max_failure_rate=0)(lambda *_: None)

    async def main():
        return await asyncio.gather(job.run_async(range(100)), other.run_async(range(100)))

    for summary in asyncio.run(main()):
        assert summary.success_targets == 100


def test_a_coroutine_that_never_waits_lets_the_loop_have_its_turn(app):
    ticks = []

    async def handler(context, target):
        for _ in range(50):
            pass

    async def ticking():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    async def main():
        task = asyncio.create_task(ticking())
        summary = await app.job("busy", max_failure_rate=0)(handler).run_async(iter(range(50_000)))
        task.cancel()
        return summary

    assert asyncio.run(main()).success_targets == 50_000
    assert len(ticks) > 5


def test_a_job_with_coroutines_is_not_run_inside_a_loop(app):
    async def handler(context, target): ...

    job = app.job("a", max_failure_rate=0)(handler)

    async def main():
        job.run([1])

    with pytest.raises(errors.ConfigError, match="run_async"):
        asyncio.run(main())
    with pytest.raises(errors.ConfigError, match="executor"), ThreadPoolExecutor() as pool:
        job.run([1], executor=pool)


def test_an_iterable_is_read_in_the_thread_that_runs_the_job(run):
    """Rows of a SQLite connection may be read nowhere else."""
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE t AS WITH RECURSIVE n (i) AS (SELECT 1 UNION SELECT i + 1 FROM n LIMIT 500) SELECT i FROM n"
    )
    summary = run(lambda *_: None, (row[0] for row in connection.execute("SELECT i FROM t")))
    assert (summary.success_targets, summary.state) == (500, "done")
    connection.close()


def test_targets_are_read_as_far_as_they_are_needed(run):
    """However long a stream is, what is read ahead is bounded."""
    read, most = 0, 0
    seen = []

    def stream():
        nonlocal read, most
        for number in range(20_000):
            read += 1
            most = max(most, read - len(seen))
            yield number

    assert run(lambda _, target: seen.append(target), stream()).success_targets == 20_000
    assert most < 2 * 8 * 64 + 500


def test_slow_targets_are_not_left_to_one_thread(app):
    """Those that come after quick ones are handed out in chunks; the rest of a chunk goes to who is free."""
    slow, together = set(range(2000, 2008)), threading.Barrier(8)

    def handler(context, target):
        if target in slow:
            together.wait(20)

    summary = app.job("uneven", max_failure_rate=0)(handler).run(range(3000), concurrency=9)
    assert summary.success_targets == 3000


@pytest.mark.parametrize("concurrency", [1, 3])
def test_handlers_see_the_context_of_who_runs_the_job(app, concurrency):
    variable = contextvars.ContextVar("variable", default=None)
    variable.set("here")
    seen = []

    def handler(context, target):
        seen.append(variable.get())
        raise errors.NetworkError("down", retry_after=0)

    with outlast.no_retries():
        app.job("contexts", max_failure_rate=1)(handler).run(range(5), concurrency=concurrency)
    assert seen == ["here"] * 5


def test_a_handler_whose_result_is_to_be_awaited_ends_the_job(app):
    """Nobody would see its errors."""

    async def fetch(target):
        raise AssertionError("never run")

    summary = app.job("lost", max_failure_rate=1)(lambda _, target: fetch(target)).run(range(10), concurrency=1)
    assert (summary.state, summary.success_targets) == ("aborted", 0)
    assert "coroutine" in summary.reasons[0]


def test_a_dry_run_is_told_to_handlers_and_written_down_nowhere(app):
    seen = []
    task_calls = []

    class Task:
        name = "later"

        def enqueue(self, *args, **options):
            task_calls.append(args)

    def handler(context, target):
        seen.append(context.dry_run)
        raise errors.ResourceNotFoundError("gone")

    job = app.job("dry", max_failure_rate=1, hand_over=Task())(handler)
    summary = job.run([1, 2], dry_run=True)
    assert seen == [True, True]
    assert summary.failed_targets == 2
    assert app.store.runs() == []
    assert task_calls == []
    lock = app.store.lock_job("dry", "me")
    assert job.run([1], dry_run=True).total_targets == 1, "nor is it locked"
    lock.release()


def test_without_a_ledger_nothing_is_kept(app):
    job = app.job("bare", max_failure_rate=0, ledger=False)(lambda *_: None)
    assert job.run([1]).exit_code == 0
    assert app.store.runs() == []
    with pytest.raises(errors.ConfigError, match="no ledger"):
        job.run([1], resume="r")


def test_a_job_that_is_called_is_its_function(app):
    @app.job("plain", max_failure_rate=0)
    def double(context, target):
        """Doubles."""
        return target * 2

    assert double(None, 4) == 8
    assert double.__doc__ == "Doubles."


def test_targets_may_come_from_the_job_itself(app):
    job = app.job("own", max_failure_rate=0, targets=lambda: ["a", "b"])(lambda *_: None)
    assert job.run().total_targets == 2
    assert job.run(["c"]).total_targets == 1


@pytest.mark.parametrize(
    ("told", "match"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"limit": -1}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"resume": "a", "only_failed": "b"}, "one of them"),
        ({"resume": "a"}, "no run a"),
        ({"only_failed": "a"}, "no run a"),
        ({"targets": None}, "no targets"),
        ({"targets": "abc"}, "a str"),
        ({"targets": b"abc"}, "a bytes"),
        ({"targets": 5}, "an? int"),
        ({"targets": [object()]}, "give the job key="),
    ],
)
def test_a_run_that_cannot_be_meant_is_refused(app, told, match):
    job = app.job("a", max_failure_rate=0)(lambda *_: None)
    with pytest.raises(errors.ConfigError, match=match):
        job.run(**{"targets": [1], **told})
    assert app.store.job_holder("a") is None
    assert job.run([1]).exit_code == 0


def _generator(context, target):
    yield target


@pytest.mark.parametrize(
    ("settings", "handler", "match"),
    [
        ({"name": ""}, max, "name"),
        ({"name": "a\x00"}, max, "name"),
        ({"env": "x" * 300}, max, "env"),
        ({"entity": "\ud800", "max_failure_rate": 1}, max, "entity"),
        ({"breakers": {"bucket": 3}}, max, "bucket"),
        ({"breakers": {"s3": 0}}, max, "s3"),
        ({"policy": "etl"}, max, "policy"),
        ({"policy": outlast.RetryPolicy(resource="api")}, max, "api"),
        ({"hand_over": object(), "ledger": False}, max, "ledger=True"),
        ({}, 5, "cannot be a job"),
        ({}, _generator, "generator"),
        ({"max_failure_rate": None}, max, "max_failure_rate"),
    ],
)
def test_a_job_that_cannot_be_meant_is_refused(app, settings, handler, match):
    settings = {"name": "a", "max_failure_rate": 0.1} | settings
    with pytest.raises(errors.ConfigError, match=match):
        app.job(settings.pop("name"), **settings)(handler)


def test_two_jobs_have_two_names(app):
    app.job("a", max_failure_rate=0)(max)
    with pytest.raises(errors.ConfigError, match="already"):
        app.job("a", max_failure_rate=0)(max)


class Kind(StrEnum):
    A = "a"


class Row:
    id = 7


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("a", "a"),
        (7, "7"),
        ({"source_id": "s", "id": 3}, "s"),
        ({"id": 3}, "3"),
        (Row(), "7"),
        (Kind.A, "a"),
        ("ä", "ä"),
    ],
)
def test_a_target_is_told_from_others_by_its_id(target, key):
    feed = TargetFeed([target], target_key, None, None)
    taken = []
    feed.hand_out(1, taken.append)
    ((found, same),) = taken
    assert found == key
    assert type(found) is str
    assert same is target


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("key", ["", "x" * 501, "a\x00b", "\ud800", None, 1.5])
def test_a_key_that_cannot_be_stored_ends_the_run(app, key, concurrency):
    job = app.job("keys", max_failure_rate=1, key=lambda target: "ok" if target else key)(lambda *_: None)
    summary = job.run([1, 0, 1], concurrency=concurrency)
    assert (summary.state, summary.total_targets) == ("aborted", 3)
    assert "1 to 500 characters" in summary.reasons[0]


def test_a_summary_reads_well_wherever_it_is_shown(app, tmp_path, monkeypatch):
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))

    def handler(context, target):
        raise errors.ResourceNotFoundError("<b>|gone|</b>\nline two")

    summary = app.job("<job>", max_failure_rate=0)(handler).run(["a|b"])
    text = page.read_text("utf-8")
    assert "<b>" not in text
    assert "<job>" not in text
    assert "| failed targets | 1 |" in text
    assert str(summary).splitlines()[0] == f"<job> {summary.run_id}: failed, exit code 1"
    assert json.loads(summary.to_json())["exit_code"] == 1
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "such" / "folder"))
    assert app.jobs_by_name["<job>"].run([]).exit_code == 0


def test_a_run_of_countless_causes_keeps_few_of_them(app):
    def handler(context, target):
        raise type(f"Error{target}", (errors.ResourceNotFoundError,), {})("gone")

    with caplog_off():
        summary = app.job("causes", max_failure_rate=1)(handler).run(range(3000))
    assert summary.failed_targets == 3000
    assert len(summary.groups) == 5
    assert summary.groups[0]["size"] >= 2000


class caplog_off:
    def __enter__(self):
        logging.disable(logging.CRITICAL)

    def __exit__(self, *_):
        logging.disable(logging.NOTSET)


class Pair(NamedTuple):
    """A target that JSON would make a list of."""

    id: object
    size: int


@pytest.mark.parametrize(
    "target",
    [(1, 2), Pair("a", 2), {"id": "a", 1: "x"}, {"id": "a", "sizes": (1, 2)}, [{"half": "\ud800"}], [[Pair(1, 2)]]],
    ids=repr,
)
def test_a_target_that_json_would_change_is_looked_up_by_its_key(app, target):
    def handler(context, target):
        seen.append(target)
        raise errors.ResourceNotFoundError("gone")

    seen = []
    job = app.job("pairs", max_failure_rate=1.0, key=lambda _: "key")(handler)
    first = job.run([target])
    assert app.store.targets(first.run_id)[0].target is None
    with pytest.raises(errors.ConfigError, match="looked up by key"):
        job.run(only_failed=first.run_id)
    job.run([target], only_failed=first.run_id)
    assert len(seen) == 2
    assert seen[1] is target


@pytest.mark.parametrize(
    "target", ["ü\x00", 7, True, None, 1.5, {"id": "a", "b": [1, None, {"ü": [True, "", {}, []]}]}]
)
def test_a_target_that_json_gives_back_is_kept(app, target):
    def handler(context, target):
        seen.append(target)
        raise errors.ResourceNotFoundError("gone")

    seen = []
    job = app.job("kept", max_failure_rate=1.0, key=lambda _: "key")(handler)
    job.run(only_failed=job.run([target]).run_id)
    assert seen == [target, target]
    assert type(seen[1]) is type(target)


def test_targets_that_were_looked_up_are_handed_out_as_long_as_those_that_are_read():
    """One handler after another: what is slow is counted and written before the next."""
    feed = TargetFeed(range(64), str, lambda _: set(), None)
    feed.hand_out(64, lambda _: time.sleep(0.01))
    assert feed.handed == 1
    feed.hand_out(3, [].append)
    assert feed.handed <= 4


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda app: app.job(lambda context, target: None), "a job needs a name"),
        (
            lambda app: app.job("x", max_failure_rate=1, targets=[1, 2])(lambda context, target: None),
            "targets is a list",
        ),
        (lambda app: app.job("x", max_failure_rate=1)(lambda target: None), "takes a context and a target"),
    ],
)
def test_the_usual_mistakes_are_told_when_a_job_is_made(make, says):
    with pytest.raises(outlast.errors.ConfigError, match=says):
        make(outlast.App("memory://"))
