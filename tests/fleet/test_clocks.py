"""Workers whose clocks are hours off: leases, delays, retries and what recurs go by the database's clock. Pitfall 45."""

import pytest

from crash.processes import until
from fleet.program import EVERY, LATER
from outlast.ports.rows import Status, TaskFilter

pytestmark = [pytest.mark.xdist_group("fleet"), pytest.mark.needs("faketime")]
HOUR = 3600.0
DELAY = 2.0
HELD = 4
SKEWS = ("+3h", "-3h")


def seconds(later, earlier):
    return (later - earlier).total_seconds()


def test_two_workers_six_hours_apart(scene):
    """One is three hours ahead, the other three hours behind. What each holds is its own, and nothing is early."""
    workers = [
        scene.start(skew=skew, ticks=True, worker={"concurrency": HELD + 2, "queues": ["default", skew]})
        for skew in SKEWS
    ]
    scene.begun(2)
    clocks = [float((scene.folder / f"clock-{each.pid}").read_text()) for each in workers]
    assert clocks[0] - clocks[1] > 5 * HOUR, "they are as far apart as they are meant to be"
    gate = scene.folder / "gate"
    for skew in SKEWS:  # both have something to hold
        scene.add("held", HELD, name="held", gate=str(gate), options={"queue": skew})
    until(lambda: len(scene.ran("held")) == 2 * HELD, 30, scene.said)
    assert set(scene.ran("held")) == {each.pid for each in workers}
    delayed = scene.add("note", 12, name="delayed", options={"delay": DELAY})
    hasty = scene.add("hasty", 12, name="hasty")
    until(lambda: len(scene.ran("delayed")) == 12, 30, scene.said)
    until(lambda: len(scene.ran("hasty")) == 24, 30, scene.said)
    until(lambda: len(scene.ran("ticks")) >= 3, 30, scene.said)
    gate.touch()
    for each in workers:
        each.stop()

    for number in delayed:
        task = scene.store.get(number)
        assert (task.status, task.attempt) == (Status.DONE, 1)
        assert seconds(task.started_at, task.created_at) >= DELAY
    for number in hasty:
        task, (failed,) = scene.store.get(number), scene.store.attempts(number)
        assert (task.status, task.attempt) == (Status.DONE, 2)
        assert seconds(task.started_at, failed.finished_at) >= LATER
    ticks = sorted(each.created_at for each in scene.store.find(TaskFilter(task_type="tick", limit=100)))
    turns = seconds(ticks[-1], ticks[0]) / EVERY + 2  # the first may have been late
    assert len(ticks) <= turns, "once in a turn, and not once for each of them"
    assert len(scene.ran("held")) == 2 * HELD, "nobody was taken for dead"
    assert not [each for each in scene.children if "lost" in each.said()], scene.said()
    scene.balanced()
