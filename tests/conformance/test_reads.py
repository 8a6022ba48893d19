"""What people look at: lists in pages, groups of failures, and the pulse."""

from datetime import timedelta

import pytest

from conformance.acting import LATER, NAMES, NOTE, add, bury, claim, die, fail, ids, register, retry, task, turn
from conformance.polling import add_feeds
from conformance.polling import fail as fail_source
from outlast.decide.source_health import SourceRules
from outlast.ports.job_rows import RunState
from outlast.ports.read_rows import FailureFilter, FlowEvent
from outlast.ports.rows import DeadLetterFilter, Kind, Reason, Settlement, Status, TaskFilter
from outlast.ports.source_rows import NewAlert

SCHEMA = NOTE._replace(
    error_type="KeyError", error_message="'Größe' is 100%_missing", error_category="schema", fingerprint="f2"
)


def all_pages(ask, which, look=5000, by="before"):
    """Return the pages of a list, asked for as a page would."""
    pages = [ask(which, look=look)]
    while pages[-1].next is not None:
        assert len(pages) < 100
        after = int(pages[-1].next) if by == "before" else pages[-1].next
        pages.append(ask(which._replace(**{by: after}), look=look))
    return pages


def rows_of(pages):
    return [row for page in pages for row in page.rows]


@pytest.fixture
def letters(store):
    """Ten dead letters: the first five of one cause, and one in each five of another kind in every way."""
    made = []
    for number in range(10):
        other = number % 5 == 0
        new = task("parse" if other else "fetch", queue="night" if other else "default")
        note = SCHEMA if number > 4 else NOTE
        made.append(bury(store, new, note, Reason.PERMANENT if other else Reason.EXHAUSTED))
    return made


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({}, range(10)),
        ({"task_type": "parse"}, [0, 5]),
        ({"queue": "night"}, [0, 5]),
        ({"reason": "permanent"}, [0, 5]),
        ({"category": "schema"}, range(5, 10)),
        ({"fingerprint": "f1"}, range(5)),
        ({"category": "schema", "task_type": "parse"}, [5]),
        ({"fingerprint": "f1", "queue": "default", "reason": "exhausted"}, [1, 2, 3, 4]),
        ({"text": "TIMED out"}, range(5)),
        ({"text": "größe"}, range(5, 10)),
        ({"text": "keyerror"}, range(5, 10)),
        ({"text": "100%_miss", "task_type": "fetch"}, range(6, 10)),
        ({"text": "100__miss"}, []),
        ({"text": "%"}, range(5, 10)),
        ({"task_type": "nobody"}, []),
        ({"queue": ""}, []),
    ],
)
@pytest.mark.parametrize("look", [5000, 3])
def test_dead_letters_by_each_filter(store, letters, which, expected, look):
    which = DeadLetterFilter(**which, limit=2)
    pages = all_pages(store.dead_letter_lines, which, look)
    assert ids(rows_of(pages)) == [letters[place].id for place in reversed(expected)]
    assert all(len(page.rows) <= 2 and page.looked <= look for page in pages)
    if not expected and look < 10 and which.text:
        assert len(pages) > 1, "a page that found nothing says where to look further"


def test_a_page_that_shows_all_has_no_next(store, letters):
    assert store.dead_letter_lines(DeadLetterFilter(limit=10)).next is None
    assert store.dead_letter_lines(DeadLetterFilter(limit=9)).next == str(letters[1].id)
    assert store.dead_letter_lines(DeadLetterFilter(task_type="parse", limit=2)).next is None
    assert len(store.dead_letter_lines(DeadLetterFilter()).rows) == 10


def test_a_line_is_what_the_dead_letter_says(store, letters):
    (line,) = store.dead_letter_lines(DeadLetterFilter(ids=(letters[5].id,))).rows
    whole = store.dead_letter(line.id)
    assert line._asdict() == {name: getattr(whole, name) for name in line._fields}
    assert isinstance(line.reason, Reason)


def test_dead_letters_by_number(store, letters):
    wanted = (letters[7].id, letters[2].id, 999)
    assert ids(store.dead_letter_lines(DeadLetterFilter(ids=wanted)).rows) == [letters[7].id, letters[2].id]
    assert ids(store.dead_letter_lines(DeadLetterFilter(ids=wanted, category="schema")).rows) == [letters[7].id]
    assert store.dead_letter_lines(DeadLetterFilter(ids=())).rows == []


