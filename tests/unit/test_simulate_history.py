"""What a replay infers from recorded tasks, and what it says that it cannot know."""

from datetime import UTC, datetime, timedelta

import outlast
from outlast.failure import Category, Failure
from outlast.ports.rows import Attempt, RecordedTask, Status
from outlast.simulate.history import replay_history, replay_tasks

START = datetime(2026, 11, 10, tzinfo=UTC)
SAME = outlast.RetryPolicy(max_attempts=3, base_delay=10.0, jitter="none")


def at(seconds):
    return START + timedelta(seconds=seconds)


def failed(task, number, seconds, category=Category.NETWORK, *, last=False):
    failure = Failure(category, retryable=category is not Category.NOT_FOUND, exception_name="E", message="no")
    return Attempt(
        task, number, "fail" if last else "retry", "w", at(seconds), at(seconds), "E", "no", str(category), "f",
        None if last else 10.0, "", failure.to_dict(),
    )  # fmt: skip


def recorded(number, status, seconds, *attempts, **changes):
    task = RecordedTask(number, "fetch", "shop", status, 0, 0, 0, at(seconds), at(seconds), at(0), attempts)
    return task._replace(**changes)


def outage():
    """Forty tasks, one each second; down from 10 to 30 s. Each failed task is tried again 10 and 20 s later."""
    tasks = []
    for second in range(40):
        down = [each for each in (second, second + 10, second + 20) if 10 <= each < 30]
        is_dead = len(down) == 3
        calls = [failed(second, number, each, last=is_dead and number == 3) for number, each in enumerate(down, 1)]
        if second < 10 or second >= 30:
            calls = []
        end = second if not calls else calls[-1].started_at.timestamp() - START.timestamp() + 10
        tasks.append(recorded(second + 1, Status.FAILED if is_dead else Status.DONE, end, *calls))
    return tasks


def test_the_same_policy_does_what_was_recorded():
    found = replay_tasks(outage(), SAME)

    assert found.recorded.calls == 40 + 10 + 20
    assert found.recorded.dead_letters == 0
    assert found.calls.median == found.recorded.calls
    assert found.dead_letters.median == 0
    assert found.recovery.median == found.recorded.recovery


def test_another_policy_does_something_else():
    found = replay_tasks(outage(), SAME.replace(max_attempts=1))

    assert found.calls.median == 40
    assert found.dead_letters.median == 20
    assert found.calls.low < 40 < found.calls.high, "the error of the model"


def test_what_falls_between_two_states_gives_a_range_and_a_note():
    ends = [(Status.DONE, second) for second in (*range(10), *range(30, 40))]
    tasks = [recorded(second + 1, status, second) for status, second in ends]
    tasks += [recorded(50 + n, Status.FAILED, n, failed(50 + n, 1, n, last=True)) for n in range(10, 20)]
    found = replay_tasks(tasks, SAME)  # all second calls are between 20 and 30 s, of which nothing is recorded

    assert found.states["unknown"] == 10
    assert (found.calls.low, found.calls.high) == (40 * 0.95, 50 * 1.05)
    assert any("the record does not tell" in note for note in found.notes)


def test_a_permanent_failure_happens_again():
    tasks = [*outage(), recorded(99, Status.FAILED, 5, failed(99, 1, 5, Category.NOT_FOUND, last=True))]

    assert replay_tasks(tasks, SAME.replace(max_attempts=8)).dead_letters.median == 1


def test_what_cannot_be_replayed_is_left_out_and_said():
    tasks = [
        *outage(),
        recorded(91, Status.QUEUED, 3, started_at=None, ended_at=None),
        recorded(92, Status.DONE, 3, replays=1),
        recorded(93, Status.DONE, 3, crash_count=1),
        recorded(94, Status.DONE, 3, deferrals=4),
    ]
    found = replay_tasks(tasks, outlast.RetryPolicy(retry_on=(ConnectionError,), attempt_timeout=5))

    assert found.recorded.tasks == 41
    notes = " ".join(found.notes)
    assert "3 tasks are left out" in notes
    assert "4 deferrals count as calls of both" in notes
    assert "the record has only categories" in notes
    assert "attempt_timeout is not applied" in notes
    assert "instead of" in str(found)


class Pages:
    """A store with tasks, one page of two after the other."""

    def __init__(self, tasks):
        self.tasks, self.asked = sorted(tasks, key=lambda each: -each.id), []

    def recorded_tasks(self, before, limit):
        self.asked.append(before)
        return [each for each in self.tasks if before is None or each.id < before][: min(2, limit)]


def test_only_the_range_is_read():
    old = [recorded(number, Status.DONE, 0, created_at=at(-1000)) for number in range(-9, 1)]
    store = Pages([*old, *outage()])
    found = replay_history(store, SAME, at(-1), at(1))

    assert found.recorded.tasks == 40
    assert len(store.asked) == 21, "it stops at the first page that is older than the range"
    assert found.notes == ()
    assert "begins within the range" in " ".join(replay_history(Pages(outage()), SAME, at(-1), at(1)).notes)


def test_a_store_that_holds_older_tasks_is_complete():
    """Also if they are on the same page as those of the range."""
    tasks = [recorded(0, Status.DONE, 0, created_at=at(-1000)), *outage()]
    assert replay_history(Pages(tasks), SAME, at(-1), at(1)).notes == ()


def test_a_range_without_tasks():
    assert replay_history(Pages(outage()), SAME, at(5), at(6)).notes == ("no tasks were enqueued in this range",)


def test_a_cancelled_task_and_one_that_never_started_are_no_dead_letters():
    cancelled = recorded(91, Status.CANCELLED, 3, started_at=None)
    expired = recorded(92, Status.FAILED, 3, started_at=None)
    found = replay_tasks([*outage(), cancelled, expired], SAME)

    assert found.recorded.dead_letters == found.dead_letters.median == 0
    (note,) = found.notes
    assert note.startswith("2 tasks are left out")


def test_an_empty_history():
    found = replay_tasks([], SAME)

    assert (found.recorded.calls, found.calls, found.recovery) == (0, (0.0, 0, 0.0), None)
