"""kill -9 while a call with options of its own runs: whoever takes over honours them."""

from crash.processes import until
from outlast.ports.rows import DeadLetterFilter, Status


def test_a_rescued_call_keeps_its_options_and_a_replay_too(scene):
    gate = scene.folder / "gate"
    (number,) = scene.add("gated", gate=str(gate), options={"max_attempts": 2, "resource": "special"})
    first = scene.start()
    until(lambda: scene.ran(number), 20, first.said)
    first.kill()
    scene.announce(first)
    (rescued,) = [scene.task(number)]
    assert (rescued.options, rescued.resource) == ('{"max_attempts":2}', "special")
    gate.touch()
    second = scene.start()
    scene.settle()
    second.stop()
    done = scene.task(number)
    assert (done.status, done.options, done.resource) == (Status.DONE, '{"max_attempts":2}', "special")
    assert scene.history(number) == ["lost"]


def test_attempts_after_a_kill_are_those_of_the_call(scene):
    (number,) = scene.add("flaky", options={"max_attempts": 2})  # it would succeed with its third attempt
    scene.start(at="settled").dies()
    worker = scene.start()
    scene.settle()
    letter = scene.store.dead_letters(DeadLetterFilter())[0]
    assert (letter.original_task_id, letter.retry_count, letter.options) == (number, 2, '{"max_attempts":2}')
    scene.app.dead_letters.replay(ids=[letter.id])
    until(lambda: scene.is_settled() and scene.task(number).replays == 1, 20, worker.said)
    worker.stop()
    (again,) = scene.store.dead_letters(DeadLetterFilter())
    assert (again.retry_count, again.options) == (2, '{"max_attempts":2}')