@pytest.mark.parametrize("look", [5000, 2])
def test_dead_letters_by_time(store, letters, look):
    moved = [letter.moved_to_dlq_at for letter in letters]
    for since, until in ((moved[3], None), (None, moved[6]), (moved[2], moved[8]), (moved[9] + timedelta(1), None)):
        which = DeadLetterFilter(since=since, until=until, limit=3)
        expected = [
            letter.id
            for letter in reversed(letters)
            if (since is None or letter.moved_to_dlq_at >= since) and (until is None or letter.moved_to_dlq_at < until)
        ]
        assert ids(rows_of(all_pages(store.dead_letter_lines, which, look))) == expected
    assert store.dead_letter_lines(DeadLetterFilter(until=moved[0])).rows == []


def test_filters_are_bound_and_never_spliced(store):
    for name in NAMES:
        bury(
            store,
            task(name, queue=name),
            NOTE._replace(error_message=name or "-", fingerprint=name, error_category=name),
        )
    for name in NAMES:
        for field in ("task_type", "queue", "category", "fingerprint"):
            (line,) = store.dead_letter_lines(DeadLetterFilter(**{field: name})).rows
            assert line.task_type == name
        assert len(store.task_lines(TaskFilter(task_type=name)).rows) == 1
        assert len(store.task_lines(TaskFilter(queue=name, status=Status.FAILED)).rows) == 1
        assert (
            name in {line.error_message for line in store.dead_letter_lines(DeadLetterFilter(text=name)).rows}
            or not name
        )
        if name:
            assert store.failure(name).task_type == name
            assert len(store.failures(FailureFilter(task_type=name, category=name, text=name)).rows) == 1
            assert len(store.failure_samples(name)) == 1
            assert sum(point.count for point in store.failure_flow([name], window=60, step=10)[name]) == 1
    assert store.dead_letter_counts() == {(name, name): 1 for name in NAMES}


@pytest.fixture
def tasks(store):
    """Two of each status, in an order in which no status stands together."""
    numbers = add(store, *[task("fetch" if n % 2 else "parse", queue="b" if n % 3 else "a") for n in range(14)])
    register(store)
    claimed = {each.id: each for each in claim(store, limit=20, queues=("a", "b"))}
    made = {}
    for place, status in enumerate(Status):
        made[status] = [numbers[place], numbers[place + 7]]
        for number in made[status]:
            one = claimed[number]
            match status:
                case Status.QUEUED:
                    retry(store, one, delay=LATER)
                case Status.PARKED:
                    turn(store, settlements=[_parked(one)])
                case Status.DONE:
                    turn(store, done=[(one.id, one.epoch)])
                case Status.FAILED:
                    fail(store, one)
                case Status.CANCELLED:
                    retry(store, one)
                    store.cancel([one.id])
                case Status.DISCARDED:
                    fail(store, one)
                    store.discard(store.dead_letters(DeadLetterFilter(limit=1))[0].id)
                case Status.RUNNING:
                    pass
    return made


def _parked(claimed):
    return Settlement(claimed.id, claimed.epoch, Kind.PARK)


@pytest.mark.parametrize("look", [5000, 3, 1])
@pytest.mark.parametrize("status", [None, *Status])
def test_tasks_by_status(store, tasks, status, look):
    pages = all_pages(store.task_lines, TaskFilter(status=status, limit=1), look)
    wanted = [number for each, numbers in tasks.items() for number in numbers if status in {None, each}]
    assert ids(rows_of(pages)) == sorted(wanted, reverse=True)
    assert all(page.looked <= look for page in pages)
    for line in rows_of(pages):
        seen = store.get(line.id)
        assert line._asdict() == {name: getattr(seen, name) for name in line._fields}


@pytest.mark.parametrize("look", [5000, 2])
@pytest.mark.parametrize("status", [None, *Status])
@pytest.mark.parametrize("narrow", [{"queue": "a"}, {"task_type": "fetch"}, {"queue": "b", "task_type": "parse"}])
def test_tasks_by_queue_and_name(store, tasks, status, narrow, look):
    which = TaskFilter(status=status, **narrow)
    assert ids(rows_of(all_pages(store.task_lines, which, look))) == ids(store.find(which))


