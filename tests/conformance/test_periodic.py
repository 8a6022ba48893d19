"""Periodic tasks: enqueued once for each time, whoever comes first."""

import logging
import threading
import time
from datetime import timedelta

import pytest

import outlast
from conformance.acting import LATER, NAMES, claim, die, fail, live_counts, register, retry, settle, task, turn
from outlast.errors import ConfigError
from outlast.ports.rows import Kind, TaskFilter
from outlast.queue.periodic_tasks import PeriodicSchedule, PeriodicTask


def test_nothing_is_due_at_first(store):
    assert store.due_periodic(["a"]) == []
    store.set_periodic({"a": LATER})
    assert store.due_periodic(["a"]) == []


def test_what_is_due_is_asked_for_by_name(store):
    store.set_periodic({"a": -1, "b": 0, "c": LATER, "d": -5})
    time.sleep(0.005)
    due = dict(store.due_periodic(["a", "b", "c", "nobody"]))
    assert sorted(due) == ["a", "b"]
    assert due["a"].tzinfo is not None
    assert abs(due["a"].timestamp() - time.time()) < 30
    assert store.due_periodic([]) == []


def test_what_is_known_keeps_its_time(store):
    store.set_periodic({"a": -10})
    (before,) = store.due_periodic(["a"])
    store.set_periodic({"a": LATER, "b": LATER})
    assert store.due_periodic(["a", "b"]) == [before]


def test_it_runs_once_for_each_time(store):
    store.set_periodic({"a": -10})
    ((name, due),) = store.due_periodic(["a"])
    assert store.run_periodic(name, due, LATER, task("tick", '{"a":1}', queue="q", unique_key="k")).created
    assert store.run_periodic(name, due, LATER, task("tick")) is None
    assert store.due_periodic(["a"]) == []
    (found,) = store.find(TaskFilter())
    assert (found.task_type, found.parameters, found.queue, found.unique_key) == ("tick", '{"a":1}', "q", "k")


def test_the_time_is_the_fence(store):
    store.set_periodic({"a": -10})
    ((_, due),) = store.due_periodic(["a"])
    assert store.run_periodic("a", due + timedelta(seconds=1), LATER, task()) is None
    assert store.run_periodic("nobody", due, LATER, task()) is None
    assert live_counts(store) == {}
    assert store.run_periodic("a", due, -5, task()).created
    ((_, following),) = store.due_periodic(["a"])
    assert following > due
    assert store.run_periodic("a", following, LATER, task()).created
    assert live_counts(store) == {"QUEUED": 2}


def test_a_task_that_still_waits_is_not_added_again(store):
    store.set_periodic({"a": -10})
    ((_, due),) = store.due_periodic(["a"])
    assert store.run_periodic("a", due, -5, task(unique_key="k")).created
    ((_, due),) = store.due_periodic(["a"])
    assert not store.run_periodic("a", due, LATER, task(unique_key="k")).created
    assert live_counts(store) == {"QUEUED": 1}
    assert store.due_periodic(["a"]) == []


def test_two_runners_make_one_task(store, another):
    store.set_periodic(dict.fromkeys(map(str, range(20)), -1))
    due = store.due_periodic(list(map(str, range(20))))
    assert len(due) == 20
    answers: list[object] = []
    barrier = threading.Barrier(4)

    def run(mine):
        barrier.wait()
        answers.extend(mine.run_periodic(name, when, LATER, task(name)) for name, when in due)

    threads = [threading.Thread(target=run, args=(each,)) for each in (store, another, store, another)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(answers), answers.count(None)) == (80, 60)
    assert sorted(found.task_type for found in store.find(TaskFilter(limit=100))) == sorted(map(str, range(20)))


def test_names(store):
    """Pitfall 69."""
    store.set_periodic(dict.fromkeys(NAMES, -1))
    due = dict(store.due_periodic(NAMES))
    assert sorted(due) == sorted(NAMES)
    for name in NAMES:
        assert store.run_periodic(name, due[name], LATER, task(name))
    assert store.due_periodic(NAMES) == []


