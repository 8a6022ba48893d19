"""outlast job list, show and failures, and what status says of jobs; on SQLite and PostgreSQL."""

import json
import re
import sys

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.ports.job_rows import RunState, TargetDone, TargetStatus

SECRET = "hunter2hunter2"
ETL = """
from pathlib import Path

import outlast
from outlast.errors import QuotaExhaustedError

app = outlast.App("sqlite:///outlast.db")
once = outlast.RetryPolicy(max_attempts=1)


@app.job("items", entity="item", policy=once, targets=lambda: [{"id": f"i{number:02}", "token": 7} for number in range(20)])
def items(context, target):
    number = int(target["id"][1:])
    if Path("well").exists() and number != 4:
        return
    if number in {3, 4}:
        raise ConnectionError("down, token=hunter2hunter2")
    if number == 5:
        raise ValueError("no good")
    if number == 6:
        raise QuotaExhaustedError("used up", retry_after=7200)


@app.job("tags", entity="tag", policy=once, targets=lambda: range(3))
def tags(context, target):
    pass
"""


@pytest.fixture(params=["sqlite", "postgres"])
def etl(world, request, monkeypatch):
    text, url = ETL, "sqlite:///outlast.db"
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        server.execute("DROP DATABASE IF EXISTS cli_jobs", "CREATE DATABASE cli_jobs")
        url = server.url.rpartition("/")[0] + "/cli_jobs"
        text = ETL.replace("sqlite:///outlast.db", url)
        monkeypatch.setenv("OUTLAST_URL", url)
    (world.folder / "etl.py").write_text(text)
    sys.modules.pop("etl", None)
    world.run("db", "init", "--url", url)
    yield world
    if (module := sys.modules.pop("etl", None)) is not None:
        module.app.close()


def store_of():
    import etl

    return etl.app.store


def run_of(world, *words, code=0):
    return world.json("job", "run", *words, code=code)["run_id"]


def test_runs_are_listed_newest_first(etl):
    first, second = run_of(etl, "etl:items", code=1), run_of(etl, "etl:tags")
    third = run_of(etl, "etl:items", "--only-failed", first, code=1)
    text, data = etl.run("job", "list").stdout.splitlines(), etl.json("job", "list")

    assert [row["run_id"] for row in data] == [third, second, first]
    assert [row["parent"] for row in data] == [first, None, None]
    assert (data[2]["job"], data[2]["entity"], data[2]["env"], data[2]["state"]) == ("items", "item", "local", "done")
    assert (data[2]["total"], data[2]["success_targets"], data[2]["failed_targets"]) == (20, 16, 3)
    assert (data[2]["deferred_targets"], data[2]["exit_code"], data[2]["failure_rate"]) == (1, 1, 0.2)
    assert data[2]["duration"] > 0
    assert text[0].split() == ["RUN", "JOB", "STATE", "EXIT", "STARTED", "TOOK", "FAILED"]  # no room for ENTITY
    assert text[3].startswith(f"{first}  items  done      1")
    assert "20.0%, 3 of 20" in text[3]
    assert [row["run_id"] for row in etl.json("job", "list", "--job", "items", "--limit", 1)] == [third]
    assert max(map(len, text)) <= 80


