"""Where only workers to derive from are there, replays go on all the same, canaries count, and groups are told of."""

import threading
import time

import pytest

from integration.seed_places import AT_ONCE, Worker, fails, opened
from outlast.errors import NetworkError, QuotaExhaustedError, ResourceNotFoundError
from outlast.ports.rows import Reason, Status
from outlast.ports.triage import ReplayState
from outlast.queue.dead_letters import DeadLetterBox
from outlast.queue.replay import Replayer
from outlast.worker import BaseWorker, ErrorHandler

KINDS = ["sqlite store", "sqlite connection", "postgres app"]


@pytest.fixture(params=KINDS)
def queue(request, tmp_path):
    found = opened(request.param, tmp_path, request)
    yield found
    if "connection" in found.kind:
        found.db.close()
    found.place.close()


@pytest.fixture
def often(monkeypatch):
    """A worker looks after replays and groups often."""
    monkeypatch.setattr("outlast.queue.heartbeat.REPLAY_EVERY", 0.02)
    monkeypatch.setattr("outlast.queue.heartbeat.GROUP_ALERT_EVERY", 0.02)


def buried(queue, count):
    numbers = [queue.add() for _ in range(count)]
    handler = ErrorHandler(queue.store)
    for number in numbers:
        assert handler.move_to_dlq(number, ResourceNotFoundError("gone"))
    return numbers


def until(worker, holds):
    """Let a worker work until something holds."""
    thread = threading.Thread(target=worker.run)
    thread.start()
    end = time.monotonic() + 20
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.01)
    worker.stop()
    thread.join(20)
    assert found


class Steady(BaseWorker):
    """Does what it is told until it is stopped."""

    def __init__(self, queue, does):
        super().__init__("w1", queue.db, AT_ONCE)
        self.does = does

    def process_task(self, task):
        return self.does(task)


@pytest.mark.parametrize(
    "error", [NetworkError("down"), QuotaExhaustedError("wait", retry_after=60), ResourceNotFoundError("gone")]
)
def test_defect_a_canary_gets_one_attempt(queue, error):
    """It was tried again as any other task, and its replay never stopped."""
    buried(queue, 3)
    replay = DeadLetterBox(queue.store).replay_later(all=True)
    replayer = Replayer(queue.store, lambda: "r1")
    replayer.advance_replays()
    worker = Worker(queue, fails(error, error))

    worker.run()

    (task,) = worker.tasks
    assert queue.task(task.id).status is Status.FAILED
    assert [each.reason for each in queue.letters() if each.original_task_id == task.id] == [Reason.CANARY]
    replayer.advance_replays()
    found = queue.store.replay_run(replay.id)
    assert (found.state, found.replayed) == (ReplayState.STOPPED, 1)


def test_what_is_no_canary_is_tried_again(queue):
    (number,) = buried(queue, 1)
    DeadLetterBox(queue.store).replay_later(all=True, canary=False)
    Replayer(queue.store, lambda: "r1").advance_replays()
    Worker(queue, fails(NetworkError("down"))).run()
    assert (queue.task(number).status, queue.task(number).retry_count) == (Status.DONE, 1)


@pytest.mark.usefixtures("often")
def test_defect_a_worker_carries_a_replay_on(queue):
    """With no other kind of worker there, a replay never moved."""
    numbers = buried(queue, 13)
    replay = DeadLetterBox(queue.store).replay_later(all=True)

    def over():
        done = queue.store.replay_run(replay.id).state is ReplayState.DONE
        return done and all(queue.task(each).status is Status.DONE for each in numbers)

    until(Steady(queue, fails()), over)
    assert (queue.store.replay_run(replay.id).replayed, queue.letters()) == (13, [])


@pytest.mark.usefixtures("often")
def test_defect_a_worker_stops_a_replay_whose_canary_fails(queue):
    buried(queue, 3)
    replay = DeadLetterBox(queue.store).replay_later(all=True)
    worker = Steady(queue, fails(*[NetworkError("down")] * 9))
    until(worker, lambda: queue.store.replay_run(replay.id).state is ReplayState.STOPPED)
    assert sorted(each.reason for each in queue.letters()) == ["canary", "permanent", "permanent"]


@pytest.mark.usefixtures("often")
def test_defect_a_worker_tells_of_groups(queue):
    """With no other kind of worker there, nobody was told of a new failure."""
    queue.add()
    until(Steady(queue, fails(ResourceNotFoundError("gone"))), lambda: queue.store.alerts(limit=10))
    (alert,) = queue.store.alerts(limit=10)
    assert (alert.key.partition(":")[0], alert.state) == ("group", "new")