def test_groups_of_failures(store, letters):
    store.replay(letters[9].id)
    register(store)
    (claimed,) = claim(store)
    retry(store, claimed, delay=LATER, note=SCHEMA)
    latest, oldest = store.failures(FailureFilter()).rows
    assert (latest.fingerprint, latest.failures, latest.dead) == ("f2", 6, 4)
    assert (oldest.fingerprint, oldest.failures, oldest.dead) == ("f1", 5, 5)
    assert oldest.first_seen == letters[0].moved_to_dlq_at
    assert oldest.last_seen == letters[4].moved_to_dlq_at
    assert store.failure("f1") == oldest
    assert store.failure("nobody") is None


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({}, {"f1", "f2", "g3", "g4"}),
        ({"category": "schema"}, {"f2"}),
        ({"task_type": "retried"}, {"g3", "g4"}),
        ({"task_type": "retried", "category": "network"}, {"g3", "g4"}),
        ({"text": "GRÖSSE"}, {"f2"}),
        ({"text": "timeouterror"}, {"f1", "g3", "g4"}),
        ({"text": "_"}, {"f2"}),
        ({"dead": True}, {"f1", "f2"}),
        ({"category": "nobody"}, set()),
    ],
)
@pytest.mark.parametrize("look", [5000, 2])
def test_groups_by_each_filter(store, letters, which, expected, largest, look):
    add(store, task("retried"))
    register(store)
    for fingerprint in ("g3", "g4"):
        (claimed,) = claim(store)
        retry(store, claimed, note=NOTE._replace(fingerprint=fingerprint))
    pages = all_pages(store.failures, FailureFilter(**which, largest=largest, limit=1), look, by="after")
    rows = rows_of(pages)
    assert {row.fingerprint for row in rows} == expected
    assert len(rows) == len(expected)
    assert all(page.looked <= look for page in pages)


def test_a_place_that_somebody_made_up_is_the_beginning(store, letters):
    for after in ("", "x", "1", "x.f1", "."):
        assert len(store.failures(FailureFilter(after=after)).rows) == 2


def test_a_group_knows_its_tasks(store):
    register(store)
    add(store, *(task(name) for name in ("fetch", "parse", "fetch")))
    for claimed in claim(store):
        retry(store, claimed, note=NOTE._replace(fingerprint="shared"))
    assert store.failure_tasks("shared") == {"fetch": 2, "parse": 1}
    assert sum(store.failure_tasks("shared", limit=1).values()) == 1
    assert store.failure_tasks("nobody") == {}
    assert store.tasks_by_group(["nobody", "shared"]) == {"nobody": {}, "shared": {"fetch": 2, "parse": 1}}


def test_samples_and_flow_of_a_group(store, letters):
    samples = store.failure_samples("f1", limit=3)
    assert [each.task_id for each in samples] == [letters[n].original_task_id for n in (4, 3, 2)]
    assert samples[0] == store.attempts(samples[0].task_id)[0]
    assert store.failure_samples("nobody") == []
    flow = store.failure_flow(["f1", "nobody", "f2"], window=600, step=60)
    assert list(flow) == ["f1", "nobody", "f2"]
    assert flow["nobody"] == []
    for fingerprint, category in (("f1", "network"), ("f2", "schema")):
        points = flow[fingerprint]
        assert sum(point.count for point in points) == 5
        assert {(point.event, point.category) for point in points} == {(FlowEvent.FAILED, category)}
        assert all(point.at.timestamp() % 60 == 0 for point in points)
    assert store.failure_flow([], window=600, step=60) == {}


def test_tasks_that_wait_for_a_resource(store):
    add(store, task(resource="r"), task(resource="r", delay=LATER), task(resource="s"), task())
    register(store)
    assert (store.waiting_for("r"), store.waiting_for("s"), store.waiting_for("t")) == (2, 1, 0)
    claim(store)
    assert (store.waiting_for("r"), store.waiting_for("s")) == (1, 0)


def test_a_pulse_of_nothing(store):
    pulse = store.pulse()
    assert abs((pulse.at - store.now()).total_seconds()) < 60
    assert pulse.counts == store.counts()
    assert set(pulse.sources.values()) == {0}
    assert list(pulse.sources) == ["healthy", "warning", "error", "disabled", "probation"]
    assert (pulse.flow, pulse.last_hour, pulse.hour_before, pulse.changes) == ((), {}, {}, ())
    assert pulse.oldest_ready is None
    assert pulse.retries_waiting == 0
    numbers = ("workers", "silent_workers", "cooldowns", "open_breakers", "paused_queues", "alerts_waiting")
    assert [getattr(pulse, name) for name in numbers] == [0] * 6
    assert (pulse.running_jobs, pulse.newest_task, pulse.newest_dead_letter) == (0, 0, 0)


def test_the_flow_of_a_pulse(store, letters):
    pulse = store.pulse(window=600, step=60)
    flow = {}
    for point in pulse.flow:
        assert point.at.timestamp() % 60 == 0
        flow[point.event, point.category] = flow.get((point.event, point.category), 0) + point.count
    expected = {
        (FlowEvent.ENQUEUED, ""): 10,
        (FlowEvent.FAILED, "network"): 5,
        (FlowEvent.FAILED, "schema"): 5,
    }
    assert flow == pulse.last_hour == expected
    assert pulse.hour_before == {}
    assert list(pulse.flow) == sorted(pulse.flow, key=lambda point: point.at)
    store.roll_up()
    assert store.pulse(window=600, step=60).last_hour == expected


