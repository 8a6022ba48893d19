"""Celery workers that are killed at the worst moments: no failure is lost, none is counted twice, the books hold."""

from crash.processes import until
from integration.celery.scene import LONG
from outlast.ports.rows import Status

RESENT = 5  # seconds; a message that its worker has taken to its grave
PLACES = [
    "before the row",
    "before the failure",
    "after the failure",
    "before the message",
    "after the message",
    "after the start",
]


def test_workers_are_killed_one_after_the_other(scene):
    sent = []
    for place in PLACES:
        worker = scene.start("solo", kill_at=place, resend_after=RESENT)
        sent.append(scene.send("late"))
        worker.dies()
        scene.wait_until_redelivered()
    last = scene.start("solo", resend_after=RESENT)
    for key, result in sent:
        if scene.row_of(result) is None:  # it was redelivered, and had no reason to fail any more
            until(lambda: result.state == "SUCCESS", LONG, scene.said)  # noqa: B023  # asked at once
            assert len(scene.effects(key)) > 1
            continue
        row = scene.settled(result)
        outcomes = [outcome for _, outcome, _ in scene.history(row)]
        assert outcomes.count("retry") == row.retry_count <= 1, "no failure was counted twice"
        assert set(outcomes) <= {"retry", "lost"}
        assert len(scene.effects(key)) >= 2
    assert all((scene.folder / f"killed-{place}").exists() for place in PLACES)
    last.stop()
    scene.check_books()
    assert scene.store.workers() == []


def test_a_whole_pool_is_killed_while_a_retry_runs(scene):
    first = scene.start("prefork", "-c", "1")
    key, result = scene.send("waits")
    until(lambda: scene.effects(key), LONG, scene.said)
    (scene.folder / f"go-{key}").touch()
    until(lambda: scene.row_of(result) is not None, LONG, scene.said)
    (scene.folder / f"go-{key}").unlink()
    until(lambda: len(scene.effects(key)) == 2, LONG, scene.said)
    row = scene.row_of(result)
    assert (row.status, row.attempt, row.retry_count) == (Status.RUNNING, 2, 1)
    first.kill()
    scene.start("prefork", "-c", "1")
    until(lambda: len(scene.effects(key)) == 3, LONG, scene.said)
    assert scene.settled(result, Status.RUNNING).suspect
    (scene.folder / f"go-{key}").touch()
    row = scene.settled(result)
    assert [outcome for _, outcome, _ in scene.history(row)] == ["retry", "lost"]
    assert row.retry_count == 1
    scene.check_books()


def test_on_postgresql(broker, tmp_path, postgres_server):
    from integration.celery.conftest import postgres_scene

    with postgres_scene(broker, tmp_path, postgres_server) as scene:
        worker = scene.start("prefork", "-c", "2")
        key, result = scene.send("kills_its_process", 1)
        _, flaky = scene.send("flaky", 3)
        broken, letter = scene.send("broken")
        assert scene.settled(result).retry_count == 1
        assert len(scene.effects(key)) == 2
        assert scene.settled(flaky).retry_count == 2
        row = scene.settled(letter, Status.FAILED)
        scene.mend(broken)
        scene.app.dead_letters.replay(scene.letter_of(row).id)
        scene.settled(letter)
        worker.stop()
        scene.check_books()
