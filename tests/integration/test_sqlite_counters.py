"""The books of a SQLite file over time: what is added up stays the same, and is kept in ever longer steps."""

import sqlite3
import threading

import pytest

from conformance.acting import NOTE, add, bury, claim, live_counts, register, retry, task, turn
from outlast import clock
from outlast.ports.read_rows import FailureFilter, FlowEvent
from outlast.stores.sqlite.store import SqliteStore
from outlast.testing import FakeClock

DAY = 86400.0


@pytest.fixture
def time():
    fake = FakeClock(1_700_000_000)
    before = clock.use(fake)
    yield fake
    clock.use(before)


@pytest.fixture
def store(tmp_path, time):
    store = SqliteStore(tmp_path / "outlast.db", synchronous="NORMAL")
    register(store, lease=1000 * DAY)
    yield store
    store.close()


def spans(store):
    return dict(store.db.read(lambda own: own.execute("SELECT span, sum(n) FROM task_flow GROUP BY span").fetchall()))


def failed_flow(store, **window):
    return [
        (point.at.timestamp(), point.count) for point in store.pulse(**window).flow if point.event is FlowEvent.FAILED
    ]


def test_a_failure_through_all_spans(store, time):
    bury(store)
    born = time.now()
    books, counts = store.event_totals(), store.counts()
    seen = []
    for wait in (0, 11, 3 * 3600, 9 * DAY, 91 * DAY):
        time.advance(wait)
        store.roll_up()
        seen.append(sorted(spans(store)))
        assert (store.event_totals(), store.counts()) == (books, counts)
        assert (store.failure("f1").failures, store.failure("f1").dead) == (1, 1)
        assert store.failure("f1").last_seen.timestamp() == pytest.approx(born, abs=0.01)
        assert store.roll_up() == 0, "nothing is left to be added up"
    assert seen == [[0], [-1, 10], [-1, 600], [-1, 86400], [-1]]


def test_hours_and_steps(store, time):
    time.advance(3600 - time.now() % 3600 + 30)
    bury(store)
    begun = time.now() - 30
    assert failed_flow(store) == [(begun, 1)]
    time.advance(1800)
    bury(store)
    store.roll_up()
    assert failed_flow(store) == [(begun, 1), (begun + 1800, 1)]
    pulse = store.pulse()
    assert (pulse.last_hour[FlowEvent.FAILED, "network"], pulse.hour_before) == (2, {})
    time.advance(2400)
    store.roll_up()
    pulse = store.pulse()
    assert pulse.last_hour == {(FlowEvent.ENQUEUED, ""): 1, (FlowEvent.FAILED, "network"): 1}
    assert pulse.hour_before == pulse.last_hour
    time.advance(3 * 3600)
    store.roll_up()
    assert (store.pulse().last_hour, store.pulse().hour_before) == ({}, {})
    assert failed_flow(store, window=DAY, step=3600.0) == [(begun, 2)]
    assert sum(point.count for point in store.failure_flow(["f1"], window=DAY, step=600)["f1"]) == 2


def test_the_order_of_groups_is_that_of_the_last_roll_up_and_counts_are_exact(store, time):
    add(store, task())
    for fingerprint in ("a", "b", "b"):
        (claimed,) = claim(store)
        retry(store, claimed, note=NOTE._replace(fingerprint=fingerprint))
        time.advance(20)
    store.roll_up()
    assert [group.fingerprint for group in store.failures(FailureFilter(largest=True)).rows] == ["b", "a"]
    for _ in range(3):
        (claimed,) = claim(store)
        retry(store, claimed, note=NOTE._replace(fingerprint="a"))
    for expected in (["b", "a"], ["a", "b"]):
        for largest in (True, False):
            rows = store.failures(FailureFilter(largest=largest)).rows
            assert [group.fingerprint for group in rows] == expected
            assert {group.fingerprint: group.failures for group in rows} == {"a": 4, "b": 2}
        time.advance(20)
        store.roll_up()


def test_many_deltas_go_in_batches(store, time):
    add(store, task())
    for number in range(2500):
        store.db.write(
            lambda own, number=number: own.execute(
                "INSERT INTO task_flow (span, at, event, task_type, n, seen) VALUES (0, 0, 'cancelled', ?, 1, 0)",
                (number,),
            )
        )
    time.advance(60)
    assert store.roll_up() >= 2501
    assert store.event_totals()["cancelled"] == 2500
    assert spans(store).keys() == {-1, 10}


def test_tasks_that_are_pruned_before_they_were_counted(store, time):
    add(store, *[task()] * 3)
    turn(store, done=[(each.id, each.epoch) for each in claim(store, limit=2)])
    time.advance(1)
    assert store.prune(done_before=0.5) == 2
    assert store.event_totals()["enqueued"] == 3
    assert live_counts(store) == {"QUEUED": 1}
    time.advance(60)
    store.roll_up()
    assert live_counts(store) == {"QUEUED": 1}


def test_a_crowd_that_rolls_up_at_once_counts_nothing_twice(store, time, tmp_path):
    for _ in range(20):
        bury(store)
        time.advance(11)
    others = [SqliteStore(tmp_path / "outlast.db", synchronous="NORMAL") for _ in range(4)]
    moved = []
    threads = [threading.Thread(target=lambda each=each: moved.append(each.roll_up())) for each in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(moved) == 4
    assert (store.event_totals()["failed"], store.failure("f1").failures, store.failure("f1").dead) == (20, 20, 20)
    assert live_counts(store) == {"FAILED": 20, "dead_letters": 20}
    for each in others:
        each.close()


def test_a_batch_that_fails_half_way_leaves_the_books_as_they_were(store, time):
    bury(store)
    time.advance(60)
    store.db.write(
        lambda own: own.execute(
            "CREATE TRIGGER refuse BEFORE DELETE ON task_flow BEGIN SELECT RAISE(ABORT, 'not today'); END"
        )
    )
    before = store.event_totals(), store.failure("f1")
    with pytest.raises(sqlite3.IntegrityError, match="not today"):
        store.roll_up()
    assert (store.event_totals(), store.failure("f1")) == before
    store.db.write(lambda own: own.execute("DROP TRIGGER refuse"))
    assert store.roll_up() > 0
    assert (store.event_totals(), store.failure("f1")) == before


def test_silent_processes_are_forgotten_after_a_day(store, time):
    def told():
        sql = "SELECT process FROM breakers ORDER BY process"
        return [name for (name,) in store.db.read(lambda own: own.execute(sql).fetchall())]

    store.report_breakers("host:1", [("api", "open", None, "")])
    time.advance(0.9 * DAY)
    store.report_breakers("host:2", [("api", "open", None, "")])
    store.roll_up()
    assert told() == ["host:1", "host:2"]
    time.advance(0.2 * DAY)
    store.roll_up()
    assert told() == ["host:2"]
