"""Dead letters: filters, groups, replay, discarding and pruning."""

import threading
import time
from datetime import timedelta

import pytest

from conformance.acting import LATER, NOTE, add, bury, claim, fail, ids, live_counts, register, retry, task
from outlast.ports.rows import DeadLetterFilter, Reason, Status

ALL = DeadLetterFilter()


def noted(**changes):
    return NOTE._replace(**changes)


def test_there_are_none_at_first(store):
    assert store.dead_letters(ALL) == store.groups(ALL) == []
    assert store.count_dead_letters(ALL) == 0
    assert store.dead_letter(4242) is None


def test_the_check_leaves_nothing_behind(store):
    letter = bury(store)
    before = store.counts()
    for _ in range(3):
        store.check_dead_letters()
    assert store.dead_letters(ALL) == [letter]
    assert store.counts() == before


def test_the_check_fails_where_a_dead_letter_cannot_be_written(store, database):
    connection = database.connect()
    connection.execute("ALTER TABLE dead_letter_queue RENAME TO elsewhere")
    connection.commit()
    try:
        with pytest.raises(Exception, match="dead_letter_queue"):
            store.check_dead_letters()
    finally:
        connection.execute("ALTER TABLE elsewhere RENAME TO dead_letter_queue")
        connection.commit()
        connection.close()
    store.check_dead_letters()


@pytest.fixture
def letters(store):
    return [
        bury(store, task("a", queue="q1"), noted(fingerprint="x", error_message="100% of _it_"), Reason.EXHAUSTED),
        bury(store, task("b", queue="q1"), noted(fingerprint="y", error_category="data"), Reason.PERMANENT),
        bury(store, task("a", queue="q2"), noted(fingerprint="x", error_message='it\'s "bad" \\ 🦊'), Reason.PERMANENT),
    ]


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (DeadLetterFilter(), [2, 1, 0]),
        (DeadLetterFilter(task_type="a"), [2, 0]),
        (DeadLetterFilter(queue="q1"), [1, 0]),
        (DeadLetterFilter(category="data"), [1]),
        (DeadLetterFilter(reason="permanent"), [2, 1]),
        (DeadLetterFilter(reason=Reason.EXHAUSTED), [0]),
        (DeadLetterFilter(fingerprint="x"), [2, 0]),
        (DeadLetterFilter(task_type="a", queue="q1"), [0]),
        (DeadLetterFilter(task_type="%"), []),
        (DeadLetterFilter(text="%"), [0]),
        (DeadLetterFilter(text="_"), [0]),
        (DeadLetterFilter(text="100_"), []),
        (DeadLetterFilter(text="it's"), [2]),
        (DeadLetterFilter(text='"bad"'), [2]),
        (DeadLetterFilter(text="\\"), [2]),
        (DeadLetterFilter(text="🦊"), [2]),
        (DeadLetterFilter(text="' OR '1'='1"), []),
        (DeadLetterFilter(text="timed out"), [1]),
        (DeadLetterFilter(ids=()), []),
        (DeadLetterFilter(limit=2), [2, 1]),
    ],
    ids=str,
)
def test_filters(store, letters, which, expected):
    assert store.dead_letters(which) == [letters[n] for n in expected]
    if which.limit is None:
        assert store.count_dead_letters(which) == len(expected)
        assert sum(group.size for group in store.groups(which)) == len(expected)


def test_filters_by_number_and_time(store):
    letters = []
    for _ in range(3):
        letters.append(bury(store))
        time.sleep(0.003)
    first, second, third = letters
    assert store.dead_letters(DeadLetterFilter(ids=(third.id, first.id, 4242))) == [third, first]
    assert store.dead_letters(DeadLetterFilter(before=third.id)) == [second, first]
    assert store.dead_letters(DeadLetterFilter(since=second.moved_to_dlq_at)) == [third, second]
    assert store.dead_letters(DeadLetterFilter(until=second.moved_to_dlq_at)) == [first]
    since, until = second.moved_to_dlq_at, second.moved_to_dlq_at + timedelta(milliseconds=1)
    assert store.dead_letters(DeadLetterFilter(since=since, until=until)) == [second]


def test_groups_by_cause_the_largest_first(store):
    buried = []
    for n, fingerprint in enumerate("abbcabb"):
        note = noted(fingerprint=fingerprint, error_message=f"no. {n}", error_type=f"E{n}", error_category=f"c{n}")
        buried.append(bury(store, task(f"t{n}"), note))
        time.sleep(0.003)
    groups = store.groups(ALL)
    assert [(group.fingerprint, group.size) for group in groups] == [("b", 4), ("a", 2), ("c", 1)]
    largest = groups[0]
    assert (largest.first_seen, largest.last_seen) == (buried[1].moved_to_dlq_at, buried[6].moved_to_dlq_at)
    sample = (largest.task_type, largest.error_type, largest.error_category, largest.error_message)
    assert sample == ("t6", "E6", "c6", "no. 6"), "the newest one"
    assert groups[1][2:6] == ("t4", "E4", "c4", "no. 4")
    assert [group.fingerprint for group in store.groups(DeadLetterFilter(limit=2))] == ["b", "a"]
    assert [group.size for group in store.groups(DeadLetterFilter(task_type="t1"))] == [1]


