"""How soon the task of a killed worker runs again. Pitfall 37."""

import time

from crash.processes import until
from outlast.ports.rows import Status

DEFAULTS = {"lease": 20.0, "heartbeat": None}


def test_within_three_seconds_on_one_machine(sqlite_scene):
    """With the default lease of 20 s: the lock on its file tells that a worker is dead."""
    scene = sqlite_scene
    gate = scene.folder / "gate"
    (number,) = scene.add("gated", gate=str(gate))
    first = scene.start(**DEFAULTS)
    until(lambda: scene.ran(number), 20, first.said)
    second = scene.start(**DEFAULTS)
    until(lambda: len(scene.store.workers()) == 2, 20, second.said)
    time.sleep(0.2)
    first.kill()
    killed_at = time.monotonic()
    until(lambda: len(scene.ran(number)) == 2, 10, second.said)
    took = time.monotonic() - killed_at
    gate.touch()
    scene.settle()
    second.stop()
    assert took < 3.0
    assert scene.check_books()[number].status is Status.DONE
    assert scene.history(number) == ["lost"]


def test_a_killed_worker_is_replaced_by_the_next(sqlite_scene):
    """Nobody was there when it died; the next one to start takes over at once."""
    scene = sqlite_scene
    numbers = scene.add("note", 6)
    scene.start(at="claimed", hold=4, worker={"concurrency": 2}, **DEFAULTS).dies()
    begun_at = time.monotonic()
    worker = scene.start(**DEFAULTS)
    scene.settle(15)
    took = time.monotonic() - begun_at
    worker.stop()
    assert took < 5.0, "its own start included"
    assert scene.check_books().keys() == set(numbers)


def test_within_the_lease_across_machines(postgres_scene):
    """No lock tells there; the lease does."""
    scene = postgres_scene
    gate = scene.folder / "gate"
    (number,) = scene.add("gated", gate=str(gate))
    first = scene.start()
    until(lambda: scene.ran(number), 20, first.said)
    second = scene.start()
    until(lambda: len(scene.store.workers()) == 2, 20, second.said)
    first.kill()
    killed_at = time.monotonic()
    until(lambda: len(scene.ran(number)) == 2, 10, second.said)
    took = time.monotonic() - killed_at
    gate.touch()
    scene.settle()
    second.stop()
    assert took < scene.app.settings.lease + 2.0
    assert scene.check_books()[number].status is Status.DONE
