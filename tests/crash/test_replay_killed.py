"""A replay that is killed halfway. Pitfalls 56 and 57."""

from outlast.ports.rows import DeadLetterFilter, Status


def bury(scene, count):
    """Have tasks fail for good."""
    numbers = scene.add("broken", count)
    worker = scene.start()
    scene.settle()
    worker.stop()
    scene.check_books()
    return set(numbers)


def test_killed_between_two(scene):
    check(scene, "replayed:20", 20)


def test_killed_within_one(sqlite_scene):
    """On PostgreSQL one statement does it all, so there is nothing in between."""
    check(sqlite_scene, "replay sql:20", 19)


def check(scene, at, replayed):
    """Kill a replay; see that every task is in exactly one place, and that a second one finishes."""
    numbers = bury(scene, 50)
    scene.start("replay", at=at).dies()
    tasks = scene.tasks()
    letters = {each.original_task_id for each in scene.store.dead_letters(DeadLetterFilter())}
    queued = {number for number, each in tasks.items() if each.status is Status.QUEUED}
    assert queued | letters == numbers
    assert not queued & letters
    assert len(queued) == replayed
    assert all(tasks[number].replays == 1 for number in queued)
    assert scene.start("replay").wait() == 0
    assert scene.store.counts()["dead_letters"] == 0
    tasks = scene.tasks()
    assert {each.status for each in tasks.values()} == {Status.QUEUED}
    assert {each.replays for each in tasks.values()} == {1}, "none was replayed twice"
    worker = scene.start()
    scene.settle()
    worker.stop()
    tasks = scene.check_books()
    assert all(scene.history(number) == ["fail", "fail"] for number in numbers), "with their whole history"
    assert set(scene.runs().values()) == {2}
