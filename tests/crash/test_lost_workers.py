"""How soon the task of a killed worker runs again: `make bench` has the seconds. Pitfall 37."""

from crash.processes import until
from outlast.ports.rows import Status

HOUR = {"lease": 3600.0, "heartbeat": 5.0}


def test_long_before_the_lease_is_over_on_one_machine(sqlite_scene):
    """The lock on its file tells that a worker is dead."""
    scene = sqlite_scene
    gate = scene.folder / "gate"
    (number,) = scene.add("gated", gate=str(gate))
    first = scene.start(**HOUR)
    until(lambda: scene.ran(number), 20, first.said)
    second = scene.start(**HOUR)
    until(lambda: len(scene.store.workers()) == 2, 20, second.said)
    first.kill()
    until(lambda: len(scene.ran(number)) == 2, 30, second.said)
    gate.touch()
    scene.settle()
    second.stop()
    assert scene.check_books()[number].status is Status.DONE
    assert scene.history(number) == ["lost"]


def test_a_killed_worker_is_replaced_by_the_next(sqlite_scene):
    """Nobody was there when it died; the next one to start takes over at once."""
    scene = sqlite_scene
    numbers = scene.add("note", 6)
    scene.start(at="claimed", hold=4, worker={"concurrency": 2}, **HOUR).dies()
    worker = scene.start(**HOUR)
    scene.settle(30)
    worker.stop()
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
    until(lambda: len(scene.ran(number)) == 2, 30, second.said)
    gate.touch()
    scene.settle()
    second.stop()
    assert scene.check_books()[number].status is Status.DONE
