"""The pages of jobs: runs, what the gate said, what failed, and the command that does the rest."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import quote, urlencode

import pytest

import outlast
from outlast.decide.gate import Gate
from outlast.ports.job_rows import Run, RunState, TargetDone, TargetStatus
from outlast.report.job_runs import JobRunView, gate_line, remaining_command
from web_weighing import MOST_BYTES, weight

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECRET = "sk-live-0123456789abcdefghij"
RUN = Run("r1", "items", None, "test", None, RunState.DONE, 10, 0, {}, NOW, NOW + timedelta(seconds=90))


def view(run, holder=None):
    """Return a run with its state and counts; two of its targets have failed."""
    store = SimpleNamespace(target_counts=lambda run_id: {TargetStatus.FAILED: 2})
    return JobRunView(store, run, holder, NOW)


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    made.create_schema()
    yield made
    made.close()


def items_job(app, bad=(), **settings):
    """A job over ten targets, some of which fail."""

    @app.job("items", **{"max_failure_rate": 0.1, "policy": outlast.RetryPolicy(max_attempts=1), **settings})
    def items(context, target):
        if target in bad:
            message = f"no <b>good</b> api_key={SECRET}" if target % 2 else "another reason"
            raise (ValueError if target % 2 else KeyError)(message)

    return items


class TestRuns:
    def test_verdict_counts_and_duration(self, app, site):
        job = items_job(app, bad={1, 2, 3})
        summary = job.run(range(10))
        (row,) = site.get("/api/jobs").json()["rows"]
        assert (row["run_id"], row["verdict"], row["exit_code"], row["total"]) == (summary.run_id, "failed", 1, 10)
        assert row["counts"]["failed_targets"] == 3
        assert row["failure_rate"] == 0.3
        assert row["reasons"] == ["3 of 10 targets failed (at most 10 % allowed)"]
        assert row["duration"] >= 0
        page = site.get("/jobs").text
        assert "3 of 10 targets failed (at most 10 % allowed)" in page
        assert f'href="/jobs/{summary.run_id}"' in page

    def test_narrowed_and_page_by_page(self, app, site):
        for number in range(70):
            app.store.add_run(f"r{number:03}", "even" if number % 2 == 0 else "odd", None, "test", None)
        seen, before = [], ""
        while before is not None:
            answer = site.get(f"/api/jobs?before={before}" if before else "/api/jobs").json()
            seen += [row["run_id"] for row in answer["rows"]]
            before = answer["next"]
        assert seen == [f"r{number:03}" for number in reversed(range(70))]
        assert {row["job"] for row in site.get("/api/jobs?job=odd").json()["rows"]} == {"odd"}
        assert site.get("/jobs?before=nosuch").status_code == 200

    def test_one_that_runs_and_one_that_died(self, app, site):
        app.store.add_run("r1", "items", None, "test", None)
        app.store.add_run("r2", "items", None, "test", None)
        lock = app.store.lock_job("items", "host, process 1")
        states = {row["run_id"]: row["state"] for row in site.get("/api/jobs").json()["rows"]}
        assert states == {"r2": "running", "r1": "died"}
        assert site.get("/api/jobs/r2").json()["holder"] == "host, process 1"
        assert site.get("/api/jobs/r1").json()["holder"] is None
        lock.release()
        assert {row["state"] for row in site.get("/api/jobs").json()["rows"]} == {"died"}
        answer = site.get("/api/jobs/r2").json()
        assert answer["rest"] == "outlast job run MODULE:JOB --resume r2"
        assert "Its process died" in answer["verdict"]["text"]

    def test_none(self, site):
        assert "outlast job run MODULE:JOB" in site.get("/jobs").text


class TestRun:
    def test_the_gate_the_groups_and_the_rest(self, app, site):
        job = items_job(app, bad={1, 2, 3})
        run_id = job.run(range(10)).run_id
        answer = site.get(f"/api/jobs/{run_id}").json()
        assert answer["verdict"] == {
            "text": "The gate failed: 3 of 10 targets failed (at most 10 % allowed).", "kind": "bad",
        }  # fmt: skip
        assert [(each["size"], each["source_id"]) for each in answer["groups"]] == [(2, "1"), (1, "2")]
        assert [(each["source_id"], each["status"]) for each in answer["targets"]] == [
            ("1", "failed"), ("2", "failed"), ("3", "failed"),
        ]  # fmt: skip
        assert answer["rest"] == f"outlast job run MODULE:JOB --only-failed {run_id}"
        page = site.get(f"/jobs/{run_id}").text
        assert "no &lt;b&gt;good&lt;/b&gt;" in page
        assert SECRET not in page + str(answer)

    def test_one_group(self, app, site):
        job = items_job(app, bad=set(range(10)))
        run_id = job.run(range(10)).run_id
        groups = site.get(f"/api/jobs/{run_id}").json()["groups"]
        for group in groups:
            found = site.get(f"/api/jobs/{run_id}?group={group['fingerprint']}").json()
            assert [each["fingerprint"] for each in found["targets"]] == [group["fingerprint"]] * group["size"]
            assert (found["next"], found["looked"]) == (None, 10)
        assert site.get(f"/api/jobs/{run_id}?group=nosuch").json()["targets"] == []

    @pytest.mark.parametrize("query", [{}, {"group": "f1"}, {"status": "failed"}])
    def test_targets_page_by_page(self, app, site, query):
        app.store.add_run("r1", "items", None, "test", None)
        more = {"category": "data", "error_type": "E", "error_message": "m", "fingerprint": "f1"}
        targets = [TargetDone(f"t{number:03}/&", TargetStatus.FAILED, **more) for number in range(120)]
        app.store.add_targets("r1", targets)
        answer = site.get("/api/jobs/r1", params=query).json()
        seen = answer["targets"]
        while answer["next"] is not None:
            answer = site.get("/api/jobs/r1", params={**query, "after": answer["next"]}).json()
            seen += answer["targets"]
        assert [each["source_id"] for each in seen] == [each.source_id for each in targets]

    def test_no_more_is_looked_at_than_for_other_lists(self, app, site, monkeypatch):
        monkeypatch.setattr("outlast.web.pages.jobs.MAX_ROWS_SCANNED", 4)
        monkeypatch.setattr("outlast.web.pages.jobs._BATCH", 2)
        app.store.add_run("r1", "items", None, "test", None)
        marks = ["a"] * 6 + ["b"]
        app.store.add_targets(
            "r1", [TargetDone(f"t{place}", TargetStatus.FAILED, fingerprint=mark) for place, mark in enumerate(marks)]
        )
        first = site.get("/api/jobs/r1?group=b").json()
        assert (first["targets"], first["next"], first["looked"]) == ([], "t3", 4)
        second = site.get("/api/jobs/r1?group=b&after=t3").json()
        assert ([each["source_id"] for each in second["targets"]], second["next"]) == (["t6"], None)

    def test_compared_with_its_parent(self, app, site):
        bad = {1, 2, 3}
        job = items_job(app, bad=bad)
        before = job.run(range(10)).run_id
        bad.clear()
        bad.add(2)
        after = job.run(only_failed=before).run_id
        answer = site.get(f"/api/jobs/{after}").json()
        assert answer["compared"] == {"parent": before, "fixed": 2, "broken": 0, "still": 1}
        assert f'href="/jobs/{before}"' in site.get(f"/jobs/{after}").text
        assert site.get(f"/api/jobs/{before}").json()["compared"] is None

    def test_nothing_is_left_to_do(self, app, site):
        run_id = items_job(app).run(range(3)).run_id
        answer = site.get(f"/api/jobs/{run_id}").json()
        assert (answer["rest"], answer["groups"], answer["targets"]) == (None, [], [])
        assert answer["verdict"]["text"] == (
            "The gate passed: none of 3 failed. Up to 10 % of the targets may fail; deferred targets count as failed."
        )
        assert "Run the rest" not in site.get(f"/jobs/{run_id}").text

    def test_a_summary_of_another_version(self, app, site):
        app.store.add_run("r1", "items", None, "test", None)
        odd = {"figures": [1], "by_category": None, "by_origin": {"http": "many"}, "reasons": [1], "groups": 3}
        app.store.end_run("r1", RunState.ABORTED, 1, odd)
        assert site.get("/jobs/r1").status_code == 200
        assert site.get("/api/jobs/r1").status_code == 200
        assert site.get("/jobs").status_code == 200

    def test_there_is_none(self, site):
        assert site.get("/jobs/nosuch").status_code == 404
        assert site.get("/jobs/..%2F..%2Fetc").status_code == 404

    def test_the_job_is_named_where_its_code_is_at_hand(self, app, site, monkeypatch):
        job = items_job(app, bad={1})
        monkeypatch.setitem(globals(), "items", job)
        run_id = job.run(range(3)).run_id
        assert (
            site.get(f"/api/jobs/{run_id}").json()["rest"] == f"outlast job run {__name__}:items --only-failed {run_id}"
        )


class TestWords:
    def test_state_and_result(self):
        running = RUN._replace(state=RunState.RUNNING, ended_at=None, exit_code=None, summary=None)
        assert view(running, "host").state == "running"
        assert (view(running).state, view(running).result) == ("died", "died")
        assert (view(RUN).state, view(RUN).result) == ("done", "passed")
        assert view(RUN._replace(exit_code=1)).result == "failed"

    def test_how_long_it_took(self):
        running = RUN._replace(
            state=RunState.RUNNING, ended_at=None, summary=None, started_at=NOW - timedelta(seconds=5)
        )
        assert view(RUN).seconds == 90
        assert view(RUN._replace(summary={"duration": 80.5})).seconds == 80.5
        assert view(RUN._replace(summary={"duration": None})).seconds is None
        assert view(running, "host").seconds == 5
        assert view(running).seconds is None

    def test_counts(self):
        assert view(RUN._replace(summary=None)).counts == {
            "success_targets": 0, "failed_targets": 2, "deferred_targets": 0, "skipped_targets": 0,
        }  # fmt: skip
        assert view(RUN._replace(summary={"not_attempted": 3})).counts["not_attempted"] == 3

    @pytest.mark.parametrize(
        ("data", "command"),
        [
            ({"failed_targets": 1}, "outlast job run m:j --only-failed r1"),
            ({"deferred_targets": 1}, "outlast job run m:j --only-failed r1"),
            ({"failed_targets": 1, "not_attempted": 2}, "outlast job run m:j --resume r1"),
            ({"total_is_known": False}, "outlast job run m:j --resume r1"),
            ({}, None),
        ],
    )
    def test_the_rest(self, data, command):
        assert remaining_command({"run_id": "r1", **data}, ["m:j"]) == command

    @pytest.mark.parametrize(
        ("run", "state", "counts", "gate", "kind", "text"),
        [
            (RUN, "done", {}, None, "ok", "The gate passed: none of 10 failed."),
            (
                RUN._replace(summary={"failure_rate": 0.1}), "done", {"failed_targets": 1, "deferred_targets": 2},
                Gate(0.2, min_sample=5, max_failures=3, defer_ok=True), "ok",
                (
                    "The gate passed: 1 of 10 failed, 2 deferred (10 %). Up to 20 % of the targets may fail if "
                    "there are 5 or more, and 3 at most; deferred targets do not count."
                ),
            ),
            (
                RUN._replace(exit_code=1, summary={"reasons": ["a", "b"]}), "done", {}, Gate(0.0), "bad",
                "The gate failed: a; b.",
            ),
            (RUN._replace(exit_code=2, summary=None), "aborted", {}, None, "bad",
             "The gate failed: exit code 2."),
            (RUN._replace(ended_at=None, exit_code=None), "running", {}, Gate(0.0), "info",
             "Running; the gate checks it at the end. No target may fail; deferred targets count as failed."),
            (RUN._replace(ended_at=None, exit_code=None), "died", {}, Gate(0.0), "bad",
             "Its process died before the gate checked it. Completed targets are kept."),
        ],
    )  # fmt: skip
    def test_what_the_gate_said(self, run, state, counts, gate, kind, text):
        assert gate_line(run, state, counts, gate) == (text, kind)


class TestManyTargets:
    @pytest.fixture
    def run(self, app):
        """A run of 130 targets whose ids hold a password, all of which failed with long errors."""
        more = {"category": "data", "error_type": "E", "error_message": "<long> " * 600}
        targets = [
            TargetDone(f"https://bob:{SECRET}-{number:03}@shop.test/p{number:03}", TargetStatus.FAILED, **more)
            for number in range(130)
        ]
        app.store.add_run("r1", f"sync api_key={SECRET}", None, "test", None)
        app.store.add_targets("r1", [each._replace(fingerprint=f"f{place}") for place, each in enumerate(targets)])
        return "r1"

    def test_pages_follow_one_another_and_no_address_has_the_password(self, run, site):
        query, seen = "", []
        for _ in range(5):
            answer = site.get(f"/api/jobs/{run}{query}")
            told = answer.json()
            page = site.get(f"/jobs/{run}{query}").text
            assert SECRET not in answer.text + page
            seen += [row["source_id"] for row in told["targets"]]
            if told["next"] is None:
                break
            assert told["next"].startswith("#")
            query = f"?{urlencode({'after': told['next']})}"
            assert f"after={quote(told['next'])}" in page
        assert seen == [f"https://***@shop.test/p{number:03}" for number in range(130)]

    def test_a_place_that_is_none_is_said_to_be_none(self, run, site):
        assert site.get(f"/jobs/{run}", params={"after": "#" + "0" * 32}).status_code == 404

    def test_a_raw_place_is_not_told_again(self, run, site):
        answer = site.get(f"/api/jobs/{run}", params={"after": f"https://bob:{SECRET}-100@shop.test/p100"})
        assert SECRET not in answer.text
        assert len(answer.json()["targets"]) == 29

    def test_a_page_weighs_little(self, run, site):
        assert weight(site, f"/jobs/{run}") < MOST_BYTES

    def test_the_name_of_a_job_is_masked_where_it_is_chosen(self, run, site):
        page, twin = site.get("/jobs"), site.get("/api/jobs")
        assert SECRET not in page.text + twin.text
        assert twin.json()["names"] == ["sync api_key=***"]
        key = re.search(r'<option value="(#[0-9a-f]{32})"', page.text)[1]
        chosen = site.get("/api/jobs", params={"job": key})
        assert [row["run_id"] for row in chosen.json()["rows"]] == [run]
        assert chosen.json()["job"] == key
        assert site.get("/api/jobs", params={"job": "#nosuch"}).json()["rows"] == []

    def test_the_log_has_no_password(self, app, caplog):
        @app.job(
            "sync", max_failure_rate=1.0, policy=outlast.RetryPolicy(max_attempts=2, base_delay=0.0, jitter="none")
        )
        def sync(context, target):
            context.log.warning("a word of the handler's")
            raise ConnectionResetError("no")

        sync.run([f"https://bob:{SECRET}@shop.test/p"])
        assert "sync https://***@shop.test/p: attempt 1 of 2 failed" in caplog.text
        assert "sync https://***@shop.test/p failed (exhausted)" in caplog.text
        assert {record.source_id for record in caplog.records if hasattr(record, "source_id")} == {
            "https://***@shop.test/p"
        }
        assert [record for record in caplog.records if SECRET in f"{record.getMessage()} {vars(record)}"] == []
