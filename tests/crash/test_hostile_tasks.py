"""A real worker, and tasks whose errors raise while they are read: in threads, on its event loop and in children."""

import json
import os
from pathlib import Path

import pytest

from conformance.places import need_postgres
from crash.processes import Child, until
from hostile_errors import TABLE
from integration.monitoring import new_url, opened
from outlast.ports.rows import DeadLetterFilter, NewTask, Status, TaskFilter

PROGRAM = Path(__file__).with_name("hostile_program.py")
TESTS = Path(__file__).parents[1]
HOSTILE = ["in_thread", "on_loop", "in_child"]


def parameters(**arguments):
    return json.dumps(arguments)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_worker_lives_and_only_they_fail(request, tmp_path, kind):
    if kind == "postgres":
        need_postgres()
    url = new_url(request, tmp_path, kind)
    with opened(url) as app:
        expected = {}
        for number, each in enumerate(TABLE):
            for name in HOSTILE:
                (added,) = app.store.enqueue([NewTask(name, parameters(member=each.member, kind=each.kind))])
                expected[added.id] = each
            app.store.enqueue([NewTask(name, parameters(n=number)) for name in ("good", "good_async")])
        path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(TESTS)])
        environment = os.environ | {"PYTHONPATH": path, "HOSTILE_URL": url, "HOSTILE_SPOOL": str(tmp_path / "spool")}
        worker = Child([PROGRAM], environment, tmp_path / "worker.log")
        try:
            until(
                lambda: not _live(app) or not worker.alive,
                120,
                lambda: f"{app.tasks.counts()}\n{worker.said()[-4000:]}",
            )
            assert worker.alive, worker.said()[-4000:]
            app.store.enqueue([NewTask("good", parameters(n=-1))])
            until(lambda: not _live(app), 30, worker.said)
            worker.stop()
        finally:
            worker.kill()

        counts = app.tasks.counts()
        assert (counts[Status.DONE], counts["dead_letters"]) == (2 * len(TABLE) + 1, len(HOSTILE) * len(TABLE))
        for letter in app.store.dead_letters(DeadLetterFilter(limit=None)):
            each = expected.pop(letter.original_task_id)
            assert letter.reason in each.reasons, (letter.task_type, each)
            assert (letter.retry_count, letter.crash_count) == (1, 0), (letter.task_type, each)
        assert not expected
        assert {each.attempt for each in app.store.find(TaskFilter(limit=100_000))} == {1}
        assert "could not settle" not in worker.said()


def _live(app):
    counts = app.tasks.counts()
    return counts[Status.QUEUED] or counts[Status.RUNNING] or counts[Status.PARKED]
