"""The books beside what is there, both of one moment."""

import threading

from conformance.acting import add, bury, claim, fail, register, settle, task, turn
from outlast.ports.rows import DeadLetterFilter, Kind, Status, TaskFilter


def execute(place, statement):
    connection = place.connect()
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_an_empty_store(store):
    books, there = store.counter_check()
    assert books == there
    assert books.keys() == {*Status, "dead_letters"}
    assert set(books.values()) == {0}


def test_both_sides_have_every_status(store):
    register(store)
    add(store, *(task() for _ in range(9)))
    first, second, third, fourth, *_ = claim(store, limit=6)
    turn(store, done=[(first.id, first.epoch)])
    settle(store, second, Kind.PARK)
    fail(store, third)
    fail(store, fourth)
    store.discard(store.dead_letters(DeadLetterFilter())[0].id)
    store.cancel([each.id for each in store.find(TaskFilter(status=Status.QUEUED, limit=1))])
    expected = {
        "QUEUED": 2, "RUNNING": 2, "PARKED": 1, "DONE": 1, "FAILED": 1, "CANCELLED": 1, "DISCARDED": 1, "dead_letters": 1
    }  # fmt: skip
    assert store.counter_check() == (expected, expected)
    assert store.counter_check()[0] == store.counts()
    store.replay(store.dead_letters(DeadLetterFilter())[0].id)
    after = expected | {"QUEUED": 3, "FAILED": 0, "dead_letters": 0}
    assert store.counter_check() == (after, after)
    store.roll_up()
    assert store.counter_check() == (after, after)


def test_a_row_that_is_gone(store, database):
    bury(store)
    add(store, *(task() for _ in range(3)))
    store.roll_up()  # on SQLite a task is in the books from then on
    execute(database, "DELETE FROM task_queue WHERE id = (SELECT min(id) FROM task_queue WHERE status = 'QUEUED')")
    books, there = store.counter_check()
    assert {name: (books[name], there[name]) for name in books if books[name] != there[name]} == {"QUEUED": (3, 2)}
    store.recount()
    books, there = store.counter_check()
    assert books == there


def test_books_that_say_less_than_nothing_are_told_as_they_are(store, database):
    add(store)
    store.roll_up()
    store.cancel([each.id for each in store.find(TaskFilter())])
    execute(database, "DELETE FROM task_flow WHERE event = 'enqueued'")
    books, there = store.counter_check()
    assert (books["QUEUED"], there["QUEUED"]) == (-1, 0)
    assert store.counts()["QUEUED"] == 0, "which people are not shown"


def test_both_are_of_one_moment(store, another):
    """Whoever asks while others work never sees one without the other."""
    register(store)
    add(store, *(task() for _ in range(150)))
    over = threading.Event()

    def work():
        try:
            while held := claim(store, limit=5):
                done, dead, *rest = held
                turn(store, done=[(each.id, each.epoch) for each in (done, *rest)])
                fail(store, dead)
                add(store)
                if len(held) < 5:
                    break
        finally:
            over.set()

    worker = threading.Thread(target=work)
    worker.start()
    asked = 0
    while not over.is_set() or asked < 3:
        books, there = another.counter_check()
        assert books == there
        assert there["FAILED"] == there["dead_letters"]
        asked += 1
    worker.join(20)
    assert store.counts()["DONE"] > 100
