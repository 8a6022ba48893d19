"""Batch jobs: runs, what became of their targets, and the lock that keeps two runs apart."""

from datetime import timedelta

import pytest

import outlast
from conformance.polling import at_once, opened
from outlast.errors import ConfigError
from outlast.ports.job_rows import Run, RunState, TargetDone, TargetRow, TargetStatus
from outlast.ports.source_rows import NewAlert

SUCCESS, FAILED, DEFERRED, SKIPPED = TargetStatus
FAILURE = {
    "attempts": 5,
    "target": '{"code":"ä"}',
    "error_type": "HTTPStatusError",
    "error_message": "503 Service Unavailable 🛑",
    "category": "server_error",
    "origin": "http",
    "http_status": 503,
    "fingerprint": "f1",
}


@pytest.fixture(autouse=True)
def let_go(place):
    """One store serves all tests of PostgreSQL: no lock outlives its test."""
    yield
    for store in getattr(place, "opened", ()):
        while store.job_locks:
            store.job_locks.pop().release()


def begin(store, run_id="r1", job="items"):
    store.add_run(run_id, job, "item", "test", None)
    return run_id


def write(store, run_id, **results):
    """Write targets by their ids, with a status or with a result."""
    done = [
        each._replace(source_id=name) if isinstance(each, TargetDone) else TargetDone(name, each)
        for name, each in results.items()
    ]
    return store.add_targets(run_id, done)


def statuses(store, run_id, **which):
    return {row.source_id: row.status for row in store.targets(run_id, **which)}


def names(rows):
    return [row.source_id for row in rows]


class TestRuns:
    def test_a_run_begins(self, store):
        before = store.now()
        run = store.add_run("20260301T120000-3f2a", "items", "item", "prod", "20260228T120000-0000")
        assert before <= run.started_at <= store.now()
        assert run == Run(
            "20260301T120000-3f2a", "items", "item", "prod", "20260228T120000-0000",
            RunState.RUNNING, 0, None, None, run.started_at, None,
        )  # fmt: skip
        assert isinstance(run.state, RunState)
        assert store.run(run.id) == run
        assert run.started_at.utcoffset() == timedelta(0)

    def test_nobody_knows_a_run_that_was_never_begun(self, store):
        assert store.run("r1") is None
        assert store.reopen_run("r1") is None
        assert store.targets("r1") == []
        assert store.done_targets("r1", ["a"]) == set()
        assert store.failure_groups("r1") == []
        store.end_run("r1", RunState.DONE, 0, {"total_targets": 1})
        assert store.run("r1") is None
        assert store.runs() == []

    def test_an_id_is_taken_once(self, store):
        first = store.add_run("r1", "items", None, "test", None)
        with pytest.raises(ConfigError, match="run r1 already exists"):
            store.add_run("r1", "other", None, "test", None)
        assert store.runs() == [first]

    def test_a_run_ends_with_its_figures(self, store):
        summary = {
            "total_targets": 3,
            "groups": [{"fingerprint": "f", "message": "ä 🛑 \x00"}],
            "rate": 0.5,
            "none": None,
        }
        begun = store.add_run("r1", "items", None, "test", None)
        store.end_run("r1", RunState.ABORTED, 1, summary)
        run = store.run("r1")
        assert run.ended_at >= begun.started_at
        assert run == begun._replace(
            state=RunState.ABORTED, total=3, exit_code=1, summary=summary, ended_at=run.ended_at
        )

    def test_what_is_changed_in_a_summary_later_is_not_in_the_store(self, store):
        summary = {"total_targets": 1, "list": [1]}
        begin(store)
        store.end_run("r1", RunState.DONE, 0, summary)
        summary["list"].append(2)
        assert store.run("r1").summary == {"total_targets": 1, "list": [1]}

    def test_a_run_goes_on(self, store):
        begun = store.add_run("r1", "items", None, "test", None)
        write(store, "r1", a=SUCCESS)
        store.end_run("r1", RunState.STOPPED, 1, {"total_targets": 1})
        assert store.reopen_run("r1") == begun == store.run("r1")
        assert statuses(store, "r1") == {"a": SUCCESS}

    def test_the_newest_come_first(self, store):
        for number in range(5):
            begin(store, f"r{number}", job="even" if number % 2 == 0 else "odd")
        assert [run.id for run in store.runs()] == ["r4", "r3", "r2", "r1", "r0"]
        assert [run.id for run in store.runs("even")] == ["r4", "r2", "r0"]
        assert [run.id for run in store.runs("even", limit=2)] == ["r4", "r2"]
        assert [run.id for run in store.runs(limit=1)] == ["r4"]
        assert store.runs("nobody") == []
        assert [run.id for run in store.runs(limit=2, before="r3")] == ["r2", "r1"]
        assert [run.id for run in store.runs("even", before="r2")] == ["r0"]
        assert store.runs(before="r0") == store.runs(before="gone") == []


