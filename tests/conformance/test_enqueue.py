"""Enqueueing: numbers, unique keys, batches, and the caller's own transaction."""

import sqlite3
import time

import psycopg.rows
import pytest

from conformance.acting import LATER, NAMES, add, bury, claim, ids, live_counts, register, retry, settle, task
from outlast.errors import ConfigError
from outlast.ports.rows import DeadLetterFilter, Enqueued, Kind, Status, TaskFilter


def test_numbers_ascend_and_all_is_new(store):
    first = store.enqueue([task()])
    batch = store.enqueue([task() for _ in range(300)])
    last = store.enqueue([task(unique_key="k")])
    numbers = [each.id for each in first + batch + last]
    assert numbers == sorted(set(numbers))
    assert all(each.created is True for each in first + batch + last)


def test_an_empty_batch_adds_nothing(store):
    assert store.enqueue([]) == []
    assert live_counts(store) == {}


def test_a_task_is_kept_as_it_was_given(store):
    (number,) = add(store, task("t", '{"a":1}', queue="q", priority=3, unique_key="k", resource="r", expires=50))
    found = store.get(number)
    assert found.id == number
    assert (found.task_type, found.parameters, found.queue, found.priority) == ("t", '{"a":1}', "q", 3)
    assert (found.unique_key, found.resource, found.status) == ("k", "r", Status.QUEUED)
    assert (found.attempt, found.retry_count, found.crash_count, found.deferrals, found.replays) == (0, 0, 0, 0, 0)
    assert (found.suspect, found.worker_id, found.last_error, found.lease_epoch) == (False, None, None, 0)
    assert (found.started_at, found.failed_at, found.finished_at) == (None, None, None)
    assert abs(found.created_at.timestamp() - time.time()) < 30
    assert found.updated_at == found.created_at
    assert found.created_at.tzinfo is not None
    assert round((found.expires_at - found.created_at).total_seconds(), 2) == 50


def test_what_is_not_given_has_its_default(store):
    (number,) = add(store, task())
    found = store.get(number)
    assert (found.queue, found.priority, found.unique_key, found.resource) == ("default", 5, None, None)
    assert found.expires_at is None
    assert found.next_run_after == found.created_at


def test_delay_and_run_at(store):
    now = time.time()
    late, at, past = add(store, task(delay=LATER), task(run_at=now + LATER), task(run_at=now - 60, delay=LATER))
    assert round((store.get(late).next_run_after - store.get(late).created_at).total_seconds(), 2) == LATER
    assert abs(store.get(at).next_run_after.timestamp() - (now + LATER)) < 0.002
    assert store.get(at).next_run_after.timestamp() >= now + LATER - 1e-6, "never early"
    assert abs(store.get(past).next_run_after.timestamp() - (now - 60)) < 0.002, "run_at goes before delay"


def test_an_unknown_task_is_none(store):
    assert store.get(4242) is None
    assert store.attempts(4242) == []
    assert store.result(4242) is None


def test_a_taken_key_is_answered_with_the_task_that_has_it(store):
    (first,) = store.enqueue([task(unique_key="k", parameters='{"n":1}')])
    assert store.enqueue([task(unique_key="k", parameters='{"n":2}')]) == [Enqueued(first.id, created=False)]
    assert store.get(first.id).parameters == '{"n":1}'
    assert live_counts(store) == {"QUEUED": 1}


def test_a_key_is_taken_within_one_batch(store):
    answers = store.enqueue(
        [task(unique_key="a"), task(), task(unique_key="b"), task(unique_key="a"), task(), task(unique_key="b")]
    )
    assert [each.created for each in answers] == [True, True, True, False, True, False]
    assert (answers[3].id, answers[5].id) == (answers[0].id, answers[2].id)
    assert len({each.id for each in answers}) == 4
    assert live_counts(store) == {"QUEUED": 4}


