"""Workers die at random under load, and so does PostgreSQL. Pitfalls 37 and 47."""

import random
import threading
import time

import pytest

from crash.processes import until
from outlast.ports.rows import DeadLetterFilter, Reason, Status

KILL_EVERY = 0.3  # seconds
RESTART_EVERY = 1.5  # seconds
WORKERS = {"crash_limit": 1000, "worker": {"concurrency": 4}}
"""Bad luck alone makes no dead letter here."""


def fill(scene, size):
    """Enqueue a mix of tasks; return how many of them fail for good."""
    for name, share in (("note", 0.4), ("flaky", 0.15), ("broken", 0.1), ("gentle", 0.2), ("slow", 0.15)):
        scene.add(name, round(size * share))
    return round(size * 0.1)


def rampage(scene, seconds, workers):
    """Kill a worker every now and then, and start another, while tasks come in; return how many fail for good."""
    end = time.monotonic() + seconds
    broken = 0
    while time.monotonic() < end:
        alive = scene.tend(workers, **WORKERS)
        broken += fill(scene, 40)
        time.sleep(KILL_EVERY * random.uniform(0.5, 1.5))
        random.choice(alive).kill()
    return broken


def check(scene, broken):
    """See that the books balance and that nothing ran twice unless its worker had died."""
    tasks = scene.check_books()
    letters = scene.store.dead_letters(DeadLetterFilter())
    assert {each.reason for each in letters} == {Reason.PERMANENT}
    assert len(letters) == broken
    assert sum(each.status is Status.DONE for each in tasks.values()) == len(tasks) - broken
    for (number, _), runs in scene.runs().items():
        assert runs == 1 or "lost" in scene.history(number), f"task {number} ran {runs} times, no worker was lost"


@pytest.mark.timeout(600)
def test_workers_killed_at_random(scene, soak):
    broken = fill(scene, 400 if soak else 120) + rampage(scene, 120 if soak else 3, workers=3)
    scene.settle(200 if soak else 50, lambda: scene.tend(2, **WORKERS) and scene.is_settled())
    scene.fleet.disband()
    check(scene, broken)


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("crash-postgres")
def test_postgres_restarted_under_load(restarting_scene, crash_server, soak):
    """Pitfall 47: the workers find it again by themselves, and go on."""
    scene = restarting_scene
    broken = fill(scene, 4000 if soak else 240)
    scene.add("slow", 40, seconds=0.4)
    settings = {"lease": 20.0, "heartbeat": 1.0, "worker": {"concurrency": 4}}
    workers = [scene.start(**settings) for _ in range(2)]
    until(lambda: len(scene.store.workers()) == len(workers), 30, scene.fleet.said)  # one that cannot begin ends
    rounds, restarts = (30 if soak else 3), 0
    for _ in range(rounds):
        time.sleep(RESTART_EVERY)
        crash_server.stop_hard()
        crash_server.restart()
        restarts += 1
    more = scene.add("note", 20)
    scene.settle(60)
    assert all(each.alive for each in workers), scene.fleet.said()
    for each in workers:
        each.stop()
    tasks = scene.check_books()
    assert restarts == rounds
    assert all(tasks[number].status is Status.DONE for number in more)
    assert sum(each.status is Status.FAILED for each in tasks.values()) == broken
    assert not any("lost" in scene.history(number) for number in tasks), "no worker died, none was taken for dead"


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("crash-postgres")
def test_postgres_and_workers_killed_under_load(restarting_scene, crash_server, soak):
    """Pitfalls 37 and 47 at once: a commit whose answer never came neither loses a task nor does it twice."""
    scene = restarting_scene
    broken = fill(scene, 3000 if soak else 120)
    over = threading.Event()

    def restart():
        while not over.wait(RESTART_EVERY):
            crash_server.stop_hard()
            crash_server.restart()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        end = time.monotonic() + (120 if soak else 3)
        while time.monotonic() < end:
            alive = scene.tend(2, **WORKERS)
            time.sleep(3 * KILL_EVERY)
            random.choice(alive).kill()
    finally:
        over.set()
        restarting.join(60)
    scene.settle(90, lambda: scene.tend(2, **WORKERS) and scene.is_settled())
    until(lambda: sum(each.alive for each in scene.store.workers()) > 1, 30, scene.fleet.said)  # none is just beginning
    scene.fleet.disband()
    tasks = scene.check_books()
    assert sum(each.status is Status.FAILED for each in tasks.values()) == broken


@pytest.mark.xdist_group("crash-postgres")
def test_an_outage_longer_than_the_lease(restarting_scene, crash_server):
    """Pitfalls 47 and 70: when the database is back, a worker that was there all the time keeps its task."""
    scene = restarting_scene
    gate = scene.folder / "gate"
    (number,) = scene.add("gated", gate=str(gate))
    lease = 1.2
    worker = scene.start(lease=lease, heartbeat=0.3, worker={"concurrency": 2})
    until(lambda: scene.ran(number), 20, worker.said)
    crash_server.stop_hard()
    time.sleep(lease + 0.8)
    crash_server.restart()
    time.sleep(lease + 0.8)  # it has beaten, and looked for the dead, several times by now
    gate.touch()
    scene.settle()
    worker.stop()
    assert scene.ran(number) == [worker.pid]
    assert scene.check_books()[number].attempt == 1