class TestTargets:
    def test_what_became_of_them(self, store):
        begin(store)
        before = store.now()
        failed = TargetDone("b", FAILED, **FAILURE)
        assert (
            store.add_targets("r1", [failed, TargetDone("a", SUCCESS), TargetDone("c", DEFERRED, retry_in=60.0)]) == 3
        )
        good, bad, later = store.targets("r1")
        assert before <= good.finished_at <= store.now()
        assert good == TargetRow(
            "r1", "a", SUCCESS, 1, None, None, None, None, None, None, None, None, good.finished_at
        )
        assert bad == TargetRow("r1", "b", FAILED, *failed[2:-1], None, bad.finished_at)
        assert before + timedelta(seconds=60) <= later.retry_at <= store.now() + timedelta(seconds=60.1)
        assert isinstance(bad.status, TargetStatus)
        assert bad.finished_at.utcoffset() == later.retry_at.utcoffset() == timedelta(0)

    def test_nothing_is_nothing(self, store):
        begin(store)
        assert store.add_targets("r1", []) == 0
        assert store.done_targets("r1", []) == set()
        assert store.target_counts("r1") == {SUCCESS: 0, FAILED: 0, DEFERRED: 0, SKIPPED: 0}

    @pytest.mark.parametrize("later", TargetStatus)
    @pytest.mark.parametrize("first", TargetStatus)
    def test_the_last_word_counts_but_a_success_stays_one(self, store, first, later):
        """In one batch, and in two."""
        begin(store, "one")
        begin(store, "two")
        results = [TargetDone("a", first, 1, fingerprint="f"), TargetDone("a", later, 2, '{"n":2}')]
        assert store.add_targets("one", results) == 1
        assert [store.add_targets("two", [each]) for each in results] == [1, 0]
        stays = first is SUCCESS and later is not SUCCESS
        for run_id in ("one", "two"):
            (row,) = store.targets(run_id)
            assert (row.status, row.attempts, row.target, row.fingerprint) == (
                (SUCCESS, 1, None, "f") if stays else (later, 2, '{"n":2}', None)
            )

    def test_only_what_is_new_is_counted(self, store):
        begin(store)
        assert write(store, "r1", a=SUCCESS, b=FAILED, c=DEFERRED) == 3
        assert write(store, "r1", a=FAILED, b=SUCCESS, c=FAILED, d=SUCCESS, e=SKIPPED) == 2
        assert statuses(store, "r1") == {"a": SUCCESS, "b": SUCCESS, "c": FAILED, "d": SUCCESS, "e": SKIPPED}
        assert write(store, "r1", a=SUCCESS, c=SKIPPED) == 0

    def test_runs_have_targets_of_their_own(self, store):
        begin(store, "r1")
        begin(store, "r2")
        assert (write(store, "r1", a=SUCCESS), write(store, "r2", a=FAILED)) == (1, 1)
        assert (statuses(store, "r1"), statuses(store, "r2")) == ({"a": SUCCESS}, {"a": FAILED})
        assert (store.done_targets("r1", ["a"]), store.done_targets("r2", ["a"])) == ({"a"}, set())

    def test_those_that_need_no_more(self, store):
        begin(store)
        write(store, "r1", a=SUCCESS, b=FAILED, c=DEFERRED, d=SKIPPED)
        assert store.done_targets("r1", ["a", "b", "c", "d", "e", "a"]) == {"a", "d"}

    def test_thousands_at_once(self, store):
        begin(store)
        ids = [f"item:{number * 7919 % 10_007}" for number in range(2000)]
        assert store.add_targets("r1", [TargetDone(name, SUCCESS) for name in ids]) == 2000
        half = [*ids[:1000], *(f"new:{number}" for number in range(1000))]
        assert store.done_targets("r1", half) == set(ids[:1000])
        assert store.add_targets("r1", [TargetDone(name, FAILED) for name in half]) == 1000
        assert store.target_counts("r1") == {SUCCESS: 2000, FAILED: 1000, DEFERRED: 0, SKIPPED: 0}

    def test_they_are_read_page_by_page(self, store):
        begin(store)
        begin(store, "r2")
        order = ["", " ", "10", "9", "B", "a", "a'\"\\", "ä", "日本", "🛑"]
        store.add_targets("r1", [TargetDone(name, FAILED if name > "B" else SUCCESS) for name in reversed(order)])
        write(store, "r2", other=SUCCESS)
        assert names(store.targets("r1")) == order, "by code point, in every store"
        assert names(store.targets("r1", limit=3)) == order[:3]
        assert names(store.targets("r1", after=order[2], limit=3)) == order[3:6]
        assert names(store.targets("r1", after="")) == order[1:]
        assert names(store.targets("r1", after=order[-1])) == []
        assert names(store.targets("r1", statuses=[FAILED], after="a", limit=2)) == ["a'\"\\", "ä"]
        assert store.done_targets("r1", order) == {"", " ", "10", "9", "B"}

    def test_they_are_found_by_status(self, store):
        begin(store)
        write(store, "r1", a=SUCCESS, b=FAILED, c=DEFERRED, d=SKIPPED, e=FAILED)
        assert names(store.targets("r1", statuses=[FAILED])) == ["b", "e"]
        assert names(store.targets("r1", statuses=(DEFERRED, FAILED))) == ["b", "c", "e"]
        assert names(store.targets("r1", statuses=[DEFERRED, SKIPPED])) == ["c", "d"]
        assert names(store.targets("r1", statuses=[SUCCESS])) == ["a"]
        assert names(store.targets("r1", statuses=list(TargetStatus))) == ["a", "b", "c", "d", "e"]
        assert store.target_counts("r1") == {SUCCESS: 1, FAILED: 2, DEFERRED: 1, SKIPPED: 1}
        write(store, "r1", b=SUCCESS, e=DEFERRED)
        assert names(store.targets("r1", statuses=[FAILED])) == []
        assert names(store.targets("r1", statuses=[DEFERRED])) == ["c", "e"]

    def test_two_write_at_once(self, store, place):
        begin(store)
        both = [TargetDone(f"t{number}", SUCCESS if number % 2 else FAILED) for number in range(500)]
        stores = opened(place, 4)
        added = at_once(lambda own, given: own.add_targets("r1", given), stores, [both, both[::-1], both, both[::-1]])
        assert sum(added) == 500
        assert store.target_counts("r1") == {SUCCESS: 250, FAILED: 250, DEFERRED: 0, SKIPPED: 0}