def test_replay_queues_the_task_again_with_its_history(store):
    (number,) = add(store, task(unique_key="k", priority=2, expires=LATER))
    register(store)
    retry(store, claim(store)[0])
    fail(store, claim(store)[0])
    (letter,) = store.dead_letters(ALL)
    assert store.replay(letter.id) == "replayed"
    assert store.dead_letters(ALL) == []
    assert store.dead_letter(letter.id) is None
    found = store.get(number)
    assert (found.status, found.retry_count, found.replays, found.crash_count) == (Status.QUEUED, 0, 1, 0)
    assert (found.failed_at, found.expires_at) == (None, None)
    assert len(store.attempts(number)) == 2
    (claimed,) = claim(store)
    assert (claimed.id, claimed.attempt, claimed.retry_count) == (number, 3, 0)
    fail(store, claimed)
    (again,) = store.dead_letters(ALL)
    assert (again.original_task_id, again.replays, again.retry_count) == (number, 1, 1)
    assert again.id > letter.id
    store.replay(again.id)
    assert store.get(number).replays == 2
    assert [each.attempt for each in store.attempts(number)] == [1, 2, 3]


def test_replaying_twice_replays_nothing_twice(store):
    """Pitfall 56."""
    letter = bury(store)
    assert store.replay(letter.id) == "replayed"
    assert store.replay(letter.id) == "gone"
    assert store.discard(letter.id) == "gone"
    assert store.replay(4242) == "gone"
    assert live_counts(store) == {"QUEUED": 1}
    assert store.get(letter.original_task_id).replays == 1


def test_many_replay_the_same_ones_at_once(store, another):
    """Pitfall 56: every task is in one place."""
    register(store)
    add(store, *(task() for _ in range(40)))
    for claimed in claim(store, limit=40):
        fail(store, claimed)
    numbers = ids(store.dead_letters(ALL))
    answers: list[str] = []
    barrier = threading.Barrier(4)

    def act(mine, verb):
        barrier.wait()
        answers.extend(getattr(mine, verb)(number) for number in numbers)

    doing = [(store, "replay"), (another, "replay"), (another, "discard"), (store, "replay")]
    threads = [threading.Thread(target=act, args=each) for each in doing]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 160
    assert answers.count("replayed") + answers.count("discarded") == 40
    assert answers.count("gone") == 120
    expected = {"QUEUED": answers.count("replayed"), "DISCARDED": answers.count("discarded")}
    assert live_counts(store) == {name: number for name, number in expected.items() if number}


def test_a_replay_that_collides_with_a_key_stays(store):
    """Pitfall 57."""
    letter = bury(store, task(unique_key="k"))
    (live,) = add(store, task(unique_key="k"))
    assert store.replay(letter.id) == "conflict"
    assert store.dead_letter(letter.id) == letter
    assert store.get(letter.original_task_id).status is Status.FAILED
    assert live_counts(store) == {"FAILED": 1, "QUEUED": 1, "dead_letters": 1}
    store.cancel([live])
    assert store.replay(letter.id) == "replayed"


def test_a_replayed_task_takes_its_key_again(store):
    letter = bury(store, task(unique_key="k"))
    store.replay(letter.id)
    (answer,) = store.enqueue([task(unique_key="k")])
    assert answer == (letter.original_task_id, False)


def test_a_late_settlement_does_not_touch_a_replayed_task(store):
    (number,) = add(store)
    register(store)
    (claimed,) = claim(store)
    fail(store, claimed)
    store.replay(store.dead_letters(ALL)[0].id)
    assert fail(store, claimed) == [], "it was settled by us"
    assert store.get(number).status is Status.QUEUED
    assert store.dead_letters(ALL) == []
    (second,) = claim(store)
    assert fail(store, claimed) == [number]
    assert store.get(number).status is Status.RUNNING
    assert second.epoch > claimed.epoch


def test_discard(store):
    letter, other = bury(store), bury(store)
    assert store.discard(letter.id) == "discarded"
    assert store.discard(letter.id) == store.replay(letter.id) == store.discard(4242) == "gone"
    found = store.get(letter.original_task_id)
    assert found.status is Status.DISCARDED
    assert found.finished_at is not None
    assert len(store.attempts(found.id)) == 1
    assert store.dead_letters(ALL) == [other]
    assert live_counts(store) == {"DISCARDED": 1, "FAILED": 1, "dead_letters": 1}


def test_pruning_is_explicit_and_counted(store):
    """Pitfall 58."""
    letters = [bury(store) for _ in range(3)]
    assert store.prune_dead_letters(older_than=LATER) == 0
    assert store.prune(done_before=-1) == 0
    assert store.count_dead_letters(ALL) == 3
    assert store.prune_dead_letters(older_than=-1) == 3
    assert store.prune_dead_letters(older_than=-1) == 0
    assert live_counts(store) == {"DISCARDED": 3}
    assert store.replay(letters[0].id) == "gone"


def test_more_is_pruned_than_fits_in_a_batch(store):
    from conformance.acting import turn
    from outlast.ports.rows import Kind, Settlement

    register(store)
    add(store, *(task() for _ in range(1100)))
    failed = [
        Settlement(each.id, each.epoch, Kind.FAIL, note=NOTE, reason=Reason.PERMANENT)
        for each in claim(store, limit=1100)
    ]
    assert turn(store, settlements=failed).refused == []
    assert store.count_dead_letters(ALL) == 1100, "nothing is evicted"
    assert len(store.dead_letters(ALL)) == 1100
    assert store.prune_dead_letters(older_than=-1) == 1100
    assert live_counts(store) == {"DISCARDED": 1100}