class Schedule:
    """A task that is always due, with workers of several processes that tick it."""

    def __init__(self, overlap, *stores):
        self.stores = stores
        tick = outlast.App(stores[0]).task(name="tick")(lambda: None)
        self.schedule = PeriodicSchedule()
        self.schedule.add(PeriodicTask(tick, lambda after: after - timedelta(seconds=5), overlap))
        self.schedule.begin(stores[0])
        register(stores[0])

    def tick(self):
        """Let every worker tick; return how many tasks were enqueued."""
        return sum(self.schedule.tick(store) for store in self.stores)

    def end_run(self):
        (run,) = claim(self.stores[0])
        turn(self.stores[0], done=[(run.id, run.epoch)])


@pytest.fixture
def make(store, another):
    return lambda overlap: Schedule(overlap, store, another)


def test_by_default_runs_overlap(make, store):
    schedule = make("allow")
    assert (schedule.tick(), schedule.tick()) == (2, 2)
    assert live_counts(store) == {"QUEUED": 4}


@pytest.mark.parametrize("overlap", ["skip", "queue"])
class TestOneLiveTask:
    def test_queued_running_or_waiting_for_a_retry(self, make, store, overlap):
        schedule = make(overlap)
        assert schedule.tick() == 1
        assert schedule.tick() == 0, "it is queued"
        (run,) = claim(store)
        assert schedule.tick() == 0, "it runs"
        retry(store, run, delay=LATER)
        assert schedule.tick() == 0, "it waits for its next attempt"
        assert live_counts(store) == {"QUEUED": 1}

    def test_deferred_or_parked(self, make, store, overlap):
        schedule = make(overlap)
        schedule.tick()
        (run,) = claim(store)
        settle(store, run, Kind.PARK)
        assert live_counts(store) == {"PARKED": 1}
        assert schedule.tick() == 0
        store.unpark(["tick"])
        (run,) = claim(store)
        settle(store, run, Kind.DEFER, delay=LATER)
        assert schedule.tick() == 0

    def test_the_next_follows_when_it_has_ended(self, make, store, overlap):
        schedule = make(overlap)
        for _ in range(3):
            assert schedule.tick() == 1
            schedule.end_run()
        assert schedule.tick() == 1
        (run,) = claim(store)
        fail(store, run)
        assert schedule.tick() == 1, "a dead letter is not live"

    def test_while_its_worker_is_dead_and_after_the_rescue(self, make, store, overlap):
        schedule = make(overlap)
        schedule.tick()
        claim(store)
        die(store)
        assert schedule.tick() == 0
        store.rescue(3)
        assert schedule.tick() == 0
        assert len(store.find(TaskFilter())) == 1

    def test_workers_that_tick_at_the_same_time(self, make, overlap):
        schedule = make(overlap)
        barrier, counts = threading.Barrier(4), []

        def run(store):
            barrier.wait()
            counts.append(sum(schedule.schedule.tick(store) for _ in range(10)))

        threads = [threading.Thread(target=run, args=(each,)) for each in schedule.stores * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (len(counts), sum(counts)) == (4, 1)

    def test_a_task_enqueued_by_hand_does_not_count(self, make, store, overlap):
        schedule = make(overlap)
        store.enqueue([task("tick")])
        assert schedule.tick() == 1


def test_a_skipped_run_is_lost_and_logged(make, store, caplog):
    schedule = make("skip")
    schedule.tick()
    (before,) = store.due_periodic(["tick"])
    caplog.set_level(logging.INFO, "outlast")
    time.sleep(0.005)
    schedule.schedule.tick(store)
    (line,) = [each.getMessage() for each in caplog.records if "skipped a run" in each.getMessage()]
    assert line.startswith("skipped a run of tick: task ")
    assert store.due_periodic(["tick"]) != [before], "its time has passed"


def test_a_run_that_waits_stays_due_and_runs_once(make, store, caplog):
    schedule = make("queue")
    schedule.tick()
    (before,) = store.due_periodic(["tick"])
    caplog.set_level(logging.INFO, "outlast")
    for _ in range(5):
        schedule.tick()
    assert store.due_periodic(["tick"]) == [before], "the one that waits"
    assert not caplog.records
    schedule.end_run()
    assert schedule.tick() == 1
    assert live_counts(store)["QUEUED"] == 1


def test_what_is_no_overlap(store):
    app = outlast.App(store)
    with pytest.raises(ConfigError, match="overlap is 'never'; give one of: allow, skip, queue"):
        app.periodic(every=60, overlap="never")(lambda: None)
