"""Workers that only seem dead, and tasks that only seem stuck. Pitfalls 39, 41, 46 and 70."""

import signal
import time

from crash.processes import until
from crash.scene import LEASE
from outlast.ports.rows import Status

STOPPED = LEASE["lease"] + 0.5
ALONE = {"worker": {"concurrency": 1}}


def begin(scene, number, child, seconds=20.0):
    """Wait until a task runs in a process."""
    until(lambda: child.pid in scene.ran(number), seconds, lambda: f"task {number} runs\n{scene.fleet.said()}")


def test_a_late_result_is_refused(scene):
    """Pitfall 39: stopped for longer than its lease, a worker finishes a task that another has finished already."""
    gate = scene.folder / "gate"
    (number,) = scene.add("gated", gate=str(gate))
    stale = scene.start(**ALONE)
    begin(scene, number, stale)
    stale.pause(scene.url)
    gate.touch()
    other = scene.start(**ALONE)
    scene.settle()
    other.stop()
    before = scene.task(number)
    assert before.status is Status.DONE
    stale.send(signal.SIGCONT)
    until(lambda: "lost its lease" in stale.said(), 10, stale.said)
    (later,) = scene.add("note")
    until(lambda: scene.task(later).status is Status.DONE, 10, scene.fleet.said)  # it works again, as another worker
    assert scene.ran(later) == [stale.pid]
    assert scene.task(number) == before
    assert scene.history(number) == ["lost"]
    stale.stop()
    assert scene.check_books()[number].attempt == 2


def test_a_late_result_of_what_another_still_runs(scene):
    """Pitfall 39: the attempt that counts is the one that holds the lease."""
    (number,) = scene.add("gated", gate=str(scene.folder / "gate-{pid}"))
    stale = scene.start(**ALONE)
    begin(scene, number, stale)
    stale.pause(scene.url)
    other = scene.start(**ALONE)
    begin(scene, number, other)
    before = scene.task(number)
    (scene.folder / f"gate-{stale.pid}").touch()
    stale.send(signal.SIGCONT)
    until(lambda: "lost its lease" in stale.said(), 10, stale.said)
    time.sleep(0.5)
    assert scene.task(number) == before, "it still runs elsewhere"
    (scene.folder / f"gate-{other.pid}").touch()
    scene.settle()
    assert scene.check_books()[number].attempt == 2
    assert scene.ran(number) == [stale.pid, other.pid]
    stale.stop()
    other.stop()


def test_a_worker_gets_back_what_it_still_runs(scene):
    """Pitfall 39: its own late result does not count for its second claim of the same task, nor hide that one's."""
    (number,) = scene.add("gated", gate=str(scene.folder / "gate-{run}"))
    stale = scene.start(worker={"concurrency": 2})
    begin(scene, number, stale)
    stale.pause(scene.url)
    until(lambda: scene.store.rescue(3) and not scene.store.workers(), 10, "the worker is struck off")
    stale.send(signal.SIGCONT)
    until(lambda: len(scene.ran(number)) == 2, 10, lambda: f"it runs it again\n{stale.said()}")
    (scene.folder / "gate-1").touch()
    time.sleep(0.5)
    assert scene.task(number).status is Status.RUNNING, "the late result does not count"
    (scene.folder / "gate-2").touch()
    scene.settle(10)
    scene.add("note", 20)
    scene.settle(10)
    stale.stop()
    assert scene.check_books()[number].attempt == 2
    assert scene.history(number) == ["lost"]


def test_a_worker_alone_goes_on_after_a_pause(scene):
    """Pitfall 70: a machine that slept wakes up; nobody else was there, so nothing is started a second time."""
    gate = scene.folder / "gate"
    (number,) = scene.add("gated", gate=str(gate))
    worker = scene.start()
    begin(scene, number, worker)
    worker.pause(scene.url)
    time.sleep(STOPPED)
    worker.send(signal.SIGCONT)
    time.sleep(0.8)
    gate.touch()
    scene.settle()
    worker.stop()
    assert scene.check_books()[number].attempt == 1
    assert scene.ran(number) == [worker.pid]


def test_a_worker_alone_goes_on_after_it_was_cut_off(sqlite_scene, monkeypatch):
    """Pitfalls 50 and 70: once it reaches its store again, it does not find itself among the dead."""
    scene = sqlite_scene
    gate, cut = scene.folder / "gate", scene.folder / "cut"
    monkeypatch.setenv("CRASH_CUT", str(cut))
    (number,) = scene.add("gated", gate=str(gate))
    worker = scene.start(lease=2.4, heartbeat=1.2)  # it looks for the dead every second
    begin(scene, number, worker)
    cut.touch()
    time.sleep(2.7)
    beats = worker.said().count("beat failed")
    until(lambda: worker.said().count("beat failed") > beats, 10, worker.said)
    cut.unlink()  # the next beat is further away than the next look
    time.sleep(1.5)
    gate.touch()
    scene.settle()
    worker.stop()
    assert scene.check_books()[number].attempt == 1
    assert scene.ran(number) == [worker.pid]


def test_what_takes_longer_than_the_lease_runs_once(scene):
    """Pitfalls 46 and 70: a task that runs for several leases, and one that waits for several."""
    (long,) = scene.add("slow", seconds=6.0)
    (waits,) = scene.add("gentle", options={"delay": 5.0})
    workers = [scene.start(lease=2.5, heartbeat=0.25) for _ in range(2)]
    scene.settle()
    for each in workers:
        each.stop()
    for number, task in scene.check_books().items():
        assert number in {long, waits}
        assert task.attempt == 1
        assert task.lease_epoch == 1
        assert len(scene.ran(number)) == 1
        assert scene.history(number) == []


def test_three_deploys_spend_no_attempt(scene):
    """Pitfall 41: a coroutine is cancelled and given back, and so is what a thread cannot be stopped in."""
    gate = scene.folder / "gate"
    numbers = scene.add("asleep", 2, gate=str(gate)) + scene.add("gated", 2, gate=str(gate))
    for _ in range(3):
        worker = scene.start(grace=0.1, worker={"name": "the-worker", "concurrency": 4})
        for number in numbers:
            begin(scene, number, worker)
        worker.stop()
        for task in scene.tasks().values():
            assert (task.status, task.attempt, task.retry_count) == (Status.QUEUED, 0, 0)
    gate.touch()
    worker = scene.start(worker={"name": "the-worker"})
    scene.settle()
    worker.stop()
    for number, task in scene.check_books().items():
        assert (task.attempt, task.retry_count, task.crash_count) == (1, 0, 0)
        assert scene.history(number) == []
        assert len(scene.ran(number)) == 4
