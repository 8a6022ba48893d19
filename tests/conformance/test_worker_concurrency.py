"""How much a worker takes into its hands, on every store: not more than it can run, and in turn."""

import asyncio
import threading
import time
from collections import Counter

import pytest

import outlast
from conformance.test_worker_life import NOW, wait_for, working
from outlast.ports.rows import Status
from outlast.queue.admission import ClaimPace


@pytest.fixture
def app(store, tmp_path):
    return outlast.App(store, policy=NOW, spool=tmp_path / "spool", grace=5)


def test_both_kinds_share_the_slots(app):
    lock, running, peak = threading.Lock(), [0], [0]

    def more(by):
        with lock:
            running[0] += by
            peak[0] = max(peak[0], running[0])

    @app.task
    def thread(x: int):
        more(1)
        time.sleep(0.01)
        more(-1)

    @app.task
    async def coroutine(x: int):
        more(1)
        await asyncio.sleep(0.01)
        more(-1)

    for number in range(30):
        thread.enqueue(number)
        coroutine.enqueue(number)
    app.worker(concurrency=3).drain()
    assert app.tasks.counts()[Status.DONE] == 60
    assert 2 <= peak[0] <= 3


def test_what_waits_for_a_slot_is_given_back_at_a_stop(app, monkeypatch):
    monkeypatch.setattr(ClaimPace, "ahead", 4)
    begun, go, late = [], threading.Event(), []

    @app.task(priority=0)
    async def holder(x: int):
        begun.append(x)
        await asyncio.to_thread(go.wait, 10)

    @app.task
    def sync(x: int):
        late.append(x)

    for number in range(2):
        holder.enqueue(number)
    with working(app, concurrency=2) as worker:
        wait_for(lambda: len(begun) == 2)  # both slots are taken
        ids = [each.id for each in sync.enqueue_many([{"x": number} for number in range(4)])]
        wait_for(lambda: len(worker._claim_loop.runners._at_slot) == 2)
        worker.stop()
        wait_for(lambda: app.tasks.counts()[Status.QUEUED] == 4)  # while the holders run
        go.set()
    time.sleep(0.1)
    assert late == []
    rows = [app.tasks.show(each).task for each in ids]
    assert [(each.status, each.attempt) for each in rows] == [(Status.QUEUED, 0)] * 4
    assert app.tasks.counts()[Status.DONE] == 2


def test_slow_tasks_are_not_hoarded(app):
    """Four that end at the same time by chance are no pace."""

    @app.task
    def slow():
        time.sleep(0.2)

    slow.enqueue_many([{} for _ in range(400)])
    most = 0
    with working(app, concurrency=4) as worker:
        wait_for(lambda: app.tasks.counts()[Status.DONE] >= 4)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            most = max(most, app.tasks.counts()[Status.RUNNING])
            time.sleep(0.01)
        worker.stop()
    assert 4 <= most <= 20, "a few more than run, and not what there is"


def test_what_does_not_get_its_turn_is_given_back(app, monkeypatch):
    """It was quick, so much was taken; then one task takes long, and others could run the rest."""
    begin = ClaimPace.__init__

    def quick(self, *given):
        begin(self, *given)
        self.rate = 200.0

    monkeypatch.setattr(ClaimPace, "__init__", quick)
    gate, runs = threading.Event(), []

    @app.task
    def slow(x: int):
        runs.append(x)
        gate.wait(10)

    slow.enqueue_many([{"x": number} for number in range(4)])
    try:
        with working(app, concurrency=1):
            wait_for(lambda: app.tasks.counts()[Status.RUNNING] == 4)
            wait_for(lambda: app.tasks.counts()[Status.QUEUED] == 3)
            assert app.tasks.counts()[Status.RUNNING] == len(runs) == 1
            waiting = [each for each in app.tasks.list() if each.status == Status.QUEUED]
            assert {each.attempt for each in waiting} == {0}
            gate.set()
            wait_for(lambda: app.tasks.counts()[Status.DONE] == 4)
    finally:
        gate.set()


def test_queues_take_turns(app):
    order = []

    @app.task(queue="a")
    def one(x: int):
        order.append("a")
        time.sleep(0.005)

    @app.task(queue="b")
    def other(x: int):
        order.append("b")
        time.sleep(0.005)

    for task in (one, other):
        task.enqueue_many([{"x": number} for number in range(20)])
    app.worker(["a", "b"], concurrency=1).drain()
    first = Counter(order[:20])
    assert min(first["a"], first["b"]) >= 5
    assert len(order) == 40