def test_what_stands_in_a_pulse(store):
    numbers = add(store, task(), task(queue="b"), task(queue="c", delay=LATER))
    register(store, "w1", lease=LATER)
    register(store, "w2")
    die(store, "w2")
    (claimed,) = claim(store, limit=1)
    retry(store, claimed, delay=LATER)
    store.start_cooldown("r", LATER, "busy")
    store.report_breakers("p", [("r", "open", None, "")])
    store.add_run("run", "items", None, "test", None)
    store.raise_alerts([NewAlert("k", "error", "title", "text")])
    add_feeds(store, 3)
    pulse = store.pulse()
    assert (pulse.workers, pulse.silent_workers) == (1, 1)
    assert (pulse.retries_waiting, pulse.cooldowns, pulse.open_breakers) == (1, 1, 1)
    assert (pulse.running_jobs, pulse.alerts_waiting, pulse.sources["healthy"]) == (1, 1, 3)
    assert (pulse.newest_task, pulse.newest_dead_letter) == (numbers[-1], 0)
    assert 0 <= pulse.oldest_ready < 60
    store.pause("b")
    pulse = store.pulse()
    assert (pulse.paused_queues, pulse.oldest_ready) == (1, None)


def test_numbers_are_the_largest_ever_given(store, letters):
    for letter in letters:
        store.discard(letter.id)
    store.prune(done_before=-10)
    pulse = store.pulse()
    assert (pulse.newest_task, pulse.newest_dead_letter) == (letters[-1].original_task_id, letters[-1].id)


def test_a_suspect_that_waits_is_ready_too(store):
    add(store, task())
    register(store)
    claim(store)
    die(store)
    store.rescue(3)
    assert 0 <= store.pulse().oldest_ready < 60


def test_changes_of_the_last_hour(store):
    bury(store)
    (number,) = add_feeds(store, 1)
    store.change_sources({number: (None, fail_source(SourceRules(threshold=1)))})
    store.add_run("run 1", "items", None, "test", None)
    store.end_run("run 1", RunState.DONE, 0, {})
    register(store, "w1")
    changes = store.pulse().changes
    assert [each.at for each in changes] == sorted((each.at for each in changes), reverse=True)
    told = {each.kind: each for each in changes}
    assert told.keys() == {"group", "source", "run", "worker"}
    assert told["group"][2:] == ("f1", "scrape", "", "network", NOTE.error_message)
    assert told["source"][2:4] == (str(number), "https://feeds.test/1")
    assert (told["source"].before, told["source"].after) == ("healthy", "disabled")
    assert told["run"][2:6] == ("run 1", "items", "", "done 0")
    assert told["worker"][2:4] == ("w1", "name")


def test_no_more_changes_than_fifty(store):
    add(store, task())
    register(store)
    for number in range(60):
        (claimed,) = claim(store)
        retry(store, claimed, note=NOTE._replace(fingerprint=f"g{number}"))
    changes = store.pulse().changes
    assert len(changes) == 50
    assert changes[0].subject == "g59"


def test_queues_by_what_lives_in_them(store):
    add(store, task(), task(queue="b"), task(queue="b", delay=LATER), task(queue="gone"))
    register(store)
    for each in claim(store, queues=("gone",)):
        turn(store, done=[(each.id, each.epoch)])
    for each in claim(store, queues=("default",)):
        turn(store, settlements=[_parked(each)])
    store.pause("closed")
    rows = {row.name: row[1:] for row in store.queues()}
    assert rows == {
        "b": (False, 1, 1, 0, 0),
        "closed": (True, 0, 0, 0, 0),
        "default": (False, 0, 0, 0, 1),
    }


def test_recorded_tasks_come_with_their_failed_attempts(store):
    register(store, "w1")
    first, second, third = add(store, *(task(resource="shop") for _ in range(3)))
    claimed = {each.id: each for each in claim(store, limit=3)}
    retry(store, claimed[first], delay=7.0)
    fail(store, claimed[second])

    found = store.recorded_tasks(None, 10)
    assert [each.id for each in found] == [third, second, first]
    assert [each.id for each in store.recorded_tasks(third, 1)] == [second], "a page reads no more than it returns"
    assert store.recorded_tasks(first, 10) == []
    assert [each.status for each in found] == [Status.RUNNING, Status.FAILED, Status.QUEUED]
    assert [len(each.attempts) for each in found] == [0, 1, 1]
    (attempt,) = found[2].attempts
    assert (attempt.outcome, attempt.delay, attempt.error_category) == ("retry", 7.0, NOTE.error_category)
    assert found[2].resource == "shop"
    assert found[1].ended_at >= found[1].attempts[0].started_at
