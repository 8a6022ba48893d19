"""A worker is killed at a named point; another finishes. Pitfalls 37, 38 and 55."""

from outlast.ports.rows import DeadLetterFilter, Reason, Status

HOLDING = {"hold": 4, "worker": {"concurrency": 2}}


def crash(scene, at, **how):
    """Have a worker kill itself there; return the tasks as the crash left them."""
    worker = scene.start(at=at, **(HOLDING | how))
    worker.dies()
    scene.announce(worker)
    return scene.tasks()


def finish(scene):
    """Have another worker finish everything; return the tasks."""
    worker = scene.start()
    scene.settle()
    worker.stop()
    return scene.check_books()


def check(scene, left, tasks):
    """See that what had only been held came back unspent, that what had started is in the history, and that no other
    task ran twice."""
    started = {each.id for each in left.values() if each.status is Status.RUNNING and each.started_at is not None}
    held = {each.id for each in left.values() if each.status is Status.RUNNING} - started
    settled = {each.id for each in left.values() if each.status in {Status.DONE, Status.FAILED}}
    runs = scene.runs()
    for number, task in tasks.items():
        before = left[number]
        if number in settled:
            assert task == before, "what was settled stays as it was"
        elif number in started:
            assert "lost" in scene.history(number)
            assert task.attempt == before.attempt + 1
            assert task.lease_epoch >= before.lease_epoch + 2, "the rescue raised it, and the claim after it"
            assert task.crash_count == 0
        else:
            assert "lost" not in scene.history(number)
            assert task.attempt == before.attempt + 1
            assert runs[number, 0] == 1
        if number in held:
            assert before.attempt == 0
            assert task.lease_epoch >= before.lease_epoch + 2
        assert 1 <= runs[number, 0] <= (2 if number in started else 1)
    return started, held, settled


def test_after_the_claim(scene):
    scene.add("note", 8)
    left = crash(scene, "claimed")
    assert scene.effects.lines() == []
    tasks = finish(scene)
    started, held, settled = check(scene, left, tasks)
    assert (len(started), len(held), len(settled)) == (2, 4, 0)
    assert {each.status for each in tasks.values()} == {Status.DONE}
    assert set(scene.runs().values()) == {1}, "what was killed before its call has run once"


def test_after_the_start_mark(scene):
    scene.add("note", 12)
    left = crash(scene, "started:2")
    started, _, settled = check(scene, left, finish(scene))
    assert started
    assert settled


def test_after_the_side_effect(scene):
    scene.add("note", 8)
    left = crash(scene, "effect:3")
    started, _, _ = check(scene, left, finish(scene))
    assert started
    assert any(runs == 2 for runs in scene.runs().values()), "it ran again, with a higher epoch"


def test_before_settling(scene):
    scene.add("note", 8)
    left = crash(scene, "settling")
    _, _, settled = check(scene, left, finish(scene))
    assert not settled
    assert any(runs == 2 for runs in scene.runs().values())


def test_with_settlements_buffered(scene):
    """Pitfall 38."""
    scene.add("note", 12)
    left = crash(scene, "buffered", hold=0, worker={"concurrency": 6})
    ran = set(scene.runs())
    assert len(ran) == 6, "done, and nothing of it written"
    started, _, settled = check(scene, left, finish(scene))
    assert started == {number for number, _ in ran}
    assert not settled
    assert sorted(scene.runs().values()) == [1] * 6 + [2] * 6


def test_inside_the_transaction_that_settles(scene):
    for _ in range(6):  # so that a turn settles more than successes: that takes several statements on both databases
        scene.add("note")
        scene.add("broken")
    left = crash(scene, "done sql", hold=0, worker={"concurrency": 4})
    started, _, _ = check(scene, left, finish(scene))
    assert started


def test_after_the_commit_before_the_answer(scene):
    scene.add("note", 4)
    scene.add("flaky", 2)
    scene.add("broken", 2)
    left = crash(scene, "settled")
    assert any(each.status is Status.DONE for each in left.values())
    tasks = finish(scene)
    done = [number for number, each in left.items() if each.status is Status.DONE]
    assert all(tasks[number] == left[number] for number in done)
    assert all(scene.runs()[number, 0] == 1 for number in done), "what is committed is not run again"


def test_inside_the_move_to_the_dead_letters(scene):
    """Pitfall 55: FAILED without its dead letter is never seen."""
    scene.add("broken", 3)
    scene.add("note", 3)
    left = crash(scene, "dead sql", hold=0, worker={"concurrency": 1})
    failed = [number for number, each in left.items() if each.status is Status.FAILED]
    letters = scene.store.dead_letters(DeadLetterFilter())
    assert [each.original_task_id for each in letters] == failed
    assert letters == []
    tasks = finish(scene)
    letters = scene.store.dead_letters(DeadLetterFilter())
    assert {each.reason for each in letters} == {Reason.PERMANENT}
    assert len(letters) == 3
    assert sum(each.status is Status.DONE for each in tasks.values()) == 3
    assert failed == []
    first = min(tasks)
    assert scene.history(first) == ["lost", "fail"]
    assert scene.runs()[first, 0] == 2


def test_the_same_name_restarted_at_once_hides_no_orphans(scene):
    """Pitfall 41: the restarted worker is another one, whatever it calls itself."""
    scene.add("note", 8)
    named = {"concurrency": 2, "name": "the-worker"}
    scene.start(at="effect:2", hold=4, worker=named).dies()  # on PostgreSQL its lease still runs
    worker = scene.start(worker=named)
    scene.settle()
    worker.stop()
    scene.check_books()
    assert scene.store.workers() == []