def test_a_large_batch_of_all_sorts_is_answered_in_its_order(store):
    (taken,) = add(store, task(unique_key="key 7"))
    batch = [
        task(
            parameters=f'{{"n":{n}}}',
            unique_key=f"key {n}" if n % 3 == 0 or n == 7 else None,
            resource="r" if n % 2 else None,
        )
        for n in range(600)
    ]
    answers = store.enqueue(batch)
    assert answers[7] == Enqueued(taken, created=False)
    others = [each for n, each in enumerate(answers) if n != 7]
    assert all(each.created for each in others)
    assert ids(others) == sorted(set(ids(others)))
    for n in (0, 1, 2, 3, 299, 599):
        found = store.get(answers[n].id)
        given = batch[n]
        assert (found.parameters, found.unique_key, found.resource) == (
            given.parameters,
            given.unique_key,
            given.resource,
        )


def test_a_key_is_per_task_type(store):
    (one,), (other,) = store.enqueue([task("a", unique_key="k")]), store.enqueue([task("b", unique_key="k")])
    assert (one.created, other.created) == (True, True)
    assert one.id != other.id


def test_a_key_is_for_all_queues(store):
    (one,) = store.enqueue([task(unique_key="k", queue="x")])
    assert store.enqueue([task(unique_key="k", queue="y")]) == [Enqueued(one.id, created=False)]


@pytest.mark.parametrize("state", ["scheduled", "running", "held", "retrying", "parked"])
def test_a_key_stays_taken_while_the_task_lives(store, state):
    (number,) = add(store, task(unique_key="k", delay=LATER if state == "scheduled" else 0))
    if state != "scheduled":
        register(store)
        (claimed,) = claim(store, start=0 if state == "held" else 1)
        if state == "retrying":
            retry(store, claimed, delay=LATER)
        if state == "parked":
            settle(store, claimed, Kind.PARK)
    assert store.enqueue([task(unique_key="k")]) == [Enqueued(number, created=False)]


@pytest.mark.parametrize("end", ["DONE", "FAILED", "CANCELLED", "DISCARDED"])
def test_a_key_is_free_after_the_end(store, end):
    new = task(unique_key="k")
    if end in {"FAILED", "DISCARDED"}:
        letter = bury(store, new)
        if end == "DISCARDED":
            store.discard(letter.id)
    else:
        (number,) = add(store, new)
        if end == "DONE":
            register(store)
            settle(store, claim(store)[0], Kind.DONE)
        else:
            assert store.cancel([number]) == [number]
    (answer,) = store.enqueue([new])
    assert answer.created
    assert live_counts(store) == {end: 1, "QUEUED": 1} | ({"dead_letters": 1} if end == "FAILED" else {})


def test_a_batch_is_added_whole_or_not_at_all(store):
    """The third cannot be stored."""
    with pytest.raises(Exception, match=r"(?i)priority|check"):
        store.enqueue([task(), task(unique_key="k"), task(priority=10)])
    with pytest.raises(Exception, match=r"(?i)priority|check"):
        store.enqueue([task(), task(priority=-1)])
    assert live_counts(store) == {}
    assert store.enqueue([task(unique_key="k")])[0].created


def test_names_are_bound_and_never_spliced(store):
    """Pitfall 69."""
    register(store)
    for name in NAMES:
        (answer,) = store.enqueue([task(name, queue=name, resource=name, unique_key=name)])
        assert store.enqueue([task(name, unique_key=name)]) == [Enqueued(answer.id, created=False)]
        found = store.get(answer.id)
        assert (found.task_type, found.queue, found.resource, found.unique_key) == (name, name, name, name)
        assert ids(store.find(TaskFilter(queue=name, task_type=name))) == [answer.id]
        (claimed,) = claim(store, queues=(name,))
        assert (claimed.id, claimed.task_type, claimed.resource) == (answer.id, name, name)
        settle(store, claimed, Kind.PARK)
        assert store.unpark([name]) == 1
    many = [task(name, queue=name) for name in NAMES]
    assert [store.get(number).task_type for number in add(store, *many)] == NAMES
    assert live_counts(store) == {"QUEUED": 2 * len(NAMES)}


PAYLOADS = [
    '{"n":9007199254740993,"big":123456789012345678901234567890}',
    '{"text":"🦊 \\"quoted\\" \'single\' back\\\\slash %s %(a)s :a ? $1 日本"}',
    '{"empty":"","list":[1.5,null,true]}',
    '{"line":"\u2028 \\n \\t"}',
    '{"long":"' + "x" * 200_000 + '"}',
    "no JSON at all: {",
]


