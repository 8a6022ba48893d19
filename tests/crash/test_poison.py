"""A task that kills its worker every time, among healthy ones: it was made within a function. Pitfall 40.

No other process finds it there, so it runs in the worker, alone.
"""

from outlast.ports.rows import Reason, Status


def test_the_poison_alone_becomes_a_dead_letter(scene):
    scene.add("note", 50)
    (poison,) = scene.add("poison")
    scene.add("gentle", 25)
    scene.add("slow", 25, seconds=0.01)
    scene.settle(60, lambda: scene.tend(2) and scene.is_settled())
    scene.fleet.disband()
    tasks = scene.check_books()
    dead = tasks.pop(poison)
    assert {each.status for each in tasks.values()} == {Status.DONE}
    assert {each.crash_count for each in tasks.values()} == {0}, "those beside it are not punished"
    assert dead.status is Status.FAILED
    assert dead.crash_count == scene.app.settings.crash_limit == 3
    assert dead.retry_count == 0
    assert scene.history(poison) == ["lost"] * 4, "once among others, three times alone"
    (letter,) = scene.app.dead_letters.list()
    assert (letter.original_task_id, letter.reason, letter.crash_count) == (poison, Reason.CRASH, 3)
    assert letter.error_type == "WorkerLost"
    assert len(scene.ran(poison)) == 4
    said = scene.fleet.said(last=10**6)
    assert "poison was running when a worker died, but cannot run in a child process" in said
