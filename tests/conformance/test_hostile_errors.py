"""Tasks whose errors raise while they are read: one dead letter each, and nobody else is punished."""

import dataclasses

import pytest

import outlast
from hostile_errors import BEYOND_EXCEPTION, TABLE, Expected, hostile
from outlast.ports.rows import Reason, Status
from outlast.report.dead_letters import REASON_TEXTS

NOW = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=0)


@pytest.fixture
def app(store, tmp_path):
    return outlast.App(store, policy=NOW, spool=tmp_path / "spool")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_is_one_dead_letter_and_all_others_are_done(app, asynchronous):
    """Coroutines run in the main thread; a worker handles Ctrl-C as a signal, so no interrupt of a task ends it."""
    done = []

    def raises(member: str, kind: str) -> None:
        raise hostile(member, kind)

    async def raises_async(member: str, kind: str) -> None:
        raise hostile(member, kind)

    @app.task
    async def good(n: int) -> None:
        done.append(n)

    task = app.task(name="hostile")(raises_async if asynchronous else raises)
    expected = {}
    for number, each in enumerate(TABLE):
        expected[task.enqueue(*each).id] = each
        good.enqueue(number)
    app.worker().drain()

    counts = app.tasks.counts()
    assert (counts[Status.DONE], counts["dead_letters"], counts[Status.QUEUED]) == (len(TABLE), len(TABLE), 0)
    assert sorted(done) == list(range(len(TABLE)))
    letters = app.dead_letters.list(limit=None)
    for letter in letters:
        each = expected.pop(letter.original_task_id)
        assert letter.reason in each.reasons, each
        assert letter.retry_count == 1
        assert (letter.error_type, letter.error_category) == ("HostileError", "unknown")
        assert letter.error_message
        assert "raise hostile(member, kind)" in letter.traceback, each
    assert not expected
    unreadable = [each for each in letters if each.reason is Reason.UNREADABLE]
    assert app.dead_letters.count(reason="unreadable") == len(unreadable) > len(BEYOND_EXCEPTION)
    assert REASON_TEXTS.keys() == set(Reason)


def test_a_policy_that_lists_the_class_does_not_retry_what_cannot_be_read(app):
    @app.task(policy=NOW.replace(retry_on=(Exception,)))
    def raises() -> None:
        raise hostile("__str__", "SystemExit")

    raises.enqueue()
    app.worker().drain()
    (letter,) = app.dead_letters.list()
    assert (letter.reason, letter.retry_count) == (Reason.UNREADABLE, 1)
    assert letter.error_message == "it cannot be read: its own code raised SystemExit"


class Ending(list):
    def __iter__(self):
        raise SystemExit(3)


def test_code_of_the_program_that_ends_the_process_settles_its_task(app):
    """A result, an argument or a backoff function: none of them has a task run for ever."""
    bad, runs = [], []

    @dataclasses.dataclass
    class Point:
        x: int

        def __post_init__(self):
            if bad:
                raise SystemExit(3)

    @app.task
    def takes(point: Point):
        runs.append("takes")

    @app.task(keep_result=60)
    def gives():
        runs.append("gives")
        return Ending([1])

    def backoff(number):
        raise SystemExit(9)

    @app.task(policy=NOW.replace(backoff=backoff))
    def waits():
        runs.append("waits")
        raise ConnectionError("reset")

    numbers = [takes.enqueue(Point(1)).id, gives.enqueue().id, waits.enqueue().id]
    bad.append(1)
    app.worker().drain()
    rows = [app.tasks.show(number).task for number in numbers]
    assert [row.status for row in rows] == [Status.FAILED, Status.DONE, Status.FAILED]
    assert sorted(runs) == ["gives", "waits"]


@pytest.mark.parametrize("kind", BEYOND_EXCEPTION)
def test_replayed_it_is_judged_again(app, kind):
    broken = [True]

    @app.task
    def repaired() -> None:
        if broken[0]:
            raise hostile("__str__", kind)

    number = repaired.enqueue().id
    app.worker().drain()
    assert {each.reason for each in app.dead_letters.list()} == Expected("__str__", kind).reasons
    broken.clear()
    broken.append(False)
    app.dead_letters.replay(all=True)
    app.worker().drain()
    assert app.store.get(number).status is Status.DONE
