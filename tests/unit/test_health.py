"""B6, the health checker: it never raises, never tells an error's text, never hangs, and asks once for many."""

import contextlib
import dataclasses
import json
import logging
import sqlite3
import threading
from types import SimpleNamespace

import anyio
import pytest

import outlast
from outlast.errors import ConfigError
from outlast.health import Finding, HealthChecker, HealthCheckResult, HealthReport, HealthStatus, Heartbeat
from outlast.testing import fake_clock

SECRET = "postgresql://admin:hunter2@db.internal/shop"


class Counting:
    """A check that counts how often it is asked, and may be held up."""

    def __init__(self, answer=True, hold=None):
        self.asked = 0
        self.answer, self.hold = answer, hold
        self.lock = threading.Lock()

    def __call__(self):
        with self.lock:
            self.asked += 1
        if self.hold is not None:
            self.hold.wait()
        return self.answer


class Scheduler:
    def __init__(self, running):
        self._running = running

    @property
    def running(self):
        if isinstance(self._running, BaseException):
            raise self._running
        return self._running


@pytest.fixture
def db(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "some.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
        yield connection


def raising(error):
    def check():
        raise error

    return check


def test_the_names_and_values_of_the_seed(db):
    result = HealthChecker(db=db, scheduler=Scheduler(True)).check()
    assert result == HealthCheckResult(HealthStatus.HEALTHY, {"database": True, "scheduler": True})
    assert result.to_dict() == {"status": "healthy", "checks": {"database": True, "scheduler": True}}
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert list(HealthStatus) == ["healthy", "unhealthy"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.status = HealthStatus.UNHEALTHY
    assert not hasattr(result, "__dict__")


def test_a_scheduler_that_stands_still_is_unhealthy(db):
    result = HealthChecker(db=db, scheduler=Scheduler(False)).check()
    assert result == HealthCheckResult(HealthStatus.UNHEALTHY, {"database": True, "scheduler": False})


def test_seed_defect_running_that_raises_stays_in_the_check(db):
    result = HealthChecker(db=db, scheduler=Scheduler(RuntimeError(SECRET))).check()
    assert result.checks == {"database": True, "scheduler": False}


def test_running_that_is_a_method_is_not_taken_for_true():
    class Mistaken:
        def running(self):
            return False

    assert HealthChecker(scheduler=Mistaken()).check().checks == {"scheduler": False}


class StrangeError(BaseException):
    pass


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("x"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StrangeError("x"),
        UnspeakableError(),
        BaseExceptionGroup("all", [StrangeError("x"), ValueError("y")]),
        StopIteration(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_check_raises_it_is_false_and_the_others_are_asked(error):
    checker = HealthChecker(checks={"bad": raising(error), "good": lambda: True})
    assert checker.check().checks == {"bad": False, "good": True}
    assert checker.report().checks["bad"].detail.startswith("failed (")


@pytest.mark.parametrize("answer", [None, 1, 0, "yes", object(), [True]])
def test_an_answer_that_is_neither_a_bool_nor_a_finding_is_false(answer):
    assert HealthChecker(checks={"odd": lambda: answer}).check().checks == {"odd": False}


def test_secrets_are_in_no_answer_and_in_no_record(caplog):
    caplog.set_level(logging.DEBUG, "outlast.health")
    checks = {
        "raises": raising(ConnectionError(f"cannot reach {SECRET}")),
        "finds": lambda: Finding(ok=False, detail=f"cannot reach {SECRET}\nsecond line"),
    }
    checker = HealthChecker(checks=checks)
    told = json.dumps([checker.check().to_dict(), checker.report().to_dict(), checker.ready().to_dict()])
    logged = "".join(json.dumps(record.__dict__, default=str) for record in caplog.records) + caplog.text
    assert len(caplog.records) == 2
    assert "cannot reach" in logged
    for text in (told, logged):
        assert "hunter2" not in text
    assert checker.report().checks["raises"].detail == "failed (network)"
    assert checker.report().checks["finds"].detail == "cannot reach postgresql://***@db.internal/shop …"


def test_a_failing_check_is_logged_once_a_minute_and_its_recovery_once(caplog):
    caplog.set_level(logging.INFO, "outlast.health")
    check = Counting(False)
    with fake_clock() as clock:
        checker = HealthChecker(checks={"a": check, "b": raising(ValueError("x"))})
        for _ in range(60):
            checker.check()
            clock.advance(1)
        assert sorted(record.check for record in caplog.records) == ["a", "b"]
        checker.check()
        assert sorted(record.check for record in caplog.records) == ["a", "a", "b", "b"]
        check.answer = True
        for _ in range(3):
            clock.advance(1)
            checker.check()
    assert [record.getMessage() for record in caplog.records if record.check == "a"][2:] == ["check a: recovered"]
    assert check.asked == 64


def test_a_flapping_check_is_logged_no_more_often(caplog):
    caplog.set_level(logging.INFO, "outlast.health")
    check = Counting()
    with fake_clock() as clock:
        checker = HealthChecker(checks={"a": check})
        for round_ in range(50):
            check.answer = bool(round_ % 2)
            checker.check()
            clock.advance(1)
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_log_handler_that_raises_changes_nothing(monkeypatch):
    monkeypatch.setattr("outlast.health.checker.log.log", raising(RuntimeError("disk full")))
    assert HealthChecker(checks={"a": lambda: False}).check().checks == {"a": False}


def test_a_check_that_hangs_is_false_and_no_second_thread_hangs_with_it(caplog):
    release = threading.Event()
    hanging, quick = Counting(hold=release), Counting()
    checker = HealthChecker(checks={"hanging": hanging, "quick": quick}, cache=0, timeout=0.05)
    for _ in range(5):
        assert checker.check().checks == {"hanging": False, "quick": True}
    assert (hanging.asked, quick.asked) == (1, 5)
    assert checker.report().checks["hanging"].detail == "no answer within 0.05 s"
    assert [record.getMessage() for record in caplog.records] == ["check hanging: no answer within 0.05 s"]
    release.set()
    for thread in threading.enumerate():
        if thread.name == "outlast-health-hanging":
            thread.join()
    assert checker.check().checks == {"hanging": True, "quick": True}
    assert hanging.asked == 2


def test_the_answer_is_kept_for_a_second():
    check = Counting()
    with fake_clock() as clock:
        checker = HealthChecker(checks={"a": check})
        checker.check(), checker.report(), checker.ready()
        clock.advance(0.999)
        checker.check()
        assert check.asked == 1
        check.answer = False
        clock.advance(0.001)
        assert checker.check().status is HealthStatus.UNHEALTHY
        assert check.asked == 2


def test_an_answer_that_somebody_changed_is_not_everybodys():
    with fake_clock():
        checker = HealthChecker(checks={"a": lambda: True})
        checker.check().checks["a"] = False
        with pytest.raises(TypeError):
            checker.report().checks["a"] = Finding(False, "")
        assert checker.check().checks == {"a": True}


def test_many_callers_at_once_cause_one_run_also_without_a_cache():
    release = threading.Event()
    slow, quick = Counting(hold=release), Counting()
    checker = HealthChecker(checks={"slow": slow, "quick": quick}, cache=0, timeout=60)
    futures = [checker.begin() for _ in range(100)]
    assert not any(future.done() for future in futures)
    release.set()
    assert {future.result().status for future in futures} == {"healthy"}
    assert (slow.asked, quick.asked) == (1, 1)
    checker.check()
    assert (slow.asked, quick.asked) == (2, 2)


def test_a_process_without_threads_left_still_answers(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    checker = HealthChecker(checks={"a": lambda: True})
    monkeypatch.setattr(threading.Thread, "start", start)
    assert checker.check().checks == {"a": False}
    assert checker.report().checks["a"].detail == "could not run"


def test_a_single_check_without_a_thread_is_false(monkeypatch):
    begin = threading.Thread.start

    def start(self):
        if self.name == "outlast-health-b":
            raise RuntimeError("can't start new thread")
        begin(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    assert HealthChecker(checks={"a": lambda: True, "b": lambda: True}).check().checks == {"a": True, "b": False}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_asking_does_not_block_the_event_loop(backend):
    release = threading.Event()
    checker = HealthChecker(checks={"a": Counting(hold=release)}, timeout=60)
    reports = []

    async def ask():
        reports.append(await checker.report_async())

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
            await anyio.sleep(0.01)
            release.set()  # only a loop that runs gets here
        reports.append(await checker.report_async())

    anyio.run(main, backend=backend)
    assert [report.status for report in reports] == ["healthy"] * 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_pitfall_1_one_who_stops_waiting_does_not_cancel_it_for_the_others(backend):
    release, reports = threading.Event(), []
    check = Counting(hold=release)
    checker = HealthChecker(checks={"a": check}, timeout=60)

    async def wait():
        reports.append(await checker.report_async())

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            with anyio.move_on_after(0.01) as scope:
                await checker.report_async()
            assert scope.cancelled_caught
            release.set()
        await wait()

    anyio.run(main, backend=backend)
    assert ([report.status for report in reports], check.asked) == (["healthy"] * 2, 1)


def test_the_detailed_view():
    checks = {
        "fine": lambda: True,
        "slow": lambda: Finding(ok=True, detail="waits for 400 s", degraded=True),
    }
    report = HealthChecker(checks=checks).report()
    assert report.to_dict() == {
        "status": "degraded",
        "checks": {
            "fine": {"ok": True, "degraded": False, "detail": "ok"},
            "slow": {"ok": True, "degraded": True, "detail": "waits for 400 s"},
        },
    }
    assert report.result == HealthCheckResult(HealthStatus.HEALTHY, {"fine": True, "slow": True})
    worse = HealthReport({**report.checks, "gone": Finding(ok=False, detail="x", degraded=True)})
    assert (worse.status, worse.result.status) == ("unhealthy", "unhealthy")


def test_ready_asks_database_and_loop_alone_and_ends_with_stopping():
    checks = {"database": lambda: True, "loop": Heartbeat(), "disk": lambda: False}
    checker = HealthChecker(checks=checks)
    assert checker.ready().to_dict() == {"status": "healthy", "checks": {"database": True, "loop": True}}
    assert checker.check().status is HealthStatus.UNHEALTHY
    before = checker.check()
    checker.stopping()
    assert checker.ready().to_dict() == {
        "status": "unhealthy",
        "checks": {"database": True, "loop": True, "accepting": False},
    }
    assert checker.check() == before


def test_a_checker_without_checks_tells_that_the_process_answers():
    assert HealthChecker().check().to_dict() == {"status": "healthy", "checks": {}}


async def awaited():
    return True


class AsyncConnection:
    async def execute(self, query):
        return None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"db": object()}, "has execute"),
        ({"db": AsyncConnection()}, "is async"),
        ({"checks": {"a": True}}, "give a function"),
        ({"checks": {"a": awaited}}, "is async"),
        ({"checks": {"": lambda: True}}, "is not a valid name for a check"),
        ({"checks": {"a\nb": lambda: True}}, "is not a valid name for a check"),
        ({"scheduler": Scheduler(True), "checks": {"scheduler": lambda: True}}, "the check 'scheduler' already exists"),
        ({"cache": -1}, "cache is -1"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": True}, "timeout is True"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(settings, said):
    with pytest.raises(ConfigError, match=said):
        HealthChecker(**settings)


def test_for_an_app_with_a_file(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path}/jobs.db")
    checker = HealthChecker.for_app(app, loop=Heartbeat(), checks={"mine": lambda: True})
    names = ["database", "loop", "oldest_ready", "dead_letters", "disk", "mine"]
    assert checker.check().to_dict() == {"status": "healthy", "checks": dict.fromkeys(names, True)}
    assert checker.ready().checks == {"database": True, "loop": True}
    app.close()


def test_for_an_app_in_memory_there_is_no_disk_to_look_at():
    checker = HealthChecker.for_app(outlast.App("memory://"))
    assert list(checker.check().checks) == ["database", "oldest_ready", "dead_letters"]


def test_an_apps_checks_can_be_replaced():
    checker = HealthChecker.for_app(
        SimpleNamespace(store=outlast.App("memory://").store), checks={"dead_letters": lambda: False}
    )
    assert checker.check().checks == {"database": True, "oldest_ready": True, "dead_letters": False}