class TestGroups:
    def test_the_largest_come_first(self, store):
        begin(store)
        causes = {"a": "f2", "b": "f1", "c": "f2", "d": "f3", "e": "f1", "f": "f2", "g": None}
        store.add_targets("r1", [TargetDone(name, FAILED, fingerprint=cause) for name, cause in causes.items()])
        store.add_targets("r1", [TargetDone(f"put off {n}", DEFERRED, fingerprint="f3") for n in range(9)])
        found = store.failure_groups("r1")
        assert [(cause, size, row.source_id) for cause, size, row in found] == [
            ("f2", 3, "a"), ("f1", 2, "b"), ("", 1, "g"), ("f3", 1, "d"),
        ]  # fmt: skip
        assert found[0][2] == store.targets("r1", limit=1)[0]
        assert [cause for cause, _, _ in store.failure_groups("r1", limit=2)] == ["f2", "f1"]

    def test_a_failure_that_was_mended_is_in_none(self, store):
        begin(store)
        write(store, "r1", a=TargetDone("", FAILED, fingerprint="f1"), b=TargetDone("", FAILED, fingerprint="f1"))
        write(store, "r1", a=SUCCESS)
        assert [(cause, size, row.source_id) for cause, size, row in store.failure_groups("r1")] == [("f1", 1, "b")]


