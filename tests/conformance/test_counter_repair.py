"""The books are put right by what is really there, whatever somebody did to them or behind their back."""

import threading
from collections import Counter

import pytest

from conformance.acting import NOTE, add, bury, claim, live_counts, register, retry, task, turn
from outlast.ports.read_rows import FailureFilter, FlowEvent
from outlast.ports.rows import DeadLetterFilter, TaskFilter

OTHER = NOTE._replace(error_category="schema", fingerprint="f2")


@pytest.fixture
def busy(store, place):
    """A store in which everything has happened, partly added up."""
    for number in range(5):
        bury(store, task("scrape" if number % 2 else "mail"), note=NOTE if number < 3 else OTHER)
    letters = store.dead_letters(DeadLetterFilter())
    store.replay(letters[0].id)
    store.discard(letters[1].id)
    add(store, *[task()] * 6)
    register(store)
    done, gone, again, _ = claim(store, limit=4)
    turn(store, done=[(done.id, done.epoch)])
    retry(store, again, delay=3600.0)
    store.cancel(add(store))
    place.age_deltas()
    store.roll_up()
    turn(store, done=[(gone.id, gone.epoch)])
    store.cancel(add(store))
    return store


def real(store):
    """What a count finds."""
    tasks = Counter(str(each.status) for each in store.find(TaskFilter(limit=1000)))
    letters = store.dead_letters(DeadLetterFilter(limit=1000))
    return dict(tasks) | ({"dead_letters": len(letters)} if letters else {})


def agrees(store):
    """See that all that the books say is so, and goes on to be so when they are added up."""
    assert live_counts(store) == real(store)
    letters = store.dead_letters(DeadLetterFilter(limit=1000))
    assert store.dead_letter_counts() == Counter((each.task_type, each.error_category) for each in letters)
    dead = {each.fingerprint: each.dead for each in store.failures(FailureFilter()).rows if each.dead}
    assert dead == Counter(each.fingerprint for each in letters)
    assert min(store.event_totals().values()) >= 0


def execute(place, *statements):
    connection = place.connect()
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_books_that_are_right_stay_as_they_are(busy):
    before = busy.event_totals()
    assert busy.recount() == {}
    assert busy.event_totals() == before
    agrees(busy)


def test_an_empty_store(store):
    assert store.recount() == {}
    assert set(store.event_totals().values()) == {0}


@pytest.mark.parametrize(
    "spoiled",
    [
        "DELETE FROM task_flow",
        "DELETE FROM task_flow WHERE span = -1",
        "DELETE FROM task_flow WHERE span = 0",
        "UPDATE task_flow SET n = n * 3 WHERE span IN (-1, 0)",
        "UPDATE task_flow SET n = n + 100 WHERE event = 'enqueued' AND span = -1",
        "UPDATE task_flow SET category = 'gone' WHERE span = -1 AND event = 'failed' AND category = 'schema'",
        "UPDATE failure_groups SET dead = 77",
        "DELETE FROM failure_groups WHERE fingerprint = 'f1'",
    ],
)
def test_books_that_somebody_spoiled(busy, database, spoiled):
    before, points = busy.event_totals(), busy.pulse().flow
    execute(database, spoiled)
    busy.recount()
    agrees(busy)
    if "task_flow" not in spoiled:
        assert busy.event_totals() == before
    assert busy.recount() == {}
    if "span = -1" in spoiled:
        assert busy.pulse().flow == points, "what happened when is kept"
    database.age_deltas()
    busy.roll_up()
    agrees(busy)


@pytest.mark.parametrize(
    "behind",
    [
        "DELETE FROM task_queue WHERE status = 'DONE'",
        "DELETE FROM task_queue WHERE status = 'QUEUED'",
        "UPDATE task_queue SET status = 'DONE' WHERE status = 'QUEUED'",
        "UPDATE task_queue SET status = 'QUEUED' WHERE status IN ('DONE', 'CANCELLED', 'DISCARDED')",
        "DELETE FROM dead_letter_queue WHERE task_type = 'scrape'",
    ],
)
def test_tasks_that_somebody_changed_behind_their_back(busy, database, behind):
    """As a worker of an older version does, or a hand."""
    before = busy.event_totals()
    execute(database, behind)
    assert busy.counts() != real(busy)
    wrong = busy.recount()
    assert wrong
    agrees(busy)
    assert all(busy.event_totals()[event] >= before[event] for event in FlowEvent), "what happened is not taken back"
    assert busy.recount() == {}


def test_by_how_much_it_was_wrong(store, database):
    add(store, *[task()] * 11)
    execute(database, "UPDATE task_queue SET status = 'DONE' WHERE id <= (SELECT min(id) FROM task_queue) + 7")
    assert live_counts(store) == {"QUEUED": 11}
    assert store.recount() == {"QUEUED": -8, "DONE": 8}
    assert live_counts(store) == {"QUEUED": 3, "DONE": 8}
    assert store.event_totals()["enqueued"] == 11


def lose_letters(place):
    """Delete all dead letters behind the back of the books."""
    execute(place, "DELETE FROM dead_letter_queue")


def test_a_task_that_failed_and_lost_its_dead_letter_gets_it_anew(store, place):
    lost = [bury(store, task("scrape", resource="r", unique_key="k")), bury(store, task("mail"), note=OTHER)]
    lose_letters(place)
    assert store.recount() == {"rebuilt": 2}
    anew = store.dead_letters(DeadLetterFilter())[::-1]
    same = [now._replace(id=old.id, moved_to_dlq_at=old.moved_to_dlq_at) for old, now in zip(lost, anew, strict=True)]
    assert same == lost
    assert {store.get(each.original_task_id).status for each in lost} == {"FAILED"}
    agrees(store)
    books, counted = store.counter_check()
    assert books == counted
    assert store.recount() == {}
    assert store.replay(anew[0].id)
    assert store.get(lost[0].original_task_id).status == "QUEUED"


def test_a_dead_letter_is_rebuilt_without_any_attempt(store, place):
    number = bury(store).original_task_id
    lose_letters(place)
    execute(place, "DELETE FROM task_attempts")
    assert store.recount()["rebuilt"] == 1
    (letter,) = store.dead_letters(DeadLetterFilter())
    assert (letter.original_task_id, letter.reason, letter.error_category) == (number, "exhausted", "unknown")
    assert (letter.error_type, letter.error_message, letter.fingerprint, letter.traceback) == ("", "", "", "")
    assert letter.failure == {}
    assert store.get(number).status == "FAILED"
    books, counted = store.counter_check()
    assert books == counted
    assert store.recount() == {}


def test_counts_are_never_less_than_nothing(store, database):
    add(store)
    execute(database, "DELETE FROM task_queue")
    bury(store)
    execute(database, "UPDATE task_flow SET n = 9 WHERE event = 'failed'")
    assert min(store.counts().values()) == 0
    assert min(store.pulse().counts.values()) == 0


def test_beside_those_who_work(store, another):
    """Whoever adds, ends and buries meanwhile is counted once."""
    ended = threading.Event()
    errors = []

    def count():
        while not ended.is_set():
            try:
                assert another.recount() == {}
            except BaseException as error:
                errors.append(error)
                return

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        for number in range(30):
            store.discard(bury(store).id)
            add(store, *[task(queue="other")] * (1 + number % 3))
    finally:
        ended.set()
        thread.join(30)
    assert errors == []
    agrees(store)