def test_payloads_survive_as_they_are(store):
    """Pitfall 53; one by one, in a batch, through a claim and as a dead letter."""
    register(store)
    add(store, *(task(parameters=text) for text in PAYLOADS))
    for text in PAYLOADS:
        add(store, task(parameters=text))
    for text in PAYLOADS:
        add(store, task(parameters=text, resource="r"))
    claimed = claim(store, limit=50)
    assert [each.parameters for each in claimed] == PAYLOADS * 3
    assert [store.get(each.id).parameters for each in claimed] == PAYLOADS * 3
    assert [each.parameters for each in reversed(store.find(TaskFilter()))] == PAYLOADS * 3
    letters = [bury(store, task(parameters=text)) for text in PAYLOADS]
    assert [letter.parameters for letter in letters] == PAYLOADS


def test_numbers_beyond_32_bits(store, place):
    """Pitfall 53."""
    place.raise_ids(2**40)
    (number,) = add(store)
    more = add(store, task(), task())
    assert number >= 2**40
    assert more == [number + 1, number + 2]
    register(store)
    claimed = claim(store)
    assert ids(claimed) == [number, *more]
    assert settle(store, claimed[0], Kind.DONE) == []
    assert store.get(number).status is Status.DONE
    retry(store, claimed[1])
    assert store.attempts(more[0])[0].task_id == more[0]
    assert store.reconcile("w1", [more[1]]) == 0
    assert store.cancel(more) == [more[0]]


def test_ready_tasks_wake_the_listeners(store):
    calls = []
    end = store.listen(lambda: calls.append(1))
    limit = time.monotonic() + 10
    while not calls and time.monotonic() < limit:  # a listener on another connection may take a moment to be there
        add(store)
        time.sleep(0.01)
    assert calls
    end()
    assert store.poll > 0


class TestTheCallersOwnTransaction:
    def test_nothing_is_there_before_the_commit(self, store, database):
        connection = database.connect()
        one = store.enqueue([task()], connection=connection)
        many = store.enqueue([task(), task(unique_key="k"), task(resource="r")], connection=connection)
        assert store.enqueue([task(unique_key="k")], connection=connection) == [Enqueued(many[1].id, created=False)]
        assert [store.get(each.id) for each in one + many] == [None] * 4
        connection.commit()
        connection.close()
        assert [store.get(each.id).status for each in one + many] == [Status.QUEUED] * 4
        register(store)
        assert ids(claim(store)) == ids(one + many)

    @pytest.mark.parametrize(
        "batch", [[task()], [task(unique_key="k")], [task(), task()], [task(), task(unique_key="k")]]
    )
    def test_a_rollback_takes_all_back(self, store, database, batch):
        connection = database.connect()
        numbers = store.enqueue(batch, connection=connection)
        connection.rollback()
        connection.close()
        assert [store.get(each.id) for each in numbers] == [None] * len(batch)
        assert live_counts(store) == {}
        assert all(each.created for each in store.enqueue(batch))

    def test_a_batch_that_fails_leaves_nothing_in_it(self, store, database):
        connection = database.connect()
        with pytest.raises((sqlite3.Error, psycopg.Error, ConfigError)):
            store.enqueue([task(), task(unique_key="k"), task(priority=10)], connection=connection)
        connection.commit()
        connection.close()
        assert live_counts(store) == {}

    def test_the_form_of_its_rows_does_not_matter(self, store, database):
        connection = database.connect()
        if database.kind == "sqlite":
            connection.row_factory = lambda cursor, row: {
                column[0]: row[n] for n, column in enumerate(cursor.description)
            }
        else:
            connection.row_factory = psycopg.rows.dict_row
        batches = [[task()], [task(unique_key="k")], [task(), task()], [task(unique_key="k"), task(resource="r")]]
        answers = [store.enqueue(batch, connection=connection) for batch in batches]
        connection.commit()
        connection.close()
        assert [[each.created for each in answer] for answer in answers] == [
            [True],
            [True],
            [True, True],
            [False, True],
        ]
        assert live_counts(store) == {"QUEUED": 5}

    def test_another_kind_of_connection_is_refused(self, store):
        with pytest.raises(ConfigError):
            store.enqueue([task()], connection=object())
        assert live_counts(store) == {}
        assert store.count_dead_letters(DeadLetterFilter()) == 0
