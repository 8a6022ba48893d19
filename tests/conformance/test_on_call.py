"""What people on call read and set: periodic tasks and their pauses, marks on the charts, samples of finished tasks."""

import time
from datetime import timedelta

import pytest

import outlast
from conformance.acting import LATER, NOTE, add, claim, fail, register, retry, settle, task
from outlast.ports.rows import Kind, Status, TaskFilter
from outlast.queue.masking import task_search


def test_periodic_tasks_are_listed_with_their_last_run(store):
    assert store.periodic() == []
    store.set_periodic({"b": LATER, "a": -10})
    first, second = store.periodic()
    assert (first.name, first.paused, first.last_run_at, first.last_task, first.last_status) == (
        "a",
        False,
        None,
        None,
        None,
    )
    assert second.name == "b"
    assert second.next_run_at - first.next_run_at > timedelta(seconds=LATER / 2)
    ((_, due),) = store.due_periodic(["a"])
    enqueued = store.run_periodic("a", due, LATER, task("a"))
    (first, _) = store.periodic()
    assert first.last_run_at is not None
    assert first.next_run_at > due
    assert (first.last_task, first.last_status) == (enqueued.id, Status.QUEUED)


def test_a_paused_periodic_task_is_not_due(store):
    store.set_periodic({"a": -10, "b": -10})
    assert store.pause_periodic("a", paused=True)
    assert [name for name, _ in store.due_periodic(["a", "b"])] == ["b"]
    assert [(row.name, row.paused) for row in store.periodic()] == [("a", True), ("b", False)]
    store.set_periodic({"a": -10})
    assert [name for name, _ in store.due_periodic(["a", "b"])] == ["b"], "a worker that starts changes nothing"
    assert store.pause_periodic("a", paused=False)
    assert [name for name, _ in store.due_periodic(["a", "b"])] == ["a", "b"]


def test_resuming_can_set_the_next_run(store):
    store.set_periodic({"a": -10})
    store.pause_periodic("a", paused=True)
    assert store.pause_periodic("a", paused=False, seconds=LATER)
    assert store.due_periodic(["a"]) == []
    assert not store.pause_periodic("nobody", paused=True)


def test_marks_are_listed_newest_first_within_a_window(store):
    first, second = store.add_chart_mark("deploy", "v1.2", "ada"), store.add_chart_mark("deploy", "<b>v1.3</b>", "bob")
    assert first < second
    found = store.chart_marks(window=60.0)
    assert [(each.id, each.kind, each.text, each.who) for each in found] == [
        (second, "deploy", "<b>v1.3</b>", "bob"),
        (first, "deploy", "v1.2", "ada"),
    ]
    assert [each.id for each in store.chart_marks(window=60.0, limit=1)] == [second]
    time.sleep(0.02)
    assert store.chart_marks(window=0.001) == []


def test_who_snoozed_a_group_is_kept_while_it_is_snoozed(store):
    register(store)
    add(store, task())
    (claimed,) = claim(store)
    fail(store, claimed, note=NOTE._replace(fingerprint="f"))
    group = store.mark_group("f", snooze=60.0, who="ada")
    assert (group.snoozed_by, group.acknowledged_by) == ("ada", "")
    assert store.mark_group("f", note="known", who="bob").snoozed_by == "ada"
    assert store.mark_group("f", snooze=0.0, who="bob").snoozed_by == ""


def test_a_sample_has_what_ended_with_its_times(store):
    assert store.finished_sample(window=60.0) == []
    register(store)
    add(store, task("fetch"), task("parse"), task("fetch"), task("fetch"))
    done, failed, retried, _ = claim(store)
    settle(store, done, Kind.DONE)
    fail(store, failed)
    retry(store, retried)
    sample = store.finished_sample(window=60.0)
    assert [(each.task_type, each.status) for each in sample] == [("fetch", Status.DONE), ("parse", Status.FAILED)]
    for each in sample:
        assert each.due_at <= each.started_at <= each.ended_at
    time.sleep(0.02)
    assert store.finished_sample(window=0.001) == [], "created before the window"


def test_a_sample_of_many_is_spread_over_all_of_them(store):
    register(store)
    add(store, *(task(f"task {number // 20}") for number in range(40)))
    for each in claim(store, limit=40):
        settle(store, each, Kind.DONE)
    sample = store.finished_sample(window=60.0, most=10)
    assert 8 <= len(sample) <= 10
    assert {each.task_type for each in sample} == {"task 0", "task 1"}


