"""A periodic task whose worker is killed: another one finishes the run, and no second one runs beside it."""

import os
import signal

import pytest

from crash.processes import until
from outlast.ports.rows import Status

LIVE = {Status.QUEUED, Status.RUNNING, Status.PARKED}


def live(scene):
    found = [each for each in scene.tasks().values() if each.status in LIVE]
    assert len(found) <= 1, found
    return found


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_one_run_at_a_time_also_where_workers_die(scene, overlap, monkeypatch):
    monkeypatch.setenv("CRASH_OVERLAP", overlap)
    for _ in range(2):
        scene.start()
    (first,) = until(lambda: live(scene) and scene.effects.lines(), 20, scene.fleet.said)
    victim = next(child for child in scene.fleet.children if child.pid == first[2])
    os.kill(victim.pid, signal.SIGKILL)
    victim.dies()
    scene.announce(victim)
    scene.start()
    until(lambda: live(scene) and len(scene.effects.lines()) == 2, 20, scene.fleet.said)
    due = scene.store.now()
    until(lambda: live(scene) and (scene.store.now() - due).total_seconds() > 2.5, 20, "more runs are due")
    assert [line[0] for line in scene.effects.lines()] == [1, 1], "the same run once more, and none beside it"
    (scene.folder / "gate").touch()
    lines = until(lambda: live(scene) is not None and len(scene.effects.lines()) >= 7, 20, scene.fleet.said)
    assert lines
    steps = [line[0] for line in scene.effects.lines()][1:]
    assert steps == [1, 2] * (len(steps) // 2) + [1] * (len(steps) % 2), "each began when the one before had ended"