class TestComparing:
    def test_every_pair(self, store):
        begin(store, "r1")
        begin(store, "r2")
        pairs = [(first, later) for first in TargetStatus for later in TargetStatus]
        store.add_targets("r1", [TargetDone(f"{a} {b}", a) for a, b in pairs])
        store.add_targets("r2", [TargetDone(f"{a} {b}", b) for a, b in pairs])
        write(store, "r1", only_before=FAILED, only_before_too=SUCCESS)
        write(store, "r2", only_after=FAILED, only_after_too=SUCCESS)
        assert store.compare_runs("r1", "r2") == {"fixed": 2, "broken": 2, "still": 4}
        assert store.compare_runs("r2", "r1") == {"fixed": 2, "broken": 2, "still": 4}
        assert store.compare_runs("r1", "nobody") == {"fixed": 0, "broken": 0, "still": 0}

    def test_which_way_round(self, store):
        begin(store, "r1")
        begin(store, "r2")
        write(store, "r1", a=FAILED, b=DEFERRED, c=SUCCESS, d=FAILED, e=SKIPPED)
        write(store, "r2", a=SUCCESS, b=SUCCESS, c=FAILED, d=DEFERRED, e=FAILED)
        assert store.compare_runs("r1", "r2") == {"fixed": 2, "broken": 1, "still": 1}
        assert store.compare_runs("r2", "r1") == {"fixed": 1, "broken": 2, "still": 1}


class TestPruning:
    def test_old_runs_go_with_their_targets(self, store):
        for run_id in ("old", "open", "again"):
            begin(store, run_id)
            store.add_targets(run_id, [TargetDone(f"t{number}", SUCCESS) for number in range(10)])
        store.end_run("old", RunState.DONE, 0, {})
        store.end_run("again", RunState.DONE, 0, {})
        store.reopen_run("again")
        assert store.prune_runs(3600) == 0
        assert store.prune_runs(-1) == 1
        assert {run.id for run in store.runs()} == {"open", "again"}
        assert store.targets("old") == []
        assert store.target_counts("open")[SUCCESS] == store.target_counts("again")[SUCCESS] == 10
        assert store.prune_runs(-1) == 0

    def test_more_than_a_batch(self, store):
        begin(store)
        for start in range(0, 5000, 1000):
            store.add_targets("r1", [TargetDone(f"t{start + number}", SUCCESS) for number in range(1000)])
        store.end_run("r1", RunState.DONE, 0, {})
        assert store.prune_runs(-1) == 1
        assert sum(store.target_counts("r1").values()) == 0

    def test_the_empty_id_goes_too(self, store):
        begin(store)
        store.add_targets("r1", [TargetDone("", SUCCESS)])
        store.end_run("r1", RunState.DONE, 0, {})
        assert store.prune_runs(-1) == 1
        assert store.targets("r1") == []