def test_with_room_the_entity_is_told_too(etl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    run_of(etl, "etl:items", code=1)
    text = etl.run("job", "list").stdout

    assert text.split()[6] == "ENTITY"
    assert "20.0%, 3 of 20, 1 deferred" in text


def test_without_runs(etl):
    assert etl.run("job", "list").stdout == "no runs; outlast job run MODULE:JOB starts one\n"
    assert etl.run("job", "list", "--job", "items").stdout.startswith("no runs match; outlast job list ")
    assert etl.json("job", "list") == []
    for command in ("show", "failures"):
        result = etl.run("job", command, "nosuch", code=1)
        assert result.stderr == "Error: run nosuch does not exist\n  outlast job list shows the runs\n"


def test_the_last_run_is_called_last(etl):
    for command in ("show", "failures"):
        result = etl.run("job", command, "last", code=1)
        assert result.stderr == "Error: there is no run yet\n  outlast job run MODULE:JOB starts one\n"
    run_of(etl, "etl:tags")
    second = run_of(etl, "etl:items", code=1)
    assert etl.json("job", "show", "last")["run_id"] == second
    found = etl.json("job", "failures", "last")
    assert (found["run_id"], len(found["targets"])) == (second, 4)
    third = run_of(etl, "etl:tags")
    assert third in etl.run("job", "show", "last").stdout
    assert f"no targets of run {third} failed" in etl.run("job", "failures", "last").stdout


def test_one_run_with_its_parent_and_how_it_compares(etl):
    first = run_of(etl, "etl:items", code=1)
    (etl.folder / "well").touch()
    second = run_of(etl, "etl:items", "--only-failed", first, code=1)
    text, data = etl.run("job", "show", second).stdout, etl.json("job", "show", second)

    assert f"rest of run  {first}" in text
    assert " ".join(text.split()).count(f"compared with {first} 3 fixed, 0 broken, 1 still failing") == 1
    assert f"to show the failures: outlast job failures {second}" in text
    assert text.splitlines()[-1] == f"to run the rest: outlast job run MODULE:JOB --only-failed {second}"
    assert (data["parent"], data["summary"]["run_id"]) == (first, second)
    assert data["compared"] == {"fixed": 3, "broken": 0, "still": 1}
    assert SECRET not in text


def test_what_failed_the_groups_first(etl):
    run = run_of(etl, "etl:items", code=1)
    lines, data = etl.run("job", "failures", run).stdout.splitlines(), etl.json("job", "failures", run)

    assert [line.split()[0] for line in lines if line] == ["SIZE", "2", "1", "TARGET", "i03", "i04", "i05", "i06"]
    assert "in 2h" in lines[-1]
    assert (data["run_id"], [group["size"] for group in data["groups"]]) == (run, [2, 1])
    assert data["groups"][0]["error"] == "ConnectionError: down, token=***"
    assert [(row["source_id"], row["status"], row["category"]) for row in data["targets"]] == [
        ("i03", "failed", "network"), ("i04", "failed", "network"), ("i05", "failed", "unknown"),
        ("i06", "deferred", "quota_exhausted"),
    ]  # fmt: skip
    assert data["targets"][0]["target"] == {"id": "i03", "token": "***"}
    assert (data["targets"][3]["attempts"], data["targets"][0]["retry_at"]) == (1, None)
    assert data["targets"][3]["retry_at"].endswith("+00:00")


def test_only_some_of_what_failed(etl):
    run = run_of(etl, "etl:items", code=1)

    def found(*words):
        data = etl.json("job", "failures", run, *words)
        return [group["source_id"] for group in data["groups"]], [row["source_id"] for row in data["targets"]]

    assert found("--category", "network") == (["i03"], ["i03", "i04"])
    assert found("--category", "network", "--limit", 1) == (["i03"], ["i03"])
    assert found("--status", "deferred") == ([], ["i06"])
    assert found("--status", "failed", "--category", "quota_exhausted") == ([], [])
    assert "4 in total; --limit shows more" in etl.run("job", "failures", run, "--limit", 2).stdout
    assert " match; " in etl.run("job", "failures", run, "--category", "system").stdout
    assert (
        "is not a category\n  choose one of: network, "
        in etl.run("job", "failures", run, "--category", "nosuch", code=2).stderr
    )
    assert " failed; outlast job show" in etl.run("job", "failures", run_of(etl, "etl:tags")).stdout


def test_a_category_is_looked_for_behind_the_first_page(etl, monkeypatch):
    monkeypatch.setattr("outlast.cli.job._PAGE_ROWS", 2)
    run = run_of(etl, "etl:items", code=1)

    assert [row["source_id"] for row in etl.json("job", "failures", run, "--category", "unknown")["targets"]] == ["i05"]
    assert len(etl.json("job", "failures", run, "--category", "network")["targets"]) == 2


def test_a_run_that_nobody_holds_has_died(etl):
    run_of(etl, "etl:tags")
    store = store_of()
    store.add_run("20200101T000000-a", "items", "item", "local", None)
    store.add_targets("20200101T000000-a", [TargetDone("x", TargetStatus.FAILED, error_type="E", error_message="m")])
    died = etl.json("job", "show", "20200101T000000-a")
    text = etl.run("job", "show", "20200101T000000-a").stdout

    assert (died["state"], died["summary"], died["failed_targets"], died["duration"]) == ("died", None, 1, None)
    assert "its process died" in text
    assert text.splitlines()[-1] == "to run the rest: outlast job run MODULE:JOB --resume 20200101T000000-a"
    assert "job items died: outlast job show 20200101T000000-a" in etl.run("status").stdout
    assert [row["run_id"] for row in etl.json("status")["jobs"]] == ["20200101T000000-a"]


def test_only_the_newest_run_of_a_held_job_is_running(etl):
    run_of(etl, "etl:tags")
    store = store_of()
    for run in ("a", "b"):
        store.add_run(run, "items", "item", "local", None if run == "a" else "a")
    lock = store.lock_job("items", "here, process 7")
    try:
        assert [(row["run_id"], row["state"]) for row in etl.json("job", "list", "--job", "items")] == [
            ("b", "running"), ("a", "died"),
        ]  # fmt: skip
        assert etl.json("job", "show", "a")["state"] == "died"
        shown = etl.run("job", "show", "b").stdout
        assert "running, by here, process 7" in shown
        assert "to run the rest:" not in shown
        assert "0 of 0 so far" in etl.run("job", "list").stdout
        assert re.search(r"job items is running, started (now|\d+s ago): run b", etl.run("status").stdout)
    finally:
        lock.release()


def test_a_summary_of_another_version_is_shown_as_far_as_it_goes(etl):
    run_of(etl, "etl:tags")
    store = store_of()
    store.add_run("a", "items", None, "local", None)
    store.end_run("a", RunState.DONE, 1, {"failed_targets": 2, "total_targets": 9, "run_id": "a", "new": [1]})

    assert etl.json("job", "list", "--job", "items")[0]["failed_targets"] == 2
    assert "--only-failed a" in etl.run("job", "show", "a").stdout


def test_nothing_that_was_stored_can_move_the_cursor_or_tell_a_secret(etl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    run_of(etl, "etl:tags")
    store, bad = store_of(), f"a://b:{SECRET}@c \x1b[2J\x9b31m\u202e"
    store.add_run("a", bad, bad, bad, None)
    row = TargetDone(bad, TargetStatus.FAILED, error_type="E", error_message=bad, category="network", origin="http")
    store.add_targets("a", [row._replace(target=json.dumps({"password": SECRET}))])
    outputs = [etl.run("job", "show", "a"), etl.run("status"), etl.run("status", "--json")]
    group = {"size": 1, "category": "network", "origin": "http", "error": bad, "source_id": bad, "fingerprint": "f"}
    summary = {"job_id": bad, "run_id": "a", "entity": bad, "env": bad, "groups": [group], "reasons": [bad]}
    store.end_run("a", RunState.ABORTED, 1, summary)
    for words in (["list"], ["show", "a"], ["failures", "a"]):
        outputs += [etl.run("job", *words), etl.run("job", *words, "--json")]

    for result in outputs:
        assert SECRET not in result.output
        assert not {"\x1b", "\x9b", "\u202e"} & set(result.output)
        assert "***@" in result.output
