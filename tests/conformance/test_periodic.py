"""Periodic tasks: enqueued once for each time, whoever comes first."""

import threading
import time
from datetime import timedelta

from conformance.acting import LATER, NAMES, live_counts, task
from outlast.ports.rows import TaskFilter


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
    assert store.run_periodic(name, due, LATER, task("tick", '{"a":1}', queue="q", unique_key="k")) is True
    assert store.run_periodic(name, due, LATER, task("tick")) is False
    assert store.due_periodic(["a"]) == []
    (found,) = store.find(TaskFilter())
    assert (found.task_type, found.parameters, found.queue, found.unique_key) == ("tick", '{"a":1}', "q", "k")


def test_the_time_is_the_fence(store):
    store.set_periodic({"a": -10})
    ((_, due),) = store.due_periodic(["a"])
    assert store.run_periodic("a", due + timedelta(seconds=1), LATER, task()) is False
    assert store.run_periodic("nobody", due, LATER, task()) is False
    assert live_counts(store) == {}
    assert store.run_periodic("a", due, -5, task()) is True
    ((_, following),) = store.due_periodic(["a"])
    assert following > due
    assert store.run_periodic("a", following, LATER, task()) is True
    assert live_counts(store) == {"QUEUED": 2}


def test_a_task_that_still_waits_is_not_added_again(store):
    store.set_periodic({"a": -10})
    ((_, due),) = store.due_periodic(["a"])
    assert store.run_periodic("a", due, -5, task(unique_key="k")) is True
    ((_, due),) = store.due_periodic(["a"])
    store.run_periodic("a", due, LATER, task(unique_key="k"))
    assert live_counts(store) == {"QUEUED": 1}
    assert store.due_periodic(["a"]) == []


def test_two_runners_make_one_task(store, another):
    store.set_periodic(dict.fromkeys(map(str, range(20)), -1))
    due = store.due_periodic(list(map(str, range(20))))
    assert len(due) == 20
    answers: list[bool] = []
    barrier = threading.Barrier(4)

    def run(mine):
        barrier.wait()
        answers.extend(mine.run_periodic(name, when, LATER, task(name)) for name, when in due)

    threads = [threading.Thread(target=run, args=(each,)) for each in (store, another, store, another)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(answers), answers.count(True)) == (80, 20)
    assert sorted(found.task_type for found in store.find(TaskFilter(limit=100))) == sorted(map(str, range(20)))


def test_names(store):
    """Pitfall 69."""
    store.set_periodic(dict.fromkeys(NAMES, -1))
    due = dict(store.due_periodic(NAMES))
    assert sorted(due) == sorted(NAMES)
    for name in NAMES:
        assert store.run_periodic(name, due[name], LATER, task(name))
    assert store.due_periodic(NAMES) == []