class TestLocks:
    def test_a_job_is_kept_to_oneself(self, store, another):
        lock = store.lock_job("items", "host 1, process 7")
        assert lock.held()
        assert store.lock_job("items", "host 1, process 7") is None, "the same handle is no exception"
        assert another.lock_job("items", "host 2, process 8") is None
        assert another.job_holder("items") == store.job_holder("items") == "host 1, process 7"
        assert lock.held()

    def test_jobs_do_not_stand_in_each_others_way(self, store, another):
        locks = [store.lock_job("items", "a"), another.lock_job("tags", "b"), store.lock_job("Items", "c")]
        locks += [another.lock_job(name, "d") for name in ("../../items", "", "item s/ä\n", "x" * 1000)]
        assert all(lock.held() for lock in locks)
        assert (store.job_holder("tags"), another.job_holder("Items"), store.job_holder("")) == ("b", "c", "d")

    def test_who_lets_go_lets_others(self, store, another):
        lock = store.lock_job("items", "first")
        lock.release()
        assert not lock.held()
        assert another.job_holder("items") is None
        next_one = another.lock_job("items", "second")
        assert next_one.held()
        assert store.job_holder("items") == "second"
        lock.release()
        assert next_one.held(), "to let go twice takes nothing from the next"
        assert store.lock_job("items", "third") is None

    def test_nobody_holds_what_was_never_locked(self, store):
        assert store.job_holder("items") is None

    def test_one_of_many_gets_it(self, place):
        stores = opened(place, 6)
        for _ in range(5):
            locks = at_once(lambda own: own.lock_job("items", "one of us"), stores)
            (lock,) = [each for each in locks if each is not None]
            assert lock.held()
            lock.release()

    def test_a_store_that_is_closed_has_let_go(self, store, database):
        mine = database.open()
        lock = mine.lock_job("items", "mine")
        mine.close()
        assert not lock.held()
        assert store.lock_job("items", "next").held()
        lock.release()
        assert store.job_holder("items") == "next"


class TestAlerts:
    @pytest.fixture
    def heard(self):
        return []

    @pytest.fixture
    def items(self, store, heard, tmp_path):
        app = outlast.App(store, notify=lambda message: heard.append(message.title), spool=tmp_path / "spool")

        @app.job("items", max_failure_rate=0.1, policy=outlast.RetryPolicy(max_attempts=1))
        def items(context, target):
            if target == "stop":
                raise KeyboardInterrupt
            if target == "abort":
                raise outlast.errors.AbortJob("closed")
            if target == "bad":
                raise ValueError("no")

        return items

    def test_a_failed_gate_is_told_once_and_the_next_pass_is_the_recovery(self, store, items, heard):
        assert items.run(["good", "bad"]).exit_code == 1
        (alert,) = store.alerts()
        assert (alert.key, alert.kind, alert.state) == ("job:items", "first", "failed")
        assert alert.delivered_at is not None, "the run delivers at its end"
        assert alert.text.startswith("items ")
        assert items.run(["good", "bad"]).exit_code == 1
        assert items.run(["good"]).exit_code == 0
        assert items.run(["good"]).exit_code == 0
        assert [title.partition(": run")[0] for title in heard] == [
            "job items failed: 1 of 2 targets failed (at most 10 % allowed)",
            "recovered: job items",
        ]

    def test_an_aborted_run_is_told(self, items, heard):
        assert items.run(["abort"]).exit_code == 1
        assert heard == ["job items failed: aborted: closed, 1 of 1 target failed (at most 10 % allowed)"]

    def test_a_run_whose_targets_cannot_be_read_is_told(self, items, heard):
        def unreadable():
            raise OSError("cut off")
            yield

        items.run(unreadable())
        assert [title.partition(":")[0] for title in heard] == ["job items failed"]

    def test_a_run_in_which_no_target_was_attempted_is_no_recovery(self, items, heard):
        items.run(["bad"])
        items.run(["good"], limit=0)
        items.run([])
        items.run(resume="last", targets=[])
        assert len(heard) == 1, "the failed run"
        items.run(["good"])
        failed, recovered = heard
        assert failed.startswith("job items failed: "), "how long it took is in the title if it was long"
        assert recovered.startswith("recovered")

    def test_a_stopped_run_a_dry_one_and_one_without_a_ledger_tell_nothing(self, store, items, heard):
        with pytest.raises(KeyboardInterrupt):
            items.run(["stop"])
        items.run(["bad"], dry_run=True)
        items.ledger = False
        items.run(["bad"])
        assert (store.alerts(), heard) == ([], [])

    def test_the_alert_is_written_with_the_end_of_the_run(self, store):
        """Both or neither: what a kill in between would leave."""
        run = begin(store)
        alerts = [NewAlert("job:items", "failed", "items failed"), NewAlert("k", "s", None)]
        with pytest.raises(Exception, match=r"(?i)null"):
            store.end_run(run, RunState.DONE, 1, {}, alerts)
        assert (store.run(run).state, store.alerts()) == (RunState.RUNNING, [])