def test_a_gap_of_ids_leaves_the_newest_tasks_in_the_sample(store):
    register(store)
    first, *_ = add(store, *(task() for _ in range(3)))
    for each in claim(store):
        settle(store, each, Kind.DONE)
    everything = store.finished_sample(window=60.0)
    set_id(store, first, 1 - 10**6)
    assert sorted(store.finished_sample(window=60.0, most=50)) == sorted(everything)


def set_id(store, number, new):
    """Renumber a task, so that there is a gap behind it."""
    statement = f"UPDATE {{}}task_queue SET id = {new} WHERE id = {number}"
    if hasattr(store.db, "write"):
        store.db.write(lambda own: own.execute(statement.format("")))
    else:
        with store.db.transaction() as cursor:
            cursor.connection.execute(statement.format(f'"{store.db.schema}".'))


def found(store, text, **more):
    return {row.id for row in store.task_lines(TaskFilter(search=task_search(text), **more)).rows}


def test_tasks_are_found_by_unique_key_and_by_part_of_their_arguments(store):
    first, second, third = add(
        store,
        task("fetch", '{"url":"https://shop.test/Größe/%_"}', unique_key="shop:1"),
        task("fetch", '{"n":42}', queue="mail"),
        task("parse", '{"url":"https://shop.test/2"}'),
    )
    assert found(store, "SHOP.test/") == {first, third}
    assert found(store, "grÖSSe") == found(store, "größe/%_") == {first}
    assert found(store, "shop:1") == {first}
    assert found(store, "shop:") == set(), "a unique key is found as a whole"
    assert found(store, '"n":42') == {second}
    assert found(store, "shop.test", task_type="parse") == {third}
    assert found(store, "shop.test", status=Status.QUEUED) == {first, third}
    assert found(store, "42", queue="default") == found(store, "nothing") == found(store, "\0") == set()


def test_a_masked_secret_is_not_found_by_its_value(store):
    secret = "hunter2-hunter2-hunter2"
    add(store, task("login", f'{{"user":"ada","password":"{secret}"}}', unique_key=f"password={secret}"))
    for text in (secret, secret[:7], f"password={secret}"):
        page = store.task_lines(TaskFilter(search=task_search(text)))
        assert (page.rows, page.looked, page.next) == ([], 1, None)
    assert len(found(store, '"user":"ada"')) == 1


def test_a_search_reads_a_bounded_number_of_tasks(store):
    numbers = add(store, *(task("fetch", f'{{"n":"<{n}>"}}') for n in range(9)))
    page = store.task_lines(TaskFilter(search=task_search("<0>")), look=4)
    assert (page.rows, page.looked, page.next) == ([], 4, str(numbers[5]))
    page = store.task_lines(TaskFilter(search=task_search("<0>"), before=int(page.next)), look=9)
    assert [row.id for row in page.rows] == [numbers[0]]


@pytest.fixture
def nightly(store):
    """A schedule with one task that runs every hour."""
    app = outlast.App(store)

    @app.periodic(every=LATER, name="nightly", overlap="skip")
    def nightly() -> None: ...

    app.schedule.begin(store)
    return app.schedule


def test_all_workers_leave_a_paused_task_alone_until_it_is_resumed(store, another, nightly):
    store.pause_periodic("nightly", paused=False, seconds=-10)
    assert nightly.pause(store, "nightly")
    assert nightly.tick(another) == nightly.tick(store) == 0
    assert nightly.resume(another, "nightly")
    assert nightly.tick(store) == 0, "what was missed is not made up for"
    (row,) = store.periodic()
    assert not row.paused
    assert row.next_run_at > store.now() + timedelta(seconds=LATER / 2)
    assert not nightly.pause(store, "nobody")


def test_a_run_by_hand_leaves_the_next_one(store, nightly):
    (before,) = store.periodic()
    nightly.pause(store, "nightly")
    enqueued = nightly.run_now(store, "nightly")
    assert enqueued.created
    assert not nightly.run_now(store, "nightly").created, "runs must not overlap"
    (after,) = store.periodic()
    assert abs(after.next_run_at - before.next_run_at) < timedelta(seconds=30)
    assert (after.paused, after.last_task, after.last_status) == (True, enqueued.id, Status.QUEUED)
    assert nightly.run_now(store, "nobody") is None
